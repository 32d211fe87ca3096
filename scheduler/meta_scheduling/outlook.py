"""What is known of the jobs of one cluster before they end: whether they are accepted, how long they occupy
it, and forecasts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from scheduler.free_nodes.consumable_problem import FreeNodesScheduler
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.queues import QueuePolicy
from scheduler.managers.rigid_allocation import RigidAllocation
from scheduler.managers.run_forward import Instant, run_forward
from scheduler.model import ON_NODES, DispatchOrder, Job, RunId, Start
from scheduler.ports import Clock
from scheduler.problem import Running
from scheduler.resource_manager import OnFreeNodes
from scheduler.time_shared.forecast import Forecast, Predictor

if TYPE_CHECKING:
    from scheduler.managers.time_shared_allocation import TimeSharedAllocation  # loads compiled functions
    from scheduler.time_shared.problem import SharedNodes

Runs = Iterable[tuple[DispatchOrder, float]]
"""Runs in progress, and when they began."""


class FreeNodesOutlook:
    """Runs the policy of a cluster of nodes forward: runs end as estimated, and jobs start as a new instance
    of the cluster's scheduler decides, until the job in question starts. O(decisions until then)."""

    def __init__(
        self, ports: OnFreeNodes, make: Callable[[], FreeNodesScheduler], queues: Sequence[QueuePolicy]
    ) -> None:
        self._ports, self._make, self._queues = ports, make, queues
        self._capacity = sum(node.cores for node in ports.nodes) or ports.n_nodes
        self._empty = self._nodes(Instant(0.0))

    def accepts(self, job: Job) -> bool:
        """Whether the job could run on the cluster, whoever has submitted it."""
        refusal, _ = self._empty.submit(job), self._empty.withdraw(job.id)
        return refusal is None

    def load_s(self, waiting: Iterable[Job], running: Runs) -> float:
        """How long jobs and runs will occupy the whole cluster, if they can use all of it."""
        now_s, occupied_s = self._ports.clock.now_s, self._occupied_s
        left = ((order.job, 1.0 - (now_s - began_s) / order.expected_s) for order, began_s in running)
        return sum(map(occupied_s, waiting)) + sum(occupied_s(job) * max(0.0, of) for job, of in left)

    def _occupied_s(self, job: Job) -> float:
        return job.n_tasks * self._ports.run_times.estimate_s(job) / self._capacity

    def _nodes(self, clock: Instant) -> RigidAllocation:
        return RigidAllocation(replace(self._ports, clock=clock, run_times=UserEstimates()), self._queues)

    def forecast(self, job: Job, waiting: Iterable[Job], running: Runs) -> Forecast:
        """The start and end of a job that arrives now or later, after those that wait and run."""
        clock, runs = Instant(self._ports.clock.now_s), dict[RunId, Running]()
        nodes = self._nodes(clock)
        for order, began_s in running:
            ran_s = clock.now_s - began_s  # a run that exceeds its estimate takes twice as long
            end_s = began_s + (order.expected_s if ran_s < order.expected_s else 2.0 * ran_s)
            there = order.job._replace(estimate_s=order.expected_s)
            nodes.submit(there)
            nodes.start(order.run, there, Start(0, order.machines, end_s, order.shares), clock.now_s)
            runs[order.run] = Running(there, ON_NODES, order.machines, end_s)
        estimate_s = self._ports.run_times.estimate_s
        to_come = [each._replace(estimate_s=estimate_s(each)) for each in (*waiting, job)]
        found = run_forward(nodes, clock, runs, self._make(), to_come)
        return next((each for each in found if each.job == job.id), Forecast(job.id, inf, inf))


@dataclass(frozen=True)
class SharedNodesOutlook:
    """The state of time-shared nodes, with the jobs that are on their way to them in their queue, and what
    CISNE's predictor forecasts from it. A job whose data arrive after its forecast start is as much later."""

    nodes: TimeSharedAllocation
    predictor: Predictor
    clock: Clock

    def accepts(self, job: Job) -> bool:
        return not isinstance(self.nodes.required(job), str)

    def load_s(self, waiting: Iterable[Job], running: Runs) -> float:
        """How long all tasks would occupy all nodes, if these were dedicated to them one after the other."""
        with self._with(waiting) as shared:
            shared.measure()
            jobs, rows = shared.jobs, [*shared.running, *shared.waiting]
            left = 1.0 - jobs.used_s[rows] / jobs.cpu_s[rows]
            return float((jobs.tasks[rows] * jobs.exe_s[rows] * left).sum()) / shared.n_nodes

    def forecast(self, job: Job, waiting: Iterable[Job], running: Runs) -> Forecast:
        now_s = self.clock.now_s
        with self._with((*waiting, job)) as shared:
            (found,) = (each for each in self.predictor.predict(now_s, shared) if each.job == job.id)
        start_s = now_s if found.start_s is None else found.start_s
        late_s = max(0.0, job.arrival_s - start_s)
        return Forecast(job.id, start_s + late_s, found.end_s + late_s)

    @contextmanager
    def _with(self, jobs: Iterable[Job]) -> Iterator[SharedNodes]:
        """The nodes with more jobs in their queue, where they are not there."""
        state, there = self.nodes.state, self.nodes.view().job_of
        added = [job for job in jobs if job.id not in there]
        for job in added:
            if not isinstance(requirement := self.nodes.required(job), str):
                state.add(job, requirement)
        try:
            yield self.nodes.view()
        finally:
            for job in reversed(added):
                state.withdraw(job)


Outlook = FreeNodesOutlook | SharedNodesOutlook
