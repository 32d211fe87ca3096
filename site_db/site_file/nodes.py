"""The nodes, partitions and requests of a site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scheduler.node_request import Gpus, Node, Partition, Request
from site_db.site_file.cluster import Cluster, Held
from site_db.site_file.tables import MachinesTable, PartitionTable, RequestTable, SiteFile


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
