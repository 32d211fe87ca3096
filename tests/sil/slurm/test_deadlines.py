"""The jobs that expire are those that Slurm's controller removes at the same deadlines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Expiry
from sil.workload.job_log import DUE_IN_S
from tests.sil.runs.test_eligibility import log_of
from tests.sil.slurm.installed import needs_slurm


@pytest.mark.long
@needs_slurm
def test_the_controller_removes_the_same_jobs_in_state_deadline(tmp_path: Path) -> None:
    """Job 2 may start until 1,310 s, when job 1 has ended; the others could start only after it, too late."""
    log = log_of([(0.0, 1200.0, 4), (10.0, 300.0, 4), (20.0, 300.0, 4), (30.0, 300.0, 4)], 4)
    due_in_s = pl.Series(DUE_IN_S, [1e6, 1600.0, 1400.0, 1600.0])
    replay = Replay(replace(log, jobs=log.jobs.with_columns(due_in_s)), expiry=Expiry.DEADLINE)
    for scheduler, why in (
        ("slurm", "Slurm ended it: it could not end before its deadline (DEADLINE)"),
        ("fcfs", "it could not end before its deadline any more (DEADLINE)"),
    ):
        removed = replay.facts(resolve(scheduler), tmp_path / scheduler).filter(event="job_refused")
        assert dict(removed.sort("job").select("job", "detail").iter_rows()) == {3: why, 4: why}
