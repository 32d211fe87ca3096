"""Time-shared nodes: parallel tasks share them among themselves and with local users."""

from __future__ import annotations

import heapq
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from scheduler.model import DispatchOrder, JobId, RunId
from scheduler.rules import KNOWN_NODES
from scheduler.time_shared.social_contract import sum_in_order
from sil.world.events import ControlDue, EndDue, EventQueue, LocalChanged
from sil.world.failures import Hindrances
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import ExecutionModel
from sil.world.time_shared_cluster import NodeLoad, TimeSharedCluster

TOGETHER_S = 1e-9
"""Runs that end within this time of one another end together."""
EPSILON = 1e-9

MIN_CHANGE = 0.01
"""The least relative change of a job's slowdown that spreads to its other nodes in a coupled model."""
MAX_VISITS = 20
"""The most visits to a node for one event."""


@dataclass(frozen=True, slots=True)
class Work:
    """A job's actual requirement: execution time in isolation, CPU share and memory of each task."""

    exe_s: float
    cpu: float
    memory_mb: float


@dataclass(eq=False, slots=True)
class _Run:
    order: DispatchOrder
    work: Work
    number: int
    slowdown_on: dict[int, float] = field(default_factory=dict)
    seen_on: dict[int, float] = field(default_factory=dict)
    """In a coupled model: its slowdown on other nodes when a node last shared its CPU."""
    done_s: float = 0.0
    since_s: float = 0.0
    rate: float = 0.0
    end_s: float = inf
    stopped: bool = False

    def slowdown_elsewhere(self, n: int) -> float:
        """The slowdown on its nodes other than n."""
        return max((slowdown for m, slowdown in self.slowdown_on.items() if m != n), default=0.0)


@dataclass(frozen=True, slots=True)
class LocalResponse:
    """The slowdown of a node's local users while active: CPU time demanded by CPU time received.

    For `tight_share` of that time they received less than they demanded, because of the share that the social
    contract guarantees to parallel tasks. In detail, the slowdown is that of the response times of
    interactions, and there is no such share.
    """

    node: int
    slowdown: float
    tight_share: float | None
    mean_s: float | None = None
    p95_s: float | None = None
    late_share: float | None = None
    """Of the response times of interactions, on nodes in detail: their mean, the value that 95 % do not
    exceed, and the share of those that miss their deadline."""


class Periods(NamedTuple):
    """The periods of the tasks of a run: how many, how many were missed, and the tardiness in seconds."""

    run: RunId
    job: JobId
    periods: int
    missed: int
    mean_tardiness_s: float
    max_tardiness_s: float

    @classmethod
    def of(cls, order: DispatchOrder, late: Sequence[int]) -> Periods:
        """By how many nanoseconds the end of each period was missed."""
        tardiness_s = 1e-9 * sum(late) / len(late), 1e-9 * max(late)
        return cls(order.run, order.job.id, len(late), sum(each > 0 for each in late), *tardiness_s)


@dataclass(slots=True)
class _Node:
    memory_mb: float
    runs: list[_Run] = field(default_factory=list)
    local_cpu: float = 0.0
    local_memory_mb: float = 0.0
    user_is_there: bool = False
    accounted_s: float = 0.0
    demanded_s: float = 0.0
    got_s: float = 0.0
    tight_s: float = 0.0
    active_s: float = 0.0
    cpu_cost: float = 1.0

    def account(self, now_s: float) -> None:
        """Called before a change: account for local users since the last call."""
        elapsed_s, self.accounted_s = now_s - self.accounted_s, now_s
        if self.local_cpu > 0.0:
            left = max(0.0, 1.0 - self.cpu_cost * sum_in_order(run.rate * run.work.cpu for run in self.runs))
            self.active_s += elapsed_s
            self.demanded_s += elapsed_s * self.local_cpu
            self.got_s += elapsed_s * min(self.local_cpu, left)
            self.tight_s += elapsed_s if left < self.local_cpu - EPSILON else 0.0

    def active(self) -> list[_Run]:
        return [run for run in self.runs if not run.stopped]


class TimeSharedMachines(ExecutionModel):
    """Nodes that tasks share, in either model."""

    def __init__(self, cluster: TimeSharedCluster, hindrances: Hindrances | None = None) -> None:
        super().__init__(hindrances)
        self._numbers = set(range(cluster.n_nodes))

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raise SchedulerFault for nodes that do not exist, or another number than the job has tasks. The
        rules of a schedule have checked the social contract."""
        job, nodes = order.job, set(order.machines)
        if len(nodes) != len(order.machines) or len(nodes) != job.n_tasks or not nodes <= self._numbers:
            message = (
                f"job {job.id} was dispatched to nodes {sorted(nodes)}; it has {job.n_tasks} tasks, one for "
                f"each of the nodes 0 to {len(self._numbers) - 1}"
            )
            raise SchedulerFault(KNOWN_NODES, message, now_s, job.id)

    periods: Sequence[Periods] = ()
    """Of periodic runs that are over, in a model that has them."""

    @abstractmethod
    def local_changed(self, change: LocalChanged, now_s: float) -> None: ...

    @abstractmethod
    def local_responses(self, now_s: float) -> list[LocalResponse]:
        """The responses of nodes whose local users have been active."""

    @abstractmethod
    def used_s(self, run: RunId, now_s: float) -> float:
        """CPU time that a run has used, the mean of its tasks; 0 if the order found a node down."""

    def control(self, n: int, now_s: float) -> None:
        """The coscheduler of a node stops and continues jobs, if it does so with a delay."""

    def advance(self, now_s: float) -> None:
        """Nodes run on, in a model that has its own events."""


class SharedMachines(TimeSharedMachines):
    """Tasks advance at rates that change only with events on one of their nodes.

    A job advances as fast as its slowest task. Rates are constant in between, so completions are exact.
    Where memory runs short, the youngest job on the node stops on all its nodes, and continues when it fits
    again, oldest first (the Cooperating Scheme), both after `control_delay_s`; `note_stopped` gets the order
    and whether it stops. The cost of an event is that of its nodes; in a coupled model also of those to which
    the change spreads, and results depend, within 1 %, on the order of events. Source: CISNE-P, section 2.2.
    """

    def __init__(
        self,
        cluster: TimeSharedCluster,
        works: Mapping[JobId, Work],
        events: EventQueue,
        note_stopped: Callable[[DispatchOrder, bool], None] = lambda order, stopped: None,
        hindrances: Hindrances | None = None,
    ) -> None:
        super().__init__(cluster, hindrances)
        self._nodes = [_Node(mb) for mb in cluster.memory_mb]
        self._contract = cluster.contract
        self._sharing = cluster.sharing
        self._works = works
        self._events = events
        self._note_stopped = note_stopped
        self._control_delay_s = cluster.control_delay_s
        self._active: dict[RunId, _Run] = {}
        self._started = 0
        self._ends: list[tuple[float, int, _Run]] = []

    def has_ended(self, run: RunId, now_s: float) -> bool:
        active = self._active.get(run)
        return active is not None and active.end_s <= now_s + TOGETHER_S

    def start(self, order: DispatchOrder, now_s: float) -> None:
        work = self._works[order.job.id]
        work = replace(work, exe_s=self._hindered_s(order, work.exe_s, now_s))
        run = _Run(order, work, self._started, since_s=now_s)
        self._started += 1
        self._active[order.run] = run
        for n in order.machines:
            self._nodes[n].runs.append(run)
        self._update(order.machines, now_s)

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        over = self._active.pop(run)
        for n in over.order.machines:
            self._nodes[n].account(now_s)
            self._nodes[n].runs.remove(over)
        self._update(over.order.machines, now_s)
        self._end_together(now_s)
        return over.order

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        return [run.order.run for run in self._nodes[subject].runs] if isinstance(subject, int) else []

    def local_changed(self, change: LocalChanged, now_s: float) -> None:
        node = self._nodes[change.node]
        node.account(now_s)
        node.local_cpu, node.local_memory_mb = change.cpu, change.memory_mb
        node.user_is_there = change.user_is_there
        self._update((change.node,), now_s)

    def local_responses(self, now_s: float) -> list[LocalResponse]:
        for node in self._nodes:
            node.account(now_s)
        return [
            LocalResponse(
                n, node.demanded_s / node.got_s if node.got_s else inf, node.tight_s / node.active_s
            )
            for n, node in enumerate(self._nodes)
            if node.active_s > 0.0
        ]

    def used_s(self, run: RunId, now_s: float) -> float:
        active = self._active.get(run)
        if active is None:
            return 0.0
        return (active.done_s + (now_s - active.since_s) * active.rate) * active.work.cpu

    def control(self, n: int, now_s: float) -> None:
        self._set_rates(self._control((n,)), now_s)

    def _update(self, changed: Sequence[int], now_s: float) -> None:
        """After a change on some nodes: stop and continue jobs, and compute the new rates."""
        touched = dict.fromkeys(changed)
        if self._control_delay_s == 0.0:
            touched |= self._control(changed)
        else:
            for n in changed:
                if self._to_be_stopped(n) or any(run.stopped for run in self._nodes[n].runs):
                    self._events.push(now_s + self._control_delay_s, ControlDue(n))
        self._set_rates(touched, now_s)

    def _control(self, nodes: Sequence[int]) -> dict[int, None]:
        """Stop and continue jobs as memory on these nodes requires; returns all nodes affected."""
        touched = dict.fromkeys(nodes)
        for n in nodes:
            while (run := self._to_be_stopped(n)) is not None:
                run.stopped = True
                self._note_stopped(run.order, True)
                touched |= dict.fromkeys(run.order.machines)
        stopped = {run for n in touched for run in self._nodes[n].runs if run.stopped}
        for run in sorted(stopped, key=lambda run: run.number):
            if all(self._fits(n, self._nodes[n].active(), run) for n in run.order.machines):
                run.stopped = False
                self._note_stopped(run.order, False)
                touched |= dict.fromkeys(run.order.machines)
        return touched

    def _to_be_stopped(self, n: int) -> _Run | None:
        """The youngest job on a node whose memory is short."""
        active = self._nodes[n].active()
        return None if self._fits(n, active) else max(active, key=lambda run: run.number)

    def _fits(self, n: int, active: Sequence[_Run], more: _Run | None = None) -> bool:
        node = self._nodes[n]
        used_mb = sum_in_order(run.work.memory_mb for run in active) + (more.work.memory_mb if more else 0.0)
        room_mb = self._contract.memory_mb(node.memory_mb, node.local_memory_mb, node.user_is_there)
        return used_mb <= room_mb + EPSILON

    def _set_rates(self, nodes: Iterable[int], now_s: float) -> None:
        affected: dict[_Run, None] = {}
        for n in self._spread(nodes) if self._sharing.coupled else nodes:
            affected |= dict.fromkeys(self._share(n, now_s))
        for run in affected:
            self._set_rate(run, now_s)

    def _spread(self, nodes: Iterable[int]) -> Iterator[int]:
        """In a coupled model, the nodes to share, each before the next is yielded: these, and again those
        whose jobs have meanwhile changed their slowdown on other nodes by more than `MIN_CHANGE`."""
        pending = dict.fromkeys(nodes)
        visits: Counter[int] = Counter()
        while pending:
            n = next(iter(pending))
            del pending[n]
            visits[n] += 1
            for run in self._nodes[n].runs:
                run.seen_on[n] = run.slowdown_elsewhere(n)
            yield n
            for run in self._nodes[n].runs:
                for m in run.order.machines:
                    now, seen = run.slowdown_elsewhere(m), run.seen_on.get(m, 0.0)
                    if m != n and visits[m] < MAX_VISITS and abs(now - seen) > MIN_CHANGE * now:
                        pending[m] = None

    def _share(self, n: int, now_s: float) -> list[_Run]:
        node = self._nodes[n]
        node.account(now_s)
        active = node.active()
        node.cpu_cost = self._sharing.cpu_cost(len(active)) if active else 1.0
        if active:
            load = NodeLoad(
                [run.work.cpu for run in active],
                max(self._contract.share, 1.0 - node.local_cpu),
                int(node.local_cpu > 0.0),
                node.local_cpu,
                [run.seen_on.get(n, 0.0) for run in active],
            )
            for run, slowdown in zip(active, self._sharing.slowdowns(load), strict=True):
                run.slowdown_on[n] = slowdown
        return node.runs

    def _set_rate(self, run: _Run, now_s: float) -> None:
        rate = 0.0 if run.stopped else 1.0 / max(run.slowdown_on[n] for n in run.order.machines)
        if rate == run.rate:
            return
        for n in run.order.machines:
            self._nodes[n].account(now_s)
        run.done_s += (now_s - run.since_s) * run.rate
        run.since_s, run.rate = now_s, rate
        left_s = max(0.0, run.work.exe_s - run.done_s)
        run.end_s = now_s + left_s / rate if rate > 0.0 else inf
        if run.end_s < inf:
            heapq.heappush(self._ends, (run.end_s, run.number, run))
            self._events.push(run.end_s, EndDue(run.order.run))

    def _end_together(self, now_s: float) -> None:
        while self._ends and self._ends[0][0] <= now_s + TOGETHER_S:
            end_s, _, run = heapq.heappop(self._ends)
            if run.order.run in self._active and run.end_s == end_s:
                self._events.push(now_s, EndDue(run.order.run))
