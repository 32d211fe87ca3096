"""Figures of time-shared nodes: the load of each node over time, and predicted turnaround."""

from __future__ import annotations

import polars as pl

from sil.report.figures import WIDTH, colour_scale, tooltips
from sil.report.vega_lite import Figure, column, layer
from sil.trace.facts import Fact, one_row_per_machine

MOST_DRAWN = 4_000
"""Intervals and marks of a timeline; more are indistinguishable and make a page heavy."""

_CHANGES = {
    Fact.RUN_STARTED: 1,
    Fact.RUN_CONTINUED: 1,
    Fact.RUN_STOPPED: -1,
    Fact.RUN_ENDED: -1,
    Fact.RUN_LOST: -1,
    Fact.RUN_DISCARDED: -1,
    Fact.RUN_PREEMPTED: -1,
}
"""Of the number of parallel tasks on each node of a run."""


def mpl_segments(facts: pl.DataFrame) -> pl.DataFrame:
    """(node, from_s, until_s, mpl): the number of parallel tasks that ran on a node, if any did."""
    nodes = facts.filter(event=Fact.RUN_STARTED).select("run", "machines")
    change = pl.col("event").cast(pl.String).replace_strict(_CHANGES, return_dtype=pl.Int64)
    was_stopped = pl.col("event").shift(1).over("run") == Fact.RUN_STOPPED
    over_after_stop = was_stopped.fill_null(value=False) & (pl.col("event") != Fact.RUN_CONTINUED)
    changes = (
        facts.filter(pl.col("event").is_in(list(_CHANGES)))
        .select("run", from_s="time_s", change=pl.when(over_after_stop).then(0).otherwise(change))
        .join(nodes, on="run", maintain_order="left")
    )
    return (
        one_row_per_machine(changes)
        .select(
            node=pl.col("machines").cast(pl.Int64),
            from_s="from_s",
            until_s=pl.col("from_s").shift(-1).over("machines"),
            mpl=pl.col("change").cum_sum().over("machines"),
        )
        .filter(pl.col("mpl") > 0, pl.col("until_s") > pl.col("from_s"))
        .sort("until_s", maintain_order=True)
    )


def presence(facts: pl.DataFrame, end_s: float) -> pl.DataFrame:
    """(node, from_s, until_s): when a local user was present."""
    until_s = pl.col("time_s").shift(-1).over("resource").fill_null(end_s)
    return (
        facts.filter(pl.col("event").is_in([Fact.LOCAL_USER_CAME, Fact.LOCAL_USER_GONE]))
        .with_columns(until_s=until_s)
        .filter(event=Fact.LOCAL_USER_CAME)
        .select(node=pl.col("resource").cast(pl.Int64), from_s="time_s", until_s="until_s")
    )


def predicted_against_real(points: pl.DataFrame, of: str) -> Figure:
    """Predicted over real turnaround. `points` has the columns `real` and `predicted` (s) and `of`, whose
    values have a colour each; the parameter `of` is the title of the legend."""
    colours = colour_scale(points["of"].unique(maintain_order=True))
    longest_s = max(points["real"].max(), points["predicted"].max())  # type: ignore[type-var]
    line = pl.DataFrame({"real": [0.0, longest_s], "predicted": [0.0, longest_s]})
    return layer(
        Figure(line)
        .mark("line", strokeDash=[4, 4], color="#666")
        .encode(x=column("real:Q"), y=column("predicted:Q")),
        Figure(points)
        .mark("point", filled=True, size=50)
        .encode(
            x=column("real:Q", title="Real turnaround (s)"),
            y=column("predicted:Q", title="Turnaround predicted at arrival (s)"),
            color=column("of:N", scale=colours, title=of),
            tooltip=tooltips("of", "real", "predicted"),
        ),
    ).properties(width=420, height=420)


def timeline(facts: pl.DataFrame, n_nodes: int) -> Figure:
    """Node by time: MPL as shade, a line while a local user is present, marks where jobs stop and continue.
    Long runs are cut."""
    end_s = float(facts["time_s"].max() or 0.0)  # type: ignore[arg-type]
    segments, there, marks = mpl_segments(facts), presence(facts, end_s), _stops(facts)
    begins_s = pl.concat([frame["from_s"] for frame in (segments, there, marks)]).sort()
    title = "Time (s)"
    if len(begins_s) > MOST_DRAWN:
        title, end_s = f"Time (s); the run ends at {end_s:,.0f} s", float(begins_s[MOST_DRAWN])
        segments, there = (
            frame.filter(pl.col("from_s") < end_s).with_columns(pl.col("until_s").clip(upper_bound=end_s))
            for frame in (segments, there)
        )
        marks = marks.filter(pl.col("from_s") < end_s)
    x = column("from_s:Q", title=title, scale={"domain": [0, end_s], "nice": False})
    y_scale = {"domain": [-0.5, n_nodes - 0.5], "nice": False, "reverse": True}
    segments = segments.with_columns(low=pl.col("node") - 0.4, high=pl.col("node") + 0.3)
    most = max(segments["mpl"].to_list(), default=0)
    shade = {"domain": [1, 2, 3, 4], "range": ["#c6dbef", "#6baed6", "#2171b5", "#08306b"]}
    if most > 4:
        shade = {"domain": list(range(1, most + 1)), "scheme": "blues"}
    tasks = (
        Figure(segments)
        .mark("rect", stroke="white", strokeWidth=0.3)
        .encode(
            x=x,
            x2=column("until_s"),
            y=column("low:Q", title="Node", scale=y_scale, axis={"tickMinStep": 1, "format": "d"}),
            y2=column("high"),
            color=column("mpl:O", scale=shade, title="Parallel tasks"),
            tooltip=tooltips("node", "from_s", "until_s", "mpl"),
        )
    )
    user = {"domain": ["local user is present"], "range": ["#E69F00"]}
    stop = {"domain": ["a job stops", "a job continues"], "range": ["#D55E00", "#009E73"]}
    colours = [column("what:N", scale=scale, title=None) for scale in (user, stop)]
    there = there.with_columns(at=pl.col("node") + 0.4, what=pl.lit("local user is present"))
    users = (
        Figure(there)
        .mark("rule", strokeWidth=2.5)
        .encode(x=x, x2=column("until_s"), y=column("at:Q", scale=y_scale), color=colours[0])
    )
    stops = (
        Figure(marks)
        .mark("point", filled=True, size=45)
        .encode(x=x, y=column("node:Q", scale=y_scale), color=colours[1])
    )
    return layer(tasks, users, stops).properties(
        resolve={"scale": {"color": "independent"}}, width=WIDTH - 100, height=22 * n_nodes
    )


def _stops(facts: pl.DataFrame) -> pl.DataFrame:
    """(from_s, node, what): where jobs stop and continue."""
    texts = {Fact.RUN_STOPPED: "a job stops", Fact.RUN_CONTINUED: "a job continues"}
    marks = facts.filter(pl.col("event").is_in(list(texts)))
    what = pl.col("event").cast(pl.String).replace_strict(texts, return_dtype=pl.String)
    return one_row_per_machine(marks).select(
        from_s="time_s", node=pl.col("machines").cast(pl.Int64), what=what
    )
