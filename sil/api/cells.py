"""Values with their intervals, as rows of frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from sil.outcome.comparison import Cell

NUMBERS = (
    *("mean", "half_width", "difference", "difference_half_width", "difference_low", "difference_high"),
    *("percent", "percent_low", "percent_high"),
)
COLUMNS: dict[str, pl.DataType] = {**dict.fromkeys(NUMBERS, pl.Float64()), "not_settled": pl.String()}
"""The mean over replications or slices and the half-width of its confidence interval; the mean paired
difference to the first scheduler, half the width of its interval and its limits; the same as a percentage;
why the difference has no interval, if hardly any replication shows one."""


def numbers(cell: Cell | None) -> list[float | str | None]:
    """The values of COLUMNS."""
    if cell is None:
        return [None] * len(COLUMNS)
    of = [
        {} if each is None else each.as_dict() for each in (cell.value, cell.difference, cell.change_percent)
    ]
    return [
        *(of[0].get(name) for name in ("mean", "half_width")),
        *(of[1].get(name) for name in ("mean", "half_width", "low", "high")),
        *(of[2].get(name) for name in ("mean", "low", "high")),
        cell.not_settled or None,
    ]
