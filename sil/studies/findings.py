"""What a study measures and finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sil.outcome.statistics import Sample
from sil.report.page import Part
from sil.studies.ledger import Claim


class StudyFailed(Exception):
    """A scheduler broke a rule in a study. The message is one sentence."""


@dataclass(frozen=True)
class Findings:
    """A study's claims, drawings and tables, and the method behind them."""

    title: str
    source: str
    method: str
    claims: list[Claim]
    drawings: list[Part]
    """The figures of the paper, drawn from our results. The name of each is its file name: "figure-5a"."""
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    """By title; each is also a CSV file."""


class GridSamples:
    """What a study measured: rows with a replication, coordinates on the `axes` of its grid, and measures."""

    def __init__(self, rows: pl.DataFrame, *axes: str) -> None:
        self._rows = rows
        self._axes = axes

    def __call__(self, measure: str, *point: object) -> Sample:
        """A measure at a point of the grid: one value per replication, in their order."""
        at = dict(zip(self._axes, point, strict=True))
        return self._rows.filter(**at).sort("replication")[measure].to_numpy()

    def mean(self, measure: str, *point: object) -> float:
        return float(self(measure, *point).mean())


def table(columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=list(columns), orient="row")
