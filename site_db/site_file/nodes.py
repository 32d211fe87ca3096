"""A site's machines as nodes of partitions, and other nodes in place of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import chain, count
from typing import Any

from scheduler.node_request import Gpus, Node, Partition, Request
from scheduler.node_resources.topology import Topology
from site_db.files.toml_file import Table
from site_db.site_file.cluster import HeldResources, SiteNodes
from site_db.site_file.tables import (
    JobClassTable,
    MachineClassTable,
    MachinesTable,
    PartitionTable,
    RequestTable,
    SiteFile,
    SiteResourceTable,
    TopologyTable,
)


def cluster_of(site: SiteFile) -> SiteNodes:
    """The machines of a site as nodes. Memory counts if some machine states it."""
    partitions_of = defaultdict[str, set[str]](set)
    for partition in site.partitions:
        for name in partition.nodes:
            partitions_of[name].add(partition.name)
    group_of = {name: group for group in site.machines for name in group.names}
    return SiteNodes(
        {name: node_of(group, frozenset(partitions_of[name])) for name, group in group_of.items()},
        {x.name: Partition(x.name, *(getattr(x, key) for key in _LIMITS)) for x in site.partitions},
        {name: group.threads_per_core for name, group in group_of.items()},
        has_memory=any(group.memory_mb is not None for group in site.machines),
        site_resources={table.name: table.amount for table in site.site_resources},
        topology=None if site.topology is None else Topology(**dict(site.topology)),
    )


def node_of(group: MachinesTable, partitions: frozenset[str] = frozenset()) -> Node:
    """A machine of a group as a node."""
    return Node(
        cores=group.processors,
        memory_mib=int(group.memory_mb or 0),
        gpus=tuple(gpu_type for gpu_type, n in group.gpus.items() for _ in range(n)),
        others=group.resources,
        features=frozenset(group.features),
        partitions=partitions,
        switch=group.switch,
    )


_LIMITS = ("max_time_s", "max_nodes", "exclusive", "default_time_s")
"""Keys of a partition, in the order of the fields of `Partition`."""


def request_of(table: RequestTable | None) -> Request:
    """What a job requests; one core without a table."""
    if table is None:
        return Request()
    gpus = Gpus(table.gpus, table.gpu_share, frozenset(table.gpu_types)) if table.gpus else None
    return Request(
        chunks=table.nodes if table.tasks is None else table.tasks,
        cores=table.cores,
        memory_mib=table.memory_mb,
        gpus=gpus,
        others=table.resources,
        most_on_node=1 if table.tasks is None else None,
        exclusive=table.exclusive,
        features=frozenset(table.features),
        partitions=frozenset(table.partitions),
        site_resources=table.site_resources,
    )


def requests_at(site: SiteFile, cluster: SiteNodes) -> dict[str, Request]:
    """What the jobs of each class request, as they get it (`SiteNodes.as_allocated`)."""
    return {table.name: cluster.as_allocated(request_of(table.request)) for table in site.job_classes}


def held_by_class(site: SiteFile, cluster: SiteNodes) -> dict[str, HeldResources]:
    """What a job of each class keeps from others; with whole nodes, the mean over those of the machine
    classes on which it ran."""
    class_of = {name: group.machine_class for group in site.machines for name in group.names}
    requests, found = requests_at(site, cluster), {}
    for table in site.job_classes:
        request, places = requests[table.name], table.sequential_s.keys() | table.commands.keys()
        there = cluster
        if request.exclusive:
            nodes = {name: node for name, node in cluster.nodes.items() if class_of[name] in places}
            there = replace(cluster, nodes=nodes)
        found[table.name] = there.held(request)
    return found


def never_satisfied(site: SiteFile) -> Iterator[tuple[str, str]]:
    """The job classes whose jobs are refused when they arrive, since the site cannot satisfy their requests
    even if all is free, each with a sentence.

    They are no mistakes: a log may have jobs for nodes and partitions that are gone.
    """
    if not site.partitions:
        return
    cluster = cluster_of(site)
    requests = requests_at(site, cluster)
    for table in site.job_classes:
        limit_s = None if table.request is None else table.request.time_limit_s
        why = cluster.unsatisfied(requests[table.name], limit_s)
        if why is not None:
            who = f"job class '{table.name}'"
            yield table.name, f"{who} requests {why}; such jobs are refused when they arrive"


def first_of(sentences: Sequence[str]) -> Iterator[str]:
    """The first of such sentences, of which there may be one for each of many job classes."""
    if sentences:
        more = f" (1 of {len(sentences):,} classes; for the others: sil db check)"
        yield sentences[0] + ("" if len(sentences) == 1 else more)


def request_columns(request: Request, time_limit_s: float | None) -> dict[str, Any]:
    """The columns of a row of `RequestRow`, which `request_of` reads back."""
    gpus, is_tasks = request.gpus, request.most_on_node is None
    return {
        "nodes": 1 if is_tasks else request.chunks,
        "tasks": request.chunks if is_tasks else None,
        "cores": float(request.cores),
        "memory_mb": request.memory_mib,
        "gpus": 0 if gpus is None else gpus.count,
        "gpu_share": 1.0 if gpus is None else gpus.share,
        "gpu_types": [] if gpus is None else sorted(gpus.types),
        "resources": {name: n for name, n in request.others.items() if n},
        "site_resources": {name: n for name, n in request.site_resources.items() if n},
        "features": sorted(request.features),
        "partitions": sorted(request.partitions),
        "exclusive": request.exclusive,
        "time_limit_s": time_limit_s,
    }


def with_cluster(site: SiteFile, cluster: SiteNodes) -> SiteFile:
    """The site with the nodes, partitions and resources of `cluster` in place of its own.

    Nodes of one specification are machines of one class, which keeps its name if the site has machines of
    that specification. A machine keeps its slots; if it keeps its class, it also keeps its rating, and
    whatever else `cluster` does not say. A partition that only nodes name has no limits. Clusters lose the
    members that are gone, and are left out without any. A job class that could run nowhere else may run on
    the nodes that satisfy it.
    """
    machines = [*_machines(site, cluster)]
    class_of = {table.names[0]: table.machine_class for table in machines}
    known = {table.name: table for table in site.machine_classes}
    members = {table.name: [name for name in table.members if name in class_of] for table in site.clusters}
    clusters = [table for table in site.clusters if members[table.name]]
    update: dict[str, Sequence[Table]] = {
        "machine_classes": [
            known.get(name) or MachineClassTable(name=name)
            for name in dict.fromkeys([*known, *class_of.values()])
        ],
        "machines": machines,
        "clusters": [x.model_copy(update={"members": tuple(members[x.name])}) for x in clusters],
        "partitions": [
            PartitionTable(
                name=name,
                nodes=tuple(nodes),
                **dict(
                    zip(_LIMITS, astuple(cluster.partitions.get(name, Partition(name)))[1:-1], strict=True)
                ),
            )
            for name, nodes in cluster.by_partition.items()
        ],
        "site_resources": [SiteResourceTable(name=x, amount=n) for x, n in cluster.site_resources.items()],
        "job_classes": [
            _runnable(table, {x.name for x in clusters}, cluster, class_of) for table in site.job_classes
        ],
    }
    tables = {key: tuple(some) for key, some in update.items()}
    topology = None if cluster.topology is None else TopologyTable(**vars(cluster.topology))
    return site.model_copy(update={**tables, "topology": topology})


def _machines(site: SiteFile, cluster: SiteNodes) -> Iterator[MachinesTable]:
    """One group for each node."""
    before = {name: group for group in site.machines for name in group.names}
    # Later groups first, so that the first of one specification counts.
    class_of = {
        _hardware(node_of(group), group.threads_per_core): group.machine_class
        for group in reversed(site.machines)
    }
    taken = {table.name for table in site.machine_classes}
    for name, node in cluster.nodes.items():
        has = node if cluster.has_memory else replace(node, memory_mib=0)
        threads, gpus = cluster.threads.get(name, 1), Counter(node.gpus)
        key = _hardware(has, threads)
        if key not in class_of:
            # The name of a new class is like "64-cpus-256000-mb-4-a100".
            parts = [f"{has.cores:g}-cpus", *([f"{has.memory_mib}-mb"] if has.memory_mib else [])]
            described = "-".join((*parts, *(f"{n}-{gpu_type}" for gpu_type, n in gpus.items())))
            names = chain([described], (f"{described}-{number}" for number in count(2)))
            class_of[key] = next(unused for unused in names if unused not in taken)
            taken.add(class_of[key])
        group = before.get(name)
        known = MachinesTable(
            names=(name,),
            machine_class=class_of[key],
            processors=int(node.cores),
            threads_per_core=threads,
            slots=1 if group is None else group.slots,
            memory_mb=float(has.memory_mib) or None,
            gpus=dict(gpus),
            resources=dict(node.others),
            features=tuple(node.features),
            switch=node.switch,
        )
        if group is not None and group.machine_class == class_of[key]:
            known = known.model_copy(update={key: getattr(group, key) for key in _NOT_OF_NODES})
        yield known


def _hardware(node: Node, threads: int) -> Hashable:
    """A key that is equal for nodes of one class, in whatever partitions they are."""
    plain = replace(node, gpus=tuple(sorted(node.gpus)), partitions=frozenset())
    return plain.specification, threads


_NOT_OF_NODES = ("storage_gb", "os", "rating", "interconnects")
"""What a cluster does not say of a machine."""


def _runnable(
    table: JobClassTable, clusters: set[str], cluster: SiteNodes, class_of: Mapping[str, str]
) -> JobClassTable:
    """The class without the times and commands of clusters that are gone, and allowed on the first nodes that
    satisfy it if it could run nowhere, as when all nodes are replaced. Its runs elsewhere then say what to
    expect."""
    kept: dict[str, Any] = {
        key: {name: value for name, value in getattr(table, key).items() if name in clusters}
        for key in ("parallel_s", "parallel_commands")
    }
    sequential = table.sequential_s.keys() | table.commands.keys()
    if not (table.in_isolation or any(kept.values())) and sequential.isdisjoint(class_of.values()):
        node = cluster.first_for(request_of(table.request)) or next(iter(class_of))
        kept["commands"] = {**table.commands, class_of[node]: ""}
    return table.model_copy(update=kept)
