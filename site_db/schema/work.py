"""Job classes, queues and users of a site."""

from __future__ import annotations

from sqlalchemy import JSON, CheckConstraint, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from site_db.files.fields import Megabytes, Name, Whole, WholeNumber
from site_db.files.toml_file import NotNegative, Positive
from site_db.schema.resources import (
    Base,
    OfSite,
    Share,
    exactly_one,
    one_of,
    part_of,
    related,
    unique_where_filled,
)


class JobClassRow(OfSite, Base):
    """Jobs with statistically correlated execution times; `allowed_place` says where they may run.

    `size` names the parameter of a job on which its time depends linearly; empty = there is none.
    """

    __tablename__ = "job_class"

    description: Mapped[str] = mapped_column(default="")
    size: Mapped[str] = mapped_column(default="")
    network_mbit_per_s: Mapped[NotNegative | None]


JobClassDataRow = related(
    "job_class_data", job_class_id="job_class", input_mb=NotNegative, output_mb=NotNegative, at=str
)
"""The megabytes that a job reads and writes, and the cluster where they are; empty: where it is submitted."""


class AllowedPlaceRow(Base):
    """A job class may run on machines of a class, or in parallel on a cluster.

    `expected_s` is the time that the site's staff measured before there is history.
    """

    __tablename__ = "allowed_place"
    __table_args__ = (
        exactly_one("machine_class_id", "cluster_id"),
        CheckConstraint("expected_s IS NOT NULL OR command_line IS NOT NULL", name="time_or_command"),
        unique_where_filled("allowed_place", "job_class_id", "machine_class_id"),
        unique_where_filled("allowed_place", "job_class_id", "cluster_id"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    job_class_id: Mapped[int] = part_of("job_class")
    machine_class_id: Mapped[int | None] = part_of("machine_class")
    cluster_id: Mapped[int | None] = part_of("cluster")
    command_line: Mapped[str | None]
    expected_s: Mapped[Positive | None]


class CharacterisationRow(Base):
    """A parallel job of a class, measured in isolation with one task on each of `tasks` nodes: its execution
    time, and the share of a CPU and the memory that a task uses."""

    __tablename__ = "characterisation"

    job_class_id: Mapped[int] = part_of("job_class", primary_key=True)
    tasks: Mapped[WholeNumber] = mapped_column(primary_key=True)
    exe_s: Mapped[Positive]
    cpu: Mapped[Share]
    memory_mb: Mapped[NotNegative]


class RequestRow(Base):
    """What a job of a class requests: so many `nodes`, or `tasks` on any nodes, with so much on each;
    `site_resources` once for the job. Lists and amounts by name are JSON."""

    __tablename__ = "request"
    __table_args__ = (CheckConstraint("tasks IS NULL OR nodes = 1", name="nodes_or_tasks"),)

    job_class_id: Mapped[int] = part_of("job_class", primary_key=True)
    nodes: Mapped[WholeNumber]
    tasks: Mapped[WholeNumber | None]
    cores: Mapped[NotNegative]
    memory_mb: Mapped[Megabytes]
    gpus: Mapped[Whole]
    gpu_share: Mapped[Share]
    gpu_types: Mapped[list[str]] = mapped_column(JSON)
    resources: Mapped[dict[str, int]] = mapped_column(JSON)
    site_resources: Mapped[dict[str, int]] = mapped_column(JSON)
    features: Mapped[list[str]] = mapped_column(JSON)
    partitions: Mapped[list[str]] = mapped_column(JSON)
    exclusive: Mapped[bool]
    time_limit_s: Mapped[Positive | None]


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
    __table_args__ = (one_of("mapping", "commit", "remap"),)

    priority: Mapped[int] = mapped_column(default=0)
    scheduler: Mapped[str | None]
    mapping: Mapped[str] = mapped_column(default="commit")
    open_to_all: Mapped[bool] = mapped_column(default=True)


QueueUserRow = related("queue_user", queue_id="queue", user_name=Name)
"""A user, by name, who may submit to a queue that is not open to all."""


class QueueDisplacesRow(Base):
    """The preemption policy: runs of the displaced queue make way for those of the queue."""

    __tablename__ = "queue_displaces"
    __table_args__ = (CheckConstraint("queue_id <> displaced_queue_id", name="not_itself"),)

    queue_id: Mapped[int] = part_of("queue", primary_key=True)
    displaced_queue_id: Mapped[int] = part_of("queue", primary_key=True)


class UserRow(OfSite, Base):
    """A user and the policies for them. One who is not `listed` is in no site file, but has jobs."""

    __tablename__ = "site_user"

    listed: Mapped[bool]
    all_queues: Mapped[bool] = mapped_column(default=True)
    most_jobs: Mapped[WholeNumber | None]
    highest_priority: Mapped[int | None]


UserQueueRow = related("user_queue", user_id="site_user", queue_id="queue")
"""A queue that a user without `all_queues` may use."""


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

    user_id: Mapped[int] = part_of("site_user", primary_key=True)
    queue: Mapped[str] = mapped_column(primary_key=True)
    jobs_submitted: Mapped[Whole] = mapped_column(default=0)
    runs: Mapped[Whole] = mapped_column(default=0)
    execution_time_s: Mapped[NotNegative] = mapped_column(default=0.0)
