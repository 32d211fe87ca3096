"""What a scheduler of Batsim's was told: its jobs, those that run, and the nodes that are free by that."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.model import Job, JobId, RunId
from scheduler.node_set import FreeSet, NodeSet
from scheduler.ports import Clock
from scheduler.rules import EACH_JOB_ONCE, KNOWN_JOB, KNOWN_NODES, NODES_FREE, ONE_TASK_ON_EACH_NODE
from sil.world.guard.faults import SPEAKS_THE_PROTOCOL, SchedulerFault

NOWHERE = NodeSet((), 0)


@dataclass(slots=True)
class Known:
    """A job that the scheduler knows of and that is not over."""

    job: Job
    estimate_s: float
    run: RunId | None = None
    nodes: NodeSet = NOWHERE
    started_s: float = 0.0
    is_killed: bool = False
    """It is to be; whether it was is told by a notice."""


class Book:
    """Jobs by the ids that the scheduler knows, and what it may do with them.

    Raises SchedulerFault where it names a job that it was never told of or that is over, or starts one where
    that cannot be.
    """

    def __init__(self, n_nodes: int, clock: Clock) -> None:
        self._n_nodes = n_nodes
        self._clock = clock
        self._known: dict[str, Known] = {}
        self._id_of_run: dict[RunId, str] = {}
        self._free = FreeSet(n_nodes)
        self._runs = -1

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._known

    def waiting(self) -> list[JobId]:
        return [known.job.id for known in self._known.values() if known.run is None]

    def submit(self, job_id: str, job: Job, estimate_s: float) -> None:
        self._known[job_id] = Known(job, estimate_s)

    def of(self, job_id: str) -> Known:
        """A job that is not over."""
        known = self._known.get(job_id)
        if known is None:
            message = f"job {job_id} was named; it was never submitted, or is over"
            raise SchedulerFault(KNOWN_JOB, message, self._clock.now_s)
        return known

    def get(self, job_id: str) -> Known | None:
        return self._known.get(job_id)

    def forget(self, job_id: str) -> None:
        """A job that never ran is over."""
        del self._known[job_id]

    def start(self, job_id: str, alloc: str) -> Known:
        """A job runs from now on, on the nodes of a text like `0-3 5`."""
        known = self.of(job_id)
        if known.run is not None:
            raise self.fault(EACH_JOB_ONCE, f"job {job_id} was to be started, and runs already", known)
        nodes = self._nodes(job_id, alloc, known)
        self._free.take(nodes)
        self._runs += 1
        known.run, known.nodes, known.started_s = RunId(self._runs), nodes, self._clock.now_s
        self._id_of_run[known.run] = job_id
        return known

    def over(self, run: RunId) -> tuple[str, Known] | None:
        """A run is over, for whatever reason, and so is its job; None for one that is unknown."""
        job_id = self._id_of_run.pop(run, None)
        if job_id is None:
            return None
        known = self._known.pop(job_id)
        self._free.give_back(known.nodes)
        return job_id, known

    def fault(self, rule: str, message: str, known: Known) -> SchedulerFault:
        return SchedulerFault(rule, message, self._clock.now_s, known.job.id)

    def _nodes(self, job_id: str, alloc: str, known: Known) -> NodeSet:
        try:
            nodes = NodeSet.parse(alloc.replace(",", " "))
        except ValueError:
            message = f"job {job_id} was to be started on '{alloc}', which is no set of nodes like '0-3 5'"
            raise self.fault(SPEAKS_THE_PROTOCOL, message, known) from None
        if not nodes.within(self._n_nodes):
            message = f"job {job_id} was to be started on {nodes}; there are nodes 0 to {self._n_nodes - 1}"
            raise self.fault(KNOWN_NODES, message, known)
        if nodes.n != known.job.n_tasks:
            message = f"job {job_id} asks for {known.job.n_tasks} nodes and was given {nodes.n}: {nodes}"
            raise self.fault(ONE_TASK_ON_EACH_NODE, message, known)
        if not self._free.has(nodes):
            there = next(
                other_id
                for other_id, other in self._known.items()
                if any(node in other.nodes for node in nodes)
            )
            message = f"job {job_id} was to be started on {nodes}, where job {there} runs"
            raise self.fault(NODES_FREE, message, known)
        return nodes
