"""Outages, listed or random, as streams of changes in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from sil.world.events import LocalChanged, StateChange

TimedChange = tuple[float, StateChange | LocalChanged]


@dataclass(frozen=True, slots=True)
class Outage:
    """A machine (by index) or an interconnect (by name) is down from `from_s` to `to_s` (or infinity)."""

    subject: int | str
    from_s: float
    to_s: float


def listed_outages(outages: Iterable[Outage]) -> Iterator[TimedChange]:
    """The changes of outages at known times."""
    changes: list[TimedChange] = []
    for outage in outages:
        changes.append((outage.from_s, StateChange(outage.subject, False, outage.to_s == inf)))
        changes.append((outage.to_s, StateChange(outage.subject, True)))
    yield from sorted((change for change in changes if change[0] < inf), key=lambda change: change[0])


def random_failures(
    n_machines: int,
    mean_time_between_failures_s: float,
    mean_time_to_repair_s: float,
    rng: np.random.Generator,
) -> Iterator[TimedChange]:
    """Each machine fails and is repaired, after exponential times of the given means, without end."""
    first_s = rng.exponential(mean_time_between_failures_s, n_machines)
    pending = [(float(time_s), machine, False) for machine, time_s in enumerate(first_s)]
    heapq.heapify(pending)
    while pending:
        time_s, machine, up = pending[0]
        yield time_s, StateChange(machine, up)
        mean_s = mean_time_between_failures_s if up else mean_time_to_repair_s
        heapq.heapreplace(pending, (time_s + float(rng.exponential(mean_s)), machine, not up))


def until(time_s: float, changes: Iterable[TimedChange]) -> Iterator[TimedChange]:
    """The changes of one source before a time, and the return of what is down then."""
    down: set[int | str] = set()
    for change_s, change in changes:
        if change_s < time_s:
            if isinstance(change, StateChange):
                (down.discard if change.up else down.add)(change.subject)
            yield change_s, change
        elif not down:
            return
        elif isinstance(change, StateChange) and change.up and change.subject in down:
            down.remove(change.subject)
            yield change_s, change


def in_order_of_time(*sources: Iterable[TimedChange]) -> Iterator[TimedChange]:
    """Several streams as one."""
    return heapq.merge(*sources, key=lambda change: change[0])
