"""Second case study of Collins and George 2001: what parallel execution saves, under light and heavy load."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import polars as pl

from sil.report.figures import PALETTE, WIDTH, lines
from sil.report.page import Part
from sil.report.vega_lite import Figure, column, value
from sil.studies.collins_george.site_runs import AS_BUILT_IN, PERTURBED, SiteCase, run_all
from sil.studies.ledger import SLIGHT_PERCENT, Claim, Findings, Study, judged_on_sites
from sil.studies.rules import Estimate, above, exactly, within
from sil.workers.runner import Runner

LIGHT, HEAVY = 30, 60
"""Numbers of jobs up to, and from, which the load is light, and heavy."""
ROUNDING = 1e-9
STUDY = Study("cs2", light=LIGHT, heavy=HEAVY, rounding=ROUNDING, slight_percent=SLIGHT_PERCENT)

SIZES = range(5, 101)
OLB, OPTIMAL = "olb", "optimal"
COMPARED = ("pjs", "pjs_try_next", "gsa", "optimal", "pjs_optimal")
COMPARED_SIZES = (5, 10, 20, 30, 40, 50, 70, 100)
EQUAL = [n for n in SIZES if n % 5 == 0]
"""The paper's job sets are an equal mix of the five classes, so claims are judged by these."""


def study(seeds: int, runner: Runner, sites: int = 0) -> Findings:
    """Nothing is random, so `seeds` has no effect. The claims are also judged on `sites` perturbed sites."""
    compared = [_case(n, name) for n in COMPARED_SIZES for name in COMPARED if name not in ("pjs", OPTIMAL)]
    runner.total = (2 + sites) * len(_cases()) + len(compared)
    claims = judged_on_sites(lambda site: _claims(_totals(_cases(site), runner)), sites)
    totals = _totals(_cases() + compared, runner)
    saving = totals.select(
        "n", *((100 - 100 * pl.col(name) / pl.col("sjs")).alias(name) for name in COMPARED)
    )
    comparison = saving.filter(pl.col("n").is_in(COMPARED_SIZES)).rename({"n": "jobs"})
    tables = {"Saving against SJS (%)": comparison.with_columns(pl.col(*COMPARED).round(1))}
    perturbed = f" {PERTURBED}" if sites else ""
    return STUDY.findings(claims, _drawings(totals, saving), tables, perturbed=perturbed)


def _cases(site: int = AS_BUILT_IN) -> list[SiteCase]:
    sizes = {"sjs": SIZES, "pjs": SIZES, OLB: EQUAL, OPTIMAL: COMPARED_SIZES}
    return [_case(n, name, site) for name, of_name in sizes.items() for n in of_name]


def _case(n: int, scheduler: str, site: int = AS_BUILT_IN) -> SiteCase:
    return SiteCase({"n": n}, {"workload": {"jobs": n, "order": "cyclic"}}, scheduler, site=site)


def _totals(cases: list[SiteCase], runner: Runner) -> pl.DataFrame:
    """The sum of job times by number of jobs (`n`), with a column for each scheduler (null: not run)."""
    found = run_all(cases, runner).select("n", "scheduler", "sum_s")
    return found.pivot("scheduler", index="n", values="sum_s").sort("n")


def _claims(totals: pl.DataFrame) -> list[Claim]:
    claim = STUDY.claim
    sjs_s, pjs_s = (dict(totals.select("n", name).iter_rows()) for name in ("sjs", "pjs"))
    any_mix = {n: 100 - 100 * pjs_s[n] / sjs_s[n] for n in sjs_s}
    percent = {n: any_mix[n] for n in EQUAL}
    most_at, any_most_at = (max(found, key=lambda n: found[n]) for found in (percent, any_mix))
    most, any_most, least = percent[most_at], any_mix[any_most_at], min(any_mix.values())
    light = fmean(percent[n] for n in EQUAL if n <= LIGHT)
    heavy = fmean(percent[n] for n in EQUAL if n >= HEAVY)
    beyond = [n for n in EQUAL if n > LIGHT]
    saves = [percent[n] > ROUNDING for n in beyond]
    recurs = sum(later and not earlier for earlier, later in pairwise(saves))
    at = ", ".join(str(n) for n, saved in zip(beyond, saves, strict=True) if saved)
    over_olb = [100 - 100 * sjs_s[n] / s for n, s in totals.select("n", OLB).drop_nulls().iter_rows()]
    optimal_s = totals.select("n", OPTIMAL).drop_nulls().rows()
    middle = len(optimal_s) // 2
    excess = [100 * sjs_s[n] / s - 100 for n, s in optimal_s]
    small, large = fmean(excess[:middle]), fmean(excess[middle:])
    (last_small, _), (first_large, _) = optimal_s[middle - 1 : middle + 1]
    saved = f"least saving {0.0 if abs(least) < ROUNDING else least:.2f} %"
    half = f"{most:.1f} % at {most_at} jobs; unequal mixes: {any_most:.1f} % at {any_most_at}"
    of_any = {"any number of jobs": nearly_half(any_most)}
    loads = f"{light:.1f} % up to {LIGHT} jobs, {abs(heavy):.2f} % from {HEAVY} on"
    among = f"at {at or 'none'} of {beyond[0]}, {beyond[1]}, ..., {beyond[-1]} jobs"
    better = f"from {min(over_olb):.1f} to {max(over_olb):.1f} %"
    by_size = f"{small:.2f} % up to {last_small} jobs, {large:.2f} % from {first_large} on"
    return [
        claim("never-worse", [exactly(least + ROUNDING)], saved),
        claim("nearly-half", nearly_half(most), half, beside=of_any),
        claim("light-load", [exactly(light - 10 * heavy)], loads),
        claim("periodically", [exactly(recurs)], among),
        claim("ten-thousand", within(exactly(sjs_s[50]), 9_500, 10_500), f"{sjs_s[50]:,.0f} s"),
        claim("better-than-olb", (above(exactly(x), SLIGHT_PERCENT) for x in over_olb), better),
        claim("small-sets", [exactly(large - small)], by_size),
    ]


def nearly_half(percent: float) -> list[Estimate]:
    return within(exactly(percent), 45, 50)


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
