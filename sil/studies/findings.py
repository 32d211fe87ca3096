"""What a study measures and finds."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from sil.report.page import Part
from sil.studies.ledger import Claim


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
    data: dict[str, pl.DataFrame] = field(default_factory=dict)
    """Tables too long to be shown, by the name of their CSV file."""
