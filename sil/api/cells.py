"""Values with their intervals, as rows of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from sil.outcome.comparison import Cell

COLUMNS: dict[str, pl.DataType] = dict.fromkeys(
    ("mean", "half_width", "difference", "difference_half_width"), pl.Float64()
)
"""The mean over replications or slices, the mean paired difference to the first scheduler, and for both the
half-widths of their confidence intervals."""


def numbers(cell: Cell | None) -> list[float | None]:
    """The values of COLUMNS."""
    intervals = (None, None) if cell is None else (cell.value, cell.difference)
    return [
        number
        for found in intervals
        for number in ((None, None) if found is None else (found.mean, found.half_width))
    ]
