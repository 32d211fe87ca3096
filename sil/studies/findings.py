"""What a study comes to."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from sil.report.figures import Figure
from sil.studies.ledger import Claim


@dataclass(frozen=True)
class Drawing:
    """A figure of the paper, made anew. `name` is its file name: "figure-5a"."""

    name: str
    title: str
    chart: Figure


@dataclass(frozen=True)
class Findings:
    """A study's claims, figures and tables, and what was done to get them."""

    name: str
    title: str
    source: str
    method: str
    claims: list[Claim]
    drawings: list[Drawing]
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    """By title; each is also a CSV file."""
