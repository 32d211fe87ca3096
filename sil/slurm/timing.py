"""How long a controller lets jobs run and wait, and what is to be done at which time."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from math import inf

from site_db.slurm.lines import pairs_of
from site_db.slurm.tres import limit_s

_INTERVALS = {"bf_interval": 30.0, "sched_interval": 60.0}
"""Seconds between looks at all jobs, and Slurm's defaults."""
INSTANT_S = 1e-6
"""The resolution of the controller's clock."""
AFTER_AN_EVENT_S = 5.0
"""How long the controller is followed step by step after an event, even if no job waits."""
LONGEST_WAIT_S = 366 * 86_400.0
"""The longest wait for a start that the controller has scheduled, while nothing runs and no other event is
due."""
MOST_IN_VAIN = 5
"""How often it may expect a start, then; it puts off jobs that no partition admits again and again."""
_LOOKS = 3
_LEAST_S = 300.0


@dataclass(frozen=True)
class Patience:
    """How long, in seconds, nothing needs to be asked of the controller.

    * `over_limit_s`: by how much it lets every job exceed its time limit;
    * `limit_s`: the shortest limit of jobs that have none of their own;
    * `without_a_start_s`: if no event occurs and no job starts for this time, it is waiting for something.
    """

    over_limit_s: float = 0.0
    limit_s: float = inf
    without_a_start_s: float = _LEAST_S

    def ends_after_s(self, limit_s: float) -> float:
        """How long a job with this time limit (infinite: none) may run in any case."""
        return (limit_s if limit_s < inf else self.limit_s) + self.over_limit_s


def patience_of(lines: Iterable[str]) -> Patience:
    """Of a configuration with these lines of slurm.conf."""
    pairs = [(pair.name, pair.value.lower()) for line in lines for pair in pairs_of(line)]
    over_s = [_limit_s(value) for key, value in pairs if key == "overtimelimit"]
    limits_s = [_limit_s(value) for key, value in pairs if key in ("defaulttime", "maxtime")]
    intervals = dict(_INTERVALS)
    for key, value in pairs:
        if key == "schedulerparameters":
            for name, number in re.findall(r"(?<!\w)(\w++)=(\d+)", value):
                if name in intervals:
                    intervals[name] = float(number)
    looks_s = _LOOKS * max(intervals.values())
    return Patience(min(over_s, default=0.0), min(limits_s, default=inf), max(_LEAST_S, looks_s))


def _limit_s(text: str) -> float:
    """Infinite if it cannot be read: the controller says so."""
    try:
        return limit_s(text)
    except ValueError:
        return 0.0 if text == "0" else inf


Act = Callable[[], None]


class Appointments:
    """Acts in order of their times; those of one time in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Act, Callable[[], bool]]] = []
        self._number = count()

    def add(self, at_s: float, act: Act, is_void: Callable[[], bool] = lambda: False) -> None:
        """Once it `is_void`, it is dropped."""
        heapq.heappush(self._heap, (at_s, next(self._number), act, is_void))

    @property
    def first_s(self) -> float:
        """Infinite if there is none."""
        heap = self._heap
        while heap and heap[0][3]():
            heapq.heappop(heap)
        return heap[0][0] if heap else inf

    def due(self, now_s: float) -> Iterator[Act]:
        while self._heap and self.first_s <= now_s:
            yield heapq.heappop(self._heap)[2]
