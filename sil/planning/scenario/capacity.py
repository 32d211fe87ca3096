"""The load of a site relative to its capacity, before anything runs.

The least utilisation rho at which all arrivals can be served, if jobs could be divided among machines and
clusters arbitrarily: a linear programme in the rates at which each job class runs on each resource. No
scheduler does better, so at rho >= 1 queues grow without bound. Source: Andradottir, Ayhan and Down 2003
("Dynamic server allocation for queueing networks with flexible servers"), with clusters, which take all
their members at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from scheduler.model import Job, JobId, Site
from sil.settings.experiment_file import PoissonTable, WorkloadTable
from sil.site.site_in_use import SiteInUse

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """`rho` is infinite if a job class cannot run anywhere. The job class `bottleneck` contributes most; of
    jobs in a log, it is a partition (`whose`). On nodes, the resource `scarce` limits most."""

    rho: float
    bottleneck: str
    scarce: str = ""
    whose: str = "job class"

    @property
    def is_too_much(self) -> bool:
        return self.rho >= 1.0


def load(workload: WorkloadTable, in_use: SiteInUse) -> Load | None:
    """Of jobs that keep arriving; None if all are submitted at the beginning."""
    if not isinstance(workload.arrivals, PoissonTable):
        return None
    rate = workload.arrivals.jobs_per_quantum / workload.arrivals.quantum_s
    shares = workload.mix or {job_class.name: 1.0 for job_class in in_use.site.job_classes}
    rates = {name: rate * share / sum(shares.values()) for name, share in shares.items()}
    known, members = in_use.experience(), [len(inside) for inside in in_use.site.members]
    times_s, column_of = [], np.empty(0, dtype=np.int64)
    for name in rates:
        jobs = [Job(JobId(0), name, 0.0, size=size) for size in workload.sizes.get(name, (None,))]
        etc = known.estimate(jobs, members)
        times_s.append(np.mean([etc.by_class_s[row] for row in etc.job_class_of.tolist()], axis=0))
        column_of = etc.resource_class_of
    nowhere = [name for name, row in zip(rates, times_s, strict=True) if not np.isfinite(row).any()]
    if nowhere:
        return Load(float("inf"), nowhere[0])
    return _least(list(rates), np.array(list(rates.values())), np.array(times_s), column_of, in_use.site)


def _least(
    names: list[str], rates: Floats, times_s: Floats, column_of: NDArray[np.int64], site: Site
) -> Load:
    """`times_s` (classes, resources): on a machine of each kind, then on each cluster."""
    n_kinds = times_s.shape[1] - len(site.members)
    machines = np.bincount(column_of[: site.n_machines], minlength=n_kinds)[:n_kinds]
    # Use of the machines of each kind, and of each cluster, per second on each resource.
    takes = np.zeros((n_kinds + len(site.members), times_s.shape[1]))
    takes[:n_kinds, :n_kinds] = np.eye(n_kinds)
    for c, inside in enumerate(site.members):
        np.add.at(takes[:, n_kinds + c], column_of[list(inside)], 1.0)
        takes[n_kinds + c, n_kinds + c] = 1.0
    there = np.concatenate([machines, np.ones(len(site.members))])
    can_run = np.argwhere(np.isfinite(times_s))
    served, used = np.zeros((len(names), len(can_run) + 1)), np.zeros((len(there), len(can_run) + 1))
    for x, (i, k) in enumerate(can_run.tolist()):
        served[i, x] = 1.0
        used[:, x] = times_s[i, k] * takes[:, k]
    used[:, -1] = -there
    cost = np.zeros(len(can_run) + 1)
    cost[-1] = 1.0
    found = linprog(cost, A_ub=used, b_ub=np.zeros(len(there)), A_eq=served, b_eq=rates, method="highs")
    worth = np.abs(found.eqlin.marginals) * rates
    assert found.x is not None, "serving everything is possible at some rho"
    return Load(float(found.x[-1]), names[int(worth.argmax())])
