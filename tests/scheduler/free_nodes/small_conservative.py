"""An independent small version of conservative backfilling on consumable nodes: it looks at every second."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

from tests.scheduler.free_nodes.small_consumable import Run, SmallJob, SmallNode, place

Held = list[tuple[int, list[int]]]
Use = tuple[int, int, SmallJob, Held]
"""From one second until another, a job has chunks on nodes."""


def hold(nodes: list[SmallNode], job: SmallJob, held: Held) -> None:
    """Subtract what a job has."""
    nodes[0].licences -= job.licences
    for n, gpus in held:
        node = nodes[n]
        node.jobs += 1
        node.cores -= job.cores
        node.memory -= job.memory
        for d in gpus:
            node.gpus[d] = node.gpus[d][0], node.gpus[d][1] - job.share
        if job.exclusive:
            node.cores, node.memory, node.gpus = 0, 0, [(kind, 0) for kind, _ in node.gpus]


def throughout(empty: list[SmallNode], uses: list[Use], start: int, end: int) -> list[SmallNode]:
    """What is free on each node in every second."""
    least = deepcopy(empty)
    for second in range(start, end):
        then = deepcopy(empty)
        for begins, ends, job, held in uses:
            if begins <= second < ends:
                hold(then, job, held)
        for a, b in zip(least, then, strict=True):
            a.cores, a.memory, a.jobs = min(a.cores, b.cores), min(a.memory, b.memory), max(a.jobs, b.jobs)
            a.licences = min(a.licences, b.licences)
            a.gpus = [(kind, min(x, y)) for (kind, x), (_, y) in zip(a.gpus, b.gpus, strict=True)]
    return least


def is_free(nodes: list[SmallNode], job: SmallJob, held: Held) -> bool:
    if job.exclusive:
        return job.licences <= nodes[0].licences and all(nodes[n].jobs == 0 for n, _ in held)
    hold(nodes, job, held)
    return all(
        min(node.cores, node.memory, node.licences, *(left for _, left in node.gpus)) >= 0 for node in nodes
    )


@dataclass
class SmallReservations:
    empty: list[SmallNode]
    of_job: dict[int, tuple[int, Held]] = field(default_factory=dict)
    """By identity: the second of its start, and where."""

    def one_round(
        self, nodes: list[SmallNode], running: list[Run], queue: list[SmallJob], now_s: float
    ) -> list[int]:
        now = int(now_s)
        uses: list[Use] = [(now, int(end_s), job, job.held) for end_s, job in running]
        kept = sorted((self.of_job[id(job)][0], i) for i, job in enumerate(queue) if id(job) in self.of_job)
        for start, i in kept:
            self._reserve(queue[i], max(start, now), uses, self.of_job[id(queue[i])][1])
        for job in queue:
            own = next((use for use in uses if use[2] is job), None)
            if own is None:
                self._reserve(job, now, uses)
            elif own[0] > now:
                uses.remove(own)
                self._reserve(job, now, uses, own[3], before=own[0])
        started = [i for i, job in enumerate(queue) if self.of_job[id(job)][0] == now]
        for i in started:
            queue[i].held = self.of_job.pop(id(queue[i]))[1]
            hold(nodes, queue[i], queue[i].held)
        return started

    def _reserve(
        self, job: SmallJob, start: int, uses: list[Use], held: Held | None = None, before: int | None = None
    ) -> None:
        """From the first possible second on: at its present place if that is free and none is earlier."""
        length = int(job.estimate_s)
        stays = held is not None and before is None
        if stays and is_free(throughout(self.empty, uses, start, start + length), job, held or []):
            before = start
        while start != before:
            trial = deepcopy(job)
            if place(throughout(self.empty, uses, start, start + length), trial):
                held = trial.held
                break
            start += 1
        assert held is not None
        self._note(job, start, held, uses)

    def _note(self, job: SmallJob, start: int, held: Held, uses: list[Use]) -> None:
        self.of_job[id(job)] = start, held
        uses.append((start, start + int(job.estimate_s), job, held))
