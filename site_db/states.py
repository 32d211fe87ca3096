"""States of a site's machines, interconnects and clusters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from scheduler import UserError
from site_db import schema
from site_db.schema.resources import OfSite
from site_db.sites import SiteReader


@dataclass(frozen=True, slots=True)
class Observation:
    """An observation of a machine or an interconnect; None: not measured.

    `local_load` is the number of processors that local users of a machine keep busy; traffic and committed
    bandwidth of an interconnect are in Mbit/s.
    """

    up: bool
    local_load: float | None = None
    traffic_mbit_per_s: float | None = None
    committed_mbit_per_s: float | None = None


@dataclass(frozen=True)
class CurrentStates:
    """The latest row of each resource by name; a resource without one counts as up."""

    machines: Mapping[str, schema.MachineStateRow]
    interconnects: Mapping[str, schema.InterconnectStateRow]
    clusters: Mapping[str, schema.ClusterStateRow]

    @property
    def down(self) -> list[str]:
        """Names of the machines and interconnects that are down."""
        machines = [name for name, state in self.machines.items() if not state.up]
        return machines + [name for name, state in self.interconnects.items() if not state.up]


def current_states(session: Session, reader: SiteReader) -> CurrentStates:
    """The states that the site itself reported last."""
    return CurrentStates(
        _latest(session, schema.MachineStateRow, schema.MachineRow, reader.site.id),
        _latest(session, schema.InterconnectStateRow, schema.InterconnectRow, reader.site.id),
        _latest(session, schema.ClusterStateRow, schema.ClusterRow, reader.site.id),
    )


class StateWriter:
    """Records states of machines and interconnects, and the states of clusters that follow from them."""

    def __init__(self, session: Session, reader: SiteReader, source_id: int | None = None) -> None:
        """Start from the current states or, unless the source is the site itself, with everything up."""
        self._session = session
        self._site = reader.site.name
        self._source_id = source_id
        self._machines = reader.ids("machines")
        self._interconnects = reader.ids("interconnects")
        self._clusters = {c.name: c for c in reader.clusters()}
        self._cluster_ids = reader.ids("clusters")
        self._clusters_of: defaultdict[str, list[str]] = defaultdict(list)
        for c in self._clusters.values():
            for name in (*c.members, *c.interconnects):
                self._clusters_of[name].append(c.name)
        now = CurrentStates({}, {}, {}) if source_id is not None else current_states(session, reader)
        self._down = set(now.down)
        self._recorded = {
            name: (state.available_members, state.accepts_parallel) for name, state in now.clusters.items()
        }

    def add(self, name: str, seen: Observation, at_unix_s: float) -> None:
        """Record the state of a machine or an interconnect. Raises UserError."""
        common = {"source_id": self._source_id, "since_unix_s": at_unix_s, "up": seen.up}
        if name in self._machines:
            if (seen.traffic_mbit_per_s, seen.committed_mbit_per_s) != (None, None):
                raise UserError(f"'{name}' is a machine, which carries no traffic; interconnects do")
            id = self._machines[name]
            self._session.add(schema.MachineStateRow(machine_id=id, local_load=seen.local_load, **common))
        elif name in self._interconnects:
            if seen.local_load is not None:
                raise UserError(f"'{name}' is an interconnect, which has no local load; machines have")
            self._session.add(
                schema.InterconnectStateRow(
                    interconnect_id=self._interconnects[name],
                    traffic_mbit_per_s=seen.traffic_mbit_per_s,
                    committed_mbit_per_s=seen.committed_mbit_per_s,
                    **common,
                )
            )
        else:
            raise UserError(f"the site '{self._site}' has no machine or interconnect '{name}'")
        (self._down.discard if seen.up else self._down.add)(name)
        for cluster in self._clusters_of[name]:
            self._update_cluster(cluster, at_unix_s)
        # One by one: ids are in the order of the reports.
        self._session.flush()

    def _update_cluster(self, name: str, at_unix_s: float) -> None:
        cluster = self._clusters[name]
        available = sum(member not in self._down for member in cluster.members)
        connected = not cluster.interconnects or not self._down.issuperset(cluster.interconnects)
        accepts = connected and available > 0 and available / len(cluster.members) >= cluster.least_share
        if self._recorded.get(name) == (available, accepts):
            return
        self._recorded[name] = (available, accepts)
        self._session.add(
            schema.ClusterStateRow(
                cluster_id=self._cluster_ids[name],
                source_id=self._source_id,
                since_unix_s=at_unix_s,
                available_members=available,
                accepts_parallel=accepts,
            )
        )


def _latest(session: Session, row: Any, owner: type[OfSite], site_id: int) -> dict[str, Any]:
    """The latest state of each owner: one index lookup each, however long the history is."""
    state = aliased(row)
    owner_id = f"{owner.__tablename__}_id"  # type: ignore[attr-defined]
    # By id, not by time: a clock may have been set back.
    last = (
        select(state.id)
        .where(getattr(state, owner_id) == owner.id, state.source_id.is_(None))
        .order_by(state.id.desc())
        .limit(1)
        .correlate(owner)
        .scalar_subquery()
    )
    query = select(owner.name, row).join(row, row.id == last).where(owner.site_id == site_id)
    return {one[0]: one[1] for one in session.execute(query.order_by(owner.position))}
