"""Experience: completed runs and their statistics."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from site_db.schema.conventions import (
    ON_POSTGRESQL,
    Base,
    exactly_one,
    members_of_clusters,
    part_of,
    positive,
    unique_where_filled,
)


class ExecutionHistoryRow(Base):
    """A completed run, the `number`-th of its site; preempted and failed runs are not recorded.

    The runs of a removed machine remain those of its class.
    """

    __tablename__ = "execution_history"
    __table_args__ = (
        exactly_one("machine_class_id", "cluster_id"),
        CheckConstraint("machine_id IS NULL OR cluster_id IS NULL", name="a_machine_or_a_cluster"),
        members_of_clusters(),
        CheckConstraint("number > 0", name="number_positive"),
        positive("run_time_s"),
        positive("size"),
        {"sqlite_with_rowid": False},
    )

    site_id: Mapped[int] = part_of("site", primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    source_id: Mapped[int] = mapped_column(ForeignKey("source.id"))
    job_class_id: Mapped[int] = mapped_column(ForeignKey("job_class.id"))
    machine_class_id: Mapped[int | None] = mapped_column(ForeignKey("machine_class.id"))
    machine_id: Mapped[int | None] = mapped_column(ForeignKey("machine.id", ondelete="SET NULL"))
    cluster_id: Mapped[int | None] = mapped_column(ForeignKey("cluster.id"))
    members: Mapped[int | None]
    started_unix_s: Mapped[float]
    run_time_s: Mapped[float]
    size: Mapped[float | None]
    user_id: Mapped[int] = mapped_column(ForeignKey("site_user.id"))
    queue: Mapped[str]


class _Moments:
    """The columns of `site_db.history.statistics.RunStatistics` and of its sketch."""

    count: Mapped[int]
    mean_s: Mapped[float]
    squares_s2: Mapped[float]
    least_s: Mapped[float]
    sized_count: Mapped[int]
    sized_mean_s: Mapped[float]
    mean_size: Mapped[float]
    squares_size2: Mapped[float]
    products: Mapped[float]
    sketch: Mapped[bytes]


class ExecutionStatisticsRow(_Moments, Base):
    """Statistics of the runs of one job class in one place: on all machines of a class, on one machine, or
    on a cluster with so many members."""

    __tablename__ = "execution_statistics"
    __table_args__ = (
        exactly_one("machine_class_id", "machine_id", "cluster_id"),
        members_of_clusters(),
        positive("count"),
        positive("mean_s"),
        # Squares have another limit than seconds: over years they add up.
        CheckConstraint("squares_s2 >= 0 AND squares_s2 < 1e300", name="squares_s2_not_negative"),
        unique_where_filled("execution_statistics", "job_class_id", "machine_class_id"),
        unique_where_filled("execution_statistics", "job_class_id", "machine_id"),
        unique_where_filled("execution_statistics", "job_class_id", "cluster_id", "members"),
        # Frequently updated rows stay on their pages, so that the table stays small.
        {"info": {ON_POSTGRESQL: {"with": {"fillfactor": 50}}}},
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_class_id: Mapped[int] = part_of("job_class")
    machine_class_id: Mapped[int | None] = part_of("machine_class")
    machine_id: Mapped[int | None] = part_of("machine")
    cluster_id: Mapped[int | None] = part_of("cluster")
    members: Mapped[int | None]
    changed_at: Mapped[int]
    """The number of the last run that changed it."""


class ExecutionSnapshotRow(_Moments, Base):
    """Statistics as of run `number` of the site."""

    __tablename__ = "execution_snapshot"

    statistics_id: Mapped[int] = part_of("execution_statistics", primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
