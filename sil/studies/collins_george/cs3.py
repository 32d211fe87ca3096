"""Third case study of Collins and George 2001: priority queues without preemption."""

from __future__ import annotations

from itertools import product

import polars as pl

from sil.report.figures import bars, lines
from sil.report.page import Part
from sil.studies.collins_george.site_runs import SiteCase, run_all
from sil.studies.findings import Findings
from sil.studies.ledger import Claim, certain
from sil.workers.runner import Runner

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

CONVERGED_PERCENT = 5.0
"""Two totals converge if they differ by less."""
MARGINAL_PERCENT = 10.0
SLIGHT_PERCENT = 10.0

METHOD = (
    "5 to 500 jobs in steps of 5, all submitted at time 0, job i of class i mod 5; the first jobs are "
    "high, the next medium, the rest low. The queues are served from high to low, each in one call of the "
    "scheduler; ready times carry over. The real schedulers run in the harness; execution times are exact "
    "and synthetic (fixtures/README.md), and nothing is random."
)


def study(seeds: int, runner: Runner) -> Findings:
    """Nothing is random, so `seeds` has no effect."""
    cases = [_case(n, d, name) for d, name, n in product(DISTRIBUTIONS, SCHEDULERS, SIZES)]
    found = run_all(cases, runner)
    of_levels, totals = _of_levels(found), _totals(found)
    return Findings(
        title="Case study 3: priority scheduling",
        source="Collins and George 2001, section 5.3",
        method=METHOD,
        claims=[
            *_claims_about_high_jobs(of_levels),
            *_claims_about_other_jobs(of_levels),
            *_claims_about_totals(totals),
        ],
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


def _case(n: int, distribution: str, scheduler: str) -> SiteCase:
    queues = DISTRIBUTIONS[distribution]
    workload = {"jobs": n, "order": "cyclic", "queues": queues, "queue_order": "blocks"}
    settings = {"workload": workload, "queues": queue_tables(distribution, displaces=False)}
    return SiteCase({"distribution": distribution, "n": n}, settings, scheduler)


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


def _claims_about_high_jobs(of_levels: Frames) -> list[Claim]:
    high = _mean_changes(of_levels, "high")
    worst_high = max(x for d in WITH_LEVELS for x in of_levels[d, "high"]["change"])
    differ = of_levels["10/10/80", "high"].filter(pl.col("change").abs() >= CONVERGED_PERCENT)
    converged = 1 + max((int(n) for n in differ["jobs"]), default=0)
    return [
        Claim(
            "PJS is superior to SJS for high-priority jobs",
            "Figures 6a, 6d, 6g",
            "for every distribution the mean change of high job times is below 0 %, and nowhere above 0 %",
            f"mean {_listed(high)}; worst {worst_high:+.1f} %",
            certain(max(high.values()) < 0 and worst_high <= 1e-9),
        ),
        Claim(
            "How far PJS can favour high-priority jobs is directly related to their rarity",
            "Figures 6a, 6d, 6g",
            "the mean change is largest for 10/10/80, then 25/25/50, then 50/25/25",
            _listed(high),
            certain(high["10/10/80"] < high["25/25/50"] < high["50/25/25"] < 0),
        ),
        Claim(
            "The high-priority trends of PJS and SJS converge after about 30 high-priority jobs",
            "about 30 (Figure 6a)",
            f"from 20 to 40 high jobs on, the totals stay within {CONVERGED_PERCENT:g} % (10/10/80)",
            f"from {converged} high jobs on",
            certain(20 <= converged <= 40),
        ),
    ]


def _claims_about_other_jobs(of_levels: Frames) -> list[Claim]:
    low = _mean_changes(of_levels, "low")
    medium = {
        d: of_levels[d, "medium"].sort("change", descending=True).select("jobs", "change").rows()
        for d in WITH_LEVELS
    }
    peaks = {d: int(rows[0][0]) for d, rows in medium.items()}
    (peak_jobs, peak), *_ = medium["10/10/80"]
    after = min(change for jobs, change in medium["10/10/80"] if jobs > peak_jobs)
    return [
        Claim(
            "Medium-priority times rise sharply as the high-priority trends converge, and then fall sharply",
            "Figure 6b",
            "the largest excess over SJS is at 20 to 40 medium jobs, and falls to half of that or less",
            f"{peak:+.1f} % at {peak_jobs} medium jobs, then down to {after:+.1f} %",
            certain(20 <= peak_jobs <= 40 and peak > 0 and after <= peak / 2),
        ),
        Claim(
            "The same happens earlier where high-priority jobs outnumber the medium ones",
            "Figures 6e and 6h",
            "that excess is largest at fewer medium jobs for 50/25/25 than for 25/25/50",
            ", ".join(f"{d}: at {peaks[d]} medium jobs" for d in ("25/25/50", "50/25/25")),
            certain(peaks["50/25/25"] < peaks["25/25/50"]),
        ),
        Claim(
            "For low-priority jobs PJS is marginally inferior with 10/10/80 and 25/25/50",
            "Figures 6c and 6f",
            f"the mean change of low job times is above 0 and below {MARGINAL_PERCENT:g} % for both",
            _listed({d: low[d] for d in RARE_HIGH}),
            certain(all(0 < low[d] < MARGINAL_PERCENT for d in RARE_HIGH)),
        ),
        Claim(
            "For low-priority jobs PJS is comparable to SJS with 50/25/25",
            "Figure 6i",
            f"the mean change is within {CONVERGED_PERCENT:g} % and smaller than for the other two",
            _listed(low),
            certain(
                abs(low["50/25/25"]) <= CONVERGED_PERCENT
                and abs(low["50/25/25"]) < min(abs(low[d]) for d in RARE_HIGH)
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
            "In total, priority costs something, generally less than 10 %",
            "less than 10 % (Figure 7)",
            f"in five of six cases or more, the total is higher, by less than {SLIGHT_PERCENT:g} %",
            "; ".join(f"{name} {d} {v:+.1f} %" for (d, name), v in degradation.items()),
            certain(sum(0 < v < SLIGHT_PERCENT for v in degradation.values()) >= 5),
        ),
        Claim(
            "In total, there is no significant difference between PJS and SJS",
            "Figure 7",
            "for every distribution the totals differ by less than 5 %",
            _listed(between),
            certain(all(abs(v) < 5 for v in between.values())),
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
