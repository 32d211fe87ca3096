"""The comparison of the schedulers of a sweep over logs, paired and blocked by slice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.outcome.comparison import Cell
from sil.outcome.metrics import MAKESPAN, REPLAY_METRICS
from sil.outcome.statistics import CONFIDENCE, Sample

BLOCK = ("log", "slice")
SETTING = ("load", "estimates")
INTERVAL = (
    "Student's t over slices as blocks; that of differences between schedulers on the same slice is extended "
    "for skewness"
)


class SweepComparison:
    """Every scheduler against the first one, at every load and kind of estimates, from the table of a sweep.

    A block is a slice of a log. Values are means over blocks, differences are paired within them, over the
    blocks that both schedulers have, and the intervals of both take blocks for independent and alike; with
    one block there are none.
    """

    def __init__(
        self, table: pl.DataFrame, confidence: float = CONFIDENCE, schedulers: Sequence[str] = ()
    ) -> None:
        """`schedulers` are all of the sweep in order, of which the table of an interrupted one may lack some;
        by default those of the table."""
        self.confidence = confidence
        self.schedulers = schedulers or table["scheduler"].unique(maintain_order=True).to_list()
        self.baseline = self.schedulers[0]
        self.settings: Sequence[tuple[float, str]] = table.select(SETTING).unique(maintain_order=True).rows()
        self.n_blocks = table.select(BLOCK).n_unique()
        self.metrics = {
            name: metric for name, metric in REPLAY_METRICS.items() if table[name].null_count() < len(table)
        }
        """Those that some replay has: of GPUs only where there are some."""
        self._of = table.partition_by(*SETTING, "scheduler", as_dict=True, maintain_order=True)
        self._table, self._none = table, table.clear()

    def cell(self, setting: tuple[float, str], scheduler: str, name: str) -> Cell | None:
        """A metric of REPLAY_METRICS, on the slices that the baseline has, too, if it has any. None if there
        was a fault on some slice: the others would be a selection."""
        rows, baseline = (self._rows(setting, of) for of in (scheduler, self.baseline))
        if rows.is_empty() or rows[name].null_count():
            return None
        both = rows.join(baseline.select(*BLOCK, before=name), on=BLOCK, maintain_order="left_right")
        if scheduler == self.baseline or baseline[name].null_count() or both.is_empty():
            return Cell.of(_sample(rows[name]), None, self.confidence)
        return Cell.of(_sample(both[name]), _sample(both["before"]), self.confidence, "slice")

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
            for setting in self.settings:
                rows, baseline = (self._rows(setting, of) for of in (scheduler, self.baseline))
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
                {
                    **dict(zip(SETTING, setting, strict=True)),
                    "schedulers": {
                        scheduler: {name: self._as_dict(setting, scheduler, name) for name in self.metrics}
                        for scheduler in self.schedulers
                    },
                }
                for setting in self.settings
            ],
            "faults": self.faults(),
            "refusals": self.refusals(),
            "left_out": self.left_out(),
        }

    def _as_dict(self, setting: tuple[float, str], scheduler: str, name: str) -> dict[str, Any] | None:
        cell = self.cell(setting, scheduler, name)
        return None if cell is None else cell.as_dict()

    def _rows(self, setting: tuple[float, str], scheduler: str) -> pl.DataFrame:
        """By block; none if an interrupted sweep has none."""
        return self._of.get((*setting, scheduler), self._none)

    def _first_of(self, column: str, what: str) -> list[str]:
        sentences = []
        for scheduler in self.schedulers:
            rows = pl.concat(self._rows(setting, scheduler) for setting in self.settings)
            found = rows.filter(pl.col(column).is_not_null())
            if len(found):
                log, part, load, estimates, said = found.select(*BLOCK, *SETTING, column).row(0)
                where = f"{log}, jobs {part}, load {load:g}, {estimates} estimates"
                sentences.append(f"{said} ({where}; {len(found):,} of its {len(rows):,} replays {what})")
        return sentences


def _sample(column: pl.Series) -> Sample:
    return column.to_numpy().astype(np.float64)
