"""Columns of numbers that are in files instead of in memory."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import polars as pl


class Pages:
    """The pages of some files that are in memory. In another process, where their columns are copies, there
    are none."""

    def __init__(self, *files: mmap.mmap) -> None:
        self._files = files

    def forget(self) -> None:
        """Take the pages out of memory; they are read again when they are needed."""
        for file in self._files:
            file.madvise(mmap.MADV_DONTNEED)

    def __reduce__(self) -> tuple[type[Pages], tuple[()]]:
        return Pages, ()


class ColumnFiles(ExitStack):
    """A table of numbers that grows: for each column of a schema a file without a name, in the folder for
    temporary files."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        super().__init__()
        self._schema = schema
        self._files = [self.enter_context(TemporaryFile()) for _ in schema]  # noqa: SIM115

    def add(self, rows: pl.DataFrame) -> None:
        """Add at least one row, without nulls."""
        for name, file in zip(self._schema, self._files, strict=True):
            file.write(rows[name].to_numpy().data)

    def mapped(self) -> tuple[pl.DataFrame, Pages]:
        """All rows, and the pages of them that are in memory. These live longer than this object."""
        columns, maps = {}, []
        for (name, kind), file in zip(self._schema.items(), self._files, strict=True):
            file.flush()
            maps.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            of_kind = pl.Series(dtype=kind).to_numpy().dtype
            columns[name] = pl.Series(np.frombuffer(maps[-1], of_kind))
        return pl.DataFrame(columns), Pages(*maps)
