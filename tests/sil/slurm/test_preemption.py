"""Jobs of a partition of a higher tier take the nodes of others."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from sil.settings.log_events import Command, OfJob
from sil.trace.facts import Fact
from tests.sil.slurm.installed import needs_slurm
from tests.sil.slurm.scenarios import Rigid, operators, outcome_of

pytestmark = needs_slurm

TIERS = """
PreemptType=preempt/partition_prio
PreemptMode={mode}
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 OverSubscribe=FORCE:1
PartitionName=high Nodes=ALL PriorityTier=10 OverSubscribe=FORCE:1
"""
GANG = """
PreemptMode=GANG
SchedulerTimeSlice=60
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:2
"""
JOBS = [
    Rigid(0, 1000, nodes=2, limit_s=1800),
    Rigid(100, 200, nodes=2, limit_s=600, options={"partition": "high"}),
]


@pytest.mark.parametrize("mode", ["REQUEUE", "CANCEL"])
def test_the_job_in_their_way_is_requeued_or_cancelled(mode: str, tmp_path: Path) -> None:
    found = outcome_of(JOBS, 2, name=operators(tmp_path, TIERS.format(mode=mode)))
    (high_s,) = found.starts(2)
    assert 100 < high_s < 110
    (stopped_s,) = found.times(Fact.RUN_PREEMPTED, 1)
    assert 100 < stopped_s <= high_s
    if mode == "CANCEL":
        assert found.refusal(1) == "Slurm ended it: another job needed its nodes (PREEMPTED)"
        assert len(found.starts(1)) == 1
    else:
        assert found.starts(1)[1] >= found.ends(2)[0]
        assert len(found.ends(1)) == 1


def test_it_is_suspended_and_continues_where_it_was(tmp_path: Path) -> None:
    found = outcome_of(JOBS, 2, name=operators(tmp_path, TIERS.format(mode="SUSPEND,GANG")))
    (high_s,), (ended_s,) = found.starts(2), found.ends(2)
    assert 100 < high_s < 140
    assert ended_s == high_s + 200
    (low_s,) = found.starts(1)
    (stopped_s,), (continued_s,) = found.times(Fact.RUN_STOPPED, 1), found.times(Fact.RUN_CONTINUED, 1)
    assert stopped_s <= high_s
    assert continued_s == pytest.approx(ended_s, abs=40)  # gangs are looked at each 30 s
    assert found.ends(1) == [low_s + 1000 + continued_s - stopped_s]
    (row,) = found.job_table().filter(pl.col("job_id") == 1).rows(named=True)
    assert row["execution_time"] == 1000


def test_jobs_of_one_tier_take_turns_in_a_gang(tmp_path: Path) -> None:
    found = outcome_of([Rigid(0, 300, nodes=2, limit_s=900)] * 2, 2, name=operators(tmp_path, GANG))
    assert found.starts(2)[0] == pytest.approx(120, abs=5)  # it was allocated at once, and suspended
    for job in (1, 2):
        stops, goes_on = found.times(Fact.RUN_STOPPED, job), found.times(Fact.RUN_CONTINUED, job)
        assert len(stops) == len(goes_on) >= 3
        stood_s = sum(goes_on) - sum(stops)
        assert found.ends(job)[0] == pytest.approx(found.starts(job)[0] + 300 + stood_s)


def test_a_run_that_is_suspended_when_its_job_is_cancelled_is_over() -> None:
    commands = [Command(50, ("scontrol", "suspend", OfJob(1))), Command(100, ("scancel", OfJob(1)))]
    found = outcome_of([Rigid(0, 300), Rigid(60, 20)], 1, commands=commands)
    assert found.times(Fact.RUN_STOPPED, 1)[0] == pytest.approx(50, abs=2)
    assert found.times(Fact.RUN_PREEMPTED, 1)[0] == pytest.approx(100, abs=2)
    assert len(found.ends(2)) == 1


def test_an_operator_suspends_a_job_and_resumes_it() -> None:
    commands = [
        Command(50, ("scontrol", "suspend", OfJob(1))),
        Command(950, ("scontrol", "resume", OfJob(1))),
    ]
    found = outcome_of([Rigid(0, 300)], 1, commands=commands)
    assert found.ends(1)[0] == pytest.approx(found.starts(1)[0] + 1200, abs=5)
