"""What the runs of a study measured. Worker processes import it, so it draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from sil.outcome.statistics import Sample


class StudyFailed(Exception):
    """A scheduler broke a rule in a study. The message is one sentence."""


class GridSamples:
    """What a study measured: rows with a replication, coordinates on the `axes` of its grid, and measures."""

    def __init__(self, rows: pl.DataFrame, *axes: str) -> None:
        self._rows = rows
        self._axes = axes

    def __call__(self, measure: str, *point: object) -> Sample:
        """A measure at a point of the grid: one value per replication, in their order."""
        at = dict(zip(self._axes, point, strict=True))
        return self._rows.filter(**at).sort("replication")[measure].to_numpy()

    def up_to(self, replications: int) -> GridSamples:
        """The first replications only."""
        return GridSamples(self._rows.filter(pl.col("replication") < replications), *self._axes)

    def mean(self, measure: str, *point: object) -> float:
        return float(self(measure, *point).mean())


def table(columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=list(columns), orient="row")
