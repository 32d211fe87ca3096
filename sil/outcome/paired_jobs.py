"""Differences between two schedulers on the same jobs of a log, with intervals over blocks of time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.statistics import CONFIDENCE
from sil.workload.weeks import DAY_S, ENOUGH_WEEKS

FEWEST_BLOCKS = ENOUGH_WEEKS
"""With fewer, a bootstrap's intervals are much too narrow."""
RESAMPLES = 2_000
SEED = 1

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PairedDifferences:
    """Of a quantity, job by job: a scheduler's less that of the baseline. `by_block` has, for each block with
    jobs, the day on which it begins and the mean."""

    mean: float
    interval: tuple[float, float] | None
    """At 95 % confidence, not symmetrical; None with fewer than FEWEST_BLOCKS blocks."""
    less: float
    more: float
    """Shares of jobs."""
    jobs: int
    by_block: pl.DataFrame

    @property
    def excludes_zero(self) -> bool:
        return self.interval is not None and not self.interval[0] <= 0.0 <= self.interval[1]


def paired_differences(
    jobs: pl.DataFrame, baseline: pl.DataFrame, column: str, block_days: float
) -> PairedDifferences | None:
    """Over the jobs that both have finished; None if there are none.

    Jobs that are submitted at about the same time wait for each other, so that blocks of `block_days` are
    drawn with replacement, not jobs. The interval is studentised, since percentiles of means are too narrow
    for few blocks. Sources: Kuensch, "The jackknife and the bootstrap for general stationary observations",
    Annals of Statistics 17 (1989), with blocks that do not overlap; Efron and Tibshirani, "An introduction to
    the bootstrap" (1993), chapter 12.
    """
    of_baseline = baseline.select("job_id", "submission_time", before=column)
    pairs = of_baseline.join(jobs.select("job_id", after=column), on="job_id", maintain_order="left")
    if pairs.is_empty():
        return None
    differences = (pairs["after"] - pairs["before"]).to_numpy()
    since_s = (pairs["submission_time"] - pairs["submission_time"].min()).to_numpy()
    blocks, block_of = np.unique((since_s // (block_days * DAY_S)).astype(np.int64), return_inverse=True)
    counts = np.bincount(block_of).astype(np.float64)
    sums = np.bincount(block_of, differences).astype(np.float64)
    return PairedDifferences(
        float(differences.mean()),
        _interval(sums, counts) if len(blocks) >= FEWEST_BLOCKS else None,
        float((differences < 0).mean()),
        float((differences > 0).mean()),
        len(differences),
        pl.DataFrame({"day": blocks * block_days, "difference": sums / counts}),
    )


def _interval(sums: Floats, counts: Floats) -> tuple[float, float]:
    """Of the ratio of the sums over blocks. Resamples without spread, whose blocks are all alike, say nothing
    and are left out."""
    rng, n = np.random.default_rng(SEED), len(sums)
    mean, error = _ratio(sums, counts)
    deviations = []
    for _ in range(RESAMPLES):
        drawn = rng.integers(n, size=n)
        drawn_mean, drawn_error = _ratio(sums[drawn], counts[drawn])
        if drawn_error > 0:
            deviations.append((drawn_mean - mean) / drawn_error)
    if not deviations:
        return mean, mean
    low, high = np.quantile(deviations, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(mean - high * error), float(mean - low * error)


def _ratio(sums: Floats, counts: Floats) -> tuple[float, float]:
    """The ratio, and its standard error (delta method)."""
    n, total = len(sums), counts.sum()
    ratio = sums.sum() / total
    return float(ratio), float(np.sqrt(n / (n - 1) * ((sums - ratio * counts) ** 2).sum()) / total)
