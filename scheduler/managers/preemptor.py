"""What becomes of runs, step by step, while some are stopped for others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import Enum, auto
from math import inf
from typing import Any

from scheduler.managers.displacement import Displacement
from scheduler.managers.suspension import Suspension
from scheduler.model import RunId
from scheduler.priority.policy import PreemptMode


class RunStep(Enum):
    """What is to be done with a run."""

    BEGIN = auto()
    """It has its nodes, and begins."""
    STOP = auto()
    """It stops, unless it is about to end. Notice of that is given to `Preemptor.over`."""
    SUSPEND = auto()
    CONTINUE = auto()
    REQUEUE = auto()
    """It has stopped, and its job waits again."""
    CANCEL = auto()
    """It has stopped, and its job is over."""
    TAKE_BACK = auto()
    """It does not begin after all, and its job waits as before."""


RunSteps = Iterator[tuple[RunStep, RunId]]
"""Each is to be carried out before the next one is asked for."""


class Preemptor:
    """Says what is to be done with runs. They stop at once or after their grace time; those that are stopped
    for the same job are over together. A job may wait again only `requeue_delay_s` later."""

    def __init__(self, displacement: Displacement, requeue_delay_s: float = 0.0) -> None:
        self.displacement, self.suspension = displacement, Suspension(displacement)
        self._delay_s = requeue_delay_s
        self.again: dict[int, tuple[float, Any]] = {}
        """The jobs that wait again later, by number: when, and what the caller knows them as."""
        self._stops_s: dict[RunId, float] = {}
        """When runs are stopped that have a grace time."""
        self._never_began: set[RunId] = set()
        """Runs that were displaced at once, as long as others are being stopped for the same job."""

    @property
    def next_s(self) -> float:
        """When the next grace time is over, or the next job waits again; infinite = never."""
        return min(*self._stops_s.values(), *(time_s for time_s, _ in self.again.values()), inf, inf)

    def decided(self, started: Collection[RunId], now_s: float) -> RunSteps:
        """A decision has given nodes to these runs."""
        begin, how = dict.fromkeys(started), self.displacement.how
        for run in self.suspension.reclaim(begin, now_s):
            del begin[run]
            yield RunStep.TAKE_BACK, run
        yield from self.continued(now_s)
        stopping = self.displacement.to_stop(now_s)
        self._never_began |= begin.keys() & set(stopping)
        for run in begin:
            if run not in self._never_began:
                yield RunStep.BEGIN, run
        at_once = [run for run in stopping if run in begin or how(run).mode is PreemptMode.SUSPEND]
        for run in stopping:
            if run not in at_once and how(run).grace_s:
                self._stops_s[run] = now_s + how(run).grace_s
            elif run not in at_once:
                yield RunStep.STOP, run
        for run in at_once:
            yield from self.over(run, True, now_s)
        yield from self.continued(now_s)

    def over(self, run: RunId, is_stopped: bool, now_s: float) -> RunSteps:
        """A run has stopped or is to be suspended, or is over for another reason: its nodes are free."""
        self._stops_s.pop(run, None)
        is_displaced = self.displacement.is_stopping(run)
        for stopped in self.displacement.over(run, is_stopped):
            mode = self.displacement.how(stopped).mode if is_displaced else PreemptMode.REQUEUE
            if stopped in self._never_began:
                self._never_began.discard(stopped)
                yield RunStep.TAKE_BACK, stopped
            elif mode is PreemptMode.SUSPEND:
                yield RunStep.SUSPEND, stopped
                self.suspension.suspend(stopped, now_s)
            else:
                yield (RunStep.CANCEL if mode is PreemptMode.CANCEL else RunStep.REQUEUE), stopped

    def time_passed(self, now_s: float) -> RunSteps:
        """Some grace times may be over."""
        for run in [run for run, time_s in self._stops_s.items() if time_s <= now_s]:
            del self._stops_s[run]
            if run in self.displacement.runs:  # else it is about to end
                yield RunStep.STOP, run

    def delays(self, number: int, job: Any, now_s: float) -> bool:
        """Whether a job waits again only later; `due` returns it then."""
        if self._delay_s:
            self.again[number] = now_s + self._delay_s, job
        return self._delay_s > 0

    def due(self, now_s: float) -> list[Any]:
        """The jobs that wait again from now on."""
        due = [number for number, (time_s, _) in self.again.items() if time_s <= now_s]
        return [self.again.pop(number)[1] for number in due]

    def continued(self, now_s: float) -> RunSteps:
        """The suspended runs continue whose CPUs are free."""
        for run in self.suspension.continued(now_s):
            yield RunStep.CONTINUE, run

    def end(self, run: RunId, now_s: float) -> None:
        """A run is about to give back its nodes, if it still holds them."""
        if run in self.suspension:
            self.suspension.forget(run, now_s)
        if run in self.displacement.runs:
            self.displacement.end(run)
