"""Tables that a thread writes while the next ones are produced."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from sil.trace.stream import ROWS, CsvStream, ParquetStream

SCHEMA = {"time_s": pl.Float64}
TABLE = pl.DataFrame({"time_s": np.random.default_rng(1).random(ROWS)})
STREAMS: dict[str, Callable[[Path], ParquetStream | CsvStream]] = {
    "trace.parquet": lambda path: ParquetStream(path, SCHEMA),
    "jobs.csv": CsvStream,
}


@contextmanager
def _files_up_to(n_bytes: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _write(stream: ParquetStream | CsvStream, error: type[Exception] | None = None) -> None:
    with stream:
        for _ in range(3):
            stream.write(TABLE)
        if error is not None:
            raise error


@pytest.mark.parametrize("name", STREAMS)
def test_a_file_that_cannot_be_written_has_the_error_of_the_system(name: str, tmp_path: Path) -> None:
    with _files_up_to(100_000), pytest.raises(OSError, match="File too large") as caught:
        _write(STREAMS[name](tmp_path / name))
    assert caught.value.errno == errno.EFBIG
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", STREAMS)
def test_a_file_has_its_name_when_all_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        _write(STREAMS[name](tmp_path / name), KeyError)
    assert [each.name for each in tmp_path.iterdir()] == [f"{name}.unfinished"]
    _write(STREAMS[name](tmp_path / name))
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_the_bytes_of_a_file_do_not_depend_on_the_parts(tmp_path: Path) -> None:
    for n in (1_000, ROWS, 2 * ROWS):
        with ParquetStream(tmp_path / str(n), SCHEMA) as stream:
            for part in pl.concat([TABLE, TABLE]).iter_slices(n):
                stream.write(part)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
