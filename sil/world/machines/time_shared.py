"""Nodes that are shared: by parallel tasks among themselves, and with local users."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from scheduler.model import DispatchOrder, JobId, RunId
from scheduler.rules import KNOWN_NODES
from sil.world.events import ControlDue, EventQueue, LocalChanged, RunEnded
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.sharing import Carried
from sil.world.time_shared_cluster import TimeSharedCluster

TOGETHER_S = 1e-9
"""Runs that end within so short a time of another end with it."""

MATTERS = 0.01
"""Where nodes are coupled, changes of a job's slowdown spread that are larger than this share of it,"""
MOST_TIMES = 20
"""and to each node at most so many times for one event."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a job really is: seconds of execution alone, the CPU share and the memory of a task."""

    exe_s: float
    cpu: float
    memory_mb: float


@dataclass(eq=False, slots=True)
class _Run:
    order: DispatchOrder
    work: Work
    number: int
    slower_on: dict[int, float] = field(default_factory=dict)
    heard_on: dict[int, float] = field(default_factory=dict)
    """In a coupled model: how slow its other nodes made it when the node last shared its CPU."""

    def slower_elsewhere(self, n: int) -> float:
        """Than alone, by its nodes other than n."""
        return max((slower for m, slower in self.slower_on.items() if m != n), default=0.0)

    done_s: float = 0.0
    since_s: float = 0.0
    rate: float = 0.0
    end_s: float = inf
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class LocalResponse:
    """How the local users of a node fared: what they demanded of its CPU by what they got, while active.

    `tight_share` of that time they got less than they demanded, since parallel tasks had what the contract
    guarantees.
    """

    node: int
    slowdown: float
    tight_share: float


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
        """Before something changes: what local users demanded and got since it last did."""
        took_s, self.accounted_s = now_s - self.accounted_s, now_s
        if self.local_cpu > 0.0:
            left = max(0.0, 1.0 - self.cpu_cost * sum(run.rate * run.work.cpu for run in self.runs))
            self.active_s += took_s
            self.demanded_s += took_s * self.local_cpu
            self.got_s += took_s * min(self.local_cpu, left)
            self.tight_s += took_s if left < self.local_cpu - 1e-9 else 0.0


class SharedMachines:
    """Tasks advance at rates that change only where something changes on one of their nodes.

    A job advances as fast as its slowest task. Rates are constant in between, so ends are exact. Where memory
    becomes short, the youngest job on the node stops on all its nodes, and goes on when it fits again, oldest
    first (the Cooperating Scheme), both `control_delay_s` after it is due. `note_stopped` is told of both.
    One event costs what its nodes carry; in a coupled model also what those carry to which it spreads, and
    what comes out depends, within 1 %, on the order of events. Source: CISNE-P, section 2.2.
    """

    def __init__(
        self,
        cluster: TimeSharedCluster,
        works: Mapping[JobId, Work],
        events: EventQueue,
        note_stopped: Callable[[DispatchOrder, bool], None] = lambda order, stopped: None,
    ) -> None:
        self._nodes = [_Node(mb) for mb in cluster.memory_mb]
        self._numbers = set(range(cluster.n_nodes))
        self._contract = cluster.contract
        self._sharing = cluster.sharing
        self._works = works
        self._events = events
        self._note_stopped = note_stopped
        self._control_delay_s = cluster.control_delay_s
        self._active: dict[RunId, _Run] = {}
        self._started = 0
        self._outages: dict[int | str, int] = {}
        self._ends: list[tuple[float, int, _Run]] = []

    @property
    def is_idle(self) -> bool:
        return not self._active

    def is_active(self, run: RunId) -> bool:
        return run in self._active

    def has_ended(self, run: RunId, now_s: float) -> bool:
        active = self._active.get(run)
        return active is not None and active.end_s <= now_s + TOGETHER_S

    def give_back(self, run: RunId, now_s: float) -> bool:
        """Machines are held until the end is told."""
        return False

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        return tuple(n for n in order.machines if self._outages.get(n))

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault for nodes that are not there, or not as many as the job has tasks. What nodes
        allow besides, the rules of a schedule have checked."""
        job, nodes = order.job, set(order.machines)
        if len(nodes) != len(order.machines) or len(nodes) != job.n_tasks or not nodes <= self._numbers:
            message = (
                f"job {job.id} was dispatched to nodes {sorted(nodes)}; it has {job.n_tasks} tasks, one for "
                f"each of the nodes 0 to {len(self._nodes) - 1}"
            )
            raise SchedulerFault(KNOWN_NODES, message, now_s, job.id)

    def start(self, order: DispatchOrder, now_s: float) -> None:
        run = _Run(order, self._works[order.job.id], self._started, since_s=now_s)
        self._started += 1
        self._active[order.run] = run
        for n in order.machines:
            self._nodes[n].runs.append(run)
        self._settle(order.machines, now_s)

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        over = self._active.pop(run)
        for n in over.order.machines:
            self._nodes[n].account(now_s)
            self._nodes[n].runs.remove(over)
        self._settle(over.order.machines, now_s)
        self._end_together(now_s)
        return over.order

    def change(self, subject: int | str, up: bool) -> bool:
        before = self._outages.get(subject, 0)
        self._outages[subject] = after = before + (-1 if up else 1)
        return (before == 0) != (after == 0)

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        return [run.order.run for run in self._nodes[subject].runs] if isinstance(subject, int) else []

    def local_changed(self, change: LocalChanged, now_s: float) -> None:
        node = self._nodes[change.node]
        node.account(now_s)
        node.local_cpu, node.local_memory_mb = change.cpu, change.memory_mb
        node.user_is_there = change.user_is_there
        self._settle((change.node,), now_s)

    def local_responses(self, now_s: float) -> list[LocalResponse]:
        """Of the nodes whose local users were ever active."""
        for node in self._nodes:
            node.account(now_s)
        return [
            LocalResponse(
                n,
                node.demanded_s / node.got_s if node.got_s > 0.0 else inf,
                node.tight_s / node.active_s,
            )
            for n, node in enumerate(self._nodes)
            if node.active_s > 0.0
        ]

    def used_s(self, run: RunId, now_s: float) -> float:
        """CPU time that a run has used, the mean of its tasks: what accounting would say; none where the
        order to start it found a node down."""
        active = self._active.get(run)
        if active is None:
            return 0.0
        return (active.done_s + (now_s - active.since_s) * active.rate) * active.work.cpu

    def rates_on(self, n: int) -> list[tuple[RunId, float, float]]:
        """(run, rate, CPU share alone) of the tasks on a node."""
        return [(run.order.run, run.rate, run.work.cpu) for run in self._nodes[n].runs]

    def control(self, n: int, now_s: float) -> None:
        """CCS looks at a node, late: whoever has to stop there stops, whoever may go on goes on."""
        self._set_rates(self._control((n,)), now_s)

    def _settle(self, changed: Sequence[int], now_s: float) -> None:
        """Whatever follows from a change on some nodes: who stops, who goes on, and how fast all are now."""
        touched = dict.fromkeys(changed)
        if self._control_delay_s == 0.0:
            touched |= self._control(changed)
        else:
            for n in changed:
                if self._too_much(n) or any(run.stopped for run in self._nodes[n].runs):
                    self._events.push(now_s + self._control_delay_s, ControlDue(n))
        self._set_rates(touched, now_s)

    def _control(self, nodes: Sequence[int]) -> dict[int, None]:
        """Stop and continue what these nodes demand; returns all nodes that this concerns."""
        touched = dict.fromkeys(nodes)
        for n in nodes:
            while (run := self._too_much(n)) is not None:
                run.stopped = True
                self._note_stopped(run.order, True)
                touched |= dict.fromkeys(run.order.machines)
        there = {run for n in touched for run in self._nodes[n].runs if run.stopped}
        for run in sorted(there, key=lambda run: run.number):
            if all(self._has_room(n, run) for n in run.order.machines):
                run.stopped = False
                self._note_stopped(run.order, False)
                touched |= dict.fromkeys(run.order.machines)
        return touched

    def _set_rates(self, nodes: Iterable[int], now_s: float) -> None:
        concerned: dict[_Run, None] = {}
        for n in self._spread(nodes) if self._sharing.coupled else nodes:
            concerned |= dict.fromkeys(self._share(n, now_s))
        for run in concerned:
            self._set_rate(run, now_s)

    def _spread(self, nodes: Iterable[int]) -> Iterator[int]:
        """These nodes, each to be shared before the next is asked for, and again those that hear that a job
        has become slower, or faster, elsewhere, by more than matters: it takes another share of their CPU."""
        left = dict.fromkeys(nodes)
        solved: Counter[int] = Counter()
        while left:
            n = next(iter(left))
            del left[n]
            solved[n] += 1
            for run in self._nodes[n].runs:
                run.heard_on[n] = run.slower_elsewhere(n)
            yield n
            for run in self._nodes[n].runs:
                for m in run.order.machines:
                    now, heard = run.slower_elsewhere(m), run.heard_on.get(m, 0.0)
                    if m != n and solved[m] < MOST_TIMES and abs(now - heard) > MATTERS * now:
                        left[m] = None

    def _too_much(self, n: int) -> _Run | None:
        """The youngest job on a node whose memory is short."""
        active = [run for run in self._nodes[n].runs if not run.stopped]
        if sum(run.work.memory_mb for run in active) <= self._room_mb(n) + 1e-9:
            return None
        return max(active, key=lambda run: run.number)

    def _has_room(self, n: int, run: _Run) -> bool:
        active_mb = sum(other.work.memory_mb for other in self._nodes[n].runs if not other.stopped)
        return active_mb + run.work.memory_mb <= self._room_mb(n) + 1e-9

    def _room_mb(self, n: int) -> float:
        node = self._nodes[n]
        return self._contract.memory_mb(node.memory_mb, node.local_memory_mb, node.user_is_there)

    def _share(self, n: int, now_s: float) -> list[_Run]:
        """Find the slowdowns on a node; returns its runs."""
        node = self._nodes[n]
        node.account(now_s)
        active = [run for run in node.runs if not run.stopped]
        node.cpu_cost = self._sharing.cpu_cost(len(active)) if active else 1.0
        if active:
            available = max(self._contract.share, 1.0 - node.local_cpu)
            carried = Carried(
                [run.work.cpu for run in active],
                available,
                int(node.local_cpu > 0.0),
                node.local_cpu,
                [run.heard_on.get(n, 0.0) for run in active],
            )
            found = self._sharing.slowdowns(carried)
            for run, slower in zip(active, found, strict=True):
                run.slower_on[n] = slower
        return node.runs

    def _set_rate(self, run: _Run, now_s: float) -> None:
        rate = 0.0 if run.stopped else 1.0 / max(run.slower_on[n] for n in run.order.machines)
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
            self._events.push(run.end_s, RunEnded(run.order.run))

    def _end_together(self, now_s: float) -> None:
        """Whoever ends in the same breath ends at the same instant, before the scheduler is asked."""
        while self._ends and self._ends[0][0] <= now_s + TOGETHER_S:
            end_s, _, run = heapq.heappop(self._ends)
            if run.order.run in self._active and run.end_s == end_s:
                self._events.push(now_s, RunEnded(run.order.run))
