"""The claims ledger: what a paper states, the result here, and a verdict by a rule fixed in advance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

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
class Claim:
    """One sentence of a paper that can be checked. `rule` states the evidence for which it holds."""

    claim: str
    paper: str
    rule: str
    ours: str
    verdict: Verdict


not_testable = partial(Claim, verdict=Verdict.NOT_TESTABLE)


def positive(found: Interval) -> Verdict:
    """Holds if the whole interval is above zero; does not if none of it is."""
    if found.low > 0.0:
        return Verdict.HOLDS
    return Verdict.DOES_NOT_HOLD if found.high <= 0.0 else Verdict.INCONCLUSIVE


def all_positive(found: Iterable[Interval]) -> Verdict:
    """Holds if every interval is above zero; does not if one of them is not above zero anywhere."""
    found = list(found)
    return _positive(found, len(found))


def some_positive(found: Iterable[Interval]) -> Verdict:
    """Holds if at least one holds; does not if none can."""
    return _positive(list(found), 1)


def most_positive(found: Iterable[Interval]) -> Verdict:
    """Holds if more than half hold; does not if at least half do not."""
    found = list(found)
    return _positive(found, len(found) // 2 + 1)


def all_or_partly_positive(found: Iterable[Interval]) -> Verdict:
    """Holds if all hold; partly if more than half do; otherwise as `most_positive`."""
    found = list(found)
    every, most = all_positive(found), most_positive(found)
    return Verdict.PARTLY if most is Verdict.HOLDS and every is not Verdict.HOLDS else most


def _positive(found: Sequence[Interval], needed: int) -> Verdict:
    """Holds if it holds in as many cases as needed; does not if it cannot."""
    verdicts = [positive(x) for x in found]
    if verdicts.count(Verdict.HOLDS) >= needed:
        return Verdict.HOLDS
    possible = len(verdicts) - verdicts.count(Verdict.DOES_NOT_HOLD)
    return Verdict.INCONCLUSIVE if possible >= needed else Verdict.DOES_NOT_HOLD


def certain(holds: bool) -> Verdict:
    """For results without randomness."""
    return Verdict.HOLDS if holds else Verdict.DOES_NOT_HOLD


def above(found: Interval, limit: float) -> Interval:
    """By how much a quantity exceeds a limit."""
    return Interval(found.mean - limit, found.half_width)


def below(found: Interval, limit: float) -> Interval:
    """By how much a quantity falls short of a limit."""
    return Interval(limit - found.mean, found.half_width)


def within(found: Interval, low: float, high: float) -> list[Interval]:
    """Both positive if a quantity is between two limits."""
    return [above(found, low), below(found, high)]


def count_of(found: Iterable[Interval]) -> str:
    """The number of cases in which a quantity is positive."""
    verdicts = [positive(x) for x in found]
    yes, no = verdicts.count(Verdict.HOLDS), verdicts.count(Verdict.DOES_NOT_HOLD)
    return f"so in {yes} of {len(verdicts)} cases, surely not so in {no}"


def text(found: Interval, digits: int = 1, unit: str = "") -> str:
    """As text, for example 12.3 ± 0.4 s."""
    half = "" if found.half_width is None else f" ± {found.half_width:,.{digits}f}"
    return f"{found.mean:,.{digits}f}{half}{f' {unit}' if unit else ''}"


def range_of(found: Sequence[Interval], unit: str) -> str:
    """The smallest and the largest, as text."""
    if not found:
        return "in none"
    low, high = min(found, key=lambda x: x.mean), max(found, key=lambda x: x.mean)
    return f"from {text(low)} to {text(high)} {unit}"


def ledger_frame(claims: Sequence[Claim]) -> pl.DataFrame:
    """One row per claim, for a CSV file."""
    rows = [(c.claim, c.paper, c.ours, c.verdict.value, c.rule) for c in claims]
    return pl.DataFrame(rows, schema=["claim", "paper", "ours", "verdict", "rule"], orient="row")
