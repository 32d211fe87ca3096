"""Whether the nodes of a `slurm.conf` are those of the world."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from scheduler import UserError
from scheduler.messages import abbreviated, counted
from scheduler.node_request import Node
from site_db.site_file.cluster import Cluster


def check_nodes(path: Path, theirs: Cluster, ours: Cluster) -> None:
    """Raises UserError if a configuration's nodes are not those of the world, of these sizes."""
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


def _size(node: Node, theirs: Cluster) -> tuple[object, ...]:
    return node.cores, node.memory_mib if theirs.has_memory else 0, Counter(node.gpus), {**node.others}
