"""Where two runs part, worked by hand."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sil.outcome.trace_inspection import RunningJob, divergence, sentence
from sil.runs.on_log import Replay
from sil.trace.facts import TRACE
from sil.workers.executor import Inline, Listener
from tests.builders import tiny_experiment
from tests.commands import sil, succeeded, the_sentence
from tests.sil.experiment.replaying import replay_all
from tests.sil.experiment.test_replay import Row, log_of

pytestmark = pytest.mark.usefixtures("without_reports")

ROWS: list[Row] = [(1, 0.0, 50.0, 2, 50.0, 1), (2, 1.0, 50.0, 3, 50.0, 1), (3, 2.0, 10.0, 1, 10.0, 1)]
"""On three nodes, job 2 waits for job 1; EASY lets job 3 overtake it, FCFS does not."""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Both, in folders of their names; and FCFS with an odd decision cost."""
    replay_all(Replay(log_of(ROWS, 3)), ["fcfs", "easy"], tmp_path, Inline(), False, Listener())
    return tmp_path


def test_runs_diverge_at_the_first_different_decision(runs: Path) -> None:
    fcfs, easy = (pl.read_parquet(runs / name / TRACE) for name in ("fcfs", "easy"))
    found = divergence(fcfs, easy)
    assert found is not None
    assert (found.facts, found.time_s) == (4, 2.0)
    assert found.waiting == (2, 3)
    assert found.running == (RunningJob(1, 0.0, "0-1"),)
    assert sentence(found.one[0]) == "job 1 ends"
    assert sentence(found.other[0]) == "job 3 starts on 2, estimated run time 10 s"


def test_a_run_equals_itself_and_a_run_with_zero_decision_costs(runs: Path, tmp_path: Path) -> None:
    fcfs = pl.read_parquet(runs / "fcfs" / TRACE)
    assert divergence(fcfs, fcfs) is None
    free = Replay(log_of(ROWS, 3), decision_cost="fixed(seconds=0)")
    (outcome,) = replay_all(free, ["fcfs"], tmp_path / "free", Inline(), False, Listener())
    charged = pl.read_parquet(outcome.folder / TRACE)
    assert len(charged) > len(fcfs)
    assert divergence(fcfs, charged) is None


def test_a_truncated_trace_diverges_at_its_end(runs: Path) -> None:
    fcfs = pl.read_parquet(runs / "fcfs" / TRACE)
    found = divergence(fcfs, fcfs.head(5))
    assert found is not None
    assert (found.facts, found.other) == (5, ())


def test_the_command_prints_running_and_waiting_jobs_at_the_divergence(runs: Path) -> None:
    done = sil("compare-traces", runs / "fcfs", runs / "easy" / TRACE)
    assert done.exit_code == 1
    assert "The runs are equal for 4 facts and diverge at 2 s." in done.output
    assert "Running then: job 1 on 0-1 since 0 s." in done.output
    assert "Waiting then: job 2, job 3." in done.output
    assert "2 s  job 3 starts on 2, estimated run time 10 s" in done.output
    found = json.loads(sil("compare-traces", runs / "fcfs", runs / "easy", "--json").stdout)
    assert (found["equal"], found["facts"], found["waiting"]) == (False, 4, [2, 3])
    same = sil("compare-traces", runs / "easy", runs / "easy")
    assert (same.exit_code, same.output) == (0, "The two runs are equal: 9 facts.\n")


def test_one_run_of_an_experiment_trace_is_selected_by_scheduler(tmp_path: Path) -> None:
    experiment = tiny_experiment(tmp_path)
    succeeded("run", experiment, "--out", tmp_path / "out")
    several = sil("compare-traces", tmp_path / "out", tmp_path / "out")
    assert "this trace has several schedulers; choose one with --scheduler:" in the_sentence(several)
    names = pl.read_parquet(tmp_path / "out" / TRACE)["scheduler"].unique(maintain_order=True).to_list()
    succeeded("compare-traces", tmp_path / "out", tmp_path / "out", "--scheduler", names[0])
    two = sil(
        "compare-traces", tmp_path / "out", tmp_path / "out", "--scheduler", names[0], "--scheduler", names[1]
    )
    assert two.exit_code == 1
    assert "diverge at" in two.output


def test_a_file_that_is_not_a_trace_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no")
    assert "there is no trace.parquet in this folder" in the_sentence(
        sil("compare-traces", tmp_path, tmp_path)
    )
    assert "not a trace" in the_sentence(sil("compare-traces", tmp_path / "text", tmp_path))
