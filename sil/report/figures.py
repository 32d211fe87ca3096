"""Figures: one chart per question, readable as they stand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, log10

import numpy as np
import polars as pl

from scheduler.messages import printable
from sil.outcome.comparison import Cell, Comparison
from sil.outcome.metrics import metric
from sil.outcome.statistics import Interval
from sil.report.vega_lite import Figure, Spec, below_each_other, column, either, faceted, layer
from sil.trace.facts import RunDescription, one_row_per_interval

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999933", "#882255")
"""Colours that colour-blind readers can distinguish (Okabe and Ito, and Tol)."""

DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [5, 2], [1, 3], [12, 3], [4, 1, 1, 1])
"""Of lines, which may have the same values; printed without colours, they differ, too."""
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-left",
    "triangle-right",
)
WIDTH = 760
MOST_RUNS_IN_A_GANTT = 3_000


def tooltips(*columns: str, **titles: str) -> list[Spec]:
    """Tooltips of columns, by their names or with titles."""
    titled = dict(zip(columns, columns, strict=True)) | titles
    return [column(name, title=title) for name, title in titled.items()]


def change_over_grid(comparison: Comparison, key: str) -> Figure:
    """The percentage change of a metric relative to the baseline, along the only numeric axis of the grid."""
    title = metric(key).title
    y_title = f"Change of {title[0].lower()}{title[1:]} relative to {comparison.baseline} (%)"
    points = [(x, name, cell.change_percent) for x, name, cell in _over_grid(comparison, key)]
    changes = [(x, name, change) for x, name, change in points if change is not None]
    axis = setting_title(comparison.description.axes[0])
    colours = colour_scale(comparison.schedulers, comparison.baseline)
    return layer(zero_rule(), lines(changes, axis, y_title, "Scheduler", colours=colours))


def zero_rule() -> Figure:
    rule = Figure(pl.DataFrame({"y": [0.0]})).mark("rule", strokeDash=[4, 4], color="#666")
    return rule.encode(y=column("y:Q"))


def value_over_grid(comparison: Comparison, key: str) -> Figure:
    """One metric of every scheduler along the only numeric axis of the grid, with 95 % intervals."""
    points = [(x, name, cell.value) for x, name, cell in _over_grid(comparison, key)]
    axis, colours = setting_title(comparison.description.axes[0]), colour_scale(comparison.schedulers)
    return lines(points, axis, metric(key).label, "Scheduler", colours=colours)


def _over_grid(comparison: Comparison, key: str) -> Iterator[tuple[float, str, Cell]]:
    axis = comparison.description.axes[0]
    for point, settings in enumerate(comparison.description.points):
        for scheduler in comparison.schedulers:
            cell = comparison.cell(point, scheduler, key)
            if cell is not None:
                yield settings[axis], scheduler, cell


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
    x = column("value:Q", title=title)
    if least is not None:
        x |= logarithmic(0.0, title, DURATIONS)
    y = column("share:Q", title="Share of jobs (%)", scale={"domain": [0, 100]})
    chart = scheduler_lines(_frame(rows, ["scheduler", "share", "value"]), x, y, schedulers, height=280)
    return chart.encode(order=column("share:Q"))


def scheduler_lines(frame: pl.DataFrame, x: Spec, y: Spec, schedulers: Sequence[str], height: int) -> Figure:
    """One line per scheduler; each value holds until the next."""
    colour = scheduler_colour(schedulers)
    return switchable(
        Figure(frame)
        .mark("line", interpolate="step-after")
        .encode(
            x=x, y=y, color=colour, strokeDash=told_apart(colour, DASHES), tooltip=tooltips(*frame.columns)
        )
        .properties(width=WIDTH, height=height)
    )


def told_apart(colour: Spec, looks: Sequence[object]) -> Spec:
    """The channel of a second look of what has these colours: dashes, or shapes."""
    places = [PALETTE.index(shade) for shade in colour["scale"]["range"]]
    return {**colour, "scale": {**colour["scale"], "range": [looks[place] for place in places]}}


SHOWN = "shown"


def switchable(figure: Figure) -> Figure:
    """A click on a scheduler in the legend shows that one, with Shift several; a double click all."""
    select = {"type": "point", "fields": ["scheduler"], "toggle": "event.shiftKey"}
    opacity = {"condition": {"param": SHOWN, "value": 1}, "value": 0.06}
    return figure.encode(opacity=opacity).properties(
        params=[{"name": SHOWN, "select": select, "bind": "legend"}]
    )


def gantt(runs: pl.DataFrame, jobs: pl.DataFrame, description: RunDescription) -> Figure:
    """Machine by time, one panel per scheduler; colour is the job class, a dark frame marks parallel runs.

    `runs` and `jobs` are those of one point and one replication.
    """
    classes = jobs.select("scheduler", pl.col("job_id").alias("job"), "job_class")
    drawn = runs.sort("from_s", maintain_order=True).head(MOST_RUNS_IN_A_GANTT)
    drawn = drawn.join(classes, on=["scheduler", "job"], how="left")
    is_parallel = pl.col("resource") >= description.n_machines
    kind = pl.when(is_parallel).then(pl.lit("parallel")).otherwise(pl.lit("sequential"))
    shown = {
        **{name: name for name in ("scheduler", "job")},
        "job class": "job_class",
        "low": "low",
        "high": "high",
        "from": "from_s",
        "until": "until_s",
    }
    frame = one_row_per_interval(drawn).select(**shown, run=kind, ending="ending")
    classes_drawn = list(description.job_classes)
    colour = column(
        "job class:N",
        sort=classes_drawn,
        scale=colour_scale(classes_drawn),
        legend={"title": "Job class"},
    )
    horizon_s = frame["until"].max() or 1.0
    # The first machine of each stretch of one class.
    of_machine = description.machine_classes
    ticks = {j: printable(name) for j, name in enumerate(of_machine) if j == 0 or of_machine[j - 1] != name}
    frames = either("datum.run === 'parallel'", "#111", "white")
    panels = [
        Figure(frame.filter(scheduler=scheduler))
        .mark("rect")
        .encode(
            x=column("from:Q", title="Time (s)", scale={"domain": [0, horizon_s], "nice": False}),
            x2=column("until"),
            y=column(
                "low:Q",
                title="Machines, by class",
                scale={"domain": [0, description.n_machines], "reverse": True, "nice": False},
                axis={
                    "values": list(ticks),
                    "labelExpr": f"({json.dumps(ticks)})[datum.value]",
                    "grid": True,
                },
            ),
            y2=column("high"),
            color=colour,
            stroke=frames,
            strokeWidth=either("datum.run === 'parallel'", 1.4, 0.3),
            tooltip=tooltips(*frame.columns),
        )
        .properties(width=WIDTH, height=max(120, min(340, 3 * description.n_machines)), title=scheduler)
        for scheduler in runs["scheduler"].unique(maintain_order=True)
    ]
    return below_each_other(*panels).properties(resolve={"scale": {"x": "shared", "color": "shared"}})


UNITS = {"days": 86_400.0, "h": 3_600.0, "s": 1.0}


def utilisation_over_time(runs: pl.DataFrame, d: RunDescription) -> Figure:
    """Share of the machines, or of the CPUs of nodes, that runs hold over time; mean over replications."""
    rows: list[tuple[str, float, float]] = []
    for scheduler in d.schedulers:
        of_one = runs.filter(scheduler=scheduler)
        size = of_one["tasks"].to_numpy().astype(float)
        times_s = np.concatenate([of_one["from_s"].to_numpy(), of_one["until_s"].to_numpy()])
        change = np.concatenate([size, -size])
        moments_s, which = np.unique(times_s, return_inverse=True)
        busy = np.cumsum(np.bincount(which, weights=change, minlength=len(moments_s)))
        percent = 100.0 * busy / (d.capacity * d.replications)
        keep = np.unique(np.linspace(0, len(moments_s) - 1, min(600, len(moments_s))).astype(int))
        rows += [(scheduler, float(moments_s[k]), float(percent[k])) for k in keep]
    last_s = max((time_s for _, time_s, _ in rows), default=0.0)
    unit, unit_s = next((name, size) for name, size in UNITS.items() if last_s >= 3 * size or size == 1.0)
    rows = [(scheduler, time_s / unit_s, percent) for scheduler, time_s, percent in rows]
    frame = _frame(rows, ["scheduler", "time", "utilisation"])
    title = "CPUs in use (%)" if d.cores else "Machines in use (%)"
    x, y = column("time:Q", title=f"Time ({unit})"), column("utilisation:Q", title=title)
    return scheduler_lines(frame, x, y, d.schedulers, height=220)


def lines(
    points: Iterable[tuple[float, str, Interval | float]],
    x_title: str,
    y_title: str,
    legend: str,
    height: int = 280,
    colours: Spec | None = None,
) -> Figure:
    """One line per name; `points` are (x, name, y). An interval is drawn as its mean with a band. Colours are
    by order of appearance, or those of a scale."""
    rows = [
        (x, name, y.mean, y.low, y.high) if isinstance(y, Interval) else (x, name, y, y, y)
        for x, name, y in points
    ]
    schema = {"x": pl.Float64, "name": pl.String, "y": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    colour = column(
        "name:N",
        scale=colours or colour_scale(frame["name"].unique(maintain_order=True)),
        legend={"title": legend, "symbolOpacity": 1},
    )
    titles = {"x": x_title, "name": legend, "y": y_title}
    if (frame["low"] < frame["high"]).any():
        titles |= {"low": "low", "high": "high"}
    base = Figure(frame).encode(x=column("x:Q", title=x_title), color=colour)
    low, high, y = column("low:Q", title=y_title), column("high"), column("y:Q", title=y_title)
    return layer(
        base.mark("area", opacity=0.2).encode(y=low, y2=high),
        base.mark("line", point=True).encode(
            y=y, strokeDash=told_apart(colour, DASHES), tooltip=tooltips(**titles)
        ),
    ).properties(width=WIDTH, height=height)


def bars(rows: Iterable[tuple[str, str, float]], x_title: str, y_title: str, legend: str) -> Figure:
    """Bars side by side, one per name at each x, both in order of appearance; `rows` are (x, name, y)."""
    frame = pl.DataFrame(list(rows), schema=["x", "name", "y"], orient="row")
    return (
        Figure(frame)
        .mark("bar")
        .encode(
            x=column("x:N", title=x_title, sort=None, axis={"labelAngle": 0}),
            xOffset=column("name:N", sort=None),
            y=column("y:Q", title=y_title),
            color=column(
                "name:N",
                scale=colour_scale(frame["name"].unique(maintain_order=True)),
                legend={"title": legend, "labelLimit": 0},
            ),
            tooltip=tooltips(x=x_title, name=legend, y=y_title),
        )
        .properties(width=WIDTH, height=280)
    )


def overhead_figure(points: pl.DataFrame, across: str, lines: str, title: str = "") -> Figure:
    """Median decision time (ms) over jobs with quartiles: a line per value of `lines`, a panel per value of
    `across`, both axes logarithmic, as in Collins and George 2001, Figures 3 and 4. `points` also has the
    columns jobs, median_s, low_s and high_s."""
    frame = points.with_columns(
        *(pl.col(f"{name}_s").mul(1e3).alias(name) for name in ("median", "low", "high")),
        pl.col(across, lines).cast(pl.String),
    )
    titles = {"machines": "Machines", "parallel_percent": "Parallel jobs (%)", "scheduler": "Scheduler"}
    scale = {"type": "log", "nice": False, "padding": 8}
    x = column("jobs:Q", title="Number of jobs", scale=scale)
    y, low = (column(name, title="Decision time (ms)", scale=scale) for name in ("median:Q", "low:Q"))
    colour = column(f"{lines}:N", sort=None, legend={"title": titles[lines], "symbolOpacity": 1})
    shown = tooltips("jobs", lines, "median", "low", "high")
    base = Figure(frame).encode(x=x, color=colour)
    panel = layer(
        base.mark("area", opacity=0.2).encode(y=low, y2=column("high")),
        base.mark("line", point=True).encode(y=y, tooltip=shown),
    ).properties(width=WIDTH // 2, height=260)
    panels = frame[across].unique(maintain_order=True).to_list()
    return faceted(panel, column(f"{across}:N", sort=panels, title=title or titles[across]), columns=2)


def setting_title(setting: str) -> str:
    """A setting of the grid in words: "workload.jobs" becomes "Number of jobs"."""
    titles = {
        "workload.jobs": "Number of jobs",
        "workload.arrivals.jobs_per_quantum": "Mean arrivals per quantum (jobs)",
    }
    return titles.get(setting, setting)


def _frame(rows: Sequence[tuple[object, ...]], columns: Sequence[str]) -> pl.DataFrame:
    """Rows as a table whose columns are numbers but for the scheduler, also where there are no rows."""
    schema = {name: pl.String if name == "scheduler" else pl.Float64 for name in columns}
    return pl.DataFrame(rows, schema=schema, orient="row")


def colour_scale(names: Iterable[str], without: str | None = None) -> Spec:
    """A colour for each name, by position; one may not be in this figure."""
    shown = [(name, PALETTE[k % len(PALETTE)]) for k, name in enumerate(names) if name != without]
    return {"domain": [name for name, _ in shown], "range": [colour for _, colour in shown]}


def scheduler_colour(schedulers: Sequence[str]) -> Spec:
    """The colours of all schedulers of a report."""
    legend = {"title": "Scheduler", "symbolOpacity": 1}
    return column("scheduler:N", scale=colour_scale(schedulers), legend=legend)


def logarithmic(most: float, title: str, ticks: Mapping[int, str] | None = None) -> Spec:
    """Scale and axis with ticks that all have labels: those given, or else powers of 10 up to `most`."""
    shown = ticks or {10**k: f"{10**k:,}" for k in range(ceil(log10(max(most, 10.0))) + 1)}
    axis = {"values": list(shown), "labelExpr": f"({json.dumps(shown)})[datum.value]"}
    return {"title": title, "scale": {"type": "log", "nice": False}, "axis": axis}


DURATIONS = {1: "1 s", 60: "1 min", 3_600: "1 h", 86_400: "1 day", 604_800: "7 days"}
"""Ticks of a logarithmic axis (s)."""
