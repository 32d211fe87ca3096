"""A forecast from the past arrivals at a site."""

from __future__ import annotations

from sil.planning.plan_file import Plan
from sil.settings.experiment_file import PoissonTable, WorkloadTable
from site_db import sites, store
from site_db.jobs.arrived import NothingArrived, what_arrived
from site_db.rows import ids_of
from site_db.schema import QueueRow
from site_db.store import Address

QUANTUM_S = 10.0


def with_forecast(plan: Plan, address: Address | None) -> Plan:
    """The plan with its history read, if it has one. Jobs of queues that no longer exist are distributed like
    the others. Raises NothingArrived and DatabaseTrouble."""
    if plan.history is None:
        return plan
    if address is None:
        raise NothingArrived(
            "the forecast of this plan is the history of a site; name its database with --site"
        )
    engine = store.open_database(address)
    try:
        with store.reading(engine) as session:
            site = sites.find_site(session, address.site or sites.only_site(session))
            arrived = what_arrived(session, site.id, site.name, plan.history.days)
            known = [table.name for table in plan.queues] or list(ids_of(session, QueueRow, site.id))
    finally:
        engine.dispose()
    per_quantum = arrived.per_s * plan.history.load * QUANTUM_S
    workload = WorkloadTable(
        jobs=plan.history.jobs,
        arrivals=PoissonTable(kind="poisson", jobs_per_quantum=per_quantum, quantum_s=QUANTUM_S),
        mix=dict(arrived.job_classes),
        queues={name: share for name, share in arrived.queues.items() if name in known},
        users=dict(arrived.users),
        sizes=dict(arrived.sizes),
    )
    return plan.model_copy(update={"workload": workload})
