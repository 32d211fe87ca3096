"""Planned and running runs on the timelines of their machines, and what displacement costs their jobs."""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.managers.availability import Availability
from scheduler.managers.queues import QueueNames
from scheduler.mapping.etc import ReadyTimes
from scheduler.model import Job, RunId
from scheduler.resource_manager import Experience


@dataclass(slots=True, eq=False)
class Run:
    """One attempt at a job, from the decision to its end. Times are estimates."""

    id: RunId
    job: Job
    queue: str
    resource: int
    machines: tuple[int, ...]
    start_s: float
    completion_s: float
    started: bool = False
    not_before_s: float = 0.0
    """Earliest start, even if its machines are free before."""
    ending: bool = False
    """Whether it is being preempted, and the notice has not arrived yet."""

    def move(self, start_s: float) -> None:
        """Change the planned start and keep the duration."""
        duration_s = self.completion_s - self.start_s
        self.start_s, self.completion_s = start_s, start_s + duration_s

    @property
    def place_in_line(self) -> tuple[bool, float, int]:
        # A started run is first, even if by a rounding error another is planned to start before it did.
        return (not self.started, self.start_s, self.id)


class Commitments:
    """Runs per machine in order of start, and from them the time at which each machine becomes ready.

    There is an array of ready times for each set of queues that a scheduler may ignore (`views`). An update
    touches only the machines of a run, so no cost depends on the size of the site.
    """

    def __init__(self, n_machines: int, views: Iterable[QueueNames]) -> None:
        self._timelines: list[list[Run]] = [[] for _ in range(n_machines)]
        self._ready_s = {ignored: np.zeros(n_machines) for ignored in {frozenset[str](), *views}}
        self._late: list[tuple[float, int, Run]] = []
        self._deviated: set[int] = set()

    def ready_s(self, ignoring: QueueNames = frozenset()) -> NDArray[np.float64]:
        """Expected end of the last run on each machine (m,), as if the queues `ignoring` had none."""
        return self._ready_s[ignoring]

    def ready_s_without(self, machine: int, victims: frozenset[RunId], ignoring: QueueNames) -> float:
        """Expected end of the last run on `machine`, also without the runs `victims`."""
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
                self._refresh((j,))

    def start(self, run: Run, now_s: float) -> None:
        """Start `run` now; if that is not the planned time, later runs move."""
        run.started = True
        if run.start_s != now_s:
            run.move(now_s)
            self._refresh(run.machines)
            self._deviated.update(run.machines)
        heapq.heappush(self._late, (run.completion_s, run.id, run))

    def end(self, run: Run, now_s: float) -> None:
        """End `run` now; if that is not the planned time, later runs move."""
        if run.completion_s != now_s:
            self._deviated.update(run.machines)
        self.remove(run)

    def cut(self, run: Run, now_s: float) -> None:
        """`run` is being preempted: expect it to end now."""
        run.ending = True
        run.completion_s = now_s
        heapq.heappush(self._late, (now_s, run.id, run))
        self._refresh(run.machines)

    def first_on(self, machine: int) -> Run | None:
        """The first running or planned run on `machine`."""
        timeline = self._timelines[machine]
        return timeline[0] if timeline else None

    def is_first_everywhere(self, run: Run) -> bool:
        return all(self._timelines[j][0] is run for j in run.machines)

    def overlapping(self, run: Run, queues: QueueNames, now_s: float) -> list[Run]:
        """Runs of `queues` that overlap the new `run` on some machine, in order of start."""

        def overlap(other: Run) -> bool:
            if other.started and run.start_s <= now_s:
                return True  # it still runs, whatever its expected end
            return other.start_s < run.completion_s and other.completion_s > run.start_s

        found = {
            other.id: other
            for j in run.machines
            for other in self._timelines[j]
            if other.queue in queues and not other.ending and overlap(other)
        }
        return sorted(found.values(), key=lambda other: other.place_in_line)

    def replan(self, now_s: float, held: Iterable[Run] = ()) -> list[Run]:
        """Move the planned runs on machines that deviated from the plan since the last call.

        An overdue run is expected to end now. `held` are planned runs that wait for something else than their
        machines. Returns the overdue runs. O(runs that move), up to a logarithm.
        """
        late = self._delay_overdue(now_s)
        self._deviated.update(j for run in (*late, *held) for j in run.machines)
        self._refresh(self._deviated | self._move_planned(now_s))
        self._deviated.clear()
        return late

    def _move_planned(self, now_s: float) -> set[int]:
        """Correct the plan of the machines that deviated. Returns all machines on which runs moved."""
        moved: set[int] = set()
        pending = {run.id: run for j in self._deviated for run in self._timelines[j] if not run.started}
        line = [(run.place_in_line, run) for run in pending.values()]
        heapq.heapify(line)
        while line:
            _, run = heapq.heappop(line)
            del pending[run.id]
            places = [
                (line_of, line_of.index(run)) for line_of in map(self._timelines.__getitem__, run.machines)
            ]
            before_s = (line_of[place - 1].completion_s for line_of, place in places if place)
            start_s = max(now_s, run.not_before_s, *before_s)
            if start_s == run.start_s:
                continue
            run.move(start_s)
            moved.update(run.machines)
            behind = (other for timeline, place in places for other in timeline[place + 1 : place + 2])
            for other in behind:
                if other.id not in pending:
                    pending[other.id] = other
                    heapq.heappush(line, (other.place_in_line, other))
        return moved

    def _delay_overdue(self, now_s: float) -> list[Run]:
        # A run whose expected end differs from its entry has another entry, since it is being preempted.
        late = []
        while self._late and self._late[0][0] < now_s:
            expected_s, _, run = heapq.heappop(self._late)
            if run.completion_s == expected_s and self.first_on(run.machines[0]) is run:
                run.completion_s = now_s
                late.append(run)
        for run in late:
            heapq.heappush(self._late, (now_s, run.id, run))
        return late

    def _refresh(self, machines: Iterable[int]) -> None:
        for j in machines:
            for ignored, ready_s in self._ready_s.items():
                ready_s[j] = self.ready_s_without(j, frozenset(), ignored)


def loss_s(
    commitments: Commitments,
    availability: Availability,
    experience: Experience,
    now_s: float,
    victims: Sequence[Run],
    displacing: Iterable[Run],
) -> float:
    """The total delay, in seconds, of the jobs of `victims` if the runs `displacing` displace them, and they
    start over.

    They start one after another in the order given, each where it is complete first (ties: the lower
    resource): an estimate, since their queue's scheduler may map them otherwise. Infinite if one can run
    nowhere."""
    ids = frozenset(victim.id for victim in victims)
    ready_s = commitments.ready_s().copy()
    for j in {j for victim in victims for j in victim.machines}:
        ready_s[j] = commitments.ready_s_without(j, ids, frozenset())
    for run in displacing:
        for j in run.machines:
            ready_s[j] = max(ready_s[j], run.completion_s)
    machine_s = np.where(availability.up, np.maximum(ready_s, now_s), np.inf)
    members, later_s = availability.members(), 0.0
    etc = experience.estimate([victim.job for victim in victims], [len(usable) for usable in members])
    for k, victim in enumerate(victims):
        ready = ReadyTimes(machine_s, members)
        completion_s = np.concatenate([ready.machine_s, ready.cluster_s]) + etc.row(k)
        resource = int(completion_s.argmin())
        machine_s[list(ready.machines_of(resource))] = completion_s[resource]
        later_s += float(completion_s[resource]) - victim.completion_s
    return later_s
