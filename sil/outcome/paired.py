"""Intervals of what is compared in the same replications, or on the same jobs of a log.

Waits and slowdowns are skewed, and Student's t misses the longer tail. So an interval is that of Student's t,
extended where Hall's correction for skewness reaches farther, but by no more than half, since skewness is
itself estimated: P. Hall, "On the removal of skewness by transformation", Journal of the Royal Statistical
Society B 54 (1992). The interval of a ratio has all ratios q
for which that of `values - q * baseline` contains 0: E. C. Fieller, "Some problems in interval estimation",
ibid. 16 (1954). For q = 1 this is the difference, so both say the same of an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cbrt, floor, sqrt

import numpy as np
import polars as pl

from sil.outcome.statistics import (
    CONFIDENCE,
    SAME,
    Interval,
    Sample,
    differences,
    has_spread,
    n_different,
    student_t,
)
from sil.workload.slices import DAY_S, ENOUGH_WEEKS

FARTHEST = 1.5
"""The reach of an interval to the side of the longer tail, as a multiple of that of Student's t."""
STEPS = 60
"""The number of bisections of an interval; as many doublings find its end, if it has one."""
MIN_BLOCKS = ENOUGH_WEEKS
MAX_CORRELATION = 0.2
"""The largest correlation of the means of consecutive blocks: above it, blocks are too short to be
independent."""


def skewed_interval(values: Sample, confidence: float = CONFIDENCE) -> Interval:
    """The mean of independent values that may be skewed; no interval for values without a spread."""
    return Paired(values, np.zeros(len(values)), confidence).difference


class Paired:
    """Values and those of a baseline, in the same replications."""

    def __init__(self, values: Sample, baseline: Sample, confidence: float = CONFIDENCE) -> None:
        self._means = float(np.mean(values)), float(np.mean(baseline))
        self.differences = differences(values, baseline)
        self._n = len(values)
        if not has_spread(self.differences):
            return
        x, y = values - self._means[0], baseline - self._means[1]
        self._moments = [[float(np.mean(x ** (k - j) * (-y) ** j)) for j in range(k + 1)] for k in (2, 3)]
        self._t = student_t(self._n - 1, (1 + confidence) / 2)

    @property
    def difference(self) -> Interval:
        """The difference of the means."""
        mean = float(np.mean(self.differences))
        if not has_spread(self.differences):
            return Interval(mean, None)
        below, above = self._reach(1.0)
        return Interval.between(mean, mean - below, mean + above)

    @property
    def percent(self) -> Interval | None:
        """The change as a percentage of the baseline, neither of which is negative; None if that is 0. There
        is no interval if the difference has none, or the baseline may be 0."""
        baseline = self._means[1]
        if not baseline > 0.0:
            return None
        mean = float(np.mean(self.differences)) / baseline
        limits = self._ratios(1.0 + mean) if has_spread(self.differences) else None
        if limits is None:
            return Interval(100.0 * mean, None)
        return Interval.between(100.0 * mean, *(100.0 * (limit - 1.0) for limit in limits))

    def _ratios(self, ratio: float) -> tuple[float, float] | None:
        """The limits of the ratio of the means. If it differs from 1, they are on its side of 1."""
        if sum(self._reach(ratio)) <= SAME * self._means[1]:
            return None
        is_open = self._contains(1.0)
        least, most = (min(ratio, 1.0), max(ratio, 1.0)) if is_open else (ratio, ratio)
        if ratio > 1.0 and not is_open:
            low = self._edge(1.0, ratio)
        else:
            low = 0.0 if self._contains(0.0) else self._edge(0.0, least)
        beyond = (most * 2.0**k for k in range(1, STEPS))
        outside = (
            1.0 if ratio < 1.0 and not is_open else next((x for x in beyond if not self._contains(x)), None)
        )
        return None if outside is None else (low, self._edge(outside, most))

    def _edge(self, outside: float, inside: float) -> float:
        for _ in range(STEPS):
            middle = (outside + inside) / 2
            if self._contains(middle):
                inside = middle
            else:
                outside = middle
        return inside

    def _contains(self, ratio: float) -> bool:
        mean = self._means[0] - ratio * self._means[1]
        below, above = self._reach(ratio)
        return mean - below <= 0.0 <= mean + above

    def _reach(self, ratio: float) -> tuple[float, float]:
        """How far the interval of the mean of `values - ratio * baseline` reaches below and above it."""
        n, t = self._n, self._t
        two, three = self._moments
        variance = two[0] + 2 * ratio * two[1] + ratio**2 * two[2]
        third = three[0] + 3 * ratio * three[1] + 3 * ratio**2 * three[2] + ratio**3 * three[3]
        deviation = sqrt(max(0.0, variance) * n / (n - 1))
        reach = t / sqrt(n)
        skew = third / variance**1.5 * sqrt(n * (n - 1)) / (n - 2) if n > 2 and variance > 0.0 else 0.0
        if abs(skew) < SAME:
            return deviation * reach, deviation * reach
        by_hall = (abs(3 / skew * (cbrt(1 + skew * (side * reach - skew / (6 * n))) - 1)) for side in (1, -1))
        below, above = (deviation * min(max(reach, found), FARTHEST * reach) for found in by_hall)
        return below, above


def why_no_interval(found: Sample, unit: str = "replication") -> str:
    """A clause on differences without a spread; empty if they have one, or there is only one."""
    n = len(found)
    if n < 2 or has_spread(found):
        return ""
    different, shown = n_different(found), int(np.count_nonzero(found))
    if not shown:
        return f"no {unit} of {n:,} shows a difference"
    if not different:
        return f"all {n:,} {unit}s show the same difference"
    if shown == different:
        return f"only {shown} of {n:,} {unit}s {'shows' if shown == 1 else 'show'} a difference"
    return f"all but {different} of {n:,} {unit}s show the same difference"


@dataclass(frozen=True)
class PairedDifferences:
    """The differences of a quantity, job by job: a scheduler's less the baseline's. `by_block` has, for each
    block with jobs, the day on which it begins and the mean."""

    difference: Interval
    """The mean over all jobs; there is none with fewer than MIN_BLOCKS blocks."""
    less: float
    more: float
    """Shares of jobs."""
    jobs: int
    by_block: pl.DataFrame
    days: float
    """The days from the first submission of these jobs to the last."""
    block_days: float

    @property
    def correlation(self) -> float | None:
        """The correlation of the means of consecutive blocks; None with few blocks, or where all are
        equal."""
        means = self.by_block["difference"].to_numpy()
        deviations = means - means.mean()
        square = float(deviations @ deviations)
        if len(means) < MIN_BLOCKS or not square > 0.0:
            return None
        return float(deviations[1:] @ deviations[:-1]) / square


def paired_differences(
    jobs: pl.DataFrame,
    baseline: pl.DataFrame,
    column: str,
    block_days: float | None = None,
    confidence: float = CONFIDENCE,
) -> PairedDifferences | None:
    """The differences over the jobs that both have finished; None if there are none. Blocks have 7 days by
    default, or one day where these jobs were submitted in fewer than MIN_BLOCKS weeks. A rest of less than
    half a block belongs to the last one.

    Jobs that are submitted at about the same time wait for each other, so that blocks of `block_days` are
    taken for independent, not jobs. The mean is a ratio of sums over blocks, whose interval is that of the
    mean of blocks of equal size (delta method)."""
    of_baseline = baseline.select("job_id", "submission_time", before=column)
    pairs = of_baseline.join(jobs.select("job_id", after=column), on="job_id", maintain_order="left")
    if pairs.is_empty():
        return None
    later = (pairs["after"] - pairs["before"]).to_numpy()
    since_s = (pairs["submission_time"] - pairs["submission_time"].min()).to_numpy()
    days = float(since_s.max()) / DAY_S
    if block_days is None:
        block_days = 7.0 if _n_blocks(days, 7.0) >= MIN_BLOCKS else 1.0
    numbers = np.minimum(since_s // (block_days * DAY_S), _n_blocks(days, block_days) - 1)
    blocks, block_of = np.unique(numbers.astype(np.int64), return_inverse=True)
    counts = np.bincount(block_of).astype(np.float64)
    sums = np.bincount(block_of, later).astype(np.float64)
    mean, n = float(later.mean()), len(blocks)
    of_blocks = mean + (sums - mean * counts) * n / len(later)
    is_known = n >= MIN_BLOCKS and has_spread(sums / counts)
    return PairedDifferences(
        skewed_interval(of_blocks, confidence) if is_known else Interval(mean, None),
        float((later < 0).mean()),
        float((later > 0).mean()),
        len(later),
        pl.DataFrame({"day": blocks * block_days, "difference": sums / counts}),
        days,
        block_days,
    )


def baseline_of(schedulers: Sequence[str]) -> str:
    """The scheduler with which others are compared: EASY, if it is one of them, otherwise the first."""
    return "easy" if "easy" in schedulers else schedulers[0]


def _n_blocks(days: float, block_days: float) -> int:
    return max(1, floor(days / block_days + 0.5))
