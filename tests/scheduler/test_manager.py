"""The manager among recording fakes, driven by hand; and in a tiny world, driven by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from scheduler.managers.commitments import Run
from scheduler.managers.mapping_manager import MappingManager
from scheduler.managers.queues import (
    Gain,
    MappingPolicy,
    PlannedStarts,
    PreemptionPolicy,
    QueuePolicy,
    UserPolicy,
)
from scheduler.mapping.greedy import Sjs
from scheduler.mapping.immediate import Mct, Olb
from scheduler.mapping.pjs import Pjs
from scheduler.model import Assignment, Job, JobId, MachineReading, RunId, Schedule
from scheduler.ports import AnyScheduler, RunEnded, RunLost
from scheduler.resource_manager import OnMachines
from scheduler.rules import PREEMPTS_RUNNING_RUNS, ScheduleRejected
from tests.examples import up_to
from tests.scheduler.fakes import (
    NO_TARGET,
    ClusterOf,
    Desk,
    FixedScheduler,
    Ruthless,
    TableExperience,
    TinyWorld,
    check_books,
    check_plan,
    make_site,
)

INF = np.inf
HIGH = QueuePolicy("high", 2, displaces=frozenset({"low"}))
MIDDLE = QueuePolicy("middle", 1)
LOW = QueuePolicy("low", 0)
REMAP = MappingPolicy.REMAP


def machines(n: int, seconds: float = 10.0, *queues: QueuePolicy) -> Desk:
    """A desk over `n` equal machines."""
    return Desk(make_site(n), [seconds] * n, queues or (QueuePolicy(),))


def with_pair(*queues: QueuePolicy, least_share: float = 1.0) -> Desk:
    """A desk over machines 0, 1 and 2, where 0 and 1 are also cluster 3: 10 s on a machine, 6 on the pair."""
    site = make_site(3, [ClusterOf((0, 1), ("lan", "wan"), least_share)])
    return Desk(site, [10.0, 10.0, 10.0, 6.0], queues or (QueuePolicy(),))


PAIR = 3


# -- arrivals ----------------------------------------------------------------------------------------------


def test_a_job_of_a_user_without_access_is_refused_before_scheduling() -> None:
    desk = machines(1, 10.0, QueuePolicy("staff", users=frozenset({"ann"})))
    refusal = desk.submit(1, 0, queue="staff", user="bob")
    assert refusal == "user 'bob' may not submit to queue 'staff'"
    assert desk.submit(2, 0, queue="staff", user="ann") is None
    desk.round()
    assert desk.scheduler.offered == [[2]]


def test_an_arrival_requests_a_round_and_starts_nothing_yet() -> None:
    desk = machines(1)
    assert not desk.manager.wants_round
    desk.submit(1, 0)
    assert desk.manager.wants_round
    assert desk.dispatched == []
    assert desk.manager.why_waiting() == {1: "no round has looked at it yet"}


# -- one round ---------------------------------------------------------------------------------------------


def test_a_round_maps_jobs_in_arrival_order_and_starts_the_first_runs() -> None:
    desk = machines(2)
    desk.submit(7, 0)
    desk.submit(5, 0)
    desk.clock.now_s = 1.0
    desk.serve((3, 1), at_s=2.0)
    assert desk.scheduler.offered == [[5, 7, 3]]
    assert desk.dispatched == [(2.0, 5, 0), (2.0, 3, 1)]
    assert desk.planned == {7: (12.0, 22.0)}
    assert not desk.manager.wants_round


def test_a_planned_run_starts_without_a_round_when_its_predecessor_ends() -> None:
    desk = machines(1)
    desk.serve((1, 0), (2, 0))
    desk.end(1, 10.0)
    assert desk.dispatched == [(0.0, 1, 0), (10.0, 2, 0)]


def test_the_first_planned_run_does_not_wait_for_its_planned_time() -> None:
    desk = machines(1)
    desk.submit(1, 0, not_before_s=50.0)
    desk.round()
    assert desk.dispatched == [(0.0, 1, 0)]


def test_a_waiting_job_is_offered_again_and_its_reason_is_reported() -> None:
    desk = machines(1)
    desk.serve((1,))
    assert desk.manager.why_waiting() == {1: NO_TARGET}
    assert not desk.manager.wants_round
    desk.round(5.0)
    assert desk.scheduler.offered == [[1], [1]]


def test_a_job_mapped_since_loses_its_old_wait_reason() -> None:
    desk = machines(2)
    desk.serve((1, 0), (2,))
    desk.scheduler.targets[2] = 0
    desk.round(1.0)
    desk.observe(0, up=False)
    assert desk.manager.why_waiting() == {2: "no round has looked at it yet"}


# -- commit and remap --------------------------------------------------------------------------------------


def test_a_committed_run_keeps_its_mapping() -> None:
    desk = machines(2)
    desk.serve((1, 0), (2, 0))
    desk.scheduler.targets[2] = 1
    desk.serve((3, 1), at_s=1.0)
    assert desk.scheduler.offered == [[1, 2], [3]]
    assert desk.planned == {2: (10.0, 20.0)}


def test_remap_maps_planned_runs_again_but_not_started_ones() -> None:
    desk = machines(2, 10.0, QueuePolicy(mapping=REMAP))
    desk.serve((1, 0), (2, 0))
    desk.scheduler.targets[2] = 1
    desk.round(1.0)
    assert desk.scheduler.offered == [[1, 2], [2]]
    assert desk.dispatched == [(0.0, 1, 0), (1.0, 2, 1)]


@pytest.mark.parametrize(
    ("queue", "third", "wants_round"),
    [(QueuePolicy(), (3, 0), False), (QueuePolicy(), (3,), True), (QueuePolicy(mapping=REMAP), (3, 0), True)],
    ids=["planned", "waiting", "planned, but to be remapped"],
)
def test_an_end_requests_a_round_while_a_job_waits_or_is_to_be_remapped(
    queue: QueuePolicy, third: tuple[int, ...], wants_round: bool
) -> None:
    desk = machines(2, 10.0, queue)
    desk.serve((1, 0), (2, 1), third)
    desk.end(2, 4.0)
    assert desk.manager.wants_round is wants_round


class Unscanned(dict[JobId, Run]):
    """Planned runs that may only be looked up."""

    def values(self) -> NoReturn:
        raise AssertionError("all planned runs were scanned")

    __iter__ = items = keys = values


def test_a_round_looks_only_at_the_planned_runs_of_queues_that_remap() -> None:
    desk = machines(1, 10.0, MIDDLE, QueuePolicy("low", mapping=REMAP))
    for job, queue in ((1, "middle"), (2, "middle"), (3, "low")):
        desk.serve((job, 0, queue))
    assert desk.planned == {2: (10.0, 20.0), 3: (20.0, 30.0)}
    desk.manager._planned = Unscanned(desk.manager._planned)
    desk.manager.on_run_lost(RunLost(RunId(99), 0.0))
    assert desk.manager.wants_round
    desk.manager.run_round()
    desk.manager._planned = dict(dict.items(desk.manager._planned))
    assert desk.scheduler.offered[-1] == [3]


def test_runs_to_be_remapped_do_not_delay_other_queues() -> None:
    desk = machines(1, 10.0, MIDDLE, QueuePolicy("low", mapping=REMAP))
    desk.serve((1, 0, "low"), (2, 0, "low"))
    desk.serve((3, 0, "middle"), at_s=1.0)
    assert desk.scheduler.ready_s[1:] == [[10.0], [20.0]]
    assert desk.planned == {3: (10.0, 20.0), 2: (20.0, 30.0)}


# -- queues ------------------------------------------------------------------------------------------------


def test_queues_are_served_by_priority_and_share_ready_times() -> None:
    desk = machines(2, 10.0, LOW, MIDDLE)
    desk.serve((1, 0, "low"), (2, 0, "middle"))
    assert desk.scheduler.offered == [[2], [1]]
    assert desk.scheduler.ready_s == [[0.0, 0.0], [10.0, 0.0]]
    assert desk.planned == {1: (10.0, 20.0)}


def test_queues_of_equal_priority_are_served_in_the_given_order() -> None:
    desk = machines(1, 10.0, QueuePolicy("b"), QueuePolicy("a"))
    desk.serve((1, 0, "a"), (2, 0, "b"))
    assert desk.scheduler.offered == [[2], [1]]


def test_a_higher_queue_without_displacement_waits_behind_a_lower_one() -> None:
    desk = machines(1, 10.0, MIDDLE, LOW)
    desk.serve((1, 0, "low"))
    desk.serve((2, 0, "middle"), at_s=1.0)
    assert desk.preempted == []
    assert desk.planned == {2: (10.0, 20.0)}


@pytest.mark.parametrize(
    ("queues", "words"),
    [
        ((LOW, LOW), "there are two queues named 'low'"),
        ((HIGH,), "displaces 'low', but there is no such queue"),
        ((QueuePolicy("a", displaces=frozenset({"a"})),), "cannot displace itself"),
        ((QueuePolicy("a", 1), QueuePolicy("b", 0, displaces=frozenset({"a"}))), "served before it"),
        ((QueuePolicy("a"), QueuePolicy("b", displaces=frozenset({"a"}))), "served before it"),
    ],
)
def test_invalid_queues_are_rejected(queues: tuple[QueuePolicy, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        machines(1, 10.0, *queues)


# -- preemption within bounds -------------------------------------------------------------------------------


def with_a_low_run(
    preemption: PreemptionPolicy, *between: QueuePolicy, high: AnyScheduler | None = None
) -> Desk:
    """One machine, on which job 1 of the low queue runs from 0 to 10 s."""
    schedulers = {"high": high} if high else {}
    desk = Desk(make_site(1), [10.0], (HIGH, *between, LOW), schedulers, preemption=preemption)
    desk.serve((1, 0, "low"), at_s=0.0)
    return desk


def test_a_job_displaced_too_often_moves_to_the_next_higher_queue() -> None:
    desk = with_a_low_run(PreemptionPolicy(raised_after=2), MIDDLE)
    for k, at_s in enumerate((4.0, 20.0)):
        desk.serve((10 + k, 0, "high"), at_s=at_s)
        desk.stop(1)
        desk.end(10 + k, at_s + 10.0)
    assert desk.preempted == [(4.0, 1), (20.0, 1)]
    desk.serve((12, 0, "high"), at_s=34.0)
    assert desk.preempted == [(4.0, 1), (20.0, 1)]
    desk.end(1, 40.0)
    assert desk.dispatched[-1] == (40.0, 12, 0)


def test_moving_a_job_to_a_queue_already_served_requests_another_round() -> None:
    desk = with_a_low_run(PreemptionPolicy(raised_after=1))
    desk.serve((10, 0, "high"), at_s=4.0)
    assert desk.manager.wants_round
    desk.round(4.0)
    assert not desk.manager.wants_round
    assert desk.planned == {10: (4.0, 14.0), 1: (14.0, 24.0)}


def test_a_raised_job_that_ends_before_its_preemption_is_finished() -> None:
    desk = with_a_low_run(PreemptionPolicy(raised_after=1), MIDDLE)
    del desk.scheduler.targets[1]
    desk.serve((10, 0, "high"), at_s=4.0)
    assert desk.waiting == {1}
    desk.end(1, 4.0)
    assert desk.waiting == set()


@pytest.mark.parametrize(("least_gain_s", "displaced"), [(5.0, True), (6.0, False), (7.0, False)])
def test_a_queue_displaces_only_if_its_own_gain_exceeds_the_minimum(
    least_gain_s: float, displaced: bool
) -> None:
    desk = with_a_low_run(PreemptionPolicy(least_gain_s=least_gain_s, gain=Gain.OWN), high=Mct())
    desk.serve((10, None, "high"), at_s=4.0)  # it would be done at 14 s instead of 20 s
    assert desk.preempted == ([(4.0, 1)] if displaced else [])


def test_a_gain_that_is_less_than_the_loss_of_the_displaced_job_displaces_nothing() -> None:
    desk = with_a_low_run(PreemptionPolicy(least_gain_s=1.0), high=Mct())
    desk.serve(
        (10, None, "high"), at_s=4.0
    )  # it would gain 6 s, and the displaced job end at 24 s instead of 10 s
    assert desk.preempted == []
    assert desk.planned == {10: (10.0, 20.0)}


@pytest.mark.parametrize(
    ("least_gain_s", "gain", "displaced"),
    [(88.0, Gain.NET, True), (89.0, Gain.NET, False), (95.0, Gain.OWN, True), (96.0, Gain.OWN, False)],
)
def test_a_displaced_job_loses_what_it_takes_longer_where_it_is_done_first(
    least_gain_s: float, gain: Gain, displaced: bool
) -> None:
    seconds = {"work": [10.0, 200.0], "long": [100.0, 103.0]}
    desk = Desk(make_site(2), seconds, (HIGH, LOW), preemption=PreemptionPolicy(None, least_gain_s, gain))
    desk.serve((1, 0, "low", "long"), at_s=0.0)
    desk.serve(
        (10, 0, "high"), at_s=4.0
    )  # done at 14 s instead of 110 s; job 1 on the other machine at 107 s instead of 100 s
    assert desk.preempted == ([(4.0, 1)] if displaced else [])


def test_withdrawn_plans_do_not_raise_a_job() -> None:
    desk = with_a_low_run(PreemptionPolicy(raised_after=1), MIDDLE)
    desk.serve((2, 0, "low"), at_s=0.5)
    for high, at_s in ((10, 10.0), (11, 20.0)):
        desk.submit(high, 0, "high", not_before_s=at_s)
        desk.round(at_s / 10.0)  # overlaps the plan of job 2 only
        assert desk.planned[2] == (at_s + 10.0, at_s + 20.0)
    assert desk.preempted == []


# -- planned starts ----------------------------------------------------------------------------------------


def with_fixed_starts() -> Desk:
    """One machine with a run of job 1 until 10 s and one of job 2 planned after it, whose start is kept."""
    desk = Desk(make_site(1), [10.0], planned_starts=PlannedStarts.KEPT)
    desk.serve((1, 0), at_s=0.0)
    desk.submit(2, 0)
    desk.manager.run_round()
    return desk


def test_a_fixed_start_is_kept_if_the_machine_is_free_earlier() -> None:
    desk = with_fixed_starts()
    desk.end(1, 6.0)
    assert desk.dispatched == [(0.0, 1, 0)]
    assert desk.manager.wakes_at_s == 10.0
    desk.wake(10.0)
    assert desk.dispatched == [(0.0, 1, 0), (10.0, 2, 0)]
    assert desk.manager.wakes_at_s is None


def test_a_fixed_start_is_delayed_if_the_machine_is_free_later() -> None:
    desk = with_fixed_starts()
    desk.end(1, 12.0)
    assert desk.dispatched == [(0.0, 1, 0), (12.0, 2, 0)]


def test_new_jobs_are_mapped_after_a_fixed_start_and_not_in_the_gap_before_it() -> None:
    desk = with_fixed_starts()
    desk.end(1, 6.0)
    desk.submit(3, 0)
    desk.manager.run_round()
    assert desk.planned == {2: (10.0, 20.0), 3: (20.0, 30.0)}


def test_a_withdrawn_run_cancels_its_wake_time() -> None:
    desk = with_fixed_starts()
    desk.end(1, 6.0)
    desk.observe(0, up=False)
    assert desk.manager.wakes_at_s is None
    assert desk.waiting == {2}


# -- displacement ------------------------------------------------------------------------------------------


def test_a_high_queue_sees_ready_times_without_the_displaced_queue() -> None:
    desk = machines(3, 10.0, HIGH, MIDDLE, LOW)
    desk.serve((1, 0, "low"), (2, 0, "low"), (3, 1, "middle"), (4, 1, "low"))
    desk.serve((5, 2, "high"), (6, 2, "middle"), at_s=4.0)
    assert desk.scheduler.ready_s[-2:] == [[4.0, 10.0, 4.0], [20.0, 20.0, 14.0]]
    assert desk.preempted == []


def test_a_low_run_is_preempted_and_the_new_run_waits_for_the_notice() -> None:
    desk = machines(1, 10.0, HIGH, LOW)
    desk.serve((1, 0, "low"))
    desk.serve((2, 0, "high"), at_s=4.0)
    assert desk.preempted == [(4.0, 1)]
    assert desk.dispatched == [(0.0, 1, 0)]
    desk.stop(1, 4.5)
    assert desk.dispatched == [(0.0, 1, 0), (4.5, 2, 0)]


def test_a_preempted_job_returns_to_its_queue_in_the_same_round() -> None:
    desk = machines(2, 10.0, HIGH, LOW)
    desk.serve((1, 0, "low"))
    desk.serve((2, 0, "high"), at_s=4.0)
    assert desk.scheduler.offered[-2:] == [[2], [1]]
    assert desk.scheduler.ready_s[-1] == [14.0, 4.0]
    assert desk.planned == {2: (4.0, 14.0), 1: (14.0, 24.0)}


def test_a_preempted_job_restarts_elsewhere_only_after_the_notice() -> None:
    desk = machines(2, 10.0, HIGH, LOW)
    desk.serve((1, 0, "low"))
    desk.submit(2, 0, "high")
    desk.scheduler.targets[1] = 1
    desk.round(4.0)
    assert desk.dispatched == [(0.0, 1, 0)]
    desk.stop(1, 6.0)
    assert desk.dispatched[1:] == [(6.0, 2, 0), (6.0, 1, 1)]


def test_an_overlapping_planned_low_run_is_withdrawn_without_an_order() -> None:
    desk = machines(1, 10.0, HIGH, MIDDLE, LOW)
    desk.serve((1, 0, "middle"), (2, 0, "low"))
    desk.serve((3, 0, "high"), at_s=2.0)
    assert desk.preempted == []
    assert desk.scheduler.offered[-2:] == [[3], [2]]
    assert desk.planned == {3: (10.0, 20.0), 2: (20.0, 30.0)}


def test_a_low_run_that_does_not_overlap_the_high_run_is_not_displaced() -> None:
    desk = machines(1, 10.0, HIGH, LOW)
    desk.serve((1, 0, "low"), (2, 0, "low"), (3, 0, "low"))
    desk.submit(4, 0, "high", not_before_s=10.0)
    desk.round(2.0)
    assert desk.preempted == []
    assert desk.scheduler.offered[-1] == [2]
    assert desk.planned == {4: (10.0, 20.0), 3: (20.0, 30.0), 2: (30.0, 40.0)}


def test_a_high_cluster_run_displaces_on_every_member_and_waits_for_all_notices() -> None:
    desk = with_pair(HIGH, LOW)
    desk.serve((1, 0, "low"), (2, 1, "low"))
    desk.serve((3, PAIR, "high"), at_s=2.0)
    assert desk.preempted == [(2.0, 1), (2.0, 2)]
    desk.stop(2, 3.0)
    assert len(desk.dispatched) == 2
    desk.stop(1, 4.0)
    assert desk.dispatched[2:] == [(4.0, 3, PAIR)]


def test_a_start_early_by_a_rounding_error_does_not_overtake_the_current_run() -> None:
    early = FixedScheduler(Schedule.of([Assignment(0, 0, 1000.0 - 1e-7, 1010.0 - 1e-7)]))
    desk = Desk(make_site(1), [10.0], (HIGH, LOW), {"high": early})
    desk.serve((1, 0, "low"), at_s=1000.0)
    desk.submit(2, queue="high")
    desk.round()
    assert desk.dispatched == [(1000.0, 1, 0)]
    assert desk.preempted == [(1000.0, 1)]


# -- notices that overtake each other ----------------------------------------------------------------------


def test_a_job_that_ends_before_its_preemption_order_is_finished_once() -> None:
    desk = machines(1, 10.0, HIGH, LOW)
    desk.serve((1, 0, "low"))
    run = desk.run_of(1)
    desk.serve((2, 0, "high"), at_s=10.0)
    desk.end(1, 10.0)
    desk.manager.on_run_preempted(run)
    desk.end(2, 20.0)
    desk.round(21.0)
    assert desk.dispatched == [(0.0, 1, 0), (10.0, 2, 0)]
    assert [record.job.id for record in desk.experience.records] == [1, 2]
    assert not desk.waiting


def test_a_run_lost_before_its_preemption_lets_its_job_start_elsewhere() -> None:
    desk = machines(2, 10.0, HIGH, LOW)
    desk.serve((1, 0, "low"))
    desk.submit(2, 0, "high")
    desk.scheduler.targets[1] = 1
    desk.round(4.0)
    desk.lose(1, [0], at_s=5.0)
    assert desk.dispatched[1:] == [(5.0, 1, 1)]
    assert desk.waiting == {2}


def test_a_job_preempted_without_an_order_returns_to_its_queue() -> None:
    desk = machines(1)
    desk.serve((1, 0))
    desk.stop(1, 3.0)
    assert desk.waiting == {1}
    assert desk.manager.wants_round


def test_notices_of_finished_runs_change_nothing() -> None:
    desk = machines(1)
    desk.serve((1, 0), (2, 0))
    run = desk.run_of(1)
    desk.end(1, 10.0)
    desk.manager.on_run_ended(RunEnded(run, 11.0))
    desk.manager.on_run_preempted(run)
    desk.manager.on_run_lost(RunLost(run, 11.0))
    desk.manager.on_run_ended(RunEnded(RunId(99), 11.0))
    check_books(desk.manager)
    assert desk.dispatched == [(0.0, 1, 0), (10.0, 2, 0)]
    assert len(desk.experience.records) == 1
    assert not desk.waiting


# -- preemption by the scheduler itself --------------------------------------------------------------------


def test_a_victim_chosen_by_the_scheduler_is_preempted_and_its_job_waits_again() -> None:
    desk = machines(1)
    desk.serve((1, 0))
    desk.submit(2, 0)
    desk.scheduler.victims.append(desk.run_of(1))
    desk.round(4.0)
    assert desk.scheduler.ready_s[-1] == [4.0]
    assert desk.preempted == [(4.0, 1)]
    assert desk.waiting == {1}
    desk.stop(1, 5.0)
    assert desk.dispatched == [(0.0, 1, 0), (5.0, 2, 0)]
    assert desk.manager.wants_round


def test_querying_ready_times_without_a_run_changes_nothing() -> None:
    desk = machines(1)
    desk.serve((1, 0))
    desk.serve((2,), at_s=4.0)
    problem = desk.scheduler.problems[-1]
    assert problem.ready_times_without([desk.run_of(1)]).machine_s.tolist() == [4.0]
    check_books(desk.manager)
    assert problem.ready_times_without([]).machine_s.tolist() == [10.0]


def test_without_its_victims_a_machine_is_ready_after_its_planned_runs() -> None:
    desk = machines(2)
    desk.serve((1, 0), (2, 0))
    desk.serve((3, 1), at_s=4.0)
    problem = desk.scheduler.problems[-1]
    assert problem.ready_times_without([desk.run_of(1)]).machine_s.tolist() == [20.0, 14.0]


def test_victims_of_a_high_queue_are_removed_in_addition_to_displaced_queues() -> None:
    desk = machines(1, 10.0, HIGH, LOW)
    desk.serve((1, 0, "high"), (2, 0, "low"))
    desk.submit(3, 0, "high")
    desk.scheduler.victims.append(desk.run_of(1))
    desk.round(4.0)
    assert desk.scheduler.ready_s[-2] == [4.0]
    assert desk.preempted == [(4.0, 1)]
    assert desk.planned[3] == (4.0, 14.0)


def test_the_scheduler_does_not_see_runs_being_preempted() -> None:
    desk = machines(2, 10.0, HIGH, LOW)
    desk.serve((1, 0, "low"), (2, 1, "low"))
    desk.serve((3, 0, "high"), at_s=4.0)
    assert desk.scheduler.running[-2:] == [{1: 10.0, 2: 10.0}, {2: 10.0}]


def test_the_scheduler_sees_an_overdue_run_as_ending_now() -> None:
    desk = machines(2)
    desk.serve((1, 0))
    desk.serve((2, 1), at_s=30.0)
    assert desk.scheduler.running[-1] == {1: 30.0}
    desk.serve((3, 1), at_s=33.0)
    assert desk.scheduler.running[-1] == {1: 33.0, 2: 40.0}


def test_a_scheduler_cannot_modify_the_running_jobs_or_ready_times() -> None:
    desk = machines(1)
    desk.serve((1, 0))
    desk.serve((2,), at_s=1.0)
    assert not hasattr(desk.scheduler.problems[-1].running, "pop")
    assert not desk.scheduler.problems[-1].ready_times.machine_s.flags.writeable


# -- schedules that break a rule ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Schedule.of([Assignment(0, 0, -5.0, 5.0)], {1: "later"}),
        Schedule.of([Assignment(0, 0, 0.0, 10.0), Assignment(1, 0, 5.0, 15.0)]),
        Schedule.of([Assignment(0, 0, 0.0, 10.0)]),
        Schedule.of([Assignment(0, 0, 0.0, 10.0), Assignment(1, 7, 0.0, 10.0)]),
        Schedule.of([Assignment(0, 0, 0.0, 10.0)], {1: "later"}, [RunId(0)]),
    ],
    ids=["in-the-past", "double-booked", "forgotten", "no-such-machine", "no-such-victim"],
)
def test_an_invalid_schedule_is_not_carried_out(answer: Schedule) -> None:
    desk = Desk(make_site(1), [10.0], schedulers={"default": FixedScheduler(answer)})
    desk.submit(1)
    desk.submit(2)
    with pytest.raises(ScheduleRejected):
        desk.manager.run_round()
    check_books(desk.manager)
    assert desk.dispatcher.orders == []
    assert desk.dispatcher.preemptions == []
    assert desk.waiting == {1, 2}
    assert set(desk.manager.why_waiting().values()) == {"no round has looked at it yet"}


def test_a_victim_that_is_already_being_preempted_is_rejected() -> None:
    desk = machines(1)
    desk.serve((1, 0))
    desk.submit(2, 0)
    desk.scheduler.victims.append(desk.run_of(1))
    desk.round(1.0)
    desk.schedulers["default"] = FixedScheduler(Schedule.of([], {0: "later"}, [desk.run_of(1)]))
    with pytest.raises(ScheduleRejected) as caught:
        desk.manager.run_round()
    assert caught.value.violation.rule == PREEMPTS_RUNNING_RUNS
    assert desk.preempted == [(1.0, 1)]


def test_the_round_after_a_rejected_one_starts_its_jobs_and_earlier_decisions() -> None:
    forgets = FixedScheduler(Schedule.of([]))
    desk = Desk(make_site(2), [10.0, 10.0], (HIGH, LOW), {"low": forgets})
    desk.submit(1, 0, "high")
    desk.submit(2, 1, "low")
    with pytest.raises(ScheduleRejected):
        desk.manager.run_round()
    assert desk.manager.wants_round
    desk.schedulers["low"] = desk.scheduler
    desk.round(1.0)
    assert desk.dispatched == [(1.0, 1, 0), (1.0, 2, 1)]


# -- losses and outages ------------------------------------------------------------------------------------


def test_a_machine_found_down_by_an_order_stays_down_until_a_later_up_reading() -> None:
    desk = machines(2)
    desk.serve((1, 0), at_s=10.0)
    desk.lose(1, [0])
    desk.scheduler.targets[1] = 1
    desk.round(11.0)
    assert desk.scheduler.ready_s[-1] == [INF, 11.0]
    assert desk.dispatched[-1] == (11.0, 1, 1)
    desk.observe(0, up=True, measured_s=9.0)
    desk.serve((2,), at_s=12.0)
    assert desk.scheduler.ready_s[-1] == [INF, 21.0]
    desk.observe(0, up=True, measured_s=12.0)
    assert desk.manager.wants_round
    desk.round(13.0)
    assert desk.scheduler.ready_s[-1] == [13.0, 21.0]


def test_a_machine_that_recovered_before_the_loss_was_reported_is_used() -> None:
    desk = machines(1)
    desk.serve((1, 0))
    desk.clock.now_s = 20.0
    desk.manager.on_run_lost(RunLost(desk.run_of(1), 12.0, (0,)))
    desk.observe(0, up=True, measured_s=15.0)
    desk.round()
    assert desk.dispatched == [(0.0, 1, 0), (20.0, 1, 0)]


def test_losing_all_interconnects_closes_the_cluster_but_not_its_machines() -> None:
    desk = with_pair()
    desk.serve((1, PAIR), at_s=10.0)
    desk.lose(1, ["lan", "wan"])
    desk.submit(2, 0)
    desk.scheduler.targets[1] = 2
    desk.round(11.0)
    problem = desk.scheduler.problems[-1]
    assert problem.ready_times.cluster_s.tolist() == [INF]
    assert desk.dispatched[1:] == [(11.0, 1, 2), (11.0, 2, 0)]
    desk.observe("wan", up=True, measured_s=9.0)
    desk.observe("lan", up=True, measured_s=12.0)
    desk.serve((3,), at_s=13.0)
    assert desk.scheduler.problems[-1].ready_times.members == ((0, 1),)


def test_runs_planned_on_a_failed_machine_are_remapped_and_the_started_run_continues() -> None:
    desk = machines(2)
    desk.serve((1, 0), (2, 0))
    desk.observe(0, up=False)
    assert desk.waiting == {2}
    assert desk.manager.wants_round
    desk.scheduler.targets[2] = 1
    desk.round(1.0)
    assert desk.dispatched == [(0.0, 1, 0), (1.0, 2, 1)]
    desk.end(1, 10.0)
    assert [record.job.id for record in desk.experience.records] == [1]


def test_a_round_reads_pending_monitor_news_first() -> None:
    desk = machines(2)
    desk.submit(1)
    desk.monitor.unread.append(MachineReading(1, False, 0.0))
    desk.round()
    assert desk.scheduler.ready_s == [[0.0, INF]]


def test_a_reading_without_news_requests_no_round() -> None:
    desk = machines(1)
    desk.serve((1,))
    desk.observe(0, up=True)
    assert not desk.manager.wants_round
    desk.observe(0, up=False)
    assert desk.manager.wants_round


# -- degraded clusters -------------------------------------------------------------------------------------


def test_an_open_degraded_cluster_runs_slower_on_its_available_members() -> None:
    desk = with_pair(least_share=0.5)
    desk.observe(1, up=False)
    desk.serve((1, PAIR), (2, PAIR))
    assert desk.dispatcher.orders[0][1].machines == (0,)
    assert desk.planned == {2: (12.0, 24.0)}


# -- by chance ---------------------------------------------------------------------------------------------

WORLD_SITE = make_site(
    5, [ClusterOf((0, 1, 2), ("lan",), 0.6), ClusterOf((2, 3), ("lan", "wan")), ClusterOf((3, 4))]
)
WORLD_SECONDS: Mapping[str, tuple[float, ...]] = {
    "any": (8.0, 8.0, 12.0, 12.0, 20.0, INF, INF, INF),
    "parallel": (90.0, 90.0, 90.0, 70.0, 70.0, 11.0, 17.0, 23.0),
    "picky": (INF, 5.0, INF, 7.0, INF, INF, 4.0, INF),
}
SUBJECTS: tuple[int | str, ...] = ("lan", "wan", 0, 1, 2, 3, 4)


class ManagerInTheWorld(RuleBasedStateMachine):
    """Whatever arrives, ends, fails, is late or overtakes what: the manager keeps its promises."""

    def __init__(self) -> None:
        super().__init__()
        self.next_job = 0

    @initialize(
        mapping=st.tuples(*[st.sampled_from(MappingPolicy)] * 3),
        kinds=st.tuples(*[st.sampled_from((Pjs, Pjs, Pjs, Sjs, Mct, Olb, Ruthless))] * 3),
        delays_s=st.lists(st.sampled_from((0.0, 0.0, 1.0, 7.0, 25.0)), min_size=1, max_size=5),
    )
    def found_site(
        self,
        mapping: tuple[MappingPolicy, MappingPolicy, MappingPolicy],
        kinds: tuple[type[AnyScheduler], type[AnyScheduler], type[AnyScheduler]],
        delays_s: list[float],
    ) -> None:
        names = ("high", "middle", "low")
        displaces = (frozenset({"low"}), frozenset[str](), frozenset[str]())
        queues = [
            QueuePolicy(name, -k, displaces=displaces[k], mapping=mapping[k]) for k, name in enumerate(names)
        ]
        self.may_be_preempted = set(names) if Ruthless in kinds else {"low"}
        self.world = TinyWorld(WORLD_SITE, WORLD_SECONDS, delays_s)
        self.experience = TableExperience(WORLD_SITE, WORLD_SECONDS)
        self.manager = self.world.manager = MappingManager(
            OnMachines(self.world, self.world, WORLD_SITE, self.world, self.experience),
            queues,
            {name: kind() for name, kind in zip(names, kinds, strict=True)},
        )

    @rule(
        queue=st.sampled_from(("high", "middle", "low", "low")),
        job_class=st.sampled_from(("parallel", "any", "picky")),
        run_time_factor=st.sampled_from((1.0, 1.0, 0.3, 1.5, 4.0)),
    )
    def submit(self, queue: str, job_class: str, run_time_factor: float) -> None:
        job = Job(JobId(self.next_job), job_class, self.world.now_s, "ann", queue)
        self.next_job += 1
        assert self.world.submit(job, run_time_factor) is None

    @rule(seconds=st.sampled_from((1.0, 3.0, 9.0, 30.0)))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule()
    def an_event_occurs(self) -> None:
        self.world.run_next_event()

    @rule()
    def hold_round(self) -> None:
        self.manager.run_round()
        check_plan(self.manager, self.world.now_s)

    @rule(subject=st.sampled_from(SUBJECTS))
    def a_resource_fails_or_recovers(self, subject: int | str) -> None:
        self.world.pass_time(1.0)
        self.world.change(subject, up=subject in self.world.down)

    @invariant()
    def books_agree(self) -> None:
        if not hasattr(self, "manager"):
            return
        check_books(self.manager)
        known = {run.job.id for run in self.manager._started.values()}
        known |= set(self.manager._planned) | set(self.manager.why_waiting())
        assert known >= set(self.world.unfinished), "a job is lost"
        assert {order.job.queue for order in self.world.preempted} <= self.may_be_preempted

    def teardown(self) -> None:
        if not hasattr(self, "manager"):
            return
        self.world.pass_time(1.0)
        for subject in SUBJECTS:
            self.world.change(subject, True)
        for _ in range(5000):
            self.books_agree()
            if self.manager.wants_round:
                self.hold_round()
            elif not self.world.run_next_event():
                break
        assert not self.world.unfinished, f"nothing can happen any more: {self.manager.why_waiting()}"
        assert not self.manager._started
        assert not self.manager.why_waiting()
        learned = [
            (r.job.id, r.resource, r.n_machines, r.started_s, r.run_time_s) for r in self.experience.records
        ]
        assert sorted(learned) == sorted(self.world.lessons())


def test_under_any_events_no_machine_is_shared_and_every_job_ends() -> None:
    run_state_machine_as_test(
        ManagerInTheWorld,
        settings=settings(
            max_examples=up_to(200), stateful_step_count=50, deadline=None, derandomize=True, database=None
        ),
    )


# -- admission ---------------------------------------------------------------------------------------------


def test_a_user_at_the_limit_may_submit_again_after_a_job_ends() -> None:
    desk = Desk(make_site(1), [10.0], users=[UserPolicy("ann", most_jobs=2)])
    assert [desk.submit(job, 0) is None for job in (1, 2, 3)] == [True, True, False]
    desk.round()
    desk.end(1, 10.0)
    assert [desk.submit(job, 0) is None for job in (4, 5)] == [True, False]


def test_a_preempted_job_still_counts_as_unfinished() -> None:
    users = [UserPolicy("ann", most_jobs=1)]
    desk = Desk(make_site(1), [10.0], [HIGH, LOW], users=users)
    desk.serve((1, 0, "low"))
    desk.submit(2, 0, "high", user="bob")
    desk.round(1.0)
    desk.stop(1)
    assert desk.submit(3, 0, "low") is not None
