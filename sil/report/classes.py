"""Classes of numbers, with a shade for each: darker for larger numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log2

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.report.vega_lite import Spec, column

SHADES = ("#fde725", "#a0da39", "#4ac16d", "#1fa187", "#277f8e", "#365c8d", "#46327e", "#440154")
"""Viridis."""


@dataclass(frozen=True)
class Classes:
    """By the number with which a class begins, its text; smaller numbers are one more class. There are at
    most as many classes as shades."""

    begins: Mapping[int, str]

    @property
    def labels(self) -> list[str]:
        first, *_ = self.begins.values()
        return [f"less than {first}", *(f"from {text}" for text in self.begins.values())]

    @property
    def shades(self) -> list[str]:
        n = len(self.begins)
        return [SHADES[round(k * (len(SHADES) - 1) / n)] for k in range(n + 1)]

    def label(self, numbers: pl.Expr) -> pl.Expr:
        """The label of each number's class."""
        begun = pl.sum_horizontal(numbers >= begin for begin in self.begins)
        return begun.replace_strict(dict(enumerate(self.labels)), return_dtype=pl.String)

    def colour(self, name: str, title: str) -> Spec:
        """The channel of a column with labels."""
        scale = {"domain": self.labels, "range": self.shades}
        return column(f"{name}:O", scale=scale, legend={"title": title, "symbolType": "square"})


_DURATIONS_S = {
    1: "1 s",
    60: "1 min",
    600: "10 min",
    3_600: "1 h",
    21_600: "6 h",
    86_400: "1 day",
    604_800: "7 days",
}
WAITS = Classes(_DURATIONS_S)
RUN_TIMES = Classes({begin_s: text for begin_s, text in _DURATIONS_S.items() if begin_s > 1})
SLOWDOWNS = Classes({begin: f"{begin:,}" for begin in (2, 5, 10, 50, 100, 1_000)})


def sizes(processors: int) -> Classes:
    """Of jobs on a machine: they begin at powers of two."""
    largest = ceil(log2(max(processors, 2)))
    step = max(1, ceil(largest / (len(SHADES) - 1)))
    return Classes({2**k: f"{2**k:,}" for k in range(step, largest + 1, step)})


def size_powers(processors: pl.Series) -> NDArray[np.int64]:
    """The least power of two that each job fits on."""
    return np.asarray(np.ceil(np.log2(processors.to_numpy())), np.int64)


def size_class(power: int) -> str:
    """The sizes of jobs of a power of two, like `5-8`."""
    high = 2**power
    low = high // 2 + 1
    return f"{high:,}" if low >= high else f"{low:,}-{high:,}"
