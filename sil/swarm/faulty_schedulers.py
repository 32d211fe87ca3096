"""Schedulers whose decisions are late or wrong, and a manager that asks them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from scheduler.model import Answer, Assignments, NodeSchedule
from scheduler.ports import AnyScheduler
from scheduler.resource_manager import Manager, ManagerDecorator, Ports
from scheduler.rules import ScheduleRejected
from sil.world.harness import World

Placed = TypeVar("Placed")


@dataclass
class LateScheduler:
    """A scheduler whose decisions take simulated time, until the faults of its case end. What is decided
    again after a restart takes none."""

    scheduler: AnyScheduler
    decision_s: float
    world: World
    until_s: float

    def schedule(self, problem: Any) -> Any:
        answer, clock = self.scheduler.schedule(problem), self.world.clock
        if clock.now_s < self.until_s and not self.world.trace.is_muted:
            clock.wait_until(clock.now_s + self.decision_s)
        return answer


@dataclass
class Mistakes:
    """A share of answers, until the faults of a case end, that break a rule or are missing, as if the
    scheduler had been stopped for taking too long."""

    share: float
    until_s: float
    seed: int
    last_was_wrong: bool = False


class WrongScheduler:
    """A scheduler that makes mistakes. They depend on the problem and on the number of answers before, so
    that they are made again when a journal is repeated."""

    def __init__(self, scheduler: AnyScheduler, mistakes: Mistakes) -> None:
        self._scheduler, self._mistakes = scheduler, mistakes
        self._rng = np.random.default_rng(mistakes.seed)

    def schedule(self, problem: Any) -> Any:
        answer, mistakes = self._scheduler.schedule(problem), self._mistakes
        mistakes.last_was_wrong = False
        if self._rng.random() < mistakes.share and problem.now_s < mistakes.until_s:
            wrong = _wrong(answer, int(self._rng.integers(4)), problem.n_jobs)
            mistakes.last_was_wrong = problem.violation(wrong) is not None
            return wrong
        return answer


class RetryOnViolation(ManagerDecorator):
    """Asks again after a mistake. Had any of that answer been carried out, it would now be done twice."""

    def __init__(self, manager: Manager, mistakes: Mistakes) -> None:
        self._manager, self._mistakes = manager, mistakes

    @classmethod
    def around(cls, make: Callable[[Ports], Manager], mistakes: Mistakes) -> Callable[[Ports], Self]:
        """Wrap `make`, so that the managers it makes are asked again."""
        return lambda ports: cls(make(ports), mistakes)

    def run_round(self) -> None:
        while True:
            try:
                return super().run_round()
            except ScheduleRejected:
                if not self._mistakes.last_was_wrong:
                    raise


def _wrong(answer: Answer, how: int, n_jobs: int) -> Answer | None:
    """No answer; or one that forgets a job, names one twice, or names one that does not exist."""
    if how == 0:
        return None
    if isinstance(answer, NodeSchedule):
        starts = list(answer.starts)
        return answer._replace(starts=_with_mistake(starts, how, lambda start: start._replace(job=n_jobs)))
    rows = list(answer.assignments)
    of = _with_mistake(rows, how, lambda row: replace(row, job=n_jobs))
    return answer._replace(assignments=Assignments.of(of))


def _with_mistake(placed: list[Placed], how: int, unknown: Callable[[Placed], Placed]) -> list[Placed]:
    first, rest = placed[:1], placed[1:]
    return [rest, [*placed, *first], [*map(unknown, first), *rest]][how - 1]
