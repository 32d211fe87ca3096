"""The numbers of Table 1 of Hanzich et al. 2006, and how far ours are from them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sil.outcome.statistics import Sample
from sil.studies.cisne.experiments import BLIND, LOADS, METHODS, POLICIES, Deviations
from sil.studies.ledger import Claim, statements
from sil.studies.rules import Estimate, Judged, all_positive, exactly, text

REACHED_PERCENT = 12.5
ALMOST_ALWAYS_PERCENT = 95.0
NEVER_PERCENT = 5.0
LIMIT_MS = 4.0
STATED = statements(
    "cisne-table1",
    reached_percent=REACHED_PERCENT,
    almost_always_percent=ALMOST_ALWAYS_PERCENT,
    never_percent=NEVER_PERCENT,
    limit_ms=LIMIT_MS,
)

PAPER = {
    "Norm+BF": ((144.33, 99.67), (58.67, 59.67), (46.33, 45.00)),
    "Unif+BF": ((69.67, 63.33), (55.00, 31.33), (54.00, 46.67)),
    "Basic": ((6.33, 23.00), (14.00, 18.67), (34.33, 8.67)),
    "Normal": ((23.00, 15.33), (20.50, 21.33), (16.67, 28.33)),
    "Uniform": ((12.67, 8.67), (22.00, 21.67), (25.33, 18.33)),
}
"""Percent, (MPL-MPL, CPU-CPU) for each load."""
POINTS = tuple(product(LOADS, METHODS.values()))
IN_ORDER = {"Norm+BF": "Normal", "Unif+BF": "Uniform"}
"""The policy without backfilling for each one with it."""
Cells = NDArray[np.float64]


def claim_about_the_table(ours: Cells, others: Mapping[str, Cells]) -> Claim:
    """Judged by our cells, and by those for other inputs."""
    means = ours.mean(axis=1, keepdims=True)
    is_backfilled = np.array([policy in IN_ORDER for policy, _ in product(POLICIES, POINTS)])
    two_numbers = np.where(
        is_backfilled, np.median(PUBLISHED[is_backfilled]), np.median(PUBLISHED[~is_backfilled])
    )
    constants = float(np.abs(two_numbers - PUBLISHED).mean())
    ranks = {
        name: _rank_correlation(means[which, 0], PUBLISHED[which])
        for name, which in (("all", slice(None)), ("backfilling", is_backfilled), ("others", ~is_backfilled))
    }
    listed = ", ".join(f"{name} {value:.2f}" for name, value in ranks.items())

    def judged(found: Cells) -> Judged:
        of_means = float(distance(found.mean(axis=1, keepdims=True))[0])
        return all_positive([exactly(constants - of_means)], "points")

    return Claim(
        STATED["the-table"],
        f"the distance of the means is {distance(means)[0]:.1f} points, by seed "
        f"{text(Estimate(distance(ours)))}, that of the two numbers {constants:.1f}; rank correlation: "
        f"{listed}",
        judged(ours),
        inputs={name: judged(found) for name, found in others.items()},
    )


PUBLISHED = np.array([PAPER[policy][k][m] for policy in POLICIES for k in range(len(LOADS)) for m in (0, 1)])
"""The 30 cells of the paper, in order of policies and POINTS."""


def cells(found: Deviations, mode: str = BLIND) -> Cells:
    """Ours, a row for each cell and a column for each seed."""
    return np.array([found.of(policy, *point, mode) for policy, point in product(POLICIES, POINTS)])


def distance(of_cells: Cells) -> Sample:
    """Mean distance of all cells from the paper's, in points, by column."""
    return np.asarray(np.abs(of_cells - PUBLISHED[:, None]).mean(axis=0), dtype=np.float64)


def _rank_correlation(ours: Sample, theirs: Sample) -> float:
    return float(pl.DataFrame({"a": ours, "b": theirs}).select(pl.corr("a", "b", method="spearman")).item())
