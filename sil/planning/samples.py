"""Paired samples: the measures of each option in replications 0, 1, 2, ..., as many as are needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Annotated, Any, Protocol

import numpy as np
from pydantic import AfterValidator

from scheduler import UserError
from sil.outcome.statistics import Sample, differences
from sil.planning.options import Option
from sil.planning.plan_file import GoalTable, Plan
from sil.planning.scenario.scenario import (
    CLASS,
    CORE_HOURS,
    GPU_HOURS,
    JOBS,
    REFUSED,
    OptionRunner,
    Shares,
    refused_key,
)
from sil.workers.executor import Item


class GoalNeverMeasured(UserError):
    """A run had no job of a goal's class or queue. The message is one sentence for the user."""


class DoesRuns(Protocol):
    def results(self, items: Sequence[Item], kind: Any = ...) -> list[dict[str, float]]: ...


@dataclass(frozen=True)
class Refused:
    """The share of jobs that are refused, and on nodes the shares by reason."""

    share: float
    reasons: Mapping[str, Shares]


class OptionSamples:
    """The measures of options, by name, under one scheduler, with common random numbers: in each replication,
    all options see the same jobs and run times."""

    def __init__(self, scenario: OptionRunner, runs: DoesRuns, scheduler: str) -> None:
        self.plan: Plan = scenario.plan
        self.goal: GoalTable = self.plan.goals[0]
        self.sign = 1.0 if self.goal.more_is_better else -1.0
        self.scheduler = scheduler
        self._scenario = scenario
        self._runs = runs
        self._measured: dict[str, list[dict[str, float]]] = {}
        self._kind = Annotated[dict[str, float], AfterValidator(self._with_goals)]

    def ensure(self, options: Iterable[Option], n: int) -> None:
        """At least `n` replications of each. Raises GoalNeverMeasured and what runs raise."""
        wanted = [
            (option, replication)
            for option in {option.name: option for option in options}.values()
            for replication in range(self.count(option), n)
        ]
        # By replication, so that an interrupted command leaves a balanced set of runs.
        wanted.sort(key=lambda one: one[1])
        works = [self._scenario.run(option, self.scheduler, replication) for option, replication in wanted]
        results = self._runs.results([Item(work.key, work, name=work.name) for work in works], self._kind)
        for (option, replication), measures in zip(wanted, results, strict=True):
            for goal in self.plan.goals:
                if isnan(measures[goal.key]):
                    why = _why_nothing(goal, measures)
                    raise GoalNeverMeasured(
                        f"the goal '{goal.key}' cannot be measured: in replication {replication} {why}"
                    )
            self._measured.setdefault(option.name, []).append(measures)

    def count(self, option: Option) -> int:
        return len(self._measured.get(option.name, ()))

    def refused(self, option: Option) -> Refused:
        """The mean shares of arrived jobs that were refused."""
        all_measures = self._measured.get(option.name, ())

        def mean(key: str) -> float:
            shares = [measures.get(key, 0.0) for measures in all_measures]
            return sum(shares) / len(shares) if shares else 0.0

        whys = sorted({why for measures in all_measures for why in _reasons(measures)})
        units = (JOBS, CORE_HOURS, GPU_HOURS)
        reasons = {why: {unit: mean(refused_key(unit, why)) for unit in units} for why in whys}
        return Refused(mean(REFUSED), reasons)

    def values(self, option: Option, key: str | None = None, n: int | None = None) -> Sample:
        """The values of a goal, the first by default, in the first n replications."""
        key = self.goal.key if key is None else key
        return np.array([measures[key] for measures in self._measured[option.name][:n]])

    def gains(self, option: Option, base: Option, key: str | None = None) -> Sample:
        """How much better than `base` it is, in each replication that both have: by the first goal, or by the
        mean turnaround of a job class."""
        n = min(self.count(option), self.count(base))
        gained = differences(self.values(option, key, n), self.values(base, key, n))
        return (self.sign if key is None else -1.0) * gained

    def identity(self, option: Option) -> str:
        """Equal for options whose runs are the same in all replications, since their changes are, except for
        what jobs cannot use."""
        return self._scenario.run(self._scenario.usable(option, self.scheduler), self.scheduler, 0).key

    def _with_goals(self, measures: dict[str, float]) -> dict[str, float]:
        """Stored measures. Raises ValueError unless they have all goals."""
        if not {REFUSED, *(goal.key for goal in self.plan.goals)} <= measures.keys():
            raise ValueError("a goal is missing")
        return measures

    def job_classes(self, option: Option, n: int) -> list[str]:
        """Those with jobs in each of the first n replications."""
        names = [set(measures) for measures in self._measured[option.name][:n]]
        return sorted(key.removeprefix(CLASS) for key in set.intersection(*names) if key.startswith(CLASS))


def _reasons(measures: Mapping[str, float]) -> list[str]:
    prefix = refused_key(JOBS, "")
    return [key.removeprefix(prefix) for key in measures if key.startswith(prefix)]


def _why_nothing(goal: GoalTable, measures: Mapping[str, float]) -> str:
    of, reasons = " and ".join(goal.of), " or ".join(_reasons(measures))
    if reasons:
        return f"every job{of and f' of {of}'} was refused: those that {reasons} are; forecast others"
    if measures[REFUSED] == 1.0:
        return "the site's rules for users and queues refused all jobs; forecast others"
    if measures[REFUSED] > 0.0:
        return f"the site's rules for users and queues refused every job{of and f' of {of}'}"
    return f"no job{of and f' of {of}'} arrived; forecast more jobs, or a larger share of these"
