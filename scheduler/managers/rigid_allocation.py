"""Nodes for rigid jobs, identical ones or nodes with cores, memory and GPUs, and their resource manager."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from scheduler.core.codes import SHORTEST_S
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem, FreeNodesScheduler
from scheduler.free_nodes.identical_nodes import FreeNodes
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.managers.displacement import Displacement
from scheduler.managers.precedence import OfPolicy, OfQueues, Precedence
from scheduler.managers.preemptor import Preemptor
from scheduler.managers.queues import (
    Admission,
    PreemptionPolicy,
    QueuePolicy,
    Starvation,
    in_order_of_service,
    never_fits,
)
from scheduler.managers.starting_manager import NodeAllocation, NodeManager, Submit
from scheduler.messages import UserError
from scheduler.model import Job, JobId, RunId, Share, Start
from scheduler.node_request import Request
from scheduler.node_resources.described import RequestAdmission
from scheduler.ports import CancellingDispatcher, Clock, ReservationMade, RunEnded, SuspendingDispatcher
from scheduler.priority.claims import Claimant, Claims
from scheduler.priority.policy import PreemptMode
from scheduler.problem import Running
from scheduler.resource_manager import OnFreeNodes


class RigidAllocation(NodeAllocation["FreeNodesProblem | ConsumableNodesProblem"]):
    """The allocation of the nodes that ports describe. Without `queues` there is one queue.

    Jobs that can never run are refused when they arrive; others are estimated then, and again when a run
    exceeds its estimate."""

    def __init__(
        self, ports: OnFreeNodes, queues: Sequence[QueuePolicy] = (), raised_after: int | None = None
    ) -> None:
        """`raised_after`: see `PreemptionPolicy`. Raises ValueError for queues that cannot be served."""
        self._ports, self._policy = ports, (queues, raised_after)
        self.state: FreeNodes | ConsumableNodes
        self._problem: Callable[..., FreeNodesProblem | ConsumableNodesProblem]
        self._admission: RequestAdmission | None = None
        self._claims: Claims | None = None
        if ports.nodes:
            self._claims = None if ports.policy is None else Claims(ports.policy, ports.nodes)
            self.state = ConsumableNodes(ports.nodes, ports.site_resources, self._claims, ports.topology)
            self._problem = ConsumableNodesProblem
            self._admission = RequestAdmission(self.state.nodes, ports.partitions)
        else:
            self.state, self._problem = FreeNodes(ports.n_nodes), FreeNodesProblem
        self.waiting, self.promised = self.state.waiting, {}
        self._unavailable = set[int]()
        self._clock = ports.clock
        self._run_times = ports.run_times
        queues = in_order_of_service(queues)
        self._rank = {queue.name: rank for rank, queue in enumerate(queues)}
        self._starvation = Starvation(list(self._rank), raised_after)
        self.preemptor: Preemptor | None = None
        if isinstance(self.state, ConsumableNodes):
            precedence: Precedence = OfQueues(queues)
            delay_s = 0.0
            if self._claims is not None and (by := self._claims.policy.preemption) is not None:
                ways = {PreemptMode.CANCEL: CancellingDispatcher, PreemptMode.SUSPEND: SuspendingDispatcher}
                impossible = [mode for mode, of in ways.items() if not isinstance(ports.dispatcher, of)]
                precedence = OfPolicy(self._claims, by, impossible)
                delay_s = by.requeue_delay_s
            if precedence.displaced_by or delay_s:
                displacement = Displacement(self.state.queue, self.state.nodes, precedence)
                self.preemptor = Preemptor(displacement, delay_s)

    @property
    def outlived_at_s(self) -> float | None:
        outlived_s = self.state.releases.first_s()
        if self.preemptor is None:
            return outlived_s
        return min(inf if outlived_s is None else outlived_s, self.preemptor.next_s)

    def submit(self, job: Job) -> str | None:
        if self._admission is None:
            refusal = never_fits(job.id, job.n_tasks, self.state.n_nodes)
            if refusal is not None:
                return refusal
        else:
            # Without a request, as many cores as it has tasks, anywhere.
            request = job.request or Request(chunks=job.n_tasks, most_on_node=None)
            found = self._admission.admitted(request, job.estimate_s)
            if isinstance(found, str):
                return f"job {job.id} {found}"
            if self._claims is not None:
                claim = self._claims.of(Claimant.of(job), found, job.estimate_s)
                if isinstance(claim, str):
                    return f"job {job.id} never starts: {claim}"
                if (limit := self._claims.refusing(claim)) is not None:
                    return self._claims.refusal(job.id, limit)
            job = job._replace(request=found)
        self._wait(job)
        return None

    def copied(
        self, clock: Clock, running: Mapping[RunId, Running]
    ) -> tuple[RigidAllocation, dict[RunId, Running]]:
        """These nodes, and what waits for them, by another clock; and the runs that hold them, until they are
        expected to end. Runs that are suspended are left out. O(nodes + jobs)."""
        copy, runs = RigidAllocation(replace(self._ports, clock=clock), *self._policy), dict[RunId, Running]()
        copy._starvation = self._starvation
        if isinstance(copy.state, ConsumableNodes) and isinstance(self.state, ConsumableNodes):
            copy.state.resume(self.state)
        for run, there in running.items():
            if self.state.holds(run):
                start, began_s = self.state.start_of(run, there.machines)
                copy._wait(there.job)
                copy.start(run, there.job, start, began_s)
                runs[run] = there._replace(completion_s=start.completion_s)
        for node in self._unavailable:
            copy.set_available(node, False)
        again = () if self.preemptor is None else (job for _, job in self.preemptor.again.values())
        for job in (*self.waiting, *again):
            copy._wait(job)
        return copy, runs

    def withdraw(self, job: JobId) -> Job | None:
        self.promised.pop(job, None)
        if self.preemptor is not None and job in self.preemptor.again:
            withdrawn: Job = self.preemptor.again.pop(job)[1]
            return withdrawn
        return self.state.waiting.withdraw(job)

    def problem(
        self, now_s: float, running: Mapping[RunId, Running]
    ) -> FreeNodesProblem | ConsumableNodesProblem:
        self.state.set_in_order(now_s)
        return self._problem(now_s, self.state, running)

    @property
    def asks_again_s(self) -> float | None:
        if not len(self.waiting) or not isinstance(self.state, ConsumableNodes):
            return None
        exempt_s = inf if self.preemptor is None else self.preemptor.displacement.again_s
        next_s = min(self.state.changes_s(self._clock.now_s), exempt_s)
        return next_s if next_s < inf else None

    def nothing_fits(self) -> bool:
        """Whether no waiting job fits, now or by displacing others."""
        preemptor = self.preemptor
        return self.state.nothing_fits() and (preemptor is None or not preemptor.displacement.may_help())

    def set_available(self, node: int, is_available: bool) -> None:
        (self._unavailable.discard if is_available else self._unavailable.add)(node)
        self.state.set_available(node, is_available)
        if self.preemptor is not None:
            self.preemptor.displacement.has_changed(node)

    def reserve(self, reservation: ReservationMade) -> None:
        assert isinstance(self.state, ConsumableNodes), "identical nodes are not reserved"
        self.state.nodes.kinds.calendar.reserve(*reservation)

    def start(self, run: RunId, job: Job, start: Start, now_s: float) -> tuple[Share, ...]:
        shares = self.state.start(run, job.id, start, now_s)
        if self.preemptor is not None:
            self.preemptor.displacement.begin(self.state.slot_of(run), job.arrival_s, now_s)
        return shares

    def end(self, run: RunId, ended: RunEnded) -> None:
        job, began_s = self._end(run)
        if not ended.failed:
            self._run_times.learn(job, ended.run_time_s(began_s))
        self._starvation.forget(job)
        self.promised.pop(job.id, None)

    def release(self, run: RunId, now_s: float) -> None:
        if self.preemptor is not None and self.state.is_due(run, now_s):
            self.preemptor.end(run, now_s)
        self.state.release(run, now_s)

    def requeue(self, run: RunId) -> None:
        job = self.drop(run)
        if self.preemptor is None or not self.preemptor.delays(job.id, job, self._clock.now_s):
            self._wait(job)

    def take_back(self, run: RunId) -> None:
        self._wait(self.drop(run))

    def drop(self, run: RunId) -> Job:
        job, _ = self._end(run)
        return job

    def reestimate(self, now_s: float) -> None:
        while (overdue := self.state.overdue(now_s)) is not None:
            job, ran_s = overdue
            self.state.extend_estimate(self._run_times.outlived_s(job, ran_s), now_s)
        for again in self.preemptor.due(now_s) if self.preemptor is not None else ():
            self._wait(again)

    def note_stopped(self, run: RunId) -> None:
        if self.preemptor is not None and self.preemptor.displacement.is_stopping(run):
            self._starvation.note_displaced(self.state.job_of(run))

    def _rank_of(self, job: Job) -> int:
        return self._rank[self._starvation.queue_of(job)] if self._rank else 0

    def _wait(self, job: Job) -> None:
        estimate_s = max(self._run_times.estimate_s(job), SHORTEST_S)
        self.state.wait(job, job.request, estimate_s, self._rank_of(job))

    def _end(self, run: RunId) -> tuple[Job, float]:
        if self.preemptor is not None:
            self.preemptor.end(run, self._clock.now_s)
        return self.state.end(run, self._clock.now_s)


def free_nodes_manager(
    ports: OnFreeNodes,
    scheduler: FreeNodesScheduler,
    memoryless: bool = False,
    queues: Sequence[QueuePolicy] = (),
    preemption: PreemptionPolicy | None = None,
    admission: Admission | None = None,
    limits: Callable[[RigidAllocation], Submit] | None = None,
) -> NodeManager[FreeNodesProblem | ConsumableNodesProblem]:
    """The manager of the nodes that these ports describe.

    Nodes with cores, memory and GPUs may have several queues, between which runs may be preempted; all jobs
    are in one problem for the scheduler, in order of service. By default, jobs of other queues are refused;
    `admission` states further rules for the same queues. Without `queues` there is one, open to all. `limits`
    admits jobs with turnaround limits; without it, all are admitted.

    Raises UserError for queues on identical nodes and for a least gain, ValueError for queues that
    cannot be served.
    """
    preemption = preemption or PreemptionPolicy()
    if admission is None and queues:
        admission = Admission(queues)
    if queues and not ports.nodes:
        raise UserError(
            f"there are {len(queues)} queues for identical nodes, which have one without a policy; "
            f"state what each node has, or leave the queues out"
        )
    if ports.nodes and preemption.least_gain_s:
        raise UserError(
            f"preemption.least_gain_s is {preemption.least_gain_s:g} s, but on nodes no run is planned, so "
            f"that no gain is known; expected 0: leave it out"
        )
    allocation = RigidAllocation(ports, queues, preemption.raised_after)
    manager = NodeManager(ports, allocation, scheduler, memoryless, admission)
    if limits is not None:
        manager.submit = limits(allocation)
    return manager
