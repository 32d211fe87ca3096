"""How the users of a log fare: whether some wait much longer than others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from sil.report.figures import SHAPES, WIDTH, logarithmic, scheduler_colour, told_apart, tooltips
from sil.report.page import Table
from sil.report.replay import Jobs
from sil.report.schedule.runs import Floats, users_by_work
from sil.report.vega_lite import Figure, column

MOST_USERS = 20
"""Those with the most processor-seconds are drawn."""


def by_user(jobs: Jobs) -> pl.DataFrame:
    """A row for each scheduler and user: jobs, processor-hours, mean waiting time and mean bounded slowdown;
    empty if users are unknown."""
    held = (pl.col("finish_time") - pl.col("starting_time")) * pl.col("requested_number_of_resources")
    tables = [
        table.group_by("user", maintain_order=True)
        .agg(
            pl.len().alias("jobs"),
            (held.sum() / 3_600).alias("processor-hours"),
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
    most = users_by_work(jobs.values())[:MOST_USERS]
    shown = users.filter(pl.col("user").is_in(most))
    title, colour = "User, by processor-hours", scheduler_colour(names)
    most_slow = float(shown["mean bounded slowdown"].max())  # type: ignore[arg-type]
    return (
        Figure(shown)
        .mark("point", filled=True, size=55, opacity=1)
        .encode(
            x=column("user:N", sort=most, title=title, axis={"labelAngle": -40, "grid": True}),
            y=column(
                "mean bounded slowdown:Q", **logarithmic(most_slow, "Mean bounded slowdown (log scale)")
            ),
            color=colour,
            shape=told_apart(colour, SHAPES),
            tooltip=tooltips(*shown.columns),
        )
        .properties(width=WIDTH, height=260)
    )


def fairness_table(users: pl.DataFrame, names: Sequence[str]) -> Table:
    """How unequal users are: a row for each measure, a column for each scheduler."""
    slowdowns = {name: users.filter(scheduler=name)["mean bounded slowdown"].to_numpy() for name in names}
    measures: dict[str, Callable[[Floats], str]] = {
        "Jain's index of users (1: all alike)": lambda of_users: f"{_jain(of_users):.3f}",
        "Median of users": lambda of_users: f"{np.median(of_users):,.2f}",
        "95th percentile of users": lambda of_users: f"{np.quantile(of_users, 0.95):,.2f}",
        "Worst user": lambda of_users: f"{of_users.max():,.2f}",
    }
    rows = [
        [title, *(text(of_users) if len(of_users) else "-" for of_users in slowdowns.values())]
        for title, text in measures.items()
    ]
    return Table(["Mean bounded slowdown", *names], rows)


def _jain(of_users: Floats) -> float:
    """1 if all are equal, 1 / n if one of n has all."""
    return float(of_users.sum() ** 2 / (len(of_users) * (of_users**2).sum()))
