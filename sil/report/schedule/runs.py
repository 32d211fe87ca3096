"""The runs of a schedule as arrays, with a rectangle for each interval of processors that a run held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rectangles:
    """`run` is the place of its run among all; `low` and `high` bound its processors, `high` excluded."""

    run: Numbers
    low: Numbers
    high: Numbers

    @classmethod
    def of(cls, allocated: pl.Series) -> Rectangles:
        """From texts like `0-3 5`, one for each run."""
        places = pl.int_range(len(allocated), eager=True)
        each = pl.DataFrame([places.alias("run"), allocated.str.split(" ").alias("held")]).explode("held")
        ends = each["held"].str.split_exact("-", 1).struct.unnest().cast(pl.Int64)
        low, last = ends["field_0"], ends["field_1"].fill_null(ends["field_0"])
        return cls(each["run"].to_numpy(), low.to_numpy(), last.to_numpy() + 1)

    def __len__(self) -> int:
        return len(self.run)


@dataclass(frozen=True)
class Runs:
    """In order of job; times are seconds from the first submission on. `user` is a place among the users."""

    job: Numbers
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    estimate_s: Floats
    size: Floats
    user: Numbers
    rectangles: Rectangles

    @classmethod
    def of(cls, jobs: pl.DataFrame, first_s: float, users: Sequence[str]) -> Runs:
        """From the columns of jobs.csv; `user` is one more, if there are users."""
        user = np.zeros(len(jobs), np.int64)
        if users:
            place = {name: k for k, name in enumerate(users)}
            user = jobs["user"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
        return cls(
            jobs["job_id"].to_numpy(),
            jobs["submission_time"].to_numpy() - first_s,
            jobs["starting_time"].to_numpy() - first_s,
            jobs["finish_time"].to_numpy() - first_s,
            jobs["requested_time"].to_numpy(),
            jobs["requested_number_of_resources"].to_numpy().astype(np.float64),
            user,
            Rectangles.of(jobs["allocated_resources"]),
        )

    @property
    def wait_s(self) -> Floats:
        return self.start_s - self.submit_s

    @property
    def are_in_whole_seconds(self) -> bool:
        times = (self.submit_s, self.start_s, self.end_s)
        return all(bool((time_s == np.floor(time_s)).all()) for time_s in times)


def users_by_work(tables: Iterable[pl.DataFrame]) -> list[str]:
    """The users with the most processor-seconds first; none if they are unknown."""
    columns = ["user", "starting_time", "finish_time", "requested_number_of_resources"]
    known = [table.select(columns) for table in tables if "user" in table.columns]
    if not known:
        return []
    work = (pl.col("finish_time") - pl.col("starting_time")) * pl.col("requested_number_of_resources")
    sums = (
        pl.concat(known).group_by("user").agg(work=work.sum()).sort("work", "user", descending=[True, False])
    )
    return sums["user"].to_list()
