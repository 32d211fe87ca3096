"""Table 1 of Hanzich et al. 2006: deviation of predicted turnaround by policy, local load and method."""

from __future__ import annotations

from itertools import product
from math import inf

import polars as pl

from sil.outcome.statistics import interval
from sil.studies.cisne.experiments import (
    AWARE,
    BESIDE,
    BLIND,
    LOADS,
    METHOD,
    MOMENTS,
    POLICIES,
    Case,
    Deviations,
    run_all,
)
from sil.studies.cisne.table1_cells import CELLS, CPU, MPL, PAIRS, PAPER
from sil.studies.cisne.table1_claims import claims, limit_title
from sil.studies.cisne.table1_drawings import drawings
from sil.studies.findings import Findings
from sil.studies.ledger import shown
from sil.studies.run_options import Course

CPU_LIMITS = (2.0, 1.5, 1.2)
"""Of the summed CPU requirements on a node, for which the paper gives no number."""
LEAST_SEEDS = 40


def study(seeds: int, course: Course) -> Findings:
    """The paper's table is about three runs per cell; at least LEAST_SEEDS are made here."""
    seeds = max(seeds, LEAST_SEEDS)
    cases = [
        *(Case(policy, load, k) for k in range(seeds) for policy in POLICIES | BESIDE for load in LOADS),
        *(Case(*cell, k, limit) for k in range(seeds) for cell in CELLS for limit in CPU_LIMITS),
    ]
    rows = run_all(cases, course)
    by_limit = {limit: Deviations(rows.filter(pl.col("most_cpu") == limit)) for limit in (inf, *CPU_LIMITS)}
    found = by_limit[inf]
    return Findings(
        name="cisne-table1",
        title="CISNE, Table 1: turnaround deviation by policy and local load",
        source="Hanzich et al. 2006, section 4.1",
        method=f"{METHOD} {seeds} seeds; 95 % intervals.",
        claims=claims(by_limit),
        drawings=drawings(found),
        tables={
            "Deviation (%), the paper's beside ours (blind)": _table(found),
            "Bias (%) and jobs predicted too late (%), CPU-CPU": _bias_table(found),
            "Deviation (%) of the first, of all, and of the last predictions (blind)": _moments(found),
            "The runs themselves": _run_table(found),
            "If the CPU requirements on a node may not add up to more than a limit": _limit_table(by_limit),
        },
    )


def _limit_table(by_limit: dict[float, Deviations]) -> pl.DataFrame:
    rows = [
        (
            limit_title(limit),
            policy,
            *(shown(interval(found.of(policy, load, pair)), 1) for load in LOADS for pair in PAIRS.values()),
        )
        for (limit, found), policy in product(by_limit.items(), POLICIES)
    ]
    columns = [f"{name} {load:.0%}" for load in LOADS for name in PAIRS]
    return pl.DataFrame(rows, schema=["limit", "policy", *columns], orient="row")


def _table(found: Deviations) -> pl.DataFrame:
    rows = []
    for policy, (k, load) in product(POLICIES, enumerate(LOADS)):
        paper_mpl, paper_cpu = PAPER[policy][k]
        ours = [
            interval(found.of(policy, load, pair, mode)) for mode in (BLIND, AWARE) for pair in (MPL, CPU)
        ]
        rows.append((policy, f"{load:.0%}", paper_mpl, paper_cpu, *(shown(x, 1) for x in ours)))
    columns = ["policy", "local load", "paper MPL", "paper CPU", "MPL", "CPU", "aware MPL", "aware CPU"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _bias_table(found: Deviations) -> pl.DataFrame:
    rows = []
    for policy, load in CELLS:
        cells = [
            interval(found.of(policy, load, CPU, mode, column))
            for column in ("bias", "over")
            for mode in (BLIND, AWARE)
        ]
        rows.append((policy, f"{load:.0%}", *(shown(x, 1) for x in cells)))
    columns = ["policy", "local load", "bias, blind", "bias, aware", "too late, blind", "too late, aware"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _moments(found: Deviations) -> pl.DataFrame:
    rows = [
        (
            policy,
            f"{load:.0%}",
            *(
                shown(interval(found.of(policy, load, pair, when=when)), 1)
                for pair in PAIRS.values()
                for when in MOMENTS
            ),
        )
        for policy, load in CELLS
    ]
    columns = [f"{name} {when}" for name in PAIRS for when in MOMENTS]
    return pl.DataFrame(rows, schema=["policy", "local load", *columns], orient="row")


def _run_table(found: Deviations) -> pl.DataFrame:
    columns = {
        "turnaround_s": ("turnaround (s)", 0),
        "waiting_s": ("waiting (s)", 0),
        "makespan_s": ("makespan (s)", 0),
        "backfilled": ("jobs that overtake", 1),
        "stops": ("stops by CCS", 2),
        "local_slowdown": ("slowdown of local users", 3),
        "tight": ("contract tight (% of their time)", 1),
    }
    rows = [
        (
            policy,
            f"{load:.0%}",
            *(
                shown(interval(found.of_run(policy, load, name)), digits)
                for name, (_, digits) in columns.items()
            ),
        )
        for policy, load in product((*POLICIES, *BESIDE), LOADS)
    ]
    titles = [title for title, _ in columns.values()]
    return pl.DataFrame(rows, schema=["policy", "local load", *titles], orient="row")
