"""Job classes, queues and users of a site."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, CheckConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from site_db.schema.conventions import (
    Base,
    exactly_one,
    named,
    not_negative,
    one_of,
    part_of,
    positive,
    unique_where_filled,
)
from site_db.schema.resources import OfSite


class JobClassRow(OfSite, Base):
    """Jobs with statistically correlated execution times; `allowed_place` says where they may run.

    `size` names the parameter of a job on which its time depends linearly; empty = there is none.
    """

    __tablename__ = "job_class"
    __table_args__ = (UniqueConstraint("site_id", "name"), named(), not_negative("network_mbit_per_s"))

    description: Mapped[str] = mapped_column(default="")
    size: Mapped[str] = mapped_column(default="")
    network_mbit_per_s: Mapped[float | None]


class AllowedPlaceRow(Base):
    """A job class may run on machines of a class, or in parallel on a cluster.

    `expected_s` is the time that the site's staff measured before there is history.
    """

    __tablename__ = "allowed_place"
    __table_args__ = (
        exactly_one("machine_class_id", "cluster_id"),
        positive("expected_s"),
        CheckConstraint("expected_s IS NOT NULL OR command_line IS NOT NULL", name="time_or_command"),
        unique_where_filled("allowed_place", "job_class_id", "machine_class_id"),
        unique_where_filled("allowed_place", "job_class_id", "cluster_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_class_id: Mapped[int] = part_of("job_class")
    machine_class_id: Mapped[int | None] = part_of("machine_class")
    cluster_id: Mapped[int | None] = part_of("cluster")
    command_line: Mapped[str | None]
    expected_s: Mapped[float | None]


class CharacterisationRow(Base):
    """A parallel job of a class, measured in isolation with one task on each of `tasks` nodes: its execution
    time, and the share of a CPU and the memory that a task uses."""

    __tablename__ = "characterisation"
    __table_args__ = (
        positive("tasks"),
        positive("exe_s"),
        CheckConstraint("cpu > 0 AND cpu <= 1", name="cpu_is_a_share"),
        not_negative("memory_mb"),
    )

    job_class_id: Mapped[int] = part_of("job_class", primary_key=True)
    tasks: Mapped[int] = mapped_column(primary_key=True)
    exe_s: Mapped[float]
    cpu: Mapped[float]
    memory_mb: Mapped[float]


class RequestRow(Base):
    """What a job of a class requests: so many `nodes`, or `tasks` on any nodes, with so much on each;
    `site_resources` once for the job. Lists and amounts by name are JSON."""

    __tablename__ = "request"
    __table_args__ = (
        positive("nodes"),
        positive("tasks"),
        CheckConstraint("tasks IS NULL OR nodes = 1", name="nodes_or_tasks"),
        not_negative("cores"),
        not_negative("memory_mb"),
        not_negative("gpus"),
        CheckConstraint("gpu_share > 0 AND gpu_share <= 1", name="gpu_share_is_a_share"),
        positive("time_limit_s"),
    )

    job_class_id: Mapped[int] = part_of("job_class", primary_key=True)
    nodes: Mapped[int]
    tasks: Mapped[int | None]
    cores: Mapped[float]
    memory_mb: Mapped[int] = mapped_column(BigInteger)
    gpus: Mapped[int]
    gpu_share: Mapped[float]
    gpu_types: Mapped[list[str]] = mapped_column(JSON)
    resources: Mapped[dict[str, int]] = mapped_column(JSON)
    site_resources: Mapped[dict[str, int]] = mapped_column(JSON)
    features: Mapped[list[str]] = mapped_column(JSON)
    partitions: Mapped[list[str]] = mapped_column(JSON)
    exclusive: Mapped[bool]
    time_limit_s: Mapped[float | None]


class PreferenceRow(Base):
    """Preferred machine classes of a job class, the designated one at rank 0."""

    __tablename__ = "preference"
    __table_args__ = (
        UniqueConstraint("job_class_id", "rank"),
        CheckConstraint("rank >= 0", name="rank_not_negative"),
    )

    job_class_id: Mapped[int] = part_of("job_class", primary_key=True)
    machine_class_id: Mapped[int] = part_of("machine_class", primary_key=True)
    rank: Mapped[int]


class QueueRow(OfSite, Base):
    """A job queue and its policies; `scheduler` is its algorithm, NULL = the one under test."""

    __tablename__ = "queue"
    __table_args__ = (UniqueConstraint("site_id", "name"), named(), one_of("mapping", "commit", "remap"))

    priority: Mapped[int] = mapped_column(default=0)
    scheduler: Mapped[str | None]
    mapping: Mapped[str] = mapped_column(default="commit")
    open_to_all: Mapped[bool] = mapped_column(default=True)


class QueueUserRow(Base):
    """A user, by name, who may submit to a queue that is not open to all."""

    __tablename__ = "queue_user"
    __table_args__ = (named("user_name"),)

    queue_id: Mapped[int] = part_of("queue", primary_key=True)
    user_name: Mapped[str] = mapped_column(primary_key=True)


class QueueDisplacesRow(Base):
    """The preemption policy: runs of the displaced queue make way for those of the queue."""

    __tablename__ = "queue_displaces"
    __table_args__ = (CheckConstraint("queue_id <> displaced_queue_id", name="not_itself"),)

    queue_id: Mapped[int] = part_of("queue", primary_key=True)
    displaced_queue_id: Mapped[int] = part_of("queue", primary_key=True)


class UserRow(OfSite, Base):
    """A user and the policies for them. One who is not `listed` is in no site file, but has jobs."""

    __tablename__ = "site_user"
    __table_args__ = (UniqueConstraint("site_id", "name"), named(), positive("most_jobs"))

    listed: Mapped[bool]
    all_queues: Mapped[bool] = mapped_column(default=True)
    most_jobs: Mapped[int | None]
    highest_priority: Mapped[int | None]


class UserQueueRow(Base):
    """A queue that a user without `all_queues` may use."""

    __tablename__ = "user_queue"

    user_id: Mapped[int] = part_of("site_user", primary_key=True)
    queue_id: Mapped[int] = part_of("queue", primary_key=True)


class SubmissionRightRow(Base):
    """The security information: a user may submit as another, to one queue or (NULL) to all."""

    __tablename__ = "submission_right"
    __table_args__ = (
        CheckConstraint("user_id <> as_user_id", name="not_as_oneself"),
        UniqueConstraint("user_id", "as_user_id", "queue_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    user_id: Mapped[int] = part_of("site_user")
    as_user_id: Mapped[int] = part_of("site_user")
    queue_id: Mapped[int | None] = part_of("queue")


class UserUsageRow(Base):
    """The jobs that a user submitted to a queue, and their execution time."""

    __tablename__ = "user_usage"
    __table_args__ = (not_negative("jobs_submitted"), not_negative("runs"), not_negative("execution_time_s"))

    user_id: Mapped[int] = part_of("site_user", primary_key=True)
    queue: Mapped[str] = mapped_column(primary_key=True)
    jobs_submitted: Mapped[int] = mapped_column(default=0)
    runs: Mapped[int] = mapped_column(default=0)
    execution_time_s: Mapped[float] = mapped_column(default=0.0)
