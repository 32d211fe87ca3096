"""Expected times on notional machines, and their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job
from site_db.estimation import Cell, Estimator, ExecutionEstimate, Rule, SiteLayout
from site_db.history.statistics import RunStatistics


def estimation_uncertainty(
    layout: SiteLayout, statistics: Mapping[Cell, RunStatistics], machine_classes: Sequence[str]
) -> dict[tuple[str, str], float]:
    """The uncertainty of estimates by the database's rules, by (job class, machine class).

    It is the relative standard error of the mean for estimates by rating, the relative deviation between
    other places for those by runs elsewhere, and none for times that are given.
    """
    estimator, found = Estimator(layout, statistics), {}
    for name in machine_classes:
        k = layout.machine_classes.index(name)
        if k not in layout.class_of_machine:
            continue  # its machines were upgraded or removed
        j = layout.class_of_machine.index(k)
        for c, job_class in enumerate(layout.job_classes):
            estimate = estimator.estimate(c, j)
            deviation = None if estimate is None else _relative_deviation(layout, c, estimate)
            if deviation:
                found[job_class, name] = deviation
    return found


def _relative_deviation(layout: SiteLayout, c: int, estimate: ExecutionEstimate) -> float | None:
    if estimate.rule is Rule.RATING and estimate.deviation_s is not None:
        return estimate.deviation_s / estimate.expected_s / sqrt(estimate.runs)
    if estimate.rule is not Rule.ELSEWHERE:
        return None
    if estimate.deviation_s is not None and estimate.runs > 1:
        return estimate.deviation_s / estimate.expected_s
    given = [time_s for time_s in layout.staff_s[c].values() if time_s is not None]
    return float(np.std(given, ddof=1) / np.mean(given)) if len(given) > 1 else None


def with_uncertainty(
    etc: EtcMatrix,
    jobs: Sequence[Job],
    layout: SiteLayout,
    uncertainty: Mapping[tuple[str, str], float],
    rng: np.random.Generator,
) -> EtcMatrix:
    """Mean times drawn from uncertain ones: each (job class, machine class) has a lognormal factor of mean 1,
    which also applies to clusters of such machines."""
    factor = {}
    for cell, deviation in sorted(uncertainty.items()):
        sigma = sqrt(np.log1p(deviation**2))
        factor[cell] = float(np.exp(sigma * rng.standard_normal() - sigma**2 / 2))
    first = [members[0] for members in layout.members]
    machines = [layout.machine_classes[k] for k in layout.class_of_machine]
    class_of = dict(zip(layout.machine_classes, layout.machine_classes, strict=True))
    class_of |= zip(layout.machines, machines, strict=True)
    class_of |= zip(layout.clusters, (machines[j] for j in first), strict=True)
    columns = [class_of[name] for name in etc.resource_class_names]
    by_class_s = etc.by_class_s.copy()
    for row, i in dict(zip(etc.job_class_of.tolist(), range(len(jobs)), strict=True)).items():
        for k, machine_class in enumerate(columns):
            by_class_s[row, k] *= factor.get((jobs[i].job_class, machine_class), 1.0)
    return EtcMatrix(by_class_s, etc.job_class_of, etc.resource_class_of, etc.resource_class_names)
