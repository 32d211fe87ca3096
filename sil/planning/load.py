"""What arrives at a site, and its load relative to the capacity, before anything runs: the least utilisation
rho at which all arrivals can be served, a linear programme, if jobs could be divided arbitrarily.

No scheduler does better, so at rho >= 1 queues grow without bound. Clusters take all their members at once.
Source: Andradottir, Ayhan and Down 2003 ("Dynamic server allocation for queueing networks with flexible
servers").

On nodes, chunks of jobs (what a job has on one node) are divided among the kinds of nodes such that no kind
needs more than rho times its cores, memory, GPUs of any set of types that jobs request, or other resources,
and no resource of the whole site more than rho times its amount. Exclusive jobs need whole nodes. This is a
lower bound: chunks fill nodes without a gap, those of one job need not run at the same time, and each runs as
long as its own node takes. So below 1 queues may grow without bound, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job, JobId
from scheduler.node_request import Node, Request, most_chunks
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


Needs = Mapping[tuple[int, str], float]
"""Shares of what is there that a demand needs, by place (kind of machines or nodes, cluster) and resource."""
SITE = -1
"""The place of resources of the whole site."""
ALL_GPUS: frozenset[str] = frozenset()


def load(workload: WorkloadTable, in_use: SiteInUse) -> Load | None:
    """The load of jobs that keep arriving at machines and clusters; None if all are submitted at the
    beginning."""
    per_s = rates(workload, in_use)
    if per_s is None:
        return None
    jobs, etc = expected_times(workload, in_use, per_s)
    members, kind_of = in_use.site.members, etc.resource_class_of
    n_kinds = len(etc.by_class_s[0]) - len(members)
    there = [*np.bincount(kind_of[: in_use.site.n_machines], minlength=n_kinds)[:n_kinds].tolist()]
    takes = [{kind: 1.0} for kind in range(n_kinds)]
    for c, inside in enumerate(members):
        counts = np.bincount(kind_of[list(inside)], minlength=n_kinds)
        takes.append({kind: float(n) for kind, n in enumerate(counts.tolist()) if n} | {n_kinds + c: 1.0})
        there.append(1)
    demands: list[list[Needs]] = []
    for name in per_s:
        rows = [
            row for job, row in zip(jobs, etc.job_class_of.tolist(), strict=True) if job.job_class == name
        ]
        mean_s = etc.by_class_s[rows].mean(axis=0).tolist()
        if not any(map(isfinite, mean_s)):
            return Load(inf, name)
        demands.append(
            [
                {(place, ""): per_s[name] * time_s * n / there[place] for place, n in takes[k].items()}
                for k, time_s in enumerate(mean_s)
                if isfinite(time_s) and all(there[place] for place in takes[k])
            ]
        )
    return _least(demands, list(per_s), "job class")


def load_on_nodes(scenario: NodesScenario, today: NodesScenario) -> Load | None:
    """The load of jobs that keep arriving; None if all are submitted at the beginning, or arrive once as they
    did, so that queues end.

    Jobs that the nodes cannot satisfy are refused when they arrive; they count only if `today` could. Of
    those, rho is infinite."""
    kinds, resources, log = alike_nodes(scenario), scenario.cluster.site_resources, scenario.in_use.log
    arriving = demand(scenario, kinds)
    if arriving is None:
        return None
    whose = "job class" if log is None else "partition"
    kinds_today, possible = alike_nodes(today), []
    for one in arriving:
        if _is_possible(one.request, kinds, resources):
            possible.append(one)
        elif _is_possible(one.request, kinds_today, today.cluster.site_resources):
            return Load(inf, one.name, whose=whose)
    if log is not None and scenario.weeks is None:
        return None
    return least_load(possible, kinds, resources, whose)


def _is_possible(request: Request, kinds: Sequence[AlikeNodes], of_site: Mapping[str, int]) -> bool:
    room = most_chunks(request, [(kind.node, kind.count) for kind in kinds])
    return room >= request.chunks and request.beyond(of_site) is None


def least_load(
    arriving: Sequence[Demand], kinds: Sequence[AlikeNodes], of_site: Mapping[str, int], whose: str
) -> Load:
    types = {one.request.gpus.types for one in arriving if one.request.gpus} | {ALL_GPUS}
    demands = [
        [x for g, kind in enumerate(kinds) if (x := _needs(one, kind, g, types, of_site)) is not None]
        for one in arriving
    ]
    return _least(demands, [one.name for one in arriving], whose)


def _needs(
    one: Demand, kind: AlikeNodes, g: int, types: Iterable[frozenset[str]], of_site: Mapping[str, int]
) -> Needs | None:
    """What all jobs of a demand need of nodes of kind `g`; None if they cannot run there."""
    request = one.request
    at_most = request.chunks_on(kind.node)
    if not at_most:
        return None
    busy = one.per_s * float(one.run_s[g])  # jobs at a time
    needs = {}
    for resource, (amount, there) in _amounts(request, kind.node, types).items():
        share = 1.0 / at_most if request.exclusive else amount / there if there else 0.0
        if share:
            needs[g, resource] = busy * request.chunks * share / kind.count
    for name, amount in request.site_resources.items():
        if amount:
            needs[SITE, name] = busy * amount / of_site[name]
    return needs


def _amounts(request: Request, node: Node, types: Iterable[frozenset[str]]) -> dict[str, tuple[float, float]]:
    """What a chunk requests, and what a node has of it."""
    found: dict[str, tuple[float, float]] = {
        "cores": (request.cores, node.cores),
        "memory": (request.memory_mib, node.memory_mib),
    }
    for name, there in node.others.items():
        found[name] = request.others.get(name, 0), there
    gpus = request.gpus
    for some in types:
        # Jobs that accept only some of these types compete for the GPUs of these types.
        is_for = gpus is not None and (not some or (gpus.types and gpus.types <= some))
        if there := sum(not some or gpu in some for gpu in node.gpus):
            amount = gpus.count * gpus.share if gpus is not None and is_for else 0.0
            found[f"GPUs of {','.join(sorted(some))}"] = amount, there
    return found


def _least(demands: Sequence[Sequence[Needs]], names: Sequence[str], whose: str) -> Load:
    """The variables are the parts of each demand in each place where it may run, then rho. Demands whose
    needs are proportional are one: the optimum is the same."""
    merged: dict[object, tuple[Sequence[Needs], float, dict[str, float]]] = {}
    for options, name in zip(demands, names, strict=True):
        size = sum(sum(needs.values()) for needs in options)
        shape = (
            tuple((of, float(f"{share / size:.9g}")) for of, share in sorted(needs.items()))
            for needs in options
        )
        _, _, sizes = merged.setdefault(tuple(shape), (options, size, defaultdict(float)))
        sizes[name] += size
    rows: dict[tuple[int, str], int] = {}
    uses, parts, n = [], [], 0
    for x, (options, size, sizes) in enumerate(merged.values()):
        scale = sum(sizes.values()) / size
        for needs in options:
            for resource, share in needs.items():
                uses.append((rows.setdefault(resource, len(rows)), n, share * scale))
            parts.append((x, n))
            n += 1
    if not rows:
        return Load(0.0, "", whose=whose)
    uses += [(row, n, -1.0) for row in rows.values()]
    row, column, value = (np.array(values) for values in zip(*uses, strict=True))
    upper = csr_array((value, (row, column)), shape=(len(rows), n + 1))
    which, part = np.array(parts).T
    whole = csr_array((np.ones(n), (which, part)), shape=(len(merged), n + 1))
    cost = np.append(np.zeros(n), 1.0)
    # The types of SciPy know no sparse matrices here.
    found = linprog(  # type: ignore[call-overload]
        cost, A_ub=upper, b_ub=np.zeros(len(rows)), A_eq=whole, b_eq=np.ones(len(merged)), method="highs"
    )
    assert found.x is not None, "serving everything is possible at some rho"
    worth: dict[str, float] = defaultdict(float)
    for (_, _, sizes), total in zip(merged.values(), np.abs(found.eqlin.marginals).tolist(), strict=True):
        of_all = sum(sizes.values())
        for name, size in sizes.items():
            worth[name] += size / of_all * total
    prices: dict[str, float] = defaultdict(float)
    for (_, scarce), price in zip(rows, np.abs(found.ineqlin.marginals).tolist(), strict=True):
        prices[scarce.partition(" of ")[0]] += price
    most, scarcest = (max(of, key=lambda name: of[name]) for of in (worth, prices))
    return Load(float(found.x[-1]), most, scarcest, whose)
