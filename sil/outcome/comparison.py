"""Every scheduler against the baseline, the first one, at every point of an experiment or a sweep; errors of
predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.outcome.metrics import (
    MAKESPAN,
    METRICS,
    OF_SOME_SITES,
    REPLAY_METRICS,
    Metric,
    faults,
    why_absent,
)
from sil.outcome.paired import Paired, why_no_interval
from sil.outcome.refused_and_failed import (
    crash_sentences,
    failure_sentences,
    monitor_notes,
    refusal_sentences,
)
from sil.outcome.statistics import CONFIDENCE, Interval, Sample, interval
from sil.trace.facts import RUN, RunDescription
from sil.world.guard.faults import fault_sentence


@dataclass(frozen=True, slots=True)
class Cell:
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
    ) -> Cell:
        """Of the values of independent blocks, which the `unit` names, and the baseline's of the same blocks;
        None for the baseline itself, or where it has no values."""
        value = interval(values, confidence)
        if baseline is None:
            return cls(value)
        paired = Paired(values, baseline, confidence)
        return cls(value, paired.difference, paired.percent, why_no_interval(paired.differences, unit))

    def as_dict(self) -> dict[str, Any]:
        """What is known of it."""
        intervals = {
            "value": self.value,
            "difference": self.difference,
            "change_percent": self.change_percent,
        }
        found = {name: each.as_dict() for name, each in intervals.items() if each is not None}
        return found | ({"not_settled": self.not_settled} if self.not_settled else {})


@dataclass(frozen=True, slots=True)
class Fault:
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


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Of one predictor under one scheduler at one point, as means over replications.

    `deviation` is the mean of |P - R| / R in percent, `bias` the signed one, `over` the share of predictions
    that were too long; all of the first prediction for each job, `deviation_of_all` of all predictions.
    `coverage` is the share (%) of first predictions whose interval contains the real turnaround. Each is None
    without predictions. `never` is the number of predictions, over all replications, that the job would not
    end; they count in none of the others.
    """

    point: int
    scheduler: str
    predictor: str
    deviation: Interval | None
    bias: Interval | None
    over: Interval | None
    deviation_of_all: Interval | None
    coverage: Interval | None
    n_predictions: int
    never: int

    def as_dict(self) -> dict[str, Any]:
        errors = {name: getattr(self, name) for name in ERRORS}
        return {
            **{name: getattr(self, name) for name in ("point", "scheduler", "predictor")},
            "predictions": self.n_predictions,
            "never": self.never,
            **{name: None if found is None else found.as_dict() for name, found in errors.items()},
        }


ERRORS = ("deviation", "bias", "over", "deviation_of_all", "coverage")
"""The intervals of an Accuracy."""


class Matrix(ABC):
    """Every scheduler against the first one, at every point: a setting of some axes.

    The table has a row for each point, scheduler and block. Values are means over blocks, differences are
    paired within them, over the blocks that both schedulers have, and the intervals of both take blocks for
    independent and alike; with one block there are none.
    """

    unit: str
    """What a block is."""
    _block: tuple[str, ...]
    """The columns that name it."""
    text_axes: tuple[str, ...] = ()
    """Axes whose values are words."""

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
        """Those that some run has, by column of the table."""
        self.confidence = confidence
        self._none = table.clear()

    @staticmethod
    def text(value: Any) -> str:
        """The value of an axis in a table."""
        return str(value)

    @abstractmethod
    def _rows(self, point: int, scheduler: str) -> pl.DataFrame:
        """By block; none unless there are enough."""

    def cell(self, point: int, scheduler: str, key: str) -> Cell | None:
        """None where a fault ended some runs of the scheduler, since the others would be a selection, or
        the metric is unknown."""
        rows, baseline = (self._rows(point, of) for of in (scheduler, self.baseline))
        if rows.is_empty() or rows[key].null_count():
            return None
        if scheduler != self.baseline and not baseline[key].null_count():
            before = baseline.select(*self._block, before=key)
            both = rows.select(*self._block, key).join(before, on=self._block, maintain_order="left_right")
            if len(both):
                return Cell.of(_sample(both[key]), _sample(both["before"]), self.confidence, self.unit)
        return Cell.of(_sample(rows[key]), None, self.confidence)

    def points_as_dict(self) -> list[dict[str, Any]]:
        """For summary.json: by point and scheduler, a cell for each metric, or null."""

        def as_dict(cell: Cell | None) -> dict[str, Any] | None:
            return None if cell is None else cell.as_dict()

        return [
            {
                scheduler: {key: as_dict(self.cell(point, scheduler, key)) for key in self.metrics}
                for scheduler in self.schedulers
            }
            for point in range(len(self.points))
        ]


class Comparison(Matrix):
    """The results of one experiment, whose blocks are replications."""

    unit = "replication"
    _block = ("replication",)

    def __init__(
        self,
        description: RunDescription,
        facts: pl.DataFrame,
        metrics: pl.DataFrame,
        scores: pl.DataFrame,
    ) -> None:
        shown = [
            m for m in METRICS if m.key not in OF_SOME_SITES or metrics[m.key].null_count() < len(metrics)
        ]
        super().__init__(
            metrics, description.schedulers, description.points, {metric.key: metric for metric in shown}
        )
        self.description = description
        first_faults = faults(facts).unique("scheduler", keep="first", maintain_order=True)
        self.faults = [Fault(**row) for row in first_faults.iter_rows(named=True)]
        self.refusals = refusal_sentences(facts)
        """A sentence for each scheduler under which jobs were refused."""
        self.failures = failure_sentences(facts)
        """A sentence for each scheduler under which jobs failed."""
        self.notes = [*monitor_notes(facts), *crash_sentences(facts)]
        """Sentences on problems of monitors, and of managers that crash or do not reach machines."""
        self.absent = {m.key: why for m, why in why_absent(description) if m.key not in self.metrics}
        """Metrics that do not apply, and why."""
        self.scores = scores
        """Predicted and real turnaround, as from `score_predictions`."""
        self.accuracies = accuracies(scores)
        self._of_runs = metrics.sort("replication").partition_by(
            "point", "scheduler", as_dict=True, maintain_order=True
        )

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
                {"settings": settings, "schedulers": cells}
                for settings, cells in zip(self.points, self.points_as_dict(), strict=True)
            ],
            "faults": [asdict(fault) for fault in self.faults],
            "refusals": self.refusals,
            "failures": self.failures,
            "notes": self.notes,
            "predictions": [accuracy.as_dict() for accuracy in self.accuracies],
        }

    def _rows(self, point: int, scheduler: str) -> pl.DataFrame:
        found = self._of_runs.get((point, scheduler), self._none)
        return found if len(found) == self.description.replications else self._none


BLOCK = ("log", "slice")
SETTING = ("load", "estimates")
INTERVAL = (
    "Student's t over slices as blocks; that of differences between schedulers on the same slice is extended "
    "for skewness"
)


class SweepComparison(Matrix):
    """The results of a sweep over logs, at every load and kind of estimates. Blocks are slices of logs."""

    unit = "slice"
    text_axes = ("estimates",)
    _block = BLOCK

    def __init__(
        self, table: pl.DataFrame, confidence: float = CONFIDENCE, schedulers: Sequence[str] = ()
    ) -> None:
        """`schedulers` are all of the sweep in order, of which the table of an interrupted one may lack some;
        by default those of the table."""
        names = schedulers or table["scheduler"].unique(maintain_order=True).to_list()
        points = table.select(SETTING).unique(maintain_order=True).rows(named=True)
        metrics = {
            name: metric for name, metric in REPLAY_METRICS.items() if table[name].null_count() < len(table)
        }
        super().__init__(table, names, points, metrics, confidence)
        self.n_blocks = table.select(BLOCK).n_unique()
        self._of_runs = table.partition_by(*SETTING, "scheduler", as_dict=True, maintain_order=True)
        self._table = table

    @staticmethod
    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    def check(self, name: str) -> None:
        """Raises UserError for the makespan of slices with a warm-up."""
        jobs = self._table["warm_up_jobs"] + self._table["cool_down_jobs"]
        if name == MAKESPAN.key and jobs.sum():
            raise UserError(
                "slices that other jobs come before or after have no makespan; sweep without a warm-up (0 "
                "warm-up jobs)"
            )

    def left_out(self) -> list[str]:
        """A sentence for each scheduler with replays of slices that the baseline lacks, or without some that
        it has: those of an interrupted sweep, which are in no difference."""
        return list(self._left_out())

    def _left_out(self) -> Iterator[str]:
        for scheduler in self.schedulers[1:]:
            lacks = has = 0
            for point in range(len(self.points)):
                rows, baseline = (self._rows(point, of) for of in (scheduler, self.baseline))
                lacks += len(rows.join(baseline, on=BLOCK, how="anti"))
                has += len(baseline.join(rows, on=BLOCK, how="anti"))
            for n, one, other in ((lacks, scheduler, self.baseline), (has, self.baseline, scheduler)):
                if n:
                    yield (
                        f"{counted(n, 'replay')} under {one} left out of the comparison of {scheduler}: "
                        f"those of the same slice under {other} are missing"
                    )

    def faults(self) -> list[str]:
        """For each scheduler that broke a rule, a sentence on the first replay in which it did."""
        return self._first_of("fault", "ended in a fault")

    def refusals(self) -> list[str]:
        """For each scheduler under which jobs were refused, a sentence on the first replay with some."""
        return self._first_of("refused", "refused jobs")

    def as_dict(self) -> dict[str, Any]:
        """For summary.json."""
        return {
            "confidence": self.confidence,
            "interval": INTERVAL,
            "blocks": self.n_blocks,
            "baseline": self.baseline,
            "units": {name: metric.unit for name, metric in self.metrics.items()},
            "points": [
                {**settings, "schedulers": cells}
                for settings, cells in zip(self.points, self.points_as_dict(), strict=True)
            ],
            "faults": self.faults(),
            "refusals": self.refusals(),
            "left_out": self.left_out(),
        }

    def _rows(self, point: int, scheduler: str) -> pl.DataFrame:
        return self._of_runs.get((*self.points[point].values(), scheduler), self._none)

    def _first_of(self, column: str, what: str) -> list[str]:
        sentences = []
        for scheduler in self.schedulers:
            rows = pl.concat(self._rows(point, scheduler) for point in range(len(self.points)))
            found = rows.filter(pl.col(column).is_not_null())
            if len(found):
                log, part, load, estimates, said = found.select(*BLOCK, *SETTING, column).row(0)
                where = f"{log}, jobs {part}, load {load:g}, {estimates} estimates"
                sentences.append(f"{said} ({where}; {len(found):,} of its {len(rows):,} replays {what})")
        return sentences


def _sample(column: pl.Series) -> Sample:
    return column.to_numpy().astype(np.float64)


def score_predictions(predictions: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The predictions of jobs that ended, in order of time: with `predicted_s` and `real_s` turnaround, the
    `deviation` (P - R) / R, and whether it was the `first` of the job."""
    ended = jobs.select(*RUN, pl.col("job_id").alias("job"), "submission_time", "finish_time")
    real = pl.col("finish_time") - pl.col("submission_time")
    return (
        predictions.join(ended, on=(*RUN, "job"), how="inner", maintain_order="left")
        .with_columns(
            real_s=real,
            predicted_s=pl.col("end_s") - pl.col("submission_time"),
            first=pl.int_range(pl.len()).over(*RUN, "job", "predictor") == 0,
        )
        .with_columns(deviation=(pl.col("predicted_s") - pl.col("real_s")) / pl.col("real_s"))
    )


def accuracies(scores: pl.DataFrame) -> list[Accuracy]:
    """One per point, scheduler and predictor, in order of first appearance."""
    found = []
    inside = pl.col("finish_time").is_between(pl.col("low_s"), pl.col("high_s"))
    for (point, scheduler, predictor), rows in scores.group_by(
        "point", "scheduler", "predictor", maintain_order=True
    ):
        never = rows.filter(pl.col("predicted_s").is_infinite()).height
        finite = rows.filter(pl.col("predicted_s").is_finite())
        first = finite.filter("first")
        found.append(
            Accuracy(
                int(point),
                str(scheduler),
                str(predictor),
                _over_replications(first, 100 * pl.col("deviation").abs().mean()),
                _over_replications(first, 100 * pl.col("deviation").mean()),
                _over_replications(first, 100 * (pl.col("deviation") > 0).mean()),
                _over_replications(finite, 100 * pl.col("deviation").abs().mean()),
                _over_replications(first.filter(pl.col("low_s").is_not_null()), 100 * inside.mean()),
                rows.height,
                never,
            )
        )
    return found


def _over_replications(rows: pl.DataFrame, figure: pl.Expr) -> Interval | None:
    if rows.is_empty():
        return None
    values = rows.group_by("replication", maintain_order=True).agg(figure.alias("value"))["value"].to_numpy()
    return interval(values[np.isfinite(values)])
