"""Every scheduler against the baseline, the first one, at every point of an experiment or a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np
import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.outcome.metrics import MAKESPAN, METRICS, OF_ALL_SITES, REPLAY_METRICS, Metric, faults, why_absent
from sil.outcome.paired import Paired, why_no_interval
from sil.outcome.prediction_errors import accuracies
from sil.outcome.refused_and_failed import failure_sentences, notes, refusal_sentences
from sil.outcome.statistics import CONFIDENCE, Interval, Sample, interval
from sil.trace.facts import RunDescription
from sil.world.guard.faults import fault_sentence


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """One metric of one scheduler at one point, and its paired difference to the baseline; `not_settled` says
    why the difference has no interval. A difference and its percentage exclude 0 both or neither."""

    value: Interval
    difference: Interval | None = None
    change_percent: Interval | None = None
    not_settled: str = ""

    @classmethod
    def of(
        cls,
        values: Sample,
        baseline: Sample | None,
        confidence: float = CONFIDENCE,
        unit: str = "replication",
    ) -> ComparedMetric:
        """The comparison by the values of independent blocks, which the `unit` names, and the baseline's of
        the same blocks; None for the baseline itself, or where it has no values."""
        value = interval(values, confidence)
        if baseline is None:
            return cls(value)
        paired = Paired(values, baseline, confidence)
        return cls(value, paired.difference, paired.percent, why_no_interval(paired.differences, unit))

    def as_dict(self) -> dict[str, Any]:
        intervals = {
            "value": self.value,
            "difference": self.difference,
            "change_percent": self.change_percent,
        }
        found = {name: each.as_dict() for name, each in intervals.items() if each is not None}
        return found | ({"not_settled": self.not_settled} if self.not_settled else {})


@dataclass(frozen=True, slots=True)
class FirstFault:
    """The first fault of a scheduler, which ended its run at every point after it."""

    scheduler: str
    point: int
    replication: int
    rule: str
    job: int | None
    time_s: float | None
    message: str

    def __str__(self) -> str:
        return fault_sentence(self.scheduler, self.rule, self.job, self.time_s, self.message)


NUMBERS = {
    "mean": ("value", "mean"),
    "half_width": ("value", "half_width"),
    "difference": ("difference", "mean"),
    "difference_half_width": ("difference", "half_width"),
    "difference_low": ("difference", "low"),
    "difference_high": ("difference", "high"),
    "percent": ("change_percent", "mean"),
    "percent_low": ("change_percent", "low"),
    "percent_high": ("change_percent", "high"),
}
"""Columns of `ComparisonMatrix.frame`, and where a ComparedMetric has their values."""


class ComparisonMatrix:
    """Every scheduler against the first one, at every point: a setting of some axes.

    The table has a row for each `point`, scheduler and block. Values are means over blocks, differences are
    paired within them, over the blocks that both schedulers have, and the intervals of both take blocks for
    independent and alike; with one block there are none.
    """

    unit: str
    """What a block is, as a noun."""
    block: tuple[str, ...]
    """The columns that name a block."""
    text_axes: tuple[str, ...] = ()
    """Axes whose values are words."""
    least = 1
    """The fewest blocks with which a scheduler has values at a point."""

    def __init__(
        self,
        table: pl.DataFrame,
        schedulers: Sequence[str],
        points: Sequence[dict[str, Any]],
        metrics: Mapping[str, Metric],
        confidence: float = CONFIDENCE,
    ) -> None:
        self.schedulers, self.baseline = schedulers, schedulers[0]
        self.points = points
        self.metrics = metrics
        """The metrics that some run has, by column of the table."""
        self.confidence = confidence
        self._none = table.clear()
        self._of_runs = table.partition_by("point", "scheduler", as_dict=True, maintain_order=True)

    @staticmethod
    def text(value: Any) -> str:
        """The value of an axis in a table."""
        return str(value)

    def rows(self, point: int, scheduler: str) -> pl.DataFrame:
        """The rows of a scheduler at a point, by block; none unless there are enough."""
        found = self._of_runs.get((point, scheduler), self._none)
        return found if len(found) >= self.least else self._none

    def cell(self, point: int, scheduler: str, key: str) -> ComparedMetric | None:
        """A metric of a scheduler at a point; None where a fault ended some runs of the scheduler, since the
        others would be a selection, or the metric is unknown."""
        rows, baseline = (self.rows(point, of) for of in (scheduler, self.baseline))
        if rows.is_empty() or rows[key].null_count():
            return None
        if scheduler != self.baseline and not baseline[key].null_count():
            before = baseline.select(*self.block, before=key)
            both = rows.select(*self.block, key).join(before, on=self.block, maintain_order="left_right")
            if len(both):
                values, baseline_values = _sample(both[key]), _sample(both["before"])
                return ComparedMetric.of(values, baseline_values, self.confidence, self.unit)
        return ComparedMetric.of(_sample(rows[key]), None, self.confidence)

    def frame(self, *keys: str) -> pl.DataFrame:
        """A row for each point (a column for each of its settings), scheduler and metric: the mean over
        blocks and the half-width of its confidence interval; the mean paired difference to the first
        scheduler, half the width of its interval and its limits; the same as a percentage; why the difference
        has no interval, if hardly any block shows one."""
        rows = []
        for point, settings in enumerate(self.points):
            for scheduler, key in product(self.schedulers, keys):
                cell = self.cell(point, scheduler, key)
                found = {} if cell is None else cell.as_dict()
                numbers = {name: found.get(part, {}).get(of) for name, (part, of) in NUMBERS.items()}
                unit = self.metrics[key].unit if key in self.metrics else ""
                named = {**settings, "scheduler": scheduler, "metric": key, "unit": unit}
                rows.append({**named, **numbers, "not_settled": found.get("not_settled")})
        schema = {**dict.fromkeys(NUMBERS, pl.Float64), "not_settled": pl.String}
        return pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None)

    def cells(self, point: int) -> dict[str, dict[str, Any]]:
        """A cell for each scheduler and metric, or null, for summary.json."""

        def as_dict(cell: ComparedMetric | None) -> dict[str, Any] | None:
            return None if cell is None else cell.as_dict()

        return {
            scheduler: {key: as_dict(self.cell(point, scheduler, key)) for key in self.metrics}
            for scheduler in self.schedulers
        }


def _sample(column: pl.Series) -> Sample:
    return column.to_numpy().astype(np.float64)


class Comparison(ComparisonMatrix):
    """The results of one experiment, whose blocks are replications."""

    unit, block = "replication", ("replication",)

    def __init__(
        self, description: RunDescription, facts: pl.DataFrame, metrics: pl.DataFrame, scores: pl.DataFrame
    ) -> None:
        shown = [m for m in METRICS if m.key in OF_ALL_SITES or metrics[m.key].null_count() < len(metrics)]
        of_shown = {metric.key: metric for metric in shown}
        super().__init__(metrics.sort("replication"), description.schedulers, description.points, of_shown)
        self.description, self.least = description, description.replications
        first_faults = faults(facts).unique("scheduler", keep="first", maintain_order=True)
        self.faults = [FirstFault(**row) for row in first_faults.iter_rows(named=True)]
        self.refusals = refusal_sentences(facts)
        """A sentence for each scheduler under which jobs were refused."""
        self.failures = failure_sentences(facts)
        """A sentence for each scheduler under which jobs failed."""
        self.notes = notes(facts)
        """Sentences on problems of monitors, and of managers that crash or do not reach machines."""
        self.absent = {m.key: why for m, why in why_absent(description) if m.key not in self.metrics}
        """Metrics that do not apply, and why."""
        self.scores = scores
        """Predicted and real turnaround, as from `score_predictions`."""
        self.accuracies = accuracies(scores)

    def as_dict(self) -> dict[str, Any]:
        """The content of summary.json."""
        of_description = ("experiment", "site", "version", "seed", "replications")
        return {
            **{key: getattr(self.description, key) for key in of_description},
            "confidence": CONFIDENCE,
            "bounded_slowdown_threshold_s": self.description.bounded_slowdown_threshold_s,
            "baseline": self.baseline,
            "units": {key: metric.unit for key, metric in self.metrics.items()},
            "absent": self.absent,
            "points": [
                {"settings": settings, "schedulers": self.cells(point)}
                for point, settings in enumerate(self.points)
            ],
            "faults": [asdict(fault) for fault in self.faults],
            "refusals": self.refusals,
            "failures": self.failures,
            "notes": self.notes,
            "predictions": [accuracy.as_dict() for accuracy in self.accuracies],
        }


BLOCK = ("log", "slice")
SETTING = ("load", "estimates")
INTERVAL = (
    "Student's t over slices as blocks; that of differences between schedulers on the same slice is extended "
    "for skewness"
)


class SweepComparison(ComparisonMatrix):
    """The results of a sweep over logs, at every load and kind of estimates. Blocks are slices of logs."""

    unit, block, text_axes = "slice", BLOCK, ("estimates",)

    def __init__(
        self, table: pl.DataFrame, confidence: float = CONFIDENCE, schedulers: Sequence[str] = ()
    ) -> None:
        """`schedulers` are all of the sweep in order, of which the table of an interrupted one may lack some;
        by default those of the table."""
        names = schedulers or table["scheduler"].unique(maintain_order=True).to_list()
        points = table.select(SETTING).unique(maintain_order=True)
        metrics = {
            name: metric for name, metric in REPLAY_METRICS.items() if table[name].null_count() < len(table)
        }
        numbered = table.join(points.with_row_index("point"), on=SETTING, maintain_order="left")
        super().__init__(numbered, names, points.rows(named=True), metrics, confidence)
        self.n_blocks = table.select(BLOCK).n_unique()
        self.table = table

    @staticmethod
    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    def check(self, name: str) -> None:
        """Raise UserError for the makespan of slices with a warm-up."""
        jobs = self.table["warm_up_jobs"] + self.table["cool_down_jobs"]
        if name == MAKESPAN.key and jobs.sum():
            raise UserError(
                "slices that other jobs come before or after have no makespan; sweep without a warm-up (0 "
                "warm-up jobs)"
            )

    def left_out(self) -> list[str]:
        """A sentence for each scheduler with replays of slices that the baseline lacks, or without some that
        it has: those of an interrupted sweep, which are in no difference."""
        sentences = []
        for scheduler in self.schedulers[1:]:
            lacks = has = 0
            for point in range(len(self.points)):
                rows, baseline = (self.rows(point, of) for of in (scheduler, self.baseline))
                lacks += len(rows.join(baseline, on=BLOCK, how="anti"))
                has += len(baseline.join(rows, on=BLOCK, how="anti"))
            for n, one, other in ((lacks, scheduler, self.baseline), (has, self.baseline, scheduler)):
                if n:
                    sentences.append(
                        f"{counted(n, 'replay')} under {one} left out of the comparison of {scheduler}: "
                        f"those of the same slice under {other} are missing"
                    )
        return sentences

    def faults(self) -> list[str]:
        """For each scheduler that broke a rule, a sentence on the first replay in which it did."""
        return self._first_of("fault", "ended in a fault")

    def refusals(self) -> list[str]:
        """For each scheduler under which jobs were refused, a sentence on the first replay with some."""
        return self._first_of("refused", "refused jobs")

    def as_dict(self) -> dict[str, Any]:
        """The content of summary.json."""
        return {
            "confidence": self.confidence,
            "interval": INTERVAL,
            "blocks": self.n_blocks,
            "baseline": self.baseline,
            "units": {name: metric.unit for name, metric in self.metrics.items()},
            "points": [
                {**settings, "schedulers": self.cells(point)} for point, settings in enumerate(self.points)
            ],
            "faults": self.faults(),
            "refusals": self.refusals(),
            "left_out": self.left_out(),
        }

    def _first_of(self, column: str, what: str) -> list[str]:
        sentences = []
        for scheduler in self.schedulers:
            rows = pl.concat(self.rows(point, scheduler) for point in range(len(self.points)))
            found = rows.filter(pl.col(column).is_not_null())
            if len(found):
                log, part, load, estimates, said = found.select(*BLOCK, *SETTING, column).row(0)
                where = f"{log}, jobs {part}, load {load:g}, {estimates} estimates"
                sentences.append(f"{said} ({where}; {len(found):,} of its {len(rows):,} replays {what})")
        return sentences
