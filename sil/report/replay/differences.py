"""Paired differences between schedulers, job by job, with intervals over blocks of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from scheduler import counted
from sil.outcome.paired import (
    FEWEST_BLOCKS,
    MOST_CORRELATION,
    PairedDifferences,
    paired_differences,
)
from sil.report.analysis import Analysis
from sil.report.figures import WIDTH, colour_scale, tooltips, zero_rule
from sil.report.page import Cell, Part, Section, Table, slug
from sil.report.replay import Jobs
from sil.report.replay.over_time import SINCE
from sil.report.vega_lite import Figure, column, layer

COMPARED = {"waiting_time": ("Waiting time (s)", 1), "bounded_slowdown": ("Bounded slowdown", 3)}
"""Columns of jobs.csv, with their titles and digits. Turnaround times differ as waiting times do."""


def difference_sections(jobs: Jobs, names: Sequence[str], analysis: Analysis) -> list[Section]:
    """None with a single scheduler, or without jobs of the first one."""
    baseline, *others = names
    if baseline not in jobs:
        return []
    compared = {
        quantity: {
            name: found
            for name in others
            if name in jobs
            and (found := paired_differences(jobs[name], jobs[baseline], quantity, analysis.block_days))
        }
        for quantity in COMPARED
    }
    waits = compared["waiting_time"]
    if not waits:
        return []
    blocks = f"{analysis.block_days:g} days" if analysis.block_days != 1 else "one day"
    n = min(len(each.by_block) for each in waits.values())
    few = "" if n >= FEWEST_BLOCKS else f"; with fewer than {FEWEST_BLOCKS} there are none"
    note = (
        f"Per-job difference from {baseline}: mean, 95 % interval, and shares of jobs for which it is less, "
        "more, or the same. * The interval excludes 0. Jobs that are submitted at about the same time depend "
        f"on each other, so intervals are Student's t, extended for skewness, over {counted(n, 'block')} of "
        f"{blocks}, by submission{few}"
    )
    correlated = ", ".join(
        f"{name} {of_blocks:+.2f}"
        for name, each in waits.items()
        if (of_blocks := each.correlation) is not None
    )
    if correlated:
        note += f". Correlation of the mean waits of blocks that follow each other: {correlated}"
        if any((each.correlation or 0.0) > MOST_CORRELATION for each in waits.values()):
            note += (
                f". Above {MOST_CORRELATION:g}, blocks are not independent, and intervals too narrow: give "
                "longer blocks (--block-days)"
            )
    parts = [Part(table=_table(compared, list(waits)))]
    if n > 1:
        parts.append(Part(chart=difference_over_time(waits, names), name=slug("Differences over time")))
    return [Section(f"Differences to {baseline}", f"{note}.", parts)]


def _table(compared: Mapping[str, Mapping[str, PairedDifferences]], names: Sequence[str]) -> Table:
    rows: list[list[Cell | str]] = []
    for key, (title, digits) in COMPARED.items():
        rows.append([title, *(_cell(compared[key][name], digits) for name in names)])
    return Table(["", *names], rows)


def _cell(found: PairedDifferences, digits: int) -> Cell:
    star = "*" if found.difference.excludes_zero else ""
    equal = 1.0 - found.less - found.more
    shares = (
        f"less for {100 * found.less:.1f} % of {found.jobs:,} jobs, more for {100 * found.more:.1f} %, equal "
        f"for {100 * equal:.1f} %"
    )
    return Cell(f"{found.difference.text(f',.{digits}f', '+')}{star}", shares)


def difference_over_time(found: Mapping[str, PairedDifferences], names: Sequence[str]) -> Figure:
    """The mean difference of the waiting time in each block."""
    rows = [each.by_block.with_columns(scheduler=pl.lit(name)) for name, each in found.items()]
    colours = colour_scale(names, first=1)
    y = column("difference:Q", title=f"Difference of mean waiting time to {names[0]} (s)")
    lines = (
        Figure(pl.concat(rows))
        .mark("line", interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=column("day:Q", title=SINCE),
            y=y,
            color=column("scheduler:N", scale=colours, legend={"title": "Scheduler"}),
            tooltip=tooltips("scheduler", "day", "difference"),
        )
        .properties(width=WIDTH, height=240)
    )
    return layer(zero_rule(), lines)
