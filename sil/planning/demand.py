"""What arrives at a site: how many jobs of each class, or with each request, and how long they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import polars as pl
from numpy.typing import NDArray

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job, JobId
from scheduler.node_request import Node, Request
from sil.runs.nodes_scenario import NodesScenario
from sil.settings.experiment_file import PoissonTable, WorkloadTable
from sil.site.site_in_use import SiteInUse
from sil.workload.job_log import JobLog, queue_of
from sil.workload.slices import WEEK_S, n_weeks
from sil.world.actual_runtimes import RuntimesOnNodes, Spread, Variation
from site_db.site_file.cluster import SiteNodes

Floats = NDArray[np.float64]
QUANTILES = (np.arange(200) + 0.5) / 200


@dataclass(frozen=True)
class AlikeNodes:
    """`count` nodes of one machine class that have the same and are in the same partitions; `first` is the
    index of the first one."""

    node: Node
    first: int
    count: int


@dataclass(frozen=True)
class Demand:
    """Jobs of one request, `per_s` in a second; `run_s` is their mean run time on each kind of nodes. `name`
    is their class, or the partitions of jobs in a log."""

    name: str
    request: Request
    per_s: float
    run_s: Floats


def rates(table: WorkloadTable, in_use: SiteInUse) -> dict[str, float] | None:
    """Jobs of each class in a second; None if all are submitted at the beginning."""
    if not isinstance(table.arrivals, PoissonTable):
        return None
    per_s = table.arrivals.jobs_per_quantum / table.arrivals.quantum_s
    shares = table.mix or {job_class.name: 1.0 for job_class in in_use.site.job_classes}
    return {name: per_s * share / sum(shares.values()) for name, share in shares.items()}


def expected_times(
    table: WorkloadTable, in_use: SiteInUse, names: Iterable[str]
) -> tuple[list[Job], EtcMatrix]:
    """A job of each size of these classes, and the expected times of these."""
    of = ((name, size) for name in names for size in table.sizes.get(name, (None,)))
    jobs = [Job(JobId(k), name, 0.0, size=size) for k, (name, size) in enumerate(of)]
    return jobs, in_use.expected_times(jobs)


def alike_nodes(scenario: NodesScenario) -> list[AlikeNodes]:
    found: dict[object, list[int]] = {}
    nodes = list(scenario.cluster.nodes.values())
    for n, (node, machine) in enumerate(zip(nodes, scenario.in_use.site.machines, strict=True)):
        found.setdefault((machine.machine_class, node.specification), []).append(n)
    return [AlikeNodes(nodes[which[0]], which[0], len(which)) for which in found.values()]


def any_runs_on(nodes: Sequence[Node], requests: Sequence[Request]) -> bool:
    """Whether a job with any of these requests can run on any of the nodes."""
    distinct = {node.specification: node for node in nodes}.values()
    return any(request.chunks_on(node) for node in distinct for request in requests)


def demand(scenario: NodesScenario, kinds: Sequence[AlikeNodes]) -> list[Demand] | None:
    """The demand of jobs that keep arriving and are admitted; None if all are submitted at the beginning.
    Jobs of a log that arrive once, as they did, have no rate: it is 0."""
    log = scenario.in_use.log
    if log is not None:
        span_s = inf if scenario.weeks is None else n_weeks(log) * WEEK_S
        return list(_observed(log.within(span_s), span_s / scenario.load, scenario.cluster, len(kinds)))
    found: list[Demand] = []
    for table in scenario.workloads:
        if (per_s := rates(table, scenario.in_use)) is None:
            return None
        found += _drawn(scenario, table, kinds, per_s)
    return found


def _observed(log: JobLog, span_s: float, cluster: SiteNodes, n_kinds: int) -> Iterator[Demand]:
    """The jobs of a log in `span_s`. They run as long as they did, wherever they run."""
    possible = [_admitted(request, cluster) for request in log.requests]
    longest_s = pl.DataFrame({"longest_s": [limit_s for _, limit_s in possible]}).with_row_index("request")
    rows = (
        log.jobs.with_columns(pl.col("request").cast(pl.UInt32))
        .join(longest_s, on="request")
        .filter(pl.col("estimate_s") <= pl.col("longest_s"))
        .group_by("request")
        .agg(pl.len(), pl.col("run_s").mean())
        .sort("request")
    )
    for k, n, run_s in rows.iter_rows():
        request, _ = possible[k]
        yield Demand(queue_of(log.requests[k]), request, n / span_s, np.full(n_kinds, run_s))


def _drawn(
    scenario: NodesScenario, table: WorkloadTable, kinds: Sequence[AlikeNodes], per_s: Mapping[str, float]
) -> Iterator[Demand]:
    in_use = scenario.in_use
    jobs, mean = expected_times(table, in_use, per_s)
    expected = RuntimesOnNodes(mean, in_use.layout.slots.first, Variation(), np.zeros(len(jobs)))
    run_s: dict[str, list[list[float]]] = {name: [] for name in per_s}
    for job in jobs:
        run_s[job.job_class].append([expected.expected_s(job, [kind.first]) for kind in kinds])
    ends_at_limit = scenario.experiment.nodes.time_limits == "enforced"
    for name, rate in per_s.items():
        request, limit_s = scenario.requests[name]
        possible, longest_s = _admitted(request, scenario.cluster)
        if limit_s is not None and limit_s > longest_s:
            continue
        times_s = np.array(run_s[name])
        if ends_at_limit and limit_s is not None:
            times_s = _cut(times_s, limit_s, scenario.spread)
        yield Demand(name, possible, rate, times_s.mean(axis=0))


def _cut(mean_s: NDArray[np.float64], limit_s: float, spread: Spread) -> NDArray[np.float64]:
    """The mean run times of jobs that end at their time limit."""
    factors = np.array([spread.factor(float(quantile)) for quantile in QUANTILES])
    cut: NDArray[np.float64] = np.minimum(mean_s[..., None] * factors, limit_s).mean(axis=-1)
    return cut


def _admitted(request: Request, cluster: SiteNodes) -> tuple[Request, float]:
    """The request in those of its partitions that admit so many nodes, and the longest time limit there.

    Without any such partition, the limit is -inf.
    """
    if not request.partitions:
        return request, inf
    open_to = {
        partition.name: inf if partition.max_time_s is None else partition.max_time_s
        for partition in cluster.limits_of(request.partitions)
        if partition.refusal(request, None) is None
    }
    return replace(request, partitions=frozenset(open_to)), max(open_to.values(), default=-inf)
