"""What becomes of jobs of different sizes, run times and users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil

import numpy as np
import polars as pl

from sil.report.figures import (
    RUN_TIMES,
    SHAPES,
    SLOWDOWNS,
    WAITS,
    WIDTH,
    logarithmic,
    scheduler_colour,
    second_channel,
    size_class,
    size_powers,
    tooltips,
)
from sil.report.page import PageTable
from sil.report.replay import Jobs
from sil.report.schedule_chart import Floats, users_by_work
from sil.report.vega_lite import Figure, Spec, column, faceted, layer
from sil.workload.slices import WEEK_S

MAX_WEEKS = 104
"""The most weeks that have a column each; of more, several make one column."""
MAX_USERS = 20
"""The most users that are drawn: those with the most processor-seconds."""
_RAN_S = pl.col("finish_time") - pl.col("starting_time")
_HOURS = ((_RAN_S * pl.col("requested_number_of_resources")).sum() / 3_600).alias("processor-hours")


def slowdown_by_size(jobs: Jobs, names: Sequence[str]) -> Figure:
    """Bounded slowdown by requested processors: mean, and median to 95th percentile."""
    rows = []
    for scheduler, table in jobs.items():
        powers = size_powers(table["requested_number_of_resources"])
        for power in np.unique(powers):
            values = table["bounded_slowdown"].to_numpy()[powers == power]
            low, high = np.quantile(values, [0.5, 0.95], method="inverted_cdf")
            rows.append((scheduler, size_class(power), power, float(values.mean()), low, high, len(values)))
    columns = ["scheduler", "processors", "power", "mean", "median", "95th percentile", "jobs"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    title = "Requested processors (dot: mean; line: median to 95th percentile)"
    x = column("processors:N", sort=_in_order(frame), title=title, axis={"labelAngle": 0})
    colour = scheduler_colour(names)
    y = logarithmic(float(frame["95th percentile"].max()), "Bounded slowdown (log scale)")  # type: ignore[arg-type]
    base = Figure(frame).encode(x=x, xOffset=column("scheduler:N", sort=list(names)), color=colour)
    return layer(
        base.mark("rule", strokeWidth=2, opacity=0.5).encode(
            y=column("median:Q", **y), y2=column("95th percentile")
        ),
        base.mark("point", filled=True, size=55, opacity=1).encode(
            y=column("mean:Q", **y), shape=second_channel(colour, SHAPES), tooltip=tooltips(*columns)
        ),
    ).properties(width=WIDTH, height=280)


def jobs_by_size_and_run_time(table: pl.DataFrame) -> Figure:
    """The number of jobs of each size and run time."""
    cells = _cells({"": table}, _RUN_TIME, _HOURS)
    colour = column("jobs:Q", scale={"type": "log", "scheme": "blues", "nice": False}, title="Jobs")
    return _heat_map(cells, colour).encode(y=_OF_RUN_TIMES).properties(width=WIDTH, height=200)


def slowdown_by_size_and_run_time(jobs: Jobs, names: Sequence[str]) -> Figure:
    """The mean bounded slowdown of jobs of each size and run time: a panel for each scheduler."""
    cells = _cells(jobs, _RUN_TIME, pl.col("bounded_slowdown").mean().alias("mean"))
    cells = cells.with_columns(shade=SLOWDOWNS.label(pl.col("mean")))
    columns = 2 if len(names) in (1, 2, 4) else 3
    map_ = _heat_map(cells, SLOWDOWNS.colour("shade", "Mean bounded slowdown"), label_angle=-40)
    map_ = map_.encode(y=_OF_RUN_TIMES).properties(width=WIDTH // columns - 30, height=150)
    return _panels(map_, names, columns)


def waiting_by_week_and_size(jobs: Jobs, names: Sequence[str]) -> Figure:
    """The mean waiting time of jobs of each size by the week of their submission, or by several weeks: a
    panel for each scheduler."""
    submitted_s = [table["submission_time"].to_numpy() for table in jobs.values()]
    first_s = min(float(times_s.min()) for times_s in submitted_s)
    last_s = max(float(times_s.max()) for times_s in submitted_s)
    weeks = ceil((last_s - first_s + 1) / WEEK_S / MAX_WEEKS)
    week = ((pl.col("submission_time") - first_s) // (weeks * WEEK_S)).cast(pl.Int64) * weeks
    cells = _cells(jobs, week.alias("week"), pl.col("waiting_time").mean().alias("mean (s)"))
    cells = cells.with_columns(shade=WAITS.label(pl.col("mean (s)")), end=pl.col("week") + weeks)
    title, whole = "Weeks since the first submission", {"tickMinStep": 1, "grid": False}
    map_ = _heat_map(cells, WAITS.colour("shade", "Mean waiting time")).encode(
        x=column("week:Q", title=title, scale={"nice": False}, axis=whole),
        x2=column("end"),
        y=column("processors:O", sort=_in_order(cells)[::-1], title="Requested processors"),
    )
    return _panels(map_.properties(width=WIDTH, height=150), names, columns=1)


_RUN_TIME = RUN_TIMES.label(_RAN_S).alias("run time")
_OF_RUN_TIMES = column("run time:O", sort=RUN_TIMES.labels[::-1], title="Run time")


def _in_order(cells: pl.DataFrame) -> list[str]:
    return [size_class(power) for power in sorted(cells["power"].unique())]


def _cells(jobs: Jobs, by: pl.Expr, value: pl.Expr) -> pl.DataFrame:
    """Groups of jobs by scheduler, by size, and by something else: their number, and a value of theirs."""
    tables = []
    for name, table in jobs.items():
        powers = pl.Series("power", size_powers(table["requested_number_of_resources"]))
        groups = table.with_columns(powers, by).group_by("power", by.meta.output_name())
        tables.append(groups.agg(pl.len().alias("jobs"), value).with_columns(scheduler=pl.lit(name)))
    cells = pl.concat(tables).sort("scheduler", "power", by.meta.output_name())
    texts = {power: size_class(power) for power in cells["power"].unique()}
    return cells.with_columns(processors=pl.col("power").replace_strict(texts, return_dtype=pl.String))


def _heat_map(cells: pl.DataFrame, colour: Spec, label_angle: int = 0) -> Figure:
    shown = tooltips(*(name for name in cells.columns if name not in ("power", "shade", "end")))
    axis = {"labelAngle": label_angle}
    across = column("processors:O", sort=_in_order(cells), title="Requested processors", axis=axis)
    return Figure(cells).mark("rect").encode(x=across, color=colour, tooltip=shown)


def _panels(figure: Figure, names: Sequence[str], columns: int) -> Figure:
    return faceted(figure, column("scheduler:N", sort=list(names), title=None), columns)


def by_user(jobs: Jobs) -> pl.DataFrame:
    """A row for each scheduler and user: jobs, processor-hours, mean waiting time and mean bounded slowdown;
    empty if users are unknown."""
    tables = [
        table.group_by("user", maintain_order=True)
        .agg(
            pl.len().alias("jobs"),
            _HOURS,
            pl.col("waiting_time").mean().alias("mean waiting time (s)"),
            pl.col("bounded_slowdown").mean().alias("mean bounded slowdown"),
        )
        .with_columns(scheduler=pl.lit(name))
        for name, table in jobs.items()
        if "user" in table.columns
    ]
    return pl.concat(tables) if tables else pl.DataFrame()


def slowdown_by_user(users: pl.DataFrame, jobs: Jobs, names: Sequence[str]) -> Figure:
    """The mean bounded slowdown of the users with the most processor-seconds."""
    most = users_by_work(jobs.values())[:MAX_USERS]
    shown = users.filter(pl.col("user").is_in(most))
    colour = scheduler_colour(names)
    most_slow = float(shown["mean bounded slowdown"].max())  # type: ignore[arg-type]
    y = logarithmic(most_slow, "Mean bounded slowdown (log scale)")
    axis = {"labelAngle": -40, "grid": True}
    point = Figure(shown).mark("point", filled=True, size=55, opacity=1).properties(width=WIDTH, height=260)
    return point.encode(
        x=column("user:N", sort=most, title="User, by processor-hours", axis=axis),
        y=column("mean bounded slowdown:Q", **y),
        color=colour,
        shape=second_channel(colour, SHAPES),
        tooltip=tooltips(*shown.columns),
    )


MEASURES: dict[str, Callable[[Floats], str]] = {
    "Jain's index of users (1: all alike)": lambda of: f"{of.sum() ** 2 / (len(of) * (of**2).sum()):.3f}",
    "Median of users": lambda of: f"{np.median(of):,.2f}",
    "95th percentile of users": lambda of: f"{np.quantile(of, 0.95):,.2f}",
    "Worst user": lambda of: f"{of.max():,.2f}",
}
"""Measures of the mean slowdowns of users. Jain's index is 1 / n if one of n has all."""


def fairness_table(users: pl.DataFrame, names: Sequence[str]) -> PageTable:
    """How unequal users are: a row for each measure, a column for each scheduler."""
    slowdowns = [users.filter(scheduler=name)["mean bounded slowdown"].to_numpy() for name in names]
    rows = [
        [title, *(text(of_users) if len(of_users) else "-" for of_users in slowdowns)]
        for title, text in MEASURES.items()
    ]
    return PageTable(["Mean bounded slowdown", *names], rows)
