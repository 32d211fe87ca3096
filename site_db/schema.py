"""Tables of the experiential site database, after Figure 1 of Collins and George 2001."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, Index, MetaData, UniqueConstraint, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMING)


class SiteRow(Base):
    """A group of machines that a set of users may use indifferently."""

    __tablename__ = "site"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    description: Mapped[str] = mapped_column(default="")

    machine_classes: Mapped[list[MachineClassRow]] = relationship(order_by="MachineClassRow.id")
    machines: Mapped[list[MachineRow]] = relationship(order_by="MachineRow.id")
    interconnects: Mapped[list[InterconnectRow]] = relationship(order_by="InterconnectRow.id")
    clusters: Mapped[list[ClusterRow]] = relationship(order_by="ClusterRow.id")
    job_classes: Mapped[list[JobClassRow]] = relationship(order_by="JobClassRow.id")
    queues: Mapped[list[QueueRow]] = relationship(order_by="QueueRow.id")


class MachineClassRow(Base):
    """Machines that run the same executables, and run them alike."""

    __tablename__ = "machine_class"
    __table_args__ = (UniqueConstraint("site_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"))
    name: Mapped[str]
    architecture: Mapped[str] = mapped_column(default="")


class MachineRow(Base):
    __tablename__ = "machine"
    __table_args__ = (UniqueConstraint("site_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"))
    machine_class_id: Mapped[int] = mapped_column(ForeignKey("machine_class.id"))
    name: Mapped[str]

    machine_class: Mapped[MachineClassRow] = relationship()


class InterconnectRow(Base):
    __tablename__ = "interconnect"
    __table_args__ = (
        UniqueConstraint("site_id", "name"),
        CheckConstraint("bandwidth_mbit_per_s > 0", name="bandwidth_positive"),
        CheckConstraint("latency_us >= 0", name="latency_not_negative"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"))
    name: Mapped[str]
    bandwidth_mbit_per_s: Mapped[float]
    latency_us: Mapped[float]


class ClusterRow(Base):
    """Machines that can execute one job in parallel; `least_share` of them suffice, by policy."""

    __tablename__ = "cluster"
    __table_args__ = (
        UniqueConstraint("site_id", "name"),
        CheckConstraint("least_share > 0 AND least_share <= 1", name="least_share_is_a_share"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"))
    name: Mapped[str]
    least_share: Mapped[float] = mapped_column(default=1.0)

    members: Mapped[list[MachineRow]] = relationship(secondary="cluster_member", order_by="MachineRow.id")
    interconnects: Mapped[list[InterconnectRow]] = relationship(
        secondary="cluster_interconnect", order_by="InterconnectRow.id"
    )


class ClusterMemberRow(Base):
    __tablename__ = "cluster_member"

    cluster_id: Mapped[int] = mapped_column(ForeignKey("cluster.id", ondelete="CASCADE"), primary_key=True)
    machine_id: Mapped[int] = mapped_column(ForeignKey("machine.id", ondelete="CASCADE"), primary_key=True)


class ClusterInterconnectRow(Base):
    __tablename__ = "cluster_interconnect"

    cluster_id: Mapped[int] = mapped_column(ForeignKey("cluster.id", ondelete="CASCADE"), primary_key=True)
    interconnect_id: Mapped[int] = mapped_column(
        ForeignKey("interconnect.id", ondelete="CASCADE"), primary_key=True
    )


class JobClassRow(Base):
    """Jobs with statistically correlated execution times; where they may run is what has an expected time."""

    __tablename__ = "job_class"
    __table_args__ = (UniqueConstraint("site_id", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"))
    name: Mapped[str]
    description: Mapped[str] = mapped_column(default="")

    expected_times: Mapped[list[ExpectedTimeRow]] = relationship(order_by="ExpectedTimeRow.id")
    preferences: Mapped[list[PreferenceRow]] = relationship(order_by="PreferenceRow.rank")


class PreferenceRow(Base):
    """Machine classes that a job class wants, the designated one at rank 0."""

    __tablename__ = "preference"
    __table_args__ = (UniqueConstraint("job_class_id", "rank"),)

    job_class_id: Mapped[int] = mapped_column(
        ForeignKey("job_class.id", ondelete="CASCADE"), primary_key=True
    )
    machine_class_id: Mapped[int] = mapped_column(
        ForeignKey("machine_class.id", ondelete="CASCADE"), primary_key=True
    )
    rank: Mapped[int]

    machine_class: Mapped[MachineClassRow] = relationship()


class _PerPlace:
    """A row about one job class in one place: on a machine of a class, or in parallel on a cluster."""

    id: Mapped[int] = mapped_column(primary_key=True)
    job_class_id: Mapped[int] = mapped_column(ForeignKey("job_class.id", ondelete="CASCADE"))
    machine_class_id: Mapped[int | None] = mapped_column(ForeignKey("machine_class.id", ondelete="CASCADE"))
    cluster_id: Mapped[int | None] = mapped_column(ForeignKey("cluster.id", ondelete="CASCADE"))


def _one_place() -> CheckConstraint:
    return CheckConstraint("(machine_class_id IS NULL) <> (cluster_id IS NULL)", name="one_place")


def _unique_per_place(table: str) -> tuple[Index, Index]:
    """NULLs never collide, so uniqueness takes one partial index for each kind of place."""

    def unique(place: str) -> Index:
        known = text(f"{place} IS NOT NULL")
        name = f"uq_{table}_job_class_id_{place}"
        return Index(name, "job_class_id", place, unique=True, sqlite_where=known, postgresql_where=known)

    return unique("machine_class_id"), unique("cluster_id")


class ExpectedTimeRow(_PerPlace, Base):
    """What the site's staff say before there is history, from test runs. A row = the class may run there."""

    __tablename__ = "expected_time"
    __table_args__ = (
        _one_place(),
        CheckConstraint("expected_s > 0", name="positive"),
        *_unique_per_place("expected_time"),
    )

    expected_s: Mapped[float]


class ExecutionStatisticsRow(_PerPlace, Base):
    """Count, mean and sum of squared deviations of the run times in the history, kept up run by run."""

    __tablename__ = "execution_statistics"
    __table_args__ = (
        _one_place(),
        CheckConstraint("count > 0", name="count_positive"),
        CheckConstraint("mean_s > 0", name="mean_positive"),
        CheckConstraint("sum_squared_deviations_s2 >= 0", name="squares_not_negative"),
        *_unique_per_place("execution_statistics"),
    )

    count: Mapped[int]
    mean_s: Mapped[float]
    sum_squared_deviations_s2: Mapped[float]


class ExecutionHistoryRow(_PerPlace, Base):
    """One whole run. Preempted and lost runs are no experience and never stand here."""

    __tablename__ = "execution_history"
    __table_args__ = (_one_place(), CheckConstraint("run_time_s > 0", name="run_time_positive"))

    machine_id: Mapped[int | None] = mapped_column(ForeignKey("machine.id"))
    run_time_s: Mapped[float]
    started_s: Mapped[float]
    user: Mapped[str]
    queue: Mapped[str]


class QueueRow(Base):
    """A job queue and its policies; `scheduler` is its algorithm, NULL = the one under test."""

    __tablename__ = "queue"
    __table_args__ = (
        UniqueConstraint("site_id", "name"),
        CheckConstraint("mapping IN ('commit', 'remap')", name="mapping_known"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"))
    name: Mapped[str]
    priority: Mapped[int] = mapped_column(default=0)
    scheduler: Mapped[str | None]
    mapping: Mapped[str] = mapped_column(default="commit")
    open_to_all: Mapped[bool] = mapped_column(default=True)

    users: Mapped[list[QueueUserRow]] = relationship(order_by="QueueUserRow.user")
    displaces: Mapped[list[QueueRow]] = relationship(
        secondary="queue_displaces",
        primaryjoin="QueueRow.id == QueueDisplacesRow.queue_id",
        secondaryjoin="QueueRow.id == QueueDisplacesRow.displaced_queue_id",
        order_by="QueueRow.id",
    )


class QueueUserRow(Base):
    """A user who may submit to a queue that is not open to all."""

    __tablename__ = "queue_user"

    queue_id: Mapped[int] = mapped_column(ForeignKey("queue.id", ondelete="CASCADE"), primary_key=True)
    user: Mapped[str] = mapped_column(primary_key=True)


class QueueDisplacesRow(Base):
    """The preemption policy: runs of the displaced queue make way for those of the queue."""

    __tablename__ = "queue_displaces"

    queue_id: Mapped[int] = mapped_column(ForeignKey("queue.id", ondelete="CASCADE"), primary_key=True)
    displaced_queue_id: Mapped[int] = mapped_column(
        ForeignKey("queue.id", ondelete="CASCADE"), primary_key=True
    )
