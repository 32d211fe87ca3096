"""Second case study of Collins and George 2001: what parallel execution saves, under light and heavy load."""

from __future__ import annotations

from statistics import fmean

import polars as pl

from sil.report.figures import PALETTE, WIDTH, lines
from sil.report.page import Part
from sil.report.vega_lite import Figure, column, value
from sil.studies.collins_george.site_runs import SiteCase, run_all
from sil.studies.findings import Findings
from sil.studies.ledger import Claim, certain
from sil.workers.runner import Runner

SIZES = range(5, 101)
COMPARED = ("pjs", "pjs_try_next", "gsa", "optimal", "pjs_optimal")
COMPARED_SIZES = (5, 10, 20, 30, 40, 50, 70, 100)
LIGHT, HEAVY = 30, 60
EQUAL = [n for n in SIZES if n % 5 == 0]
"""The paper's job sets are an equal mix of the five classes, so claims are judged by these."""
ROUNDING = 1e-9

METHOD = (
    "5 to 100 jobs, all submitted at time 0, job i of class i mod 5, on 142 machines in 18 clusters. The "
    "real schedulers run to completion in the harness; execution times are exact, and nothing is random. "
    "Claims are judged by multiples of five, where the mix is equal, as in the paper. The execution times "
    "are synthetic, chosen to match the axes of the paper's figures (fixtures/README.md), so trust trends "
    "over the load, not magnitudes."
)


def study(seeds: int, runner: Runner) -> Findings:
    """Nothing is random, so `seeds` has no effect."""
    cases = [_case(n, name) for n in SIZES for name in ("sjs", "pjs")]
    cases += [_case(n, name) for n in COMPARED_SIZES for name in COMPARED if name != "pjs"]
    found = run_all(cases, runner).select("n", "scheduler", "sum_s")
    totals = found.pivot("scheduler", index="n", values="sum_s", maintain_order=True)
    saving = totals.select(
        "n", *((100 - 100 * pl.col(name) / pl.col("sjs")).alias(name) for name in COMPARED)
    )
    comparison = saving.filter(pl.col("n").is_in(COMPARED_SIZES)).rename({"n": "jobs"})
    return Findings(
        title="Case study 2: scheduling performance",
        source="Collins and George 2001, section 5.2",
        method=METHOD,
        claims=_claims(totals, saving),
        drawings=_drawings(totals, saving),
        tables={"Saving against SJS (%)": comparison.with_columns(pl.col(*COMPARED).round(1))},
    )


def _case(n: int, scheduler: str) -> SiteCase:
    return SiteCase({"n": n}, {"workload": {"jobs": n, "order": "cyclic"}}, scheduler)


def _claims(totals: pl.DataFrame, saving: pl.DataFrame) -> list[Claim]:
    any_mix = dict(saving.select("n", "pjs").iter_rows())
    percent = {n: any_mix[n] for n in EQUAL}
    sjs = dict(totals.select("n", "sjs").iter_rows())
    most_at, any_most_at = (max(found, key=lambda n: found[n]) for found in (percent, any_mix))
    least = min(percent.values())
    light = fmean(percent[n] for n in EQUAL if n <= LIGHT)
    heavy = fmean(percent[n] for n in EQUAL if n >= HEAVY)
    beyond = [n for n in EQUAL if n > LIGHT]
    late = [n for n in beyond if percent[n] > ROUNDING]
    return [
        Claim(
            "PJS is in all cases at least equal to SJS",
            "never worse (Figure 5)",
            "the saving is nowhere below 0 %, except by rounding",
            f"least saving {max(least, 0.0) if least > -ROUNDING else least:.2f} %",
            certain(least > -ROUNDING),
        ),
        Claim(
            "The total of job times is reduced by up to nearly 50 %",
            "nearly 50 %",
            "the largest saving is between 40 and 50 %",
            f"{percent[most_at]:.1f} % at {most_at} jobs (unequal mixes: "
            f"{any_mix[any_most_at]:.1f} % at {any_most_at})",
            certain(40 <= percent[most_at] <= 50),
        ),
        Claim(
            "The improvement is concentrated in regions of light load",
            "Figure 5a falls to about 0",
            f"the mean saving up to {LIGHT} jobs is more than ten times that from {HEAVY} jobs on",
            f"{light:.1f} % up to {LIGHT} jobs, {abs(heavy):.2f} % from {HEAVY} on",
            certain(light > 10 * heavy),
        ),
        Claim(
            "Small improvements occur periodically under moderate and heavy load",
            "too small to be seen in the chart",
            f"above {LIGHT} jobs, some numbers of jobs have a saving, and some between them have none",
            f"at {', '.join(map(str, late)) or 'none'} of {beyond[0]}, {beyond[1]}, ..., {beyond[-1]} jobs",
            certain(0 < len(late) < beyond.index(max(late, default=beyond[0])) + 1),
        ),
        Claim(
            "With SJS, the total of job times is about 10,000 s at 50 jobs",
            "about 10,000 s (axis of Figure 5b)",
            "between 8,000 and 12,000 s",
            f"{sjs[50]:,.0f} s",
            certain(8_000 <= sjs[50] <= 12_000),
        ),
    ]


def _drawings(totals: pl.DataFrame, saving: pl.DataFrame) -> list[Part]:
    percent = (
        Figure(saving.select("n", saving="pjs"))
        .mark("line", point=True)
        .encode(
            x=column("n:Q", title="Number of jobs"),
            y=column("saving:Q", title="Saving of PJS in total job time (%)"),
            color=value(PALETTE[1]),  # that of PJS in Figure 5b; of points, too
        )
        .properties(width=WIDTH, height=280)
    )
    both = totals.filter(pl.col("n") <= 50).unpivot(["sjs", "pjs"], index="n")
    total = lines(both.iter_rows(), "Number of jobs", "Total job time (s)", "Scheduler")
    return [
        Part("Figure 5a: saving of PJS over SJS", percent, name="figure-5a"),
        Part("Figure 5b: total job time of SJS and PJS", total, name="figure-5b"),
    ]
