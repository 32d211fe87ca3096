"""The state of free nodes: identical ones, each for one job. Others are in `consumable_allocation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduler import UserError
from scheduler.free_nodes.problem import FreeNodes, FreeNodesProblem
from scheduler.free_nodes.waiting import WaitingJobs
from scheduler.managers.estimated_allocation import EstimatedAllocation
from scheduler.managers.queues import PreemptionPolicy, QueuePolicy
from scheduler.model import Job, JobId, RunId, Share, Start
from scheduler.node_set import NodeSet
from scheduler.ports import RuntimeEstimator
from scheduler.problem import Running
from scheduler.resource_manager import OnFreeNodes


class NotOnTheseNodes(UserError):
    """Policies that a manager of these nodes cannot follow. The message is one sentence for the user."""


def free_node_allocation(
    ports: OnFreeNodes, queues: Sequence[QueuePolicy] = (), preemption: PreemptionPolicy | None = None
) -> EstimatedAllocation:
    """The state of the nodes that these ports describe. Without `queues` there is one.

    Raises NotOnTheseNodes for queues on identical nodes and for a least gain, ValueError for queues that
    cannot be served.
    """
    if not ports.nodes:
        if queues:
            raise NotOnTheseNodes(
                f"there are {len(queues)} queues for identical nodes, which have one without a policy; "
                f"state what each node has, or leave the queues out"
            )
        return FreeNodeAllocation(ports.n_nodes, ports.run_times)
    preemption = preemption or PreemptionPolicy()
    if preemption.least_gain_s:
        raise NotOnTheseNodes(
            f"preemption.least_gain_s is {preemption.least_gain_s:g} s, but on nodes no run is planned, so "
            f"that no gain is known; expected 0: leave it out"
        )
    # Compiled code that identical nodes do without.
    from scheduler.managers.consumable_allocation import ConsumableAllocation

    return ConsumableAllocation(ports, queues, preemption.raised_after)


def never_fits(job: JobId, size: int, n_nodes: int) -> str | None:
    """Why a job is refused that requests more nodes than there are, or none; else None."""
    return None if 1 <= size <= n_nodes else f"job {job} asks for {size} nodes; the machine has {n_nodes}"


class FreeNodeAllocation(EstimatedAllocation):
    """A machine of identical nodes, each for one job."""

    def __init__(self, n_nodes: int, run_times: RuntimeEstimator) -> None:
        self._nodes = FreeNodes(n_nodes)
        self.waiting: WaitingJobs = self._nodes.waiting
        self._down: set[int] = set()
        super().__init__(run_times, self._nodes.releases)

    def submit(self, job: Job) -> str | None:
        refused = never_fits(job.id, job.n_tasks, self._nodes.n_nodes)
        if refused is None:
            self._wait(job)
        return refused

    def problem(self, now_s: float, running: Mapping[RunId, Running]) -> FreeNodesProblem:
        return FreeNodesProblem(now_s, self._nodes, running)

    def nothing_fits(self) -> bool:
        return self.waiting.least_size > self._nodes.free.n

    def set_available(self, node: int, is_available: bool) -> None:
        if is_available == (node not in self._down):
            return
        (self._down.discard if is_available else self._down.add)(node)
        if any(node in nodes for nodes, _ in self._holding.values()):
            return  # it becomes available, or not, when the run gives it back
        (self._nodes.free.give_back if is_available else self._nodes.free.take)(NodeSet.of([node]))

    def _wait(self, job: Job) -> None:
        self.waiting.add(job, self._estimate_s(job))

    def _take(self, run: RunId, job: Job, nodes: NodeSet, start: Start) -> tuple[Share, ...]:
        self.waiting.remove(job.id)
        self._nodes.free.take(nodes)
        self._releases.add(start.completion_s, nodes.n, run)
        return ()

    def _let_go(self, run: RunId, nodes: NodeSet, end_s: float) -> None:
        self._releases.drop(end_s, run)
        self._nodes.free.give_back(nodes if not self._down else NodeSet.of(set(nodes) - self._down))

    def _expect(self, run: RunId, nodes: NodeSet, before_s: float, end_s: float) -> None:
        self._releases.drop(before_s, run)
        self._releases.add(end_s, nodes.n, run)
