"""Jobs, their sources, and predictions."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from site_db.schema.conventions import Base, named, not_negative, one_of, part_of, positive


class SourceRow(Base):
    """The source of jobs, runs and states: the site itself, a log, or a run of the testbed.

    Equal content has the same `key`, so that nothing is recorded twice. Times of a testbed's source are
    simulated seconds from 0.
    """

    __tablename__ = "source"
    __table_args__ = (
        UniqueConstraint("site_id", "key"),
        named("key"),
        one_of("kind", "live", "file", "sacct", "swf", "testbed"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = part_of("site")
    kind: Mapped[str]
    key: Mapped[str]
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
        positive("size"),
        not_negative("preemptions"),
        positive("time_limit_s"),
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
    """To whom it was charged, and its quality of service, where the source has these."""
    size: Mapped[float | None]
    state: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    machine_id: Mapped[int | None] = mapped_column(ForeignKey("machine.id", ondelete="SET NULL"))
    cluster_id: Mapped[int | None] = mapped_column(ForeignKey("cluster.id", ondelete="SET NULL"))
    submitted_unix_s: Mapped[float]
    started_unix_s: Mapped[float | None]
    ended_unix_s: Mapped[float | None]
    preemptions: Mapped[int] = mapped_column(default=0)
    time_limit_s: Mapped[float | None]
    """As requested by the user."""
    run_number: Mapped[int | None]
    """The number of its completed run in the history, which may be pruned before the job is."""


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
        not_negative("predicted_s"),
        not_negative("actual_s"),
        CheckConstraint("low_s <= high_s", name="interval_in_order"),
        not_negative("jobs_there"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int]
    job_serial: Mapped[int]
    quantity: Mapped[str]
    made_unix_s: Mapped[float]
    predicted_s: Mapped[float]
    low_s: Mapped[float | None]
    high_s: Mapped[float | None]
    grounds: Mapped[str] = mapped_column(default="")
    predictor: Mapped[str] = mapped_column(default="", server_default="")
    waiting: Mapped[bool | None]
    jobs_there: Mapped[int | None]
    actual_s: Mapped[float | None]


class RecordingRow(Base):
    """The number of the last of its `batches` that a recorder committed, which tells it whether a commit with
    a lost answer happened."""

    __tablename__ = "recording"
    __table_args__ = (named("recorder"), positive("batches"))

    site_id: Mapped[int] = part_of("site", primary_key=True)
    recorder: Mapped[str] = mapped_column(primary_key=True)
    batches: Mapped[int]
