"""Table 1 and Figure 3 of Hanzich et al. 2006: by how much predictions of turnaround deviate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import product
from math import inf

import polars as pl

from scheduler.time_shared.predictors import PolicyAware
from scheduler.time_shared.social_contract import MOST_CPU
from sil.outcome.statistics import Sample
from sil.report.figures import PALETTE, WIDTH, bars, tooltips
from sil.report.node_figures import predicted_against_real, timeline
from sil.report.page import Part
from sil.report.vega_lite import Figure, column, either, layer
from sil.studies.cisne import experiments
from sil.studies.cisne.experiments import (
    AWARE,
    BLIND,
    LOADS,
    METHODS,
    PAIRS,
    POLICIES,
    Deviations,
    PredictionCase,
    ends_s,
    jobs_of,
    run_case,
)
from sil.studies.cisne.published_table import IN_ORDER, PAPER, STATED
from sil.studies.cisne.table1_claims import CELLS, claims, compared, limit_title
from sil.studies.findings import Findings
from sil.studies.grid_samples import table
from sil.studies.ledger import Claim
from sil.studies.rules import Estimate, most_positive, some_positive, text
from sil.workers.runner import Runner
from sil.world.time_shared_cluster import TimeSharedCluster

LEAST_SEEDS = 40
"""The paper's cells are about three runs each."""
CPU_LIMITS = (inf, 1.5, 1.2)
"""Of the summed CPU requirements on a node, besides the default: the papers give no number."""
LOAD = 0.25
"""Of Figure 3."""
REMAINING = ("proportional", "mpl", "cpu")


def table_1(seeds: int, runner: Runner) -> Findings:
    """At least LEAST_SEEDS replications."""
    seeds = max(seeds, LEAST_SEEDS)
    by_limit = _by_limit(product(experiments.WITH_MIXED, LOADS), seeds, runner)
    found = by_limit[MOST_CPU]
    return Findings(
        title="CISNE, Table 1: turnaround deviation by policy and local load",
        source="Hanzich et al. 2006, section 4.1",
        method=f"{experiments.METHOD} {seeds} seeds; 95 % intervals.",
        claims=claims(by_limit),
        drawings=[_heat_map(found), _mean_biases(found), *_drawings_of_one_run()],
        tables={
            "Deviation (%), the paper's beside ours (blind)": _deviations(found),
            "Bias (%) and jobs predicted too late (%), CPU-CPU": _biases(found),
            "Deviation (%) of the first, of all, and of the last predictions (blind)": _moments(found),
            "The runs themselves": _runs(found),
            "If the CPU requirements on a node may not add up to more than a limit": _limits(by_limit),
        },
    )


def _by_limit(cells: Iterable[tuple[str, float]], seeds: int, runner: Runner) -> dict[float, Deviations]:
    """Of policies and loads, under each limit."""
    limits = (MOST_CPU, *CPU_LIMITS)
    cases = [PredictionCase(*cell, k, limit) for cell, limit, k in product(cells, limits, range(seeds))]
    rows = experiments.run_all(cases, runner)
    return {limit: Deviations(rows.filter(most_cpu=limit)) for limit in limits}


def _texts(samples: Iterable[Sample]) -> list[str]:
    return [text(Estimate(x)) for x in samples]


def _deviations(found: Deviations) -> pl.DataFrame:
    rows = []
    for policy, (k, load) in product(POLICIES, enumerate(LOADS)):
        ours = (found.of(policy, load, pair, mode) for mode in (BLIND, AWARE) for pair in METHODS.values())
        rows.append((policy, f"{load:.0%}", *PAPER[policy][k], *_texts(ours)))
    columns = ("paper MPL", "paper CPU", "MPL", "CPU", "aware MPL", "aware CPU")
    return table(("policy", "local load", *columns), rows)


def _biases(found: Deviations) -> pl.DataFrame:
    measures = {"bias": "bias", "too late": "over"}
    columns = {f"{name}, {mode}": (mode, measures[name]) for name in measures for mode in (BLIND, AWARE)}
    rows = []
    for policy, load in CELLS:
        cells = (found.of(policy, load, METHODS["CPU"], *of) for of in columns.values())
        rows.append((policy, f"{load:.0%}", *_texts(cells)))
    return table(("policy", "local load", *columns), rows)


def _moments(found: Deviations) -> pl.DataFrame:
    moments = list(product(METHODS, experiments.MOMENTS))
    rows = []
    for policy, load in CELLS:
        cells = (found.of(policy, load, METHODS[name], when=when) for name, when in moments)
        rows.append((policy, f"{load:.0%}", *_texts(cells)))
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
        cells = (text(Estimate(found.of_run(policy, load, key)), digits) for key, digits in columns.values())
        rows.append((policy, f"{load:.0%}", *cells))
    return table(("policy", "local load", *columns), rows)


def _limits(by_limit: dict[float, Deviations]) -> pl.DataFrame:
    columns = list(product(LOADS, METHODS))
    rows = []
    for (limit, found), policy in product(by_limit.items(), POLICIES):
        cells = (found.of(policy, load, METHODS[name]) for load, name in columns)
        rows.append((limit_title(limit), policy, *_texts(cells)))
    return table(("limit", "policy", *(f"{name} {load:.0%}" for load, name in columns)), rows)


def figure_3(seeds: int, runner: Runner) -> Findings:
    """Six pairs of methods, at least LEAST_SEEDS replications."""
    seeds = max(seeds, LEAST_SEEDS)
    by_limit = _by_limit(product(POLICIES, (LOAD,)), seeds, runner)
    found = by_limit[MOST_CPU]
    title = f"Deviation (%), local load on {LOAD:.0%} of the nodes, blind"
    rows = [(policy, *_texts(found.of(policy, LOAD, pair) for pair in PAIRS)) for policy in POLICIES]
    return Findings(
        title="CISNE, Figure 3: turnaround deviation by method",
        source="Hanzich et al. 2006, section 4.1",
        method=f"{experiments.METHOD} {seeds} seeds; 95 % intervals.",
        claims=_claims_of_figure_3(by_limit),
        drawings=[_methods_of(found, policy) for policy in POLICIES],
        tables={title: table(("policy", *("-".join(pair) for pair in PAIRS)), rows)},
    )


def _claims_of_figure_3(by_limit: Mapping[float, Deviations]) -> list[Claim]:
    def proportional(found: Deviations, mode: str) -> list[Sample]:
        of = partial(found.of, load=LOAD, mode=mode)
        return [
            of(policy, methods=("proportional", by)) - of(policy, methods=(other, by))
            for policy, by, other in product(POLICIES, ("mpl", "cpu"), ("mpl", "cpu"))
        ]

    def by_mpl(found: Deviations, mode: str, *policies: str) -> list[Sample]:
        of = partial(found.of, load=LOAD, mode=mode)
        return [
            of(policy, methods=(remaining, "mpl")) - of(policy, methods=(remaining, "cpu"))
            for policy, remaining in product(policies or POLICIES, REMAINING)
        ]

    def by_cpu_for_basic(found: Deviations, mode: str) -> list[Sample]:
        return [-x for x in by_mpl(found, mode, "Basic")]

    return [
        compared(STATED["proportional-is-bad"], by_limit, proportional),
        compared(STATED["by-cpu-is-better"], by_limit, by_mpl, judge=most_positive),
        compared(STATED["basic-is-different"], by_limit, by_cpu_for_basic, judge=some_positive),
    ]


def _methods_of(found: Deviations, policy: str) -> Part:
    rows = [
        (remaining, f"by {cpu_time.upper()}", float(found.of(policy, LOAD, (remaining, cpu_time)).mean()))
        for remaining, cpu_time in PAIRS
    ]
    chart = bars(rows, "Method of the remaining time", "Mean deviation of turnaround (%)", "CPU time used")
    name = policy.lower().replace("+", "-")
    return Part(f"Figure 3: deviation by method, {policy}", chart, name=f"figure-3-{name}")


SHOWN, SHOWN_LOAD = "Uniform", 0.5
"""The policy and the load of the timeline."""


def _heat_map(found: Deviations) -> Part:
    rows = []
    for policy, (k, load) in product(POLICIES, enumerate(LOADS)):
        for (name, pair), paper in zip(METHODS.items(), PAPER[policy][k], strict=True):
            where = f"{policy}, {load:.0%}"
            rows.append((where, f"paper, {name}", paper))
            rows.append((where, f"blind, {name}", float(found.of(policy, load, pair).mean())))
            rows.append((where, f"aware, {name}", float(found.of(policy, load, pair, AWARE).mean())))
    frame = table(("cell", "source", "deviation"), rows)
    order = [f"{source}, {name}" for name in METHODS for source in ("paper", "blind", "aware")]
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


def _drawings_of_one_run() -> list[Part]:
    """A timeline under one policy, and predictions under all of them, of the first seed."""
    points, timelines = [], []
    for policy in POLICIES:
        case = PredictionCase(policy, SHOWN_LOAD, 0)
        done = run_case(case, {AWARE: PolicyAware(case.composition.scheduler(), *METHODS["CPU"])})
        end_s = ends_s(done)
        first = {p.forecast.job: p.forecast.end_s for p in reversed(done.predictions)}
        points += [
            (policy, end_s[job.id] - job.arrival_s, first[job.id] - job.arrival_s)
            for job in jobs_of(case.replication)
        ]
        if policy == SHOWN:
            title = f"One run of 30 jobs under {policy}, local users on {SHOWN_LOAD:.0%} of the nodes"
            timelines.append(Part(title, timeline(done.facts, TimeSharedCluster().n_nodes), name="timeline"))
    chart = predicted_against_real(table(("of", "real", "predicted"), points), "Policy")
    title = f"Predicted against real, CPU-CPU, aware; local users on {SHOWN_LOAD:.0%} of the nodes"
    return [*timelines, Part(title, chart, name="predicted-against-real")]
