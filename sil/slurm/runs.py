"""The runs of one controller in the world: started, suspended, continued and ended as it orders its nodes;
how long it lets them run, and what is to be done when."""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, NamedTuple

from scheduler.model import DispatchOrder, Job, RunId
from sil.slurm.layout import Layout
from sil.slurm.protocol.records import SUSPEND
from sil.slurm.protocol.submission import NodeShare
from sil.world.machines.execution import SimDispatcher
from site_db.slurm.lines import pairs_of
from site_db.slurm.output import limit_s


class LaunchedJob(NamedTuple):
    """A job that runs: Slurm's number of it, and what Slurm's commands call it.

    `first` is the number of its first component, of which Slurm takes the end for that of all, if it is
    heterogeneous; else its own."""

    number: int
    name: str
    job: Job
    first: int


class LaunchedJobs:
    """The runs that the controller has launched and that are not over, also in the world."""

    def __init__(self, layout: Layout, orders: SimDispatcher) -> None:
        self._layout = layout
        self._orders = orders
        self.running: dict[RunId, LaunchedJob] = {}
        self.suspended: set[RunId] = set()
        self.overdue: set[RunId] = set()
        """The runs whose time limits have passed."""
        self.n_launched = 0
        self._run_of: dict[int, RunId] = {}
        self._n_of: Counter[int] = Counter()
        """How many runs a job has, by the number of its first component."""
        self.to_begin: list[RunId] = []
        """Runs to start or to continue when those that are to stop at this time have stopped."""
        self._suspended_first: set[int] = set()
        """Numbers of jobs that are to be launched suspended."""
        self._to_start: dict[RunId, DispatchOrder] = {}
        """Runs that have not begun."""

    def launched(self, running: LaunchedJob, shares: Sequence[NodeShare], expected_s: float) -> RunId:
        """Add a run, which starts with the next `begin`, unless the controller has suspended it before."""
        self.n_launched += 1
        run = RunId(self.n_launched)
        self.running[run] = running
        self._run_of[running.number] = run
        self._n_of[running.first] += 1
        if running.number in self._suspended_first:
            self._suspended_first.discard(running.number)
            self.suspended.add(run)
        self._to_start[run] = self._layout.order(run, running.job, shares, expected_s)
        self.to_begin.append(run)
        return run

    def killed(self, number: int) -> LaunchedJob | None:
        """End the run of the job with this number. Returns None if it is over."""
        if (run := self._run_of.get(number)) is None:
            return None
        found = self.over(run)
        self._orders.preempt(run)
        return found

    def stop(self, name: str) -> None:
        """Note that the job of this name runs no longer."""
        for number in [each.number for each in self.running.values() if each.name == name]:
            self.killed(number)

    def over(self, run: RunId) -> LaunchedJob | None:
        """Forget a run that is over in the world; None if it was before."""
        found = self.running.pop(run, None)
        self.overdue.discard(run)
        self.suspended.discard(run)
        self._to_start.pop(run, None)
        if found is not None:
            del self._run_of[found.number]
            self._n_of[found.first] -= 1
        return found

    def runs_on(self, first: int) -> bool:
        """Whether a component of the job runs."""
        return self._n_of[first] > 0

    def on_suspend(self, suspend: Any) -> None:
        """Suspend or continue a job, also one that is launched at the same time: it does not begin before it
        is to continue."""
        number, stops = suspend.job, suspend.operation == SUSPEND
        run = self._run_of.get(number)
        if run is None:
            (self._suspended_first.add if stops else self._suspended_first.discard)(number)
        elif stops:
            self.suspended.add(run)
            self._orders.suspend(run)
        else:
            self.suspended.discard(run)
            self.to_begin.append(run)

    def begin(self) -> None:
        """Start and continue runs, unless they were to stop since."""
        to_begin, self.to_begin = self.to_begin, []
        for run in to_begin:
            if run not in self.running or run in self.suspended:
                continue
            if (order := self._to_start.pop(run, None)) is not None:
                self._orders.dispatch(order)
            else:
                self._orders.resume(run)


_INTERVALS = {"bf_interval": 30.0, "sched_interval": 60.0}
"""Seconds between looks at all jobs: Slurm's defaults."""
INSTANT_S = 1e-6
"""The resolution of the controller's clock."""
AFTER_AN_EVENT_S = 5.0
"""How long the controller is followed step by step after an event, in seconds, even if no job waits."""
LONGEST_WAIT_S = 366 * 86_400.0
"""The longest wait, in seconds, for a start that the controller has scheduled, while nothing runs and no
other event is due."""
MAX_IN_VAIN = 5
"""How often the controller may expect such a start in vain; it puts off jobs that no partition admits again
and again."""
_LOOKS = 3
_MIN_S = 300.0


@dataclass(frozen=True)
class ControllerLimits:
    """How long, in seconds, nothing needs to be asked of the controller.

    * `over_limit_s`: by how much it lets every job exceed its time limit;
    * `limit_s`: the shortest limit of jobs that have none of their own;
    * `without_a_start_s`: if no event occurs and no job starts for this time, it is waiting for something.
    """

    over_limit_s: float = 0.0
    limit_s: float = inf
    without_a_start_s: float = _MIN_S

    def ends_after_s(self, limit_s: float) -> float:
        """How long a job with this time limit (infinite: none) may run in any case."""
        return (limit_s if limit_s < inf else self.limit_s) + self.over_limit_s


def controller_limits(lines: Iterable[str]) -> ControllerLimits:
    """The limits of a configuration with these lines of slurm.conf."""
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
    return ControllerLimits(min(over_s, default=0.0), min(limits_s, default=inf), max(_MIN_S, looks_s))


def _limit_s(text: str) -> float:
    """A time limit in seconds; infinite if it cannot be read: the controller says so."""
    try:
        return limit_s(text)
    except ValueError:
        return 0.0 if text == "0" else inf


Act = Callable[[], None]


class Timers:
    """Acts in order of their times; those of one time in the order in which they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Act, Callable[[], bool]]] = []
        self._number = count()

    def add(self, at_s: float, act: Act, is_void: Callable[[], bool] = lambda: False) -> None:
        """Add an act, which is dropped once it `is_void`."""
        heapq.heappush(self._heap, (at_s, next(self._number), act, is_void))

    @property
    def first_s(self) -> float:
        """The time of the first act; infinite if there is none."""
        heap = self._heap
        while heap and heap[0][3]():
            heapq.heappop(heap)
        return heap[0][0] if heap else inf

    def due(self, now_s: float) -> Iterator[Act]:
        while self._heap and self.first_s <= now_s:
            yield heapq.heappop(self._heap)[2]
