"""The queue manager of nodes that each job has alone, with recording fakes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from scheduler.free_nodes.consumable_problem import Placer
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import Rigid
from scheduler.free_nodes.runtime_estimates import LONGEST_S, RecentRuns, UserEstimates
from scheduler.managers.rigid_allocation import RigidAllocation
from scheduler.managers.starting_manager import NodeManager
from scheduler.model import Assignment, Job, JobId, NodeSchedule, RunId, Schedule
from scheduler.node_set import NodeSet
from scheduler.ports import AnyScheduler, RuntimeEstimator
from scheduler.resource_manager import OnFreeNodes
from scheduler.rules import (
    COMPLETION_AS_EXPECTED,
    EACH_JOB_ONCE,
    KNOWN_JOB,
    KNOWN_NODES,
    NO_JOB_FORGOTTEN,
    NODES_FREE,
    ONE_TASK_ON_EACH_NODE,
    RETURNS_A_SCHEDULE,
    ScheduleRejected,
)
from tests.scheduler.fakes import ByHand, FixedScheduler, WhileTheyFit, placing

MINUTE_S, HOUR_S = 60.0, 3_600.0


class RecordingEstimates(UserEstimates):
    """Takes the users' estimates, and records the run times that it learns."""

    def __init__(self) -> None:
        self.learned: list[tuple[Job, float]] = []

    def learn(self, job: Job, ran_s: float) -> None:
        self.learned.append((job, ran_s))


class Queue(ByHand):
    def __init__(
        self,
        n_nodes: int = 4,
        scheduler: AnyScheduler | None = None,
        run_times: RuntimeEstimator | None = None,
    ) -> None:
        super().__init__()
        estimates = run_times or UserEstimates()
        ports = OnFreeNodes(self.clock, self.dispatcher, n_nodes, estimates, self.monitor)
        nodes = RigidAllocation(ports)
        self.manager = NodeManager(ports, nodes, scheduler or Rigid(), memoryless=scheduler is None)

    def submit(self, *jobs: Job) -> None:
        for job in jobs:
            assert self.manager.on_job_arrived(job) is None
        self.manager.run_round()

    @property
    def expected_s(self) -> list[float]:
        return [order.expected_s for _, order in self.dispatcher.orders]


def job(
    number: int, nodes: int = 1, estimate_s: float | None = 100.0, user: str = "ada", arrival_s: float = 0.0
) -> Job:
    return Job(JobId(number), "rigid", arrival_s, user, n_tasks=nodes, estimate_s=estimate_s)


# -- start, wait, end ------------------------------------------------------------------------------------


def test_a_job_waits_for_free_nodes_and_starts_when_another_ends() -> None:
    queue = Queue()
    queue.submit(job(0, 2), job(1, 1), job(2, 2))
    assert queue.started == [(0, "0-1"), (1, "2")]
    assert list(queue.manager.why_waiting()) == [2]
    assert not queue.manager.wants_round
    queue.end(0, 80.0)
    assert queue.started[2:] == [(2, "0-1")]
    assert queue.manager.why_waiting() == {}


def test_actual_run_times_are_passed_to_the_run_time_estimator() -> None:
    run_time_estimates = RecordingEstimates()
    queue = Queue(run_times=run_time_estimates)
    queue.submit(job(0, 3))
    queue.end(0, 80.0)
    assert run_time_estimates.learned == [(job(0, 3), 80.0)]


@pytest.mark.parametrize(
    ("nodes", "told"), [(0, "asks for 0 nodes"), (5, "asks for 5 nodes; the machine has 4")]
)
def test_a_job_larger_than_the_machine_is_refused(nodes: int, told: str) -> None:
    refusal = Queue().manager.on_job_arrived(job(7, nodes))
    assert refusal is not None
    assert told in refusal
    assert "job 7" in refusal


def test_a_repeated_end_notice_frees_the_nodes_only_once() -> None:
    queue = Queue(1)
    queue.submit(job(0), job(1), job(2))
    queue.end(0, 10.0)
    queue.end(0, 11.0)
    assert queue.started == [(0, "0"), (1, "0")]


def test_released_nodes_are_reused_at_the_next_round_and_not_freed_again_by_the_end() -> None:
    """In the archive's order: nodes first, then a round for another reason, then the end is reported."""
    run_time_estimates = RecordingEstimates()
    queue = Queue(2, run_times=run_time_estimates)
    queue.submit(job(0), job(1), job(2))
    queue.clock.now_s = 100.0
    queue.manager.on_run_released(RunId(0))
    assert not queue.manager.wants_round
    queue.submit(job(3))
    assert queue.started[2:] == [(2, "0")]
    queue.end(0, 100.0)
    assert queue.started[3:] == [], "job 2 has its node now"
    assert [job.id for job, _ in run_time_estimates.learned] == [0]


def test_a_run_released_before_its_estimated_end_keeps_its_nodes_until_the_end_notice() -> None:
    queue = Queue(1)
    queue.submit(job(0), job(1))
    queue.clock.now_s = 99.0
    queue.manager.on_run_released(RunId(0))
    queue.submit(job(2))
    assert queue.started == [(0, "0")]
    queue.end(0, 99.0)
    assert queue.started == [(0, "0"), (1, "0")]


# -- runs that are lost, nodes that are down -------------------------------------------------------------


def test_a_lost_run_returns_to_its_queue_position_and_avoids_the_failed_node() -> None:
    queue = Queue(2)
    queue.submit(job(0), job(1, arrival_s=1.0), job(2, arrival_s=2.0))
    queue.lose(0, [0])
    assert queue.started == [(0, "0"), (1, "1")]
    assert list(queue.manager.why_waiting()) == [0, 2]
    queue.end(1, 50.0)
    assert queue.started[2:] == [(0, "1")]


def test_a_node_is_reused_after_a_later_reading_reports_it_up() -> None:
    queue = Queue(1)
    queue.clock.now_s = 10.0
    queue.submit(job(0))
    queue.lose(0, [0])
    queue.observe(0, True, measured_s=9.0)
    assert len(queue.dispatcher.orders) == 1, "that was before it was found down"
    queue.observe(0, True, measured_s=11.0)
    assert queue.started == [(0, "0"), (0, "0")]
    assert [order.run for _, order in queue.dispatcher.orders] == [0, 1]


def test_after_a_loss_the_reservation_uses_the_end_of_the_new_run() -> None:
    """The first of the queue is reserved the end of the new run, at 130 s, and not that of the lost one."""
    queue = Queue(2, Rigid(backfilling="easy"))
    queue.submit(job(0))
    queue.clock.now_s = 30.0
    queue.lose(0)
    queue.submit(job(1, 2), job(2, estimate_s=100.0, arrival_s=3.0))
    assert queue.started[1:] == [(0, "0"), (2, "1")], "that one ends by 130 s"


# -- estimates that are outlived -------------------------------------------------------------------------


def test_the_manager_wakes_at_the_earliest_estimated_end() -> None:
    queue = Queue()
    assert queue.manager.wakes_at_s is None
    queue.submit(job(0, estimate_s=70.0), job(1, estimate_s=50.0), job(2, estimate_s=60.0))
    assert queue.manager.wakes_at_s == 50.0
    queue.end(2, 20.0)
    assert queue.manager.wakes_at_s == 50.0
    queue.end(1, 30.0)
    assert queue.manager.wakes_at_s == 70.0
    queue.end(0, 40.0)
    assert queue.manager.wakes_at_s is None


def test_the_estimate_of_an_overdue_run_doubles_its_elapsed_time() -> None:
    queue = Queue(1)
    queue.submit(job(0, estimate_s=50.0), job(1))
    assert [queue.wake() for _ in range(4)] == [50.0, 100.0, 200.0, 400.0]


def test_an_overdue_run_lengthens_the_backfill_window() -> None:
    queue = Queue(2, Rigid(backfilling="easy"))
    queue.submit(job(0, estimate_s=50.0), job(1, 2), job(2, estimate_s=51.0))
    assert queue.started == [(0, "0")]
    queue.wake()
    assert queue.started == [(0, "0")], "until 100 s are 50 s now"
    queue.wake()
    assert queue.started[1:] == [(2, "1")]


def test_all_runs_that_become_overdue_together_get_new_estimates() -> None:
    queue = Queue()
    queue.submit(job(0, estimate_s=50.0), job(1, estimate_s=50.0), job(2, estimate_s=80.0))
    queue.wake()
    assert queue.manager.wakes_at_s == 80.0
    queue.end(2, 80.0)
    assert queue.manager.wakes_at_s == 100.0


def test_time_advances_even_if_an_overdue_estimate_is_not_extended() -> None:
    class NeverExtends(UserEstimates):
        def outlived_s(self, job: Job, ran_s: float) -> float:
            return ran_s

    queue = Queue(1, run_times=NeverExtends())
    queue.submit(job(0, estimate_s=50.0), job(1))
    assert [queue.wake() for _ in range(3)] == [50.0, 51.0, 52.0]


def test_a_job_without_an_estimate_gets_the_longest_estimate() -> None:
    queue = Queue()
    queue.submit(job(0, estimate_s=None))
    assert queue.expected_s == [LONGEST_S]


def test_recent_runs_estimates_the_mean_of_the_users_last_two_run_times() -> None:
    queue = Queue(run_times=RecentRuns())
    for number, took_s in enumerate((1_000.0, 100.0, 200.0)):
        began_s = queue.clock.now_s
        queue.submit(job(number, estimate_s=5_000.0))
        queue.end(number, began_s + took_s)
    queue.submit(job(3, estimate_s=5_000.0), job(4, estimate_s=120.0), job(5, estimate_s=700.0, user="bob"))
    expected_s = queue.expected_s
    assert expected_s == [5_000.0, 5_000.0, 550.0, 150.0, 120.0, 700.0]


def test_recent_runs_corrects_in_steps_up_to_the_user_estimate() -> None:
    queue = Queue(run_times=RecentRuns())
    for number, took_s in enumerate((100.0, 200.0)):
        began_s = queue.clock.now_s
        queue.submit(job(number))
        queue.end(number, began_s + took_s)
    queue.submit(job(2, estimate_s=20 * HOUR_S), job(3, 4))
    ran_s = [queue.wake() - 300.0 for _ in range(11)]
    more_s = [b - a for a, b in pairwise(ran_s)]
    assert ran_s[0] == 150.0
    assert more_s[:8] == [m * MINUTE_S for m in (1, 5, 15, 30, 60, 120, 300, 600)]
    assert ran_s[9] == 20 * HOUR_S, "20 hours more would be beyond the estimate"
    assert ran_s[10] == 40 * HOUR_S, "it outlived that, too"


def test_corrections_are_counted_per_job_and_reset_after_its_end() -> None:
    run_time_estimates, one, other = RecentRuns(), job(0, estimate_s=HOUR_S), job(1, estimate_s=HOUR_S)
    assert [run_time_estimates.outlived_s(one, 100.0), run_time_estimates.outlived_s(one, 160.0)] == [
        160.0,
        460.0,
    ]
    assert run_time_estimates.outlived_s(other, 100.0) == 160.0
    run_time_estimates.learn(one, 170.0)
    assert run_time_estimates.outlived_s(one, 100.0) == 160.0


# -- rules -----------------------------------------------------------------------------------------------


BOTH = NodeSet.of([0, 1])


def ending(completion_s: float) -> NodeSchedule:
    good = placing((0, BOTH), waiting=(1, 2))
    return good._replace(starts=(good.starts[0]._replace(completion_s=completion_s),))


ENDS_NEVER, ENDS_BEFORE = ending(math.inf), ending(-1.0)


@pytest.mark.parametrize(
    ("answer", "rule", "told"),
    [
        (None, RETURNS_A_SCHEDULE, "returned None"),
        (Schedule.of([Assignment(0, 0, 0.0, 1.0)]), RETURNS_A_SCHEDULE, "returned Schedule, expected"),
        (placing((3, BOTH), waiting=(0, 1, 2)), KNOWN_JOB, "the problem has jobs 0 to 2"),
        (placing((-1, BOTH), waiting=(0, 1, 2)), KNOWN_JOB, "job index -1"),
        (placing((0, BOTH), (0, (2, 3)), waiting=(1, 2)), EACH_JOB_ONCE, "job 10 is started twice"),
        (placing((0, BOTH), waiting=(0, 1, 2)), EACH_JOB_ONCE, "started and left waiting"),
        (placing((0, (0, 5)), waiting=(1, 2)), KNOWN_NODES, "there are nodes 0 to 4"),
        (placing((0, (-1, 0)), waiting=(1, 2)), KNOWN_NODES, "there are nodes 0 to 4"),
        (placing((0, (1, 1)), waiting=(1, 2)), ONE_TASK_ON_EACH_NODE, "node 1 is named twice"),
        (placing((0, (1,)), waiting=(1, 2)), ONE_TASK_ON_EACH_NODE, "needs 2 nodes and is started on 1"),
        (placing((0, (0, 1, 2)), waiting=(1, 2)), ONE_TASK_ON_EACH_NODE, "is started on 3: 0-2"),
        (placing((0, (3, 4)), waiting=(1, 2)), NODES_FREE, "some of which are not free"),
        (placing((0, (0, 2)), (1, (1, 2)), waiting=(2,)), NODES_FREE, "are both started on node 2"),
        (placing((0, BOTH), waiting=(1,)), NO_JOB_FORGOTTEN, "job 12 is neither started nor left waiting"),
        (placing(waiting=(1, 2, 3)), KNOWN_JOB, "job index 3 is named; the problem has jobs 0 to 2"),
        (placing(waiting=(0, 1, 2))._replace(ask_again_s=0.0), RETURNS_A_SCHEDULE, "ask_again_s is 0.0 s"),
        (placing(waiting=(0, 1, 2))._replace(ask_again_s=math.nan), RETURNS_A_SCHEDULE, "ask_again_s is nan"),
        (placing(waiting=(0, 1, 2))._replace(wait_reasons=None), RETURNS_A_SCHEDULE, "have the wrong type"),
        (placing((0, None), waiting=(1, 2)), RETURNS_A_SCHEDULE, "have the wrong type"),
        (placing((0, (0.0, 1.0)), waiting=(1, 2)), RETURNS_A_SCHEDULE, "have the wrong type"),
        (ENDS_NEVER, COMPLETION_AS_EXPECTED, "is to complete at inf s"),
        (ENDS_BEFORE, COMPLETION_AS_EXPECTED, "job 10 starts at 0 s and is to complete at -1 s"),
        (placing((0.5, BOTH), waiting=(1, 2)), RETURNS_A_SCHEDULE, "have the wrong type"),
    ],
)
def test_an_invalid_schedule_is_rejected_and_nothing_is_started(answer: object, rule: str, told: str) -> None:
    """Of five nodes, 4 is down. Jobs 10, 11 and 12 ask for two nodes each."""
    queue = Queue(5, FixedScheduler(answer))
    queue.observe(4, False, 0.0)
    with pytest.raises(ScheduleRejected) as caught:
        queue.submit(job(10, 2), job(11, 2), job(12, 2))
    assert caught.value.violation.rule == rule
    assert told in caught.value.violation.message
    assert queue.dispatcher.orders == []


@pytest.mark.parametrize("nodes", [(3, 0), [0, 3], np.array([0, 3]), range(0, 4, 3), NodeSet.of([0, 3])])
def test_placements_may_list_nodes_in_any_sequence_and_order(nodes: Sequence[int]) -> None:
    queue = Queue(4, FixedScheduler(placing((0, nodes))))
    queue.submit(job(0, 2))
    assert len(queue.dispatcher.orders) == 1
    assert set(queue.dispatcher.orders[0][1].machines) == {0, 3}
    assert queue.manager.wakes_at_s == 100.0


# -- custom schedulers --------------------------------------------------------------------------------------


def test_a_custom_scheduler_starts_its_jobs_and_the_others_wait() -> None:
    queue = Queue(4, WhileTheyFit(lambda i, job: -job.n_tasks))
    queue.submit(job(0, 1), job(1, 3, estimate_s=30.0), job(2, 2))
    assert queue.started == [(1, "0-2"), (0, "3")]
    assert queue.expected_s == [30.0, 100.0]
    assert queue.manager.why_waiting() == {2: "too little is free"}


def test_starting_a_job_on_too_few_free_nodes_raises_an_error() -> None:
    class StartsEveryJob:
        def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
            placing = Placer(problem)
            for i in range(problem.n_jobs):
                placing.start(i)
            return placing.schedule("")

    with pytest.raises(ValueError, match="job 1 needs 2 nodes, and 1 are free"):
        Queue(4, StartsEveryJob()).submit(job(0, 3), job(1, 2))


def test_a_scheduler_is_asked_again_once_at_the_requested_time() -> None:
    queue = Queue(4, FixedScheduler(placing(waiting=(0,))._replace(ask_again_s=7.0)))
    queue.submit(job(0))
    assert queue.manager.wakes_at_s == 7.0
    assert not queue.manager.wants_round
    queue.clock.now_s = 7.0
    queue.manager.on_time_passed()
    assert queue.manager.wants_round
    assert queue.manager.wakes_at_s is None


def test_jobs_are_backfilled_while_down_nodes_block_the_first_job() -> None:
    queue = Queue(2, Rigid(backfilling="easy"))
    queue.observe(1, False, 0.0)
    queue.submit(job(0, 2), job(1, 1))
    assert queue.started == [(1, "0")]
