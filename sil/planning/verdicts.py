"""Verdicts between options: what an interval of their differences settles, and what has been settled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import ceil, floor, log10

from sil.outcome.paired import skewed_interval
from sil.outcome.statistics import Interval, Sample, n_different


class PairVerdict(StrEnum):
    """The verdict on the first of two options against the second. More is better."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    NO_BETTER = "no better"
    """Worse, or a tie. It settles a pair whose first option costs as much as the second, or more."""
    NO_WORSE = "no worse"
    UNSETTLED = "unsettled"


OPPOSITE = {PairVerdict.BETTER: PairVerdict.WORSE, PairVerdict.NO_BETTER: PairVerdict.NO_WORSE}
OPPOSITE |= {second: first for first, second in OPPOSITE.items()}


def looks(first: int, most: int) -> tuple[int, ...]:
    """Numbers of replications at which verdicts are sought: from `first` on, half as many more each time, and
    finally `most`."""
    found = [min(first, most)]
    while found[-1] < most:
        found.append(min(most, found[-1] + max(1, found[-1] // 2)))
    return tuple(found)


MIN_FOR_A_TIE = 59
"""The fewest replications that settle a tie. An effect in one of twenty is in none of them with probability
0.95^59, less than 5 %."""


@dataclass(frozen=True)
class JointConfidence:
    """The simultaneous confidence of all statements about `pairs` pairs at `looks` looks."""

    confidence: float
    pairs: int
    looks: int

    @property
    def of_each(self) -> float:
        """The confidence of a single interval at one look."""
        return 1.0 - (1.0 - self.confidence) / (max(1, self.pairs) * self.looks)

    def interval(self, values: Sample) -> Interval:
        """The interval of one mean at one look."""
        return skewed_interval(values, self.of_each)

    def verdict(self, gained: Sample, indifference: float) -> PairVerdict:
        """The verdict on a difference; with a single replication, that of its value."""
        found, n = self.interval(gained), len(gained)
        if found.half_width is None and n > 1 and (n_different(gained) or n < MIN_FOR_A_TIE):
            return PairVerdict.UNSETTLED
        if -indifference <= found.low and found.high <= indifference:
            return PairVerdict.TIE if _knows_a_tie(found, n) else PairVerdict.UNSETTLED
        if found.low > 0.0:
            return PairVerdict.BETTER
        return PairVerdict.WORSE if found.high < 0.0 else PairVerdict.UNSETTLED

    def is_no_better(self, gained: Sample, indifference: float) -> bool:
        """Whether the gain is settled to be at most the indifference."""
        found = self.interval(gained)
        return found.high <= indifference and _knows_a_tie(found, len(gained))

    def n_needed(self, gained: Sample, indifference: float) -> int | None:
        """About how many replications would settle such differences, as a better, a worse or a tied option,
        to two digits; None if they have no interval."""
        found, n = self.interval(gained), len(gained)
        if found.half_width is None:
            return None
        to_a_tie = indifference - abs(found.mean)
        needed = float(n * (found.half_width / max(abs(found.mean), to_a_tie)) ** 2)
        needed = max(needed, n + 1, MIN_FOR_A_TIE if to_a_tie > abs(found.mean) else 0)
        unit = 10.0 ** max(0, floor(log10(needed)) - 1)
        return int(unit) * ceil(needed / unit)


def _knows_a_tie(found: Interval, n: int) -> bool:
    """Whether rare effects are accounted for."""
    return n == 1 or (n >= MIN_FOR_A_TIE and found.half_width is not None)


class Standings:
    """The verdicts between options so far. A verdict stays once it is reached: all verdicts hold
    simultaneously at the confidence asked for."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = tuple(options)
        self._verdicts: dict[tuple[str, str], PairVerdict] = {}

    def settle(self, one: str, other: str, verdict: PairVerdict) -> None:
        if self.between(one, other) is PairVerdict.UNSETTLED:
            self._verdicts[one, other] = verdict
            self._verdicts[other, one] = OPPOSITE.get(verdict, verdict)

    def between(self, one: str, other: str) -> PairVerdict:
        """The verdict on `one` against `other`."""
        return self._verdicts.get((one, other), PairVerdict.UNSETTLED)

    def that_are(self, verdict: PairVerdict, option: str) -> tuple[str, ...]:
        """The other options against which `option` has this verdict."""
        return tuple(o for o in self.options if o != option and self.between(option, o) is verdict)

    @property
    def unsettled(self) -> tuple[tuple[str, str], ...]:
        """The pairs without a verdict, in order of the options."""
        pairs = combinations(self.options, 2)
        return tuple(pair for pair in pairs if self.between(*pair) is PairVerdict.UNSETTLED)

    def rank(self, option: str) -> tuple[int, int]:
        """The best and the worst rank that an option may have, from 1; ties share the better one."""
        best = 1 + len(self.that_are(PairVerdict.WORSE, option))
        return best, best + len(self.that_are(PairVerdict.UNSETTLED, option))

    def tied_with(self, option: str) -> tuple[str, ...]:
        return self.that_are(PairVerdict.TIE, option)

    def first(self, figures: Mapping[str, float]) -> str:
        """The option with the highest figure among those that are not settled to be worse than another, or
        no better than one that costs no more."""
        is_beaten = (PairVerdict.WORSE, PairVerdict.NO_BETTER)
        beaten = {one for one in figures for other in figures if self.between(one, other) in is_beaten}
        unbeaten = [option for option in figures if option not in beaten]
        return max(unbeaten or figures, key=lambda option: figures[option])

    def in_order(self, figures: Mapping[str, float]) -> Iterator[str]:
        """The options, the best first: none before one that is settled to be better, otherwise by figure.
        Figures alone are not enough: they are means over different numbers of replications, since settled
        options stop early."""
        left = dict(figures)
        while left:
            first = self.first(left)
            yield first
            del left[first]
