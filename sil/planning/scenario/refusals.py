"""Why jobs of a forecast are refused on nodes, and what share of all requested hours that is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection
from math import isfinite
from typing import TYPE_CHECKING

from scheduler import plural
from scheduler.model import Job
from scheduler.node_request import Request
from sil.planning.scenario.scenario import CORE_HOURS, GPU_HOURS, JOBS, Shares
from site_db.site_file.cluster import Cluster

if TYPE_CHECKING:
    from sil.runs.nodes_scenario import NodesScenario  # loads compiled code


def refused_shares(scenario: NodesScenario, replication: int, refused: Collection[int]) -> dict[str, Shares]:
    """The shares of the jobs with these numbers, by the reason: what they do, as a phrase. GPU hours are left
    out if no job requests any."""
    arriving = scenario.arriving(replication)
    every: Counter[str] = Counter()
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for job in arriving.jobs:
        request = _request_of(job)
        run_s = arriving.run_s(job, ())
        hours = run_s / 3600.0 if isfinite(run_s) else 0.0
        held = scenario.cluster.held(request)
        of_job = {JOBS: 1.0, CORE_HOURS: held.cpus * hours, GPU_HOURS: held.gpus * hours}
        every.update(of_job)
        if job.id in refused:
            found[reason(job, scenario.cluster)].update(of_job)
    return {
        why: {unit: amount / every[unit] for unit, amount in amounts.items() if every[unit]}
        for why, amounts in found.items()
    }


def reason(job: Job, cluster: Cluster) -> str:
    """Why a job is refused: what no partition it names allows, what the site lacks, else its rules."""
    request = _request_of(job)
    names = sorted(request.partitions)
    where = f"{plural(len(names), 'partition')} {' and '.join(names)}"
    allow = "allow" if len(names) > 1 else "allows"
    known = cluster.limits_of(filter(cluster.has_partition, names))
    if names and not known:
        return f"name {where}, which the site does not have"
    if known and all(partition.refusal(request, None) for partition in known):
        return f"request more nodes than {where} {allow}"
    if known and all(partition.refusal(request, job.estimate_s) for partition in known):
        return f"request more time than {where} {allow}"
    if (beyond := request.beyond(cluster.site_resources)) is not None:
        return f"request more than the site has, {beyond}"
    if cluster.unsatisfied(request, job.estimate_s) is not None:
        return f"request more than the nodes{f' of {where}' if names else ''} have"
    return "are against the site's rules for users and queues"


def _request_of(job: Job) -> Request:
    return job.request or Request()
