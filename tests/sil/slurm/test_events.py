"""What operators and users do besides submitting jobs, carried out by Slurm."""

from __future__ import annotations

import pytest

from scheduler.managers.eligibility import JobArray
from sil.settings.log_events import AtSecond, Command, OfJob
from sil.trace.facts import Fact
from tests.sil.slurm.installed import needs_slurm
from tests.sil.slurm.scenarios import Rigid, outcome_of

pytestmark = needs_slurm


def test_a_node_that_is_resumed_registers_with_its_jobs_which_go_on() -> None:
    """Since 23.11, the controller asks such a node to register, and requeues a job that it does not name."""
    drain = Command(50, ("scontrol", "update", "NodeName=n[1-2]", "State=DRAIN", "Reason=repair"))
    resume = Command(100, ("scontrol", "update", "nodename=n[1-2]", "State=RESUME"))
    found = outcome_of([Rigid(0, 3000, nodes=2), Rigid(200, 60, nodes=1)], 3, commands=[drain, resume])
    assert found.ends(1) == [found.starts(1)[0] + 3000]
    assert found.starts(2)[0] == pytest.approx(200, abs=5)


def test_a_drained_node_takes_no_job_until_it_is_resumed_and_its_run_goes_on() -> None:
    drain = Command(50, ("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=repair"))
    resume = Command(1000, ("scontrol", "update", "NodeName=n1", "State=RESUME"))
    found = outcome_of([Rigid(0, 300), Rigid(400, 60, nodes=2)], 2, commands=[drain, resume])
    assert found.ends(1) == [found.starts(1)[0] + 300]
    assert found.starts(2)[0] == pytest.approx(1000, abs=10)


def test_nobody_else_runs_in_a_reservation() -> None:
    times = AtSecond("StartTime", 100), AtSecond("EndTime", 2000)
    who = "Nodes=n1", "Users=root"
    create = Command(0, ("scontrol", "create", "reservation", "ReservationName=r", *times, *who))
    found = outcome_of([Rigid(10, 500, nodes=2), Rigid(10, 60, nodes=2)], 2, commands=[create])
    assert found.starts(1)[0] == pytest.approx(2000, abs=10)
    assert found.ends(1) == [found.starts(1)[0] + 500]
    assert found.refusal(1) is None
    assert found.ends(2)[0] < 100


def test_at_most_so_many_jobs_of_an_array_run_at_a_time() -> None:
    jobs = [Rigid(10, 100 + 10 * k, limit_s=600) for k in range(5)]
    found = outcome_of(jobs, 4, arrays=[JobArray((1, 2, 3, 4, 5), 2)])
    spans = [(found.starts(k)[0], found.ends(k)[0]) for k in range(1, 6)]
    assert [round(end - start) for start, end in spans] == [100, 110, 120, 130, 140]
    assert max(sum(start <= at < end for start, end in spans) for at, _ in spans) == 2


def test_dependent_jobs_wait_for_others_also_of_an_array_and_for_success() -> None:
    jobs = [
        Rigid(0, 300, limit_s=600),
        Rigid(0, 200, limit_s=60),
        Rigid(10, 50, limit_s=60, options={"dependency": "afterany:1:2"}),
        Rigid(10, 50, limit_s=60, options={"dependency": "afterok:2"}),
        Rigid(10, 50, limit_s=60, options={"dependency": "afternotok:2"}),
    ]
    found = outcome_of(jobs, 4)
    assert found.starts(3)[0] >= found.ends(1)[0]
    assert "DependencyNeverSatisfied" in str(found.refusal(4))
    (ended_s,) = found.times(Fact.RUN_PREEMPTED, 2)
    assert ended_s <= found.starts(5)[0] <= ended_s + 10


def test_options_that_only_sbatch_has_are_submitted_by_it_and_refused_in_its_words() -> None:
    def jobs(*others: str) -> list[Rigid]:
        options = [{}, {"nice": 50}, {"dependency": "afterok:1"}, *([{"requeue": False}] * 3)]
        return [
            Rigid(10 * k, 100, 1 + k % 2, user=f"u{k % 2}", options={**each, "others": others})
            for k, each in enumerate(options)
        ]

    by_sbatch = jobs("--verbose")
    array = [JobArray((4, 5, 6), 2)]
    by_codec, found = (outcome_of(each, 2, arrays=array) for each in (jobs(), by_sbatch))
    for job in range(1, 7):
        assert (found.starts(job), found.places(job)) == (by_codec.starts(job), by_codec.places(job))
    refused = outcome_of([Rigid(0, 60, options={"others": ("--nonsense",)}), Rigid(5, 60)], 2)
    assert "Slurm rejected it: " in str(refused.refusal(1))
    assert "unrecognized option '--nonsense'" in str(refused.refusal(1))
    assert len(refused.ends(2)) == 1


def test_jobs_are_cancelled_while_they_wait_and_while_they_run() -> None:
    jobs = [Rigid(0, 1000, nodes=2), Rigid(10, 1000), Rigid(20, 100)]
    found = outcome_of(
        jobs, 2, commands=[Command(100, ("scancel", OfJob(2))), Command(200, ("scancel", OfJob(1)))]
    )
    cancelled = "Slurm ended it: it was cancelled (CANCELLED)"
    assert found.refusal(2) == found.refusal(1) == cancelled
    assert found.times(Fact.JOB_REFUSED, 2) == [100]
    assert not found.starts(2)
    assert found.times(Fact.RUN_PREEMPTED, 1)[0] == pytest.approx(200, abs=2)
    assert found.starts(3)[0] == pytest.approx(200, abs=10)


def test_jobs_of_an_array_are_cancelled_one_by_one() -> None:
    jobs = [Rigid(0, 300, nodes=2), Rigid(0, 60), Rigid(0, 60)]
    found = outcome_of(
        jobs, 2, arrays=[JobArray((2, 3), None)], commands=[Command(100, ("scancel", OfJob(3)))]
    )
    assert found.times(Fact.JOB_REFUSED, 3) == [100]
    assert len(found.ends(2)) == 1


def test_a_held_job_starts_when_it_is_released_and_one_that_never_is_does_not() -> None:
    jobs = [
        Rigid(0, 60, options={"hold": True}),
        Rigid(0, 60, options={"hold": True}),
        Rigid(0, 60, nodes=2),
        Rigid(10, 60, nodes=2),
    ]
    commands = [
        Command(500, ("scontrol", "release", OfJob(1))),
        Command(20, ("scontrol", "hold", OfJob(4))),
        Command(900, ("scontrol", "release", OfJob(4))),
    ]
    found = outcome_of(jobs, 2, commands=commands)
    assert found.starts(1)[0] == pytest.approx(500, abs=10)
    assert found.starts(4)[0] == pytest.approx(900, abs=10)
    assert found.refusal(2) == "Slurm never starts it: JobHeldUser"


def test_a_requeued_job_runs_again_from_the_beginning() -> None:
    found = outcome_of([Rigid(0, 300)], 1, commands=[Command(100, ("scontrol", "requeue", OfJob(1)))])
    assert found.times(Fact.RUN_PREEMPTED, 1)[0] == pytest.approx(100, abs=2)
    first_s, again_s = found.starts(1)
    assert again_s >= first_s + 100
    assert found.ends(1) == [again_s + 300]
