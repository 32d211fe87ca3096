"""The schedules of a replayed log as a page has them: the runs as arrays, what some processors hold during
some time on average at several levels of detail, all of that as packed data, and what Vega draws with it."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.report.figures import PALETTE, WAITS, Classes, sizes
from sil.report.vega_lite import CONFIGURATION
from sil.trace.held import ALLOCATED, one_row_per_interval
from sil.workload.slices import DAY_S

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


MAX_TICKS = 10
ROUND_DAYS = (1 / 1440, 5 / 1440, 15 / 1440, 1 / 24, 3 / 24, 6 / 24, 12 / 24)
"""The distances of ticks of less than a day."""
OTHERS = "#9a9a9a"
MAX_RECTANGLES = 8_000
"""The most rectangles in a window for which runs are drawn one by one."""
BINS_OF_A_WINDOW = 128
"""The fewest cells that lie side by side in a window with more rectangles, if the finest level has them."""
MAX_USERS = len(PALETTE) - 1
"""The most users that have a colour to themselves."""
MILLISECOND = 1e-3


@dataclass(frozen=True)
class Packed:
    """`columns` describes the arrays that `text` holds one after the other."""

    columns: Sequence[Mapping[str, Any]]
    text: str


def packed(arrays: Mapping[str, Numbers]) -> Packed:
    """Pack arrays by name."""
    columns, parts = [], []
    for name, numbers in arrays.items():
        steps = np.diff(numbers, prepend=0)
        are_steps = np.ptp(steps[1:]) < np.ptp(numbers) / 64 if len(numbers) > 1 else False  # they rise
        stored = np.concatenate([[0], steps[1:]]) if are_steps else numbers
        base = int(stored.min(initial=0))
        width = max(1, (int(stored.max(initial=0)) - base).bit_length() + 7 >> 3)
        first = int(numbers[0]) if are_steps else None
        columns.append({"name": name, "n": len(numbers), "width": width, "base": base, "first": first})
        parts.append((stored - base).astype("<u8").view(np.uint8).reshape(-1, 8).T[:width].tobytes())
    return Packed(columns, _compressed(b"".join(parts)))


def _compressed(content: bytes) -> str:
    return b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


@dataclass(frozen=True)
class Schedules:
    """`texts` are packed data by the id of their element on the page; `look` has the variables of the
    template schedules.vg.json.j2."""

    description: Mapping[str, Any]
    texts: Mapping[str, str]
    look: Mapping[str, Any]


def schedules(jobs: Mapping[str, pl.DataFrame], processors: int) -> Schedules:
    """The schedules of the jobs by scheduler: columns of jobs.csv, and `user` and `reason`, if these are
    known."""
    first_s = min(float(table["submission_time"].min()) for table in jobs.values())  # type: ignore[arg-type]
    span_s = max(float(table["finish_time"].max()) for table in jobs.values()) - first_s  # type: ignore[arg-type]
    users = users_by_work(jobs.values())
    runs = {name: DrawnRuns.of(table, first_s, users) for name, table in jobs.items()}
    tick_s = 1.0 if all(each.are_in_whole_seconds for each in runs.values()) else MILLISECOND
    texts: dict[str, str] = {}
    panels = []
    for k, (name, table) in enumerate(jobs.items()):
        of_jobs, of_levels = packed(_columns(runs[name], tick_s)), _levels(runs[name], span_s, processors)
        texts[f"schedule-jobs-{k}"] = of_jobs.text
        texts |= {f"schedule-level-{k}-{n}": level.text for n, (_, level) in enumerate(of_levels)}
        if has_reasons := "reason" in table.columns:
            reasons = json.dumps(table["reason"].to_list(), ensure_ascii=False)
            texts[f"schedule-reasons-{k}"] = _compressed(reasons.encode())
        of_levels_found = [{"bins": bins, "columns": level.columns} for bins, level in of_levels]
        panels.append({"columns": of_jobs.columns, "levels": of_levels_found, "has_reasons": has_reasons})
    description = {
        "processors": processors,
        "span_s": span_s,
        "tick_s": tick_s,
        "users": users,
        "most_users": MAX_USERS,
        "most_rectangles": MAX_RECTANGLES,
        "panels": panels,
    }
    return Schedules(description, texts, look(list(jobs), processors, span_s / DAY_S, users[:MAX_USERS]))


def look(names: Sequence[str], processors: int, span_d: float, users: Sequence[str]) -> Mapping[str, Any]:
    """The variables of the template; `users` are those with a colour to themselves. The signal `colour` is
    one of `ways`, and says what the colours mean."""
    of_users, of_sizes = [*PALETTE[: len(users)], OTHERS], sizes(processors)
    named: dict[str, tuple[str, str, Sequence[str], Sequence[str]]] = {
        "wait": ("waiting time", "Waiting time", WAITS.labels, WAITS.shades),
        "size": ("size", "Processors", of_sizes.labels, of_sizes.shades),
        **({"user": ("user", "User", [*users, "others"], of_users)} if users else {}),
        "job": ("job", "Colours only distinguish jobs", [], []),
    }
    ways = {
        key: dict(zip(("name", "title", "texts", "shades"), way, strict=True)) for key, way in named.items()
    }
    return {
        "names": names,
        "processors": processors,
        "span_d": span_d,
        "ways": ways,
        "legend": f"({json.dumps(ways)})[colour]",
        "waits": WAITS,
        "sizes": of_sizes,
        "of_users": of_users,
        "palette": PALETTE,
        "full": FULL,
        "most_ticks": MAX_TICKS,
        "round_days": ROUND_DAYS,
        "configuration": CONFIGURATION,
    }


def _columns(runs: DrawnRuns, tick_s: float) -> Mapping[str, Numbers]:
    """What the page shows of each job, and of each rectangle; times are in ticks."""

    def ticks(times_s: Any) -> Numbers:
        return np.asarray(np.rint(times_s / tick_s), np.int64)

    submit, start, end = map(ticks, (runs.submit_s, runs.start_s, runs.end_s))
    estimate = ticks(np.nan_to_num(runs.estimate_s, nan=-1.0))
    if (estimate == end - start).mean() > 0.5:
        estimated = {"spare": estimate - (end - start)}
    else:  # users give few different ones
        values, places = np.unique(estimate, return_inverse=True)
        estimated = {"estimates": values, "estimate": places}
    return {
        "job": runs.job,
        "submit": submit,
        "wait": start - submit,
        "run": end - start,
        **estimated,
        "user": runs.user,
        "rectangles": np.bincount(runs.place, minlength=len(runs.job)),
        "low": runs.low,
        "length": runs.high - runs.low,
    }


def _levels(runs: DrawnRuns, span_s: float, processors: int) -> list[tuple[int, Packed]]:
    """The levels from the coarsest to the finest, which also has how many rectangles begin in each of its
    bins."""
    bins = bins_needed(len(runs.place), MAX_RECTANGLES, BINS_OF_A_WINDOW)
    if not bins:
        return []
    begin = np.minimum(runs.start_s[runs.place] * (bins / span_s), bins - 1).astype(np.int64)
    begins = np.bincount(begin, minlength=bins)
    return [
        (n, packed(dict(columns, starts=begins) if n == bins else columns))
        for n, columns in levels(runs, span_s, processors, bins, MAX_USERS)
    ][::-1]
