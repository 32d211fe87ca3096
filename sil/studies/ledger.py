"""The claims ledger: what a paper says, what came out here, and a verdict by a rule that was fixed before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from sil.outcome.statistics import Interval


class Verdict(StrEnum):
    HOLDS = "holds"
    PARTLY = "partly"
    DOES_NOT_HOLD = "does not hold"
    CALIBRATION = "calibration"
    NOT_TESTABLE = "not testable"
    CANNOT_BE_TOLD = "cannot be told at this noise"


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of a paper that can be checked. `rule` says what has to be seen for it to hold."""

    claim: str
    paper: str
    rule: str
    ours: str
    verdict: Verdict


def positive(found: Interval) -> Verdict:
    """Holds where the whole interval is above zero, does not where none of it is."""
    return all_positive([found])


def all_positive(found: Sequence[Interval]) -> Verdict:
    """Holds where every interval is above zero; does not where one of them has nothing above it."""
    if all(x.low > 0.0 for x in found):
        return Verdict.HOLDS
    if any(x.high <= 0.0 for x in found):
        return Verdict.DOES_NOT_HOLD
    return Verdict.CANNOT_BE_TOLD


def some_positive(found: Sequence[Interval]) -> Verdict:
    """Holds where one is surely above zero; does not where all are surely not."""
    if any(positive(x) is Verdict.HOLDS for x in found):
        return Verdict.HOLDS
    surely_not = all(positive(x) is Verdict.DOES_NOT_HOLD for x in found)
    return Verdict.DOES_NOT_HOLD if surely_not else Verdict.CANNOT_BE_TOLD


def most_positive(found: Sequence[Interval]) -> Verdict:
    """Holds where more than half are surely above zero; does not where at least half are surely not."""
    verdicts = [positive(x) for x in found]
    if verdicts.count(Verdict.HOLDS) > len(found) / 2:
        return Verdict.HOLDS
    rejected = verdicts.count(Verdict.DOES_NOT_HOLD) >= len(found) / 2
    return Verdict.DOES_NOT_HOLD if rejected else Verdict.CANNOT_BE_TOLD


def all_or_partly_positive(found: Sequence[Interval]) -> Verdict:
    """Holds where all are surely above zero; partly where more than half are; else as `most_positive`."""
    every, most = all_positive(found), most_positive(found)
    return Verdict.PARTLY if most is Verdict.HOLDS and every is not Verdict.HOLDS else most


def counted(found: Iterable[Interval]) -> str:
    """In how many cases a quantity is surely above zero."""
    verdicts = [positive(x) for x in found]
    above, not_above = verdicts.count(Verdict.HOLDS), verdicts.count(Verdict.DOES_NOT_HOLD)
    return f"so in {above} of {len(verdicts)} cases, surely not so in {not_above}"


def settled(holds: bool) -> Verdict:
    """For what has no chance in it."""
    return Verdict.HOLDS if holds else Verdict.DOES_NOT_HOLD


def less(found: Interval, by: float) -> Interval:
    """The interval of a quantity less a constant."""
    return Interval(found.mean - by, found.half_width)


def shown(found: Interval, digits: int = 1, unit: str = "") -> str:
    """As text, for example 12.3 ± 0.4 s."""
    half = "" if found.half_width is None else f" ± {found.half_width:,.{digits}f}"
    return f"{found.mean:,.{digits}f}{half}{f' {unit}' if unit else ''}"


def ledger_frame(claims: Sequence[Claim]) -> pl.DataFrame:
    """One row per claim, for a CSV file."""
    rows = [(c.claim, c.paper, c.ours, c.verdict.value, c.rule) for c in claims]
    return pl.DataFrame(rows, schema=["claim", "paper", "ours", "verdict", "rule"], orient="row")
