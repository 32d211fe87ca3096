"""The site of Collins and George with other execution times: how far verdicts depend on the synthetic "
"ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sil.settings import files
from sil.studies.ledger import Claim, with_sites
from sil.world.random_streams import RandomStreams
from site_db.site_file.importing import read_site_file
from site_db.site_file.tables import SiteFile

SITE = "hcs-2001"
SEED = 2001
AS_BUILT_IN = 0
"""The number of the site as it is built in; perturbed ones count from 1."""
SPREAD = 0.3
"""Standard deviation of the logarithm of the factors: two in three are between 0.74 and 1.35."""


def factors(site: int, consumer: str, *shape: int) -> NDArray[np.float64]:
    """Lognormal factors of a perturbed site, with the median 1; ones for the site as it is built in."""
    if site == AS_BUILT_IN:
        return np.ones(shape)
    return RandomStreams(SEED, site).of(f"perturbed {consumer}").lognormal(0.0, SPREAD, shape)


def perturbed(site: int) -> SiteFile:
    """The built-in site, with the sequential time of each job class on each machine class times a factor, and
    the speed-up of each job class on each cluster less 1 times another, at most to the cluster's size. What
    the paper says of the structure stays: machines, clusters, which classes can run in parallel."""
    whole = read_site_file(files.find(SITE, "sites", Path()))
    if site == AS_BUILT_IN:
        return whole
    class_of = {name: group.machine_class for group in whole.machines for name in group.names}
    members = {cluster.name: cluster.members for cluster in whole.clusters}
    changed = []
    for job_class in whole.job_classes:
        by_class = factors(site, f"sequential {job_class.name}", len(job_class.sequential_s))
        by_cluster = factors(site, f"parallel {job_class.name}", len(job_class.parallel_s))
        sequential_s = {
            name: round(seconds * factor, 3)
            for (name, seconds), factor in zip(job_class.sequential_s.items(), by_class, strict=True)
        }
        parallel_s = {}
        for (cluster, seconds), factor in zip(job_class.parallel_s.items(), by_cluster, strict=True):
            machine_class = class_of[members[cluster][0]]
            speedup = 1 + factor * (job_class.sequential_s[machine_class] / seconds - 1)
            shortened = min(speedup, float(len(members[cluster])))
            parallel_s[cluster] = round(sequential_s[machine_class] / shortened, 3)
        times = {"sequential_s": sequential_s, "parallel_s": parallel_s}
        changed.append(job_class.model_copy(update=times))
    return whole.model_copy(update={"job_classes": tuple(changed)})


def judged_on_sites(judge: Callable[[int], Sequence[Claim]], sites: int) -> list[Claim]:
    """The claims that `judge` makes of the built-in site, with their outcomes on `sites` perturbed ones."""
    return with_sites(judge(AS_BUILT_IN), (judge(k) for k in range(1, sites + 1)))


METHOD = (
    f"On a perturbed site, each time of a job class on a machine class is multiplied by a lognormal factor "
    f"(standard deviation {SPREAD:g} of its logarithm), and each speed-up less 1 by another."
)
