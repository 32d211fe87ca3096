"""Figures of experiments: metrics over a grid, schedules, utilisation, the load of time-shared nodes."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import polars as pl

from scheduler.messages import printable
from sil.outcome.comparison import Comparison
from sil.outcome.metrics import metric
from sil.report.figures import WIDTH, colour_scale, lines, scheduler_lines, setting_title, tooltips, zero_rule
from sil.report.vega_lite import Figure, below_each_other, column, either, layer
from sil.trace.facts import Fact, RunDescription
from sil.trace.held import one_row_per_interval, one_row_per_machine

MAX_RUNS_IN_A_GANTT = 3_000
MAX_DRAWN = 4_000
"""The most intervals and marks of a timeline; more are indistinguishable and make a page heavy."""
UNITS = {"days": 86_400.0, "h": 3_600.0, "s": 1.0}


def over_grid(comparison: Comparison, key: str, relative: bool) -> Figure:
    """A metric along the only numeric axis of the grid, with 95 % intervals: of every scheduler, or as the
    percentage change `relative` to the baseline."""
    axis, title = comparison.description.axes[0], metric(key).title
    points = [
        (settings[axis], scheduler, cell.change_percent if relative else cell.value)
        for point, settings in enumerate(comparison.description.points)
        for scheduler in comparison.schedulers
        if (cell := comparison.cell(point, scheduler, key)) is not None
    ]
    drawn = [(x, name, y) for x, name, y in points if y is not None]
    colours = colour_scale(comparison.schedulers, comparison.baseline if relative else None)
    y_title = metric(key).label
    if relative:
        y_title = f"Change of {title[0].lower()}{title[1:]} relative to {comparison.baseline} (%)"
    chart = lines(drawn, setting_title(axis), y_title, "Scheduler", colours=colours)
    return layer(zero_rule(), chart) if relative else chart


def gantt(runs: pl.DataFrame, jobs: pl.DataFrame, description: RunDescription) -> Figure:
    """Machine by time, one panel per scheduler; colour is the job class, a dark frame marks parallel runs.

    `runs` and `jobs` are those of one point and one replication.
    """
    n, classes = description.n_machines, list(description.job_classes)
    kind = pl.when(pl.col("resource") >= n).then(pl.lit("parallel")).otherwise(pl.lit("sequential"))
    drawn = one_row_per_interval(runs.sort("from_s", maintain_order=True).head(MAX_RUNS_IN_A_GANTT))
    frame = drawn.join(
        jobs.select("scheduler", "job_class", job="job_id"), on=["scheduler", "job"], how="left"
    ).select(
        *("scheduler", "job"),
        pl.col("job_class").alias("job class"),
        *("low", "high"),
        pl.col("from_s").alias("from"),
        until="until_s",
        run=kind,
        ending="ending",
    )
    colour = column("job class:N", sort=classes, scale=colour_scale(classes), legend={"title": "Job class"})
    # The first machine of each stretch of one class.
    of_machine = enumerate(pairwise(("", *description.machine_classes)))
    ticks = {j: printable(name) for j, (before, name) in of_machine if j == 0 or before != name}
    labels = f"({json.dumps(ticks)})[datum.value]"
    time = {"domain": [0, frame["until"].max() or 1.0], "nice": False}
    machines = {"domain": [0, n], "reverse": True, "nice": False}
    panels = [
        Figure(frame.filter(scheduler=scheduler))
        .mark("rect")
        .encode(
            x=column("from:Q", title="Time (s)", scale=time),
            x2=column("until"),
            y=column(
                "low:Q",
                title="Machines, by class",
                scale=machines,
                axis={"values": list(ticks), "labelExpr": labels, "grid": True},
            ),
            y2=column("high"),
            color=colour,
            stroke=either("datum.run === 'parallel'", "#111", "white"),
            strokeWidth=either("datum.run === 'parallel'", 1.4, 0.3),
            tooltip=tooltips(*frame.columns),
        )
        .properties(width=WIDTH, height=max(120, min(340, 3 * n)), title=scheduler)
        for scheduler in runs["scheduler"].unique(maintain_order=True)
    ]
    return below_each_other(*panels).properties(resolve={"scale": {"x": "shared", "color": "shared"}})


def utilisation_over_time(runs: pl.DataFrame, d: RunDescription) -> Figure:
    """Share of the machines, or of the CPUs of nodes, that runs hold over time; mean over replications."""
    frames = [pl.DataFrame(schema={"scheduler": pl.String, "time": pl.Float64, "utilisation": pl.Float64})]
    for scheduler in d.schedulers:
        of_one = runs.filter(scheduler=scheduler)
        size = of_one["tasks"].to_numpy().astype(float)
        times_s = np.concatenate([of_one["from_s"].to_numpy(), of_one["until_s"].to_numpy()])
        moments_s, which = np.unique(times_s, return_inverse=True)
        change = np.bincount(which, weights=np.concatenate([size, -size]), minlength=len(moments_s))
        percent = 100.0 * np.cumsum(change) / (d.capacity * d.replications)
        keep = np.unique(np.linspace(0, len(moments_s) - 1, min(600, len(moments_s))).astype(int))
        drawn = pl.DataFrame({"time": moments_s[keep], "utilisation": percent[keep]})
        frames.append(drawn.select(pl.lit(scheduler).alias("scheduler"), pl.all()))
    frame = pl.concat(frames)
    last_s = float(frame["time"].to_numpy().max(initial=0.0))
    unit, unit_s = next((name, size) for name, size in UNITS.items() if last_s >= 3 * size or size == 1.0)
    title = "CPUs in use (%)" if d.cores else "Machines in use (%)"
    x, y = column("time:Q", title=f"Time ({unit})"), column("utilisation:Q", title=title)
    frame = frame.with_columns(time=frame["time"].to_numpy() / unit_s)
    return scheduler_lines(frame, x, y, d.schedulers, height=220)


_CHANGES = {
    Fact.RUN_STARTED: 1,
    Fact.RUN_CONTINUED: 1,
    Fact.RUN_STOPPED: -1,
    Fact.RUN_ENDED: -1,
    Fact.RUN_LOST: -1,
    Fact.RUN_DISCARDED: -1,
    Fact.RUN_PREEMPTED: -1,
}
"""How a fact changes the number of parallel tasks on each node of a run."""


def mpl_segments(facts: pl.DataFrame) -> pl.DataFrame:
    """(node, from_s, until_s, mpl): the number of parallel tasks that ran on a node, if any did."""
    nodes = facts.filter(event=Fact.RUN_STARTED).select("run", "machines")
    change = pl.col("event").cast(pl.String).replace_strict(_CHANGES, return_dtype=pl.Int64)
    was_stopped = pl.col("event").shift(1).over("run") == Fact.RUN_STOPPED
    over_after_stop = was_stopped.fill_null(value=False) & (pl.col("event") != Fact.RUN_CONTINUED)
    changes = (
        facts.filter(pl.col("event").is_in(list(_CHANGES)))
        .select("run", from_s="time_s", change=pl.when(over_after_stop).then(0).otherwise(change))
        .join(nodes, on="run", maintain_order="left")
    )
    return (
        one_row_per_machine(changes)
        .select(
            node=pl.col("machines").cast(pl.Int64),
            from_s="from_s",
            until_s=pl.col("from_s").shift(-1).over("machines"),
            mpl=pl.col("change").cum_sum().over("machines"),
        )
        .filter(pl.col("mpl") > 0, pl.col("until_s") > pl.col("from_s"))
        .sort("until_s", maintain_order=True)
    )


def _presence(facts: pl.DataFrame, end_s: float) -> pl.DataFrame:
    """(node, from_s, until_s): when a local user was present."""
    until_s = pl.col("time_s").shift(-1).over("resource").fill_null(end_s)
    return (
        facts.filter(pl.col("event").is_in([Fact.LOCAL_USER_CAME, Fact.LOCAL_USER_GONE]))
        .with_columns(until_s=until_s)
        .filter(event=Fact.LOCAL_USER_CAME)
        .select(node=pl.col("resource").cast(pl.Int64), from_s="time_s", until_s="until_s")
    )


def _stops(facts: pl.DataFrame) -> pl.DataFrame:
    """(from_s, node, what): where jobs stop and continue."""
    texts = {Fact.RUN_STOPPED: "a job stops", Fact.RUN_CONTINUED: "a job continues"}
    marks = facts.filter(pl.col("event").is_in(list(texts)))
    what = pl.col("event").cast(pl.String).replace_strict(texts, return_dtype=pl.String)
    node = pl.col("machines").cast(pl.Int64)
    return one_row_per_machine(marks).select(from_s="time_s", node=node, what=what)


def timeline(facts: pl.DataFrame, n_nodes: int) -> Figure:
    """Node by time: MPL as shade, a line while a local user is present, marks where jobs stop and continue.
    Long runs are cut."""
    end_s = float(facts["time_s"].max() or 0.0)  # type: ignore[arg-type]
    segments, there, marks = mpl_segments(facts), _presence(facts, end_s), _stops(facts)
    begins_s = pl.concat([frame["from_s"] for frame in (segments, there, marks)]).sort()
    title = "Time (s)"
    if len(begins_s) > MAX_DRAWN:
        title, end_s = f"Time (s); the run ends at {end_s:,.0f} s", float(begins_s[MAX_DRAWN])
        segments, there, marks = (f.filter(pl.col("from_s") < end_s) for f in (segments, there, marks))
        cut = pl.col("until_s").clip(upper_bound=end_s)
        segments, there = segments.with_columns(cut), there.with_columns(cut)
    x = column("from_s:Q", title=title, scale={"domain": [0, end_s], "nice": False})
    y_scale = {"domain": [-0.5, n_nodes - 0.5], "nice": False, "reverse": True}
    most = max(segments["mpl"].to_list(), default=0)
    shade = {"domain": [1, 2, 3, 4], "range": ["#c6dbef", "#6baed6", "#2171b5", "#08306b"]}
    if most > 4:
        shade = {"domain": list(range(1, most + 1)), "scheme": "blues"}
    user = {"domain": ["local user is present"], "range": ["#E69F00"]}
    stop = {"domain": ["a job stops", "a job continues"], "range": ["#D55E00", "#009E73"]}
    there = there.with_columns(at=pl.col("node") + 0.4, what=pl.lit("local user is present"))
    return layer(
        Figure(segments.with_columns(low=pl.col("node") - 0.4, high=pl.col("node") + 0.3))
        .mark("rect", stroke="white", strokeWidth=0.3)
        .encode(
            x=x,
            x2=column("until_s"),
            y=column("low:Q", title="Node", scale=y_scale, axis={"tickMinStep": 1, "format": "d"}),
            y2=column("high"),
            color=column("mpl:O", scale=shade, title="Parallel tasks"),
            tooltip=tooltips("node", "from_s", "until_s", "mpl"),
        ),
        Figure(there)
        .mark("rule", strokeWidth=2.5)
        .encode(
            x=x,
            x2=column("until_s"),
            y=column("at:Q", scale=y_scale),
            color=column("what:N", scale=user, title=None),
        ),
        Figure(marks)
        .mark("point", filled=True, size=45)
        .encode(x=x, y=column("node:Q", scale=y_scale), color=column("what:N", scale=stop, title=None)),
    ).properties(resolve={"scale": {"color": "independent"}}, width=WIDTH - 100, height=22 * n_nodes)


def predicted_against_real(points: pl.DataFrame, of: str) -> Figure:
    """Predicted over real turnaround. `points` has the columns `real` and `predicted` (s) and `of`, whose
    values have a colour each; the parameter `of` is the title of the legend."""
    colours = colour_scale(points["of"].unique(maintain_order=True))
    longest_s = max(points["real"].max(), points["predicted"].max())  # type: ignore[type-var]
    equal = Figure(pl.DataFrame({"real": [0.0, longest_s], "predicted": [0.0, longest_s]}))
    return layer(
        equal.mark("line", strokeDash=[4, 4], color="#666").encode(
            x=column("real:Q"), y=column("predicted:Q")
        ),
        Figure(points)
        .mark("point", filled=True, size=50)
        .encode(
            x=column("real:Q", title="Real turnaround (s)"),
            y=column("predicted:Q", title="Turnaround predicted at arrival (s)"),
            color=column("of:N", scale=colours, title=of),
            tooltip=tooltips("of", "real", "predicted"),
        ),
    ).properties(width=420, height=420)
