"""Independent schedulers: those of pybatsim 3.2.1, unchanged, each in a process of its own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from sil.experiment.replay import Outcome
from sil.runs.on_log import Replay
from sil.workers.executor import Inline, Listener
from sil.workload.swf import read_swf
from tests.oracles import oracle
from tests.sil.experiment.replaying import jobs_under, replay_all

PYBATSIM = shutil.which("pybatsim", path=str(Path(sys.executable).parent))


def under_pybatsim(scheduler: str, jobs: int, folder: Path) -> Outcome:
    """The first jobs of KTH-SP2 under one of its schedulers."""
    if PYBATSIM is None:  # not the environment of `make test`; CI does not accept a skip
        pytest.skip("pybatsim is not installed; `make test` does it (requirements-batsim.txt)")
    log = read_swf(oracle("swf/KTH-SP2.swf.gz")).slice(0, jobs)
    options = f'-o \'{{"export-prefix": "{folder}/printed"}}\''
    name = f"batsim: {PYBATSIM} {scheduler} -s tcp://127.0.0.1:{{port}} -v warning {options}"
    (outcome,) = replay_all(Replay(log, order="batsim"), [name], folder / "out", Inline(), False, Listener())
    return outcome


@pytest.mark.parametrize(
    ("scheduler", "mean_wait_s"),
    [pytest.param("schedFcfs", 157_579.382, marks=pytest.mark.long), ("easyBackfill", 3_996.757)],
)
def test_mean_waiting_times_equal_those_of_another_simulator_to_the_last_digit(
    scheduler: str, mean_wait_s: float, tmp_path: Path
) -> None:
    outcome = under_pybatsim(scheduler, 1_000, tmp_path)
    assert outcome.fault is None
    assert len(jobs_under(outcome)) == 1_000
    assert outcome.statistics["waiting_time_mean"] == pytest.approx(mean_wait_s, abs=1e-9)


@pytest.mark.parametrize(
    ("scheduler", "jobs"),
    [
        pytest.param("fillerSched", 1_000, marks=pytest.mark.long),
        ("schedFiller", 200),
        pytest.param("schedEasySjfBackfill", 150, marks=pytest.mark.long),
    ],
)
def test_other_pybatsim_schedulers_finish_all_jobs(scheduler: str, jobs: int, tmp_path: Path) -> None:
    outcome = under_pybatsim(scheduler, jobs, tmp_path)
    assert outcome.fault is None
    assert len(jobs_under(outcome)) == jobs
