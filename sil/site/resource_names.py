"""What the indices in a trace stand for at the site."""

from __future__ import annotations

from dataclasses import dataclass

from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import SiteInUse
from sil.site.time_shared_cluster import NodesOfSite


@dataclass(frozen=True)
class Places:
    """The names of what an experiment runs on: machines, then clusters, or the nodes of a shared cluster."""

    site: str
    names: tuple[str, ...]
    shared_cluster: str | None = None

    @classmethod
    def of(cls, experiment: Experiment, in_use: SiteInUse) -> Places:
        if experiment.shared_nodes is None:
            return cls(in_use.site.name, in_use.site.resource_names)
        nodes = NodesOfSite.of(in_use.file, experiment.shared_nodes.cluster)
        return cls(in_use.site.name, nodes.names, nodes.cluster)

    def resource(self, index: int | None) -> str | None:
        """The name of a resource; a run on shared nodes (-1) is on their cluster."""
        if index is None:
            return None
        return self.shared_cluster if index < 0 else self.names[index]
