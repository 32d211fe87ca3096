"""Runs on simulated machines that are suspended, and what others may use meanwhile."""

from __future__ import annotations

import polars as pl
import pytest

from scheduler.model import ON_NODES, DispatchOrder, Job, JobId, RunId, Share
from scheduler.node_request import Node, Request
from sil.outcome.finished_jobs import jobs_in
from sil.outcome.invariants.checker import NO_RESOURCE_ABOVE_CAPACITY, Capacity, first_violation
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.events import EventQueue, SimClock
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import SimDispatcher
from sil.world.machines.nodes import ConsumableMachines, NodeMachines, SpaceSharedMachines

RUN_S = 100.0
NODES = (Node(4, 1000),)


class Stage:
    """Machines, and a dispatcher that gives them orders; the test is the clock."""

    def __init__(self, *requests: Request) -> None:
        self.clock, self.events, self.trace = SimClock(), EventQueue(), TraceRecorder(nodes=NODES)
        self.requests = requests
        self.machines: NodeMachines = (
            ConsumableMachines(NODES, lambda job, nodes: RUN_S, self.events)
            if requests
            else SpaceSharedMachines(2, lambda job, nodes: RUN_S, self.events)
        )
        self.orders = SimDispatcher(self.clock, self.events, self.machines, self.trace)

    def start(self, number: int) -> None:
        request = self.requests[number - 1] if self.requests else None
        job = Job(JobId(number), "a", self.clock.now_s, n_tasks=1 if request else 2, request=request)
        self.trace.note_arrival(self.clock.now_s, job)
        shares = (Share(0, 1),) if request else ()
        nodes = (0,) if request else (0, 1)
        self.orders.dispatch(DispatchOrder(RunId(number), job, ON_NODES, nodes, RUN_S, shares))

    def complete(self, number: int, at_s: float) -> bool:
        """Whether a run is complete at a time, and then it is over."""
        self.clock.now_s = at_s
        if not self.machines.has_ended(RunId(number), at_s):
            return False
        self.trace.note_end(at_s, self.machines.stop(RunId(number), at_s))
        return True

    @property
    def facts(self) -> pl.DataFrame:
        return self.trace.frame(0, 0, "")

    @property
    def breach(self) -> str | None:
        capacity = Capacity(1, nodes=NODES) if self.requests else Capacity(2)
        found = first_violation(self.facts, capacity)
        return found and found.rule


def test_a_run_continues_where_it_was_and_others_use_its_nodes_meanwhile() -> None:
    stage = Stage()
    stage.start(1)
    stage.clock.now_s = 30.0
    stage.orders.suspend(RunId(1))
    stage.start(2)
    assert not stage.complete(1, 100.0)
    assert stage.complete(2, 130.0)
    stage.orders.resume(RunId(1))
    assert not stage.complete(1, 199.0)
    assert stage.complete(1, 200.0)
    assert stage.breach is None
    table = jobs_in(stage.facts, pl.DataFrame({"job": [1, 2], "estimate_s": [RUN_S, RUN_S]}))
    assert table["execution_time"].to_list() == [RUN_S, RUN_S]
    assert table["turnaround_time"].to_list() == [200.0, 100.0]


def test_it_cannot_continue_on_nodes_that_are_not_free() -> None:
    stage = Stage()
    stage.start(1)
    stage.orders.suspend(RunId(1))
    stage.start(2)
    with pytest.raises(SchedulerFault, match="job 1 was to continue, but node 0 is not free"):
        stage.orders.resume(RunId(1))


def test_it_keeps_its_memory_and_leaves_its_cpus() -> None:
    stage = Stage(Request(cores=4, memory_mib=600), Request(cores=4, memory_mib=400), Request(memory_mib=1))
    stage.start(1)
    stage.orders.suspend(RunId(1))
    stage.start(2)
    with pytest.raises(SchedulerFault, match="too few free CPUs"):
        stage.start(3)
    assert stage.complete(2, 100.0)
    stage.orders.resume(RunId(1))
    assert stage.complete(1, 200.0)
    assert stage.breach is None or stage.breach == "no-job-lost"  # the third never started


def test_memory_of_a_suspended_run_is_not_free() -> None:
    stage = Stage(Request(cores=4, memory_mib=600), Request(cores=1, memory_mib=401))
    stage.start(1)
    stage.orders.suspend(RunId(1))
    with pytest.raises(SchedulerFault, match="too few free MiB of memory"):
        stage.start(2)


def test_what_a_run_that_ends_while_it_is_suspended_had_is_free() -> None:
    stage = Stage(Request(cores=4, memory_mib=600), Request(cores=4, memory_mib=1000))
    stage.start(1)
    stage.orders.suspend(RunId(1))
    stage.orders.preempt(RunId(1))
    stage.start(2)
    assert stage.complete(2, 100.0)


def test_the_invariants_see_a_run_that_continues_on_cpus_in_use() -> None:
    stage = Stage(Request(cores=4), Request(cores=4))
    stage.start(1)
    stage.orders.suspend(RunId(1))
    stage.start(2)
    stage.trace.note(0.0, Fact.RUN_CONTINUED, job=1, run=1, resource=ON_NODES, machines=(0,))
    assert stage.breach == NO_RESOURCE_ABOVE_CAPACITY


@pytest.mark.parametrize("requests", [(), (Request(cores=4), Request(cores=4))])
def test_a_node_that_fails_hits_those_too_that_are_suspended_on_it(requests: tuple[Request, ...]) -> None:
    stage = Stage(*requests)
    stage.start(1)
    stage.orders.suspend(RunId(1))
    assert stage.machines.runs_hit_by(0) == [1]
    stage.start(2)
    assert stage.machines.runs_hit_by(0) == [1, 2]
