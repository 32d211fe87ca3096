"""A site with what is known of it, copied into another database, to be used there without a trace here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from site_db.history import Key, read_kept_as_of
from site_db.importing import put_site
from site_db.schema import ExecutionSnapshotRow, ExecutionStatisticsRow, SiteRow
from site_db.schema.resources import OfSite
from site_db.sites import SiteReader
from site_db.states import Seen, current_states, record_state


def copy_site(origin: Session, site: str, copy: Session, as_of: int | None = None) -> int:
    """Copy a site, its current states and its statistics as of a run (the last one without `as_of`).

    The runs themselves stay behind: to the copy they are pruned, and the next one has the next number.
    Returns the number of the last run. Raises UnknownSite, PrunedHistory.
    """
    there = SiteReader(origin, site)
    number = there.site.runs_recorded if as_of is None else as_of
    kept = read_kept_as_of(origin, there.site.id, number)
    with_history = {key.job_class_id for key in kept}
    experienced = {k.name for k in there.job_classes if k.id in with_history}
    site_id = put_site(copy, there.as_file(), experienced).id
    here = SiteReader(copy, site)
    translate = _translation(there, here)
    translated = {translate(key): one for key, one in kept.items()}
    if translated:
        ids = copy.scalars(
            insert(ExecutionStatisticsRow).returning(ExecutionStatisticsRow.id, sort_by_parameter_order=True),
            [{**key._asdict(), **one.columns(), "changed_at": number} for key, one in translated.items()],
        ).all()
        copy.execute(
            insert(ExecutionSnapshotRow),
            [
                {"statistics_id": id, "number": number, **one.columns()}
                for id, one in zip(ids, translated.values(), strict=True)
            ],
        )
    copy.execute(
        update(SiteRow)
        .where(SiteRow.id == site_id)
        .values(runs_recorded=number, runs_pruned=number, snapshot_at=number)
    )
    states = current_states(origin, there)
    for name, of_machine in states.machines.items():
        seen = Seen(of_machine.up, local_load=of_machine.local_load)
        record_state(copy, here, name, seen, of_machine.since_unix_s)
    for name, of_line in states.interconnects.items():
        traffic, committed = of_line.traffic_mbit_per_s, of_line.committed_mbit_per_s
        seen = Seen(of_line.up, traffic_mbit_per_s=traffic, committed_mbit_per_s=committed)
        record_state(copy, here, name, seen, of_line.since_unix_s)
    return number


def _translation(there: SiteReader, here: SiteReader) -> Callable[[Key], Key]:
    """From the ids of one database to those of the other, where everything is in the same order."""

    def ids(rows: Sequence[OfSite], others: Sequence[OfSite]) -> Mapping[int | None, int]:
        return {one.id: other.id for one, other in zip(rows, others, strict=True)}

    job_classes = ids(there.job_classes, here.job_classes)
    machine_classes = ids(there.machine_classes, here.machine_classes)
    machines = ids(there.machines, here.machines)
    clusters = ids(there.clusters, here.clusters)
    return lambda key: Key(
        job_classes[key.job_class_id],
        machine_classes.get(key.machine_class_id),
        machines.get(key.machine_id),
        clusters.get(key.cluster_id),
        key.members,
    )
