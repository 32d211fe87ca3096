"""When is a ranking settled? Repeated confidence intervals of all paired differences.

Every two options are compared by the differences of their replications, which met the same jobs and the same
luck. Their mean has a Student t interval, of which the confidence is corrected by Bonferroni for the number
of pairs and for the number of looks, so that all statements together are right at the confidence asked for.
That is the selection procedure of Clark and Yang 1986 ("A Bonferroni selection procedure when using common
random numbers with unknown variances") with the repeated confidence intervals of Jennison and Turnbull 1989
in place of its two stages, and a third answer: two options are tied where the whole interval is within the
indifference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from scipy.special import stdtrit

from sil.outcome.statistics import Sample


class Verdict(StrEnum):
    """Of the first of two options against the second. More is better."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    UNSETTLED = "unsettled"


@dataclass(frozen=True)
class Looks:
    """Numbers of replications at which somebody looks: from `first` on, half as many more each time, the last
    time at `most`."""

    first: int = 10
    most: int = 400

    @property
    def at(self) -> tuple[int, ...]:
        found = [min(self.first, self.most)]
        while found[-1] < self.most:
            found.append(min(self.most, found[-1] + max(1, found[-1] // 2)))
        return tuple(found)


@dataclass(frozen=True)
class Demand:
    """What is asked of all statements about `pairs` pairs together."""

    confidence: float
    pairs: int
    looks: int

    def half_width(self, values: Sample) -> float:
        """Of the interval of one mean at one look. 0 where all values are equal."""
        n = len(values)
        error = (1.0 - self.confidence) / (max(1, self.pairs) * self.looks)
        spread = float(np.std(values, ddof=1)) / np.sqrt(n)
        return float(stdtrit(n - 1, 1.0 - error / 2)) * float(spread)

    def verdict(self, differences: Sample, indifference: float) -> Verdict:
        """What the differences of two options tell."""
        mean, half_width = float(np.mean(differences)), self.half_width(differences)
        low, high = mean - half_width, mean + half_width
        if -indifference <= low and high <= indifference:
            return Verdict.TIE
        if low > 0.0:
            return Verdict.BETTER
        return Verdict.WORSE if high < 0.0 else Verdict.UNSETTLED


class Standings:
    """What is settled between options so far. A verdict that was once reached stays: it was right at the
    confidence asked for, and so are all of them together."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = tuple(options)
        self._verdicts: dict[tuple[str, str], Verdict] = {}

    def settle(self, one: str, other: str, verdict: Verdict) -> None:
        if self.between(one, other) is Verdict.UNSETTLED:
            self._verdicts[one, other] = verdict

    def between(self, one: str, other: str) -> Verdict:
        """Of `one` against `other`."""
        if (other, one) in self._verdicts:
            opposite = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}
            found = self._verdicts[other, one]
            return opposite.get(found, found)
        return self._verdicts.get((one, other), Verdict.UNSETTLED)

    @property
    def unsettled(self) -> tuple[tuple[str, str], ...]:
        """The pairs of which nothing is known, in order of the options."""
        return tuple(pair for pair in pairs_of(self.options) if self.between(*pair) is Verdict.UNSETTLED)

    def rank(self, option: str) -> tuple[int, int]:
        """The best and the worst place that an option may have, from 1; ties share the better one."""
        others = [other for other in self.options if other != option]
        beaten_by = sum(self.between(option, other) is Verdict.WORSE for other in others)
        open_to = sum(self.between(option, other) is Verdict.UNSETTLED for other in others)
        return 1 + beaten_by, 1 + beaten_by + open_to

    def tied_with(self, option: str) -> tuple[str, ...]:
        return tuple(o for o in self.options if o != option and self.between(option, o) is Verdict.TIE)


def pairs_of(options: Sequence[str]) -> list[tuple[str, str]]:
    return [(one, other) for k, one in enumerate(options) for other in options[k + 1 :]]
