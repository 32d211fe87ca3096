"""The claims ledger: what a paper states, the result here, and a verdict by a rule fixed in advance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from math import ceil

import polars as pl

from sil.outcome.statistics import Interval


class Verdict(StrEnum):
    HOLDS = "holds"
    PARTLY = "partly"
    DOES_NOT_HOLD = "does not hold"
    CALIBRATION = "calibration"
    NOT_TESTABLE = "not testable"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome of a rule. `distance` is that from its threshold, as text: by how much the case that
    decides lies on the side on which the claim holds (negative: on the other side)."""

    verdict: Verdict
    distance: str = ""


Judge = Callable[[Iterable[Interval], str], Judged]
"""A rule on margins, which are positive where a claim holds, in a unit."""
MOST = Fraction(2, 3)
"""The least share of cases that are most of them: Hanzich et al. 2006 say "in most of the cases" of 10 of the
15 cells of their Table 1."""
NO_TOLERANCE = "none: the words leave none"
SLIGHT_PERCENT = 10.0
"""Collins and George 2001 say that a degradation of "somewhat less than 10 %" is slight (section 5.3)."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence of a paper that can be checked, and how that is done. Fixed before the first run."""

    claim: str
    paper: str
    """The paper's words, and where they are."""
    reading: str
    """What is measured for these words."""
    rule: str
    """The evidence for which the claim holds."""
    tolerance: str
    """Why the limits of the rule are where they are."""
    calibrated: str = ""
    """The input that was chosen, or that fixes the outcome, so that meeting the rule is no evidence."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement, what was found, and the outcome of its rule."""

    statement: Statement
    ours: str
    judged: Judged
    beside: Mapping[str, Judged] = field(default_factory=dict)
    """The outcome for variants of what was measured."""
    sites: str = ""
    """On how many perturbed sites the rule has the same outcome."""

    @property
    def claim(self) -> str:
        return self.statement.claim

    @property
    def verdict(self) -> Verdict:
        """That of the rule; but a rule that an input was chosen to meet is evidence only if it is not met."""
        if self.statement.calibrated and self.judged.verdict is not Verdict.DOES_NOT_HOLD:
            return Verdict.CALIBRATION
        return self.judged.verdict

    def as_row(self) -> dict[str, str]:
        """As text, by column of a ledger."""
        found = {
            "ours": self.ours,
            "distance": self.judged.distance,
            "verdict": self.verdict.value,
            "beside": "; ".join(f"{name}: {_outcome(judged)}" for name, judged in self.beside.items()),
            "sites": self.sites,
        }
        return asdict(self.statement) | found


COLUMNS = (
    *("claim", "paper", "reading", "rule", "tolerance", "ours"),
    *("distance", "verdict", "beside", "calibrated", "sites"),
)
"""Of a ledger."""


def _outcome(judged: Judged) -> str:
    return f"{judged.verdict} ({judged.distance})" if judged.distance else judged.verdict.value


def not_testable(claim: str, paper: str, why: str, ours: str = "not tried") -> Claim:
    return Claim(Statement(claim, paper, "", f"none: {why}", ""), ours, Judged(Verdict.NOT_TESTABLE))


def by_construction(claim: str, paper: str, why: str, ours: str) -> Claim:
    """A claim of which the testbed itself, or an input, decides."""
    return Claim(Statement(claim, paper, "", "none", "", why), ours, Judged(Verdict.CALIBRATION))


# -- rules ---------------------------------------------------------------------------------------------------


def positive(found: Interval) -> Verdict:
    """Holds if the whole interval is above zero; does not if none of it is."""
    if found.low > 0.0:
        return Verdict.HOLDS
    return Verdict.DOES_NOT_HOLD if found.high <= 0.0 else Verdict.INCONCLUSIVE


def all_positive(found: Iterable[Interval], unit: str = "") -> Judged:
    """Holds if every interval is above zero; does not if one of them is not above zero anywhere."""
    found = list(found)
    return _positive(found, len(found), unit)


def some_positive(found: Iterable[Interval], unit: str = "") -> Judged:
    """Holds if at least one holds; does not if none can."""
    return _positive(list(found), 1, unit)


def most_positive(found: Iterable[Interval], unit: str = "") -> Judged:
    """Holds if MOST hold; does not if so many cannot."""
    found = list(found)
    return _positive(found, ceil(MOST * len(found)), unit)


def all_or_partly_positive(found: Iterable[Interval], unit: str = "") -> Judged:
    """Holds if all hold; partly if MOST do; otherwise as `most_positive`. The distance is that from all."""
    found = list(found)
    every, most = all_positive(found, unit), most_positive(found, unit)
    verdict = Verdict.PARTLY if most.verdict is Verdict.HOLDS else most.verdict
    return every if every.verdict is Verdict.HOLDS else replace(every, verdict=verdict)


def together(*parts: Judged) -> Judged:
    """Of rules with different units: holds if all hold; does not if one does not."""
    verdicts = [part.verdict for part in parts]
    worst = next(
        (v for v in (Verdict.DOES_NOT_HOLD, Verdict.INCONCLUSIVE) if v in verdicts),
        Verdict.HOLDS,
    )
    return Judged(worst, "; ".join(part.distance for part in parts))


def _positive(found: Sequence[Interval], needed: int, unit: str) -> Judged:
    """Holds if it holds in as many cases as needed; does not if it cannot. The case that decides is the one
    with the needed-th largest mean."""
    if not found:
        return Judged(Verdict.NOT_TESTABLE, "no case")
    deciding = sorted(found, key=lambda x: x.mean, reverse=True)[needed - 1]
    distance = signed(deciding, unit)
    verdicts = [positive(x) for x in found]
    if verdicts.count(Verdict.HOLDS) >= needed:
        return Judged(Verdict.HOLDS, distance)
    possible = len(verdicts) - verdicts.count(Verdict.DOES_NOT_HOLD)
    return Judged(Verdict.INCONCLUSIVE if possible >= needed else Verdict.DOES_NOT_HOLD, distance)


def exactly(value: float) -> Interval:
    """A result without randomness."""
    return Interval(value, None)


def above(found: Interval, limit: float) -> Interval:
    """By how much a quantity exceeds a limit."""
    return Interval(found.mean - limit, found.half_width)


def below(found: Interval, limit: float) -> Interval:
    """By how much a quantity falls short of a limit."""
    return Interval(limit - found.mean, found.half_width)


def within(found: Interval, low: float, high: float) -> list[Interval]:
    """Both positive if a quantity is between two limits."""
    return [above(found, low), below(found, high)]


def inside(found: Interval, low: float, high: float) -> Interval:
    """Positive if a quantity is between two limits: the distance from the nearer one."""
    return min(within(found, low, high), key=lambda x: x.mean)


# -- perturbed sites -----------------------------------------------------------------------------------------


def with_sites(claims: Sequence[Claim], elsewhere: Iterable[Sequence[Claim]]) -> list[Claim]:
    """The claims, each with the number of perturbed sites on which its rule has the same outcome.
    `elsewhere` are the same claims, in the same order, judged on each of these sites."""
    others = list(elsewhere)

    def counted(k: int, claim: Claim) -> str:
        if claim.judged.verdict is Verdict.NOT_TESTABLE:
            return ""
        found = [other[k].judged.verdict for other in others]
        own = claim.judged.verdict
        return f"{own} by the rule on {found.count(own)} of {len(found)} perturbed sites"

    return (
        [replace(claim, sites=counted(k, claim)) for k, claim in enumerate(claims)] if others else [*claims]
    )


# -- text ----------------------------------------------------------------------------------------------------


def count_of(found: Iterable[Interval]) -> str:
    """The number of cases in which a quantity is positive."""
    verdicts = [positive(x) for x in found]
    yes, no = verdicts.count(Verdict.HOLDS), verdicts.count(Verdict.DOES_NOT_HOLD)
    return f"so in {yes} of {len(verdicts)} cases, surely not so in {no}"


def text(found: Interval, digits: int = 1, unit: str = "") -> str:
    """As text, for example 12.3 ± 0.4 s."""
    half = "" if found.half_width is None else f" ± {found.half_width:,.{digits}f}"
    return f"{found.mean:,.{digits}f}{half}{f' {unit}' if unit else ''}"


def signed(found: Interval, unit: str = "") -> str:
    """As text with three significant digits and a sign, for example +12.3 ± 0.4 s."""
    half = "" if found.half_width is None else f" ± {_three(found.half_width)}"
    sign = "-" if found.mean < 0 else "+"
    return f"{sign}{_three(abs(found.mean))}{half}{f' {unit}' if unit else ''}"


def _three(value: float) -> str:
    """Three significant digits, without an exponent for ordinary numbers."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def range_of(found: Sequence[Interval], unit: str) -> str:
    """The smallest and the largest, as text."""
    if not found:
        return "in none"
    low, high = min(found, key=lambda x: x.mean), max(found, key=lambda x: x.mean)
    return f"from {text(low)} to {text(high)} {unit}"


def ledger_frame(claims: Sequence[Claim]) -> pl.DataFrame:
    """One row per claim, for a CSV file."""
    rows = [claim.as_row() for claim in claims]
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String))
