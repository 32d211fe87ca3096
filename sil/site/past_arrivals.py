"""Jobs drawn at random as they arrived in the past of a site."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler import UserError
from sil.settings.experiment_file import PoissonTable, WorkloadTable
from sil.settings.log_tables import HistoryTable
from site_db import sites, store
from site_db.jobs.arrived import what_arrived
from site_db.rows import ids_of
from site_db.schema import QueueRow
from site_db.site_file.tables import QueueTable
from site_db.store import Address

QUANTUM_S = 10.0


def past_arrivals(
    history: HistoryTable, queues: Sequence[QueueTable], address: Address | None
) -> WorkloadTable | None:
    """The workload for `[history] jobs`; None if weeks are drawn instead, which are read with the site.

    Jobs of queues that no longer exist (`queues`, or else those of the site) are distributed like the others.
    Raises UserError and DatabaseTrouble.
    """
    if history.jobs is None:
        return None
    if address is None:
        raise UserError("the arriving jobs are those of a site's history; name its database with --site")
    with store.opened(address) as session:
        site = sites.find_site(session, sites.site_at(session, address))
        arrived = what_arrived(session, site.id, site.name, history.days)
        known = [table.name for table in queues] or list(ids_of(session, QueueRow, site.id))
    per_quantum = arrived.per_s * history.load * QUANTUM_S
    return WorkloadTable(
        jobs=history.jobs,
        arrivals=PoissonTable(kind="poisson", jobs_per_quantum=per_quantum, quantum_s=QUANTUM_S),
        mix=dict(arrived.job_classes),
        queues={name: share for name, share in arrived.queues.items() if name in known},
        users=dict(arrived.users),
        sizes=dict(arrived.sizes),
    )
