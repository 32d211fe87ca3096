"""States of a site's machines, interconnects and clusters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from scheduler import UserError
from scheduler.model import Cluster
from site_db import schema
from site_db.schema import OfSite
from site_db.site_file.relations import KINDS
from site_db.sites import SiteReader

STATES: Mapping[str, type[schema.Base]] = {
    "machines": schema.MachineStateRow,
    "interconnects": schema.InterconnectStateRow,
    "clusters": schema.ClusterStateRow,
}
"""The rows of states by the kind of their owners, in the order of `CurrentStates`."""


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
        kinds: tuple[Mapping[str, Any], ...] = (self.machines, self.interconnects)
        return [name for states in kinds for name, state in states.items() if not state.up]


def current_states(session: Session, reader: SiteReader) -> CurrentStates:
    """The states that the site itself reported last."""
    found = (_latest(session, row, KINDS[kind].row, reader.site.id) for kind, row in STATES.items())
    return CurrentStates(*found)


class StateWriter:
    """Records states of machines and interconnects, and the states of clusters that follow from them."""

    def __init__(self, session: Session, reader: SiteReader, source_id: int | None = None) -> None:
        """Start from the current states or, unless the source is the site itself, with everything up."""
        self._session, self._site, self._source_id = session, reader.site.name, source_id
        self._machines, self._interconnects = reader.ids("machines"), reader.ids("interconnects")
        self._cluster_ids = reader.ids("clusters")
        self._clusters_of: defaultdict[str, list[Cluster]] = defaultdict(list)
        for cluster in reader.clusters():
            for name in (*cluster.members, *cluster.interconnects):
                self._clusters_of[name].append(cluster)
        now = CurrentStates({}, {}, {}) if source_id is not None else current_states(session, reader)
        self._down = set(now.down)
        self._recorded = {
            name: (state.available_members, state.accepts_parallel) for name, state in now.clusters.items()
        }

    def add(self, name: str, seen: Observation, at_unix_s: float) -> None:
        """Record the state of a machine or an interconnect. Raises UserError."""
        common = {"source_id": self._source_id, "since_unix_s": at_unix_s, "up": seen.up}
        traffic = {key: getattr(seen, key) for key in ("traffic_mbit_per_s", "committed_mbit_per_s")}
        if name in self._machines:
            if any(value is not None for value in traffic.values()):
                raise UserError(f"'{name}' is a machine, which carries no traffic; interconnects do")
            id = self._machines[name]
            self._session.add(schema.MachineStateRow(machine_id=id, local_load=seen.local_load, **common))
        elif name in self._interconnects:
            if seen.local_load is not None:
                raise UserError(f"'{name}' is an interconnect, which has no local load; machines have")
            id = self._interconnects[name]
            self._session.add(schema.InterconnectStateRow(interconnect_id=id, **traffic, **common))
        else:
            raise UserError(f"the site '{self._site}' has no machine or interconnect '{name}'")
        (self._down.discard if seen.up else self._down.add)(name)
        for cluster in self._clusters_of[name]:
            available = sum(member not in self._down for member in cluster.members)
            connected = not cluster.interconnects or not self._down.issuperset(cluster.interconnects)
            enough = available > 0 and available / len(cluster.members) >= cluster.least_share
            state = (available, connected and enough)
            if self._recorded.get(cluster.name) != state:
                self._recorded[cluster.name] = state
                self._session.add(
                    schema.ClusterStateRow(
                        cluster_id=self._cluster_ids[cluster.name],
                        source_id=self._source_id,
                        since_unix_s=at_unix_s,
                        available_members=available,
                        accepts_parallel=state[1],
                    )
                )
        # One by one: ids are in the order of the reports.
        self._session.flush()


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
