"""The rules of verdicts: what follows for a claim from its cases, and how likely that is to be wrong; and
the samples that a study measured. Worker processes import this, so it draws nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.statistics import CONFIDENCE, Interval, Sample, interval


class Verdict(StrEnum):
    HOLDS = "holds"
    PARTLY = "partly"
    DOES_NOT_HOLD = "does not hold"
    CALIBRATION = "calibration"
    BY_CONSTRUCTION = "by construction"
    DEPENDS_ON_SITE = "depends on the site"
    DEPENDS_ON_INPUT = "depends on the input"
    NOT_TESTABLE = "not testable"
    INCONCLUSIVE = "inconclusive"


DECIDED = (Verdict.HOLDS, Verdict.PARTLY, Verdict.DOES_NOT_HOLD)
"""Outcomes of rules that another site, or another input, can contradict."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A quantity: a value for each replication, or a single one that is exact. `looks`: how often, at most,
    it was to be examined while replications were added."""

    values: Sample
    looks: int = 1

    def interval(self, cases: int = 1) -> Interval:
        """At 95 % confidence; for one of several cases, so that all intervals, at all looks, contain their
        means with this confidence (Bonferroni)."""
        return interval(self.values, 1 - (1 - CONFIDENCE) / (cases * self.looks))

    @property
    def mean(self) -> float:
        return float(self.values.mean())

    @property
    def low(self) -> float:
        return self.interval().low

    @property
    def high(self) -> float:
        return self.interval().high


@dataclass(frozen=True, slots=True)
class RuleOutcome:
    """The outcome of a rule. `distance` is that from its threshold, as text: by how much the case that
    decides lies on the side on which the claim holds (negative: on the other side)."""

    verdict: Verdict
    distance: str = ""

    def __str__(self) -> str:
        return f"{self.verdict} ({self.distance})" if self.distance else self.verdict.value


Judge = Callable[[Iterable[Estimate], str], RuleOutcome]
"""A rule on margins, which are positive where a claim holds, in a unit."""
MOST = Fraction(2, 3)
"""The least share of cases that are most of them: Hanzich et al. 2006 say "in most of the cases" of 10 of the
15 cells of their Table 1."""


# -- rules ---------------------------------------------------------------------------------------------------
#
# An interval at 95 % misses its mean in one case of twenty, so a rule on several cases must not take any one
# of them for proof. All rules ask whether at least a number of cases is positive, and are wrong, in either
# direction, no more often than a single interval, however the cases depend on each other (Benjamini and
# Heller 2008, by Bonferroni).


def positive(found: Estimate, of: Interval | None = None) -> Verdict:
    """The verdict on one case, or one of several, by its interval there: holds if the whole interval is above
    zero; does not if none of it is. Several replications without a spread decide nothing, since a rare effect
    may be in none of them; a single one is exact."""
    of = of or found.interval()
    if len(found.values) > 1 and of.half_width is None:
        return Verdict.INCONCLUSIVE
    if of.low > 0.0:
        return Verdict.HOLDS
    return Verdict.DOES_NOT_HOLD if of.high <= 0.0 else Verdict.INCONCLUSIVE


def all_positive(found: Iterable[Estimate], unit: str = "") -> RuleOutcome:
    """Holds if every interval is above zero; does not if one, given their number, is not above zero."""
    found = list(found)
    return _positive(found, len(found), unit)


def some_positive(found: Iterable[Estimate], unit: str = "") -> RuleOutcome:
    """Holds if at least one is above zero, given their number; does not if none can be."""
    return _positive(list(found), 1, unit)


def most_positive(found: Iterable[Estimate], unit: str = "") -> RuleOutcome:
    """Holds if MOST hold; does not if too few can."""
    found = list(found)
    return _positive(found, ceil(MOST * len(found)), unit)


def all_or_partly_positive(found: Iterable[Estimate], unit: str = "") -> RuleOutcome:
    """Holds if all hold; partly if MOST do; otherwise as `most_positive`. The distance is that of
    `all_positive`."""
    found = list(found)
    every, most = all_positive(found, unit), most_positive(found, unit)
    verdict = Verdict.PARTLY if most.verdict is Verdict.HOLDS else most.verdict
    return every if every.verdict is Verdict.HOLDS else replace(every, verdict=verdict)


JUDGES: dict[str, Judge] = {
    "all": all_positive,
    "some": some_positive,
    "most": most_positive,
    "all or partly": all_or_partly_positive,
}
"""The rules, by their names in the files of statements."""


def together(found: Mapping[str, Sequence[Estimate]]) -> RuleOutcome:
    """As `all_positive`, of cases by their units."""
    verdict = all_positive([x for of_unit in found.values() for x in of_unit]).verdict
    distances = (all_positive(of_unit, unit).distance for unit, of_unit in found.items())
    return RuleOutcome(verdict, "; ".join(distances))


def by_open_limit(strict: RuleOutcome, lenient: RuleOutcome) -> RuleOutcome:
    """The verdict on a limit that the words leave open: holds by a strict reading; does not even by a lenient
    one."""
    if strict.verdict is Verdict.HOLDS or lenient.verdict is Verdict.DOES_NOT_HOLD:
        return strict if strict.verdict is Verdict.HOLDS else lenient
    return RuleOutcome(Verdict.INCONCLUSIVE, f"{strict.distance}, or {lenient.distance}")


def _positive(found: Sequence[Estimate], needed: int, unit: str) -> RuleOutcome:
    """Holds if it holds in as many cases as needed; does not if it cannot. The case that decides is that with
    the needed-th best limit of its interval, which is as wide as the number of cases requires; if none
    decides, it is that with the needed-th largest mean."""
    if not found:
        return RuleOutcome(Verdict.NOT_TESTABLE, "no case")
    refuting = len(found) - needed + 1
    intervals = [(x, x.interval(refuting)) for x in found]
    holding = [of for x, of in intervals if positive(x, of) is Verdict.HOLDS]
    if len(holding) >= needed:
        deciding = sorted(holding, key=lambda x: x.low)[-needed]
        return RuleOutcome(Verdict.HOLDS, signed(deciding, unit))
    intervals = [(x, x.interval(needed)) for x in found]
    failing = [of for x, of in intervals if positive(x, of) is Verdict.DOES_NOT_HOLD]
    if len(failing) >= refuting:
        deciding = sorted(failing, key=lambda x: x.high)[refuting - 1]
        return RuleOutcome(Verdict.DOES_NOT_HOLD, signed(deciding, unit))
    undecided = sorted(found, key=lambda x: x.mean)[-needed]
    return RuleOutcome(Verdict.INCONCLUSIVE, signed(undecided.interval(needed), unit))


def exactly(value: float) -> Estimate:
    """A result without randomness."""
    return Estimate(np.array([value]))


def above(found: Estimate, limit: float) -> Estimate:
    """How much a quantity exceeds a limit."""
    return replace(found, values=found.values - limit)


def below(found: Estimate, limit: float) -> Estimate:
    """How much a quantity falls short of a limit."""
    return replace(found, values=limit - found.values)


def within(found: Estimate, low: float, high: float) -> list[Estimate]:
    """Both positive if a quantity is between two limits."""
    return [above(found, low), below(found, high)]


def inside(found: Estimate, low: float, high: float) -> Estimate:
    """Positive if a quantity is between two limits: the distance from the nearer one."""
    return min(within(found, low, high), key=lambda x: x.mean)


# -- text ----------------------------------------------------------------------------------------------------


def count_of(found: Iterable[Estimate]) -> str:
    """The number of cases in which a quantity is positive, each by itself."""
    verdicts = [positive(x) for x in found]
    yes, no = verdicts.count(Verdict.HOLDS), verdicts.count(Verdict.DOES_NOT_HOLD)
    return f"so in {yes} of {len(verdicts)} cases, surely not so in {no}"


def text(found: Estimate, digits: int = 1, unit: str = "") -> str:
    """The estimate as text, for example 12.3 ± 0.4 s."""
    return f"{found.interval().text(f',.{digits}f', plus_minus='± ')}{f' {unit}' if unit else ''}"


def signed(found: Interval, unit: str = "") -> str:
    """The interval as text with three significant digits and a sign, for example +12.3 ± 0.4 s."""
    half = "" if found.half_width is None else f" ± {_three(found.half_width)}"
    sign = "-" if found.mean < 0 else "+"
    return f"{sign}{_three(abs(found.mean))}{half}{f' {unit}' if unit else ''}"


def _three(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def range_of(found: Sequence[Estimate], unit: str) -> str:
    """The smallest and the largest, as text."""
    if not found:
        return "in none"
    low, high = min(found, key=lambda x: x.mean), max(found, key=lambda x: x.mean)
    return f"from {text(low)} to {text(high)} {unit}"


class StudyFailed(Exception):
    """A scheduler broke a rule in a study. The message is one sentence."""


class GridSamples:
    """What a study measured: rows with a replication, coordinates on the `axes` of its grid, and measures."""

    def __init__(self, rows: pl.DataFrame, *axes: str) -> None:
        self._rows = rows
        self._axes = axes

    def __call__(self, measure: str, *point: object) -> Sample:
        """A measure at a point of the grid: one value per replication, in their order."""
        at = dict(zip(self._axes, point, strict=True))
        return self._rows.filter(**at).sort("replication")[measure].to_numpy()

    def up_to(self, replications: int) -> GridSamples:
        """The first replications only."""
        return GridSamples(self._rows.filter(pl.col("replication") < replications), *self._axes)

    def mean(self, measure: str, *point: object) -> float:
        return float(self(measure, *point).mean())


def table(columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=list(columns), orient="row")
