"""A Parquet file that is written in parts."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

Schema = Mapping[str, pl.DataType | type[pl.DataType]]
_COMPATIBLE = pl.CompatLevel.oldest()


class ParquetStream:
    """Writes tables of one schema one after the other; each becomes a row group.

    A thread encodes and writes a table while the next one is produced; its errors are raised by the next
    `write` or at the end. The file is `NAME.unfinished` until the block ends without an exception.
    """

    def __init__(self, path: Path, schema: Schema, metadata: Mapping[str, str] | None = None) -> None:
        self._path = path
        self._unfinished = path.with_name(f"{path.name}.unfinished")
        columns = pl.DataFrame(schema=schema).to_arrow(compat_level=_COMPATIBLE).schema
        self._schema = columns.with_metadata(dict(metadata or {}))
        names = [field.name for field in self._schema if not pa.types.is_primitive(field.type)]
        self._writer = pq.ParquetWriter(
            self._unfinished, self._schema, compression="zstd", use_dictionary=names
        )
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[None] | None = None

    def write(self, table: pl.DataFrame) -> None:
        arrow: pa.Table = table.to_arrow(compat_level=_COMPATIBLE)
        self._wait()
        self._writing = self._thread.submit(self._writer.write_table, arrow)

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()

    def __enter__(self) -> ParquetStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._wait()
        finally:
            self._thread.shutdown()
            self._writer.close()
        if error is None:
            self._unfinished.replace(self._path)
