"""Effect against cost, with intervals and the Pareto front."""

from __future__ import annotations

from math import inf
from string import ascii_uppercase

import altair as alt
import polars as pl

from sil.planning.answers import Answers
from sil.planning.report.tables import options_frame
from sil.report.figures import PALETTE, WIDTH, Figure, tooltips

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
    colours = [PALETTE[k % len(PALETTE)] for k in range(len(options))]
    colour = alt.Color(
        "what:N",
        sort=options,
        scale=alt.Scale(domain=options, range=colours),
        legend=alt.Legend(title="Option", labelLimit=420, symbolOpacity=1, symbolType="square"),
    )
    shape = alt.Shape(
        "scheduler:N",
        sort=schedulers,
        scale=alt.Scale(domain=schedulers, range=[SHAPES[k % len(SHAPES)] for k in range(len(schedulers))]),
        legend=alt.Legend(title="Scheduler") if len(schedulers) > 1 else None,
    )
    base = alt.Chart(frame)
    first = frame.filter(pl.col("scheduler") == schedulers[0]).sort("x", "gain_percent")
    front = first.filter(pl.col("gain_percent") > pl.col("gain_percent").cum_max().shift(1).fill_null(0.0))
    shown = tooltips("option", "scheduler", "cost", "gain_percent", "low", "high", "replications")
    return alt.layer(
        base.mark_rule(strokeDash=[4, 4], color="#666").encode(y=alt.datum(0.0)),
        alt.Chart(front)
        .mark_line(interpolate="step-after", strokeDash=[6, 3], color="#999")
        .encode(x=x, y=y),
        base.mark_rule(strokeWidth=2).encode(
            x=x, y=alt.Y("low:Q", title=title), y2=alt.Y2("high:Q"), color=colour
        ),
        base.mark_point(size=80, filled=True, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, tooltip=shown
        ),
        base.mark_text(dy=-9, fontWeight="bold").encode(
            x=x, y=alt.Y("high:Q", title=title), text=alt.Text("letter:N"), color=colour
        ),
    ).properties(width=WIDTH - 160, height=360)


def _lettered(frame: pl.DataFrame) -> pl.DataFrame:
    """Every option of a scheduler once, as compared last, with its interval, its letter and its place `x`."""
    once = frame.unique(["scheduler", "option"], keep="last", maintain_order=True)
    by_cost = once.unique("option", maintain_order=True).sort("cost", "option").select("option", "cost")
    letters = (
        by_cost.drop("cost")
        .with_row_index("place")
        .with_columns(letter=pl.Series(LETTERS[: len(by_cost)], dtype=pl.String))
    )
    width = pl.col("gain_percent_half_width").fill_null(0.0)
    step = LEAST_DISTANCE * float(once["cost"].max() or 1.0)  # type: ignore[arg-type]
    places, x = [], -inf
    for cost in by_cost["cost"]:
        x = max(cost, x + step)
        places.append(x)
    letters = letters.with_columns(x=pl.Series(places, dtype=pl.Float64))
    return once.join(letters, on="option", maintain_order="left").with_columns(
        what=pl.col("letter") + "  " + pl.col("option"),
        low=pl.col("gain_percent") - width,
        high=pl.col("gain_percent") + width,
    )
