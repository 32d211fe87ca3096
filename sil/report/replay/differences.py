"""Paired differences between schedulers, job by job, with intervals over blocks of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from scheduler.messages import counted
from sil.outcome.paired import (
    FEWEST_BLOCKS,
    MOST_CORRELATION,
    PairedDifferences,
    baseline_of,
    paired_differences,
)
from sil.outcome.statistics import Interval
from sil.report.figures import WIDTH, scheduler_colour, tooltips, zero_rule
from sil.report.page import Cell, Part, Section, Table, slug
from sil.report.replay import Jobs
from sil.report.replay.over_time import SINCE
from sil.report.tables import duration_text, significant, unit_of
from sil.report.vega_lite import Figure, below_each_other, column, layer

COMPARED = {"waiting_time": "Waiting time", "bounded_slowdown": "Bounded slowdown"}
"""Columns of jobs.csv, with their titles. Turnaround times differ as waiting times do."""


@dataclass(frozen=True)
class Compared:
    """Schedulers with the baseline, by quantity and scheduler; there may be none."""

    baseline: str
    found: Mapping[str, Mapping[str, PairedDifferences]]

    @classmethod
    def of(cls, jobs: Jobs, names: Sequence[str], block_days: float | None) -> Compared:
        baseline = baseline_of(names)
        others = [name for name in names if name != baseline and name in jobs and baseline in jobs]
        found = {
            quantity: {
                name: differences
                for name in others
                if (differences := paired_differences(jobs[name], jobs[baseline], quantity, block_days))
            }
            for quantity in COMPARED
        }
        return cls(baseline, found)

    @property
    def waits(self) -> Mapping[str, PairedDifferences]:
        return self.found["waiting_time"]

    def headline(self, statistics: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
        """A sentence, if the baseline has jobs."""
        mean_s = statistics[self.baseline].get("waiting_time_mean")
        if mean_s is not None:
            others = (f"{name} {_longer(each.difference)}" for name, each in self.waits.items())
            yield f"{'; '.join([f'{self.baseline}: mean wait {duration_text(mean_s)}', *others])}."

    def sections(self, names: Sequence[str]) -> Iterator[Section]:
        if self.waits:
            parts = [Part(table=_table(self.found, list(self.waits)))]
            if min(len(each.by_block) for each in self.waits.values()) > 1:
                chart = difference_over_time(self.waits, names, self.baseline)
                parts.append(Part(chart=chart, name=slug("Differences over time")))
            yield Section(f"Differences to {self.baseline}", f"{self._note()}.", parts)

    def _note(self) -> str:
        first, *_ = self.waits.values()
        blocks = f"{first.block_days:g} days" if first.block_days != 1 else "one day"
        n = min(len(each.by_block) for each in self.waits.values())
        few = "" if n >= FEWEST_BLOCKS else f"; with fewer than {FEWEST_BLOCKS} there are none"
        note = (
            f"Per-job difference from {self.baseline}: mean, 95 % interval, and shares of jobs for which it "
            "is less, more, or the same. * The interval excludes 0. Jobs that are submitted at about the "
            "same time depend on each other, so intervals are Student's t, extended for skewness, over "
            f"{counted(n, 'block')} of {blocks}, by submission{few}"
        )
        correlated = ", ".join(
            f"{name} {of_blocks:+.2f}"
            for name, each in self.waits.items()
            if (of_blocks := each.correlation) is not None
        )
        if correlated:
            note += f". Correlation of the mean waits of blocks that follow each other: {correlated}"
            if any((each.correlation or 0.0) > MOST_CORRELATION for each in self.waits.values()):
                note += (
                    f". Above {MOST_CORRELATION:g}, blocks are not independent, and intervals too narrow: "
                    "give longer blocks (--block-days)"
                )
        return note


def _longer(difference: Interval) -> str:
    """By how much jobs wait longer, or less long, than under the baseline."""
    if difference.mean == 0.0 and difference.half_width is None:
        return "the same"
    word = "more" if difference.mean >= 0.0 else "less"
    found = difference if difference.mean >= 0.0 else difference.scaled(-1.0)
    if found.half_width is None:
        return f"{duration_text(found.mean)} {word} (no interval)"
    open_ = "" if found.excludes_zero else ", which is not settled"
    return f"{_durations(found)} {word}{open_}"


def _durations(found: Interval, sign: str = "") -> str:
    """All in the unit of the largest."""
    most_s = _most(found)
    size, unit = unit_of(most_s)
    return f"{_limits(found.scaled(1 / size), sign)} {unit}"


def _limits(found: Interval, sign: str = "") -> str:
    of = _most(found)
    mean, low, high = (
        f"{'+' if sign and number > 0.0 else ''}{significant(number, of)}"
        for number in (found.mean, found.low, found.high)
    )
    return mean if found.half_width is None else f"{mean} [{low}, {high}]"


def _most(found: Interval) -> float:
    return max(map(abs, (found.mean, found.low, found.high)))


def _table(compared: Mapping[str, Mapping[str, PairedDifferences]], names: Sequence[str]) -> Table:
    rows: list[list[Cell | str]] = []
    for key, title in COMPARED.items():
        texts = _durations if key == "waiting_time" else _limits
        rows.append([title, *(_cell(compared[key][name], texts) for name in names)])
    return Table(["", *names], rows)


def _cell(found: PairedDifferences, texts: Callable[[Interval, str], str]) -> Cell:
    star = "*" if found.difference.excludes_zero else ""
    equal = max(0.0, 1.0 - found.less - found.more)
    shares = (
        f"less for {100 * found.less:.1f} % of {found.jobs:,} jobs, more for {100 * found.more:.1f} %, equal "
        f"for {100 * equal:.1f} %"
    )
    return Cell(f"{texts(found.difference, '+')}{star}", shares)


def difference_over_time(
    found: Mapping[str, PairedDifferences], names: Sequence[str], baseline: str
) -> Figure:
    """The mean difference of the waiting time in each block: a chart for each scheduler."""
    charts = []
    for name, each in found.items():
        end = each.by_block.tail(1).with_columns(day=pl.max_horizontal("day", pl.lit(each.days)))
        size, unit = unit_of(float(each.by_block["difference"].abs().max()))  # type: ignore[arg-type]
        frame = pl.concat([each.by_block, end]).select(
            "day", scheduler=pl.lit(name), difference=pl.col("difference") / size
        )
        y = column("difference:Q", title=f"Difference ({unit})")
        colour = scheduler_colour(names) | {"legend": None}
        line = (
            Figure(frame)
            .mark("line", interpolate="step-after", strokeWidth=1.5)
            .encode(x=column("day:Q", title=SINCE), y=y, color=colour, tooltip=tooltips(*frame.columns))
        )
        title = f"Mean waiting time under {name}, less that under {baseline}"
        charts.append(layer(zero_rule(), line).properties(width=WIDTH, height=150, title=title))
    return below_each_other(*charts)
