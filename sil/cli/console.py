"""Shared by all commands: consoles, listings, error messages, exit codes."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Column as TableColumn
from rich.table import Table
from rich.text import Text

from scheduler import UserError, printable
from sil.experiment.output_folder import failed_access
from sil.report.listing import Column, Listing, Row
from sil.trace.json_text import json_text
from sil.workers.executor import Interrupted
from sil.world import SHOW_TRACEBACKS
from sil.world.guard.faults import one_line
from site_db.files.advice import of_command

try:
    from typer._click.globals import get_current_context
except ImportError:  # earlier versions use click itself
    from click import get_current_context  # type: ignore[no-redef]

EXIT_FAULT = 1
"""A scheduler under test broke a rule."""
EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

MORE_THAN_ANY_TABLE = 1000


class Terminal(Console):
    """A console on which all text stands for itself: what it prints may contain names and messages of others,
    so nothing in it is markup, the name of an emoji, or an escape sequence. `styled` makes styles."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


out = Terminal()
err = Terminal(stderr=True)


def styled(text: str, style: str) -> Text:
    """Text in a style of Rich, like "bold red"."""
    return Text(printable(text), style)


def _options() -> set[str]:
    """Of the command that runs."""
    context = get_current_context(silent=True)
    return set() if context is None else {name for option in context.command.params for name in option.opts}


@contextmanager
def one_sentence_for_bad_input() -> Iterator[None]:
    """End the command with one sentence: exit code 2 for a user error, a file that cannot be accessed, or an
    error of the testbed or a library; 130 on Ctrl-C."""
    try:
        with of_command(_options()):
            yield
    except UserError as error:
        if os.environ.get(SHOW_TRACEBACKS):
            err.print(traceback.format_exc(), soft_wrap=True)
        fail(str(error))
    except Interrupted as interrupted:
        err.print(f"Interrupted: {interrupted}. Repeat the command to resume.")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except KeyboardInterrupt:
        err.print("Interrupted.")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
        raise
    except BaseException as error:  # those of Polars are no Exceptions
        if isinstance(error, SystemExit | GeneratorExit):
            raise
        if os.environ.get(SHOW_TRACEBACKS):
            err.print(traceback.format_exc(), soft_wrap=True)
        fail(failed_access(error) or _failed(error))


def _failed(error: BaseException) -> str:
    """A sentence on an error that nobody expected: exit code 1 would blame a scheduler."""
    what = f"{type(error).__name__}: {one_line(error)}"
    return f"the testbed failed ({what}); no scheduler is to blame; `sil --traceback` shows where"


def natural_width(table: Table) -> int:
    """Width at which a table shows all digits, in columns."""
    return Measurement.get(out, out.options.update(max_width=MORE_THAN_ANY_TABLE), table).maximum


def print_whole(table: Table) -> None:
    """Print a table with all digits, even if it is wider than the terminal."""
    Terminal(width=max(out.width, natural_width(table))).print(table)


def folding_table(*headings: str, title: str | None = None) -> Table:
    """A table whose cells are wrapped to the width of the terminal."""
    columns = (TableColumn(heading, overflow="fold") for heading in headings)
    return Table(*columns, title=title, title_justify="left")


def print_line(*parts: str | Text) -> None:
    """Print a line of text, parts of which may be `styled`; the terminal breaks it where it is too long."""
    out.print(*parts, sep="", soft_wrap=True)


def print_json(value: object) -> None:
    """Print machine-readable output; the caller prints nothing else to standard output."""
    print(json_text(value))


def print_fault(sentence: str) -> None:
    """Report a fault of a scheduler under test."""
    _report(styled("Fault:", "bold red"), sentence)


def print_note(sentence: str) -> None:
    """Print a note; the command continues."""
    _report(styled("Note:", "bold yellow"), sentence)


def fail(sentence: str) -> NoReturn:
    """Report a user error and exit with code 2."""
    _report(styled("Error:", "bold red"), sentence)
    raise typer.Exit(EXIT_BAD_INPUT)


def exit_on_faults(sentences: Iterable[str]) -> None:
    """Report faults of schedulers under test; if there are any, exit with code 1."""
    for sentence in (faults := list(sentences)):
        print_fault(sentence)
    if faults:
        raise typer.Exit(EXIT_FAULT)


def exit_with_fault(sentence: str) -> NoReturn:
    """Report a fault of a scheduler under test, and exit with code 1."""
    print_fault(sentence)
    raise typer.Exit(EXIT_FAULT)


def _report(label: Text, sentence: str) -> None:
    err.print(label, sentence, soft_wrap=True)


def as_table(listing: Listing) -> Table:
    """The rows as a table; the title counts the rows that are left out, with a hint how to list them."""
    left_out = listing.most is not None and len(listing.rows) > listing.most
    more = f" (the first {listing.most} of {len(listing.rows):,}{listing.hint})" if left_out else ""
    table = Table(title=listing.title + more, title_justify="left")
    for column in listing.columns:
        table.add_column(column.title, justify="right" if column.is_number else "left")
    for row in listing.rows[: listing.most]:
        table.add_row(*(_cell(column, row) for column in listing.columns))
    if listing.total is not None:
        table.add_section()
        table.add_row(*(column.show(listing.total) for column in listing.columns))
    return table


def _cell(column: Column, row: Row) -> str | Text:
    text = column.show(row)
    return styled(text, "red") if column.warns(row) else text


def print_listings(listings: Sequence[Listing], as_json: bool = False) -> None:
    """Print all listings as one JSON object, or as tables, of several those that have rows."""
    if as_json:
        totals = {f"{one.name}_total": one.total for one in listings if one.total is not None}
        print_json({one.name: list(one.rows) for one in listings} | totals)
        return
    for one in listings:
        if one.rows or one.total or len(listings) == 1:
            print_whole(as_table(one))
