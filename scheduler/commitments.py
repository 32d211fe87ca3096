"""What has been decided and is not over: planned and running runs, on the timelines of their machines."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.model import Job, RunId

QueueNames = frozenset[str]


@dataclass(slots=True, eq=False)
class Run:
    """One attempt at a job, from the decision to its end. Times are beliefs."""

    id: RunId
    job: Job
    queue: str
    resource: int
    machines: tuple[int, ...]
    start_s: float
    completion_s: float
    started: bool = False
    ending: bool = False
    """A preemption order is out; the notice has not come yet."""

    @property
    def place_in_line(self) -> tuple[float, int]:
        return (self.start_s, self.id)


class Commitments:
    """Runs per machine in order of start, and from them the time at which each machine becomes ready.

    Ready times are kept as arrays, one per set of queues that somebody looks past (`views`), and change only
    on the machines that a run uses: nothing here costs in proportion to the size of the site.
    """

    def __init__(self, n_machines: int, views: Iterable[QueueNames]) -> None:
        self._timelines: list[list[Run]] = [[] for _ in range(n_machines)]
        self._ready_s = {ignored: np.zeros(n_machines) for ignored in {frozenset[str](), *views}}
        self._late: list[tuple[float, int, Run]] = []
        self._deviated: set[int] = set()

    def ready_s(self, ignoring: QueueNames = frozenset()) -> NDArray[np.float64]:
        """Believed end of the last run on each machine (m,), as if the queues `ignoring` had none."""
        return self._ready_s[ignoring]

    def ready_s_without(self, machine: int, victims: frozenset[RunId], ignoring: QueueNames) -> float:
        """Believed end of the last run on `machine` if the runs `victims` were not there either."""
        return max(
            (
                run.completion_s
                for run in self._timelines[machine]
                if run.id not in victims and run.queue not in ignoring
            ),
            default=0.0,
        )

    def on(self, machine: int) -> tuple[Run, ...]:
        """The runs of one machine, first to last."""
        return tuple(self._timelines[machine])

    def add(self, run: Run) -> None:
        for j in run.machines:
            insort(self._timelines[j], run, key=lambda other: other.place_in_line)
            for ignored, ready_s in self._ready_s.items():
                if run.queue not in ignored:
                    ready_s[j] = max(ready_s[j], run.completion_s)

    def remove(self, run: Run) -> None:
        for j in run.machines:
            self._timelines[j].remove(run)
            if any(ready_s[j] <= run.completion_s for ready_s in self._ready_s.values()):
                self._refresh(j)

    def start(self, run: Run, now_s: float) -> None:
        """`run` starts now; where that is not the planned time, those behind it move."""
        run.started = True
        if run.start_s != now_s:
            self._move(run, now_s)
            self._deviated.update(run.machines)
        heapq.heappush(self._late, (run.completion_s, run.id, run))

    def end(self, run: Run, now_s: float) -> None:
        """`run` ended now; where that is not the planned time, those behind it move."""
        if run.completion_s != now_s:
            self._deviated.update(run.machines)
        self.remove(run)

    def cut(self, run: Run, now_s: float) -> None:
        """`run` is going to end now, though its machines are not told yet."""
        run.ending = True
        run.completion_s = now_s
        for j in run.machines:
            self._refresh(j)

    def first_on(self, machine: int) -> Run | None:
        """The run that is, or is to be, first on `machine`."""
        timeline = self._timelines[machine]
        return timeline[0] if timeline else None

    def is_first_everywhere(self, run: Run) -> bool:
        return all(self._timelines[j][0] is run for j in run.machines)

    def overlapping(self, run: Run, queues: QueueNames) -> list[Run]:
        """Runs of `queues` that hold a machine of `run` during it, in order of start."""
        found = {
            other.id: other
            for j in run.machines
            for other in self._timelines[j]
            if other.queue in queues
            and not other.ending
            and other.start_s < run.completion_s
            and other.completion_s > run.start_s
        }
        return sorted(found.values(), key=lambda other: other.place_in_line)

    def replan(self, now_s: float) -> None:
        """Move the planned runs on machines where beliefs proved wrong since the last call.

        A run that outlived its estimate is believed to end now; runs behind it are planned after that, runs
        behind one that ended early move up. Costs in proportion to the runs that move.
        """
        while self._late and self._late[0][0] < now_s:
            _, _, run = heapq.heappop(self._late)
            if run.started and not run.ending and self._timelines[run.machines[0]][:1] == [run]:
                run.completion_s = now_s
                heapq.heappush(self._late, (now_s, run.id, run))
                self._deviated.update(run.machines)
        pending = [run for j in self._deviated for run in self._timelines[j] if not run.started]
        line = [(*run.place_in_line, run) for run in {run.id: run for run in pending}.values()]
        heapq.heapify(line)
        seen: set[RunId] = {run.id for *_, run in line}
        touched = set(self._deviated)
        while line:
            *_, run = heapq.heappop(line)
            start_s = max(now_s, *(self._free_before(run, j) for j in run.machines))
            if start_s == run.start_s:
                continue
            self._move(run, start_s)
            touched.update(run.machines)
            for j in run.machines:
                for other in self._timelines[j]:
                    if not other.started and other.id not in seen and other.place_in_line > run.place_in_line:
                        seen.add(other.id)
                        heapq.heappush(line, (*other.place_in_line, other))
        for j in touched:
            self._refresh(j)
        self._deviated.clear()

    def _free_before(self, run: Run, machine: int) -> float:
        timeline = self._timelines[machine]
        place = next(k for k, other in enumerate(timeline) if other is run)
        return timeline[place - 1].completion_s if place else 0.0

    def _move(self, run: Run, start_s: float) -> None:
        duration_s = run.completion_s - run.start_s
        run.start_s, run.completion_s = start_s, start_s + duration_s
        for j in run.machines:
            self._refresh(j)

    def _refresh(self, machine: int) -> None:
        """Ready times of one machine from its timeline."""
        timeline = self._timelines[machine]
        for ignored, ready_s in self._ready_s.items():
            ready_s[machine] = max((r.completion_s for r in timeline if r.queue not in ignored), default=0.0)
