"""The file of finished runs: it gives back what was put in, to the last bit, or says why it cannot."""

from __future__ import annotations

import math
import sqlite3
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_db.kept_runs import ASKED_AT_ONCE, KeptRuns
from site_db.store import DatabaseTrouble
from tests.sil.test_experiment import ROOT


def bits(number: float) -> bytes:
    return struct.pack("<d", number)


@given(number=st.floats(allow_nan=False))
def test_numbers_come_back_to_the_last_bit(number: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("kept") / "kept.db"
    with KeptRuns(path) as kept:
        kept.put("run", {"measure": number, "not a number": math.nan})
    with KeptRuns(path) as kept:
        found = kept.get_many(["run", "another"])
    assert found.keys() == {"run"}
    assert bits(found["run"]["measure"]) == bits(number)
    assert math.isnan(found["run"]["not a number"])


def test_a_run_that_is_kept_stays_as_it_is(tmp_path: Path) -> None:
    with KeptRuns(tmp_path / "kept.db") as kept:
        kept.put("run", {"measure": 1.0})
        kept.put("run", {"measure": 2.0})
        assert kept.get_many(["run"]) == {"run": {"measure": 1.0}}


def test_more_runs_are_asked_for_than_one_query_takes(tmp_path: Path) -> None:
    with KeptRuns(tmp_path / "kept.db") as kept:
        kept.put("0", {})
        kept.put(str(40 * ASKED_AT_ONCE), {})
        keys = [str(number) for number in range(40 * ASKED_AT_ONCE + 1)]
        assert kept.get_many(keys).keys() == {keys[0], keys[-1]}
        assert kept.get_many([]) == {}


def test_readers_and_a_writer_do_not_wait_for_one_another(tmp_path: Path) -> None:
    with KeptRuns(tmp_path / "new" / "folder" / "kept.db") as kept:
        kept.put("run", {})
        with sqlite3.connect(tmp_path / "new" / "folder" / "kept.db") as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            other.execute("BEGIN")
            other.execute("SELECT * FROM kept_run").fetchall()
            kept.put("another", {})


def test_commands_that_begin_at_once_share_a_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from site_db.kept_runs import KeptRuns\n"
        "with KeptRuns(Path('kept.db')) as kept:\n"
        "    for number in range(50): kept.put(sys.argv[1] + str(number), {})\n"
    )
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", program, name],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    assert [process.communicate(timeout=60.0)[1] for process in begun] == ["", "", ""]
    with KeptRuns(tmp_path / "kept.db") as kept:
        assert len(kept.get_many([f"{name}{number}" for name in "abc" for number in range(50)])) == 150


@pytest.mark.parametrize("left", [0.9999, 0.9, 0.5, 0.1, 0.001])
def test_a_file_that_was_cut_off_is_told(left: float, tmp_path: Path) -> None:
    path = tmp_path / "kept.db"
    with KeptRuns(path) as kept:
        for number in range(200):
            kept.put(f"run {number}", {f"measure {n}": n / 7 for n in range(20)})
    whole = path.read_bytes()
    path.write_bytes(whole[: int(left * len(whole))])
    damaged = pytest.raises(DatabaseTrouble, match=r"kept\.db: the (database )?file is damaged")
    with damaged as told_so, KeptRuns(path) as kept:
        assert left > 0.999, "only what lacks less than a page shows it no sooner than when it is read"
        kept.get_many([f"run {number}" for number in range(200)])
    assert "\n" not in str(told_so.value)


def test_another_file_another_database_and_a_folder_are_told(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database, and long enough to see that " * 100)
    with pytest.raises(DatabaseTrouble, match="text: this is no SQLite database"):
        KeptRuns(tmp_path / "text")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE machine (name TEXT)")
    with pytest.raises(DatabaseTrouble, match=r"other\.db: this is another database"):
        KeptRuns(tmp_path / "other.db")
    with pytest.raises(DatabaseTrouble, match="the database cannot be opened"):
        KeptRuns(tmp_path)
    with pytest.raises(DatabaseTrouble, match="its folder cannot be made"):
        KeptRuns(tmp_path / "text" / "kept.db")


def test_a_run_that_is_no_run_any_more_is_told(tmp_path: Path) -> None:
    with KeptRuns(tmp_path / "kept.db") as kept:
        kept.put("run", {})
        with sqlite3.connect(tmp_path / "kept.db") as other:
            other.execute("UPDATE kept_run SET measures = '[1'")
        with pytest.raises(DatabaseTrouble, match="the file is damaged; remove it"):
            kept.get_many(["run"])
