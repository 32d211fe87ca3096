"""Table 1 of Hanzich et al. 2006: deviation of predicted turnaround by policy, local load and method."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import inf

import polars as pl

from sil.outcome.statistics import Sample, interval
from sil.studies.cisne.experiments import (
    AWARE,
    BESIDE,
    BLIND,
    LEAST_SEEDS,
    LOADS,
    METHOD,
    METHODS,
    MOMENTS,
    POLICIES,
    Case,
    Deviations,
    run_all,
)
from sil.studies.cisne.table1_claims import CELLS, PAPER, claims, limit_title
from sil.studies.cisne.table1_drawings import drawings
from sil.studies.findings import Findings, table
from sil.studies.ledger import shown
from sil.workers.runner import Runner

CPU_LIMITS = (2.0, 1.5, 1.2)
"""Of the summed CPU requirements on a node, for which the paper gives no number."""


def study(seeds: int, runner: Runner) -> Findings:
    """At least LEAST_SEEDS replications."""
    seeds = max(seeds, LEAST_SEEDS)
    cases = [
        *(Case(policy, load, k) for k in range(seeds) for policy in POLICIES | BESIDE for load in LOADS),
        *(Case(*cell, k, limit) for k in range(seeds) for cell in CELLS for limit in CPU_LIMITS),
    ]
    rows = run_all(cases, runner)
    by_limit = {limit: Deviations(rows.filter(most_cpu=limit)) for limit in (inf, *CPU_LIMITS)}
    found = by_limit[inf]
    return Findings(
        name="cisne-table1",
        title="CISNE, Table 1: turnaround deviation by policy and local load",
        source="Hanzich et al. 2006, section 4.1",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
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
    columns = {
        f"{title}, {mode}": (mode, column) for title, column in _BIAS.items() for mode in (BLIND, AWARE)
    }
    rows = [
        (
            policy,
            f"{load:.0%}",
            *_shown(found.of(policy, load, METHODS["CPU"], *of) for of in columns.values()),
        )
        for policy, load in CELLS
    ]
    return table(("policy", "local load", *columns), rows)


_BIAS = {"bias": "bias", "too late": "over"}


def _moments(found: Deviations) -> pl.DataFrame:
    columns = {f"{name} {when}": (pair, when) for (name, pair), when in product(METHODS.items(), MOMENTS)}
    rows = [
        (
            policy,
            f"{load:.0%}",
            *_shown(found.of(policy, load, pair, when=when) for pair, when in columns.values()),
        )
        for policy, load in CELLS
    ]
    return table(("policy", "local load", *columns), rows)


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
    for policy, load in product((*POLICIES, *BESIDE), LOADS):
        cells = (
            shown(interval(found.of_run(policy, load, column)), digits) for column, digits in columns.values()
        )
        rows.append((policy, f"{load:.0%}", *cells))
    return table(("policy", "local load", *columns), rows)


def _limits(by_limit: dict[float, Deviations]) -> pl.DataFrame:
    columns = {f"{name} {load:.0%}": (load, pair) for load, (name, pair) in product(LOADS, METHODS.items())}
    rows = [
        (limit_title(limit), policy, *_shown(found.of(policy, *of) for of in columns.values()))
        for (limit, found), policy in product(by_limit.items(), POLICIES)
    ]
    return table(("limit", "policy", *columns), rows)
