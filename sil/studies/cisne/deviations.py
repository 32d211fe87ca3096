"""Table 1 and Figure 3 of Hanzich et al. 2006: by how much predictions of turnaround deviate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from math import inf
from typing import Any

import polars as pl

from scheduler.time_shared.predictors import PolicyAware
from scheduler.time_shared.social_contract import MAX_CPU
from sil.report.experiment_figures import predicted_against_real, timeline
from sil.report.figures import PALETTE, WIDTH, bars, tooltips
from sil.report.page import Part
from sil.report.vega_lite import Figure, column, either, layer
from sil.studies.cisne import experiments
from sil.studies.cisne.claims import (
    CELLS,
    CPU,
    FIGURE_3,
    IN_ORDER,
    LOAD,
    PAPER,
    TABLE_1,
    claims_on_figure_3,
    claims_on_table_1,
    limit_title,
)
from sil.studies.cisne.experiments import (
    AWARE,
    BLIND,
    LOADS,
    METHODS,
    PAIRS,
    POLICIES,
    Deviations,
    PredictionCase,
    run_case,
    scored,
)
from sil.studies.ledger import Findings
from sil.studies.rules import Estimate, table, text
from sil.workers.runner import Runner
from sil.world.time_shared_cluster import TimeSharedCluster

MIN_SEEDS = 40
"""The paper's cells are about three runs each."""
CPU_LIMITS = (inf, 1.5, 1.2)
"""Further limits of the summed CPU requirements on a node, since the papers give no number."""


def table_1(seeds: int, runner: Runner) -> Findings:
    """At least MIN_SEEDS replications."""
    seeds = max(seeds, MIN_SEEDS)
    by_limit = _by_limit(product(experiments.WITH_MIXED, LOADS), seeds, runner)
    found = by_limit[MAX_CPU]
    tables = {
        "Deviation (%), the paper's beside ours (blind)": _beside_the_paper(found),
        **{title: _cells(found, CELLS, columns) for title, columns in COLUMNS.items()},
        "The runs themselves": _runs(found),
        "If the CPU requirements on a node may not add up to more than a limit": _limits(by_limit),
    }
    drawings = [_heat_map(found), _mean_biases(found), *_drawings_of_one_run()]
    return TABLE_1.findings(claims_on_table_1(by_limit), drawings, tables, seeds=seeds)


def figure_3(seeds: int, runner: Runner) -> Findings:
    """Six pairs of methods, at least MIN_SEEDS replications."""
    seeds = max(seeds, MIN_SEEDS)
    by_limit = _by_limit(product(POLICIES, (LOAD,)), seeds, runner)
    found = by_limit[MAX_CPU]
    title = f"Deviation (%), local load on {LOAD:.0%} of the nodes, blind"
    rows = [(p, *(text(Estimate(found.of(p, LOAD, pair))) for pair in PAIRS)) for p in POLICIES]
    tables = {title: table(("policy", *("-".join(pair) for pair in PAIRS)), rows)}
    drawings = [_methods_of(found, policy) for policy in POLICIES]
    return FIGURE_3.findings(claims_on_figure_3(by_limit), drawings, tables, seeds=seeds)


def _by_limit(cells: Iterable[tuple[str, float]], seeds: int, runner: Runner) -> dict[float, Deviations]:
    """The deviations of policies and loads, under each limit."""
    limits = (MAX_CPU, *CPU_LIMITS)
    cases = [PredictionCase(*cell, k, limit) for cell, limit, k in product(cells, limits, range(seeds))]
    rows = experiments.run_all(cases, runner)
    return {limit: Deviations(rows.filter(most_cpu=limit)) for limit in limits}


# -- tables --------------------------------------------------------------------------------------------------

Columns = Mapping[str, Mapping[str, Any]]
"""Headings, each with what it is of (`Deviations.of`)."""
COLUMNS: dict[str, Columns] = {
    "Bias (%) and jobs predicted too late (%), CPU-CPU": {
        f"{name}, {mode}": {"methods": CPU, "mode": mode, "measure": measure}
        for name, measure in (("bias", "bias"), ("too late", "over"))
        for mode in (BLIND, AWARE)
    },
    "Deviation (%) of the first, of all, and of the last predictions (blind)": {
        f"{name} {when}": {"methods": METHODS[name], "when": when}
        for name, when in product(METHODS, experiments.MOMENTS)
    },
}
OF_RUNS = {
    "turnaround (s)": ("turnaround_s", 0),
    "waiting (s)": ("waiting_s", 0),
    "makespan (s)": ("makespan_s", 0),
    "jobs that overtake": ("backfilled", 1),
    "stops by CCS": ("stops", 2),
    "slowdown of local users": ("local_slowdown", 3),
    "contract tight (% of their time)": ("tight", 1),
}
"""Measures of runs, each with its digits."""


def _cells(found: Deviations, cells: Iterable[tuple[str, float]], columns: Columns) -> pl.DataFrame:
    rows = [
        (policy, f"{load:.0%}", *(text(Estimate(found.of(policy, load, **of))) for of in columns.values()))
        for policy, load in cells
    ]
    return table(("policy", "local load", *columns), rows)


def _beside_the_paper(found: Deviations) -> pl.DataFrame:
    columns: Columns = {
        f"{mode} {name}".removeprefix("blind "): {"methods": pair, "mode": mode}
        for mode in (BLIND, AWARE)
        for name, pair in METHODS.items()
    }
    of_paper = [PAPER[policy][k] for policy, k in product(POLICIES, range(len(LOADS)))]
    theirs = table([f"paper {name}" for name in METHODS], of_paper)
    ours = _cells(found, CELLS, columns)
    return pl.concat([ours[:, :2], theirs, ours[:, 2:]], how="horizontal")


def _runs(found: Deviations) -> pl.DataFrame:
    rows = []
    for policy, load in product(experiments.WITH_MIXED, LOADS):
        cells = (text(Estimate(found.of_run(policy, load, key)), digits) for key, digits in OF_RUNS.values())
        rows.append((policy, f"{load:.0%}", *cells))
    return table(("policy", "local load", *OF_RUNS), rows)


def _limits(by_limit: Mapping[float, Deviations]) -> pl.DataFrame:
    columns = list(product(LOADS, METHODS))
    rows = []
    for (limit, found), policy in product(by_limit.items(), POLICIES):
        cells = (text(Estimate(found.of(policy, load, METHODS[name]))) for load, name in columns)
        rows.append((limit_title(limit), policy, *cells))
    return table(("limit", "policy", *(f"{name} {load:.0%}" for load, name in columns)), rows)


# -- drawings ------------------------------------------------------------------------------------------------


def _methods_of(found: Deviations, policy: str) -> Part:
    rows = [
        (remaining, f"by {cpu_time.upper()}", float(found.of(policy, LOAD, (remaining, cpu_time)).mean()))
        for remaining, cpu_time in PAIRS
    ]
    chart = bars(rows, "Method of the remaining time", "Mean deviation of turnaround (%)", "CPU time used")
    name = policy.lower().replace("+", "-")
    return Part(f"Figure 3: deviation by method, {policy}", chart, name=f"figure-3-{name}")


def _heat_map(found: Deviations) -> Part:
    rows = []
    for policy, (k, load) in product(POLICIES, enumerate(LOADS)):
        for (name, pair), paper in zip(METHODS.items(), PAPER[policy][k], strict=True):
            where = f"{policy}, {load:.0%}"
            rows.append((where, f"paper, {name}", paper))
            ours = ((mode, float(found.of(policy, load, pair, mode).mean())) for mode in (BLIND, AWARE))
            rows += [(where, f"{mode}, {name}", mean) for mode, mean in ours]
    frame = table(("cell", "source", "deviation"), rows)
    order = [f"{source}, {name}" for name in METHODS for source in ("paper", BLIND, AWARE)]
    axes = Figure(frame).encode(
        x=column("source:N", title=None, sort=order, axis={"labelAngle": 0, "orient": "top"}),
        y=column("cell:N", title="Policy, and share of nodes with local users", sort=None),
    )
    scale = {"domain": [0, 100], "scheme": "oranges", "clamp": True}
    cells = axes.mark("rect").encode(color=column("deviation:Q", scale=scale, title="Deviation (%)"))
    ink = either("datum.deviation > 70", "white", "black")
    numbers = axes.mark("text").encode(text=column("deviation:Q", format=".1f"), color=ink)
    chart = layer(cells, numbers).properties(width=WIDTH - 160, height=400)
    return Part("Table 1: mean deviation of predicted turnaround (%)", chart, name="table-1")


def _mean_biases(found: Deviations) -> Part:
    rows = [
        (f"{policy}, {load:.0%}", f"{mode}, {name}", float(found.of(policy, load, pair, mode, "bias").mean()))
        for policy, load in CELLS
        for mode in ((BLIND, AWARE) if policy in IN_ORDER else (BLIND,))
        for name, pair in METHODS.items()
    ]
    frame = table(("cell", "predictor", "bias"), rows)
    names = frame["predictor"].unique(maintain_order=True).to_list()
    scale = {"domain": names, "range": list(PALETTE[: len(names)])}
    chart = (
        Figure(frame)
        .mark("point", filled=True, size=70, opacity=0.9)
        .encode(
            x=column("bias:Q", title="Mean of (predicted - real) / real turnaround (%); above 0 = too late"),
            y=column("cell:N", title="Policy, and share of nodes with local users", sort=None),
            color=column("predictor:N", title="Predictor", scale=scale),
            tooltip=tooltips("cell", "predictor", "bias"),
        )
        .properties(width=WIDTH - 160, height=320)
    )
    return Part("Signed mean deviation: do predictions come too late or too early?", chart, name="bias")


SHOWN, SHOWN_LOAD = "Uniform", 0.5
"""The policy and the load of the timeline."""


def _drawings_of_one_run() -> list[Part]:
    """A timeline under one policy, and predictions under all of them, of the first seed."""
    points, timelines = [], []
    for policy in POLICIES:
        case = PredictionCase(policy, SHOWN_LOAD, 0)
        done = run_case(case, {AWARE: PolicyAware(case.composition.scheduler(), *CPU)})
        first = scored(done).filter("first").sort("job")
        points.append(first.select(pl.lit(policy).alias("of"), real="real_s", predicted="predicted_s"))
        if policy == SHOWN:
            title = f"One run of 30 jobs under {policy}, local users on {SHOWN_LOAD:.0%} of the nodes"
            timelines.append(Part(title, timeline(done.facts, TimeSharedCluster().n_nodes), name="timeline"))
    chart = predicted_against_real(pl.concat(points), "Policy")
    title = f"Predicted against real, CPU-CPU, aware; local users on {SHOWN_LOAD:.0%} of the nodes"
    return [*timelines, Part(title, chart, name="predicted-against-real")]
