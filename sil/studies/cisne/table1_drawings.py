"""Figures for Table 1 of Hanzich et al. 2006."""

from __future__ import annotations

from itertools import product

import altair as alt

from scheduler.time_shared.prediction.look_ahead import PolicyAware
from sil.report.figures import PALETTE, WIDTH, tooltips
from sil.report.node_figures import predicted_against_real, timeline
from sil.report.page import Part
from sil.studies.cisne.experiments import (
    AWARE,
    BLIND,
    LOADS,
    METHODS,
    POLICIES,
    Case,
    Deviations,
    ends_s,
    jobs_of,
    run_case,
)
from sil.studies.cisne.table1_claims import CELLS, IN_ORDER, PAPER
from sil.studies.findings import table
from sil.world.time_shared_cluster import TimeSharedCluster

SHOWN, SHOWN_LOAD = "Uniform", 0.5
"""The policy and the load of the timeline."""


def drawings(found: Deviations) -> list[Part]:
    return [_heat_map(found), _biases(found), *_drawings_of_one_run()]


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
    axes = alt.Chart(frame).encode(
        x=alt.X("source:N", title=None, sort=order, axis=alt.Axis(labelAngle=0, orient="top")),
        y=alt.Y("cell:N", title="Policy, and share of nodes with local users", sort=None),
    )
    scale = alt.Scale(domain=[0, 100], scheme="oranges", clamp=True)
    cells = axes.mark_rect().encode(color=alt.Color("deviation:Q", scale=scale, title="Deviation (%)"))
    ink = alt.condition("datum.deviation > 70", alt.value("white"), alt.value("black"))
    text = axes.mark_text().encode(text=alt.Text("deviation:Q", format=".1f"), color=ink)
    chart = alt.layer(cells, text).properties(width=WIDTH - 160, height=400)
    return Part("Table 1: mean deviation of predicted turnaround (%)", chart, name="table-1")


def _biases(found: Deviations) -> Part:
    rows = [
        (f"{policy}, {load:.0%}", f"{mode}, {name}", float(found.of(policy, load, pair, mode, "bias").mean()))
        for policy, load in CELLS
        for mode in ((BLIND, AWARE) if policy in IN_ORDER else (BLIND,))
        for name, pair in METHODS.items()
    ]
    frame = table(("cell", "predictor", "bias"), rows)
    names = frame["predictor"].unique(maintain_order=True).to_list()
    scale = alt.Scale(domain=names, range=list(PALETTE[: len(names)]))
    chart = (
        alt.Chart(frame)
        .mark_point(filled=True, size=70, opacity=0.9)
        .encode(
            x=alt.X("bias:Q", title="Mean of (predicted - real) / real turnaround (%); above 0 = too late"),
            y=alt.Y("cell:N", title="Policy, and share of nodes with local users", sort=None),
            color=alt.Color("predictor:N", title="Predictor", scale=scale),
            tooltip=tooltips("cell", "predictor", "bias"),
        )
        .properties(width=WIDTH - 160, height=320)
    )
    return Part("Signed mean deviation: do predictions come too late or too early?", chart, name="bias")


def _drawings_of_one_run() -> list[Part]:
    """A timeline under one policy, and predictions under all of them, of the first seed."""
    points, timelines = [], []
    for policy in POLICIES:
        case = Case(policy, SHOWN_LOAD, 0)
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
