"""Tables as CSV files, whose texts are no formulas in a spreadsheet (`site_db.files.spreadsheet`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import polars as pl

from site_db.files.plain_values import FORMULA, NUMBER
from site_db.files.written import no_link, regular

Kinds = Mapping[str, pl.DataType | type[pl.DataType]]


def write_csv(table: pl.DataFrame, target: Path | IO[bytes], include_header: bool = True) -> None:
    text = pl.col(pl.String)
    is_formula = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    safe = table.with_columns(pl.when(is_formula).then("'" + text).otherwise(text).name.keep())
    safe.write_csv(no_link(target) if isinstance(target, Path) else target, include_header=include_header)


def columns_of(path: Path) -> list[str]:
    return pl.read_csv(regular(path), n_rows=0, glob=False).columns


def read_csv(path: Path, kinds: Kinds, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Some columns of a table, or all; `kinds` are the types of some."""
    table = pl.read_csv(regular(path), columns=columns, schema_overrides=kinds, glob=False)
    text = pl.col(pl.String)
    was_formula = text.str.starts_with("'") & text.str.slice(1).str.contains(FORMULA)
    return table.with_columns(pl.when(was_formula).then(text.str.slice(1)).otherwise(text).name.keep())
