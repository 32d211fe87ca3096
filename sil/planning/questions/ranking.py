"""When is a ranking settled? Repeated confidence intervals of all paired differences.

Every two options are compared by the differences of their replications (common random numbers). The mean
difference has a Student t interval; Bonferroni's correction for the numbers of pairs and of looks makes all
statements hold simultaneously at the confidence asked for. This is the selection procedure of Clark and
Yang 1986 ("A Bonferroni selection procedure when using common random numbers with unknown variances") with
the repeated confidence intervals of Jennison and Turnbull 1989 instead of its two stages, and a third
verdict: two options are tied if the whole interval is within the indifference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from sil.outcome.statistics import Interval, Sample, half_width


class Verdict(StrEnum):
    """Of the first of two options against the second. More is better."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    UNSETTLED = "unsettled"


OPPOSITE = {Verdict.BETTER: Verdict.WORSE, Verdict.WORSE: Verdict.BETTER}


def looks(first: int, most: int) -> tuple[int, ...]:
    """Numbers of replications at which verdicts are sought: from `first` on, half as many more each time, and
    finally `most`."""
    found = [min(first, most)]
    while found[-1] < most:
        found.append(min(most, found[-1] + max(1, found[-1] // 2)))
    return tuple(found)


@dataclass(frozen=True)
class Demand:
    """The simultaneous confidence of all statements about `pairs` pairs at `looks` looks."""

    confidence: float
    pairs: int
    looks: int

    def interval(self, values: Sample) -> Interval:
        """Of one mean at one look. Its half-width is 0 if all values are equal."""
        error = (1.0 - self.confidence) / (max(1, self.pairs) * self.looks)
        return Interval(float(np.mean(values)), half_width(values, 1.0 - error / 2))

    def verdict(self, differences: Sample, indifference: float) -> Verdict:
        found = self.interval(differences)
        if -indifference <= found.low and found.high <= indifference:
            return Verdict.TIE
        if found.low > 0.0:
            return Verdict.BETTER
        return Verdict.WORSE if found.high < 0.0 else Verdict.UNSETTLED


class Standings:
    """The verdicts between options so far. A verdict stays once it is reached: all verdicts hold
    simultaneously at the confidence asked for."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = tuple(options)
        self._verdicts: dict[tuple[str, str], Verdict] = {}

    def settle(self, one: str, other: str, verdict: Verdict) -> None:
        if self.between(one, other) is Verdict.UNSETTLED:
            self._verdicts[one, other] = verdict

    def between(self, one: str, other: str) -> Verdict:
        """Of `one` against `other`."""
        if (other, one) in self._verdicts:
            found = self._verdicts[other, one]
            return OPPOSITE.get(found, found)
        return self._verdicts.get((one, other), Verdict.UNSETTLED)

    def that_are(self, verdict: Verdict, option: str) -> tuple[str, ...]:
        """The other options against which `option` has this verdict."""
        return tuple(o for o in self.options if o != option and self.between(option, o) is verdict)

    @property
    def unsettled(self) -> tuple[tuple[str, str], ...]:
        """The pairs without a verdict, in order of the options."""
        pairs = ((one, other) for k, one in enumerate(self.options) for other in self.options[k + 1 :])
        return tuple(pair for pair in pairs if self.between(*pair) is Verdict.UNSETTLED)

    def rank(self, option: str) -> tuple[int, int]:
        """The best and the worst rank that an option may have, from 1; ties share the better one."""
        best = 1 + len(self.that_are(Verdict.WORSE, option))
        return best, best + len(self.that_are(Verdict.UNSETTLED, option))

    def tied_with(self, option: str) -> tuple[str, ...]:
        return self.that_are(Verdict.TIE, option)
