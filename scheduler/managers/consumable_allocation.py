"""The state of nodes with cores, memory and GPUs, of which jobs use parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from scheduler.free_nodes.consumable_nodes import ConsumableNodes, WaitingRequests
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.free_nodes.runtime_estimates import SHORTEST_S
from scheduler.managers.queues import QueuePolicy, Starvation, in_order_of_service
from scheduler.managers.starting_manager import NodeAllocation
from scheduler.model import (
    Job,
    RunId,
    Share,
    Start,
)
from scheduler.node_request import Request
from scheduler.node_resources.described import RequestAdmission
from scheduler.node_resources.state import rows_of, shares_of
from scheduler.node_set import NodeSet
from scheduler.notices import RunEnded
from scheduler.problem import Running
from scheduler.resource_manager import OnFreeNodes

if TYPE_CHECKING:
    from scheduler.managers.displacement import Displacement


class ConsumableAllocation(NodeAllocation[ConsumableNodesProblem]):
    """Nodes of which jobs use parts.

    See `RequestAdmission` for the jobs that are refused when they arrive; others are estimated then, and
    again when a run exceeds its estimate. Without `queues` there is one.
    """

    def __init__(
        self, ports: OnFreeNodes, queues: Sequence[QueuePolicy] = (), raised_after: int | None = None
    ) -> None:
        """`raised_after`: see `PreemptionPolicy`. Raises ValueError for queues that cannot be served."""
        self._state = ConsumableNodes(ports.nodes, ports.site_resources)
        self._admission = RequestAdmission(self._state.nodes, ports.partitions)
        self.waiting: WaitingRequests = self._state.waiting
        queues = in_order_of_service(queues)
        self._rank = {queue.name: rank for rank, queue in enumerate(queues)}
        self._starvation = Starvation(list(self._rank), raised_after)
        self._displacement: Displacement | None = None
        if any(queue.displaces for queue in queues):
            # Compiled code that other queues do without.
            from scheduler.managers.displacement import Displacement

            self._displacement = Displacement(self._state, queues)
        self._run_times = ports.run_times
        self._began: dict[RunId, tuple[Job, float]] = {}
        """The running jobs and their start times."""
        self._end_s: dict[RunId, float] = {}
        """The expected ends of runs that hold nodes."""

    @property
    def outlived_at_s(self) -> float | None:
        return self._state.releases.first_s()

    def submit(self, job: Job) -> str | None:
        request = self._admission.admitted(_request_of(job), job.estimate_s)
        if isinstance(request, str):
            return f"job {job.id} {request}"
        self._wait(job._replace(request=request))
        return None

    def problem(self, now_s: float, running: Mapping[RunId, Running]) -> ConsumableNodesProblem:
        return ConsumableNodesProblem(now_s, self._state, running)

    def nothing_fits(self) -> bool:
        """Neither now nor if it displaces others."""
        if self._state.any_fits():
            return False
        return self._displacement is None or not self._displacement.may_help()

    def set_available(self, node: int, is_available: bool) -> None:
        self._state.nodes.set_up(node, is_available)
        if self._displacement is not None:
            self._displacement.set_up(node, is_available)

    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> tuple[Share, ...]:
        self._began[run], self._end_s[run] = (job, now_s), start.completion_s
        waiting, i = self.waiting, self.waiting.position(job.id)
        kind, chunks = int(waiting.kinds[i]), int(waiting.chunks[i])
        if start.shares:
            used = rows_of(start.shares)
        else:
            divided = self._state.nodes.divided(kind, chunks, NodeSet.of(start.nodes))
            assert divided is not None, "the rules of a schedule have been checked"
            used = divided
        waiting.remove(job.id)
        self._state.nodes.take(kind, used)
        self._state.begin(run, start.completion_s, kind, used)
        if self._displacement is not None:
            self._displacement.begin(run, (self._rank_of(job), job.arrival_s, job.id))
        return start.shares or shares_of(used)

    def end(self, run: RunId, ended: RunEnded) -> None:
        self._give_back(run)
        job, began_s = self._began.pop(run)
        if not ended.failed:
            self._run_times.learn(job, ended.run_time_s(began_s))
        self._starvation.forget(job)

    def release(self, run: RunId, now_s: float) -> None:
        if self._end_s.get(run) == now_s:
            self._give_back(run)

    def requeue(self, run: RunId) -> None:
        self._give_back(run)
        job, _ = self._began.pop(run)
        self._wait(job)

    def reestimate(self, now_s: float) -> None:
        releases = self._state.releases
        while (end_s := releases.first_s()) is not None and end_s <= now_s:
            run = releases.first_run
            job, began_s = self._began[run]
            # After now, or time would not advance.
            later_s = max(began_s + self._run_times.outlived_s(job, now_s - began_s), now_s + 1.0)
            self._state.expect(run, end_s, later_s)
            self._end_s[run] = later_s

    def to_stop(self) -> Sequence[RunId]:
        return () if self._displacement is None else self._displacement.to_stop()

    def over(self, run: RunId, is_stopped: bool) -> Sequence[RunId]:
        if self._displacement is None:
            return super().over(run, is_stopped)
        if is_stopped and self._displacement.is_stopping(run):
            job, _ = self._began[run]
            self._starvation.note_displaced(job)
        return self._displacement.over(run, is_stopped)

    def _rank_of(self, job: Job) -> int:
        return self._rank[self._starvation.queue_of(job)] if self._rank else 0

    def _wait(self, job: Job) -> None:
        estimate_s = max(self._run_times.estimate_s(job), SHORTEST_S)
        self._state.wait(job, _request_of(job), estimate_s, self._rank_of(job))

    def _give_back(self, run: RunId) -> None:
        end_s = self._end_s.pop(run, None)
        if end_s is None:
            return  # it gave back its nodes earlier
        kind, used = self._state.end(run, end_s)
        self._state.nodes.give_back(kind, used)
        if self._displacement is not None:
            self._displacement.end(run, kind, used)


def _request_of(job: Job) -> Request:
    """Without one, as many cores as it has tasks, anywhere."""
    return Request(chunks=job.n_tasks, most_on_node=None) if job.request is None else job.request
