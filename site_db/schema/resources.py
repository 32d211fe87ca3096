"""A site and its resources: machines, interconnects and clusters, and their states."""

from __future__ import annotations

from sqlalchemy import BigInteger, CheckConstraint, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from site_db.schema.conventions import Base, named, not_negative, part_of, positive


class SiteRow(Base):
    """A group of machines that a set of users may use indifferently.

    The runs in a site's history are numbered from 1 without gaps. `runs_recorded` is the last number; a
    writer takes the next ones by an update of this row, which serialises writers. Runs up to `runs_pruned`
    are deleted; `snapshot_at` is the last run at which all statistics were copied. Jobs are numbered in the
    same way. `version` grows whenever the site itself changes.
    """

    __tablename__ = "site"
    __table_args__ = (
        named(),
        CheckConstraint(
            "runs_pruned >= 0 AND runs_pruned <= runs_recorded", name="runs_pruned_were_recorded"
        ),
        CheckConstraint(
            "snapshot_at >= 0 AND snapshot_at <= runs_recorded", name="snapshot_at_a_recorded_run"
        ),
        not_negative("jobs_recorded"),
        not_negative("version"),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    description: Mapped[str] = mapped_column(default="")
    only_listed_users: Mapped[bool] = mapped_column(default=False)
    runs_recorded: Mapped[int] = mapped_column(default=0)
    runs_pruned: Mapped[int] = mapped_column(default=0)
    snapshot_at: Mapped[int] = mapped_column(default=0)
    jobs_recorded: Mapped[int] = mapped_column(default=0)
    version: Mapped[int] = mapped_column(default=0)


class OfSite:
    """A named thing of a site, at a position in the order of the site file."""

    id: Mapped[int] = mapped_column(primary_key=True, sort_order=-4)
    site_id: Mapped[int] = part_of("site", sort_order=-3)
    name: Mapped[str] = mapped_column(sort_order=-2)
    position: Mapped[int] = mapped_column(sort_order=-1)


class MachineClassRow(OfSite, Base):
    """Machines that run the same executables equally fast."""

    __tablename__ = "machine_class"
    __table_args__ = (UniqueConstraint("site_id", "name"), UniqueConstraint("site_id", "id"), named())

    architecture: Mapped[str] = mapped_column(default="")


class MachineRow(OfSite, Base):
    """A machine and its specification. A notional one exists only in experiments and plans."""

    __tablename__ = "machine"
    __table_args__ = (
        UniqueConstraint("site_id", "name"),
        ForeignKeyConstraint(["site_id", "machine_class_id"], ["machine_class.site_id", "machine_class.id"]),
        named(),
        positive("processors"),
        positive("threads_per_core"),
        positive("slots"),
        positive("memory_mb"),
        not_negative("storage_gb"),
        not_negative("runs_before"),
        positive("rating"),
    )

    machine_class_id: Mapped[int]
    processors: Mapped[int] = mapped_column(default=1)
    threads_per_core: Mapped[int] = mapped_column(default=1, server_default="1")
    """So many of the processors are on one core, which jobs do not share."""
    slots: Mapped[int] = mapped_column(default=1, server_default="1")
    """The number of sequential jobs that mapping schedulers may run on it at a time."""
    memory_mb: Mapped[float | None]
    storage_gb: Mapped[float | None]
    os: Mapped[str] = mapped_column(default="")
    rating: Mapped[float | None]
    """Relative performance: with twice the rating, half the time is expected."""
    notional: Mapped[bool] = mapped_column(default=False)
    runs_before: Mapped[int] = mapped_column(default=0)
    """Runs up to this number were on other hardware with its name, and do not count for it."""


class MachineGpuRow(Base):
    """A machine has so many GPUs of a type."""

    __tablename__ = "machine_gpu"
    __table_args__ = (named("gpu_type"), positive("amount"))

    machine_id: Mapped[int] = part_of("machine", primary_key=True)
    gpu_type: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]


class MachineResourceRow(Base):
    """A machine has so much of a countable resource, other than processors, memory and GPUs."""

    __tablename__ = "machine_resource"
    __table_args__ = (named("resource"), positive("amount"))

    machine_id: Mapped[int] = part_of("machine", primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int] = mapped_column(BigInteger)


class MachineFeatureRow(Base):
    """A property of a machine that jobs can request."""

    __tablename__ = "machine_feature"
    __table_args__ = (named("feature"),)

    machine_id: Mapped[int] = part_of("machine", primary_key=True)
    feature: Mapped[str] = mapped_column(primary_key=True)


class SiteResourceRow(OfSite, Base):
    """A countable resource of the whole site, like licences of a program, which jobs use on any machine."""

    __tablename__ = "site_resource"
    __table_args__ = (UniqueConstraint("site_id", "name"), named(), positive("amount"))

    amount: Mapped[int] = mapped_column(BigInteger)


class PartitionRow(OfSite, Base):
    """A set of machines as nodes, which may overlap others, and the limits of its jobs.

    A site with partitions is scheduled by nodes: jobs request parts of them.
    """

    __tablename__ = "partition"
    __table_args__ = (
        UniqueConstraint("site_id", "name"),
        named(),
        positive("max_time_s"),
        positive("default_time_s"),
        positive("max_nodes"),
    )

    max_time_s: Mapped[float | None]
    default_time_s: Mapped[float | None]
    """The time limit of a job that requests none."""
    max_nodes: Mapped[int | None]
    exclusive: Mapped[bool] = mapped_column(default=False)
    """Whether its jobs take whole nodes."""


class PartitionNodeRow(Base):
    __tablename__ = "partition_node"

    partition_id: Mapped[int] = part_of("partition", primary_key=True)
    machine_id: Mapped[int] = part_of("machine", primary_key=True)


class InterconnectRow(OfSite, Base):
    __tablename__ = "interconnect"
    __table_args__ = (
        UniqueConstraint("site_id", "name"),
        named(),
        positive("bandwidth_mbit_per_s"),
        not_negative("latency_us"),
    )

    bandwidth_mbit_per_s: Mapped[float]
    latency_us: Mapped[float]


class MachineInterconnectRow(Base):
    """An interconnect serves a machine."""

    __tablename__ = "machine_interconnect"

    machine_id: Mapped[int] = part_of("machine", primary_key=True)
    interconnect_id: Mapped[int] = part_of("interconnect", primary_key=True)


class ClusterRow(OfSite, Base):
    """Machines that can execute one job in parallel; `least_share` of them suffice, by policy."""

    __tablename__ = "cluster"
    __table_args__ = (
        UniqueConstraint("site_id", "name"),
        named(),
        CheckConstraint("least_share > 0 AND least_share <= 1", name="least_share_is_a_share"),
    )

    least_share: Mapped[float] = mapped_column(default=1.0)


class SocialContractRow(Base):
    """Jobs share the nodes of a cluster, among themselves and with local users, who cede `share` of CPU and
    memory. Without `most_cpu`, the CPU that parallel tasks require of a node has the default limit."""

    __tablename__ = "social_contract"
    __table_args__ = (
        CheckConstraint("share > 0 AND share <= 1", name="share_is_a_share"),
        positive("most_jobs"),
        positive("most_cpu"),
    )

    cluster_id: Mapped[int] = part_of("cluster", primary_key=True)
    share: Mapped[float]
    most_jobs: Mapped[int]
    most_cpu: Mapped[float | None]


class ClusterMemberRow(Base):
    __tablename__ = "cluster_member"

    cluster_id: Mapped[int] = part_of("cluster", primary_key=True)
    machine_id: Mapped[int] = part_of("machine", primary_key=True)


class ClusterInterconnectRow(Base):
    """An interconnect serves a cluster."""

    __tablename__ = "cluster_interconnect"

    cluster_id: Mapped[int] = part_of("cluster", primary_key=True)
    interconnect_id: Mapped[int] = part_of("interconnect", primary_key=True)


class _State:
    """An observation that holds until the next row. `source_id` NULL = at the site itself."""

    id: Mapped[int] = mapped_column(primary_key=True, sort_order=-3)
    source_id: Mapped[int | None] = part_of("source", sort_order=-2)
    since_unix_s: Mapped[float] = mapped_column(sort_order=-1)


class MachineStateRow(_State, Base):
    __tablename__ = "machine_state"
    __table_args__ = (Index(None, "machine_id", "source_id", "id"), not_negative("local_load"))

    machine_id: Mapped[int] = part_of("machine")
    up: Mapped[bool]
    local_load: Mapped[float | None]
    """Processors that local users keep busy."""


class InterconnectStateRow(_State, Base):
    """As the network monitor reported: whether it is up, its traffic, and committed bandwidth."""

    __tablename__ = "interconnect_state"
    __table_args__ = (
        Index(None, "interconnect_id", "source_id", "id"),
        not_negative("traffic_mbit_per_s"),
        not_negative("committed_mbit_per_s"),
    )

    interconnect_id: Mapped[int] = part_of("interconnect")
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

    cluster_id: Mapped[int] = part_of("cluster")
    available_members: Mapped[int]
    accepts_parallel: Mapped[bool]
