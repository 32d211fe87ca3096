"""The comparison of the schedulers of a sweep over logs, paired and blocked by slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from sil.outcome.comparison import Cell
from sil.outcome.metrics import REPLAY_METRICS
from sil.outcome.statistics import CONFIDENCE, Sample

BLOCK = ("log", "slice")
SETTING = ("load", "estimates")
INTERVAL = (
    "Student's t over slices as blocks: each starts with an empty machine, and differences are between "
    "schedulers on the same slice"
)


class SweepComparison:
    """Every scheduler against the first one, at every load and kind of estimates, from the table of a sweep.

    A block is a slice of a log. Values are means over blocks, differences are paired within them, and both
    have Student's t intervals, which take blocks for independent and alike; with one block there are none.
    """

    def __init__(self, table: pl.DataFrame, confidence: float = CONFIDENCE) -> None:
        self.confidence = confidence
        self.schedulers: Sequence[str] = table["scheduler"].unique(maintain_order=True).to_list()
        self.baseline = self.schedulers[0]
        self.settings: Sequence[tuple[float, str]] = table.select(SETTING).unique(maintain_order=True).rows()
        self.n_blocks = table.select(BLOCK).n_unique()
        self.metrics = {
            name: metric for name, metric in REPLAY_METRICS.items() if table[name].null_count() < len(table)
        }
        """Those that some replay has: of GPUs only where there are some."""
        self._of = table.partition_by(*SETTING, "scheduler", as_dict=True, maintain_order=True)

    def cell(self, setting: tuple[float, str], scheduler: str, name: str) -> Cell | None:
        """A metric of REPLAY_METRICS. None unless the scheduler has it on every slice: with a fault on some,
        the others would be a selection."""
        values = self._values(setting, scheduler, name)
        if values is None:
            return None
        is_baseline = scheduler == self.baseline
        baseline = None if is_baseline else self._values(setting, self.baseline, name)
        return Cell.of(values, baseline, self.confidence)

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
        }

    def _as_dict(self, setting: tuple[float, str], scheduler: str, name: str) -> dict[str, Any] | None:
        cell = self.cell(setting, scheduler, name)
        return None if cell is None else cell.as_dict()

    def _values(self, setting: tuple[float, str], scheduler: str, name: str) -> Sample | None:
        """By block, in the same order for all schedulers."""
        column = self._of[(*setting, scheduler)].sort(BLOCK)[name]
        return None if column.null_count() else column.to_numpy().astype(np.float64)

    def _first_of(self, column: str, what: str) -> list[str]:
        sentences = []
        for scheduler in self.schedulers:
            rows = pl.concat(self._of[(*setting, scheduler)] for setting in self.settings)
            found = rows.filter(pl.col(column).is_not_null())
            if len(found):
                log, part, load, estimates, said = found.select(*BLOCK, *SETTING, column).row(0)
                where = f"{log}, jobs {part}, load {load:g}, {estimates} estimates"
                sentences.append(f"{said} ({where}; {len(found):,} of its {len(rows):,} replays {what})")
        return sentences
