"""Runs that Slurm's controller ends, and those that it starts again: limits, and failures of nodes."""

from __future__ import annotations

import pytest

from sil.slurm.installation import installed
from sil.trace.facts import Fact
from sil.world.failures import Outage
from tests.sil.slurm.installed import needs_slurm
from tests.sil.slurm.scenarios import QUICK, Rigid, outcome_of

pytestmark = needs_slurm
LOOKS_EVERY_S = 30.0
"""slurmctld looks for jobs whose time limit has passed."""
REQUEUED_FOR_S = 120.0
"""A job that lost a node may not start again before."""


def test_runs_are_ended_at_their_limits_also_while_no_job_waits() -> None:
    found = outcome_of([Rigid(0, 500, limit_s=120), Rigid(10, 50_000, limit_s=7200)], 2)
    for job, limit_s in ((1, 120), (2, 7200)):
        (start_s,) = found.starts(job)
        (end_s,) = found.times(Fact.RUN_PREEMPTED, job)
        assert limit_s <= end_s - start_s <= limit_s + LOOKS_EVERY_S + 1
        assert found.refusal(job) == "Slurm ended it: its time limit has passed (TIMEOUT)"


def test_over_time_limit_lets_them_run_longer() -> None:
    found = outcome_of([Rigid(0, 500, limit_s=60), Rigid(0, 170, limit_s=60)], 2, f"{QUICK} OverTimeLimit=2")
    (end_s,) = found.times(Fact.RUN_PREEMPTED, 1)
    assert 180 <= end_s - found.starts(1)[0] <= 180 + LOOKS_EVERY_S + 1
    assert len(found.ends(2)) == 1


def test_jobs_of_a_node_that_fails_start_again_elsewhere() -> None:
    found = outcome_of(
        [Rigid(0, 600, limit_s=900), Rigid(0, 600, limit_s=900)], 3, outages=[Outage(0, 100, 5000)]
    )
    lost = 1 if found.places(1)[0] == "0" else 2
    assert found.times(Fact.RUN_LOST, lost) == [100]
    again_s = found.starts(lost)[1]
    assert 100 + REQUEUED_FOR_S <= again_s <= 100 + REQUEUED_FOR_S + 10
    assert found.places(lost)[1] == "2"
    assert found.ends(lost) == [again_s + 600]
    assert len(found.starts(3 - lost)) == 1


def test_with_job_requeue_0_they_fail_and_a_repaired_node_is_used_again() -> None:
    jobs = [Rigid(0, 600, limit_s=900), Rigid(50, 100, limit_s=300)]
    found = outcome_of(jobs, 1, f"{QUICK} JobRequeue=0", [Outage(0, 100, 1000)])
    assert found.refusal(1) == "Slurm ended it: a node failed (NODE_FAIL)"
    assert found.times(Fact.RUN_LOST, 1) == [100]
    assert found.starts(2)[0] == pytest.approx(1000, abs=10)
    assert len(found.ends(2)) == 1


def test_jobs_that_can_never_start_are_given_up_with_slurms_reason_and_no_others() -> None:
    found = outcome_of([Rigid(0, 60, nodes=3), Rigid(0, 60, nodes=2), Rigid(86_400, 60)], 2)
    assert found.refusal(1) is not None
    rejects = installed().release.series == "24.11"
    why = "Slurm rejected it: no nodes have" if rejects else "Slurm never starts it: PartitionConfig"
    assert why in str(found.refusal(1))
    assert len(found.ends(2)) == len(found.ends(3)) == 1


def test_a_run_that_ends_at_its_limit_is_complete() -> None:
    jobs = [Rigid(second, 60, limit_s=60) for second in range(60)]  # one when Slurm looks
    found = outcome_of(jobs, 64)
    assert [found.refusal(job) for job in found.jobs] == [None] * len(jobs)
