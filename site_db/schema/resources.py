"""A site and its resources: machines, interconnects and clusters, and their states."""

from __future__ import annotations

from typing import Any

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from site_db.files.fields import Amount, Name, Whole, WholeNumber
from site_db.files.toml_file import NotNegative, Positive
from site_db.schema.conventions import Base, Share, part_of, related


class SiteRow(Base):
    """A group of machines that a set of users may use indifferently.

    The runs in a site's history are numbered from 1 without gaps. `runs_recorded` is the last number; a
    writer takes the next ones by an update of this row, which serialises writers. Runs up to `runs_pruned`
    are deleted; `snapshot_at` is the last run at which all statistics were copied. Jobs are numbered in the
    same way. `version` grows whenever the site itself changes.
    """

    __tablename__ = "site"
    __table_args__ = (
        CheckConstraint(
            "runs_pruned >= 0 AND runs_pruned <= runs_recorded", name="runs_pruned_were_recorded"
        ),
        CheckConstraint(
            "snapshot_at >= 0 AND snapshot_at <= runs_recorded", name="snapshot_at_a_recorded_run"
        ),
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[Name] = mapped_column(unique=True)
    description: Mapped[str] = mapped_column(default="")
    only_listed_users: Mapped[bool] = mapped_column(default=False)
    runs_recorded: Mapped[int] = mapped_column(default=0)
    runs_pruned: Mapped[int] = mapped_column(default=0)
    snapshot_at: Mapped[int] = mapped_column(default=0)
    jobs_recorded: Mapped[Whole] = mapped_column(default=0)
    version: Mapped[Whole] = mapped_column(default=0)


class OfSite:
    """A named row of a site, at a position in the order of the site file."""

    id: Mapped[int] = mapped_column(primary_key=True, sort_order=-4)
    site_id: Mapped[int] = part_of("site", sort_order=-3)
    name: Mapped[Name] = mapped_column(sort_order=-2)
    position: Mapped[int] = mapped_column(sort_order=-1)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__table__.append_constraint(UniqueConstraint("site_id", "name"))  # type: ignore[attr-defined]


class MachineClassRow(OfSite, Base):
    """Machines that run the same executables equally fast."""

    __tablename__ = "machine_class"
    __table_args__ = (UniqueConstraint("site_id", "id"),)

    architecture: Mapped[str] = mapped_column(default="")


class MachineRow(OfSite, Base):
    """A machine and its specification. A notional one exists only in experiments and plans."""

    __tablename__ = "machine"
    __table_args__ = (
        ForeignKeyConstraint(["site_id", "machine_class_id"], ["machine_class.site_id", "machine_class.id"]),
    )

    machine_class_id: Mapped[int]
    processors: Mapped[WholeNumber] = mapped_column(default=1)
    threads_per_core: Mapped[WholeNumber] = mapped_column(default=1, server_default="1")
    """So many of the processors are on one core, which jobs do not share."""
    slots: Mapped[WholeNumber] = mapped_column(default=1, server_default="1")
    """The number of sequential jobs that mapping schedulers may run on it at a time."""
    memory_mb: Mapped[Positive | None]
    storage_gb: Mapped[NotNegative | None]
    os: Mapped[str] = mapped_column(default="")
    rating: Mapped[Positive | None]
    """Relative performance: with twice the rating, half the time is expected."""
    notional: Mapped[bool] = mapped_column(default=False)
    runs_before: Mapped[Whole] = mapped_column(default=0)
    """Runs up to this number were on other hardware with its name, and do not count for it."""


class SiteResourceRow(OfSite, Base):
    """A countable resource of the whole site, like licences of a program, which jobs use on any machine."""

    __tablename__ = "site_resource"

    amount: Mapped[Amount]


class PartitionRow(OfSite, Base):
    """A set of machines as nodes, which may overlap others, and the limits of its jobs.

    A site with partitions is scheduled by nodes: jobs request parts of them.
    """

    __tablename__ = "partition"

    max_time_s: Mapped[Positive | None]
    default_time_s: Mapped[Positive | None]
    """The time limit of a job that requests none."""
    max_nodes: Mapped[WholeNumber | None]
    exclusive: Mapped[bool] = mapped_column(default=False)
    """Whether its jobs take whole nodes."""


class InterconnectRow(OfSite, Base):
    __tablename__ = "interconnect"

    bandwidth_mbit_per_s: Mapped[Positive]
    latency_us: Mapped[NotNegative]


class ClusterRow(OfSite, Base):
    """Machines that can execute one job in parallel; `least_share` of them suffice, by policy."""

    __tablename__ = "cluster"

    least_share: Mapped[Share] = mapped_column(default=1.0)


class SocialContractRow(Base):
    """Jobs share the nodes of a cluster, among themselves and with local users, who cede `share` of CPU and
    memory. Without `most_cpu`, the CPU that parallel tasks require of a node has the default limit."""

    __tablename__ = "social_contract"

    cluster_id: Mapped[int] = part_of("cluster", primary_key=True)
    share: Mapped[Share]
    most_jobs: Mapped[WholeNumber]
    most_cpu: Mapped[Positive | None]


MachineGpuRow = related("machine_gpu", machine_id="machine", gpu_type=Name, amount=WholeNumber)
MachineResourceRow = related("machine_resource", machine_id="machine", resource=Name, amount=Amount)
"""How much a machine has of a countable resource, other than processors, memory and GPUs."""
MachineFeatureRow = related("machine_feature", machine_id="machine", feature=Name)
"""A property of a machine that jobs can request."""
PartitionNodeRow = related("partition_node", partition_id="partition", machine_id="machine")
MachineInterconnectRow = related("machine_interconnect", machine_id="machine", interconnect_id="interconnect")
ClusterMemberRow = related("cluster_member", cluster_id="cluster", machine_id="machine")
ClusterInterconnectRow = related("cluster_interconnect", cluster_id="cluster", interconnect_id="interconnect")


class _State:
    """An observation that holds until the next row. `source_id` NULL = at the site itself."""

    id: Mapped[int] = mapped_column(primary_key=True, sort_order=-3)
    source_id: Mapped[int | None] = part_of("source", sort_order=-2)
    since_unix_s: Mapped[float] = mapped_column(sort_order=-1)


class MachineStateRow(_State, Base):
    __tablename__ = "machine_state"
    __table_args__ = (Index(None, "machine_id", "source_id", "id"),)

    machine_id: Mapped[int] = part_of("machine")
    up: Mapped[bool]
    local_load: Mapped[NotNegative | None]
    """Processors that local users keep busy."""


class InterconnectStateRow(_State, Base):
    """As the network monitor reported: whether it is up, its traffic, and committed bandwidth."""

    __tablename__ = "interconnect_state"
    __table_args__ = (Index(None, "interconnect_id", "source_id", "id"),)

    interconnect_id: Mapped[int] = part_of("interconnect")
    up: Mapped[bool]
    traffic_mbit_per_s: Mapped[NotNegative | None]
    committed_mbit_per_s: Mapped[NotNegative | None]


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
