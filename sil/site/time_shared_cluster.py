"""A cluster of time-shared nodes, jobs that were measured in isolation, and errors of past predictions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scheduler import UserError
from scheduler.model import Job
from scheduler.registry import SchedulerSpec, key_of
from scheduler.time_shared.forecast import Circumstances, Error, ErrorHistory
from scheduler.time_shared.social_contract import MAX_CPU, Requirement, SocialContract
from site_db.experience import KnownError
from site_db.site_file.tables import ClusterTable, SiteFile

if TYPE_CHECKING:
    from scheduler.time_shared.predictors import PredictorName  # loads compiled functions


class Characterisations:
    """The requirements of jobs in isolation, by class and number of tasks."""

    def __init__(self, requirements: Mapping[tuple[str, int], Requirement]) -> None:
        self._requirements = dict(requirements)

    @classmethod
    def of_site(cls, site: SiteFile) -> Characterisations:
        of_sizes = ((k.name, x) for k in site.job_classes for x in k.in_isolation)
        return cls(
            {(name, x.tasks): Requirement(x.tasks, x.cpu, x.memory_mb, x.exe_s) for name, x in of_sizes}
        )

    def requirement(self, job: Job) -> Requirement | None:
        """The requirement of a job; None if its class was not measured with that number of tasks."""
        return self._requirements.get((job.job_class, job.n_tasks))

    def of(self, job_class: str, n_tasks: int) -> Requirement:
        """The requirement of a class with a number of tasks. Raises KeyError."""
        return self._requirements[job_class, n_tasks]

    def sizes(self) -> dict[str, list[int]]:
        """The measured numbers of tasks of each class, in order."""
        sizes: dict[str, list[int]] = {}
        for job_class, n_tasks in sorted(self._requirements):
            sizes.setdefault(job_class, []).append(n_tasks)
        return sizes


class NotShared(UserError):
    """The site has no such cluster, or its nodes are not shared. The message is one sentence for the user."""


@dataclass(frozen=True)
class NodesOfSite:
    """The nodes of one cluster, in its order, the contract under which they are shared, and what is known of
    the site's jobs."""

    cluster: str
    names: tuple[str, ...]
    memory_mb: tuple[float, ...]
    contract: SocialContract
    known: Characterisations

    @classmethod
    def of(cls, site: SiteFile, name: str | None = None) -> NodesOfSite:
        """The nodes of the cluster of that name, or of the only one with a social contract. Raises
        NotShared."""
        cluster = _cluster(site, name)
        contract = cluster.social_contract
        if contract is None:
            raise NotShared(
                f"the cluster '{cluster.name}' has no social contract, under which its nodes would be "
                f"shared; give it one in the site file ([clusters.social_contract])"
            )
        memory_mb = {machine: group.memory_mb or 0.0 for group in site.machines for machine in group.names}
        most_cpu = MAX_CPU if contract.most_cpu is None else contract.most_cpu
        return cls(
            cluster.name,
            cluster.members,
            tuple(memory_mb[machine] for machine in cluster.members),
            SocialContract(contract.share, contract.most_jobs, most_cpu),
            Characterisations.of_site(site),
        )


def _cluster(site: SiteFile, name: str | None) -> ClusterTable:
    if name is None:
        shared = [cluster for cluster in site.clusters if cluster.social_contract is not None]
        if len(shared) != 1:
            which = f"it has {', '.join(c.name for c in shared)}; name one" if shared else "it has none"
            raise NotShared(f"which cluster of the site '{site.name}' has shared nodes? {which}")
        return shared[0]
    clusters = {cluster.name: cluster for cluster in site.clusters}
    if name not in clusters:
        raise NotShared(
            f"the site '{site.name}' has no cluster '{name}'; it has {', '.join(clusters) or 'none'}"
        )
    return clusters[name]


NOTHING = ErrorHistory(())


def histories(
    errors: Iterable[KnownError], known: Characterisations, scheduler: SchedulerSpec
) -> Callable[[PredictorName], ErrorHistory]:
    """The errors of each predictor under one scheduler. Jobs with equal requirements are of one kind."""
    errors, sizes = list(errors), known.sizes()
    names = {error.scheduler for error in errors}
    same = {name for name in names if key_of(name) == scheduler.key}
    found: defaultdict[str, list[Error]] = defaultdict(list)
    for error in errors:
        if error.scheduler in same and error.tasks in sizes.get(error.job_class, ()):
            exe_s = known.of(error.job_class, error.tasks).exe_s
            alike = Circumstances.of(exe_s, error.tasks, error.waiting, error.jobs_there)
            found[error.predictor].append(Error(alike, error.ratio))
    by_predictor = {predictor: ErrorHistory(of_one) for predictor, of_one in found.items()}
    return lambda predictor: by_predictor.get(str(predictor), NOTHING)
