"""What is known of the jobs of one cluster before they end: whether they are accepted, how long they occupy
it, and forecasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf

from scheduler.free_nodes.consumable_problem import FreeNodesScheduler
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.queues import QueuePolicy
from scheduler.managers.rigid_allocation import RigidAllocation
from scheduler.model import ON_NODES, DispatchOrder, Job, RunId, Start
from scheduler.ports import RunEnded
from scheduler.problem import Running
from scheduler.resource_manager import OnFreeNodes
from scheduler.time_shared.forecast import Forecast

Runs = Iterable[tuple[DispatchOrder, float]]
"""Runs in progress, and when they began."""


@dataclass
class _Instant:
    """The clock of a run forward."""

    now_s: float


class FreeNodesOutlook:
    """Runs the policy of a cluster of nodes forward: runs end as estimated, and jobs start as a new instance
    of the cluster's scheduler decides, until the job in question starts. O(decisions until then)."""

    def __init__(
        self, ports: OnFreeNodes, make: Callable[[], FreeNodesScheduler], queues: Sequence[QueuePolicy]
    ) -> None:
        self._ports, self._make, self._queues = ports, make, queues
        self._capacity = sum(node.cores for node in ports.nodes) or ports.n_nodes
        self._empty = self._nodes(_Instant(0.0))

    def accepts(self, job: Job) -> bool:
        """Whether the job could run on the cluster, whoever has submitted it."""
        refusal, _ = self._empty.submit(job), self._empty.withdraw(job.id)
        return refusal is None

    def occupied_s(self, job: Job) -> float:
        """How long the job would occupy the whole cluster, if it could use all of it."""
        return job.n_tasks * self._ports.run_times.estimate_s(job) / self._capacity

    def _nodes(self, clock: _Instant) -> RigidAllocation:
        return RigidAllocation(replace(self._ports, clock=clock, run_times=UserEstimates()), self._queues)

    def forecast(self, job: Job, waiting: Iterable[Job], running: Runs) -> Forecast:
        """The start and end of a job that arrives now or later, after those that wait and run."""
        clock = _Instant(self._ports.clock.now_s)
        nodes, scheduler, numbers = self._nodes(clock), self._make(), count()
        runs, ends = dict[RunId, Running](), list[tuple[float, RunId]]()

        def begin(there: Job, start: Start) -> None:
            run = RunId(next(numbers))
            nodes.start(run, there, start, clock.now_s)
            runs[run] = Running(there, ON_NODES, start.nodes, start.completion_s)
            heappush(ends, (start.completion_s, run))

        for order, began_s in running:
            ran_s = clock.now_s - began_s  # a run that exceeds its estimate takes twice as long
            end_s = began_s + (order.expected_s if ran_s < order.expected_s else 2.0 * ran_s)
            there = order.job._replace(estimate_s=order.expected_s)
            nodes.submit(there)
            begin(there, Start(0, order.machines, end_s, order.shares))
        estimate_s = self._ports.run_times.estimate_s
        to_come = [each._replace(estimate_s=estimate_s(each)) for each in (*waiting, job)]
        to_come.sort(key=lambda each: (each.arrival_s, each.id), reverse=True)
        next_s = clock.now_s
        while next_s < inf:
            clock.now_s = next_s
            while ends and ends[0][0] <= next_s:
                _, run = heappop(ends)
                nodes.end(run, RunEnded(run, next_s))
                del runs[run]
            while to_come and to_come[-1].arrival_s <= next_s:
                nodes.submit(to_come.pop())
            again_s = None
            if nodes.waiting:
                problem = nodes.problem(next_s, runs)
                schedule = scheduler.schedule(problem)
                again_s, jobs = schedule.ask_again_s, problem.jobs
                for there, start in [(jobs[start.job], start) for start in schedule.starts]:
                    if there.id == job.id:
                        return Forecast(job.id, next_s, start.completion_s)
                    begin(there, start)
            next_s = min(
                ends[0][0] if ends else inf, to_come[-1].arrival_s if to_come else inf, again_s or inf
            )
        return Forecast(job.id, inf, inf)
