"""What charts have in common: colours, classes of numbers, axes, lines, distributions and bars."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log2, log10

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.statistics import Interval
from sil.report.vega_lite import Figure, Spec, column, faceted, layer

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999933", "#882255")
"""Colours that colour-blind readers can distinguish (Okabe and Ito, and Tol)."""
DASHES = ([1, 0], [7, 3], [2, 2], [9, 3, 2, 3], [5, 2], [1, 3], [12, 3], [4, 1, 1, 1])
"""The dashes of lines, which may have the same values; printed without colours, they differ, too."""
SHAPES = (
    *("circle", "square", "triangle-up", "diamond", "cross"),
    *("triangle-down", "triangle-left", "triangle-right"),
)
WIDTH = 760
SHOWN = "shown"
DURATIONS = {1: "1 s", 60: "1 min", 3_600: "1 h", 86_400: "1 day", 604_800: "7 days"}
"""The ticks of a logarithmic axis, in seconds."""


def tooltips(*columns: str, **titles: str) -> list[Spec]:
    """Tooltips of columns, by their names or with titles."""
    titled = dict(zip(columns, columns, strict=True)) | titles
    return [column(name, title=title) for name, title in titled.items()]


def zero_rule() -> Figure:
    rule = Figure(pl.DataFrame({"y": [0.0]})).mark("rule", strokeDash=[4, 4], color="#666")
    return rule.encode(y=column("y:Q"))


def setting_title(setting: str) -> str:
    """A setting of the grid in words: "workload.jobs" becomes "Number of jobs"."""
    titles = {
        "workload.jobs": "Number of jobs",
        "workload.arrivals.jobs_per_quantum": "Mean arrivals per quantum (jobs)",
    }
    return titles.get(setting, setting)


def colour_scale(names: Iterable[str], without: str | None = None) -> Spec:
    """A colour for each name, by position; one may not be in this figure."""
    shown = [(name, PALETTE[k % len(PALETTE)]) for k, name in enumerate(names) if name != without]
    return {"domain": [name for name, _ in shown], "range": [colour for _, colour in shown]}


def scheduler_colour(schedulers: Sequence[str]) -> Spec:
    """The colours of all schedulers of a report."""
    legend = {"title": "Scheduler", "symbolOpacity": 1}
    return column("scheduler:N", scale=colour_scale(schedulers), legend=legend)


def second_channel(colour: Spec, looks: Sequence[object]) -> Spec:
    """The channel of a second look of what has these colours: dashes, or shapes."""
    places = [PALETTE.index(shade) for shade in colour["scale"]["range"]]
    return {**colour, "scale": {**colour["scale"], "range": [looks[place] for place in places]}}


def logarithmic(most: float, title: str, ticks: Mapping[int, str] | None = None) -> Spec:
    """Scale and axis with ticks that all have labels: those given, or else powers of 10 up to `most`."""
    shown = ticks or {10**k: f"{10**k:,}" for k in range(ceil(log10(max(most, 10.0))) + 1)}
    axis = {"values": list(shown), "labelExpr": f"({json.dumps(shown)})[datum.value]"}
    return {"title": title, "scale": {"type": "log", "nice": False}, "axis": axis}


def distribution(
    values: Mapping[str, pl.Series], schedulers: Sequence[str], title: str, least: float | None = None
) -> Figure:
    """The empirical distribution of a quantity of jobs: one line per scheduler.

    With `least`, the axis is logarithmic and smaller values are drawn there.
    """
    shares = np.linspace(0.0, 1.0, 201)
    schema = {"scheduler": pl.String, "share": pl.Float64, "value": pl.Float64}
    lines = [
        pl.DataFrame({"share": 100 * shares, "value": np.quantile(series, shares, method="inverted_cdf")})
        .select(scheduler=pl.lit(name), share="share", value="value")
        .cast({"value": pl.Float64})
        for name, series in values.items()
        if len(series)
    ]
    frame = pl.concat([pl.DataFrame(schema=schema), *lines])
    x = column("value:Q", title=title)
    if least is not None:
        frame = frame.with_columns(pl.col("value").clip(lower_bound=least))
        x |= logarithmic(0.0, title, DURATIONS)
    y = column("share:Q", title="Share of jobs (%)", scale={"domain": [0, 100]})
    return scheduler_lines(frame, x, y, schedulers, height=280).encode(order=column("share:Q"))


def scheduler_lines(frame: pl.DataFrame, x: Spec, y: Spec, schedulers: Sequence[str], height: int) -> Figure:
    """One line per scheduler; each value holds until the next. A click on a scheduler in the legend shows
    that one, with Shift several; a double click all."""
    colour = scheduler_colour(schedulers)
    select = {"type": "point", "fields": ["scheduler"], "toggle": "event.shiftKey"}
    opacity = {"condition": {"param": SHOWN, "value": 1}, "value": 0.06}
    looks = {"color": colour, "strokeDash": second_channel(colour, DASHES), "opacity": opacity}
    line = Figure(frame).mark("line", interpolate="step-after")
    return line.encode(x=x, y=y, tooltip=tooltips(*frame.columns), **looks).properties(
        width=WIDTH, height=height, params=[{"name": SHOWN, "select": select, "bind": "legend"}]
    )


def _with_bands(base: Figure, y: Spec, low: Spec, **of_lines: object) -> Figure:
    return layer(
        base.mark("area", opacity=0.2).encode(y=low, y2=column("high")),
        base.mark("line", point=True).encode(y=y, **of_lines),
    )


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
    scale = colours or colour_scale(frame["name"].unique(maintain_order=True))
    colour = column("name:N", scale=scale, legend={"title": legend, "symbolOpacity": 1})
    titles = {"x": x_title, "name": legend, "y": y_title}
    if (frame["low"] < frame["high"]).any():
        titles |= {"low": "low", "high": "high"}
    base = Figure(frame).encode(x=column("x:Q", title=x_title), color=colour)
    low, y = column("low:Q", title=y_title), column("y:Q", title=y_title)
    looks = {"strokeDash": second_channel(colour, DASHES), "tooltip": tooltips(**titles)}
    return _with_bands(base, y, low, **looks).properties(width=WIDTH, height=height)


def bars(rows: Iterable[tuple[str, str, float]], x_title: str, y_title: str, legend: str) -> Figure:
    """Bars side by side, one per name at each x, both in order of appearance; `rows` are (x, name, y)."""
    frame = pl.DataFrame(list(rows), schema=["x", "name", "y"], orient="row")
    colours = colour_scale(frame["name"].unique(maintain_order=True))
    bar = Figure(frame).mark("bar").properties(width=WIDTH, height=280)
    return bar.encode(
        x=column("x:N", title=x_title, sort=None, axis={"labelAngle": 0}),
        xOffset=column("name:N", sort=None),
        y=column("y:Q", title=y_title),
        color=column("name:N", scale=colours, legend={"title": legend, "labelLimit": 0}),
        tooltip=tooltips(x=x_title, name=legend, y=y_title),
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
    y, low = (column(name, title="Decision time (ms)", scale=scale) for name in ("median:Q", "low:Q"))
    base = Figure(frame).encode(
        x=column("jobs:Q", title="Number of jobs", scale=scale),
        color=column(f"{lines}:N", sort=None, legend={"title": titles[lines], "symbolOpacity": 1}),
    )
    panel = _with_bands(base, y, low, tooltip=tooltips("jobs", lines, "median", "low", "high"))
    panels = frame[across].unique(maintain_order=True).to_list()
    by = column(f"{across}:N", sort=panels, title=title or titles[across])
    return faceted(panel.properties(width=WIDTH // 2, height=260), by, columns=2)


SHADES = ("#fde725", "#a0da39", "#4ac16d", "#1fa187", "#277f8e", "#365c8d", "#46327e", "#440154")
"""The colours of Viridis."""


@dataclass(frozen=True)
class Classes:
    """The text of each class, by the number with which it begins; smaller numbers are one more class. There
    are at most as many classes as shades."""

    begins: Mapping[int, str]

    @property
    def labels(self) -> list[str]:
        first, *_ = self.begins.values()
        return [f"less than {first}", *(f"from {text}" for text in self.begins.values())]

    @property
    def shades(self) -> list[str]:
        n = len(self.begins)
        return [SHADES[round(k * (len(SHADES) - 1) / n)] for k in range(n + 1)]

    def label(self, numbers: pl.Expr) -> pl.Expr:
        """The label of each number's class."""
        begun = pl.sum_horizontal(numbers >= begin for begin in self.begins)
        return begun.replace_strict(dict(enumerate(self.labels)), return_dtype=pl.String)

    def colour(self, name: str, title: str) -> Spec:
        """The channel of a column with labels."""
        scale = {"domain": self.labels, "range": self.shades}
        return column(f"{name}:O", scale=scale, legend={"title": title, "symbolType": "square"})


_DURATIONS_S = {
    1: "1 s",
    60: "1 min",
    600: "10 min",
    3_600: "1 h",
    21_600: "6 h",
    86_400: "1 day",
    604_800: "7 days",
}
WAITS = Classes(_DURATIONS_S)
RUN_TIMES = Classes({begin_s: text for begin_s, text in _DURATIONS_S.items() if begin_s > 1})
SLOWDOWNS = Classes({begin: f"{begin:,}" for begin in (2, 5, 10, 50, 100, 1_000)})


def sizes(processors: int) -> Classes:
    """The classes of jobs on a machine by size: they begin at powers of two."""
    largest = ceil(log2(max(processors, 2)))
    step = max(1, ceil(largest / (len(SHADES) - 1)))
    return Classes({2**k: f"{2**k:,}" for k in range(step, largest + 1, step)})


def size_powers(processors: pl.Series) -> NDArray[np.int64]:
    """The least power of two that each job fits on."""
    return np.asarray(np.ceil(np.log2(processors.to_numpy())), np.int64)


def size_class(power: int) -> str:
    """The sizes of jobs of a power of two, like `5-8`."""
    high = 2**power
    low = high // 2 + 1
    return f"{high:,}" if low >= high else f"{low:,}-{high:,}"
