"""Several queues on nodes with cores, memory and GPUs, and displacement between them, with fakes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import UserError
from scheduler.free_nodes.rigid import Conservative, Rigid
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.displacement import Displacement
from scheduler.managers.precedence import OfQueues
from scheduler.managers.queues import PreemptionPolicy, QueuePolicy
from scheduler.managers.rigid_allocation import free_nodes_manager
from scheduler.model import Job, JobId, RunId
from scheduler.node_request import Gpus, Node, Request
from scheduler.ports import AnyScheduler
from scheduler.resource_manager import OnFreeNodes
from scheduler.testing.rigid import running_first
from tests.examples import up_to
from tests.scheduler.fakes import ByHand, WhileTheyFit
from tests.scheduler.free_nodes.small_consumable import SmallJob, SmallNode, fits, place, remove
from tests.scheduler.free_nodes.test_consumable_backfilling import (
    request_of,
    small_jobs,
    small_nodes,
    state_of,
)

URGENT = QueuePolicy("urgent", 2, displaces=frozenset({"low"}))
MIDDLE = QueuePolicy("middle", 1)
LOW = QueuePolicy("low", 0)
CORE = Request()
GPU = Request(gpus=Gpus(1))


class Nodes(ByHand):
    """A manager of nodes with queues."""

    def __init__(
        self,
        *nodes: Node,
        queues: tuple[QueuePolicy, ...] = (LOW, MIDDLE, URGENT),
        scheduler: AnyScheduler | None = None,
        preemption: PreemptionPolicy | None = None,
    ) -> None:
        super().__init__()
        ports = OnFreeNodes(
            self.clock, self.dispatcher, len(nodes), UserEstimates(), self.monitor, nodes=nodes
        )
        self.manager = free_nodes_manager(ports, scheduler or Rigid(), scheduler is None, queues, preemption)

    def submit(
        self, job: int, queue: str, request: Request = CORE, at_s: float = 0.0, takes_s: float = 100.0
    ) -> str | None:
        """A job arrives, and a round follows if it is wanted."""
        self.clock.now_s = max(self.clock.now_s, at_s)
        refusal = self.manager.on_job_arrived(
            Job(JobId(job), "rigid", self.clock.now_s, queue=queue, estimate_s=takes_s, request=request)
        )
        self.follow()
        return refusal

    def arrive(self, *jobs: tuple[Any, ...]) -> None:
        """Jobs, as in `submit`, one after another."""
        for job in jobs:
            self.submit(*job)

    @property
    def stopping(self) -> list[int]:
        """The job of each run that was ordered to stop so far."""
        return [int(job) for _, job in self.preempted]

    @property
    def waiting(self) -> list[int]:
        return [int(job) for job in self.manager.why_waiting()]


# -- order of service --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "jobs", "started"),
    [
        (None, [(9, "low"), (8, "low"), (7, "middle"), (5, "middle"), (6, "middle")], [9, 5, 6, 7, 8]),
        (
            Rigid(ordering="sjf"),
            [(1, "low", 9.0), (2, "low", 1.0), (3, "middle", 50.0), (4, "middle", 40.0)],
            [1, 4, 3, 2],
        ),
        # Jobs 2 and 3 have reservations from 100 and 200 s when job 4 takes the first.
        (Conservative(), [(1, "low"), (2, "low"), (3, "low"), (4, "middle")], [1, 4, 2]),
    ],
    ids=["in order of arrival", "the shortest first", "reservations give way"],
)
def test_jobs_start_in_order_of_their_queues_and_in_that_of_the_scheduler_within_a_queue(
    scheduler: AnyScheduler | None, jobs: list[tuple[Any, ...]], started: list[int]
) -> None:
    nodes = Nodes(Node(1, 0), scheduler=scheduler)
    for job, queue, *takes_s in jobs:
        nodes.submit(job, queue, takes_s=takes_s[0] if takes_s else 100.0)
    for k, job in enumerate(started[:-1], start=1):
        nodes.end(job, 100.0 * k)
    assert [job for job, _ in nodes.started] == started


def test_the_reservation_of_easy_backfilling_belongs_to_the_first_job_of_the_highest_queue() -> None:
    """Job 3 of the middle queue needs both cores at 50 s; job 2 would take one until 60 s."""
    nodes = Nodes(Node(2, 0), scheduler=Rigid(backfilling="easy"))
    nodes.submit(1, "low", takes_s=50.0)
    nodes.submit(3, "middle", Request(cores=2))
    nodes.submit(2, "low", at_s=0.0, takes_s=60.0)
    nodes.submit(4, "low", takes_s=50.0)
    assert [job for job, _ in nodes.started] == [1, 4]


# -- displacement ------------------------------------------------------------------------------------------


def test_an_urgent_job_displaces_the_most_recent_run_and_starts_when_that_has_stopped() -> None:
    nodes = Nodes(Node(1, 0), Node(1, 0))
    nodes.submit(1, "low", at_s=0.0)
    nodes.submit(2, "low", at_s=1.0)
    nodes.submit(3, "urgent", at_s=2.0)
    assert nodes.stopping == [2]
    assert nodes.started == [(1, "0"), (2, "1")]
    nodes.stop(2)
    assert nodes.started[2:] == [(3, "1")]
    assert nodes.waiting == [2]


def test_a_displaced_job_waits_in_its_old_place_starts_again_and_completes() -> None:
    nodes = Nodes(Node(1, 0))
    for job, queue in ((1, "low"), (2, "low"), (3, "urgent")):
        nodes.submit(job, queue, at_s=float(job))
    nodes.stop(1)
    assert nodes.waiting == [1, 2]
    nodes.end(3, 100.0)
    nodes.end(1, 200.0)
    nodes.end(2, 300.0)
    assert [job for job, _ in nodes.started] == [1, 3, 1, 2]
    assert nodes.stopping == [1]
    assert nodes.waiting == []


def test_of_runs_that_started_together_the_one_with_the_higher_number_is_displaced() -> None:
    nodes = Nodes(Node(2, 0))
    nodes.arrive((9, "middle", Request(cores=2)), (1, "low"), (2, "low"))
    nodes.end(9)
    nodes.submit(3, "urgent")
    assert nodes.stopping == [2]


def test_nothing_is_displaced_for_a_job_that_would_not_fit_anyway() -> None:
    nodes = Nodes(Node(1, 0), Node(1, 0))
    nodes.arrive((1, "middle"), (2, "low"), (3, "urgent", Request(chunks=2)))
    assert nodes.stopping == []
    nodes.end(1)
    assert nodes.stopping == [2], "now it would"


def test_a_run_that_ends_before_it_is_stopped_is_complete_and_its_room_is_used() -> None:
    nodes = Nodes(Node(1, 0))
    nodes.arrive((1, "low"), (2, "urgent"))
    nodes.end(1)
    assert nodes.started == [(1, "0"), (2, "0")]
    assert nodes.waiting == []


def test_a_preemption_from_outside_counts_as_a_loss() -> None:
    nodes = Nodes(Node(1, 0), queues=())
    nodes.submit(1, "default")
    nodes.stop(1)
    assert nodes.started == [(1, "0"), (1, "0")]


# -- while runs are being stopped --------------------------------------------------------------------------


def test_the_room_of_a_run_is_not_promised_twice() -> None:
    nodes = Nodes(Node(1, 0), Node(1, 0), Node(1, 0))
    for job in (1, 2, 3):
        nodes.submit(job, "low")
    nodes.arrive((4, "urgent"), (5, "urgent"))
    assert nodes.stopping == [3, 2]
    nodes.stop(2)
    nodes.stop(3)
    assert sorted(nodes.started[3:]) == [(4, "1"), (5, "2")]
    assert nodes.stopping == [3, 2]


def test_a_job_for_which_nothing_can_be_stopped_leaves_all_runs_to_those_after_it() -> None:
    """Beside job 3, for which job 2 is being stopped, there is no room for job 4."""
    nodes = Nodes(Node(1, 0), Node(1, 0))
    nodes.arrive((1, "low"), (2, "low"), (3, "urgent"), (4, "urgent", Request(chunks=2)))
    assert nodes.stopping == [2]
    nodes.submit(5, "urgent")
    assert nodes.stopping == [2, 1]


def test_room_that_a_stopped_run_leaves_over_is_used_before_more_are_stopped() -> None:
    nodes = Nodes(Node(2, 0), Node(2, 0))
    nodes.arrive((1, "low", Request(cores=2)), (2, "low", Request(cores=2)))
    for job in (3, 4, 5):
        nodes.submit(job, "urgent")
    assert nodes.stopping == [2, 1]
    nodes.stop(2)
    assert nodes.started[2:] == [(3, "1"), (4, "1")]


def test_runs_stopped_for_one_job_are_over_together() -> None:
    """If the first one's core were free at once, job 1 would take it again, and job 3 would never start."""
    nodes = Nodes(Node(1, 0), Node(1, 0), scheduler=Rigid(backfilling="easy"))
    nodes.submit(1, "low", takes_s=10.0)
    nodes.arrive((2, "low"), (3, "urgent", Request(chunks=2)))
    assert sorted(nodes.stopping) == [1, 2]
    nodes.stop(1)
    nodes.submit(4, "low", takes_s=10.0)
    assert nodes.started == [(1, "0"), (2, "1")]
    nodes.stop(2)
    assert nodes.started[2:] == [(3, "0-1")]
    assert nodes.waiting == [1, 2, 4]


@pytest.mark.parametrize("ends", [True, False])
def test_runs_stopped_for_one_job_are_over_when_the_last_one_ends_or_fails(ends: bool) -> None:
    nodes = Nodes(Node(1, 0), Node(1, 0))
    nodes.arrive((1, "low"), (2, "low"), (3, "urgent", Request(chunks=2)))
    nodes.stop(1)
    if ends:
        nodes.end(2)
    else:
        nodes.lose(2, [1])
        nodes.observe(1, up=True)
    assert nodes.started[2:3] == [(3, "0-1")]


def test_a_run_that_would_be_displaced_at_once_never_starts() -> None:
    """Job 4 ends, and its core could be given to job 5 until job 1 ends; but job 3 displaces job 1."""
    nodes = Nodes(Node(1, 0), Node(1, 0), scheduler=Rigid(backfilling="easy"))
    nodes.arrive((4, "middle"), (1, "low"), (3, "urgent", Request(chunks=2)))
    nodes.submit(5, "low", takes_s=5.0)
    assert nodes.stopping == []
    nodes.end(4, 10.0)
    assert nodes.stopping == [1]
    nodes.stop(1)
    assert nodes.started == [(4, "0"), (1, "1"), (3, "0-1")]
    assert nodes.waiting == [1, 5]


def test_a_node_that_is_down_is_no_reason_to_displace_what_else_runs() -> None:
    nodes = Nodes(Node(1, 0), Node(1, 0))
    nodes.arrive((1, "low"), (2, "low"))
    nodes.lose(2, [1])
    nodes.submit(3, "urgent", Request(chunks=2))
    assert nodes.stopping == []
    nodes.observe(1, up=True)
    assert nodes.stopping == [1]


# -- schedulers with other preferences ---------------------------------------------------------------------


LAST_FIRST = WhileTheyFit(lambda i, job: -i)


def test_a_scheduler_that_starts_the_displaced_job_again_is_obeyed() -> None:
    """Else the two jobs would take turns without end."""
    nodes = Nodes(Node(1, 0), scheduler=LAST_FIRST)
    nodes.arrive((1, "low"), (2, "urgent"))
    nodes.stop(1)
    assert nodes.started == [(1, "0"), (1, "0")]
    nodes.submit(3, "urgent")
    assert nodes.stopping == [1], "a later job does not displace it either"
    nodes.end(1)
    assert nodes.started[2:] == [(3, "0")]
    nodes.end(3)
    assert nodes.started[3:] == [(2, "0")]


def test_a_job_displaces_nothing_that_was_preferred_to_it_in_the_same_decision() -> None:
    nodes = Nodes(Node(1, 0), scheduler=LAST_FIRST)
    nodes.arrive((9, "middle"), (1, "low"), (2, "urgent"))
    nodes.end(9)
    assert nodes.started[1:] == [(1, "0")]
    nodes.submit(3, "urgent")
    assert nodes.stopping == []


@pytest.mark.parametrize(("queue", "displaced"), [("first", [1, 1]), ("low", [1])])
def test_a_job_that_was_passed_over_displaces_again_once_one_served_before_it_has_started(
    queue: str, displaced: list[int]
) -> None:
    """Job 1 starts again instead of job 3. Then job 2 starts."""
    scheduler = WhileTheyFit(refused={2, 3})
    nodes = Nodes(Node(1, 0), Node(1, 0), queues=(QueuePolicy("first", 3), URGENT, LOW), scheduler=scheduler)
    for job, of in ((8, "first"), (1, "low"), (2, queue), (3, "urgent")):
        nodes.submit(job, of)
    nodes.stop(1)
    assert nodes.started == [(8, "0"), (1, "1"), (1, "1")]
    assert nodes.stopping == [1]
    scheduler.refused = {3}
    nodes.end(8)
    assert nodes.started[3:] == [(2, "0")]
    assert nodes.stopping == displaced


# -- policies ----------------------------------------------------------------------------------------------


def test_a_job_displaced_too_often_moves_to_the_next_higher_queue() -> None:
    nodes = Nodes(Node(1, 0), preemption=PreemptionPolicy(raised_after=2))
    nodes.submit(1, "low")
    for urgent in (10, 11):
        nodes.submit(urgent, "urgent")
        nodes.stop(1)
        nodes.submit(urgent + 10, "low")
        nodes.end(urgent)
    assert [job for job, _ in nodes.started] == [1, 10, 1, 11, 1]
    nodes.submit(12, "urgent")
    assert nodes.stopping == [1, 1], "it is in the middle queue now"
    nodes.end(1)
    nodes.end(12)
    assert [job for job, _ in nodes.started][5:] == [12, 20]


def test_a_least_gain_is_refused_since_nothing_is_planned() -> None:
    with pytest.raises(UserError, match=r"least_gain_s is 60 s, .*; expected 0: leave it out"):
        Nodes(Node(1, 0), preemption=PreemptionPolicy(least_gain_s=60.0))


def test_queues_on_identical_nodes_are_refused() -> None:
    with pytest.raises(UserError, match="there are 3 queues for identical nodes, which have one"):
        Nodes()


# -- an independent small version --------------------------------------------------------------------------


def small_choice(
    nodes: list[SmallNode], empty: list[SmallNode], runs: list[tuple[int, SmallJob]], job: SmallJob
) -> list[int]:
    """The numbers of the runs to stop for a job, given those that may be, in order of start."""

    def fits_without(stopped: list[tuple[int, SmallJob]]) -> bool:
        left = deepcopy(nodes)
        for _, run in stopped:
            remove(left, empty, run)
        return fits(left, job)

    for n in range(len(runs) + 1):
        stopped = runs[len(runs) - n :]
        if fits_without(stopped):
            break
    else:
        return []
    for run in list(stopped):
        others = [other for other in stopped if other is not run]
        if fits_without(others):
            stopped = others
    return [number for number, _ in stopped]


@settings(max_examples=up_to(500, part=10))
@given(small_nodes(), st.lists(st.tuples(small_jobs(), st.booleans()), max_size=7), small_jobs())
def test_the_runs_to_stop_are_those_of_the_small_version(
    empty: list[SmallNode], running: list[tuple[SmallJob, bool]], job: SmallJob
) -> None:
    job.licences = min(job.licences, empty[0].licences)  # jobs that want more are refused when they arrive
    nodes, state, runs = deepcopy(empty), state_of(empty), list[tuple[int, SmallJob]]()
    displacement = Displacement(state.queue, state.nodes, OfQueues((URGENT, MIDDLE, LOW)))
    for k, (other, is_low) in enumerate(running):
        if place(nodes, other):
            of_run = Job(JobId(k), "rigid", 0.0, request=request_of(other))
            assert running_first(state, RunId(k), of_run, 0.0, 100.0)
            slot = state.slot_of(RunId(k))
            np.asarray(state.queue.rank)[slot] = 2 if is_low else 1
            displacement.begin(slot, 0.0, 0.0)
            runs += [(k, other)] if is_low else []
    displacement.to_stop(0.0)  # what runs now was started earlier
    state.wait(Job(JobId(99), "rigid", 0.0), request_of(job), job.estimate_s, rank=0)
    before = [array.copy() for array in state.nodes.table[:6]]
    assert sorted(displacement.to_stop(0.0)) == small_choice(nodes, empty, runs, job)
    for array, was in zip(state.nodes.table[:6], before, strict=True):
        assert (array == was).all()
