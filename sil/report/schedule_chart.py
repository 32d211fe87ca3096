"""The schedules of a replayed log as a page has them: packed data, and what Vega draws.

The chart is in the terms of Vega (https://vega.github.io/vega/docs), since Vega-Lite has no images of
computed cells: panels below each other with the same window of time and processors.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from sil.report.classes import WAITS, Classes, sizes
from sil.report.figures import PALETTE
from sil.report.schedule_levels import FULL, Numbers, Runs, bins_needed, levels, users_by_work
from sil.report.vega_lite import CONFIGURATION, Spec
from sil.workload.slices import DAY_S

SCHEMA = "https://vega.github.io/schema/vega/v6.json"
WIDTH, HEIGHT, GAP = 860, 220, 50
MOST_TICKS = 10
ROUND_DAYS = (1 / 1440, 5 / 1440, 15 / 1440, 1 / 24, 3 / 24, 6 / 24, 12 / 24)
"""Distances of ticks of less than a day."""

SHADE = "#4a6f8f"
"""Of cells, where colours only distinguish jobs."""
OTHERS = "#9a9a9a"


def specification(names: Sequence[str], processors: int, span_d: float, users: Sequence[str]) -> Spec:
    """`users` are those with a colour of their own."""
    return {
        "$schema": SCHEMA,
        "config": CONFIGURATION,
        "width": WIDTH,
        "height": len(names) * (HEIGHT + GAP) - GAP,
        "padding": 5,
        "signals": [*_window(processors, span_d), *_ticks(), *_legend(processors, users)],
        "scales": _scales(processors, users),
        "legends": [{"fill": "legend", "title": {"signal": "legend.title"}, "symbolType": "square"}],
        "data": [table for k in range(len(names)) for table in _data(k)],
        "marks": [_panel(k, name, k == len(names) - 1) for k, name in enumerate(names)],
    }


def _window(processors: int, span_d: float) -> list[Spec]:
    """Dragging moves the window; the wheel with Ctrl, which is also what a pinch sends, zooms in time, with
    Shift in processors; a double click shows all."""
    wheel = {"type": "wheel", "consume": True}
    by_wheel = "pow(1.0015, (event.deltaY || event.deltaX) * pow(16, event.deltaMode))"
    row = f"(1 - (y() % {HEIGHT + GAP}) / {HEIGHT})"
    down, up = {"type": "pointerdown"}, {"type": "pointerup", "source": "window"}
    drag = {"type": "pointermove", "source": "window", "between": [down, up]}

    def signal(name: str, whole: list[float], at: str, key: str, moved: str) -> Spec:
        ends = [f"{name}[{k}]" for k in (0, 1)]
        before = [f"down.{name}[{k}]" for k in (0, 1)]
        zoomed = [f"{end} + ({name}[0] + span({name}) * {at} - {end}) * (1 - {by_wheel})" for end in ends]
        dragged = [f"{end} + span(down.{name}) * {moved}" for end in before]
        return {
            "name": name,
            "value": whole,
            "on": [
                {"events": {**wheel, "filter": key}, "update": _within(zoomed, whole)},
                {"events": drag, "update": _within(dragged, whole)},
                {"events": "dblclick", "update": str(whole)},
            ],
        }

    return [
        {
            "name": "down",
            "value": None,
            "on": [{"events": down, "update": "{x: x(), y: y(), days: days, rows: rows}"}],
        },
        signal("days", [0, span_d], "x() / width", "event.ctrlKey", "(down.x - x()) / width"),
        signal("rows", [0, processors], row, "event.shiftKey", f"(y() - down.y) / {HEIGHT}"),
    ]


def _within(ends: Sequence[str], whole: Sequence[float]) -> str:
    return f"clampRange([{', '.join(ends)}], {whole[0]}, {whole[1]})"


def _ticks() -> list[Spec]:
    steps = "".join(f"span(days) / {MOST_TICKS} < {step} ? {step} : " for step in ROUND_DAYS)
    of_step = "sequence(ceil(days[0] / step_d) * step_d, days[1], step_d)"
    return [
        {"name": "step_d", "update": f"{steps}0"},
        {"name": "ticks", "update": f"step_d ? {of_step} : null"},
    ]


def _legend(processors: int, users: Sequence[str]) -> list[Spec]:
    """What may be coloured, by the signal `colour`, and what the colours mean."""

    def way(name: str, title: str, texts: Sequence[str], shades: Sequence[str]) -> Spec:
        return {"name": name, "title": title, "texts": texts, "shades": shades}

    of_sizes = sizes(processors)
    ways = {
        "wait": way("waiting time", "Waiting time", WAITS.labels, WAITS.shades),
        "size": way("size", "Processors", of_sizes.labels, of_sizes.shades),
        **({"user": way("user", "User", [*users, "others"], _of_users(users))} if users else {}),
        "job": way("job", "Colours only distinguish jobs", [], []),
    }
    bind = {
        "input": "select",
        "element": "#schedule-colour",
        "name": "Colour: ",
        "options": list(ways),
        "labels": [each["name"] for each in ways.values()],
    }
    return [
        {"name": "colour", "value": "wait", "bind": bind},
        {"name": "legend", "update": f"({json.dumps(ways)})[colour]"},
    ]


def _of_users(users: Sequence[str]) -> list[str]:
    return [*PALETTE[: len(users)], OTHERS]


def _scales(processors: int, users: Sequence[str]) -> list[Spec]:
    shown = {"zero": False, "nice": False}
    return [
        {"name": "x", "domain": {"signal": "days"}, "range": "width", **shown},
        {"name": "y", "domain": {"signal": "rows"}, "range": [HEIGHT, 0], **shown},
        _threshold("wait", WAITS),
        _threshold("size", sizes(processors)),
        {"name": "user", "type": "ordinal", "domain": list(range(len(users) + 1)), "range": _of_users(users)},
        {"name": "job", "type": "ordinal", "domain": list(range(len(PALETTE))), "range": list(PALETTE)},
        {
            "name": "legend",
            "type": "ordinal",
            "domain": {"signal": "legend.texts"},
            "range": {"signal": "legend.shades"},
        },
    ]


def _threshold(name: str, classes: Classes) -> Spec:
    return {"name": name, "type": "threshold", "domain": list(classes.begins), "range": classes.shades}


def _data(k: int) -> list[Spec]:
    """The cells and the runs in a window. The value of a cell is its class, times 256, and how busy it is."""
    colour = f"colour === 'job' ? '{SHADE}' : legend.shades[floor(datum.$value / 256)]"
    opacity = f"datum.$value % 256 / {FULL}"
    image = {"type": "heatmap", "color": {"expr": colour}, "opacity": {"expr": opacity}}
    return [{"name": f"cells-{k}", "transform": [image]}, {"name": f"runs-{k}"}]


def _panel(k: int, name: str, is_last: bool) -> Spec:
    """The schedule of one scheduler."""
    size = {"width": {"signal": "width"}, "height": {"value": HEIGHT}}
    days = {"title": "Days since the first submission"} if is_last else {}
    return {
        "type": "group",
        "encode": {"update": {"y": {"value": k * (HEIGHT + GAP)}, "stroke": {"value": "#bbb"}, **size}},
        "title": {"text": name, "anchor": "start", "frame": "group"},
        "axes": [
            _days() | days,
            {"scale": "y", "orient": "left", "title": "Processor", "tickCount": 5, "tickMinStep": 1},
        ],
        "marks": [_cells(k), _runs(k)],
    }


def _days() -> Spec:
    with_time = "floor(datum.value) + ' d ' + utcFormat(datum.value * 864e5, '%H:%M')"
    text = f"step_d ? {with_time} : format(datum.value, ',')"
    return {
        "scale": "x",
        "orient": "bottom",
        "values": {"signal": "ticks"},
        "tickCount": MOST_TICKS,
        "labelOverlap": True,
        "encode": {"labels": {"update": {"text": {"signal": text}}}},
    }


_PLACE = {
    "x": {"scale": "x", "field": "from"},
    "x2": {"scale": "x", "field": "until"},
    "y": {"scale": "y", "field": "high"},
    "y2": {"scale": "y", "field": "low"},
}


def _cells(k: int) -> Spec:
    """One image, stretched over the processors and the time of the cells."""
    as_it_is = {"image": {"field": "image"}, "aspect": {"value": False}, "smooth": {"value": False}}
    mark = {"type": "image", "clip": True, "interactive": False, "from": {"data": f"cells-{k}"}}
    return {**mark, "encode": {"update": _PLACE | as_it_is}}


def _runs(k: int) -> Spec:
    """A rectangle for each interval of processors. Its tooltip gets all that is known of it."""
    chosen = "".join(
        f"colour === '{way}' ? scale('{way}', datum.{way}) : " for way in ("wait", "size", "user")
    )
    look = {
        "fill": {"signal": f"{chosen}scale('job', datum.job % {len(PALETTE)})"},
        "stroke": {"value": "white"},
        "strokeWidth": {"value": 0.3},
        "tooltip": {"signal": "datum"},
    }
    mark = {"type": "rect", "clip": True, "from": {"data": f"runs-{k}"}}
    return {**mark, "encode": {"update": _PLACE | look}}


@dataclass(frozen=True)
class Packed:
    """`columns` describes the arrays that `text` holds one after the other."""

    columns: Sequence[Mapping[str, Any]]
    text: str


def packed(arrays: Mapping[str, Numbers]) -> Packed:
    """Arrays by name."""
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
    return Packed(columns, compressed(b"".join(parts)))


def compressed(content: bytes) -> str:
    return b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


MOST_RECTANGLES = 8_000
"""Up to this number in a window, runs are drawn one by one."""
BINS_OF_A_WINDOW = 128
"""At least so many cells lie side by side in a window with more rectangles, if the finest level has them."""
MOST_USERS = len(PALETTE) - 1
"""So many have a colour of their own."""
MILLISECOND = 1e-3


@dataclass(frozen=True)
class Schedules:
    """`texts` are packed data by the id of their element on the page."""

    description: Mapping[str, Any]
    texts: Mapping[str, str]


def schedules(jobs: Mapping[str, pl.DataFrame], processors: int) -> Schedules:
    """Of the jobs by scheduler: columns of jobs.csv, and `user` and `reason`, if these are known."""
    first_s = min(float(table["submission_time"].min()) for table in jobs.values())  # type: ignore[arg-type]
    span_s = max(float(table["finish_time"].max()) for table in jobs.values()) - first_s  # type: ignore[arg-type]
    users = users_by_work(jobs.values())
    runs = {name: Runs.of(table, first_s, users) for name, table in jobs.items()}
    tick_s = 1.0 if all(each.are_in_whole_seconds for each in runs.values()) else MILLISECOND
    texts: dict[str, str] = {}

    def described(k: int, name: str) -> Mapping[str, Any]:
        each = runs[name]
        of_jobs, of_levels = packed(_columns(each, tick_s)), list(_levels(each, span_s, processors))
        texts[f"schedule-jobs-{k}"] = of_jobs.text
        texts.update({f"schedule-level-{k}-{n}": level.text for n, (_, level) in enumerate(of_levels)})
        if has_reasons := "reason" in jobs[name].columns:
            reasons = json.dumps(jobs[name]["reason"].to_list(), ensure_ascii=False)
            texts[f"schedule-reasons-{k}"] = compressed(reasons.encode())
        return {
            "columns": of_jobs.columns,
            "levels": [{"bins": bins, "columns": level.columns} for bins, level in of_levels],
            "has_reasons": has_reasons,
        }

    description = {
        "processors": processors,
        "span_s": span_s,
        "tick_s": tick_s,
        "users": users,
        "most_users": MOST_USERS,
        "most_rectangles": MOST_RECTANGLES,
        "panels": [described(k, name) for k, name in enumerate(jobs)],
        "spec": specification(list(jobs), processors, span_s / DAY_S, users[:MOST_USERS]),
    }
    return Schedules(description, texts)


def _columns(runs: Runs, tick_s: float) -> Mapping[str, Numbers]:
    """What the page has of each job, and of each rectangle; times are in ticks."""

    def ticks(times_s: Any) -> Numbers:
        return np.asarray(np.rint(times_s / tick_s), np.int64)

    submit, start, end = map(ticks, (runs.submit_s, runs.start_s, runs.end_s))
    estimate = ticks(np.nan_to_num(runs.estimate_s, nan=-1.0))
    if (estimate == end - start).mean() > 0.5:
        estimated = {"spare": estimate - (end - start)}
    else:  # users give few different ones
        values, places = np.unique(estimate, return_inverse=True)
        estimated = {"estimates": values, "estimate": places}
    r = runs.rectangles
    return {
        "job": runs.job,
        "submit": submit,
        "wait": start - submit,
        "run": end - start,
        **estimated,
        "user": runs.user,
        "rectangles": np.bincount(r.run, minlength=len(runs.job)),
        "low": r.low,
        "length": r.high - r.low,
    }


def _levels(runs: Runs, span_s: float, processors: int) -> list[tuple[int, Packed]]:
    """From the coarsest to the finest, which also has how many rectangles begin in each of its bins."""
    bins = bins_needed(len(runs.rectangles), MOST_RECTANGLES, BINS_OF_A_WINDOW)
    if not bins:
        return []
    begin = np.minimum(runs.start_s[runs.rectangles.run] * (bins / span_s), bins - 1).astype(np.int64)
    begins = np.bincount(begin, minlength=bins)
    return [
        (n, packed(dict(columns, starts=begins) if n == bins else columns))
        for n, columns in levels(runs, span_s, processors, bins, MOST_USERS)
    ][::-1]
