"""The claims ledger: what a paper states, the result here, and a verdict by a rule fixed in advance."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl

from sil.studies.rules import DECIDED, Judged, Verdict

SITES_NEEDED = Fraction(3, 4)
"""The least share of perturbed sites with the same outcome; with fewer, a verdict is one of the synthetic
times."""
CAVEATS = {
    "calibration": Verdict.CALIBRATION,
    "by_construction": Verdict.BY_CONSTRUCTION,
    "not_testable": Verdict.NOT_TESTABLE,
}
"""Keys of a statement in a file, each with why meeting the rule is no evidence: an input was chosen so that
it is met; the algorithm, or the testbed, ensures it; or the outcome decides nothing about the paper."""
SLIGHT_PERCENT = 10.0
"""Collins and George 2001 say that a degradation of "somewhat less than 10 %" is slight (section 5.3)."""


@dataclass(frozen=True, slots=True)
class Caveat:
    """Why meeting a rule is no evidence, and the verdict that a claim has instead."""

    verdict: Verdict
    why: str

    def __str__(self) -> str:
        return f"{self.verdict}: {self.why}"


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
    tolerance: str = "none: the words leave none"
    """Why the limits of the rule are where they are."""
    caveat: Caveat | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement, what was found, and the outcome of its rule."""

    statement: Statement
    ours: str
    judged: Judged
    beside: Mapping[str, Judged] = field(default_factory=dict)
    """The outcome for variants of what was measured."""
    inputs: Mapping[str, Judged] = field(default_factory=dict)
    """The outcome for other inputs that the paper leaves open, each as admissible as the one chosen here."""
    same_sites: int = 0
    """On how many perturbed sites, of `sites`, the rule has the same outcome."""
    sites: int = 0

    @property
    def claim(self) -> str:
        return self.statement.claim

    @property
    def verdict(self) -> Verdict:
        """That of the rule, unless there is a caveat, or another site or input contradicts it."""
        caveat, own = self.statement.caveat, self.judged.verdict
        of_caveat = caveat.verdict if caveat else own
        if of_caveat is Verdict.NOT_TESTABLE or own not in DECIDED:
            return of_caveat if of_caveat is not Verdict.DEPENDS_ON_SITE else own
        if of_caveat is Verdict.DEPENDS_ON_SITE or not caveat:
            return self._of_sites_and_inputs()
        # a rule that is not met although an input was chosen to meet it, is evidence
        return self._of_sites_and_inputs() if own is Verdict.DOES_NOT_HOLD else of_caveat

    def _of_sites_and_inputs(self) -> Verdict:
        caveat, own = self.statement.caveat, self.judged.verdict
        if self.sites:
            depends_on_site = self.same_sites < SITES_NEEDED * self.sites
        else:
            depends_on_site = caveat is not None and caveat.verdict is Verdict.DEPENDS_ON_SITE
        if depends_on_site:
            return Verdict.DEPENDS_ON_SITE
        confirmed = all(other.verdict is own for other in self.inputs.values())
        return own if confirmed else Verdict.DEPENDS_ON_INPUT

    def as_row(self) -> dict[str, str]:
        """As text, by column of a ledger."""
        variants = {**self.beside, **self.inputs}
        caveat = self.statement.caveat
        found = {
            "ours": self.ours,
            "distance": self.judged.distance,
            "verdict": self.verdict.value,
            "beside": "; ".join(f"{name}: {_outcome(judged)}" for name, judged in variants.items()),
            "caveat": str(caveat) if caveat else "",
            "sites": self._sites_as_text(),
        }
        return asdict(self.statement) | found

    def _sites_as_text(self) -> str:
        if not self.sites or self.judged.verdict is Verdict.NOT_TESTABLE:
            return ""
        return f"{self.judged.verdict} by the rule on {self.same_sites} of {self.sites} perturbed sites"


COLUMNS = (
    *("claim", "paper", "reading", "rule", "tolerance", "ours"),
    *("distance", "verdict", "beside", "caveat", "sites"),
)
"""Of a ledger."""


def _outcome(judged: Judged) -> str:
    return f"{judged.verdict} ({judged.distance})" if judged.distance else judged.verdict.value


def without_rule(statement: Statement, ours: str = "not tried") -> Claim:
    """A claim that no rule decides: the testbed itself or an input does, or nothing can."""
    return Claim(statement, ours, Judged(Verdict.HOLDS if statement.caveat else Verdict.NOT_TESTABLE))


# -- statements in files -------------------------------------------------------------------------------------


def statements(study: str, **limits: object) -> dict[str, Statement]:
    """Those of `statements/STUDY.toml` by name, with the limits of their rules in their texts."""
    path = Path(__file__).with_name("statements") / f"{study}.toml"
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    limits |= found.pop("texts", {})
    return {name: _statement(table, limits) for name, table in found.items()}


def _statement(table: dict[str, Any], limits: Mapping[str, object]) -> Statement:
    """With `of_the_site`, too few perturbed sites have the outcome of the built-in one; if the study is run
    with perturbed sites, these decide."""
    texts = {name: text.format_map(limits) for name, text in table.items() if isinstance(text, str)}
    caveats = [Caveat(verdict, texts.pop(key)) for key, verdict in CAVEATS.items() if key in texts]
    if "of_the_site" in table:
        same, sites = table["of_the_site"]
        why = (
            f"the execution times are synthetic, and only {same} of {sites} sites with perturbed times have "
            f"the outcome of the built-in one; a verdict needs three quarters"
        )
        caveats.append(Caveat(Verdict.DEPENDS_ON_SITE, why))
    if "rule" not in texts:
        why_none = texts.pop("without_rule", "")
        texts |= {"reading": "", "rule": f"none: {why_none}" if why_none else "none", "tolerance": ""}
    return Statement(**texts, caveat=next(iter(caveats), None))


# -- perturbed sites -----------------------------------------------------------------------------------------


def with_sites(claims: Sequence[Claim], elsewhere: Iterable[Sequence[Claim]]) -> list[Claim]:
    """The claims, each with the number of perturbed sites on which its rule has the same outcome.
    `elsewhere` are the same claims, in the same order, judged on each of these sites."""
    others = list(elsewhere)
    return [
        replace(
            claim,
            same_sites=sum(other[k].judged.verdict is claim.judged.verdict for other in others),
            sites=len(others),
        )
        for k, claim in enumerate(claims)
    ]


def ledger_frame(claims: Sequence[Claim]) -> pl.DataFrame:
    """One row per claim, for a CSV file."""
    rows = [claim.as_row() for claim in claims]
    return pl.DataFrame(rows, schema=dict.fromkeys(COLUMNS, pl.String))
