"""The runs of a schedule as arrays, and its aggregated levels: what some processors hold during some time, on
average. Each level has four times as many intervals of time as the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.report.figures import WAITS, Classes, sizes
from sil.trace.held import ALLOCATED, one_row_per_interval

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

BANDS = 64
"""The most cells that lie above each other."""
MIN_BINS, MAX_BINS = 1_024, 16_384
FINER = 4
"""A level has this many times the bins of the one before it."""
FULL = 15
"""The shade of a cell all of whose processors are busy."""
_ROUNDING = 1e-6
"""An upper bound of the rounding error of a sum over cells, in relation to a whole cell."""


@dataclass(frozen=True)
class DrawnRuns:
    """The runs of a schedule in order of job; times are seconds from the first submission on. `user` is a
    place among the users.

    Each interval of processors of a run is a rectangle: `place` is that of its run, `low` and `high` bound
    its processors, `high` excluded."""

    job: Numbers
    submit_s: Floats
    start_s: Floats
    end_s: Floats
    estimate_s: Floats
    size: Floats
    user: Numbers
    place: Numbers
    low: Numbers
    high: Numbers

    @classmethod
    def of(cls, jobs: pl.DataFrame, first_s: float, users: Sequence[str]) -> DrawnRuns:
        """The runs in the columns of jobs.csv; `user` is one more, if there are users."""
        place_of = {name: k for k, name in enumerate(users)}
        user = (
            pl.col("user").replace_strict(place_of, return_dtype=pl.Int64) if users else pl.lit(0, pl.Int64)
        )
        times = (pl.col(f"{name}_time") - first_s for name in ("submission", "starting", "finish"))
        size = pl.col("requested_number_of_resources").cast(pl.Float64).alias("size")
        of_runs = jobs.select("job_id", *times, "requested_time", size, user.alias("user"))
        rectangles = one_row_per_interval(jobs.select(machines=ALLOCATED).with_row_index("place"))
        bounds = rectangles.select(pl.col("place", "low", "high").cast(pl.Int64))
        return cls(*(column.to_numpy() for column in (*of_runs, *bounds)))

    @property
    def are_in_whole_seconds(self) -> bool:
        times = (self.submit_s, self.start_s, self.end_s)
        return all(bool((time_s == np.floor(time_s)).all()) for time_s in times)


def users_by_work(tables: Iterable[pl.DataFrame]) -> list[str]:
    """The users with the most processor-seconds first; none if they are unknown."""
    work = (pl.col("finish_time") - pl.col("starting_time")) * pl.col("requested_number_of_resources")
    known = [table.select("user", work=work) for table in tables if "user" in table.columns]
    if not known:
        return []
    sums = pl.concat(known).group_by("user").agg(pl.sum("work"))
    return sums.sort("work", "user", descending=[True, False])["user"].to_list()


def bins_needed(rectangles: int, of_a_window: int, in_a_window: int) -> int:
    """The bins of the finest level, so that a window with more than `of_a_window` of the rectangles has at
    least `in_a_window` bins; 0 if no window has more."""
    if rectangles <= of_a_window:
        return 0
    bins = MIN_BINS
    while bins < min(MAX_BINS, in_a_window * ceil(rectangles / of_a_window)):
        bins *= FINER
    return bins


def levels(
    runs: DrawnRuns, span_s: float, processors: int, bins: int, most_users: int
) -> Iterator[tuple[int, Mapping[str, Numbers]]]:
    """The levels from the finest, with this number of bins, to the coarsest: the number of bins, and for all
    cells, by band of processors, then by time: `busy` (see FULL), the classes of the mean `wait` and `size`
    of what is in a cell, and the `user` who has most of it; `most_users` is "any other"."""
    cells = _Cells(runs, span_s, processors, bins)
    values = (np.ones(len(runs.job)), runs.start_s - runs.submit_s, runs.size)
    busy, wait, size = (cells.summed(each) for each in values)
    rank = np.minimum(runs.user, most_users)
    several = range(int(rank.max(initial=0)) + 1)
    by_user = [busy] if len(several) == 1 else [cells.summed((rank == user) * 1.0) for user in several]
    while True:
        share = busy / (span_s / bins * processors / len(busy))
        held = np.where(share > _ROUNDING, busy, np.inf)
        yield (
            bins,
            {
                "busy": np.clip(np.ceil(FULL * share - _ROUNDING), 0, FULL).astype(np.int64).ravel(),
                "wait": _class_of(wait / held, WAITS),
                "size": _class_of(size / held, sizes(processors)),
                "user": np.argmax(by_user, axis=0).ravel(),
            },
        )
        bins //= FINER
        if bins < MIN_BINS:
            return
        busy, wait, size, *by_user = (
            sums.reshape(len(sums), bins, FINER).sum(axis=2) for sums in (busy, wait, size, *by_user)
        )


def _class_of(means: Floats, classes: Classes) -> Numbers:
    begins = np.array(list(classes.begins), dtype=np.float64) * (1.0 - _ROUNDING)
    return np.searchsorted(begins, means.ravel(), side="right").astype(np.int64)


class _Cells:
    """Sums over cells, exact but for rounding.

    A rectangle adds to the cells at its four corners: as if it went on without end from the first
    one, less the same from the others. What lies between and beyond follows from sums along both axes.
    """

    def __init__(self, runs: DrawnRuns, span_s: float, processors: int, bins: int) -> None:
        bands = min(BANDS, processors)
        self._run, self._shape = runs.place, (bands + 1, bins + 1)
        self._processor_s = span_s / bins * processors / bands
        rows = [
            (sign, row.astype(np.float64) * (bands / processors))
            for sign, row in ((1, runs.low), (-1, runs.high))
        ]
        columns = [
            (sign, time_s[self._run] * (bins / span_s))
            for sign, time_s in ((1, runs.start_s), (-1, runs.end_s))
        ]
        self._corners = [
            (of_row * of_column, *_place(row, bands), *_place(column, bins))
            for (of_row, row), (of_column, column) in product(rows, columns)
        ]

    def summed(self, values: Floats) -> Floats:
        """For each cell, the values of runs times their processor-seconds in it."""
        n_rows, n_columns = self._shape
        sums = np.zeros((4, n_rows * n_columns))
        of_each = values[self._run]
        for sign, row, of_row, column, of_column in self._corners:
            cell, value = row * n_columns + column, sign * of_each
            shares = of_row * of_column, of_row, of_column, np.ones(1)
            for of_place, share in zip(sums, shares, strict=True):
                of_place += np.bincount(cell, value * share, len(of_place))
        total, in_row, in_column, everywhere = sums.reshape(4, *self._shape)
        total[:, 1:] += np.cumsum(in_row, axis=1)[:, :-1]
        total[1:] += np.cumsum(in_column, axis=0)[:-1]
        total[1:, 1:] += np.cumsum(np.cumsum(everywhere, axis=0), axis=1)[:-1, :-1]
        return np.asarray(total[:-1, :-1] * self._processor_s)


def _place(position: NDArray[np.floating[Any]], n: int) -> tuple[Numbers, Floats]:
    """The cell of a position, and the share of the cell that lies beyond it."""
    cell = np.clip(position.astype(np.int64), 0, n)
    return cell, cell + 1 - position
