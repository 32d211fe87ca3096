"""Compiled code is kept on disk, and made again where that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.extending import overload

import scheduler
from scheduler.compiled import (
    Flags2,
    Floats,
    Floats2,
    Ints,
    called_by_handle,
    compiled,
    config,
    direct,
    handle,
    inlined,
    part,
)
from scheduler.compiled.code import signatures_remembered
from scheduler.compiled.kept import is_own

RUN_WITH_CHECKS = (
    "tests/scheduler",
    "tests/sil/outcome/test_fast_check.py",
    "tests/sil/test_engines.py",
    "tests/sil/test_engines_on_nodes.py",
    "tests/sil/studies/test_fgd.py",
    "tests/sil/experiment/test_replay.py",
    "tests/sil/test_replay_on_nodes.py",
    "tests/sil/test_shared_nodes.py",
    "tests/sil/workload",
)
LOADS = (
    "from scheduler.compiled import called_from_python as compile; "
    "from scheduler.node_resources.kernels.releases import insert, remove; compile(insert); compile(remove)"
)
"""Two small functions of one folder."""


def load(cache: Path, packages: Path | None = None, **variables: str) -> str:
    """What is said on the way."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **variables}
    done = subprocess.run(
        [sys.executable, "-c", LOADS],
        cwd=packages,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def kept(cache: Path) -> dict[Path, int]:
    """The files of compiled code, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in cache.rglob("*.bin")}


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with a copy of the package without compiled code, which imports take first."""
    ours = tmp_path / "sources"
    shutil.copytree(
        Path(scheduler.__file__).parent, ours / "scheduler", ignore=shutil.ignore_patterns("__pycache__")
    )
    return ours


def cut(content: bytes) -> bytes:
    return content[:100]


def empty(content: bytes) -> bytes:
    return b""


def changed(content: bytes) -> bytes:
    """In one bit, which may well be one of an instruction or a constant."""
    return content[:-1000] + bytes([content[-1000] ^ 1]) + content[-999:]


def too_short_a_checksum(content: bytes) -> bytes:
    return content[:10]


def test_damaged_files_of_compiled_code_are_written_again(tmp_path: Path) -> None:
    load(tmp_path)
    files = sorted(kept(tmp_path))
    for damages in ((cut, empty), (changed, too_short_a_checksum)):
        damaged = {path: damage(path.read_bytes()) for path, damage in zip(files, damages, strict=True)}
        for path, content in damaged.items():
            path.write_bytes(content)
        assert load(tmp_path) == ""
        assert all(path.read_bytes() != content for path, content in damaged.items())
    again = kept(tmp_path)
    load(tmp_path)
    assert kept(tmp_path) == again, "and what was written again is used"


def test_code_of_another_user_and_pipes_are_not_loaded(tmp_path: Path) -> None:
    file, pipe = tmp_path / "file.bin", tmp_path / "pipe.bin"
    file.touch()
    os.mkfifo(pipe)
    assert is_own(file)
    assert not is_own(pipe)
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(file, 12_345, -1)
    assert not is_own(file)


def test_code_is_compiled_again_after_a_source_changes(tmp_path: Path, sources: Path) -> None:
    """Functions call those of other folders, of which Numba's cache knows nothing."""
    cache = tmp_path / "cache"
    load(cache, sources)
    before = kept(cache)
    load(cache, sources)
    assert kept(cache) == before
    for times, source in enumerate(("time_shared/kernels/tables.py", "compiled/records.py"), start=2):
        with (sources / "scheduler" / source).open("a") as file:
            file.write("# changed\n")
        load(cache, sources)
        assert len(kept(cache)) == times * len(before), source


def test_a_package_that_cannot_be_written_keeps_its_code_in_the_users_cache(
    tmp_path: Path, sources: Path
) -> None:
    """As where an administrator has installed it: an upgrade must not leave users with the code of before."""
    users = tmp_path / "users"
    for folder in (sources / "scheduler").rglob(
        "*/"
    ):  # a file where the folder would be: root can write all others
        (folder / "__pycache__").write_text("")
    load(Path(), sources, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(users))
    before = kept(users)
    assert before
    with (sources / "scheduler" / "free_nodes" / "kernels" / "backfilling.py").open("a") as file:
        file.write("# changed\n")
    load(Path(), sources, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(users))
    assert len(kept(users)) == 2 * len(before)


def test_code_that_was_compiled_beside_its_source_serves_those_who_cannot_write_there(
    tmp_path: Path, sources: Path
) -> None:
    users = tmp_path / "users"
    load(Path(), sources, NUMBA_CACHE_DIR="")
    beside = kept(sources)
    assert beside
    load(Path(), sources, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(users))
    assert kept(sources) == beside
    assert not users.exists()


def test_where_no_folder_can_be_written_each_process_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "set NUMBA_CACHE_DIR to one that can" in load(tmp_path / "file" / "cache")


class Inner(NamedTuple):
    counts: Ints
    times_s: Floats


class Outer(NamedTuple):
    counts: Ints
    inner: Inner


@inlined
def add_up(inner: Inner) -> int:
    total = 0
    for x in range(len(inner.counts)):
        total += inner.counts[x]
    return total


@part
def double(outer: Outer) -> None:
    for x in range(len(outer.counts)):
        outer.counts[x] *= 2


def doubled_sum(outer: Outer) -> int:
    double(outer)
    return add_up(outer.inner)


def record(counts: Ints) -> Outer:
    """Both fields are the same array."""
    return Outer(counts, Inner(counts, np.zeros(1)))


class Cells(NamedTuple):
    each: Floats2


def weighted_sum(cells: Cells) -> float:
    total = 0.0
    for x in range(cells.each.shape[0]):
        row = cells.each[x]
        for y in range(len(row)):
            total += (x + 1) * row[y]
    return total / cells.each.size


@part
def plus(a: int, b: int) -> int:
    return a + b


def twelve(n: int) -> int:
    total = 0
    for _ in range(n):
        total = plus(plus(total, 1), 2)
    return plus(total, 3)


@pytest.fixture
def is_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))


@pytest.mark.usefixtures("is_kept_elsewhere")
def test_what_is_written_to_an_array_of_a_record_is_read_through_another_record() -> None:
    counts = np.arange(4)
    for call in (compiled(doubled_sum), direct(compiled(doubled_sum))):
        before = int(counts.sum())
        assert call(record(counts)) == 2 * before == counts.sum()


@pytest.mark.usefixtures("is_kept_elsewhere")
def test_a_record_with_a_field_of_another_type_is_rejected() -> None:
    call = compiled(doubled_sum)
    with pytest.raises(TypeError, match="No matching definition"):
        call(record(np.zeros(4)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Outer"):
        direct(call)(record(None))  # type: ignore[arg-type]


@pytest.mark.usefixtures("is_kept_elsewhere")
def test_rows_and_sizes_of_a_field_with_two_dimensions_are_those_of_the_array() -> None:
    each = np.arange(12.0).reshape(3, 4)
    assert compiled(weighted_sum)(Cells(each)) == (6 + 2 * 22 + 3 * 38) / 12


@pytest.mark.usefixtures("is_kept_elsewhere")
def test_a_part_is_compiled_once_for_known_and_unknown_numbers() -> None:
    assert compiled(twelve)(3) == 12
    made: Any = plus
    assert len(made.signatures) == 1


def ratio(a: float, b: float) -> float:
    return a / b


overload(ratio)(lambda a, b: lambda a, b: a / b)


def test_what_was_found_for_a_caller_is_not_taken_for_one_with_other_options() -> None:
    def caller(a: float, b: float) -> float:
        return ratio(a, b)

    with signatures_remembered():
        assert njit(caller, error_model="numpy")(1.0, 0.0) == np.inf
        with pytest.raises(ZeroDivisionError):
            njit(caller, error_model="python")(1.0, 0.0)


@pytest.mark.usefixtures("is_kept_elsewhere")
def test_a_handle_stands_for_the_same_arrays_in_each_call() -> None:
    counts = np.arange(4)
    call, outer = called_by_handle(doubled_sum), handle(record(counts))
    assert [call(outer), call(outer)] == [12, 24]
    assert counts.tolist() == [0, 4, 8, 12]


class Table(NamedTuple):
    marks: Flags2
    counts: Ints


def size_and_last(table: Table) -> int:
    rows, columns = table.marks.shape
    return 100 * rows + 10 * columns + int(table.marks[rows - 1, columns - 1]) + table.counts[0]


@pytest.mark.usefixtures("is_kept_elsewhere")
def test_a_handle_keeps_arrays_of_any_shape_that_nothing_else_refers_to() -> None:
    marks = np.zeros((3, 2), dtype=np.bool_)
    marks[2, 1] = True
    tables = [handle(Table(marks.copy(), np.full(1_000, k))) for k in range(100)]
    np.full(1_000_000, -1)  # memory that is free would be used again
    call = called_by_handle(size_and_last)
    assert [call(table) for table in tables] == [321 + k for k in range(100)]


READS = """
import numpy as np
from scheduler.compiled import Ints, Ints2, compiled

def item(numbers: Ints, table: Ints2, x: int, y: int) -> int:
    table[x, y] = numbers[x]
    return table[x, y]

for x, y in (2, 1), (-1, 0), (3, 0), (0, -1):
    try:
        print(compiled(item)(np.arange(3), np.zeros((3, 2), np.int64), x, y))
    except IndexError:
        print("IndexError")
"""


def test_checks_find_an_index_that_is_negative_or_too_large(tmp_path: Path) -> None:
    script = tmp_path / "reads.py"
    script.write_text(READS)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_BOUNDSCHECK": "1"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["2", "IndexError", "IndexError", "IndexError"]


@pytest.mark.long
def test_no_index_is_out_of_bounds_in_the_tests_of_what_is_compiled(tmp_path: Path) -> None:
    """All that is compiled is compiled once more, with checks."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_BOUNDSCHECK": "1"}
    for name in ("SIL_ALL_EXAMPLES", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *RUN_WITH_CHECKS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
