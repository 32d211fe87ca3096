"""Intervals of forecasts, calibrated by those that came true before."""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import Floats
from sil.forecast.questions import LEVELS, Levels

FEWEST = 30
"""The fewest forecasts that calibrate."""


class Calibration:
    """The quantiles between which 80 % of times were that are known by now, instead of LEVELS: a truth is
    outside an interval if all of its equally likely times are. Source: split conformal prediction by
    quantiles (Romano, Patterson and Candes, "Conformalized Quantile Regression", NeurIPS 2019)."""

    def __init__(self) -> None:
        self._known_s, self._below, self._up_to = list[float](), list[float](), list[float]()

    def add(self, times_s: Floats, truth_s: float) -> None:
        """A forecast that came true, which was known then."""
        self._known_s.append(truth_s)
        self._below.append(float(np.mean(times_s < truth_s)))
        self._up_to.append(float(np.mean(times_s <= truth_s)))

    def levels(self, now_s: float) -> Levels:
        """LEVELS themselves while fewer than FEWEST truths are known."""
        known = np.array(self._known_s) <= now_s
        if np.count_nonzero(known) < FEWEST:
            return LEVELS
        low = np.quantile(np.array(self._up_to)[known], LEVELS[0])
        return float(low), float(np.quantile(np.array(self._below)[known], LEVELS[1]))
