"""All listings of a site."""

from __future__ import annotations

from sqlalchemy.orm import Session

from sil.report.listing import Listing
from sil.site.listings import experience, resources
from site_db.site_file.nodes import cluster_of
from site_db.sites import SiteReader
from site_db.states import current_states


def overview(session: Session, site: str) -> list[Listing]:
    """Machines, partitions, clusters, states, queues, users, expected times, measurements in isolation and
    predictions. Raises UserError."""
    reader = SiteReader(session, site)
    states = current_states(session, reader)
    cluster = cluster_of(reader.as_file())
    return [
        resources.machines(reader, states),
        resources.partitions(cluster),
        resources.site_resources(cluster),
        resources.clusters(reader, states),
        resources.states(states),
        resources.queues(session, reader),
        resources.users(session, reader),
        experience.expected_times(session, site),
        experience.measured_in_isolation(reader),
        experience.predictions(session, reader),
    ]
