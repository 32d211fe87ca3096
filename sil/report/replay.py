"""The report of a replayed log; its figures are means over time and over jobs, small for logs of any length.

`names` are all schedulers of the report in order, including those that have no jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.node_set import NodeSet
from sil.outcome.batsim_tables import Replayed
from sil.report.figures import (
    PALETTE,
    WIDTH,
    colour_scale,
    distribution,
    scheduler_colour,
    scheduler_lines,
    tooltips,
)
from sil.report.page import Notice, Page, Part, Section, Table, slug
from sil.report.schedule.chart import MOST_RECTANGLES, schedules
from sil.report.tables import replay_rows
from sil.report.vega_lite import Figure, column, layer
from sil.workload.job_log import span_text

Jobs = Mapping[str, pl.DataFrame]
"""The jobs by scheduler, as in jobs.csv."""

BINS = 400
DAY_S = 86_400.0
GANTT_RUNS = 600
GANTT_RECTANGLES = 6_000
SCHEDULES = (
    "Drag to move, turn the wheel with Ctrl to zoom in time and with Shift to zoom in processors, and "
    "double-click to see all. The window is the same for all schedulers. With more than about "
    f"{MOST_RECTANGLES:,} rectangles in it, cells show means over processors and time, and are pale where "
    "processors are idle; with fewer, point at a run for its facts."
)
SINCE = "Days since the first submission"

Numbers = NDArray[np.float64]

ESTIMATES = {
    "user": "the users' estimates",
    "actual": "the actual run times",
    "history": "the mean of the user's last two run times",
}


def replay_page(replayed: Replayed) -> Page:
    d = replayed.described
    names = list(d["schedulers"])
    repairs = [Notice("refusal", f"{text}.", "Repaired") for text in d["repairs"]]
    refused = [Notice("refusal", f"{text}.", "Refused") for text in replayed.refusals]
    faults = [Notice("fault", f"{text}.", "Fault") for text in replayed.faults]
    return Page(
        d["log"],
        f"{d['jobs']:,} jobs on {d['processors']:,} processors, replayed under {', '.join(names)}",
        f"{d['log']}: {', '.join(names)}",
        list(_terms(d)),
        [*repairs, *refused, *faults],
        list(_sections(replayed, names)),
    )


def _terms(d: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    load = f"; load {100 * d['load']:.1f} %" if d["load"] else ""
    yield "Log", f"{span_text(86_400 * d['days'])} from the first submission to the last{load}"
    for line in d["nodes"]:
        title, _, text = line.partition(": ")
        yield (title, text) if title == "Nodes" else ("Sharing", line)
    yield "Estimates", ESTIMATES[d["estimates"]]
    if d["part"]:
        yield "Part", ", ".join(d["part"])
    yield "Order", f"{d['order']} (of simultaneous events)"
    if d["decision_cost"] != "none":
        yield "Decision cost", d["decision_cost"]
    yield "Version", f"{d['version']}, scheduler source {d['scheduler_source']}"
    if d["acknowledge"]:
        yield "Acknowledgement", d["acknowledge"]


def _sections(replayed: Replayed, names: list[str]) -> Iterator[Section]:
    note = (
        "Over all jobs. Bounded slowdown has a threshold of 10 s. The makespan is from the first submission "
        "to the last end. Quantiles are observed values: the smallest that so many of the jobs do not exceed."
    )
    rows = [[label, *texts] for label, texts in replay_rows(replayed.statistics)]
    yield Section("Comparison", note, [Part(table=Table(["", *names], rows))])
    jobs, processors = replayed.jobs, int(replayed.described["processors"])
    if not jobs:
        return
    bins = f"Means over {BINS} intervals of equal length."
    dots = (
        "Bounded slowdown, threshold 10 s. Dot: mean. Line: median to 95th percentile. A dot above its line: "
        "few jobs have a very large slowdown."
    )
    gpus = int(replayed.described["gpus"])
    in_use = [("Processors", "requested_number_of_resources", processors)]
    in_use += [("GPUs", "requested_gpus", gpus)] if gpus else []
    for title, text, chart in (
        ("Jobs that wait", bins, queue_length(jobs, names)),
        *((f"{what} in use", bins, utilisation(jobs, what, of, n, names)) for what, of, n in in_use),
        ("Waiting time", "The share of jobs that wait at most so long.", waiting_distribution(jobs, names)),
        ("Slowdown by size of job", dots, slowdown_by_size(jobs, names)),
    ):
        yield Section(title, text, [Part(chart=chart, name=slug(title))])
    if has_schedules(replayed):
        yield Section("Schedules", SCHEDULES, [Part(schedules=schedules(jobs, processors))])


def has_schedules(replayed: Replayed) -> bool:
    """Jobs overlap on nodes that they share."""
    return not replayed.described["nodes"]


def schedule_sections(replayed: Replayed) -> list[Section]:
    """Part of each schedule as a chart that can be a file."""
    around = "All runs while some hundred jobs start, around the job that waited longest. Colours only "
    note, processors = f"{around}distinguish jobs.", int(replayed.described["processors"])
    return [
        Section(title, note, [Part(chart=gantt(table, processors), name=slug(title))])
        for title, table in ((f"Schedule of {name}", table) for name, table in replayed.jobs.items())
        if has_schedules(replayed)
    ]


def queue_length(jobs: Jobs, names: Sequence[str]) -> Figure:
    """The mean number of jobs that wait in each of `BINS` intervals of time."""
    return _over_time(jobs, names, "Jobs that wait", ("submission_time", "starting_time"), pl.lit(1.0))


def utilisation(jobs: Jobs, what: str, requested: str, capacity: int, names: Sequence[str]) -> Figure:
    """The mean share of processors, or of GPUs, in use in each of `BINS` intervals of time."""
    share = 100.0 * pl.col(requested) / capacity
    return _over_time(jobs, names, f"{what} in use (%)", ("starting_time", "finish_time"), share)


def slowdown_by_size(jobs: Jobs, names: Sequence[str]) -> Figure:
    """Bounded slowdown by requested processors: mean, and median to 95th percentile."""
    rows = []
    for scheduler, table in jobs.items():
        sizes = table["requested_number_of_resources"].to_numpy()
        powers = np.ceil(np.log2(sizes)).astype(int)
        for power in np.unique(powers):
            values = table["bounded_slowdown"].to_numpy()[powers == power]
            low, high = np.quantile(values, [0.5, 0.95], method="inverted_cdf")
            rows.append((scheduler, _size_class(power), power, float(values.mean()), low, high, len(values)))
    columns = ["scheduler", "processors", "power", "mean", "median", "95th percentile", "jobs"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    order = [_size_class(power) for power in sorted(frame["power"].unique())]
    x = column(
        "processors:N",
        sort=order,
        title="Requested processors (dot: mean; line: median to 95th percentile)",
        axis={"labelAngle": 0},
    )
    scale = {"type": "log", "nice": False}
    offset = column("scheduler:N", sort=list(names))
    base = Figure(frame).encode(x=x, xOffset=offset, color=scheduler_colour(names))
    return layer(
        base.mark("rule", strokeWidth=2, opacity=0.5).encode(
            y=column("median:Q", scale=scale, title="Bounded slowdown (log scale)"),
            y2=column("95th percentile"),
        ),
        base.mark("point", filled=True, size=55, opacity=1).encode(
            y=column("mean:Q", scale=scale), tooltip=tooltips(*columns)
        ),
    ).properties(width=WIDTH, height=280)


def waiting_distribution(jobs: Jobs, names: Sequence[str]) -> Figure:
    """The share of jobs that wait for at most a time."""
    waits_s = {name: table["waiting_time"] for name, table in jobs.items()}
    title = "Waiting time (s, log scale; less than 1 s is drawn at 1 s)"
    return distribution(waits_s, names, title, least=1.0)


def gantt(table: pl.DataFrame, processors: int, window_s: tuple[float, float] | None = None) -> Figure:
    """Processors by time in a window, in seconds from the first submission on; without one, while
    `GANTT_RUNS` jobs start, around the job that waited longest."""
    jobs = table.sort("starting_time", "job_id")
    begin_s = float(jobs["submission_time"].to_numpy().min())
    if window_s is None:
        from_s, until_s = _around_the_longest_wait(jobs)
    else:
        from_s, until_s = (begin_s + edge_s for edge_s in window_s)
    # Include runs that began before, or their nodes would look idle.
    shown = jobs.filter(pl.col("starting_time") < until_s, pl.col("finish_time") > from_s).select(
        "job_id",
        (pl.col("starting_time").clip(lower_bound=from_s) - begin_s) / DAY_S,
        (pl.col("finish_time").clip(upper_bound=until_s) - begin_s) / DAY_S,
        "allocated_resources",
    )
    rows = [
        (job, start_day, end_day, low, high + 1, str(job % len(PALETTE)))
        for job, start_day, end_day, nodes in shown.iter_rows()
        for low, high in NodeSet.parse(nodes).intervals
    ]
    columns = ["job", "from", "until", "low", "high", "colour"]
    frame = pl.DataFrame(rows, schema=columns, orient="row").sort("from", maintain_order=True)
    if len(frame) > GANTT_RECTANGLES and (until := frame["from"][GANTT_RECTANGLES]) > frame["from"][0]:
        frame = frame.filter(pl.col("from") < until).with_columns(pl.col("until").clip(upper_bound=until))
    colours = colour_scale(map(str, range(len(PALETTE))))
    return (
        Figure(frame)
        .mark("rect", stroke="white", strokeWidth=0.3)
        .encode(
            x=column(
                "from:Q",
                title=SINCE,
                scale={"zero": False, "nice": False},
                axis={"tickCount": 10, "labelOverlap": True},
            ),
            x2=column("until"),
            y=column("low:Q", title="Processor", scale={"domain": [0, processors], "nice": False}),
            y2=column("high"),
            color=column("colour:N", scale=colours, legend=None),
            tooltip=tooltips("job", "from", "until", "low", "high"),
        )
        .properties(width=WIDTH, height=280)
    )


def _around_the_longest_wait(jobs: pl.DataFrame) -> tuple[float, float]:
    """The times between which `GANTT_RUNS` jobs start; jobs are in order of start."""
    starts_s = jobs["starting_time"].to_numpy()
    middle = int(np.argmax(jobs["waiting_time"].to_numpy()))
    first = max(0, min(middle - GANTT_RUNS // 2, len(jobs) - GANTT_RUNS))
    from_s = float(starts_s[first])
    later_s = starts_s[first + GANTT_RUNS :]
    later_s = later_s[later_s > from_s]  # they may all start at once
    return from_s, float(later_s[0] if len(later_s) else jobs["finish_time"].to_numpy().max())


def _over_time(
    jobs: Jobs, names: Sequence[str], title: str, between: tuple[str, str], weight: pl.Expr
) -> Figure:
    """The mean over each bin of the summed weight of the jobs that are between two times."""
    first_s = min(float(table["submission_time"].to_numpy().min()) for table in jobs.values())
    last_s = max(float(table["finish_time"].to_numpy().max()) for table in jobs.values())
    edges_s = np.linspace(0.0, last_s - first_s, BINS + 1)
    days = (edges_s[:-1] + edges_s[1:]) / 2 / DAY_S
    frames = []
    for scheduler, table in jobs.items():
        weights = table.with_columns(weight=weight)["weight"].to_numpy()
        begun, over = (_since(table[key].to_numpy() - first_s, weights, edges_s) for key in between)
        values = np.diff(begun - over) / np.diff(edges_s)
        frames.append(pl.DataFrame({"scheduler": [scheduler] * BINS, "day": days, "value": values}))
    x, y = column("day:Q", title=SINCE), column("value:Q", title=title)
    chart = scheduler_lines(pl.concat(frames), x, y, names, height=240)
    return chart.mark("line", interpolate="step", strokeWidth=1.3)


def _since(times_s: Numbers, weights: Numbers, edges_s: Numbers) -> Numbers:
    """For each edge, the sum of weight * (edge - time) over the times before it."""
    order = np.argsort(times_s)
    times_s, weights = times_s[order], weights[order]
    before = np.searchsorted(times_s, edges_s)
    summed = np.concatenate([[0.0], np.cumsum(weights)])[before]
    moments = np.concatenate([[0.0], np.cumsum(weights * times_s)])[before]
    return np.asarray(edges_s * summed - moments, dtype=np.float64)


def _size_class(power: int) -> str:
    high = 2**power
    low = high // 2 + 1
    return f"{high:,}" if low >= high else f"{low:,}-{high:,}"
