"""The claims ledger: what a paper states, the result here, and a verdict by a rule fixed in advance."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import polars as pl

from sil.studies.rules import DECIDED, JUDGES, Estimate, RuleOutcome, Verdict, count_of, range_of

if TYPE_CHECKING:
    from sil.report.page import Part  # which workers do without

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
    """A statement, what was found, and the outcome of its rule; `beside`, that for variants of what was
    measured; `inputs`, that for other inputs that the paper leaves open, each as admissible as the one chosen
    here. On `same_sites` of `sites` perturbed sites, the rule has the same outcome."""

    statement: Statement
    ours: str
    judged: RuleOutcome
    beside: Mapping[str, RuleOutcome] = field(default_factory=dict)
    inputs: Mapping[str, RuleOutcome] = field(default_factory=dict)
    same_sites: int = 0
    sites: int = 0

    @property
    def claim(self) -> str:
        return self.statement.claim

    @property
    def verdict(self) -> Verdict:
        """The verdict of the rule, unless there is a caveat, or another site or input contradicts it."""
        caveat, own = self.statement.caveat, self.judged.verdict
        of_caveat = caveat.verdict if caveat else own
        depends_on_site = of_caveat is Verdict.DEPENDS_ON_SITE
        if of_caveat is Verdict.NOT_TESTABLE or own not in DECIDED:
            return own if depends_on_site else of_caveat
        # a rule that is not met although an input was chosen to meet it, is evidence
        if caveat and not depends_on_site and own is not Verdict.DOES_NOT_HOLD:
            return of_caveat
        if self.same_sites < SITES_NEEDED * self.sites if self.sites else depends_on_site:
            return Verdict.DEPENDS_ON_SITE
        confirmed = all(other.verdict is own for other in self.inputs.values())
        return own if confirmed else Verdict.DEPENDS_ON_INPUT

    def as_row(self) -> dict[str, str]:
        """The claim as text, by column of a ledger."""
        own, caveat = self.judged, self.statement.caveat
        variants = {name: str(judged) for name, judged in {**self.beside, **self.inputs}.items()}
        robust = f"{own.verdict} by the rule on {self.same_sites} of {self.sites} perturbed sites"
        found = {
            "ours": self.ours,
            "distance": own.distance,
            "verdict": self.verdict.value,
            "beside": "; ".join(f"{name}: {outcome}" for name, outcome in variants.items()),
            "caveat": str(caveat) if caveat else "",
            "sites": robust if self.sites and own.verdict is not Verdict.NOT_TESTABLE else "",
        }
        return asdict(self.statement) | found


COLUMNS = (
    *("claim", "paper", "reading", "rule", "tolerance", "ours"),
    *("distance", "verdict", "beside", "caveat", "sites"),
)
"""The columns of a ledger."""


@dataclass(frozen=True)
class Findings:
    """A study's claims, drawings and tables, and the method behind them."""

    title: str
    source: str
    method: str
    claims: list[Claim]
    drawings: list[Part]
    """The figures of the paper, drawn from our results. The name of each is its file name: "figure-5a"."""
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    """Tables by title; each is also a CSV file."""
    data: dict[str, pl.DataFrame] = field(default_factory=dict)
    """Tables too long to be shown, by the name of their CSV file."""


Outcomes = Mapping[str, Iterable[Estimate] | RuleOutcome]
"""Cases, or the outcome of a rule on them, by variant."""
NO_OTHERS: Outcomes = MappingProxyType({})


class Study:
    """What `statements/NAME.toml` says of a study and of the paper's claims; its texts name the `limits` of
    rules. A claim has a `judge` (of JUDGES), the `unit` of its distance, and a rule with its tolerance; those
    of the study are for claims that have none."""

    def __init__(self, name: str, **limits: object) -> None:
        common, found = _read("common"), _read(name)
        self._about = {"judge": "all", "unit": "points"} | found.pop("study")
        self._limits = common | limits | found.pop("texts", {})
        self._judges, self._units = (
            {name: table.pop(key, self._about[key]) for name, table in found.items()}
            for key in ("judge", "unit")
        )
        usual = {key: text for key, text in self._about.items() if key in ("rule", "tolerance")}
        self.statements = {
            name: _statement(table if {"rule", "without_rule"} & set(table) else usual | table, self._limits)
            for name, table in found.items()
        }

    def unit(self, name: str) -> str:
        """The unit of the distance from the threshold of a claim."""
        return str(self._units[name])

    def claim(
        self,
        name: str,
        cases: Iterable[Estimate] | RuleOutcome,
        ours: str | None = None,
        beside: Outcomes = NO_OTHERS,
        inputs: Outcomes = NO_OTHERS,
    ) -> Claim:
        """A claim, judged by its cases. What was found is by default their number and range; for `beside` and
        `inputs` see `Claim`."""
        cases = cases if isinstance(cases, RuleOutcome) else list(cases)
        if ours is None:
            assert not isinstance(cases, RuleOutcome), f"what was found of {name} is missing"
            ours = f"{count_of(cases)}; {range_of(cases, self.unit(name))}"
        next_to, of_inputs = (
            {of: self.judged(name, each) for of, each in more.items()} for more in (beside, inputs)
        )
        return Claim(self.statements[name], ours, self.judged(name, cases), next_to, of_inputs)

    def judged(self, name: str, cases: Iterable[Estimate] | RuleOutcome) -> RuleOutcome:
        """The outcome of the rule of a claim."""
        return cases if isinstance(cases, RuleOutcome) else JUDGES[self._judges[name]](cases, self.unit(name))

    def without_rule(self, name: str, ours: str = "not tried") -> Claim:
        """A claim that no rule decides: the testbed itself or an input does, or nothing can."""
        decided = Verdict.HOLDS if self.statements[name].caveat else Verdict.NOT_TESTABLE
        return self.claim(name, RuleOutcome(decided), ours)

    def findings(
        self,
        claims: Iterable[Claim],
        drawings: Iterable[Part],
        tables: dict[str, pl.DataFrame],
        data: dict[str, pl.DataFrame] | None = None,
        **values: object,
    ) -> Findings:
        """The findings, with `values` in the text on the method."""
        method = self._about["method"].format_map(self._limits | values)
        title, source = self._about["title"], self._about["source"]
        return Findings(title, source, method, list(claims), list(drawings), tables, data or {})


def _read(name: str) -> dict[str, Any]:
    path = Path(__file__).with_name("statements") / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


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


def judged_on_sites(judge: Callable[[int], Sequence[Claim]], sites: int) -> list[Claim]:
    """The claims that `judge` makes of the built-in site (0), each with the number of perturbed sites, 1 to
    `sites`, on which its rule has the same outcome."""
    claims, *others = (judge(k) for k in range(sites + 1))
    found = []
    for k, claim in enumerate(claims):
        same = sum(other[k].judged.verdict is claim.judged.verdict for other in others)
        found.append(replace(claim, same_sites=same, sites=sites))
    return found


def ledger_frame(claims: Sequence[Claim]) -> pl.DataFrame:
    """One row per claim, for a CSV file."""
    return pl.DataFrame([claim.as_row() for claim in claims], schema=dict.fromkeys(COLUMNS, pl.String))
