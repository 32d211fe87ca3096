"""Current and previous states of machines, interconnects and clusters: the latest row is the current one."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from site_db.schema.tables import Base, not_negative


class _State:
    """What was seen at a time, and holds until the next row. `source_id` NULL = at the site itself."""

    id: Mapped[int] = mapped_column(primary_key=True, sort_order=-3)
    source_id: Mapped[int | None] = mapped_column(ForeignKey("source.id", ondelete="CASCADE"), sort_order=-2)
    since_unix_s: Mapped[float] = mapped_column(sort_order=-1)


class MachineStateRow(_State, Base):
    __tablename__ = "machine_state"
    __table_args__ = (Index(None, "machine_id", "source_id", "id"), not_negative("local_load"))

    machine_id: Mapped[int] = mapped_column(ForeignKey("machine.id", ondelete="CASCADE"))
    up: Mapped[bool]
    local_load: Mapped[float | None]
    """Processors that local users keep busy."""


class InterconnectStateRow(_State, Base):
    """What the network monitor saw: is it up, how much is carried, how much is promised."""

    __tablename__ = "interconnect_state"
    __table_args__ = (
        Index(None, "interconnect_id", "source_id", "id"),
        not_negative("traffic_mbit_per_s"),
        not_negative("committed_mbit_per_s"),
    )

    interconnect_id: Mapped[int] = mapped_column(ForeignKey("interconnect.id", ondelete="CASCADE"))
    up: Mapped[bool]
    traffic_mbit_per_s: Mapped[float | None]
    committed_mbit_per_s: Mapped[float | None]


class ClusterStateRow(_State, Base):
    """How many members were available, and whether the cluster's policy accepted parallel execution."""

    __tablename__ = "cluster_state"
    __table_args__ = (
        Index(None, "cluster_id", "source_id", "id"),
        CheckConstraint("available_members >= 0", name="available_members_not_negative"),
    )

    cluster_id: Mapped[int] = mapped_column(ForeignKey("cluster.id", ondelete="CASCADE"))
    available_members: Mapped[int]
    accepts_parallel: Mapped[bool]
