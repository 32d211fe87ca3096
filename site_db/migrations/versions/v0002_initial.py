"""The initial schema, stated without the present models: it must not change with them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = None

_METADATA = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_TYPES = {
    "int": sa.Integer,
    "float": sa.Double,
    "text": sa.String,
    "bool": sa.Boolean,
    "bytes": sa.LargeBinary,
}


def upgrade() -> None:
    _METADATA.create_all(op.get_bind(), checkfirst=False)


def _table(name: str, columns: str, *rest: sa.schema.SchemaItem, **options: Any) -> None:
    """A table whose columns are written as in SQL, but NOT NULL unless they are `null`."""
    described = [column.split() for column in columns.split(",")]
    sa.Table(
        name,
        _METADATA,
        *(
            sa.Column(column, _TYPES[kind], primary_key="key" in flags, nullable="null" in flags)
            for column, kind, *flags in described
        ),
        *rest,
        **options,
    )


def _table_of_site(name: str, columns: str, *rest: sa.schema.SchemaItem) -> None:
    """A table of named things of a site."""
    common = "id int key, site_id int, name text, position int"
    unique = sa.UniqueConstraint("site_id", "name")
    _table(name, f"{common}, {columns}", _owner("site"), unique, _not_empty("name"), *rest)


def _pairs(name: str, first: str, second: str) -> None:
    """A table that relates rows of two others."""
    _table(name, f"{first}_id int key, {second}_id int key", _owner(first), _owner(second))


def _states(of: str, columns: str, *rest: sa.schema.SchemaItem) -> None:
    """States of resources over time."""
    name, parent_id = f"{of}_state", f"{of}_id"
    common = f"id int key, source_id int null, since_unix_s float, {parent_id} int"
    index = sa.Index(None, parent_id, "source_id", "id")
    _table(name, f"{common}, {columns}", _owner("source"), _owner(of), index, *rest)


def _reference(table: str, column: str = "", ondelete: str | None = None) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column or f"{table}_id"], [f"{table}.id"], ondelete=ondelete)


def _owner(table: str, column: str = "") -> sa.ForeignKeyConstraint:
    """A row is deleted with the row of `table` that it names."""
    return _reference(table, column, "CASCADE")


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


def _not_empty(column: str) -> sa.CheckConstraint:
    return _check(f"{column}_not_empty", f"{column} <> ''")


def _positive(column: str) -> sa.CheckConstraint:
    return _check(f"{column}_positive", f"{column} > 0 AND {column} < 1e15")


def _not_negative(column: str) -> sa.CheckConstraint:
    return _check(f"{column}_not_negative", f"{column} >= 0 AND {column} < 1e15")


def _one_place(*columns: str) -> sa.CheckConstraint:
    filled = " + ".join(f"CASE WHEN {column} IS NULL THEN 0 ELSE 1 END" for column in columns)
    return _check("one_place", f"{filled} = 1")


def _members_of_clusters() -> sa.CheckConstraint:
    return _check(
        "members_of_clusters",
        "(cluster_id IS NULL AND members IS NULL) OR "
        "(cluster_id IS NOT NULL AND members IS NOT NULL AND members > 0)",
    )


def _unique_where_filled(table: str, *columns: str) -> sa.Index:
    filled = sa.text(f"{columns[1]} IS NOT NULL")
    name = "_".join(("uq", table, *columns))
    return sa.Index(name, *columns, unique=True, sqlite_where=filled, postgresql_where=filled)


_table(
    "site",
    """id int key, name text, description text, only_listed_users bool, runs_recorded int, runs_pruned int,
    snapshot_at int, jobs_recorded int, version int""",
    sa.UniqueConstraint("name"),
    _not_empty("name"),
    _check("runs_pruned_were_recorded", "runs_pruned >= 0 AND runs_pruned <= runs_recorded"),
    _check("snapshot_at_a_recorded_run", "snapshot_at >= 0 AND snapshot_at <= runs_recorded"),
    _not_negative("jobs_recorded"),
    _not_negative("version"),
)

# Machines, interconnects and clusters

_table_of_site("machine_class", "architecture text", sa.UniqueConstraint("site_id", "id"))
_table_of_site(
    "machine",
    """machine_class_id int, processors int, memory_mb float null, storage_gb float null, os text,
    rating float null, notional bool, runs_before int""",
    sa.ForeignKeyConstraint(["site_id", "machine_class_id"], ["machine_class.site_id", "machine_class.id"]),
    *map(_positive, ("processors", "memory_mb", "rating")),
    *map(_not_negative, ("storage_gb", "runs_before")),
)
_table_of_site(
    "interconnect",
    "bandwidth_mbit_per_s float, latency_us float",
    _positive("bandwidth_mbit_per_s"),
    _not_negative("latency_us"),
)
_table_of_site(
    "cluster",
    "least_share float",
    _check("least_share_is_a_share", "least_share > 0 AND least_share <= 1"),
)
_pairs("cluster_member", "cluster", "machine")
_pairs("cluster_interconnect", "cluster", "interconnect")
_pairs("machine_interconnect", "machine", "interconnect")

# Job classes, queues and users

_table_of_site(
    "job_class",
    "description text, size text, network_mbit_per_s float null",
    _not_negative("network_mbit_per_s"),
)
_table(
    "allowed_place",
    """id int key, job_class_id int, machine_class_id int null, cluster_id int null, command_line text null,
    expected_s float null""",
    *map(_owner, ("job_class", "machine_class", "cluster")),
    _one_place("machine_class_id", "cluster_id"),
    _positive("expected_s"),
    _check("time_or_command", "expected_s IS NOT NULL OR command_line IS NOT NULL"),
    _unique_where_filled("allowed_place", "job_class_id", "machine_class_id"),
    _unique_where_filled("allowed_place", "job_class_id", "cluster_id"),
)
_table(
    "preference",
    "job_class_id int key, machine_class_id int key, rank int",
    *map(_owner, ("job_class", "machine_class")),
    sa.UniqueConstraint("job_class_id", "rank"),
    _check("rank_not_negative", "rank >= 0"),
)
_table_of_site(
    "queue",
    "priority int, scheduler text null, mapping text, open_to_all bool",
    _check("mapping_known", "mapping IN ('commit', 'remap')"),
)
_table("queue_user", "queue_id int key, user_name text key", _owner("queue"), _not_empty("user_name"))
_table(
    "queue_displaces",
    "queue_id int key, displaced_queue_id int key",
    _owner("queue"),
    _owner("queue", "displaced_queue_id"),
    _check("not_itself", "queue_id <> displaced_queue_id"),
)
_table_of_site(
    "site_user",
    "listed bool, all_queues bool, most_jobs int null, highest_priority int null",
    _positive("most_jobs"),
)
_table("user_queue", "user_id int key, queue_id int key", _owner("site_user", "user_id"), _owner("queue"))
_table(
    "submission_right",
    "id int key, user_id int, as_user_id int, queue_id int null",
    _owner("site_user", "user_id"),
    _owner("site_user", "as_user_id"),
    _owner("queue"),
    sa.UniqueConstraint("user_id", "as_user_id", "queue_id"),
    _check("not_as_oneself", "user_id <> as_user_id"),
)
_table(
    "user_usage",
    "user_id int key, queue text key, jobs_submitted int, runs int, execution_time_s float",
    _owner("site_user", "user_id"),
    *map(_not_negative, ("jobs_submitted", "runs", "execution_time_s")),
)

# Jobs and their sources

_table(
    "source",
    """id int key, site_id int, kind text, key text, name text, scheduler text null, point int null,
    replication int null""",
    _owner("site"),
    sa.UniqueConstraint("site_id", "key"),
    _not_empty("key"),
    _check("kind_known", "kind IN ('live', 'file', 'sacct', 'swf', 'testbed')"),
)
_table(
    "recording",
    "site_id int key, recorder text key, batches int",
    _owner("site"),
    _not_empty("recorder"),
    _positive("batches"),
)
_table(
    "job",
    """site_id int key, serial int key, source_id int, number text, job_class_id int, user_id int,
    submitted_by_id int null, queue text, size float null, state text, reason text, machine_id int null,
    cluster_id int null, submitted_unix_s float, started_unix_s float null, ended_unix_s float null,
    preemptions int, time_limit_s float null, run_number int null""",
    *map(_owner, ("site", "source")),
    _reference("job_class"),
    _reference("site_user", "user_id"),
    _reference("site_user", "submitted_by_id"),
    _reference("machine", ondelete="SET NULL"),
    _reference("cluster", ondelete="SET NULL"),
    _check("one_place_at_most", "machine_id IS NULL OR cluster_id IS NULL"),
    _check("state_known", "state IN ('waiting', 'running', 'done', 'failed', 'refused')"),
    _check("serial_positive", "serial > 0"),
    *map(_positive, ("size", "time_limit_s")),
    _not_negative("preemptions"),
    sa.Index(None, "source_id", "number"),
    sa.Index(None, "site_id", "queue", "state"),
    sqlite_with_rowid=False,
)
_table(
    "prediction",
    """id int key, site_id int, job_serial int, quantity text, made_unix_s float, predicted_s float,
    low_s float null, high_s float null, grounds text, actual_s float null""",
    sa.ForeignKeyConstraint(["site_id", "job_serial"], ["job.site_id", "job.serial"], ondelete="CASCADE"),
    _check("quantity_known", "quantity IN ('run_time', 'turnaround')"),
    _check("inside_its_interval", "low_s <= predicted_s AND predicted_s <= high_s"),
    *map(_not_negative, ("predicted_s", "actual_s")),
    sa.Index(None, "site_id", "job_serial"),
)

# Completed runs, their statistics, and states of resources

_table(
    "execution_history",
    """site_id int key, number int key, source_id int, job_class_id int, machine_class_id int null,
    machine_id int null, cluster_id int null, members int null, started_unix_s float, run_time_s float,
    size float null, user_id int, queue text""",
    _owner("site"),
    *map(_reference, ("source", "job_class", "machine_class", "cluster")),
    _reference("machine", ondelete="SET NULL"),
    _reference("site_user", "user_id"),
    _one_place("machine_class_id", "cluster_id"),
    _check("a_machine_or_a_cluster", "machine_id IS NULL OR cluster_id IS NULL"),
    _members_of_clusters(),
    _check("number_positive", "number > 0"),
    *map(_positive, ("run_time_s", "size")),
    sqlite_with_rowid=False,
)
_MOMENTS = """count int, mean_s float, squares_s2 float, least_s float, sized_count int, sized_mean_s float,
    mean_size float, squares_size2 float, products float, sketch bytes"""
_table(
    "execution_statistics",
    f"""id int key, job_class_id int, machine_class_id int null, machine_id int null, cluster_id int null,
    members int null, changed_at int, {_MOMENTS}""",
    *map(_owner, ("job_class", "machine_class", "machine", "cluster")),
    _one_place("machine_class_id", "machine_id", "cluster_id"),
    _members_of_clusters(),
    *map(_positive, ("count", "mean_s")),
    _check("squares_s2_not_negative", "squares_s2 >= 0 AND squares_s2 < 1e300"),
    _unique_where_filled("execution_statistics", "job_class_id", "machine_class_id"),
    _unique_where_filled("execution_statistics", "job_class_id", "machine_id"),
    _unique_where_filled("execution_statistics", "job_class_id", "cluster_id", "members"),
    postgresql_with={"fillfactor": 50},
)
_table(
    "execution_snapshot",
    f"statistics_id int key, number int key, {_MOMENTS}",
    _owner("execution_statistics", "statistics_id"),
)
_states("machine", "up bool, local_load float null", _not_negative("local_load"))
_states(
    "interconnect",
    "up bool, traffic_mbit_per_s float null, committed_mbit_per_s float null",
    *map(_not_negative, ("traffic_mbit_per_s", "committed_mbit_per_s")),
)
_states(
    "cluster",
    "available_members int, accepts_parallel bool",
    _check("available_members_not_negative", "available_members >= 0"),
)
