"""What a study finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from sil.outcome.statistics import Sample
from sil.report.figures import Figure
from sil.studies.ledger import Claim


class StudyFailed(Exception):
    """A scheduler broke a rule in a study. The message is one sentence."""


@dataclass(frozen=True)
class Drawing:
    """A figure of the paper, drawn from our results. `name` is its file name: "figure-5a"."""

    name: str
    title: str
    chart: Figure


@dataclass(frozen=True)
class Findings:
    """A study's claims, figures and tables, and the method behind them."""

    name: str
    title: str
    source: str
    method: str
    claims: list[Claim]
    drawings: list[Drawing]
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    """By title; each is also a CSV file."""


def table(columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=list(columns), orient="row")


def sample(rows: pl.DataFrame, column: str, **labels: Any) -> Sample:
    """A column of the rows with these labels: one value per replication, in their order."""
    return rows.filter(**labels).sort("replication")[column].to_numpy()
