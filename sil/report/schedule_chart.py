"""The schedules of a replayed log as a page has them: packed data, and what Vega draws with them."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sil.report.figures import PALETTE, WAITS, sizes
from sil.report.schedule_levels import FULL, DrawnRuns, Numbers, bins_needed, levels, users_by_work
from sil.report.vega_lite import CONFIGURATION
from sil.workload.slices import DAY_S

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
