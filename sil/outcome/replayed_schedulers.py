"""A log that was replayed under several schedulers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

SENTENCES = ("fault", "refused")
"""What summary.json has of a scheduler besides statistics."""


@dataclass(frozen=True)
class Replayed:
    """A log under several schedulers: `described` as in summary.json, and the jobs of those that have any."""

    described: Mapping[str, Any]
    jobs: Mapping[str, pl.DataFrame]

    @property
    def statistics(self) -> Mapping[str, Mapping[str, float]]:
        """Metrics by scheduler; none for those that broke a rule."""
        return {
            name: {key: value for key, value in row.items() if key not in SENTENCES}
            for name, row in self.described["schedulers"].items()
        }

    @property
    def faults(self) -> Sequence[str]:
        """A sentence for each scheduler that broke a rule."""
        return self._sentences("fault")

    @property
    def refusals(self) -> Sequence[str]:
        """A sentence for each scheduler under which jobs were refused."""
        return self._sentences("refused")

    def _sentences(self, key: str) -> Sequence[str]:
        return [row[key] for row in self.described["schedulers"].values() if row.get(key)]
