"""Effect against cost, with intervals and the Pareto front."""

from __future__ import annotations

import altair as alt
import polars as pl

from sil.outcome.figures import PALETTE, WIDTH, Figure
from sil.planning.answers import Answers
from sil.planning.tables import options_frame

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


def effect_against_cost(answers: Answers) -> Figure:
    """Every option once: what it costs, and how much better the first goal gets (%). The line is the Pareto
    front of the first scheduler: nothing that costs less does as much."""
    goal = answers.plan.goals[0]
    frame = options_frame(answers).filter(pl.col("question") != "retire")
    frame = frame.unique(["scheduler", "option"], keep="last", maintain_order=True).with_columns(
        low=pl.col("gain_percent") - pl.col("gain_percent_half_width"),
        high=pl.col("gain_percent") + pl.col("gain_percent_half_width"),
    )
    schedulers = [answer.scheduler for answer in answers.answers]
    title = f"{goal.label.partition(' (')[0]}: how much better than today (%)"
    x = alt.X("cost:Q", title="Cost", axis=alt.Axis(format="~s"))
    y = alt.Y("gain_percent:Q", title=title)
    colour = alt.Color(
        "scheduler:N",
        sort=schedulers,
        scale=alt.Scale(domain=schedulers, range=list(PALETTE[: len(schedulers)])),
        legend=alt.Legend(title="Scheduler") if len(schedulers) > 1 else None,
    )
    base = alt.Chart(frame)
    first = frame.filter(pl.col("scheduler") == schedulers[0]).sort("cost", "gain_percent")
    front = first.filter(pl.col("gain_percent") > pl.col("gain_percent").cum_max().shift(1).fill_null(0.0))
    tooltip = ["option", "scheduler", "cost", "gain_percent", "low", "high", "replications"]
    return alt.layer(
        base.mark_rule(strokeDash=[4, 4], color="#666").encode(y=alt.datum(0.0)),
        alt.Chart(front)
        .mark_line(interpolate="step-after", strokeDash=[6, 3], color="#999")
        .encode(x=x, y=y),
        base.mark_rule(strokeWidth=2).encode(x=x, y=alt.Y("low:Q", title=title), y2="high:Q", color=colour),
        base.mark_point(size=70, filled=True).encode(x=x, y=y, color=colour, tooltip=tooltip),
        alt.Chart(first).mark_text(align="left", dx=8, dy=-8).encode(x=x, y=y, text="option:N"),
    ).properties(width=WIDTH, height=340)
