"""A site's machines as nodes of partitions, and other nodes in place of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from scheduler.node_request import Gpus, Node, Partition, Request
from site_db.site_file.cluster import Cluster, Held
from site_db.site_file.tables import (
    ClusterTable,
    JobClassTable,
    MachineClassTable,
    MachinesTable,
    PartitionTable,
    RequestTable,
    SiteFile,
    SiteResourceTable,
)


def cluster_of(site: SiteFile) -> Cluster:
    """The machines of a site as nodes. Memory counts if some machine states it."""
    partitions_of: dict[str, set[str]] = {name: set() for group in site.machines for name in group.names}
    for partition in site.partitions:
        for name in partition.nodes:
            if name in partitions_of:  # otherwise it is a mistake in the file, which is reported
                partitions_of[name].add(partition.name)
    nodes, threads = {}, {}
    for group in site.machines:
        for name in group.names:
            nodes[name] = node_of(group, frozenset(partitions_of[name]))
            threads[name] = group.threads_per_core
    return Cluster(
        nodes,
        {partition.name: _partition(partition) for partition in site.partitions},
        threads,
        has_memory=any(group.memory_mb is not None for group in site.machines),
        site_resources={table.name: table.amount for table in site.site_resources},
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
    )


def _partition(table: PartitionTable) -> Partition:
    return Partition(table.name, table.max_time_s, table.max_nodes, table.exclusive, table.default_time_s)


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


def requests_at(site: SiteFile, cluster: Cluster) -> dict[str, Request]:
    """What the jobs of each class request, as they get it (`Cluster.as_allocated`)."""
    return {table.name: cluster.as_allocated(request_of(table.request)) for table in site.job_classes}


def held_by_class(site: SiteFile, cluster: Cluster) -> dict[str, Held]:
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


def request_table(request: Request, time_limit_s: float | None) -> RequestTable:
    """The inverse of `request_of`."""
    gpus = request.gpus
    size = {"tasks": request.chunks} if request.most_on_node is None else {"nodes": request.chunks}
    return RequestTable(
        **size,
        cores=float(request.cores),
        memory_mb=request.memory_mib,
        gpus=0 if gpus is None else gpus.count,
        gpu_share=1.0 if gpus is None else gpus.share,
        gpu_types=() if gpus is None else tuple(gpus.types),
        resources={name: n for name, n in request.others.items() if n},
        site_resources={name: n for name, n in request.site_resources.items() if n},
        features=tuple(request.features),
        partitions=tuple(request.partitions),
        exclusive=request.exclusive,
        time_limit_s=time_limit_s,
    )


def with_cluster(site: SiteFile, cluster: Cluster) -> SiteFile:
    """The site with the nodes, partitions and resources of `cluster` in place of its own.

    Nodes of one specification are machines of one class, which keeps its name if the site has machines of
    that specification. A machine keeps its slots; if it keeps its class, it also keeps its rating, and
    whatever else `cluster` does not tell. A partition that only nodes name has no limits. Clusters lose the
    members that are gone, and are left out without any. A job class that could run nowhere else may run on
    the nodes that satisfy it.
    """
    machines = _machines(site, cluster)
    clusters = [
        table for table in (_with_members(table, cluster) for table in site.clusters) if table.members
    ]
    known = {table.name: table for table in site.machine_classes}
    class_of = {table.names[0]: table.machine_class for table in machines}
    names = {table.name for table in clusters}
    update = {
        "machine_classes": tuple(
            known.get(name) or MachineClassTable(name=name)
            for name in dict.fromkeys([*known, *class_of.values()])
        ),
        "machines": tuple(machines),
        "clusters": tuple(clusters),
        "partitions": tuple(_partitions(cluster)),
        "site_resources": tuple(
            SiteResourceTable(name=name, amount=n) for name, n in cluster.site_resources.items()
        ),
        "job_classes": tuple(
            _runnable(_without_clusters(table, names), cluster, class_of) for table in site.job_classes
        ),
    }
    return site.model_copy(update=update)


def _machines(site: SiteFile, cluster: Cluster) -> list[MachinesTable]:
    """One group for each node."""
    before = {name: group for group in site.machines for name in group.names}
    # Later groups first, so that the first of one specification counts.
    class_of = {
        _hardware(node_of(group), group.threads_per_core): group.machine_class
        for group in reversed(site.machines)
    }
    taken = {table.name for table in site.machine_classes}
    machines = []
    for name, node in cluster.nodes.items():
        has = node if cluster.has_memory else replace(node, memory_mib=0)
        threads = cluster.threads.get(name, 1)
        key = _hardware(has, threads)
        if key not in class_of:
            class_of[key] = _unused(_describe(has), taken)
            taken.add(class_of[key])
        group = before.get(name)
        is_new = group is None or group.machine_class != class_of[key]
        told = MachinesTable(
            names=(name,),
            machine_class=class_of[key],
            processors=int(node.cores),
            threads_per_core=threads,
            slots=1 if group is None else group.slots,
            memory_mb=float(has.memory_mib) or None,
            gpus=dict(Counter(node.gpus)),
            resources=dict(node.others),
            features=tuple(node.features),
        )
        untold = {} if group is None or is_new else {key: getattr(group, key) for key in _UNTOLD}
        machines.append(told.model_copy(update=untold))
    return machines


def _hardware(node: Node, threads: int) -> Hashable:
    """Equal for nodes of one class, in whatever partitions they are."""
    plain = replace(node, gpus=tuple(sorted(node.gpus)), partitions=frozenset())
    return plain.specification, threads


_UNTOLD = ("storage_gb", "os", "rating", "interconnects")
"""What a cluster does not tell of a machine."""


def _describe(node: Node) -> str:
    """The name of a new class, like "64-cpus-256000-mb-4-a100"."""
    parts = [f"{node.cores:g}-cpus", f"{node.memory_mib}-mb" if node.memory_mib else ""]
    parts += [f"{n}-{gpu_type}" for gpu_type, n in Counter(node.gpus).items()]
    return "-".join(filter(None, parts))


def _unused(name: str, names: set[str]) -> str:
    number = 2
    unused = name
    while unused in names:
        unused, number = f"{name}-{number}", number + 1
    return unused


def _partitions(cluster: Cluster) -> Iterator[PartitionTable]:
    members: dict[str, list[str]] = {name: [] for name in cluster.partitions}
    for name, node in cluster.nodes.items():
        for partition in sorted(node.partitions):
            members.setdefault(partition, []).append(name)
    for name, nodes in members.items():
        limits = cluster.partitions.get(name, Partition(name))
        yield PartitionTable(
            name=name,
            nodes=tuple(nodes),
            max_time_s=limits.max_time_s,
            default_time_s=limits.default_time_s,
            max_nodes=limits.max_nodes,
            exclusive=limits.is_exclusive,
        )


def _with_members(table: ClusterTable, cluster: Cluster) -> ClusterTable:
    members = tuple(name for name in table.members if name in cluster.nodes)
    return table.model_copy(update={"members": members})


def _without_clusters(table: JobClassTable, names: set[str]) -> JobClassTable:
    """Without the times and commands of clusters that are gone."""
    kept = {
        key: {name: value for name, value in getattr(table, key).items() if name in names}
        for key in ("parallel_s", "parallel_commands")
    }
    return table.model_copy(update=kept)


def _runnable(table: JobClassTable, cluster: Cluster, class_of: Mapping[str, str]) -> JobClassTable:
    """The class, allowed on the first nodes that satisfy it if it could run nowhere, as when all nodes are
    replaced. Its runs elsewhere then tell what to expect."""
    sequential = table.sequential_s.keys() | table.commands.keys()
    if table.in_isolation or table.parallel_s or table.parallel_commands:
        return table
    if not sequential.isdisjoint(class_of.values()):
        return table
    node = cluster.first_for(request_of(table.request)) or next(iter(class_of))
    return table.model_copy(update={"commands": {**table.commands, class_of[node]: ""}})
