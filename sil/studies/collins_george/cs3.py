"""Third case study of Collins and George 2001: priority queues without preemption."""

from __future__ import annotations

import polars as pl

from sil.report.figures import bars, series
from sil.studies.collins_george.site_runs import Case, run_all
from sil.studies.findings import Drawing, Findings
from sil.studies.ledger import Claim, settled
from sil.studies.run_options import Course

SIZES = range(5, 501, 5)
LEVELS = ("high", "medium", "low")
DISTRIBUTIONS: dict[str, dict[str, float]] = {
    "10/10/80": {"high": 0.1, "medium": 0.1, "low": 0.8},
    "25/25/50": {"high": 0.25, "medium": 0.25, "low": 0.5},
    "50/25/25": {"high": 0.5, "medium": 0.25, "low": 0.25},
    "none": {"all": 1.0},
}
WITH_LEVELS = tuple(name for name in DISTRIBUTIONS if name != "none")
SCHEDULERS = ("sjs", "pjs")

CONVERGED_PERCENT = 5.0
"""Two totals that differ by less are taken for converged."""
MARGINAL_PERCENT = 10.0
SLIGHT_PERCENT = 10.0

METHOD = (
    "5 to 500 jobs in steps of 5, all there at time 0, job i of class i mod 5; the first jobs are high, "
    "the next medium, the rest low. The queues are served from high to low, each in one call of the "
    "scheduler; ready times carry over. The real schedulers in the harness; execution times are exact and "
    "synthetic (fixtures/README.md). There is no chance in it."
)


def study(seeds: int, course: Course) -> Findings:
    """Nothing is drawn by chance, so `seeds` has no effect."""
    cases = [
        _case(n, distribution, name) for distribution in DISTRIBUTIONS for name in SCHEDULERS for n in SIZES
    ]
    found = run_all(cases, course)
    return Findings(
        name="cs3",
        title="Case study 3: priority scheduling",
        source="Collins and George 2001, section 5.3",
        method=METHOD,
        claims=_claims(found),
        drawings=[*_figure_6(found), _figure_7(found)],
        tables={"Mean over all numbers of jobs of the total job time (s)": _totals(found)},
    )


def queue_tables(distribution: str, displaces: bool) -> list[dict[str, object]]:
    """The queues of one priority distribution, as an experiment file has them."""
    names = list(DISTRIBUTIONS[distribution])
    return [
        {
            "name": name,
            "priority": len(names) - k,
            **({"displaces": ["low"]} if displaces and name == "high" else {}),
        }
        for k, name in enumerate(names)
    ]


def _case(n: int, distribution: str, scheduler: str) -> Case:
    workload = {
        "jobs": n,
        "order": "cyclic",
        "queues": DISTRIBUTIONS[distribution],
        "queue_order": "blocks",
    }
    settings = {"workload": workload, "queues": queue_tables(distribution, displaces=False)}
    return Case({"distribution": distribution, "n": n}, settings, scheduler)


def _of_level(found: pl.DataFrame, distribution: str, level: str) -> pl.DataFrame:
    """One row per number of jobs at that level: n, jobs, and the sum of job times of each scheduler."""
    chosen = found.filter((pl.col("distribution") == distribution) & (pl.col("queue") == level))
    return chosen.pivot("scheduler", index=["n", "jobs"], values="sum_s", maintain_order=True)


def _change_percent(found: pl.DataFrame, distribution: str, level: str) -> pl.DataFrame:
    """Change of the level's job times from SJS to PJS."""
    change = 100 * (pl.col("pjs") / pl.col("sjs") - 1)
    return _of_level(found, distribution, level).select("n", "jobs", change=change)


def _convergence(found: pl.DataFrame, distribution: str) -> int:
    """The number of high-priority jobs from which on PJS and SJS stay within CONVERGED_PERCENT for them."""
    apart = _change_percent(found, distribution, "high").filter(pl.col("change").abs() >= CONVERGED_PERCENT)
    return 1 + max((int(n) for n in apart["jobs"]), default=0)


def _claims(found: pl.DataFrame) -> list[Claim]:
    high = {d: _change_percent(found, d, "high") for d in WITH_LEVELS}
    low = {d: _change_percent(found, d, "low") for d in WITH_LEVELS}
    mean_high = {d: float(frame["change"].mean()) for d, frame in high.items()}  # type: ignore[arg-type]
    mean_low = {d: float(frame["change"].mean()) for d, frame in low.items()}  # type: ignore[arg-type]
    worst_high = max(float(frame["change"].max()) for frame in high.values())  # type: ignore[arg-type]
    converged = {d: _convergence(found, d) for d in WITH_LEVELS}
    medium = _change_percent(found, "10/10/80", "medium")
    peak = medium.sort("change", descending=True).row(0, named=True)
    after = min(medium.filter(pl.col("jobs") > peak["jobs"])["change"].to_list())
    totals = _totals(found)
    whole = {
        (row["distribution"], name): row[name] for row in totals.iter_rows(named=True) for name in SCHEDULERS
    }
    degradation = {
        (d, name): 100 * (whole[d, name] / whole["none", name] - 1)
        for d in WITH_LEVELS
        for name in SCHEDULERS
    }
    between = {d: 100 * (whole[d, "pjs"] / whole[d, "sjs"] - 1) for d in DISTRIBUTIONS}
    return [
        Claim(
            "PJS is superior to SJS for high-priority jobs",
            "Figures 6a, 6d, 6g",
            "for every distribution the mean change of high job times is below 0 %, and nowhere above 0 %",
            f"mean {_listed(mean_high)}; worst {worst_high:+.1f} %",
            settled(max(mean_high.values()) < 0 and worst_high <= 1e-9),
        ),
        Claim(
            "How far PJS can favour high-priority jobs is directly related to their rarity",
            "Figures 6a, 6d, 6g",
            "the mean change is largest for 10/10/80, then 25/25/50, then 50/25/25",
            _listed(mean_high),
            settled(mean_high["10/10/80"] < mean_high["25/25/50"] < mean_high["50/25/25"] < 0),
        ),
        Claim(
            "The high-priority trends of PJS and SJS converge after about 30 high-priority jobs",
            "about 30 (Figure 6a)",
            f"from 20 to 40 high jobs on, the totals stay within {CONVERGED_PERCENT:g} % (10/10/80)",
            f"from {converged['10/10/80']} high jobs on",
            settled(20 <= converged["10/10/80"] <= 40),
        ),
        Claim(
            "Medium-priority times rise sharply as the high-priority trends converge, and then fall sharply",
            "Figure 6b",
            "the largest excess over SJS is at 20 to 40 medium jobs, and falls to half of that or less",
            f"{peak['change']:+.1f} % at {peak['jobs']} medium jobs, then down to {after:+.1f} %",
            settled(20 <= peak["jobs"] <= 40 and peak["change"] > 0 and after <= peak["change"] / 2),
        ),
        Claim(
            "The same happens earlier where high-priority jobs outnumber the medium ones",
            "Figures 6e and 6h",
            "that excess is largest at fewer medium jobs for 50/25/25 than for 25/25/50",
            _peaks(found),
            settled(_peak(found, "50/25/25") < _peak(found, "25/25/50")),
        ),
        Claim(
            "For low-priority jobs PJS is marginally inferior with 10/10/80 and 25/25/50",
            "Figures 6c and 6f",
            f"the mean change of low job times is above 0 and below {MARGINAL_PERCENT:g} % for both",
            _listed({d: mean_low[d] for d in ("10/10/80", "25/25/50")}),
            settled(all(0 < mean_low[d] < MARGINAL_PERCENT for d in ("10/10/80", "25/25/50"))),
        ),
        Claim(
            "For low-priority jobs PJS is comparable to SJS with 50/25/25",
            "Figure 6i",
            f"the mean change is within {CONVERGED_PERCENT:g} % and smaller than for the other two",
            _listed(mean_low),
            settled(
                abs(mean_low["50/25/25"]) <= CONVERGED_PERCENT
                and abs(mean_low["50/25/25"]) < min(abs(mean_low[d]) for d in ("10/10/80", "25/25/50"))
            ),
        ),
        Claim(
            "In total, priority costs something, generally less than 10 %",
            "less than 10 % (Figure 7)",
            f"in five of six cases or more, the total is higher, by less than {SLIGHT_PERCENT:g} %",
            "; ".join(f"{name} {d} {v:+.1f} %" for (d, name), v in degradation.items()),
            settled(sum(0 < v < SLIGHT_PERCENT for v in degradation.values()) >= 5),
        ),
        Claim(
            "In total, there is no significant difference between PJS and SJS",
            "Figure 7",
            "for every distribution the totals differ by less than 5 %",
            _listed(between),
            settled(all(abs(v) < 5 for v in between.values())),
        ),
    ]


def _peak(found: pl.DataFrame, distribution: str) -> int:
    medium = _change_percent(found, distribution, "medium").sort("change", descending=True)
    return int(medium["jobs"][0])


def _peaks(found: pl.DataFrame) -> str:
    return ", ".join(f"{d}: at {_peak(found, d)} medium jobs" for d in ("25/25/50", "50/25/25"))


def _listed(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:+.1f} %" for name, value in values.items())


def _totals(found: pl.DataFrame) -> pl.DataFrame:
    of_all = found.group_by("distribution", "scheduler", "n", maintain_order=True).agg(pl.col("sum_s").sum())
    mean = of_all.group_by("distribution", "scheduler", maintain_order=True).agg(
        pl.col("sum_s").mean().round(0)
    )
    return mean.pivot("scheduler", index="distribution", values="sum_s", maintain_order=True)


def _figure_6(found: pl.DataFrame) -> list[Drawing]:
    drawings = []
    letters = iter("abcdefghi")
    for distribution in WITH_LEVELS:
        for level in LEVELS:
            frame = _of_level(found, distribution, level).unpivot(
                list(SCHEDULERS), index="jobs", variable_name="scheduler", value_name="s"
            )
            letter = next(letters)
            drawings.append(
                Drawing(
                    f"figure-6{letter}",
                    f"Figure 6{letter}: {level}-priority jobs, {distribution}",
                    series(
                        frame,
                        "jobs",
                        f"Number of {level}-priority jobs",
                        "s",
                        "Total job time (s)",
                        "scheduler",
                        "Scheduler",
                        height=220,
                    ),
                )
            )
    return drawings


def _figure_7(found: pl.DataFrame) -> Drawing:
    frame = _totals(found).unpivot(
        list(SCHEDULERS), index="distribution", variable_name="scheduler", value_name="s"
    )
    chart = bars(
        frame,
        "distribution",
        "Priority distribution (high/medium/low, %)",
        "s",
        "Mean of the total job time (s)",
        "scheduler",
        "Scheduler",
    )
    return Drawing("figure-7", "Figure 7: total job time, mean over 5 to 500 jobs", chart)
