"""Waits predicted from past waits alone: the published baseline of forecasts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.stats import binom

from scheduler.core.arrays import Floats, Ints

CONFIDENCE = 0.95
SIZES = (4, 16, 64)
"""The largest sizes of the first classes of jobs; larger ones are in the last class."""
RARE = 3
"""So many waits above the bound in succession mean that waits have changed."""


class PredictedWait(NamedTuple):
    """The bounds of a wait, and its median."""

    low_s: float
    median_s: float
    high_s: float


class PastWaits:
    """The waits of a class of jobs, in the order in which they became known."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high, self.waits_s, self.n_above = low, high, list[float](), 0
        self.fewest = int(np.ceil(np.log(1.0 - CONFIDENCE) / np.log(high)))

    def predicted(self) -> PredictedWait | None:
        """Bounds on quantiles, which hold with the confidence; None while too few waits are known."""
        n = len(self.waits_s)
        if n < self.fewest:
            return None
        in_order = np.sort(self.waits_s)
        above = int(binom.ppf(CONFIDENCE, n, self.high))
        below = int(binom.ppf(1.0 - CONFIDENCE, n, self.low))
        low_s, high_s = in_order[max(below - 1, 0)], in_order[min(above, n - 1)]
        return PredictedWait(float(low_s), float(np.median(in_order)), float(high_s))

    def add(self, wait_s: float) -> None:
        now = self.predicted()
        self.n_above = self.n_above + 1 if now is not None and wait_s > now.high_s else 0
        self.waits_s.append(wait_s)
        if self.n_above >= RARE:
            self.waits_s, self.n_above = self.waits_s[-self.fewest :], 0


def predicted_waits(
    submit_s: Floats, start_s: Floats, sizes: Ints, interval: tuple[float, float]
) -> Iterator[PredictedWait]:
    """What is predicted of each job when it is submitted, by the waits of jobs of its class that have
    started; no wait while these are too few.

    Source: Brevik, Nurmi and Wolski, "Predicting Bounds on Queuing Delay for Batch-Scheduled Parallel
    Machines", PPoPP 2006 (BMBP, later QBETS): binomial bounds on quantiles, and a shorter history after
    RARE waits in succession above the bound.
    """
    of_class = np.searchsorted(SIZES, sizes)
    past = [PastWaits(*interval) for _ in range(len(SIZES) + 1)]
    started, known = np.argsort(start_s, kind="stable"), 0
    for now_s, which in zip(submit_s, of_class, strict=True):
        while known < len(started) and start_s[started[known]] <= now_s:
            job = started[known]
            past[of_class[job]].add(float(start_s[job] - submit_s[job]))
            known += 1
        yield past[which].predicted() or PredictedWait(0.0, 0.0, 0.0)
