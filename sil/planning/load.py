"""The load of a site relative to its capacity, before anything runs: the least utilisation rho at which all
arrivals can be served, a linear programme, if jobs could be divided arbitrarily.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

from scheduler.node_request import Node, Request, most_chunks
from sil.planning.demand import AlikeNodes, Demand, alike_nodes, demand, expected_times, rates
from sil.runs.nodes_scenario import NodesScenario
from sil.settings.experiment_file import WorkloadTable
from sil.site.site_in_use import SiteInUse


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
