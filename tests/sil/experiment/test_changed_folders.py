"""Results folders that change, vanish or are shared while a command writes into them."""

from __future__ import annotations

import json
import shutil
from errno import EACCES, EISDIR, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EROFS, ESTALE
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from scheduler import UserError
from sil.cli import console
from sil.cli.app import app
from sil.experiment import replay as replaying
from sil.experiment.output_folder import alone_in
from sil.runs import on_log
from sil.trace.facts import TIMINGS_SCHEMA
from sil.trace.reading import NoTrace, read_table

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

LOG = "; MaxProcs: 4\n1 0 -1 60 1 -1 -1 1 90 -1 1 1 1 1 1 1 -1 -1\n"


def replay(folder: Path) -> tuple[int, str]:
    (folder / "log.swf").write_text(LOG)
    arguments = ["replay", str(folder / "log.swf"), "--scheduler", "fcfs", "--out", str(folder / "out")]
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.stderr


@pytest.mark.parametrize("number", [EACCES, EISDIR, ENAMETOOLONG, ENOENT, ENOSPC, ENOTDIR, EROFS, ESTALE])
def test_a_file_that_cannot_be_written_ends_a_command_with_a_sentence(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*_: object) -> None:
        raise OSError(number, "as the system says", "out/summary.json")

    monkeypatch.setattr(replaying, "write_summary", write)
    code, said = replay(tmp_path)
    assert code == 2
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("Error: ")


def test_a_folder_that_vanishes_ends_a_command_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out = on_log.Replay._carry_out

    def vanish(*arguments: object) -> None:
        carry_out(*arguments)  # type: ignore[arg-type]
        shutil.rmtree(tmp_path / "out")

    monkeypatch.setattr(on_log.Replay, "_carry_out", vanish)
    code, said = replay(tmp_path)
    assert code == 2
    assert "its folder has changed since the command began; repeat the command" in said


def test_two_replays_do_not_write_into_one_folder(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with alone_in(tmp_path / "out"):
        code, said = replay(tmp_path)
        assert code == 2
        assert "another command is writing results into" in said
        with pytest.raises(UserError), alone_in(tmp_path / "out"):
            pass
    assert replay(tmp_path)[0] == 0


@pytest.mark.parametrize(
    "error",
    [
        pl.exceptions.ComputeError("of Polars"),
        pl.exceptions.PanicException("of Polars"),
        ZeroDivisionError("division by zero"),
    ],
)
def test_an_error_of_a_library_blames_no_scheduler(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(replaying, "write_summary", fail)
    code, said = replay(tmp_path)
    assert code == console.EXIT_BAD_INPUT
    assert f"the testbed failed ({type(error).__name__}: " in said
    assert "no scheduler is to blame" in said


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        ("summary.json", "days", "z"),
        ("summary.json", "schedulers", {}),
        ("summary.json", "repairs", None),
        ("jobs.csv", "submission_time", "1e999"),
        ("jobs.csv", "starting_time", None),
        ("jobs.csv", "requested_number_of_resources", -1),
        ("jobs.csv", "allocated_resources", "z"),
        ("jobs.csv", "allocated_resources", None),
    ],
)
def test_results_with_impossible_values_are_refused(
    name: str, column: str, value: object, tmp_path: Path
) -> None:
    assert replay(tmp_path)[0] == 0
    out = tmp_path / "out"
    if name == "summary.json":
        summary = json.loads((out / name).read_text())
        (out / name).write_text(json.dumps(summary | {column: value}))
    else:
        table = pl.read_csv(out / "fcfs" / name)
        table.with_columns(pl.lit(value).alias(column)).write_csv(out / "fcfs" / name)
    done = CliRunner().invoke(app, ["report", str(out)])
    assert done.exit_code == 2
    assert "this was not written by `sil replay`" in done.stderr
    assert name == "summary.json" or f"jobs.csv, line 2: {column} is " in done.stderr


def test_tables_beside_a_trace_have_their_columns(tmp_path: Path) -> None:
    pl.DataFrame({"point": [1]}).write_parquet(tmp_path / "timings.parquet")
    with pytest.raises(NoTrace, match=r"timings\.parquet: the column point has another type"):
        read_table(tmp_path / "timings.parquet", TIMINGS_SCHEMA)
