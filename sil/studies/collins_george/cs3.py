"""Third case study of Collins and George 2001: priority queues without preemption."""

from __future__ import annotations

from itertools import pairwise, product

import polars as pl

from sil.report.figures import bars, lines
from sil.report.page import Part
from sil.studies.collins_george.site_runs import AS_BUILT_IN, PERTURBED, SiteCase, run_all
from sil.studies.ledger import SLIGHT_PERCENT, Claim, Findings, Study, judged_on_sites
from sil.studies.rules import Estimate, below, exactly, inside, together, within
from sil.workers.runner import Runner

CONVERGED_PERCENT = 5.0
"""Two totals converge if they differ by less."""
ROUNDING = 1e-9
STUDY = Study("cs3", converged_percent=CONVERGED_PERCENT, rounding=ROUNDING, slight_percent=SLIGHT_PERCENT)

SIZES = range(5, 501, 5)
LEVELS = ("high", "medium", "low")
DISTRIBUTIONS: dict[str, dict[str, float]] = {
    "10/10/80": {"high": 0.1, "medium": 0.1, "low": 0.8},
    "25/25/50": {"high": 0.25, "medium": 0.25, "low": 0.5},
    "50/25/25": {"high": 0.5, "medium": 0.25, "low": 0.25},
    "none": {"all": 1.0},
}
WITH_LEVELS = tuple(name for name in DISTRIBUTIONS if name != "none")
RARE_HIGH = WITH_LEVELS[:2]
SCHEDULERS = ("sjs", "pjs")


def study(seeds: int, runner: Runner, sites: int = 0) -> Findings:
    """Nothing is random, so `seeds` has no effect. The claims are also judged on `sites` perturbed sites."""
    runner.total = (2 + sites) * len(_cases())
    claims = judged_on_sites(lambda site: _claims(run_all(_cases(site), runner)), sites)
    found = run_all(_cases(), runner)
    totals = _totals(found)
    tables = {"Mean over all numbers of jobs of the total job time (s)": totals}
    perturbed = f" {PERTURBED}" if sites else ""
    return STUDY.findings(claims, _drawings(_of_levels(found), totals), tables, perturbed=perturbed)


def queue_tables(distribution: str, displaces: bool) -> list[dict[str, object]]:
    """The queues of one priority distribution, as in an experiment file."""
    names = list(DISTRIBUTIONS[distribution])
    tables: list[dict[str, object]] = [
        {"name": name, "priority": len(names) - k} for k, name in enumerate(names)
    ]
    if displaces:
        tables[0]["displaces"] = ["low"]
    return tables


def _cases(site: int = AS_BUILT_IN) -> list[SiteCase]:
    return [_case(n, d, name, site) for d, name, n in product(DISTRIBUTIONS, SCHEDULERS, SIZES)]


def _case(n: int, distribution: str, scheduler: str, site: int = AS_BUILT_IN) -> SiteCase:
    queues = DISTRIBUTIONS[distribution]
    workload = {"jobs": n, "order": "cyclic", "queues": queues, "queue_order": "blocks"}
    settings = {"workload": workload, "queues": queue_tables(distribution, displaces=False)}
    return SiteCase({"distribution": distribution, "n": n}, settings, scheduler, site=site)


Frames = dict[tuple[str, str], pl.DataFrame]
"""Results by distribution and level."""


def _of_levels(found: pl.DataFrame) -> Frames:
    """For each distribution and level, per number of jobs: n, the level's jobs, the sum of their job times
    under each scheduler, and the `change` from SJS to PJS (%)."""
    return {
        (d, level): found.filter(distribution=d, queue=level)
        .pivot("scheduler", index=["n", "jobs"], values="sum_s", maintain_order=True)
        .with_columns(change=100 * (pl.col("pjs") / pl.col("sjs") - 1))
        for d, level in product(WITH_LEVELS, LEVELS)
    }


def _claims(found: pl.DataFrame) -> list[Claim]:
    of_levels = _of_levels(found)
    return [
        *claims_about_levels(of_levels),
        *_claims_about_totals(_totals(found)),
        _claim_about_the_trade(of_levels),
    ]


def claims_about_levels(of_levels: Frames) -> list[Claim]:
    claim = STUDY.claim
    high, low = (
        {d: float(of_levels[d, level]["change"].to_numpy().mean()) for d in WITH_LEVELS}
        for level in ("high", "low")
    )
    worst_high = max(x for d in WITH_LEVELS for x in of_levels[d, "high"]["change"])
    in_order = [exactly(high[more] - high[rarer]) for rarer, more in pairwise(WITH_LEVELS)]
    differ = of_levels["10/10/80", "high"].filter(pl.col("change").abs() >= CONVERGED_PERCENT)
    converged = 1 + max((int(n) for n in differ["jobs"]), default=0)
    medium = {
        d: of_levels[d, "medium"].sort("change", descending=True).select("jobs", "change").rows()
        for d in WITH_LEVELS
    }
    peaks = {d: int(rows[0][0]) for d, rows in medium.items()}
    (peak_jobs, peak), *_ = medium["10/10/80"]
    after = min((change for jobs, change in medium["10/10/80"] if jobs > peak_jobs), default=peak)
    peak_is_near = {
        "jobs": within(exactly(peak_jobs - converged), -5 - ROUNDING, 5 + ROUNDING),
        "points": [exactly(peak - SLIGHT_PERCENT), exactly(peak / 2 - after)],
    }
    slight = (x for d in RARE_HIGH for x in within(exactly(low[d]), 0, SLIGHT_PERCENT))
    limits = (CONVERGED_PERCENT, *(abs(low[d]) for d in RARE_HIGH))
    superior = [*(below(exactly(x), 0.0) for x in high.values()), below(exactly(worst_high), ROUNDING)]
    at_peak = f"{peak:+.1f} % at {peak_jobs} medium jobs (convergence at {converged})"
    earlier = ", ".join(f"{d}: at {peaks[d]} medium jobs" for d in ("25/25/50", "50/25/25"))
    comparable = (exactly(limit - abs(low["50/25/25"])) for limit in limits)
    return [
        claim("superior", superior, f"mean {_listed(high)}; worst {worst_high:+.1f} %"),
        claim("rarity", [*in_order, below(exactly(high["50/25/25"]), 0.0)], _listed(high)),
        claim("convergence", within(exactly(converged), 25, 35), f"from {converged} high jobs on"),
        claim("rise-and-fall", together(peak_is_near), f"{at_peak}, then down to {after:+.1f} %"),
        claim("earlier", [exactly(peaks["25/25/50"] - peaks["50/25/25"])], earlier),
        claim("inferior", slight, _listed({d: low[d] for d in RARE_HIGH})),
        claim("comparable", comparable, _listed(low)),
    ]


def _claims_about_totals(totals: pl.DataFrame) -> list[Claim]:
    of = {row["distribution"]: row for row in totals.iter_rows(named=True)}
    degradation = {
        (d, name): 100 * (of[d][name] / of["none"][name] - 1) for d, name in product(WITH_LEVELS, SCHEDULERS)
    }
    between = {d: 100 * (total_s["pjs"] / total_s["sjs"] - 1) for d, total_s in of.items()}
    cost = "; ".join(f"{name} {d} {v:+.1f} %" for (d, name), v in degradation.items())
    slight = (inside(exactly(v), 0, SLIGHT_PERCENT) for v in degradation.values())
    alike = (exactly(CONVERGED_PERCENT - abs(v)) for v in between.values())
    return [STUDY.claim("cost", slight, cost), STUDY.claim("no-difference", alike, _listed(between))]


def _claim_about_the_trade(of_levels: Frames) -> Claim:
    def lost_s(distribution: str, level: str) -> float:
        """How much slower PJS is than SJS, over all numbers of jobs."""
        frame = of_levels[distribution, level]
        return float((frame["pjs"] - frame["sjs"]).to_numpy().sum())

    def relative(*others: str) -> dict[str, float]:
        return {d: sum(lost_s(d, x) for x in others) / -lost_s(d, "high") for d in WITH_LEVELS}

    def near(found: dict[str, float]) -> list[Estimate]:
        return [x for v in found.values() for x in within(exactly(v), 0.5, 1.5)]

    both = relative("medium", "low")
    listed = ", ".join(f"{d}: {v:.2f} times" for d, v in both.items())
    return STUDY.claim("even-trade", near(both), listed, beside={"low jobs only": near(relative("low"))})


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f} %" for name, value in values.items())


def _totals(found: pl.DataFrame) -> pl.DataFrame:
    of_all = found.group_by("distribution", "scheduler", "n", maintain_order=True).agg(pl.col("sum_s").sum())
    by_scheduler = of_all.group_by("distribution", "scheduler", maintain_order=True)
    mean = by_scheduler.agg(pl.col("sum_s").mean().round(0))
    return mean.pivot("scheduler", index="distribution", values="sum_s", maintain_order=True)


def _drawings(of_levels: Frames, totals: pl.DataFrame) -> list[Part]:
    drawings = []
    for letter, ((d, level), frame) in zip("abcdefghi", of_levels.items(), strict=True):
        points = frame.unpivot(SCHEDULERS, index="jobs").iter_rows()
        x_title = f"Number of {level}-priority jobs"
        chart = lines(points, x_title, "Total job time (s)", "Scheduler", height=220)
        drawings.append(
            Part(f"Figure 6{letter}: {level}-priority jobs, {d}", chart, name=f"figure-6{letter}")
        )
    rows = totals.unpivot(SCHEDULERS, index="distribution").iter_rows()
    x_title = "Priority distribution (high/medium/low, %)"
    chart = bars(rows, x_title, "Mean of the total job time (s)", "Scheduler")
    return [*drawings, Part("Figure 7: total job time, mean over 5 to 500 jobs", chart, name="figure-7")]
