"""Time-shared nodes in plain Python, written anew from the description of the schedulers: at each event,
everything is looked at again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

TICK = 10_000_000
WEIGHT_0 = 1024


class Tie(Exception):
    """Two events on a node are simultaneous: their order, which nothing prescribes, would decide."""


@dataclass(eq=False)
class Task:
    node: int
    job: int
    rank: int
    bursts: list[int]
    flights: list[int]
    size: int
    left: int = 0
    debt: int = 0
    step: int = 0
    waits: bool = False
    done: bool = False
    counter: int = 6 * TICK
    virtual: float = 0.0
    since: int = 0
    got: dict[int, int] = field(default_factory=dict)

    def dimension(self) -> int:
        return self.step % max(1, self.size.bit_length() - 1)

    def has_message(self) -> bool:
        return self.got.get(self.dimension(), 0) > self.step // max(1, self.size.bit_length() - 1)

    @property
    def ready(self) -> bool:
        return not self.done and (not self.waits or self.has_message())


def shares(total: int, parts: int) -> list[int]:
    return [total // parts + (1 if k < total % parts else 0) for k in range(parts)]


class ReferenceNodes:
    """Jobs (steps, computes, communicates, nodes) that start together; processes block to receive."""

    def __init__(
        self, n_nodes: int, jobs: Sequence[tuple[int, int, int, Sequence[int]]], fair: bool, cost: int
    ):
        self.now, self.fair, self.cost, self.entered = 0, fair, cost, 0
        self.tasks = [
            Task(node, j, rank, shares(computes, steps), shares(communicates, steps), len(nodes))
            for j, (steps, computes, communicates, nodes) in enumerate(jobs)
            for rank, node in enumerate(nodes)
        ]
        self.running: list[Task | None] = [None] * n_nodes
        self.last: list[Task | None] = [None] * n_nodes
        self.ran, self.least = [0] * n_nodes, [0.0] * n_nodes
        self.flying: list[tuple[int, int, Task, int]] = []
        self.sent = 0
        for task in self.tasks:
            task.left = task.bursts[0]
        for j in range(len(jobs)):  # a job's processes are there before any of them is ready
            for task in self.tasks:
                if task.job == j:
                    task.since = -1
            for task in self.tasks:
                if task.job == j:
                    task.since = 0
                    self.becomes_ready(task, [other for other in self.tasks if other.job <= j])

    def ends(self) -> list[int]:
        """When the jobs end."""
        ended: dict[int, int] = {}
        while not all(task.done for task in self.tasks):
            self.step_on()
            for task in self.tasks:
                if task.done:
                    ended.setdefault(id(task), self.now)
        return [
            max(ended[id(task)] for task in self.tasks if task.job == j)
            for j in range(1 + max(task.job for task in self.tasks))
        ]

    def step_on(self) -> None:
        """Go to the next moment at which something happens, and let it happen."""
        due = [
            (self.now + max(0, min(t.debt + t.left, self.quantum(n))), n)
            for n, t in enumerate(self.running)
            if t
        ]
        due += [(arrives, task.node) for arrives, _, task, _ in self.flying]
        then = min((time for time, _ in due), default=inf)
        at_once = [n for time, n in due if time == then]
        if len(at_once) > len(set(at_once)):
            raise Tie
        for n, task in enumerate(self.running):
            if task is not None:
                self.use(n, task, int(then) - self.now)
        self.now = int(then)
        for message in sorted(m for m in self.flying if m[0] == self.now):
            self.flying.remove(message)
            _, _, task, dimension = message
            was_ready = task.ready
            task.got[dimension] = task.got.get(dimension, 0) + 1
            if task.ready and not was_ready:
                task.left = 0
                self.becomes_ready(task, self.tasks)
        for n, task in enumerate(self.running):
            if task is None:
                continue
            if task.debt == 0 and task.left == 0:
                self.finish_burst(task)
            if not task.ready or self.quantum(n) <= 0:
                self.choose(n, self.tasks)

    def use(self, n: int, task: Task, elapsed: int) -> None:
        self.ran[n] += elapsed
        task.counter = max(0, task.counter - elapsed)
        task.virtual += elapsed
        paid = min(task.debt, elapsed)
        task.debt -= paid
        task.left -= elapsed - paid

    def finish_burst(self, task: Task) -> None:
        if not task.waits:
            partner_rank = task.rank ^ (1 << task.dimension()) if task.size > 1 else 0
            partner = next(t for t in self.tasks if t.job == task.job and t.rank == partner_rank)
            self.sent += 1
            self.flying.append((self.now + task.flights[task.step], self.sent, partner, task.dimension()))
            task.waits = True
        if task.has_message():
            self.take(task)

    def take(self, task: Task) -> None:
        task.step, task.waits = task.step + 1, False
        if task.step == len(task.bursts):
            task.done = True
        else:
            task.left = task.bursts[task.step]

    def on(self, n: int, known: Sequence[Task]) -> list[Task]:
        return [task for task in known if task.node == n and task.ready]

    def quantum(self, n: int) -> int:
        task = self.running[n]
        assert task is not None
        if not self.fair:
            return task.counter
        k = len([t for t in self.tasks if t.node == n and t.ready and t.since > 0])
        period = k * 750_000 if k > 8 else 6_000_000
        return max(750_000, int(period * WEIGHT_0 / (k * WEIGHT_0))) - self.ran[n]

    def goodness(self, task: Task) -> int:
        return 0 if task.counter == 0 else -(-task.counter // TICK) + 20

    def becomes_ready(self, task: Task, known: Sequence[Task]) -> None:
        n, self.entered = task.node, self.entered + 1
        task.since = self.entered
        current = self.running[n]
        if self.fair:
            there = [t.virtual for t in self.on(n, known) if t is not task]
            self.least[n] = max([self.least[n], *([min(there)] if there else [])])
            task.virtual = max(task.virtual, self.least[n] - 3_000_000)
            preempts = current is not None and current.virtual - task.virtual > 1_000_000
        else:
            preempts = current is not None and self.goodness(task) > self.goodness(current)
        if current is None or preempts:
            self.choose(n, known)

    def choose(self, n: int, known: Sequence[Task]) -> None:
        ready, current = self.on(n, known), self.running[n]
        if self.fair and ready:
            self.least[n] = max(self.least[n], min(task.virtual for task in ready))
        if not self.fair and ready and not any(task.counter for task in ready):
            for task in known:
                if task.node == n and not task.done:
                    task.counter = task.counter // 2 + 6 * TICK
        best = max(
            ready,
            key=lambda t: (-t.virtual if self.fair else self.goodness(t), t is current, t.since),
            default=None,
        )
        if best is not current or (best is not None and self.quantum(n) <= 0):
            self.ran[n] = 0
        self.running[n] = best
        if best is not None:
            last = self.last[n]
            if last is not None and last is not best and not last.done:
                best.debt = self.cost
            self.last[n] = best
            if best.waits and best.step + 1 < len(best.bursts):
                self.take(best)
