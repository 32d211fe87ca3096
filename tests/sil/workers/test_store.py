"""The file of finished runs: it gives back what was put in, to the last bit, or says why it cannot."""

from __future__ import annotations

import math
import pickle
import sqlite3
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import UserError
from sil.experiment.sweep import Packed
from sil.outcome.replayed_log import Results
from sil.workers.store import MISSING, Store
from tests.sil.experiment.test_experiment import ROOT


class Point(NamedTuple):
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    n: int
    points: tuple[Point, ...]


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


@given(number=st.floats(allow_nan=False))
def test_numbers_round_trip_to_the_last_bit(number: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("stored") / "runs.db"
    with Store(path) as store:
        store.put("run", {"measure": number, "not a number": math.nan})
    with Store(path) as store:
        found = store.get("run", dict[str, float])
        assert store.get("another") is MISSING
    assert bits(found["measure"]) == bits(number)
    assert math.isnan(found["not a number"])


@pytest.mark.parametrize("path", [None, Path("runs.db")])
def test_a_stored_result_does_not_change(path: Path | None, here: Path) -> None:
    with Store(path) as store:
        store.put("run 1", None)
        store.put("run 1", 2.0)
        assert store.get("run 1") is None
        assert store.has_prefix("run")
        assert not store.has_prefix("ran")


def test_the_file_exists_only_while_there_are_results(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        assert store.get("run") is MISSING
        assert not store.has_prefix("run")
        assert not list(tmp_path.iterdir())
        store.put("run", 1.0)
        assert (tmp_path / "runs.db").exists()
        store.remove()
        assert not list(tmp_path.iterdir())
        store.put("run", 2.0)
        assert store.get("run") == 2.0


def test_readers_do_not_block_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "runs.db"
    with Store(path) as store:
        store.put("run", {})
        with sqlite3.connect(path) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            other.execute("BEGIN")
            other.execute("SELECT * FROM result").fetchall()
            store.put("another", {})


def test_commands_started_together_share_a_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from sil.workers.store import Store\n"
        "with Store(Path('runs.db')) as store:\n"
        "    for number in range(50): store.put(sys.argv[1] + str(number), {})\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, name],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    assert [process.communicate(timeout=60.0)[1] for process in started] == ["", "", ""]
    with Store(tmp_path / "runs.db") as store:
        assert all(store.get(f"{name}{number}") == {} for name in "abc" for number in range(50))


@pytest.mark.parametrize("left", [0.9999, 0.9, 0.5, 0.1, 0.001])
def test_a_truncated_file_is_reported(left: float, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with Store(path) as store:
        for number in range(200):
            store.put(f"run {number}", {f"measure {n}": n / 7 for n in range(20)})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(left * len(whole))])
    damaged = pytest.raises(UserError, match=r"runs\.db: the file is damaged; delete it")
    with damaged as error, Store(path) as store:
        assert left > 0.999, (
            "only a file that lacks less than a page is found out no sooner than when it is read"
        )
        for number in range(200):
            store.get(f"run {number}")
    assert "\n" not in str(error.value)


def test_other_files_databases_and_folders_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, and long enough to see that " * 100)
    with pytest.raises(UserError, match="text: this is not an SQLite database"):
        Store(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE machine (name TEXT)")
    with pytest.raises(UserError, match=r"other\.db: this is a different database"):
        Store(tmp_path / "other.db")
    with pytest.raises(UserError, match="the file cannot be opened"):
        Store(tmp_path)
    with Store(tmp_path / "text" / "runs.db") as store, pytest.raises(UserError, match="its folder cannot"):
        store.put("run", 1.0)


def test_a_damaged_result_is_reported(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        store.put("run", {})
        with sqlite3.connect(tmp_path / "runs.db") as other:
            other.execute("UPDATE result SET value = X'80'")
        with pytest.raises(UserError, match="the file is damaged; delete it"):
            store.get("run")


def test_a_full_disk_raises_the_error_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "runs.db") as store:
        store.put("run", 1.0)
        assert store._connection is not None
        store._connection.execute("PRAGMA max_page_count = 3")
        with pytest.raises(OSError, match="disk is full"):
            store.put("another", "long" * 100_000)


class _Calls:
    """Pickled as a call of a function."""

    def __init__(self, function: Any, *arguments: object) -> None:
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


def global_named(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


FACTORY = b"\x80\x04" + global_named("sil.runs.under_test", "Copies")
RUNS_WITHIN = pickle.dumps(_Calls(Path.touch, Path("RAN")))
FACTORY += global_named("sil.runs.under_test", "Factory") + b")\x81}X\x08\0\0\0_pickledB"
FACTORY += struct.pack("<I", len(RUNS_WITHIN)) + RUNS_WITHIN + b"sb\x85R."
"""A factory whose copy unpickles what it has."""


@pytest.mark.parametrize("kind", [Any, dict[str, float], Packed, Results, Record])
@pytest.mark.parametrize(
    "value",
    [
        FACTORY,
        *map(
            pickle.dumps,
            (
                _Calls(Path.touch, Path("RAN")),
                _Calls(subprocess.call, ["touch", "RAN"]),
                _Calls(eval, "open('RAN', 'w')"),
                {"measure": 1.0},
            ),
        ),
        b"(S'touch RAN'\nios\nsystem\n.",
        b"\x93NUMPY",
        b"[" * 100_000,
        b'{"py/reduce": [{"py/type": "os.system"}, {"py/tuple": ["touch RAN"]}]',
        b"",
    ],
)
def test_a_file_of_somebody_else_runs_nothing(value: bytes, kind: Any, here: Path) -> None:
    with Store(here / "runs.db") as store:
        store.put("run", 1.0)
        with sqlite3.connect(here / "runs.db") as other:
            other.execute("UPDATE result SET value = ?", (value,))
        with pytest.raises(UserError, match="the file is damaged; delete it"):
            store.get("run", kind)
    assert not (here / "RAN").exists()


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Record("a", 1, (Point(1.5, math.inf),)), Record),
        ({"facts": b"\x00\xff", "": b""}, Packed),
        (([Point(1.0, 2.0)], {"x": [Record("b", -1, ())]}), tuple[list[Point], dict[str, list[Record]]]),
        ([Results({"makespan": 1.0}, None, "one was refused"), Results({}, "a fault")], list[Results]),
    ],
)
def test_records_and_bytes_are_read_back(value: object, kind: Any, tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        store.put("run", value)
        assert store.get("run", kind) == value


def test_a_result_of_another_type_is_damage(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.db") as store:
        store.put("run", {"measure": "1.0"})
        with pytest.raises(UserError, match="the file is damaged; delete it"):
            store.get("run", dict[str, float])


def test_what_reads_only_with_code_is_not_stored() -> None:
    with Store() as store, pytest.raises(TypeError, match="Path is no value of a result"):
        store.put("run", {"where": Path("/")})
