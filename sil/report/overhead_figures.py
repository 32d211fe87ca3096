"""Decision times, drawn as in Collins and George 2001, Figures 3 and 4; both axes are logarithmic."""

from __future__ import annotations

import altair as alt
import polars as pl

from sil.report.figures import WIDTH, Figure, tooltips


def overhead_figure(points: pl.DataFrame, across: str, lines: str, title: str = "") -> Figure:
    """Median decision time (ms) over jobs with quartiles: a line per value of `lines`, a panel per value of
    `across`. `points` also has the columns jobs, median_s, low_s and high_s."""
    frame = points.with_columns(
        *(pl.col(f"{name}_s").mul(1e3).alias(name) for name in ("median", "low", "high")),
        pl.col(across).cast(pl.String),
        pl.col(lines).cast(pl.String),
    )
    titles = {"machines": "Machines", "parallel_percent": "Parallel jobs (%)", "scheduler": "Scheduler"}
    x = alt.X("jobs:Q", title="Number of jobs", scale=alt.Scale(type="log", nice=False, padding=8))
    y_scale = alt.Scale(type="log", nice=False, padding=8)
    panels = frame[across].unique(maintain_order=True).to_list()
    colour = alt.Color(f"{lines}:N", sort=None, legend=alt.Legend(title=titles[lines], symbolOpacity=1))
    base = alt.Chart(frame)
    band = base.mark_area(opacity=0.2).encode(
        x=x, y=alt.Y("low:Q", title="Decision time (ms)", scale=y_scale), y2=alt.Y2("high:Q"), color=colour
    )
    median = base.mark_line(point=True).encode(
        x=x,
        y=alt.Y("median:Q", title="Decision time (ms)", scale=y_scale),
        color=colour,
        tooltip=tooltips("jobs", lines, "median", "low", "high"),
    )
    panel = alt.layer(band, median).properties(width=WIDTH // 2, height=260)
    figure: Figure = panel.facet(
        facet=alt.Facet(f"{across}:N", sort=panels, title=title or titles[across]), columns=2
    )
    return figure
