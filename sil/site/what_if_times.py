"""What is believed of machines that are only imagined, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

import numpy as np

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job, JobId
from sil.site.what_if_site import Expect
from site_db.estimation import Cell, Estimator, ExecutionEstimate, Layout, Rule
from site_db.experience import MemoryExperience
from site_db.history.statistics import RunStatistics


def expected_of(layout: Layout, known: MemoryExperience) -> Expect:
    """Expected seconds on machines of a class, and on clusters, by the names of a site."""
    first_of = {kind: j for j, kind in reversed(list(enumerate(layout.class_of_machine)))}
    resources = {name: first_of[kind] for kind, name in enumerate(layout.machine_classes) if kind in first_of}
    resources |= {name: len(layout.machines) + c for c, name in enumerate(layout.clusters)}

    def expect(job_class: str, place: str) -> float | None:
        if place not in resources:
            return None
        estimate = known.explain(Job(JobId(0), job_class, 0.0), resources[place])
        return None if estimate is None else estimate.expected_s

    return expect


def unsure(
    layout: Layout, statistics: Mapping[Cell, RunStatistics], machine_classes: Sequence[str]
) -> dict[tuple[str, str], float]:
    """How sure the rules of the database are of some machine classes: the relative standard error of the mean
    where ratings tell it, the relative deviation of other places where nothing else is known. By (job class,
    machine class), without those of which times were said."""
    known, found = Estimator(layout, statistics), {}
    for name in machine_classes:
        k = layout.machine_classes.index(name)
        if k not in layout.class_of_machine:
            continue  # its machines became others, or went
        j = layout.class_of_machine.index(k)
        for c, job_class in enumerate(layout.job_classes):
            estimate = known.estimate(c, j)
            deviation = None if estimate is None else _relative_deviation(layout, c, estimate)
            if deviation:
                found[job_class, name] = deviation
    return found


def _relative_deviation(layout: Layout, c: int, estimate: ExecutionEstimate) -> float | None:
    if estimate.rule is Rule.RATING and estimate.deviation_s is not None:
        return estimate.deviation_s / estimate.expected_s / sqrt(estimate.runs)
    if estimate.rule is not Rule.ELSEWHERE:
        return None
    if estimate.deviation_s is not None and estimate.runs > 1:
        return estimate.deviation_s / estimate.expected_s
    given = [time_s for time_s in layout.staff_s[c].values() if time_s is not None]
    return float(np.std(given, ddof=1) / np.mean(given)) if len(given) > 1 else None


def with_luck(
    etc: EtcMatrix,
    jobs: Sequence[Job],
    layout: Layout,
    uncertain: Mapping[tuple[str, str], float],
    luck: np.random.Generator,
) -> EtcMatrix:
    """What times may be in truth of which only so much is known: each (job class, machine class) has one
    lognormal factor of mean 1, and so has every cluster of such machines."""
    factor = {}
    for cell, deviation in sorted(uncertain.items()):
        sigma = sqrt(np.log1p(deviation**2))
        factor[cell] = float(np.exp(sigma * luck.standard_normal() - sigma**2 / 2))
    class_of = {
        **{name: name for name in layout.machine_classes},
        **{
            name: layout.machine_classes[k]
            for name, k in zip(layout.machines, layout.class_of_machine, strict=True)
        },
        **{
            name: layout.machine_classes[layout.class_of_machine[members[0]]]
            for name, members in zip(layout.clusters, layout.members, strict=True)
        },
    }
    columns = [class_of[name] for name in etc.resource_class_names]
    by_class_s = etc.by_class_s.copy()
    for row, i in dict(zip(etc.job_class_of.tolist(), range(len(jobs)), strict=True)).items():
        for k, machine_class in enumerate(columns):
            by_class_s[row, k] *= factor.get((jobs[i].job_class, machine_class), 1.0)
    return EtcMatrix(by_class_s, etc.job_class_of, etc.resource_class_of, etc.resource_class_names)
