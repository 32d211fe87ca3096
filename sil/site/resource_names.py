"""The names of the resources to which indices in a trace refer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ResourceNames:
    """Machines, then clusters; or the nodes of a time-shared cluster."""

    site: str
    names: tuple[str, ...]
    time_shared_cluster: str | None = None

    def resource(self, index: int | None) -> str | None:
        """The name of a resource; -1, the index of runs on time-shared nodes, is their cluster."""
        if index is None:
            return None
        return self.time_shared_cluster if index < 0 else self.names[index]
