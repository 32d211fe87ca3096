"""The configuration for a cluster without a `slurm.conf`, and whether a given one has the same nodes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from pathlib import Path
from types import MappingProxyType

from scheduler.messages import UserError, abbreviated, counted
from scheduler.node_request import UNTYPED, Node, Partition
from sil.slurm.configuration import OWN, Configuration, gres_conf
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.machine_names import fold

MAX_CPUS = 65_000
"""The most CPUs of a node and of a task: Slurm counts them in 16 bits, of which the last values have
meanings."""
EMPTY = '""'
"""A list of no nodes."""
_PLAIN = re.compile(r"\w[\w.@-]*", re.ASCII)
_NO_PRIORITIES: Mapping[str, int] = MappingProxyType({})


def configuration_for(cluster: SiteNodes, priorities: Mapping[str, int] = _NO_PRIORITIES) -> Configuration:
    """A configuration with Slurm's own defaults, with backfilling, for these nodes and partitions; jobs share
    nodes by CPUs, memory (if the cluster has it) and GPUs.

    Partitions with higher `priorities` are served first, in tiers. Jobs that name no partition may use all
    nodes. Raises UserError for a name or a number that `slurm.conf` cannot have."""
    _check_names(cluster)
    nodes = [*_node_lines(cluster)]
    resources = sorted(
        {"gpu"} & {"gpu" for node in cluster.nodes.values() if node.gpus}
        | {name for node in cluster.nodes.values() for name in node.others}
    )
    licences = ",".join(f"{name}:{n}" for name, n in cluster.site_resources.items())
    lines = (
        *OWN,
        "SelectType=select/cons_tres",
        f"SelectTypeParameters={'CR_Core_Memory' if cluster.has_memory else 'CR_Core'}",
        # A job that requests no memory has all of its nodes otherwise.
        *(("DefMemPerCPU=1",) if cluster.has_memory else ()),
        *((f"GresTypes={','.join(resources)}",) if resources else ()),
        *((f"Licenses={licences}",) if licences else ()),
        *nodes,
        *_partition_lines(cluster, priorities),
    )
    return Configuration(lines, files={"gres.conf": gres_conf(nodes)})


def _node_lines(cluster: SiteNodes) -> Iterator[str]:
    """A line for each sort of nodes."""
    alike: dict[str, list[str]] = {}
    for name, node in cluster.nodes.items():
        alike.setdefault(_described(name, node, cluster), []).append(name)
    for described, names in alike.items():
        yield f"NodeName={','.join(fold(names))} {described} State=UNKNOWN"


def _described(name: str, node: Node, cluster: SiteNodes) -> str:
    cpus = int(node.cores)
    if not 1 <= cpus <= MAX_CPUS:
        raise UserError(
            f"node {name} has {node.cores:g} CPUs, and Slurm's nodes have whole ones, from 1 to "
            f"{MAX_CPUS:,}; use another scheduler, or other nodes"
        )
    threads = cluster.threads.get(name, 1)
    if cpus % threads:
        threads = 1
    gpus = (f"gpu:{n}" if kind == UNTYPED else f"gpu:{kind}:{n}" for kind, n in Counter(node.gpus).items())
    gres = ",".join((*gpus, *(f"{resource}:{n}" for resource, n in sorted(node.others.items()))))
    words = {
        "CPUs": cpus,
        "Sockets": 1,
        "CoresPerSocket": cpus // threads,
        "ThreadsPerCore": threads,
        "RealMemory": max(1, node.memory_mib),
        "Gres": gres,
        "Feature": ",".join(sorted(node.features)),
    }
    return " ".join(f"{key}={value}" for key, value in words.items() if value != "")


def _partition_lines(cluster: SiteNodes, priorities: Mapping[str, int]) -> Iterator[str]:
    members = cluster.by_partition
    lowest = min((0, *priorities.values()))
    # That of jobs which name none; a name that no partition has.
    anywhere = next(name for name in ("all", *map("all{}".format, range(1000))) if name not in members)
    hidden = "YES" if members else "NO"
    yield f"PartitionName={anywhere} Nodes=ALL Default=YES Hidden={hidden} MaxTime=INFINITE State=UP"
    for limits in cluster.limits_of(members):
        tier = 1 + priorities.get(limits.name, 0) - lowest
        yield " ".join(_partition_words(limits, members[limits.name], tier))


def _partition_words(partition: Partition, nodes: Iterable[str], tier: int) -> Iterator[str]:
    yield f"PartitionName={partition.name} Nodes={','.join(fold(nodes)) or EMPTY} State=UP"
    yield f"MaxTime={_minutes(partition.max_time_s)}"
    if partition.default_time_s is not None:
        yield f"DefaultTime={_minutes(partition.default_time_s)}"
    if partition.max_nodes is not None:
        yield f"MaxNodes={partition.max_nodes}"
    if partition.is_exclusive:
        yield "OverSubscribe=EXCLUSIVE"
    yield f"PriorityTier={tier}"


def _minutes(time_s: float | None) -> str:
    return "INFINITE" if time_s is None else str(ceil(time_s / 60))


def _check_names(cluster: SiteNodes) -> None:
    named = {
        "node": cluster.nodes,
        "partition": [name for name, nodes in cluster.by_partition.items() if nodes],
        "feature": {name for node in cluster.nodes.values() for name in node.features},
        "type of GPUs": {kind for node in cluster.nodes.values() for kind in node.gpus},
        "resource": {name for node in cluster.nodes.values() for name in node.others},
        "licence": cluster.site_resources,
    }
    for what, names in named.items():
        for name in names:
            if not _PLAIN.fullmatch(name):
                raise UserError(
                    f"the {what} '{name}' cannot be named in slurm.conf, which takes letters, digits and "
                    f"_ . - only; rename it, or use another scheduler"
                )


def check_nodes(path: Path, theirs: SiteNodes, ours: SiteNodes) -> None:
    """Raise UserError if a configuration's nodes are not those of the world, of these sizes."""
    missing = ours.nodes.keys() - theirs.nodes.keys()
    further = theirs.nodes.keys() - ours.nodes.keys()
    differ = {
        name
        for name in ours.nodes.keys() & theirs.nodes.keys()
        if _size(theirs.nodes[name], theirs) != _size(ours.nodes[name], theirs)
    }
    for names, what in (
        (missing, "lacks"),
        (further, "has, beside those of the jobs,"),
        (differ, "has, with other CPUs, memory or GPUs,"),
    ):
        if names:
            raise UserError(
                f"{path} {what} {counted(len(names), 'node')} ({abbreviated(sorted(names))}); expected the "
                f"nodes on which the jobs run: read the log with the nodes of that file, or change a "
                f"copy of it"
            )


def _size(node: Node, theirs: SiteNodes) -> tuple[object, ...]:
    return node.cores, node.memory_mib if theirs.has_memory else 0, Counter(node.gpus), {**node.others}
