"""The state of a session with a Batsim scheduler: its unfinished jobs, their runs, and the nodes held."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model import Job, RunId
from scheduler.node_set import NodeSet
from scheduler.ports import Clock
from scheduler.rules import EACH_JOB_ONCE, KNOWN_JOB, KNOWN_NODES, NODES_FREE, ONE_TASK_ON_EACH_NODE
from sil.world.guard.faults import SPEAKS_THE_PROTOCOL, SchedulerFault
from sil.world.machines.nodes import HeldNodes

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
        """At the present time, perhaps about a job."""
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
