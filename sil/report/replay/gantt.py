"""A part of a schedule, small enough for a file: processors by time."""

from __future__ import annotations

import numpy as np
import polars as pl

from scheduler.node_set import NodeSet
from sil.report.figures import PALETTE, WIDTH, colour_scale, tooltips
from sil.report.replay.over_time import SINCE
from sil.report.vega_lite import Figure, column
from sil.workload.weeks import DAY_S

GANTT_RUNS = 600
GANTT_RECTANGLES = 6_000


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
