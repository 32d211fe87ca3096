"""The names of the resources to which indices in a trace refer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResourceNames:
    """Machines, then clusters; or the nodes of a time-shared cluster, or of partitions."""

    site: str
    names: tuple[str, ...]
    time_shared_cluster: str | None = None
    node_classes: tuple[str, ...] = ()
    """The machine class of each node of partitions, for which runs there count."""

    def resource(self, index: int | None) -> str | None:
        """The name of a resource; -1, the index of runs on time-shared nodes, is their cluster."""
        if index is None:
            return None
        return self.time_shared_cluster if index < 0 else self.names[index]

    def machine_class(self, nodes: str | None) -> str | None:
        """That of the first of some nodes, as intervals of indices; None unless they are in partitions."""
        if not nodes or not self.node_classes:
            return None
        return self.node_classes[int(nodes.partition(" ")[0].partition("-")[0])]
