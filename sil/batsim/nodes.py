"""The nodes on which a Batsim scheduler starts jobs (of a log, a site, or a time-shared cluster), and the
state of its session: unfinished jobs, their runs, and the nodes that these hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import ON_NODES, DispatchOrder, ExecutionRecord, Job, RunId
from scheduler.node_set import NodeSet
from scheduler.ports import Clock, Monitor, NodeMonitor, RuntimeEstimator
from scheduler.resource_manager import OnMachines, OnSharedNodes
from scheduler.rules import EACH_JOB_ONCE, KNOWN_JOB, KNOWN_NODES, NODES_FREE, ONE_TASK_ON_EACH_NODE
from scheduler.time_shared.social_contract import Requirement
from sil.batsim.messages import JsonEvent, delay, resource
from sil.workload.arrivals import LoggedRuns
from sil.world.guard.faults import SPEAKS_THE_PROTOCOL, SchedulerFault
from sil.world.machines.nodes import HeldNodes


@dataclass(frozen=True)
class NumberedNodes:
    """Nodes by number, from 0, as described to the scheduler.

    `profile` is the estimate of a job: a `delay`, and perhaps more. `actual_run_s` is its run time on nodes,
    from which its progress is computed. `learn` gets each complete run: when it began, and how long it ran.
    `order` is that for a job on as many nodes as it requests. `new_job` adds a job that the scheduler submits
    itself (when, its run time, nodes and walltime); None: the jobs are those of the experiment's file.
    Without a monitor, nodes are always up.
    """

    descriptions: Sequence[JsonEvent]
    profile: Callable[[Job], JsonEvent]
    actual_run_s: Callable[[Job, NodeSet], float]
    learn: Callable[[Job, NodeSet, float, float], None] = lambda *_: None
    order: Callable[[RunId, Job, NodeSet, float], DispatchOrder] = lambda run, job, nodes, walltime_s: (
        DispatchOrder(run, job, ON_NODES, nodes, walltime_s)
    )
    monitor: Monitor | NodeMonitor | None = None
    new_job: Callable[[float, float, int, float | None], Job] | None = None


def identical_nodes(n_nodes: int, run_times: RuntimeEstimator, runs: LoggedRuns) -> NumberedNodes:
    """The nodes of a log's machine, which are always up."""
    return NumberedNodes(
        [resource(n, f"node-{n}") for n in range(n_nodes)],
        lambda job: delay(run_times.estimate_s(job)),
        lambda job, nodes: runs.run_s(job),
        lambda job, nodes, started_s, ran_s: run_times.learn(job, ran_s),
        new_job=runs.add,
    )


def site_machines(ports: OnMachines, actual_run_s: Callable[[Job, int, float], float]) -> NumberedNodes:
    """Machines that differ, which the protocol cannot describe: a job's `walltime` is its longest expected
    time on any machine, and its profile has that on each (`expected_s`, null = cannot run there).

    Clusters are not offered.
    """
    machines, n_members = ports.site.machines, [len(members) for members in ports.site.members]

    def expected(job: Job) -> EtcMatrix:
        return ports.experience.estimate([job], n_members)

    def profile(job: Job) -> JsonEvent:
        row = expected(job).row(0)[: len(machines)].tolist()
        expected_s = [s if isfinite(s) else None for s in row]
        longest_s = max((s for s in expected_s if s is not None), default=0.0)
        return {**delay(longest_s), "expected_s": expected_s}

    def order(run: RunId, job: Job, nodes: NodeSet, walltime_s: float) -> DispatchOrder:
        (machine,) = nodes
        return DispatchOrder(run, job, machine, (machine,), expected(job)[0, machine])

    def learn(job: Job, nodes: NodeSet, started_s: float, ran_s: float) -> None:
        ports.experience.record(ExecutionRecord(job, next(iter(nodes)), 1, started_s, ran_s))

    return NumberedNodes(
        [resource(j, each.name, machine_class=each.machine_class) for j, each in enumerate(machines)],
        profile,
        lambda job, nodes: actual_run_s(job, next(iter(nodes)), 1.0),
        learn,
        order,
        ports.monitor,
    )


def time_shared_nodes(ports: OnSharedNodes) -> NumberedNodes:
    """A job's `walltime` is its execution time in isolation, and its profile has its requirement of a node
    (`cpu`, `memory_mb`). The protocol cannot express slowdown by local users, which is unknown before the
    end, or jobs that share nodes."""

    def required(job: Job) -> Requirement:
        found = ports.characterisation.requirement(job)
        assert found is not None, "only such jobs arrive"
        return found

    def profile(job: Job) -> JsonEvent:
        need = required(job)
        return {**delay(need.exe_s), "cpu": need.cpu, "memory_mb": need.memory_mb}

    return NumberedNodes(
        [resource(n, f"node-{n}", memory_mb=f"{mb:g}") for n, mb in enumerate(ports.memory_mb)],
        profile,
        lambda job, nodes: required(job).exe_s,
        monitor=ports.monitor,
    )


NOWHERE = NodeSet((), 0)


@dataclass(slots=True)
class SessionJob:
    """A submitted job that has not ended."""

    id: str
    job: Job
    estimate_s: float
    run: RunId | None = None
    nodes: NodeSet = NOWHERE
    started_s: float = 0.0
    is_killed: bool = False
    """The scheduler has ordered it; a notice follows if the run was killed."""


class Session:
    """`jobs` that have not ended, by their ids. Raises SchedulerFault for others, and for nodes on
    which a job cannot start."""

    def __init__(self, n_nodes: int, clock: Clock) -> None:
        self._n_nodes = n_nodes
        self._clock = clock
        self.jobs: dict[str, SessionJob] = {}
        self._of_run: dict[RunId, SessionJob] = {}
        self._held = HeldNodes(n_nodes)
        self._runs = -1

    def of(self, job_id: str) -> SessionJob:
        """An unfinished job."""
        entry = self.jobs.get(job_id)
        if entry is None:
            raise self.fault(KNOWN_JOB, f"job {job_id} is unknown; it was never submitted or has ended")
        return entry

    def start(self, job_id: str, alloc: str) -> SessionJob:
        """Start a job now on `alloc`, a set of nodes like `0-3 5`."""
        entry = self.of(job_id)
        if entry.run is not None:
            raise self.fault(EACH_JOB_ONCE, f"job {job_id} was started, but is running already", entry)
        nodes = self._nodes(job_id, alloc, entry)
        self._held.hold(nodes)
        self._runs += 1
        entry.run, entry.nodes, entry.started_s = RunId(self._runs), nodes, self._clock.now_s
        self._of_run[entry.run] = entry
        return entry

    def over(self, run: RunId) -> SessionJob | None:
        """End a run and its job, whatever the reason. None if the run is unknown."""
        if (entry := self._of_run.pop(run, None)) is not None:
            del self.jobs[entry.id]
            self._held.give_back(entry.nodes)
        return entry

    def fault(self, rule: str, message: str, entry: SessionJob | None = None) -> SchedulerFault:
        """A fault at the present time, perhaps of a job."""
        return SchedulerFault(rule, message, self._clock.now_s, None if entry is None else entry.job.id)

    def _nodes(self, job_id: str, alloc: str, entry: SessionJob) -> NodeSet:
        try:
            nodes = NodeSet.parse(alloc.replace(",", " "))
        except ValueError:
            message = f"job {job_id} was started on '{alloc}'; expected a set of nodes like '0-3 5'"
            raise self.fault(SPEAKS_THE_PROTOCOL, message, entry) from None
        if not nodes.within(self._n_nodes):
            message = f"job {job_id} was started on {nodes}; there are nodes 0 to {self._n_nodes - 1}"
            raise self.fault(KNOWN_NODES, message, entry)
        if nodes.n != entry.job.n_tasks:
            asked = f"job {job_id} asks for {entry.job.n_tasks} nodes"
            message = f"{asked}, but was started on {nodes.n}: {nodes}"
            raise self.fault(ONE_TASK_ON_EACH_NODE, message, entry)
        if self._held.first_of(nodes) is not None:
            jobs = self.jobs.items()
            there = next(name for name, job in jobs if any(node in job.nodes for node in nodes))
            message = f"job {job_id} was started on {nodes}, where job {there} is running"
            raise self.fault(NODES_FREE, message, entry)
        return nodes
