"""Admission of jobs with turnaround limits, which are deadlines: can a limit be kept, and at whose cost?"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from scheduler.managers.queues import Unkept
from scheduler.managers.starting_manager import NodeAllocation
from scheduler.messages import abbreviated, rounded
from scheduler.model import Job, JobId, RunId
from scheduler.ports import Clock
from scheduler.problem import Running
from scheduler.time_shared.core.tables import TOGETHER_S
from scheduler.time_shared.forecast import Forecast

N = TypeVar("N", bound=Hashable)


@dataclass(frozen=True)
class PromisesByForecast:
    """Promises a turnaround limit if the upper bound of the forecast of `predictor` keeps it; without an
    interval, if `margin` times the predicted time from now keeps it."""

    predictor: str = ""
    margin: float = 1.0
    unkept: Unkept = Unkept.ACCEPTED

    def keeps(self, forecast: Forecast, now_s: float, by_s: float) -> bool:
        if forecast.high_s is not None:
            return max(forecast.high_s, forecast.end_s) <= by_s + TOGETHER_S
        return now_s + self.margin * (forecast.end_s - now_s) <= by_s + TOGETHER_S


@dataclass(frozen=True)
class LimitAdmission:
    """Admits jobs with turnaround limits, by the forecasts without and with each.

    A limit is promised if the job keeps it by the rule, and no promise is broken that would be kept without
    the job. Otherwise the job is refused, or accepted without its limit. Jobs without a limit are not asked
    about. Source: future work of CISNE-P (section 4); the rule is our own.
    """

    nodes: NodeAllocation[Any]
    forecasts: Callable[[Mapping[RunId, Running]], Sequence[Forecast]]
    """Of the jobs that wait and of those that run."""
    clock: Clock
    rule: PromisesByForecast
    note_promise: Callable[[Job, float, str], None]
    """Takes a job, by when it is promised to end, and which others it delays."""

    def submit(self, job: Job, running: Mapping[RunId, Running]) -> str | None:
        """Queue a job. Returns None, or the reason for refusing it."""
        if job.limit_s is None:
            return self.nodes.submit(job)
        before = {each.job: each for each in self.forecasts(running)}
        if (refusal := self.nodes.submit(job)) is not None:
            return refusal
        self.nodes.promised[job.id] = job.deadline_s
        after = {each.job: each for each in self.forecasts(running)}
        broken = self._late(after) - self._late(before)
        if not broken:
            before_s, after_s = ({k: x.end_s for k, x in of.items()} for of in (before, after))
            self.note_promise(job, job.deadline_s, cost(delays(before_s, after_s)))
            return None
        late_s = {late: after[late].end_s - self.nodes.promised[late] for late in broken}
        self.nodes.withdraw(job.id)
        if self.rule.unkept is Unkept.BEST_EFFORT:
            return self.nodes.submit(job._replace(limit_s=None))
        first = sorted(late_s.items(), key=lambda each: (each[0] != job.id, -each[1], each[0]))
        misses = [f"job {late} would miss its deadline by {_by(s)}" for late, s in first]
        return f"{abbreviated(misses)}, as predicted"

    def _late(self, forecasts: Mapping[JobId, Forecast]) -> set[JobId]:
        """The jobs that are to break a promise."""
        now_s, keeps, promised = self.clock.now_s, self.rule.keeps, self.nodes.promised.items()
        return {job for job, by_s in promised if (x := forecasts.get(job)) and not keeps(x, now_s, by_s)}


def delays(before_s: Mapping[N, float], after_s: Mapping[N, float]) -> dict[N, float]:
    """By how much later each job ends that is delayed, the greatest delays first."""
    later_s = {job: after_s[job] - end_s for job, end_s in before_s.items() if end_s < inf and job in after_s}
    found = ((job, late_s) for job, late_s in later_s.items() if late_s > TOGETHER_S)
    return dict(sorted(found, key=lambda each: -each[1]))


def cost(delays_s: Mapping[N, float]) -> str:
    """Which jobs are delayed, as a clause; empty if none is."""
    by = [f"job {job} by {_by(delay_s)}" for job, delay_s in delays_s.items()]
    return f"it delays {abbreviated(by)}" if by else ""


def _by(late_s: float) -> str:
    return f"{rounded(late_s)} s" if late_s < inf else "an unknown time"
