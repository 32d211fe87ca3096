"""Queues with priorities and displacement on nodes with cores, memory and GPUs, in the simulated world."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.queues import PreemptionPolicy, QueuePolicy, in_order_of_service
from scheduler.managers.rigid_allocation import free_nodes_manager
from scheduler.model import Job, JobId, Share
from scheduler.node_request import Node, Request
from scheduler.resource_manager import OnFreeNodes
from sil.outcome.invariants.checker import Capacity, first_violation
from sil.runs.under_test import resolve
from sil.trace.facts import Fact
from sil.trace.held import shares_in
from sil.trace.recorder import TraceRecorder
from sil.world.events import ORDERS, EventQueue, Rounds, SimClock
from sil.world.failures import Outage, in_order_of_time, listed_outages
from sil.world.harness import World
from sil.world.machines.nodes import ConsumableMachines
from sil.world.monitors import SimMonitor
from tests.examples import up_to
from tests.scheduler.free_nodes.small_consumable import SmallJob, SmallNode, fits
from tests.scheduler.free_nodes.test_consumable_backfilling import (
    request_of,
    small_jobs,
    small_nodes,
    state_of,
)

URGENT, NORMAL, LOW = "urgent", "normal", "low"
QUEUES = {
    "nothing is displaced": (QueuePolicy(LOW, 0), QueuePolicy(NORMAL, 1), QueuePolicy(URGENT, 2)),
    "two queues": (QueuePolicy(NORMAL, 1, displaces=frozenset({LOW})), QueuePolicy(LOW, 0)),
    "one of three": (
        QueuePolicy(URGENT, 2, displaces=frozenset({LOW})),
        QueuePolicy(NORMAL, 1),
        QueuePolicy(LOW, 0),
    ),
    "each all below": (
        QueuePolicy(URGENT, 2, displaces=frozenset({NORMAL, LOW})),
        QueuePolicy(NORMAL, 1, displaces=frozenset({LOW})),
        QueuePolicy(LOW, 0),
    ),
}
ALL = "fcfs", "sjf", "easy", "easy_sjbf", "conservative"
CORE = Request()


class Site:
    """Nodes, and the queues for them."""

    def __init__(
        self,
        nodes: Sequence[Node],
        queues: Sequence[QueuePolicy],
        raised_after: int | None = None,
        site_resources: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.nodes = tuple(nodes)
        self.site_resources = site_resources
        self.queues = queues
        self.preemption = PreemptionPolicy(raised_after=raised_after)

    def run(
        self,
        jobs: Sequence[Job],
        run_s: Sequence[float],
        scheduler: str,
        outages: Sequence[Outage] = (),
        order: str = "default",
    ) -> pl.DataFrame:
        """The facts; `jobs` are numbered from 0 and run for `run_s`."""
        clock, events, trace = SimClock(), EventQueue(ORDERS[order]), TraceRecorder()
        machines = ConsumableMachines(self.nodes, lambda job, _: run_s[job.id], events, self.site_resources)
        monitor, changes = SimMonitor(clock), in_order_of_time(listed_outages(outages))
        world = World(clock, events, trace, machines, monitor, Rounds(), changes)
        ports = OnFreeNodes(
            clock,
            world.dispatcher,
            len(self.nodes),
            UserEstimates(),
            monitor,
            nodes=self.nodes,
            site_resources=self.site_resources,
        )
        spec = resolve(scheduler).spec
        world.run(jobs, free_nodes_manager(ports, spec.make(), spec.memoryless, self.queues, self.preemption))
        return trace.frame(0, 0, scheduler)

    @property
    def capacity(self) -> Capacity:
        return Capacity(len(self.nodes), nodes=self.nodes, site_resources=self.site_resources)

    def displaced_by(self, queue: str) -> frozenset[str]:
        return next(policy.displaces for policy in self.queues if policy.name == queue)


def job(number: int, queue: str, request: Request, arrival_s: float = 0.0, estimate_s: float = 100.0) -> Job:
    return Job(JobId(number), "rigid", arrival_s, queue=queue, estimate_s=estimate_s, request=request)


def events_of(facts: pl.DataFrame) -> list[tuple[float, str, int]]:
    """(time, event, job) of the starts, preemptions and ends."""
    names = [Fact.RUN_STARTED.value, Fact.RUN_PREEMPTED.value, Fact.RUN_ENDED.value]
    rows = facts.with_columns(pl.col("event").cast(pl.String)).filter(pl.col("event").is_in(names))
    return list(rows.select("time_s", "event", "job").iter_rows())


# -- a hand-worked example ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "first"), [("fcfs", 0), ("sjf", 0), ("easy", 0), ("easy_sjbf", 0), ("conservative", 1)]
)
def test_a_displaced_job_loses_its_progress_and_runs_for_its_whole_time_again(
    scheduler: str, first: int
) -> None:
    """In its old place; in conservative backfilling job 1 has a reservation meanwhile, which it keeps."""
    site = Site([Node(1, 0)], QUEUES["one of three"])
    jobs = [job(0, LOW, CORE), job(1, LOW, CORE, 5.0), job(2, URGENT, CORE, 10.0)]
    assert events_of(site.run(jobs, [20.0, 20.0, 30.0], scheduler)) == [
        (0.0, "run_started", 0),
        (10.0, "run_preempted", 0),
        (10.0, "run_started", 2),
        (40.0, "run_ended", 2),
        (40.0, "run_started", first),
        (60.0, "run_ended", first),
        (60.0, "run_started", 1 - first),
        (80.0, "run_ended", 1 - first),
    ]


# -- by chance ---------------------------------------------------------------------------------------------


def site_of(small: list[SmallNode], policies: str, raised_after: int | None = None) -> Site:
    nodes = state_of(small).nodes
    return Site(nodes.all, QUEUES[policies], raised_after, nodes.site_resources)


Workload = tuple[list[SmallNode], str, list[Job], list[float], list[SmallJob]]
"""Nodes, a name of QUEUES, and jobs that fit on empty nodes, with their run times and what they request."""


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    nodes, policies = draw(small_nodes()), draw(st.sampled_from(sorted(QUEUES)))
    names = st.sampled_from([queue.name for queue in QUEUES[policies]])
    drawn = draw(
        st.lists(
            st.tuples(small_jobs(), names, st.integers(0, 3), st.integers(1, 9)), min_size=2, max_size=14
        )
    )
    jobs, run_s, requested, arrival_s = list[Job](), list[float](), list[SmallJob](), 0.0
    for small, queue, later_s, takes_s in drawn:
        arrival_s += later_s
        if fits(nodes, small):
            jobs.append(job(len(jobs), queue, request_of(small), arrival_s, small.estimate_s))
            run_s.append(min(float(takes_s), small.estimate_s) if takes_s < 9 else small.estimate_s + 1.0)
            requested.append(small)
    return nodes, policies, jobs, run_s, requested


def waiting_at_starts_and_preemptions(
    facts: pl.DataFrame, jobs: Sequence[Job]
) -> Iterator[tuple[Fact, Job, list[Job]]]:
    """Each start and each preemption, with the job and the others that wait."""
    waiting: dict[int, Job] = {}
    for event, number in facts.select("event", "job").iter_rows():
        if event == Fact.RUN_STARTED:
            own = waiting.pop(number)
            yield Fact.RUN_STARTED, own, list(waiting.values())
        elif event == Fact.RUN_PREEMPTED:
            yield Fact.RUN_PREEMPTED, jobs[number], list(waiting.values())
        if event in (Fact.JOB_ARRIVED, Fact.RUN_PREEMPTED, Fact.RUN_LOST):
            waiting[number] = jobs[number]


@settings(max_examples=up_to(600, part=10), deadline=None)
@given(
    workloads(),
    st.sampled_from(ALL),
    st.sampled_from(["default", "archive"]),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(1, 9)), max_size=2),
)
def test_every_job_completes_no_capacity_is_exceeded_and_only_displaced_queues_are_preempted(
    workload: Workload, scheduler: str, order: str, drawn: list[tuple[int, int, int]]
) -> None:
    small, policies, jobs, run_s, _ = workload
    site = site_of(small, policies)
    outages = [Outage(n % len(small), float(at_s), float(at_s + for_s)) for n, at_s, for_s in drawn]
    facts = site.run(jobs, run_s, scheduler, outages, order)
    assert first_violation(facts, site.capacity) is None
    assert sorted(facts.filter(event=Fact.RUN_ENDED)["job"]) == [each.id for each in jobs]
    for event, own, waiting in waiting_at_starts_and_preemptions(facts, jobs):
        if event == Fact.RUN_PREEMPTED:
            assert any(own.queue in site.displaced_by(other.queue) for other in waiting)


@settings(max_examples=up_to(300, part=10), deadline=None)
@given(workloads())
def test_under_fcfs_no_job_starts_while_one_of_a_higher_queue_waits(workload: Workload) -> None:
    small, policies, jobs, run_s, _ = workload
    site = site_of(small, policies)
    facts = site.run(jobs, run_s, "fcfs")
    priority = {queue.name: queue.priority for queue in site.queues}
    for event, own, waiting in waiting_at_starts_and_preemptions(facts, jobs):
        if event == Fact.RUN_STARTED:
            assert all(priority[other.queue] <= priority[own.queue] for other in waiting)


def without(
    displaced: frozenset[str], runs: dict[int, Sequence[Share]], empty: list[SmallNode], jobs: Sequence[Job]
) -> list[SmallNode]:
    """What is free if only runs of other queues go on; `runs` has what each job uses, as in a trace."""
    nodes = deepcopy(empty)
    for number, uses in runs.items():
        request = jobs[number].request
        assert request is not None
        if jobs[number].queue not in displaced:
            nodes[0].licences -= sum(request.site_resources.values())
        for n, chunks, gpus in uses if jobs[number].queue not in displaced else ():
            node = nodes[n]
            node.jobs += chunks
            node.cores = 0 if request.exclusive else node.cores - chunks * int(request.cores)
            node.memory = 0 if request.exclusive else node.memory - chunks * request.memory_mib
            part = 1.0 if request.gpus is None or request.exclusive else request.gpus.share
            for d in gpus:
                node.gpus[d] = node.gpus[d][0], node.gpus[d][1] - round(1000 * part)
    return nodes


@settings(max_examples=up_to(400, part=10), deadline=None)
@given(
    workloads(),
    st.sampled_from(["fcfs", "easy", "easy_sjbf", "conservative"]),
    st.sampled_from(sorted(ORDERS)),
)
def test_the_first_job_waits_only_if_it_does_not_fit_even_without_the_runs_that_it_displaces(
    workload: Workload, scheduler: str, order: str
) -> None:
    small, policies, jobs, run_s, requested = workload
    site = site_of(small, policies)
    place = {queue.name: k for k, queue in enumerate(in_order_of_service(site.queues))}
    waiting, runs = set[int](), dict[int, Sequence[Share]]()
    for _, facts in site.run(jobs, run_s, scheduler, order=order).group_by("time_s", maintain_order=True):
        for event, number, shares in zip(
            facts["event"], facts["job"], shares_in(facts["shares"]), strict=True
        ):
            if event == Fact.RUN_STARTED:
                waiting.remove(number)
                runs[number] = shares or ()
            elif event in (Fact.JOB_ARRIVED, Fact.RUN_PREEMPTED):
                waiting.add(number)
                runs.pop(number, None)
            elif event == Fact.RUN_ENDED:
                del runs[number]
        if waiting:
            first = min(
                waiting, key=lambda number: (place[jobs[number].queue], jobs[number].arrival_s, number)
            )
            displaced = site.displaced_by(jobs[first].queue)
            assert not fits(without(displaced, runs, small, jobs), requested[first])


@settings(max_examples=up_to(200), deadline=None)
@given(workloads(), st.sampled_from(ALL), st.integers(1, 3))
def test_a_job_is_displaced_at_most_so_often_that_it_reaches_the_highest_queue(
    workload: Workload, scheduler: str, raised_after: int
) -> None:
    small, policies, jobs, run_s, _ = workload
    site = site_of(small, policies, raised_after)
    facts = site.run(jobs, run_s, scheduler)
    assert first_violation(facts, site.capacity) is None
    preempted = facts.filter(event=Fact.RUN_PREEMPTED)["job"].value_counts()
    assert (preempted["count"] <= raised_after * (len(site.queues) - 1)).all()
