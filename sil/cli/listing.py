"""A listing: rows of facts, printed as a table or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from sil.cli.console import print_json, print_whole

Row = Mapping[str, Any]
"""The facts of one row, as JSON has them."""


@dataclass(frozen=True)
class Column:
    """A column of the printed table, made from the facts of each row."""

    title: str
    show: Callable[[Row], str]
    is_number: bool = False


def text(title: str, key: str | None = None) -> Column:
    """A column of names; None is left blank. By default, the key is the title with underscores."""
    return _column(title, key, "", is_number=False)


def number(title: str, key: str | None = None, spec: str = ",") -> Column:
    """A column of numbers in the format `spec`, otherwise like `text`."""
    return _column(title, key, spec, is_number=True)


def _column(title: str, key: str | None, spec: str, is_number: bool) -> Column:
    name = key or title.replace(" ", "_")
    return Column(title, lambda row: "" if row[name] is None else format(row[name], spec), is_number)


def texts(*titles: str) -> Iterable[Column]:
    """Columns of names under their own keys."""
    return map(text, titles)


@dataclass(frozen=True)
class Listing:
    """Rows under a title; JSON has all of them under `name`, a table the first `most` and then `total`."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    total: Row | None = None
    most: int | None = None
    hint: str = ""

    def table(self) -> Table:
        """The rows as a table; the title says how many are left out, with a hint what lists them."""
        left_out = self.most is not None and len(self.rows) > self.most
        more = f" (the first {self.most} of {len(self.rows):,}{self.hint})" if left_out else ""
        table = Table(title=self.title + more, title_justify="left")
        for column in self.columns:
            table.add_column(column.title, justify="right" if column.is_number else "left")
        for row in self.rows[: self.most]:
            table.add_row(*(column.show(row) for column in self.columns))
        if self.total is not None:
            table.add_section()
            table.add_row(*(column.show(self.total) for column in self.columns))
        return table


def print_listings(listings: Sequence[Listing], as_json: bool = False) -> None:
    """Print all listings as one JSON object, or as tables, of several those that have rows."""
    if as_json:
        totals = {f"{one.name}_total": one.total for one in listings if one.total is not None}
        print_json({one.name: list(one.rows) for one in listings} | totals)
        return
    for one in listings:
        if one.rows or one.total or len(listings) == 1:
            print_whole(one.table())
