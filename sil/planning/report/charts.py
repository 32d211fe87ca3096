"""Effect against cost, with intervals and the Pareto front."""

from __future__ import annotations

from itertools import accumulate
from string import ascii_uppercase

import altair as alt
import polars as pl

from sil.planning.answers import Answers
from sil.planning.report.tables import options_frame
from sil.report.figures import WIDTH, Figure, colour_scale, tooltips, zero_rule

LEAST_DISTANCE = 0.02
"""Between two options, as a share of the highest cost."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
LETTERS = (*ascii_uppercase, *(f"{a}{b}" for a in ascii_uppercase for b in ascii_uppercase))


def effect_against_cost(answers: Answers) -> Figure:
    """Every option once: its cost, and the improvement of the first goal (%). Letters are in order of cost.

    Options of nearly the same cost are drawn side by side. The line is the Pareto front of the first
    scheduler: no cheaper option has the same effect.
    """
    goal = answers.plan.goals[0]
    schedulers = [answer.scheduler for answer in answers.answers]
    frame = _lettered(options_frame(answers).filter(pl.col("question") != "retire"))
    options = frame.sort("place")["what"].unique(maintain_order=True).to_list()
    title = f"{goal.label.partition(' (')[0]}: improvement (%)"
    highest = float(frame["x"].max() or 1.0)  # type: ignore[arg-type]
    x = alt.X(
        "x:Q",
        title="Cost",
        axis=alt.Axis(format="~s"),
        scale=alt.Scale(domain=[0.0, highest], nice=True),
    )
    y = alt.Y("gain_percent:Q", title=title)
    colour = alt.Color(
        "what:N",
        sort=options,
        scale=colour_scale(options),
        legend=alt.Legend(title="Option", labelLimit=420, symbolOpacity=1, symbolType="square"),
    )
    shape = alt.Shape(
        "scheduler:N",
        sort=schedulers,
        scale=alt.Scale(domain=schedulers, range=[SHAPES[k % len(SHAPES)] for k in range(len(schedulers))]),
        legend=alt.Legend(title="Scheduler") if len(schedulers) > 1 else None,
    )
    base = alt.Chart(frame).encode(x=x, color=colour)
    first = frame.filter(pl.col("scheduler") == schedulers[0]).sort("x", "gain_percent")
    front = first.filter(pl.col("gain_percent") > pl.col("gain_percent").cum_max().shift(1).fill_null(0.0))
    shown = tooltips("option", "scheduler", "cost", "gain_percent", "low", "high", "replications")
    low, high = (alt.Y(f"{name}:Q", title=title) for name in ("low", "high"))
    return alt.layer(
        zero_rule(),
        alt.Chart(front)
        .mark_line(interpolate="step-after", strokeDash=[6, 3], color="#999")
        .encode(x=x, y=y),
        base.mark_rule(strokeWidth=2).encode(y=low, y2=alt.Y2("high:Q")),
        base.mark_point(size=80, filled=True, opacity=1).encode(y=y, shape=shape, tooltip=shown),
        base.mark_text(dy=-9, fontWeight="bold").encode(y=high, text=alt.Text("letter:N")),
    ).properties(width=WIDTH - 160, height=360)


def _lettered(frame: pl.DataFrame) -> pl.DataFrame:
    """Every option of a scheduler once, as compared last, with its interval, its letter and its place `x`."""
    once = frame.unique(["scheduler", "option"], keep="last", maintain_order=True)
    by_cost = once.unique("option", maintain_order=True).sort("cost", "option").select("option", "cost")
    step = LEAST_DISTANCE * float(once["cost"].max() or 1.0)  # type: ignore[arg-type]
    x = list(accumulate(by_cost["cost"], lambda before, cost: max(cost, before + step)))
    places = by_cost.select(
        "option",
        x=pl.Series(x, dtype=pl.Float64),
        letter=pl.Series(LETTERS[: len(by_cost)], dtype=pl.String),
        place=pl.int_range(pl.len()),
    )
    width = pl.col("gain_percent_half_width").fill_null(0.0)
    return once.join(places, on="option", maintain_order="left").with_columns(
        what=pl.col("letter") + "  " + pl.col("option"),
        low=pl.col("gain_percent") - width,
        high=pl.col("gain_percent") + width,
    )
