"""A site and its resources: machines, interconnects and clusters, and their states; and what all tables
share: names of constraints, references to owners, checks that follow from types."""

from __future__ import annotations

from inspect import get_annotations
from typing import Annotated, Any, get_args

from pydantic import Field
from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    MetaData,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedColumn, mapped_column

from site_db.files.fields import Amount, Megabytes, Name, Whole, WholeNumber
from site_db.files.toml_file import NotNegative, Positive

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}
Share = Annotated[float, Field(gt=0, le=1)]
_POSITIVE = ("positive", "{0} > 0 AND {0} < 1e15")
_NOT_NEGATIVE = ("not_negative", "{0} >= 0 AND {0} < 1e15")
"""The check of numbers that are not negative, as in files (`files.input_errors.MAX_VALUE`); infinity is
greater, and PostgreSQL's NaN too."""
CHECKS: dict[Any, tuple[str, str]] = {
    **dict.fromkeys((Positive, WholeNumber, Amount), _POSITIVE),
    **dict.fromkeys((NotNegative, Whole, Megabytes), _NOT_NEGATIVE),
    Share: ("is_a_share", "{0} > 0 AND {0} <= 1"),
    Name: ("not_empty", "{0} <> ''"),
}
"""The end of a constraint's name, and its condition, by the type of a column."""
ON_POSTGRESQL = "postgresql"
"""The key of what only PostgreSQL has, in the `info` of a table or an index."""


class Base(DeclarativeBase):
    """The base of all tables. Columns of the types of site files have the checks of these types."""

    metadata = MetaData(naming_convention=NAMING)
    type_annotation_map = dict.fromkeys((Amount, Megabytes), BigInteger)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for owner in cls.__mro__[: cls.__mro__.index(Base)]:
            for column, mapped in get_annotations(owner, eval_str=True).items():
                for kind in get_args(mapped)[:1]:
                    found = next((CHECKS[of] for of in (kind, *get_args(kind)) if of in CHECKS), None)
                    if found is not None:
                        check = CheckConstraint(found[1].format(column), name=f"{column}_{found[0]}")
                        cls.__table__.append_constraint(check)  # type: ignore[attr-defined]


def part_of(table: str, **options: Any) -> MappedColumn[Any]:
    """The id of a row of `table`, with which this row is deleted."""
    return mapped_column(ForeignKey(f"{table}.id", ondelete="CASCADE"), **options)


def related(table: str, **columns: Any) -> Any:
    """The class of rows that relate rows of tables, which the columns with their ids name, to one another, to
    names, and to amounts, which are given by their types."""
    made: dict[str, Any] = {"__tablename__": table, "__annotations__": {}}
    for column, of in columns.items():
        if isinstance(of, str):
            made[column] = part_of(of, primary_key=True)
        else:
            made["__annotations__"][column] = Mapped[of]  # type: ignore[valid-type]
            made[column] = mapped_column(primary_key=of is Name)
    return type(table, (Base,), made)


def one_of(column: str, *values: str) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


def exactly_one(*columns: str) -> CheckConstraint:
    """The constraint that one of these columns is filled."""
    filled = " + ".join(f"CASE WHEN {column} IS NULL THEN 0 ELSE 1 END" for column in columns)
    return CheckConstraint(f"{filled} = 1", name="one_place")


def members_of_clusters() -> CheckConstraint:
    """The constraint that clusters have a number of members, and machines have none."""
    return CheckConstraint(
        "(cluster_id IS NULL AND members IS NULL) OR "
        "(cluster_id IS NOT NULL AND members IS NOT NULL AND members > 0)",
        name="members_of_clusters",
    )


def unique_where_filled(table: str, first: str, *place: str) -> Index:
    """One partial index for each kind of place, since NULLs never collide."""
    filled = text(f"{place[0]} IS NOT NULL")
    name = "_".join(("uq", table, first, *place))
    on_postgresql = {ON_POSTGRESQL: {"where": filled}}
    return Index(name, first, *place, unique=True, sqlite_where=filled, info=on_postgresql)


def use_options_of_postgresql() -> None:
    """Give tables and indexes their options for PostgreSQL. To name them in the tables would load its dialect
    and those of its drivers, which databases on SQLite do without."""
    for table in Base.metadata.tables.values():
        made: list[Table | Index] = [table, *table.indexes]
        for each in made:
            each.dialect_options["postgresql"].update(each.info.get(ON_POSTGRESQL, {}))


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
    topology: Mapped[dict[str, Any] | None] = mapped_column(JSON)
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
    """The number of processors on one core, which jobs do not share."""
    slots: Mapped[WholeNumber] = mapped_column(default=1, server_default="1")
    """The number of sequential jobs that mapping schedulers may run on it at a time."""
    memory_mb: Mapped[Positive | None]
    storage_gb: Mapped[NotNegative | None]
    switch: Mapped[str] = mapped_column(default="", server_default="")
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
