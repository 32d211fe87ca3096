"""What a replayed log does over time, as means over intervals of equal length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from sil.report.figures import PALETTE, WIDTH, colour_scale, distribution, scheduler_lines, tooltips
from sil.report.replay import Jobs
from sil.report.schedule_chart import Floats
from sil.report.vega_lite import Figure, Spec, below_each_other, column, either
from sil.trace.held import ALLOCATED, one_row_per_interval
from sil.trace.log_clock import LogClock
from sil.workload.slices import DAY_S

BINS = 400
MAX_BINS = 1_000
JOBS_OF_A_BIN = 20
SINCE = "Days since the first submission"
WAITING = ("submission_time", "starting_time")
RUNNING = ("starting_time", "finish_time")
WINDOW = "window"
AROUND = (
    "All runs while some hundred jobs start, around the job that waited longest. Colours only "
    "distinguish jobs."
)
ON_NODES = " The CPUs of a node lie side by side. A suspended run has several parts; a lost one is pale."
"""What the chart of a schedule shows."""
GANTT_RUNS = 600
GANTT_RECTANGLES = 6_000


def queue_length(jobs: Jobs, names: Sequence[str], bins: int = BINS) -> Figure:
    """The mean number of jobs that wait in each interval of time."""
    return _over_time(jobs, names, "Jobs that wait", WAITING, pl.lit(1.0), bins)


def utilisation(
    jobs: Jobs, what: str, requested: str, capacity: int, names: Sequence[str], bins: int = BINS
) -> Figure:
    """The mean share of processors, or of GPUs, in use in each interval of time."""
    share = 100.0 * pl.col(requested) / capacity
    return _over_time(jobs, names, f"{what} in use (%)", RUNNING, share, bins)


def small_multiples(
    jobs: Jobs, names: Sequence[str], processors: int, gpus: int, clock: LogClock | None = None
) -> Figure:
    """The queue, the processors that waiting jobs request, and what is in use, in a window of time, which a
    reader draws in the lowest chart, of the whole log. The axis has dates, if the clock knows them."""
    n_jobs = max(map(len, jobs.values()))
    bins = min(MAX_BINS, max(BINS, n_jobs // JOBS_OF_A_BIN))
    requested = "requested_number_of_resources"
    share, title = 100.0 * pl.col(requested) / processors, "Requested by waiting jobs (% of machine)"
    figures = [
        queue_length(jobs, names, bins),
        _over_time(jobs, names, title, WAITING, share, bins),
        utilisation(jobs, "Processors", requested, processors, names, bins),
        *([utilisation(jobs, "GPUs", "requested_gpus", gpus, names, bins)] if gpus else []),
    ]
    scale: Spec = {"nice": False}
    along, title, dated = "day:Q", SINCE, {}
    if clock is not None and (zero_ms := clock.zero_ms) is not None:
        first_ms = zero_ms + 1e3 * _first_s(jobs)
        along, title, scale = "date:T", "Date", {**scale, "type": "utc"}
        dated = {"transform": [{"calculate": f"{first_ms!r} + datum.day * 864e5", "as": "date"}]}
    window = column(along, title=None, scale={**scale, "domain": {"param": WINDOW}})
    whole = column(along, scale=scale, title=f"{title}; drag to zoom, click to reset")
    brush = {"name": WINDOW, "select": {"type": "interval", "encodings": ["x"]}}
    values = column("value:Q", title=None, axis={"labels": False, "ticks": False, "grid": False})
    # Charts that stand together have one parameter of a name, which is for all of them.
    shown = figures[0].spec["params"]
    return below_each_other(
        *(each.encode(x=window).properties(height=180, params=[], **dated) for each in figures),
        figures[0].encode(x=whole, y=values).properties(height=50, params=[brush, *shown], **dated),
    ).properties(resolve={"scale": {"color": "shared", "strokeDash": "shared"}})


def _over_time(
    jobs: Jobs, names: Sequence[str], title: str, between: tuple[str, str], weight: pl.Expr, bins: int
) -> Figure:
    """The mean over each bin of the summed weight of the jobs that are between two times."""
    first_s = _first_s(jobs)
    last_s = max(float(table["finish_time"].to_numpy().max()) for table in jobs.values())
    edges_s = np.linspace(first_s, last_s, bins + 1)
    days = ((edges_s[:-1] + edges_s[1:]) / 2 - first_s) / DAY_S
    frames = [
        pl.DataFrame({"day": days, "value": held(table, between, weight, edges_s)}).select(
            pl.lit(scheduler).alias("scheduler"), pl.all()
        )
        for scheduler, table in jobs.items()
    ]
    x, y = column("day:Q", title=SINCE), column("value:Q", title=title)
    chart = scheduler_lines(pl.concat(frames), x, y, names, height=240)
    return chart.mark("line", interpolate="step", strokeWidth=1.3, clip=True)


def _first_s(jobs: Jobs) -> float:
    return min(float(table["submission_time"].to_numpy().min()) for table in jobs.values())


def held(table: pl.DataFrame, between: tuple[str, str], weight: pl.Expr, edges_s: Floats) -> Floats:
    """The mean, over each interval of time, of the summed weight of the jobs that are between two times."""
    weights, first_s = table.with_columns(weight=weight)["weight"].to_numpy(), edges_s[0]
    begun, over = (_since(table[key].to_numpy() - first_s, weights, edges_s - first_s) for key in between)
    # Differences of large sums: where there is no such job, rounding leaves a little, of any sign.
    return np.maximum(np.diff(begun - over) / np.diff(edges_s), 0.0)


def _since(times_s: Floats, weights: Floats, edges_s: Floats) -> Floats:
    """For each edge, the sum of weight * (edge - time) over the times before it."""
    order = np.argsort(times_s)
    times_s, weights = times_s[order], weights[order]
    before = np.searchsorted(times_s, edges_s)
    summed, moments = (
        np.concatenate([[0.0], np.cumsum(each)])[before] for each in (weights, weights * times_s)
    )
    return np.asarray(edges_s * summed - moments, dtype=np.float64)


def waiting_distribution(jobs: Jobs, names: Sequence[str]) -> Figure:
    """The share of jobs that wait for at most a time."""
    waits_s = {name: table["waiting_time"] for name, table in jobs.items()}
    title = "Waiting time (log scale; less than 1 s is drawn at 1 s)"
    return distribution(waits_s, names, title, least=1.0)


def gantt(
    table: pl.DataFrame,
    processors: int,
    window_s: tuple[float, float] | None = None,
    parts: pl.DataFrame | None = None,
) -> Figure:
    """Processors by time in a window, in seconds from the first submission on; without one, while
    `GANTT_RUNS` jobs start, around the job that waited longest. On nodes, of the `parts` of runs."""
    jobs = table.sort("starting_time", "job_id")
    begin_s = float(jobs["submission_time"].to_numpy().min())
    if window_s is None:
        from_s, until_s = _around_the_longest_wait(jobs)
    else:
        from_s, until_s = (begin_s + edge_s for edge_s in window_s)
    if parts is None:
        times = {"from_s": "starting_time", "until_s": "finish_time"}
        parts = one_row_per_interval(jobs.with_columns(machines=ALLOCATED, is_lost=False, **times))
    # Include runs that began before, or their nodes would look idle.
    shown = parts.filter(pl.col("from_s") < until_s, pl.col("until_s") > from_s)
    frame = shown.select(
        pl.col("job_id").alias("job"),
        ((pl.col("from_s").clip(lower_bound=from_s) - begin_s) / DAY_S).alias("from"),
        ((pl.col("until_s").clip(upper_bound=until_s) - begin_s) / DAY_S).alias("until"),
        *("low", "high", "is_lost"),
        colour=(pl.col("job_id") % len(PALETTE)).cast(pl.String),
    )
    frame = frame.sort("from", maintain_order=True)
    if len(frame) > GANTT_RECTANGLES and (until := frame["from"][GANTT_RECTANGLES]) > frame["from"][0]:
        frame = frame.filter(pl.col("from") < until).with_columns(pl.col("until").clip(upper_bound=until))
    days = {"scale": {"zero": False, "nice": False}, "axis": {"tickCount": 10, "labelOverlap": True}}
    rows = {"domain": [0, processors], "nice": False}
    colours = colour_scale(map(str, range(len(PALETTE))))
    chart = Figure(frame).mark("rect", stroke="white", strokeWidth=0.3)
    return chart.properties(width=WIDTH, height=280).encode(
        x=column("from:Q", title=SINCE, **days),
        x2=column("until"),
        y=column("low:Q", title="Processor", scale=rows),
        y2=column("high"),
        color=column("colour:N", scale=colours, legend=None),
        opacity=either("datum.is_lost", 0.4, 1.0),
        tooltip=tooltips("job", "from", "until", "low", "high"),
    )


def _around_the_longest_wait(jobs: pl.DataFrame) -> tuple[float, float]:
    """The times between which `GANTT_RUNS` jobs start; jobs are in order of start."""
    starts_s = jobs["starting_time"].to_numpy()
    middle = int(np.argmax(jobs["waiting_time"].to_numpy()))
    first = max(0, min(middle - GANTT_RUNS // 2, len(jobs) - GANTT_RUNS))
    from_s, later_s = float(starts_s[first]), starts_s[first + GANTT_RUNS :]
    later_s = later_s[later_s > from_s]  # they may all start at once
    return from_s, float(later_s[0] if len(later_s) else jobs["finish_time"].to_numpy().max())
