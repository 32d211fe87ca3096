"""Table 1 and Figure 3 of Hanzich et al. 2006: by how much predictions of turnaround deviate."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import inf

import polars as pl

from sil.outcome.statistics import Sample, interval
from sil.report.figures import bars
from sil.report.page import Part
from sil.studies import ledger
from sil.studies.cisne import experiments
from sil.studies.cisne.experiments import AWARE, BLIND, LOADS, METHODS, PAIRS, POLICIES, Case, Deviations
from sil.studies.cisne.table1_claims import CELLS, PAPER, claims, limit_title
from sil.studies.cisne.table1_drawings import drawings
from sil.studies.findings import Findings, table
from sil.studies.ledger import Claim, counted, shown
from sil.workers.runner import Runner

LEAST_SEEDS = 40
"""The paper's cells are about three runs each."""
CPU_LIMITS = (2.0, 1.5, 1.2)
"""Of the summed CPU requirements on a node, for which the paper gives no number."""
LOAD = 0.25
"""Of Figure 3."""
REMAINING = ("proportional", "mpl", "cpu")


def table_1(seeds: int, runner: Runner) -> Findings:
    """At least LEAST_SEEDS replications."""
    seeds = max(seeds, LEAST_SEEDS)
    policies = experiments.WITH_MIXED
    cases = [
        *(Case(policy, load, k) for k in range(seeds) for policy in policies for load in LOADS),
        *(Case(*cell, k, limit) for k in range(seeds) for cell in CELLS for limit in CPU_LIMITS),
    ]
    rows = experiments.run_all(cases, runner)
    by_limit = {limit: Deviations(rows.filter(most_cpu=limit)) for limit in (inf, *CPU_LIMITS)}
    found = by_limit[inf]
    return Findings(
        title="CISNE, Table 1: turnaround deviation by policy and local load",
        source="Hanzich et al. 2006, section 4.1",
        method=f"{experiments.METHOD} {seeds} seeds; 95 % intervals.",
        claims=claims(by_limit),
        drawings=drawings(found),
        tables={
            "Deviation (%), the paper's beside ours (blind)": _deviations(found),
            "Bias (%) and jobs predicted too late (%), CPU-CPU": _biases(found),
            "Deviation (%) of the first, of all, and of the last predictions (blind)": _moments(found),
            "The runs themselves": _runs(found),
            "If the CPU requirements on a node may not add up to more than a limit": _limits(by_limit),
        },
    )


def _shown(samples: Iterable[Sample]) -> list[str]:
    return [shown(interval(x)) for x in samples]


def _deviations(found: Deviations) -> pl.DataFrame:
    rows = []
    for policy, (k, load) in product(POLICIES, enumerate(LOADS)):
        ours = (found.of(policy, load, pair, mode) for mode in (BLIND, AWARE) for pair in METHODS.values())
        rows.append((policy, f"{load:.0%}", *PAPER[policy][k], *_shown(ours)))
    columns = ("paper MPL", "paper CPU", "MPL", "CPU", "aware MPL", "aware CPU")
    return table(("policy", "local load", *columns), rows)


def _biases(found: Deviations) -> pl.DataFrame:
    measures = {"bias": "bias", "too late": "over"}
    columns = {f"{name}, {mode}": (mode, measures[name]) for name in measures for mode in (BLIND, AWARE)}
    rows = []
    for policy, load in CELLS:
        cells = (found.of(policy, load, METHODS["CPU"], *of) for of in columns.values())
        rows.append((policy, f"{load:.0%}", *_shown(cells)))
    return table(("policy", "local load", *columns), rows)


def _moments(found: Deviations) -> pl.DataFrame:
    moments = list(product(METHODS, experiments.MOMENTS))
    rows = []
    for policy, load in CELLS:
        cells = (found.of(policy, load, METHODS[name], when=when) for name, when in moments)
        rows.append((policy, f"{load:.0%}", *_shown(cells)))
    return table(("policy", "local load", *(f"{name} {when}" for name, when in moments)), rows)


def _runs(found: Deviations) -> pl.DataFrame:
    columns = {
        "turnaround (s)": ("turnaround_s", 0),
        "waiting (s)": ("waiting_s", 0),
        "makespan (s)": ("makespan_s", 0),
        "jobs that overtake": ("backfilled", 1),
        "stops by CCS": ("stops", 2),
        "slowdown of local users": ("local_slowdown", 3),
        "contract tight (% of their time)": ("tight", 1),
    }
    rows = []
    for policy, load in product(experiments.WITH_MIXED, LOADS):
        cells = (shown(interval(found.of_run(policy, load, key)), digits) for key, digits in columns.values())
        rows.append((policy, f"{load:.0%}", *cells))
    return table(("policy", "local load", *columns), rows)


def _limits(by_limit: dict[float, Deviations]) -> pl.DataFrame:
    columns = list(product(LOADS, METHODS))
    rows = []
    for (limit, found), policy in product(by_limit.items(), POLICIES):
        cells = (found.of(policy, load, METHODS[name]) for load, name in columns)
        rows.append((limit_title(limit), policy, *_shown(cells)))
    return table(("limit", "policy", *(f"{name} {load:.0%}" for load, name in columns)), rows)


def figure_3(seeds: int, runner: Runner) -> Findings:
    """Six pairs of methods, at least LEAST_SEEDS replications."""
    seeds = max(seeds, LEAST_SEEDS)
    cases = [Case(policy, LOAD, seed) for seed in range(seeds) for policy in POLICIES]
    found = Deviations(experiments.run_all(cases, runner))
    title = f"Deviation (%), local load on {LOAD:.0%} of the nodes, blind"
    rows = [(policy, *_shown(found.of(policy, LOAD, pair) for pair in PAIRS)) for policy in POLICIES]
    return Findings(
        title="CISNE, Figure 3: turnaround deviation by method",
        source="Hanzich et al. 2006, section 4.1",
        method=f"{experiments.METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims_of_figure_3(found),
        drawings=[_methods_of(found, policy) for policy in POLICIES],
        tables={title: table(("policy", *("-".join(pair) for pair in PAIRS)), rows)},
    )


def _claims_of_figure_3(found: Deviations) -> list[Claim]:
    def excess(policy: str, one: tuple[str, str], other: tuple[str, str]) -> Sample:
        return found.of(policy, LOAD, one) - found.of(policy, LOAD, other)

    proportional = [
        interval(excess(policy, ("proportional", by), (other, by)))
        for policy, by, other in product(POLICIES, ("mpl", "cpu"), ("mpl", "cpu"))
    ]
    by_cpu = {
        (policy, remaining): interval(excess(policy, (remaining, "mpl"), (remaining, "cpu")))
        for policy, remaining in product(POLICIES, REMAINING)
    }
    basic = {remaining: ledger.below(by_cpu["Basic", remaining], 0.0) for remaining in REMAINING}
    return [
        Claim(
            "The proportional estimate of the remaining time performs badly",
            "Figure 3",
            "it deviates more than both others, for every policy and method of CPU time; partly: in most",
            counted(proportional),
            ledger.all_or_partly_positive(proportional),
        ),
        Claim(
            "CPU time estimated by CPU is more reliable than by MPL in most cases",
            "Figure 3",
            "by MPL the deviation is larger in most cases (policy, method of the remaining time)",
            counted(by_cpu.values()),
            ledger.most_positive(by_cpu.values()),
        ),
        Claim(
            "For Basic it is the other way round",
            "Figure 3",
            "for some method of the remaining time, by CPU the deviation is larger under Basic",
            ", ".join(f"{remaining}: {shown(x)}" for remaining, x in basic.items()) + " points",
            ledger.some_positive(basic.values()),
        ),
    ]


def _methods_of(found: Deviations, policy: str) -> Part:
    rows = [
        (remaining, f"by {cpu_time.upper()}", float(found.of(policy, LOAD, (remaining, cpu_time)).mean()))
        for remaining, cpu_time in PAIRS
    ]
    chart = bars(rows, "Method of the remaining time", "Mean deviation of turnaround (%)", "CPU time used")
    name = policy.lower().replace("+", "-")
    return Part(f"Figure 3: deviation by method, {policy}", chart, name=f"figure-3-{name}")
