"""Jobs, their sources, predictions, and what was learnt from their runs."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from site_db.files.fields import Name, Whole, WholeNumber
from site_db.files.toml_file import NotNegative, Positive
from site_db.schema.resources import (
    ON_POSTGRESQL,
    Base,
    exactly_one,
    members_of_clusters,
    one_of,
    part_of,
    unique_where_filled,
)


class SourceRow(Base):
    """The source of jobs, runs and states: the site itself, a log, or a run of the testbed.

    Equal content has the same `key`, so that nothing is recorded twice. Times of a testbed's source are
    simulated seconds from 0.
    """

    __tablename__ = "source"
    __table_args__ = (
        UniqueConstraint("site_id", "key"),
        one_of("kind", "live", "file", "sacct", "swf", "testbed"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = part_of("site")
    kind: Mapped[str]
    key: Mapped[Name]
    name: Mapped[str] = mapped_column(default="")
    scheduler: Mapped[str | None]
    point: Mapped[int | None]
    replication: Mapped[int | None]


class JobRow(Base):
    """The `serial`-th job of its site and its outcome. `number` is its id in its source."""

    __tablename__ = "job"
    __table_args__ = (
        Index(None, "source_id", "number"),
        Index(None, "site_id", "queue", "state"),
        CheckConstraint("machine_id IS NULL OR cluster_id IS NULL", name="one_place_at_most"),
        one_of("state", "waiting", "running", "done", "failed", "refused"),
        CheckConstraint("serial > 0", name="serial_positive"),
        {"sqlite_with_rowid": False},
    )

    site_id: Mapped[int] = part_of("site", primary_key=True)
    serial: Mapped[int] = mapped_column(primary_key=True)
    source_id: Mapped[int] = part_of("source")
    number: Mapped[str]
    job_class_id: Mapped[int] = mapped_column(ForeignKey("job_class.id"))
    user_id: Mapped[int] = mapped_column(ForeignKey("site_user.id"))
    submitted_by_id: Mapped[int | None] = mapped_column(ForeignKey("site_user.id"))
    queue: Mapped[str]
    account: Mapped[str] = mapped_column(default="", server_default="")
    qos: Mapped[str] = mapped_column(default="", server_default="")
    """The quality of service, where the source has it."""
    size: Mapped[Positive | None]
    state: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    machine_id: Mapped[int | None] = mapped_column(ForeignKey("machine.id", ondelete="SET NULL"))
    cluster_id: Mapped[int | None] = mapped_column(ForeignKey("cluster.id", ondelete="SET NULL"))
    submitted_unix_s: Mapped[float]
    started_unix_s: Mapped[float | None]
    ended_unix_s: Mapped[float | None]
    preemptions: Mapped[Whole] = mapped_column(default=0)
    time_limit_s: Mapped[Positive | None]
    """The time limit that the user requested."""
    run_number: Mapped[int | None]
    """The number of its completed run in the history, which may be pruned before the job is."""


class JobDataRow(Base):
    """The data of a job, where its source has them, as of a job class."""

    __tablename__ = "job_data"
    __table_args__ = (
        ForeignKeyConstraint(["site_id", "job_serial"], ["job.site_id", "job.serial"], ondelete="CASCADE"),
        {"sqlite_with_rowid": False},
    )

    site_id: Mapped[int] = mapped_column(primary_key=True)
    job_serial: Mapped[int] = mapped_column(primary_key=True)
    input_mb: Mapped[NotNegative]
    output_mb: Mapped[NotNegative]
    at: Mapped[str]


class PredictionRow(Base):
    """A prediction for a job, and the actual value.

    A turnaround has its `predictor`; the job was `waiting` or running, and `jobs_there` jobs had not ended.
    The interval, if there is one, comes from past errors and need not contain the prediction.
    """

    __tablename__ = "prediction"
    __table_args__ = (
        ForeignKeyConstraint(["site_id", "job_serial"], ["job.site_id", "job.serial"], ondelete="CASCADE"),
        Index(None, "site_id", "job_serial"),
        one_of("quantity", "run_time", "turnaround"),
        CheckConstraint("low_s <= high_s", name="interval_in_order"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int]
    job_serial: Mapped[int]
    quantity: Mapped[str]
    made_unix_s: Mapped[float]
    predicted_s: Mapped[NotNegative]
    low_s: Mapped[float | None]
    high_s: Mapped[float | None]
    grounds: Mapped[str] = mapped_column(default="")
    predictor: Mapped[str] = mapped_column(default="", server_default="")
    waiting: Mapped[bool | None]
    jobs_there: Mapped[Whole | None]
    actual_s: Mapped[NotNegative | None]


class RecordingRow(Base):
    """The number of the last of its `batches` that a recorder committed, which tells it whether a commit with
    a lost answer happened."""

    __tablename__ = "recording"

    site_id: Mapped[int] = part_of("site", primary_key=True)
    recorder: Mapped[Name] = mapped_column(primary_key=True)
    batches: Mapped[WholeNumber]


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
    run_time_s: Mapped[Positive]
    size: Mapped[Positive | None]
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
    """Statistics of the runs of one job class in one place: on all machines of a class, on one machine, or on
    a cluster with this number of members."""

    __tablename__ = "execution_statistics"
    __table_args__ = (
        exactly_one("machine_class_id", "machine_id", "cluster_id"),
        members_of_clusters(),
        CheckConstraint("count > 0 AND count < 1e15", name="count_positive"),
        CheckConstraint("mean_s > 0 AND mean_s < 1e15", name="mean_s_positive"),
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
