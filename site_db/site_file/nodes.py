"""The nodes, partitions and requests of a site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from scheduler.node_request import Gpus, Node, Partition, Request, alike
from site_db.site_file.cluster import Cluster
from site_db.site_file.tables import (
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
            nodes[name] = _node(group, frozenset(partitions_of[name]))
            threads[name] = group.threads_per_core
    return Cluster(
        nodes,
        {partition.name: _partition(partition) for partition in site.partitions},
        threads,
        has_memory=any(group.memory_mb is not None for group in site.machines),
        site_resources={table.name: table.amount for table in site.site_resources},
    )


def _node(group: MachinesTable, partitions: frozenset[str]) -> Node:
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
    """What the jobs of each class request: whole nodes where their partitions are exclusive."""
    found = {table.name: request_of(table.request) for table in site.job_classes}
    return {
        name: replace(request, exclusive=True) if cluster.takes_whole_nodes(request.partitions) else request
        for name, request in found.items()
    }


def never_satisfied(site: SiteFile) -> Iterator[tuple[str, str]]:
    """The job classes whose requests the site cannot satisfy even if all is free, each with a sentence.

    They are no mistakes: a log may have jobs for nodes that are gone.
    """
    cluster = cluster_of(site)
    sorts = alike(cluster.nodes.values())
    for name, request in requests_at(site, cluster).items() if site.partitions else ():
        who = f"job class '{name}' requests {request}"
        beyond = request.beyond(cluster.site_resources)
        if beyond is not None:
            yield name, f"{who}; the site has {beyond}"
        elif sum(request.chunks_on(node) * n for node, n in sorts) < request.chunks:
            yield name, f"{who}, which the nodes cannot satisfy even if all are free"


def request_table(request: Request, time_limit_s: float | None) -> RequestTable:
    """The inverse of `request_of`."""
    gpus = request.gpus or Gpus(0)
    size = {"tasks": request.chunks} if request.most_on_node is None else {"nodes": request.chunks}
    return RequestTable(
        **size,
        cores=float(request.cores),
        memory_mb=request.memory_mib,
        gpus=gpus.count,
        gpu_share=gpus.share,
        gpu_types=tuple(gpus.types),
        resources=dict(request.others),
        site_resources=dict(request.site_resources),
        features=tuple(request.features),
        partitions=tuple(request.partitions),
        exclusive=request.exclusive,
        time_limit_s=time_limit_s,
    )


def with_cluster(site: SiteFile, cluster: Cluster) -> SiteFile:
    """The site with the nodes and partitions of `cluster` in place of its own.

    Nodes of one specification are machines of one class, which keeps its name if the site has machines of
    that specification.
    """
    if not cluster.has_memory:
        nodes = {name: replace(node, memory_mib=0) for name, node in cluster.nodes.items()}
        cluster = replace(cluster, nodes=nodes)
    class_of = {_specification(node): name for node, name in _classes_of(site)}
    names = Counter(table.name for table in site.machine_classes)
    machines = []
    for name, node in cluster.nodes.items():
        machine_class = class_of.get(key := _specification(node))
        if machine_class is None:
            machine_class = class_of[key] = _unused(_describe(node), names)
            names[machine_class] += 1
        machines.append(_machine(name, node, machine_class, cluster))
    members: dict[str, list[str]] = {name: [] for name in cluster.partitions}
    for name, node in cluster.nodes.items():
        for partition in node.partitions:
            members.setdefault(partition, []).append(name)
    partitions = [
        PartitionTable(
            name=name,
            nodes=tuple(nodes),
            max_time_s=limits.max_time_s,
            default_time_s=limits.default_time_s,
            max_nodes=limits.max_nodes,
            exclusive=limits.is_exclusive,
        )
        for name, nodes in members.items()
        for limits in [cluster.partitions.get(name, Partition(name))]
    ]
    update = {
        "machine_classes": tuple(
            {t.name: t for t in site.machine_classes}.get(name) or MachineClassTable(name=name)
            for name in dict.fromkeys([*(t.name for t in site.machine_classes), *class_of.values()])
        ),
        "machines": tuple(machines),
        "partitions": tuple(partitions),
        "site_resources": tuple(
            SiteResourceTable(name=name, amount=n) for name, n in cluster.site_resources.items()
        ),
    }
    return site.model_copy(update=update)


def _classes_of(site: SiteFile) -> Iterator[tuple[Node, str]]:
    """Later groups first, so that the first of one specification counts."""
    for group in reversed(site.machines):
        yield _node(group, frozenset()), group.machine_class


def _specification(node: Node) -> object:
    return (
        node.cores,
        node.memory_mib,
        tuple(sorted(node.gpus)),
        tuple(sorted(node.others.items())),
        node.features,
    )


def _describe(node: Node) -> str:
    """The name of a new class, like "64-cores-256000-mb-4-a100"."""
    parts = [f"{node.cores:g}-cores", f"{node.memory_mib}-mb" if node.memory_mib else ""]
    parts += [f"{n}-{gpu_type}" for gpu_type, n in Counter(node.gpus).items()]
    return "-".join(filter(None, parts))


def _unused(name: str, names: Counter[str]) -> str:
    number = 2
    unused = name
    while unused in names:
        unused, number = f"{name}-{number}", number + 1
    return unused


def _machine(name: str, node: Node, machine_class: str, cluster: Cluster) -> MachinesTable:
    return MachinesTable(
        names=(name,),
        machine_class=machine_class,
        processors=int(node.cores),
        threads_per_core=cluster.threads.get(name, 1),
        memory_mb=float(node.memory_mib) if cluster.has_memory else None,
        gpus=dict(Counter(node.gpus)),
        resources=dict(node.others),
        features=tuple(node.features),
    )
