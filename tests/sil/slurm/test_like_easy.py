"""How close Slurm comes to EASY with settings like it, and why not closer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sil.runs.on_log import Replay
from sil.settings.replays import Engine
from sil.workload.swf import read_swf
from tests.oracles import oracle
from tests.sil.slurm.easy_on_nodes import Task, starts_s
from tests.sil.slurm.installed import needs_slurm
from tests.sil.slurm.test_replays import LIKE_EASY, starts_under

N_JOBS = 1_000


@pytest.mark.long
@needs_slurm
def test_a_thousand_jobs_start_when_easy_starts_them_on_the_nodes_that_slurm_reserves(tmp_path: Path) -> None:
    log = read_swf(oracle("swf/KTH-SP2.swf.gz"))[:N_JOBS]
    replay = Replay(log, engine=Engine.HARNESS)
    slurm, easy = (starts_under(name, replay, tmp_path)["time_s"].to_numpy() for name in (LIKE_EASY, "easy"))
    submit_s = log.jobs["submit_s"].to_numpy()
    columns = log.jobs.select("job", "submit_s", "run_s", "processors", "estimate_s").iter_rows()
    expected = starts_s((Task(*row) for row in columns), log.processors)
    on_nodes = np.array([expected[job] for job in log.jobs["job"]])
    waits_s = {name: float((at - submit_s).mean()) for name, at in
               (("slurm", slurm), ("easy", easy), ("easy on nodes", on_nodes))}  # fmt: skip
    print({"mean waits, s": waits_s, "within 5 s of easy": float((abs(slurm - easy) <= 5).mean()),
           "within 60 s of easy on nodes": float((abs(slurm - on_nodes) <= 60).mean())})  # fmt: skip
    assert waits_s["slurm"] == pytest.approx(waits_s["easy"], rel=0.01)
    assert (abs(slurm - easy) <= 5).mean() >= 0.8
    assert waits_s["slurm"] == pytest.approx(waits_s["easy on nodes"], rel=0.005)
    assert (abs(slurm - on_nodes) <= 60).mean() >= 0.95
    assert (abs(slurm - on_nodes) <= 3600).all()
