"""The load of a site relative to its capacity, before anything runs.

The least utilisation rho at which all arrivals can be served, if jobs could be divided among machines and
clusters arbitrarily: a linear programme in the rates at which each job class runs on each resource. No
scheduler does better, so at rho >= 1 queues grow without bound. Source: Andradottir, Ayhan and Down 2003
("Dynamic server allocation for queueing networks with flexible servers"), with clusters, which take all
their members at once.

On nodes, a linear programme finds the least rho for which all chunks of all jobs (a chunk is what a job has
on one node) can be divided over the kinds of nodes such that no kind needs more than rho times its cores, its
memory, its GPUs of any set of types that jobs request, or its other resources, and no resource of the whole
site more than rho times its amount. Exclusive jobs need whole nodes. This is a lower bound of what the jobs
need: chunks fill nodes without a gap, those of one job need not run at the same time, and each runs as long
as its own node takes. So below 1 queues may grow without bound, too, under a scheduler that leaves gaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from scheduler.model import Job, JobId, Site
from scheduler.node_request import Node, Request, most_chunks
from sil.planning.scenario.node_demand import AlikeNodes, Demand, alike_nodes, demand
from sil.settings.experiment_file import PoissonTable, WorkloadTable
from sil.site.site_in_use import SiteInUse

if TYPE_CHECKING:
    from sil.runs.nodes_scenario import NodesScenario  # loads compiled code

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


Needs = dict[tuple[int, str], float]
"""The share of a resource that a request needs, by kind of nodes (SITE: of the whole site) and resource."""

SITE = -1
ALL_GPUS: frozenset[str] = frozenset()


def load_on_nodes(scenario: NodesScenario, today: NodesScenario) -> Load | None:
    """Of jobs that keep arriving; None if all are submitted at the beginning, or arrive once as they did, so
    that queues end.

    Jobs that the nodes cannot satisfy are refused when they arrive; they count only if `today` could. Of
    those, rho is infinite.
    """
    kinds = alike_nodes(scenario)
    arriving = demand(scenario, kinds)
    if arriving is None:
        return None
    whose = "job class" if scenario.in_use.log is None else "partition"
    kinds_today, resources = alike_nodes(today), scenario.cluster.site_resources
    possible = []
    for one in arriving:
        if _is_possible(one.request, kinds, resources):
            possible.append(one)
        elif _is_possible(one.request, kinds_today, today.cluster.site_resources):
            return Load(float("inf"), one.name, whose=whose)
    if scenario.in_use.log is not None and scenario.weeks is None:
        return None
    return least_load(possible, kinds, resources, whose)


def _is_possible(request: Request, kinds: Sequence[AlikeNodes], of_site: Mapping[str, int]) -> bool:
    room = most_chunks(request, [(kind.node, kind.count) for kind in kinds])
    return room >= request.chunks and request.beyond(of_site) is None


def least_load(
    arriving: Sequence[Demand], kinds: Sequence[AlikeNodes], of_site: Mapping[str, int], whose: str
) -> Load:
    """The variables are the parts of each demand on each kind of nodes where it may run, then rho."""
    types = {one.request.gpus.types for one in arriving if one.request.gpus} | {ALL_GPUS}
    merged, shares = _merged(
        [[_needs(one, kinds, g, (types, of_site)) for g in range(len(kinds))] for one in arriving],
        [one.name for one in arriving],
    )
    rows: dict[tuple[int, str], int] = {}
    uses, parts, n = [], [], 0
    for x, options in enumerate(merged):
        for needs in options:
            for resource, share in needs.items():
                uses.append((rows.setdefault(resource, len(rows)), n, share))
            parts.append((x, n))
            n += 1
    if not rows:
        return Load(0.0, "", whose=whose)
    uses += [(row, n, -1.0) for row in rows.values()]
    row, column, value = (np.array(values) for values in zip(*uses, strict=True))
    upper = csr_array((value, (row, column)), shape=(len(rows), n + 1))
    which, part = np.array(parts).T
    whole = csr_array((np.ones(n), (which, part)), shape=(len(merged), n + 1))
    cost = np.zeros(n + 1)
    cost[-1] = 1.0
    # The types of SciPy know no sparse matrices here.
    found = linprog(  # type: ignore[call-overload]
        cost, A_ub=upper, b_ub=np.zeros(len(rows)), A_eq=whole, b_eq=np.ones(len(merged)), method="highs"
    )
    assert found.x is not None, "serving everything is possible at some rho"
    return Load(
        float(found.x[-1]),
        _most(shares, np.abs(found.eqlin.marginals)),
        _scarce(rows, np.abs(found.ineqlin.marginals)),
        whose,
    )


def _most(shares: Sequence[Mapping[str, float]], worth: Floats) -> str:
    """The name that contributes most."""
    by_name: dict[str, float] = defaultdict(float)
    for names, total in zip(shares, worth.tolist(), strict=True):
        for name, share in names.items():
            by_name[name] += share * total
    return max(by_name, key=lambda name: by_name[name])


def _scarce(rows: Mapping[tuple[int, str], int], prices: Floats) -> str:
    """The resource of which more would lower rho most."""
    by_resource: dict[str, float] = defaultdict(float)
    for (_, resource), row in rows.items():
        by_resource[resource.partition(" of ")[0]] += float(prices[row])
    return max(by_resource, key=lambda resource: by_resource[resource])


def _needs(
    one: Demand, kinds: Sequence[AlikeNodes], g: int, counted: tuple[set[frozenset[str]], Mapping[str, int]]
) -> Needs | None:
    """What all jobs of a demand need of nodes of kind `g`, as shares; None if they cannot run there."""
    types, of_site = counted
    request, kind = one.request, kinds[g]
    at_most = request.chunks_on(kind.node)
    if not at_most:
        return None
    busy_s = one.per_s * float(one.run_s[g])  # jobs at a time
    needs = {}
    for resource, (amount, there) in _amounts(request, kind.node, types).items():
        share = 1.0 / at_most if request.exclusive else amount / there if there else 0.0
        if share:
            needs[g, resource] = busy_s * request.chunks * share / kind.count
    for name, amount in request.site_resources.items():
        if amount:
            needs[SITE, name] = busy_s * amount / of_site[name]
    return needs


def _amounts(request: Request, node: Node, types: set[frozenset[str]]) -> dict[str, tuple[float, float]]:
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
        there = sum(not some or gpu in some for gpu in node.gpus)
        if there:
            amount = gpus.count * gpus.share if gpus is not None and is_for else 0.0
            found[f"GPUs of {','.join(sorted(some))}"] = amount, there
    return found


def _merged(
    demands: Sequence[Sequence[Needs | None]], names: Sequence[str]
) -> tuple[list[list[Needs]], list[dict[str, float]]]:
    """Demands whose needs are proportional, as one: the optimum is the same. Then the share of each name."""
    by_shape: dict[object, list[int]] = {}
    sizes = []
    for k, options in enumerate(demands):
        size = sum(sum(needs.values()) for needs in options if needs)
        sizes.append(size)
        shape = [
            (g, *((resource, float(f"{share / size:.9g}")) for resource, share in sorted(needs.items())))
            for g, needs in enumerate(options)
            if needs is not None
        ]
        by_shape.setdefault(tuple(shape), []).append(k)
    merged, shares = [], []
    for alike in by_shape.values():
        total = sum(sizes[k] for k in alike)
        first = alike[0]
        merged.append(
            [
                {resource: share * total / sizes[first] for resource, share in needs.items()}
                for needs in demands[first]
                if needs is not None
            ]
        )
        of_name: defaultdict[str, float] = defaultdict(float)
        for k in alike:
            of_name[names[k]] += sizes[k] / total
        shares.append(dict(of_name))
    return merged, shares
