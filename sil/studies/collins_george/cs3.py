"""Third case study of Collins and George 2001: priority queues without preemption."""

from __future__ import annotations

from itertools import pairwise, product

import polars as pl

from sil.report.figures import bars, lines
from sil.report.page import Part
from sil.studies.collins_george import perturbed
from sil.studies.collins_george.perturbed import AS_BUILT_IN, judged_on_sites
from sil.studies.collins_george.site_runs import SiteCase, run_all
from sil.studies.findings import Findings
from sil.studies.ledger import SLIGHT_PERCENT, Claim, statements
from sil.studies.rules import Judged, all_positive, below, exactly, inside, most_positive, together, within
from sil.workers.runner import Runner

CONVERGED_PERCENT = 5.0
"""Two totals converge if they differ by less."""
ROUNDING = 1e-9
STATED = statements(
    "cs3", converged_percent=CONVERGED_PERCENT, rounding=ROUNDING, slight_percent=SLIGHT_PERCENT
)

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

METHOD = (
    "5 to 500 jobs in steps of 5, all submitted at time 0, job i of class i mod 5; the first jobs are "
    "high, the next medium, the rest low. The queues are served from high to low, each in one call of the "
    "scheduler; ready times carry over. The real schedulers run in the harness; execution times are exact "
    "and synthetic (fixtures/README.md), and nothing is random."
)


def study(seeds: int, runner: Runner, sites: int = 0) -> Findings:
    """Nothing is random, so `seeds` has no effect. The claims are also judged on `sites` perturbed sites."""
    runner.total = (2 + sites) * len(_cases())
    claims = judged_on_sites(lambda site: _claims(run_all(_cases(site), runner)), sites)
    found = run_all(_cases(), runner)
    of_levels, totals = _of_levels(found), _totals(found)
    return Findings(
        title="Case study 3: priority scheduling",
        source="Collins and George 2001, section 5.3",
        method=f"{METHOD}{f' {perturbed.METHOD}' if sites else ''}",
        claims=claims,
        drawings=_drawings(of_levels, totals),
        tables={"Mean over all numbers of jobs of the total job time (s)": totals},
    )


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
"""By distribution and level."""


def _of_levels(found: pl.DataFrame) -> Frames:
    """Of each distribution and level, per number of jobs: n, the level's jobs, the sum of their job times
    under each scheduler, and the `change` from SJS to PJS (%)."""
    return {
        (d, level): found.filter(distribution=d, queue=level)
        .pivot("scheduler", index=["n", "jobs"], values="sum_s", maintain_order=True)
        .with_columns(change=100 * (pl.col("pjs") / pl.col("sjs") - 1))
        for d, level in product(WITH_LEVELS, LEVELS)
    }


def _mean_changes(of_levels: Frames, level: str) -> dict[str, float]:
    return {d: float(of_levels[d, level]["change"].to_numpy().mean()) for d in WITH_LEVELS}


def _claims(found: pl.DataFrame) -> list[Claim]:
    of_levels, totals = _of_levels(found), _totals(found)
    return [
        *_claims_about_high_jobs(of_levels),
        *_claims_about_other_jobs(of_levels),
        *_claims_about_totals(totals),
        _claim_about_the_trade(of_levels),
    ]


def _claim_about_the_trade(of_levels: Frames) -> Claim:
    def lost_s(distribution: str, level: str) -> float:
        """By how much PJS is slower than SJS, over all numbers of jobs."""
        frame = of_levels[distribution, level]
        return float((frame["pjs"] - frame["sjs"]).to_numpy().sum())

    def relative(*others: str) -> dict[str, float]:
        return {d: sum(lost_s(d, x) for x in others) / -lost_s(d, "high") for d in WITH_LEVELS}

    def judged(found: dict[str, float]) -> Judged:
        return all_positive((x for v in found.values() for x in within(exactly(v), 0.5, 1.5)), "times")

    both = relative("medium", "low")
    return Claim(
        STATED["even-trade"],
        ", ".join(f"{d}: {v:.2f} times" for d, v in both.items()),
        judged(both),
        beside={"low jobs only": judged(relative("low"))},
    )


def _claims_about_high_jobs(of_levels: Frames) -> list[Claim]:
    high = _mean_changes(of_levels, "high")
    worst_high = max(x for d in WITH_LEVELS for x in of_levels[d, "high"]["change"])
    converged = _converged(of_levels)
    in_order = [exactly(high[more] - high[rarer]) for rarer, more in pairwise(WITH_LEVELS)]
    return [
        Claim(
            STATED["superior"],
            f"mean {_listed(high)}; worst {worst_high:+.1f} %",
            all_positive(
                [*(below(exactly(x), 0.0) for x in high.values()), below(exactly(worst_high), ROUNDING)],
                "points",
            ),
        ),
        Claim(
            STATED["rarity"],
            _listed(high),
            all_positive([*in_order, below(exactly(high["50/25/25"]), 0.0)], "points"),
        ),
        Claim(
            STATED["convergence"],
            f"from {converged} high jobs on",
            all_positive(within(exactly(converged), 25, 35), "jobs"),
        ),
    ]


def _converged(of_levels: Frames) -> int:
    differ = of_levels["10/10/80", "high"].filter(pl.col("change").abs() >= CONVERGED_PERCENT)
    return 1 + max((int(n) for n in differ["jobs"]), default=0)


def _claims_about_other_jobs(of_levels: Frames) -> list[Claim]:
    low = _mean_changes(of_levels, "low")
    medium = {
        d: of_levels[d, "medium"].sort("change", descending=True).select("jobs", "change").rows()
        for d in WITH_LEVELS
    }
    peaks = {d: int(rows[0][0]) for d, rows in medium.items()}
    (peak_jobs, peak), *_ = medium["10/10/80"]
    after = min((change for jobs, change in medium["10/10/80"] if jobs > peak_jobs), default=peak)
    converged = _converged(of_levels)
    return [
        Claim(
            STATED["rise-and-fall"],
            f"{peak:+.1f} % at {peak_jobs} medium jobs (convergence at {converged}), then down to "
            f"{after:+.1f} %",
            together(
                {
                    "jobs": within(exactly(peak_jobs - converged), -5 - ROUNDING, 5 + ROUNDING),
                    "points": [exactly(peak - SLIGHT_PERCENT), exactly(peak / 2 - after)],
                }
            ),
        ),
        Claim(
            STATED["earlier"],
            ", ".join(f"{d}: at {peaks[d]} medium jobs" for d in ("25/25/50", "50/25/25")),
            all_positive([exactly(peaks["25/25/50"] - peaks["50/25/25"])], "jobs"),
        ),
        Claim(
            STATED["inferior"],
            _listed({d: low[d] for d in RARE_HIGH}),
            all_positive(
                (x for d in RARE_HIGH for x in within(exactly(low[d]), 0, SLIGHT_PERCENT)), "points"
            ),
        ),
        Claim(
            STATED["comparable"],
            _listed(low),
            all_positive(
                (
                    exactly(limit - abs(low["50/25/25"]))
                    for limit in (CONVERGED_PERCENT, *(abs(low[d]) for d in RARE_HIGH))
                ),
                "points",
            ),
        ),
    ]


def _claims_about_totals(totals: pl.DataFrame) -> list[Claim]:
    of = {row["distribution"]: row for row in totals.iter_rows(named=True)}
    degradation = {
        (d, name): 100 * (of[d][name] / of["none"][name] - 1) for d, name in product(WITH_LEVELS, SCHEDULERS)
    }
    between = {d: 100 * (total_s["pjs"] / total_s["sjs"] - 1) for d, total_s in of.items()}
    return [
        Claim(
            STATED["cost"],
            "; ".join(f"{name} {d} {v:+.1f} %" for (d, name), v in degradation.items()),
            most_positive((inside(exactly(v), 0, SLIGHT_PERCENT) for v in degradation.values()), "points"),
        ),
        Claim(
            STATED["no-difference"],
            _listed(between),
            all_positive((exactly(CONVERGED_PERCENT - abs(v)) for v in between.values()), "points"),
        ),
    ]


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
        title = f"Figure 6{letter}: {level}-priority jobs, {d}"
        drawings.append(Part(title, chart, name=f"figure-6{letter}"))
    rows = totals.unpivot(SCHEDULERS, index="distribution").iter_rows()
    x_title = "Priority distribution (high/medium/low, %)"
    chart = bars(rows, x_title, "Mean of the total job time (s)", "Scheduler")
    title = "Figure 7: total job time, mean over 5 to 500 jobs"
    return [*drawings, Part(title, chart, name="figure-7")]
