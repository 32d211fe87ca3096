"""Jobs, where they were told of, and what was predicted of them."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from site_db.schema.tables import Base, named, not_negative, one_of, positive


class SourceRow(Base):
    """Where jobs, runs and states were told of: by the site itself, a log, or a run of the testbed.

    `key` is the same for the same content, so that nothing is taken in twice. Times of a testbed's source
    count simulated seconds from 0.
    """

    __tablename__ = "source"
    __table_args__ = (
        UniqueConstraint("site_id", "key"),
        named("key"),
        one_of("kind", "live", "file", "sacct", "swf", "testbed"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"))
    kind: Mapped[str]
    key: Mapped[str]
    name: Mapped[str] = mapped_column(default="")
    scheduler: Mapped[str | None]
    point: Mapped[int | None]
    replication: Mapped[int | None]


class JobRow(Base):
    """The `serial`-th job of its site, as it was submitted, and what became of it. `number` is its id in its
    source."""

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

    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"), primary_key=True)
    serial: Mapped[int] = mapped_column(primary_key=True)
    source_id: Mapped[int] = mapped_column(ForeignKey("source.id", ondelete="CASCADE"))
    number: Mapped[str]
    job_class_id: Mapped[int] = mapped_column(ForeignKey("job_class.id"))
    user_id: Mapped[int] = mapped_column(ForeignKey("site_user.id"))
    submitted_by_id: Mapped[int | None] = mapped_column(ForeignKey("site_user.id"))
    queue: Mapped[str]
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
    """How long its user asked for."""
    run_number: Mapped[int | None]
    """The number of its whole run in the history, which may be pruned before the job is."""


class PredictionRow(Base):
    """What was predicted of a job, when, on what grounds, and what came of it.

    A turnaround has its `predictor`; the job was `waiting` or ran then, and so many jobs were not done. The
    interval, where there is one, comes from past errors, and need not have the prediction inside.
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
    """How many batches a recorder has got into the database: where the answer to a commit was cut off, it can
    ask whether that was done."""

    __tablename__ = "recording"
    __table_args__ = (named("recorder"), positive("batches"))

    site_id: Mapped[int] = mapped_column(ForeignKey("site.id", ondelete="CASCADE"), primary_key=True)
    recorder: Mapped[str] = mapped_column(primary_key=True)
    batches: Mapped[int]
