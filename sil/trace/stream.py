"""Tables as CSV files, in which no text is a formula for a spreadsheet, and files that a thread writes."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import Full, Queue
from types import TracebackType
from typing import IO, Self

import polars as pl
from polars.exceptions import PolarsError
from polars.io.plugins import register_io_source

from site_db.files.access import no_link, regular
from site_db.files.formats import FORMULA, NUMBER

Schema = Mapping[str, pl.DataType | type[pl.DataType]]


def write_csv(table: pl.DataFrame, target: Path | IO[bytes], include_header: bool = True) -> None:
    begins = table.select(pl.col(pl.String).str.contains(FORMULA).any())
    text = pl.col([column.name for column in begins if column.item()])  # none, most of the time
    is_formula = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    safe = table.with_columns(pl.when(is_formula).then("'" + text).otherwise(text).name.keep())
    safe.write_csv(no_link(target) if isinstance(target, Path) else target, include_header=include_header)


def columns_of(path: Path) -> list[str]:
    return pl.read_csv(regular(path), n_rows=0, glob=False).columns


def read_csv(path: Path, kinds: Schema, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Some columns of a table, or all; `kinds` are the types of some."""
    table = pl.read_csv(regular(path), columns=columns, schema_overrides=kinds, glob=False)
    text = pl.col(pl.String)
    was_formula = text.str.starts_with("'") & text.str.slice(1).str.contains(FORMULA)
    return table.with_columns(pl.when(was_formula).then(text.str.slice(1)).otherwise(text).name.keep())


class _Stream(ABC):
    """A thread writes a table while the next one is produced; its errors are raised by a later table, or at
    the end. The file is `NAME.unfinished` until the block ends without an exception."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = no_link(path.with_name(f"{path.name}.unfinished"))
        self._tables = Queue[pl.DataFrame | None](maxsize=1)
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing = self._thread.submit(self._write_until_end)

    def write(self, table: pl.DataFrame | None) -> None:
        """Write a table; None is the end."""
        while not self._writing.done():
            with suppress(Full):
                return self._tables.put(table, timeout=1.0)
        return self._writing.result()

    def _until_end(self) -> Iterator[pl.DataFrame]:
        while (table := self._tables.get()) is not None:
            yield table

    def _write_until_end(self) -> None:
        try:
            self._write_all(self._until_end())
        except (OSError, PolarsError) as error:
            if (of_system := re.search(r"\(os error (\d+)\)", str(error))) is None:
                raise
            number = int(of_system[1])  # which is in the text only
            raise OSError(number, os.strerror(number), str(self._unfinished)) from error

    @abstractmethod
    def _write_all(self, tables: Iterator[pl.DataFrame]) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.write(None)
            self._writing.result()
        finally:
            self._thread.shutdown()
        if error is None:
            self._unfinished.replace(self._path)


ROWS = 65_536
"""The rows of a row group, which readers pass over by its statistics."""


class ParquetStream(_Stream):
    """Writes tables of one schema one after the other."""

    def __init__(self, path: Path, schema: Schema, metadata: Mapping[str, str] | None = None) -> None:
        self._schema, self._metadata = dict(schema), dict(metadata or {})
        super().__init__(path)

    def _write_all(self, tables: Iterator[pl.DataFrame]) -> None:
        source = register_io_source(lambda *_: tables, schema=self._schema, validate_schema=True)
        source.sink_parquet(
            self._unfinished, compression_level=1, row_group_size=ROWS, metadata=self._metadata
        )


class CsvStream(_Stream):
    """Writes tables with the same columns one after the other, the first one even if it is empty."""

    def _write_all(self, tables: Iterator[pl.DataFrame]) -> None:
        with self._unfinished.open("wb") as file:
            for k, table in enumerate(tables):
                write_csv(table, file, include_header=k == 0)
