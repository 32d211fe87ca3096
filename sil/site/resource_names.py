"""The names of the resources to which indices in a trace refer."""

from __future__ import annotations

from dataclasses import dataclass

from site_db.estimation import Layout


@dataclass(frozen=True)
class ResourceNames:
    """Machines, each slot as one, then clusters; or the nodes of a time-shared cluster, or of partitions."""

    site: str
    names: tuple[str, ...]
    time_shared_cluster: str | None = None
    layout: Layout | None = None
    """That of machines with slots, of which only the machines are in a database; None: nodes."""
    node_classes: tuple[str, ...] = ()
    """The machine class of each node of partitions, for which runs there count."""

    def recorded(self, index: int | None, n: int = 1) -> tuple[str | None, int]:
        """The name in a database of what a run on `n` machines held, and the number of machines there.

        A run on -1, the index of time-shared nodes, held their cluster; one on nothing has no name.
        """
        if index is None or index < 0:
            return None if index is None else self.time_shared_cluster, n
        if self.layout is None:
            return self.names[index], n
        place, machines = self.layout.slots.place(index, n)
        return self.layout.resources[place], machines

    def machine_class(self, node: int | None) -> str | None:
        """None unless it is in partitions."""
        return None if node is None or not self.node_classes else self.node_classes[node]
