"""A site with what is known of it, copied into another database, to be used there without a trace here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.orm import Session

from site_db.history.as_of import read_kept_as_of
from site_db.history.whole_run import Key
from site_db.schema import (
    ClusterStateRow,
    ExecutionSnapshotRow,
    ExecutionStatisticsRow,
    InterconnectStateRow,
    MachineStateRow,
    SiteRow,
)
from site_db.schema.resources import OfSite
from site_db.site_file.importing import put_site
from site_db.sites import SiteReader
from site_db.states import CurrentStates, current_states


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
    _copy_states(current_states(origin, there), here, copy)
    return number


def _copy_states(states: CurrentStates, here: SiteReader, copy: Session) -> None:
    kinds: list[tuple[type[Any], str, Sequence[OfSite], Mapping[str, Any]]] = [
        (MachineStateRow, "machine_id", here.machines, states.machines),
        (InterconnectStateRow, "interconnect_id", here.interconnects, states.interconnects),
        (ClusterStateRow, "cluster_id", here.clusters, states.clusters),
    ]
    for row, owner, owners, of_owners in kinds:
        columns = [c.key for c in row.__table__.columns if c.key not in ("id", owner)]
        rows = [
            {owner: one.id, **{c: getattr(of_owners[one.name], c) for c in columns}}
            for one in owners
            if one.name in of_owners
        ]
        if rows:
            copy.execute(insert(row), rows)


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
