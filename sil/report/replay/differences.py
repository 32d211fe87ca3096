"""Paired differences between schedulers, job by job, with intervals over blocks of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from scheduler.messages import counted
from sil.outcome.paired import MAX_CORRELATION, MIN_BLOCKS, PairedDifferences, baseline_of, paired_differences
from sil.outcome.statistics import Interval
from sil.report.figures import WIDTH, scheduler_colour, tooltips, zero_rule
from sil.report.page import Cell, PageTable, Part, Section
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
        """A sentence on each difference, if the baseline has jobs."""
        mean_s = statistics[self.baseline].get("waiting_time_mean")
        if mean_s is not None:
            others = (f"{name} {_longer(each.difference)}" for name, each in self.waits.items())
            yield f"{'; '.join([f'{self.baseline}: mean wait {duration_text(mean_s)}', *others])}."

    def sections(self, names: Sequence[str]) -> Iterator[Section]:
        if self.waits:
            rows: list[list[Cell | str]] = [
                [title, *(_cell(self.found[key][name], key == "waiting_time") for name in self.waits)]
                for key, title in COMPARED.items()
            ]
            parts = [Part(table=PageTable(["", *self.waits], rows))]
            if min(len(each.by_block) for each in self.waits.values()) > 1:
                parts.append(Part(chart=self._over_time(names), name="differences-over-time"))
            yield Section(f"Differences to {self.baseline}", f"{self._note()}.", parts)

    def _note(self) -> str:
        first, *_ = self.waits.values()
        blocks = f"{first.block_days:g} days" if first.block_days != 1 else "one day"
        n = min(len(each.by_block) for each in self.waits.values())
        few = "" if n >= MIN_BLOCKS else f"; with fewer than {MIN_BLOCKS} there are none"
        note = (
            f"Per-job difference from {self.baseline}: mean, 95 % interval, and shares of jobs for which it "
            "is less, more, or the same. * The interval excludes 0. Jobs that are submitted at about the "
            "same time depend on each other, so intervals are Student's t, extended for skewness, over "
            f"{counted(n, 'block')} of {blocks}, by submission{few}"
        )
        correlations = {name: each.correlation for name, each in self.waits.items()}
        known = {name: of_blocks for name, of_blocks in correlations.items() if of_blocks is not None}
        if known:
            correlated = ", ".join(f"{name} {of_blocks:+.2f}" for name, of_blocks in known.items())
            note += f". Correlation of the mean waits of blocks that follow each other: {correlated}"
        if any(of_blocks > MAX_CORRELATION for of_blocks in known.values()):
            note += (
                f". Above {MAX_CORRELATION:g}, blocks are not independent, and intervals too narrow: "
                "give longer blocks (--block-days)"
            )
        return note

    def _over_time(self, names: Sequence[str]) -> Figure:
        """The mean difference of the waiting time in each block: a chart for each scheduler."""
        charts = []
        colour = scheduler_colour(names) | {"legend": None}
        for name, each in self.waits.items():
            end = each.by_block.tail(1).with_columns(day=pl.max_horizontal("day", pl.lit(each.days)))
            size, unit = unit_of(float(each.by_block["difference"].abs().max()))  # type: ignore[arg-type]
            frame = pl.concat([each.by_block, end]).select(
                "day", scheduler=pl.lit(name), difference=pl.col("difference") / size
            )
            line = Figure(frame).mark("line", interpolate="step-after", strokeWidth=1.5)
            y = column("difference:Q", title=f"Difference ({unit})")
            shown = tooltips(*frame.columns)
            line = line.encode(x=column("day:Q", title=SINCE), y=y, color=colour, tooltip=shown)
            title = f"Mean waiting time under {name}, less that under {self.baseline}"
            charts.append(layer(zero_rule(), line).properties(width=WIDTH, height=150, title=title))
        return below_each_other(*charts)


def _longer(difference: Interval) -> str:
    """How much longer, or less long, jobs wait than under the baseline."""
    if difference.mean == 0.0 and difference.half_width is None:
        return "the same"
    word = "more" if difference.mean >= 0.0 else "less"
    found = difference if difference.mean >= 0.0 else difference.scaled(-1.0)
    if found.half_width is None:
        return f"{duration_text(found.mean)} {word} (no interval)"
    open_ = "" if found.excludes_zero else ", which is not settled"
    return f"{_limits(found, True)} {word}{open_}"


def _limits(found: Interval, is_duration: bool, sign: str = "") -> str:
    """The limits with three significant digits of the largest number; durations are all in its unit."""
    most = max(map(abs, (found.mean, found.low, found.high)))
    size, unit = unit_of(most) if is_duration else (1.0, "")
    of, scaled = most / size, found.scaled(1 / size)
    mean, low, high = (
        f"{'+' if sign and number > 0.0 else ''}{significant(number, of)}"
        for number in (scaled.mean, scaled.low, scaled.high)
    )
    return f"{mean if found.half_width is None else f'{mean} [{low}, {high}]'} {unit}".rstrip()


def _cell(found: PairedDifferences, is_duration: bool) -> Cell:
    star = "*" if found.difference.excludes_zero else ""
    equal = max(0.0, 1.0 - found.less - found.more)
    shares = (
        f"less for {100 * found.less:.1f} % of {found.jobs:,} jobs, more for {100 * found.more:.1f} %, equal "
        f"for {100 * equal:.1f} %"
    )
    return Cell(f"{_limits(found.difference, is_duration, '+')}{star}", shares)
