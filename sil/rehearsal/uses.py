"""What a replay of recorded jobs may be used for: the limits of each use, which were fixed before any log was
looked at, and never depend on one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scheduler.messages import counted
from sil.outcome.statistics import Interval
from sil.report.tables import duration_text, signed_duration

NEAR_S = 300.0
"""A start within this of the recorded one counts as reproduced; a difference of mean waits up to this is
always allowed."""
MIN_JOBS = 20
"""The fewest jobs of a group that is judged or compared."""
MAX_NOT_STARTED = 0.01
"""The largest share of jobs that do not start in the replay, for any use."""


class Use(StrEnum):
    """What the results of replays may be used for; NONE of single jobs and means."""

    WAITS = "waits"
    UTILISATION = "utilisation"
    MEANS = "means"
    JOBS = "jobs"
    PURCHASES = "purchases"
    NONE = "none"


TITLES = {
    Use.WAITS: "Mean waits",
    Use.UTILISATION: "Utilisation",
    Use.MEANS: "Choosing between two settings, by means of many jobs",
    Use.JOBS: "Choosing between two settings, job by job",
    Use.PURCHASES: "Purchases",
}


class Measure(StrEnum):
    """How a replay is compared with what was recorded."""

    WAIT = "difference of the mean waits"
    NEAR = "share of starts within 5 minutes"
    NEAR_WAITING = "of jobs that waited longer in either"
    RANKS = "rank correlation of their waits"
    DAYS = "rank correlation of the mean waits of days"
    UTILISATION = "mean difference of the utilisation of an hour"


AT_LEAST = (Measure.NEAR, Measure.NEAR_WAITING, Measure.RANKS, Measure.DAYS)
OF_WAITING = AT_LEAST[1:]
"""Measures that say nothing where hardly any job waits."""
LIMITS: Mapping[Use, Mapping[Measure, float]] = {
    Use.WAITS: {Measure.WAIT: 0.1},
    Use.UTILISATION: {Measure.UTILISATION: 0.05},
    Use.MEANS: {Measure.WAIT: 0.25, Measure.NEAR: 0.5, Measure.NEAR_WAITING: 0.25, Measure.RANKS: 0.8},
    Use.JOBS: {Measure.WAIT: 0.1, Measure.NEAR: 0.9, Measure.NEAR_WAITING: 0.75},
    Use.PURCHASES: {Measure.WAIT: 0.25, Measure.DAYS: 0.8, Measure.UTILISATION: 0.05},
}
"""The least of AT_LEAST, and the largest differences: of waits as a share of the recorded mean."""


class Grade(StrEnum):
    """Whether a replay is good enough for a use."""

    GOOD = "good enough"
    THIS_PERIOD = "good enough in this period"
    NOT = "not good enough"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True)
class Agreement:
    """How a replay agrees with what was recorded; `found` is None where that cannot be said."""

    measure: Measure
    found: Interval | None
    worst: float = float("inf")
    """The largest difference of a single job or hour."""
    mean: float = 1.0
    """What limits of differences are a share of."""

    def limit(self, use: Use) -> float:
        limit = LIMITS[use][self.measure]
        return max(limit * self.mean, NEAR_S) if self.measure is Measure.WAIT else limit

    def is_within(self, use: Use) -> bool:
        if self.found is None:
            return True
        limit = self.limit(use)
        return self.found.mean >= limit if self.measure in AT_LEAST else abs(self.found.mean) <= limit

    def is_settled(self, use: Use) -> bool:
        """Whether other periods like this one are within the limit, too: the interval is, or there is no
        larger difference."""
        if self.found is None:
            return False
        limit, found = self.limit(use), self.found
        if self.measure in AT_LEAST:
            return found.mean == 1.0 or (found.half_width is not None and found.low >= limit)
        within = found.half_width is not None and -limit <= found.low and found.high <= limit
        return within or self.worst <= limit

    def text(self, use: Use) -> str:
        """The measure, what was found, and the limit."""
        if self.found is None:
            return f"{self.measure}: not known"
        if self.measure is Measure.WAIT:
            limit = duration_text(self.limit(use))
            return f"{self.measure}: {signed_duration(self.found)} (at most ±{limit})"
        bound = "least" if self.measure in AT_LEAST else "most"
        return f"{self.measure}: {self.found.text('.3f')} (at {bound} {LIMITS[use][self.measure]:g})"


@dataclass(frozen=True)
class Judgement:
    """The verdict on one use; `kind` and `name` are of a group of jobs, or both "all"."""

    use: Use
    kind: str
    name: str
    jobs: int
    waiting: int
    not_started: int
    agreements: tuple[Agreement, ...]

    @property
    def is_within(self) -> bool:
        start = self.not_started <= MAX_NOT_STARTED * self.jobs
        return start and all(each.is_within(self.use) for each in self.agreements)

    @property
    def grade(self) -> Grade:
        if self.jobs < MIN_JOBS:
            return Grade.NOT_JUDGED
        if not self.is_within:
            return Grade.NOT
        if self.waiting < MIN_JOBS and any(each.measure in OF_WAITING for each in self.agreements):
            return Grade.NOT_JUDGED
        is_settled = all(each.is_settled(self.use) for each in self.agreements)
        return Grade.GOOD if is_settled else Grade.THIS_PERIOD

    @property
    def why(self) -> list[str]:
        if self.jobs < MIN_JOBS:
            return [f"fewer than {MIN_JOBS} jobs"]
        few = [f"fewer than {MIN_JOBS} jobs waited"] if self.grade is Grade.NOT_JUDGED else []
        few += [f"{counted(self.not_started, 'job')} did not start"] if self.not_started else []
        return [*few, *(each.text(self.use) for each in self.agreements)]

    def as_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("use", "kind", "name", "jobs", "grade", "why")}
