"""Outages, listed or random, as streams of changes in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from sil.world.events import LocalChanged, StateChange, Subject

TimedChange = tuple[float, StateChange | LocalChanged]


@dataclass(frozen=True, slots=True)
class Outage:
    """A machine (by index) or an interconnect (by name) is down from `from_s` to `to_s` (or infinity)."""

    subject: Subject
    from_s: float
    to_s: float


@dataclass(frozen=True, slots=True)
class Flapping:
    """After its repair, what has failed is up for `each_s`, then down for `each_s`, so many `times`; then it
    stays up."""

    times: int = 0
    each_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RandomFailures:
    """Failures after exponential times of a mean, and repairs after exponential times of another.

    A time between failures begins when what has failed stays up.
    """

    mean_time_between_failures_s: float
    mean_time_to_repair_s: float
    flapping: Flapping = Flapping()

    def changes(self, groups: Iterable[Sequence[Subject]], rng: np.random.Generator) -> Iterator[TimedChange]:
        """Those of each group, without end. What is in one group fails and is repaired together."""
        subjects = [tuple(group) for group in groups]
        first_s = rng.exponential(self.mean_time_between_failures_s, len(subjects))
        pending = [(float(time_s), k, False, 0) for k, time_s in enumerate(first_s)]
        heapq.heapify(pending)
        while pending:
            time_s, k, up, flaps = pending[0]
            yield time_s, StateChange(subjects[k], up)
            if up and flaps == self.flapping.times:
                after_s, flaps = float(rng.exponential(self.mean_time_between_failures_s)), 0
            elif up or flaps:
                after_s, flaps = self.flapping.each_s, flaps + up
            else:
                after_s = float(rng.exponential(self.mean_time_to_repair_s))
            heapq.heapreplace(pending, (time_s + after_s, k, not up, flaps))


def listed_outages(outages: Iterable[Outage]) -> Iterator[TimedChange]:
    """The changes of outages at known times."""
    changes: list[TimedChange] = []
    for outage in outages:
        changes.append((outage.from_s, StateChange((outage.subject,), False, outage.to_s == inf)))
        changes.append((outage.to_s, StateChange((outage.subject,), True)))
    yield from sorted((change for change in changes if change[0] < inf), key=lambda change: change[0])


def until(time_s: float, changes: Iterable[TimedChange]) -> Iterator[TimedChange]:
    """The changes before a time; what is down then returns at that time."""
    down: dict[Subject, int] = {}
    for change_s, change in changes:
        if change_s >= time_s:
            break
        if isinstance(change, StateChange):
            for subject in change.subjects:
                down[subject] = down.get(subject, 0) + (-1 if change.up else 1)
        yield change_s, change
    for subject, n in down.items():
        yield from n * [(time_s, StateChange((subject,), True))]


def in_order_of_time(*sources: Iterable[TimedChange]) -> Iterator[TimedChange]:
    """Several streams as one."""
    return heapq.merge(*sources, key=lambda change: change[0])
