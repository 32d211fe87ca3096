"""Figures: one Altair chart per question, readable as they stand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import numpy as np
import polars as pl

from scheduler.node_set import NodeSet
from sil.outcome.comparison import Comparison
from sil.outcome.metrics import metric
from sil.outcome.statistics import Interval
from sil.trace.facts import RunDescription

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999933", "#882255")
"""Colours that colour-blind readers can distinguish (Okabe and Ito, and Tol)."""

# Altair limits charts to 5,000 rows for notebooks; the charts here are small by design.
alt.data_transformers.disable_max_rows()

Figure = alt.Chart | alt.LayerChart | alt.FacetChart | alt.VConcatChart

WIDTH = 760
MOST_RUNS_IN_A_GANTT = 3_000


def tooltips(*columns: str) -> list[alt.Tooltip]:
    """Tooltips of columns. (Altair also accepts names, but is much slower.)"""
    return [alt.Tooltip(column) for column in columns]


def change_over_grid(comparison: Comparison, key: str) -> Figure:
    """The percentage change of a metric relative to the baseline, along the only numeric axis of the grid."""
    m = metric(key)
    axis = comparison.description.axes[0]
    rows = []
    for point, settings in enumerate(comparison.description.points):
        for scheduler in comparison.schedulers[1:]:
            cell = comparison.cell(point, scheduler, key)
            if cell is not None and cell.change_percent is not None:
                change = cell.change_percent
                rows.append((settings[axis], scheduler, change.mean, change.low, change.high))
    frame = _frame(rows, ["setting", "scheduler", "change", "low", "high"])
    x = alt.X("setting:Q", title=setting_title(axis))
    colour = scheduler_colour(comparison.schedulers, first=1)
    title = f"Change of {m.title[0].lower()}{m.title[1:]} relative to {comparison.baseline} (%)"
    base = alt.Chart(frame)
    return alt.layer(
        base.mark_rule(strokeDash=[4, 4], color="#666").encode(y=alt.datum(0.0)),
        base.mark_area(opacity=0.2).encode(
            x=x, y=alt.Y("low:Q", title=title), y2=alt.Y2("high:Q"), color=colour
        ),
        base.mark_line(point=True).encode(
            x=x,
            y=alt.Y("change:Q", title=title),
            color=colour,
            tooltip=tooltips("setting", "scheduler", "change", "low", "high"),
        ),
    ).properties(width=WIDTH, height=280)


def value_over_grid(comparison: Comparison, key: str) -> Figure:
    """One metric of every scheduler along the only numeric axis of the grid, with 95 % intervals."""
    m = metric(key)
    axis = comparison.description.axes[0]
    rows = []
    for point, settings in enumerate(comparison.description.points):
        for scheduler in comparison.schedulers:
            cell = comparison.cell(point, scheduler, key)
            if cell is not None:
                value = cell.value
                rows.append((settings[axis], scheduler, value.mean, value.low, value.high))
    frame = _frame(rows, ["setting", "scheduler", "value", "low", "high"])
    x = alt.X("setting:Q", title=setting_title(axis))
    colour = scheduler_colour(comparison.schedulers)
    base = alt.Chart(frame)
    return alt.layer(
        base.mark_area(opacity=0.2).encode(
            x=x, y=alt.Y("low:Q", title=m.label), y2=alt.Y2("high:Q"), color=colour
        ),
        base.mark_line(point=True).encode(
            x=x,
            y=alt.Y("value:Q", title=m.label),
            color=colour,
            tooltip=tooltips("setting", "scheduler", "value", "low", "high"),
        ),
    ).properties(width=WIDTH, height=280)


def turnaround_distribution(jobs: pl.DataFrame, schedulers: Sequence[str]) -> Figure:
    """Share of jobs, over all replications, whose turnaround is at most x."""
    values = {name: jobs.filter(pl.col("scheduler") == name)["turnaround_time"] for name in schedulers}
    return distribution(values, schedulers, "Turnaround (s)")


def distribution(
    values: Mapping[str, pl.Series], schedulers: Sequence[str], title: str, least: float | None = None
) -> Figure:
    """The empirical distribution of a quantity of jobs: one line per scheduler.

    With `least`, the axis is logarithmic and smaller values are drawn there.
    """
    shares = np.linspace(0.0, 1.0, 201)
    rows = [
        (name, 100 * share, value if least is None else max(value, least))
        for name, series in values.items()
        if len(series)
        for share, value in zip(
            shares, np.quantile(series.to_numpy(), shares, method="inverted_cdf").tolist(), strict=True
        )
    ]
    scale = alt.Scale() if least is None else alt.Scale(type="log")
    figure: Figure = (
        alt.Chart(_frame(rows, ["scheduler", "share", "value"]))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("value:Q", title=title, scale=scale),
            y=alt.Y("share:Q", title="Jobs with at most that value (%)", scale=alt.Scale(domain=[0, 100])),
            order=alt.Order("share:Q"),
            color=scheduler_colour(schedulers),
            tooltip=tooltips("scheduler", "share", "value"),
        )
        .properties(width=WIDTH, height=280)
    )
    return figure


def gantt(held: pl.DataFrame, jobs: pl.DataFrame, description: RunDescription) -> Figure:
    """Machine by time, one panel per scheduler; colour is the job class, a dark frame marks parallel runs.

    `held` and `jobs` are those of one point and one replication.
    """
    classes = jobs.select("scheduler", pl.col("job_id").alias("job"), "job_class")
    drawn = held.sort("from_s", maintain_order=True).head(MOST_RUNS_IN_A_GANTT)
    rows = [
        (*told[:3], low, last + 1, *told[3:5], kind, told[5])
        for *told, machines, resource in drawn.join(classes, on=["scheduler", "job"], how="left")
        .select("scheduler", "job", "job_class", "from_s", "until_s", "ending", "machines", "resource")
        .iter_rows()
        for kind in ["parallel" if resource >= description.n_machines else "sequential"]
        for low, last in NodeSet.parse(machines).intervals
    ]
    columns = ["scheduler", "job", "job class", "low", "high", "from", "until", "run", "ending"]
    frame = _frame(rows, columns)
    colour = alt.Color(
        "job class:N", sort=list(description.job_classes), legend=alt.Legend(title="Job class")
    )
    colour = colour.scale(domain=list(description.job_classes), range=_colours(description.job_classes))
    horizon_s = max((row[6] for row in rows), default=1.0)
    ticks = _class_ticks(description.machine_classes)
    frames = alt.condition("datum.run === 'parallel'", alt.value("#111"), alt.value("white"))
    panels = [
        alt.Chart(frame)
        .transform_filter(alt.datum.scheduler == scheduler)
        .mark_rect()
        .encode(
            x=alt.X("from:Q", title="Time (s)", scale=alt.Scale(domain=[0, horizon_s], nice=False)),
            x2=alt.X2("until:Q"),
            y=alt.Y(
                "low:Q",
                title="Machines, by class",
                scale=alt.Scale(domain=[0, description.n_machines], reverse=True, nice=False),
                axis=alt.Axis(values=list(ticks), labelExpr=f"({json.dumps(ticks)})[datum.value]", grid=True),
            ),
            y2=alt.Y2("high:Q"),
            color=colour,
            stroke=frames,
            strokeWidth=alt.condition("datum.run === 'parallel'", alt.value(1.4), alt.value(0.3)),
            tooltip=tooltips(*columns),
        )
        .properties(width=WIDTH, height=max(120, min(340, 3 * description.n_machines)), title=scheduler)
        for scheduler in held["scheduler"].unique(maintain_order=True)
    ]
    figure: Figure = alt.vconcat(*panels).resolve_scale(x="shared", color="shared")
    return figure


def utilisation_over_time(
    held: pl.DataFrame, schedulers: Sequence[str], n_machines: int, replications: int
) -> Figure:
    """Share of the machines held by runs, over time, mean over the replications."""
    rows: list[tuple[str, float, float]] = []
    for scheduler in schedulers:
        runs = held.filter(pl.col("scheduler") == scheduler)
        size = runs["tasks"].to_numpy().astype(float)
        times_s = np.concatenate([runs["from_s"].to_numpy(), runs["until_s"].to_numpy()])
        change = np.concatenate([size, -size])
        moments_s, which = np.unique(times_s, return_inverse=True)
        busy = np.cumsum(np.bincount(which, weights=change, minlength=len(moments_s)))
        percent = 100.0 * busy / (n_machines * replications)
        keep = np.unique(np.linspace(0, len(moments_s) - 1, min(600, len(moments_s))).astype(int))
        rows += [(scheduler, float(moments_s[k]), float(percent[k])) for k in keep]
    figure: Figure = (
        alt.Chart(_frame(rows, ["scheduler", "time", "utilisation"]))
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("time:Q", title="Time (s)"),
            y=alt.Y("utilisation:Q", title="Machines in use (%)"),
            color=scheduler_colour(schedulers),
            tooltip=tooltips("scheduler", "time", "utilisation"),
        )
        .properties(width=WIDTH, height=220)
    )
    return figure


def lines(
    points: Iterable[tuple[float, str, Interval | float]],
    x_title: str,
    y_title: str,
    legend: str,
    height: int = 280,
) -> Figure:
    """One line per name, in order of appearance; `points` are (x, name, y). An interval is drawn as its mean
    with a band."""
    rows = [
        (x, name, y.mean, y.low, y.high) if isinstance(y, Interval) else (x, name, y, y, y)
        for x, name, y in points
    ]
    frame = pl.DataFrame(rows, schema=["x", "name", "y", "low", "high"], orient="row")
    names = frame["name"].unique(maintain_order=True).to_list()
    colour = alt.Color(
        "name:N",
        scale=alt.Scale(domain=names, range=_colours(names)),
        legend=alt.Legend(title=legend, symbolOpacity=1),
    )
    base = alt.Chart(frame)
    across = alt.X("x:Q", title=x_title)
    figure: Figure = alt.layer(
        base.mark_area(opacity=0.2).encode(
            x=across, y=alt.Y("low:Q", title=y_title), y2=alt.Y2("high:Q"), color=colour
        ),
        base.mark_line(point=True).encode(
            x=across, y=alt.Y("y:Q", title=y_title), color=colour, tooltip=_titled(x_title, legend, y_title)
        ),
    ).properties(width=WIDTH, height=height)
    return figure


def bars(rows: Iterable[tuple[str, str, float]], x_title: str, y_title: str, legend: str) -> Figure:
    """Bars side by side, one per name at each x, both in order of appearance; `rows` are (x, name, y)."""
    frame = pl.DataFrame(list(rows), schema=["x", "name", "y"], orient="row")
    names = frame["name"].unique(maintain_order=True).to_list()
    figure: Figure = (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X("x:N", title=x_title, sort=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("name:N", sort=None),
            y=alt.Y("y:Q", title=y_title),
            color=alt.Color(
                "name:N",
                scale=alt.Scale(domain=names, range=_colours(names)),
                legend=alt.Legend(title=legend, labelLimit=0),
            ),
            tooltip=_titled(x_title, legend, y_title),
        )
        .properties(width=WIDTH, height=280)
    )
    return figure


def _titled(x_title: str, legend: str, y_title: str) -> list[alt.Tooltip]:
    titles = {"x": x_title, "name": legend, "y": y_title}
    return [alt.Tooltip(column, title=title) for column, title in titles.items()]


def setting_title(setting: str) -> str:
    """A setting of the grid in words: "workload.jobs" becomes "Number of jobs"."""
    titles = {
        "workload.jobs": "Number of jobs",
        "workload.arrivals.jobs_per_quantum": "Mean arrivals per quantum (jobs)",
    }
    return titles.get(setting, setting)


def save(chart: Figure, path: str) -> None:
    """Write a chart as a PNG, SVG, PDF or HTML file, by the ending of `path`."""
    if path.endswith(".png"):
        styled(chart).save(path, scale_factor=2)
    else:
        styled(chart).save(path)


def styled(chart: Figure) -> Figure:
    """The chart with the project's fonts and colours."""
    figure: Figure = (
        chart.configure_axis(
            labelFontSize=12, titleFontSize=13, titleFontWeight="normal", gridColor="#e4e4e4"
        )
        .configure_legend(labelFontSize=12, titleFontSize=12)
        .configure_title(fontSize=14, anchor="start")
        .configure_view(stroke="#bbb")
    )
    return figure


TEXT = ("scheduler", "job class", "run", "ending")


def _frame(rows: Sequence[tuple[object, ...]], columns: Sequence[str]) -> pl.DataFrame:
    """Rows as a table whose columns are numbers but for those in TEXT, also where there are no rows."""
    schema = {name: pl.String if name in TEXT else pl.Float64 for name in columns}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _colours(names: Sequence[str]) -> list[str]:
    return [PALETTE[k % len(PALETTE)] for k in range(len(names))]


def scheduler_colour(schedulers: Sequence[str], first: int = 0) -> alt.Color:
    """The colours of all schedulers of a report, by position; those before `first` are not in this figure."""
    scale = alt.Scale(domain=list(schedulers)[first:], range=_colours(schedulers)[first:])
    return alt.Color("scheduler:N", scale=scale, legend=alt.Legend(title="Scheduler", symbolOpacity=1))


def _class_ticks(machine_classes: Sequence[str]) -> dict[int, str]:
    """First machine of each stretch of one class, and the class."""
    return {j: name for j, name in enumerate(machine_classes) if j == 0 or machine_classes[j - 1] != name}
