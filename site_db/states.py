"""Current and previous states of a site's machines, interconnects and clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session, aliased

from site_db.schema import (
    ClusterStateRow,
    InterconnectStateRow,
    MachineStateRow,
)
from site_db.sites import SiteReader


class UnknownResource(ValueError):
    """The site has no machine or interconnect of that name. The message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a machine or an interconnect; None = nothing was said of that.

    `local_load` are processors that local users of a machine keep busy; the traffic and the committed
    bandwidth of an interconnect are in Mbit/s.
    """

    up: bool
    local_load: float | None = None
    traffic_mbit_per_s: float | None = None
    committed_mbit_per_s: float | None = None


@dataclass(frozen=True)
class CurrentStates:
    """The latest rows by name; what has none was never heard of, and is taken to be up."""

    machines: Mapping[str, MachineStateRow]
    interconnects: Mapping[str, InterconnectStateRow]
    clusters: Mapping[str, ClusterStateRow]

    @property
    def down(self) -> list[str]:
        """Names of the machines and interconnects that are down."""
        machines = [name for name, state in self.machines.items() if not state.up]
        return machines + [name for name, state in self.interconnects.items() if not state.up]


def current_states(session: Session, reader: SiteReader) -> CurrentStates:
    """The states of a site as they were last told by the site itself."""
    return CurrentStates(
        _latest(session, MachineStateRow, "machine_id", reader.machines),
        _latest(session, InterconnectStateRow, "interconnect_id", reader.interconnects),
        _latest(session, ClusterStateRow, "cluster_id", reader.clusters),
    )


def record_state(
    session: Session,
    reader: SiteReader,
    name: str,
    seen: Seen,
    at_unix_s: float,
    source_id: int | None = None,
) -> None:
    """Add what was seen of a machine or an interconnect, and what follows from it for clusters.

    Raises UnknownResource.
    """
    machine = next((m for m in reader.machines if m.name == name), None)
    line = next((x for x in reader.interconnects if x.name == name), None)
    common = {"source_id": source_id, "since_unix_s": at_unix_s, "up": seen.up}
    if machine is not None:
        session.add(MachineStateRow(machine_id=machine.id, local_load=seen.local_load, **common))
    elif line is not None:
        session.add(
            InterconnectStateRow(
                interconnect_id=line.id,
                traffic_mbit_per_s=seen.traffic_mbit_per_s,
                committed_mbit_per_s=seen.committed_mbit_per_s,
                **common,
            )
        )
    else:
        raise UnknownResource(f"the site '{reader.site.name}' has no machine or interconnect '{name}'")
    session.flush()
    if source_id is None:
        _follow_in_clusters(session, reader, name, at_unix_s)


def _follow_in_clusters(session: Session, reader: SiteReader, name: str, at_unix_s: float) -> None:
    states = current_states(session, reader)
    down = set(states.down)
    for row, cluster in zip(reader.clusters, reader.as_scheduled().clusters, strict=True):
        if name not in cluster.members and name not in cluster.interconnects:
            continue
        available = sum(member not in down for member in cluster.members)
        connected = not cluster.interconnects or not down.issuperset(cluster.interconnects)
        accepts = connected and available > 0 and available / len(cluster.members) >= cluster.least_share
        before = states.clusters.get(cluster.name)
        if before is None or (before.available_members, before.accepts_parallel) != (available, accepts):
            session.add(
                ClusterStateRow(
                    cluster_id=row.id,
                    since_unix_s=at_unix_s,
                    available_members=available,
                    accepts_parallel=accepts,
                )
            )
    session.flush()


def _latest(session: Session, row: Any, column: str, owners: Any) -> dict[str, Any]:
    names = {owner.id: owner.name for owner in owners}
    earlier = aliased(row)
    # The row that was told last holds, also where a clock was put back.
    last = (
        select(func.max(earlier.id))
        .where(getattr(earlier, column) == getattr(row, column), earlier.source_id.is_(None))
        .scalar_subquery()
    )
    query = select(row).where(getattr(row, column).in_(names), row.source_id.is_(None), row.id == last)
    return {names[getattr(state, column)]: state for state in session.scalars(query)}
