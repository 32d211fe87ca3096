"""One pass over the queue in plain words, which the compiled one is held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import Start
from scheduler.node_set import NodeSet


class Waiting(NamedTuple):
    """Job `i` of the problem."""

    i: int
    size: int
    estimate_s: float
    deadline_s: float = inf


@dataclass
class ReferencePass:
    """FCFS, SJF, or by deadline or laxity, then no backfilling, or EASY, or EASY with shortest job backfilled
    first (SJBF)."""

    now_s: float
    free: list[int]
    releases: list[tuple[float, int]]
    """When runs are expected to end, and how many nodes they hold."""
    queue: list[Waiting]
    started: list[Start] = field(default_factory=list)

    @classmethod
    def of(cls, problem: FreeNodesProblem) -> ReferencePass:
        view, jobs = problem.free_nodes, enumerate(problem.jobs)
        return cls(
            problem.now_s,
            [n for first, last in view.free.intervals for n in range(first, last + 1)],
            list(zip(view.releases.ends_s.tolist(), view.releases.sizes.tolist(), strict=True)),
            [Waiting(i, job.n_tasks, view.waiting.estimate_s(job.id), job.deadline_s) for i, job in jobs],
        )

    def decide(self, ordering: str, backfilling: str) -> list[Start]:
        """Who starts now, in this order, on which nodes, and until when."""
        laxities = {job: job.deadline_s - self.now_s - job.estimate_s for job in self.queue}
        keys = {"fcfs": lambda job: 0, "sjf": shortest_first, "edf": lambda job: job.deadline_s}
        in_order = sorted(self.queue, key={**keys, "least_laxity": laxities.get}[ordering])
        while in_order and self.fits(in_order[0]):
            self.start(in_order[0])
            in_order = in_order[1:]
        if in_order and backfilling != "none":
            first, others = in_order[0], in_order[1:]
            if ordering == "sjf":
                others = [job for job in self.queue if job in others]
            self.backfill(first, sorted(others, key=shortest_first) if backfilling == "easy_sjbf" else others)
        return self.started

    def backfill(self, first: Waiting, others: list[Waiting]) -> None:
        """Start those of `others` that do not delay `first`, which does not fit."""
        shadow_s, spare = self.reservation(first)
        for job in others:
            ends_by_then = self.now_s + job.estimate_s <= shadow_s
            if self.fits(job) and (ends_by_then or job.size <= spare):
                self.start(job)
                if not ends_by_then:
                    spare -= job.size

    def reservation(self, first: Waiting) -> tuple[float, float]:
        """The earliest moment at which enough nodes are free, and how many of them are spare then."""
        for then_s in sorted({max(end_s, self.now_s) for end_s, _ in self.releases}):
            free_then = len(self.free) + sum(size for end_s, size in self.releases if end_s <= then_s)
            if free_then >= first.size:
                return then_s, free_then - first.size
        return inf, 0

    def fits(self, job: Waiting) -> bool:
        return job.size <= len(self.free)

    def start(self, job: Waiting) -> None:
        """On the free nodes of the lowest numbers."""
        end_s = self.now_s + job.estimate_s
        self.started.append(Start(job.i, NodeSet.of(self.free[: job.size]), end_s))
        self.free = self.free[job.size :]
        self.releases.append((end_s, job.size))


def shortest_first(job: Waiting) -> tuple[float, int]:
    """Ties go to the earlier arrival."""
    return job.estimate_s, job.i
