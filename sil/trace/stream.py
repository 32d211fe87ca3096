"""Tables as CSV files, in which no text is a formula for a spreadsheet, and files that a thread writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import polars as pl
import pyarrow as pa
import pyarrow.compute  # which fills Arrow's registry of functions, before a thread looks one up
import pyarrow.parquet as pq

from site_db.files.access import no_link, regular
from site_db.files.formats import FORMULA, NUMBER

Kinds = Mapping[str, pl.DataType | type[pl.DataType]]


def write_csv(table: pl.DataFrame, target: Path | IO[bytes], include_header: bool = True) -> None:
    begins = table.select(pl.col(pl.String).str.contains(FORMULA).any())
    text = pl.col([column.name for column in begins if column.item()])  # none, most of the time
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


Schema = Mapping[str, pl.DataType | type[pl.DataType]]
COMPATIBLE = pl.CompatLevel.oldest()
"""The compatibility level of the types of columns in files."""


def arrow_schema(schema: Schema) -> pa.Schema:
    """The schema of tables as they are written."""
    return pl.DataFrame(schema=schema).to_arrow(compat_level=COMPATIBLE).schema


class _Stream(ABC):
    """A thread writes a part while the next one is produced; its errors are raised by the next part or at the
    end. The file is `NAME.unfinished` until the block ends without an exception."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = no_link(path.with_name(f"{path.name}.unfinished"))
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None

    def _submit(self, write: Callable[[], None]) -> None:
        self._wait()
        self._writing = self._thread.submit(write)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    @abstractmethod
    def _close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait()
        finally:
            self._thread.shutdown()
            self._close()
        if error is None:
            self._unfinished.replace(self._path)


_SOUGHT = ["time_s", "job"]
"""Columns with statistics, by which readers pass over row groups."""


class ParquetStream(_Stream):
    """Writes tables of one schema one after the other; each becomes a row group."""

    def __init__(self, path: Path, schema: Schema, metadata: Mapping[str, str] | None = None) -> None:
        super().__init__(path)
        self._schema = arrow_schema(schema).with_metadata(dict(metadata or {}))
        names = [field.name for field in self._schema if not pa.types.is_primitive(field.type)]
        self._writer = pq.ParquetWriter(
            self._unfinished, self._schema, compression="zstd", use_dictionary=names, write_statistics=_SOUGHT
        )

    def write(self, table: pl.DataFrame | pa.Table) -> None:
        arrow = table.to_arrow(compat_level=COMPATIBLE) if isinstance(table, pl.DataFrame) else table
        self._submit(lambda: self._writer.write_table(arrow))

    def _close(self) -> None:
        self._writer.close()


class CsvStream(_Stream):
    """Writes tables with the same columns one after the other, the first one even if it is empty."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._file = self._unfinished.open("wb")
        self._has_header = False

    def write(self, table: pl.DataFrame) -> None:
        has_header, self._has_header = self._has_header, True
        self._submit(lambda: write_csv(table, self._file, include_header=not has_header))

    def _close(self) -> None:
        self._file.close()
