"""What was run: which experiment, which site, which version of which code."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from importlib.metadata import version
from pathlib import Path

from scheduler import registry
from sil.batsim.naming import is_outside, outside
from sil.settings.code_version import all_sources, package_version, scheduler_source, source_hash
from sil.settings.experiment_file import Experiment
from sil.settings.files import FIXTURES
from sil.site.site_in_use import SiteInUse
from sil.site.time_shared_cluster import NodesOfSite
from sil.trace.facts import RunDescription


def describe(experiment: Experiment, in_use: SiteInUse) -> RunDescription:
    """What is run, for readers of the trace."""
    site, shared = in_use.site, experiment.shared_nodes
    class_of = {machine.name: machine.machine_class for machine in site.machines}
    names = tuple(class_of) if shared is None else NodesOfSite.of(in_use.file, shared.cluster).names
    workload = experiment.workload
    parts = [
        f"{workload.jobs} jobs" if "workload.jobs" not in experiment.grid else "jobs as the grid says",
        f"arrivals {workload.arrivals.kind.replace('_', ' ')}",
        f"classes {workload.order}",
    ]
    return RunDescription(
        experiment=experiment.name,
        description=experiment.description,
        version=package_version(),
        scheduler_source=scheduler_source(),
        seed=experiment.seed,
        replications=experiment.replications,
        schedulers=experiment.schedulers,
        site=site.name,
        machines=names,
        machine_classes=tuple(class_of[name] for name in names),
        clusters=() if shared is not None else tuple(cluster.name for cluster in site.clusters),
        job_classes=tuple(job_class.name for job_class in site.job_classes),
        workload=", ".join(parts),
        points=tuple(dict(point) for point in experiment.points),
        shared_cluster=None if shared is None else shared.cluster,
        runs_known=in_use.as_of,
    )


@cache
def code_and_data() -> str:
    """Hash over all code and built-in data that the results of a study depend on."""
    digest = hashlib.sha256()
    for library in ("numpy", "scipy", "numba", "polars"):
        digest.update(f"{library} {version(library)}".encode())
    digest.update(all_sources().encode())
    for path in sorted(FIXTURES.rglob("*.toml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def fingerprint(experiment: Experiment, in_use: SiteInUse) -> str:
    """Equal where the same runs would come out: experiment, site, version and all code that may matter."""
    digest = hashlib.sha256()
    for text in (
        experiment.canonical(),
        in_use.digest(),
        package_version(),
        all_sources(),
        *(_code_under_test(name) for name in experiment.schedulers),
        *(_code_under_test(own) for _, own in in_use.queues if own),
    ):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()


def _code_under_test(name: str) -> str:
    """Hash of the code that a scheduler's name leads to: its module, or the whole package around it; of a
    command, the files that it names."""
    if is_outside(name):
        files = [path for word in outside(name).command if (path := Path(word)).is_file()]
        return name + "".join(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)
    top, _, _ = registry.target_of(name).partition(":")[0].partition(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        return name
    origin = Path(spec.origin)
    if origin.name == "__init__.py":
        return name + source_hash(origin.parent)
    return name + hashlib.sha256(origin.read_bytes()).hexdigest()
