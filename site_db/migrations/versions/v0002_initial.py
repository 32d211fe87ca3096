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
_ON_DELETE = {"cascade": "CASCADE", "set_null": "SET NULL", "restrict": None}
_CHECKS = {
    "positive": "{0} > 0 AND {0} < 1e15",
    "not_negative": "{0} >= 0 AND {0} < 1e15",
    "not_empty": "{0} <> ''",
}


def upgrade() -> None:
    _METADATA.create_all(op.get_bind(), checkfirst=False)


def _table(name: str, columns: str, *rest: sa.schema.SchemaItem, **options: Any) -> None:
    """A table with its columns as text: name, type and flags.

    A column is NOT NULL unless it is `null`; `key` columns are the primary key; `positive`, `not_negative` and
    `not_empty` are checks. `cascade`, `set_null` and `restrict` say what happens to a row when the row that it
    refers to is deleted: in the table that the column is named for, or the one after `=`.
    """
    items: list[sa.schema.SchemaItem] = []
    for described in columns.split(","):
        column, kind, *flags = described.split()
        items.append(sa.Column(column, _TYPES[kind], primary_key="key" in flags, nullable="null" in flags))
        for flag, _, table in (flag.partition("=") for flag in flags):
            if flag in _CHECKS:
                items.append(_check(f"{column}_{flag}", _CHECKS[flag].format(column)))
            if flag in _ON_DELETE:
                of = f"{table or column.removesuffix('_id')}.id"
                items.append(sa.ForeignKeyConstraint([column], [of], ondelete=_ON_DELETE[flag]))
    sa.Table(name, _METADATA, *items, *rest, **options)


def _table_of_site(name: str, columns: str, *rest: sa.schema.SchemaItem) -> None:
    """A table of named things of a site."""
    common = "id int key, site_id int cascade, name text not_empty, position int"
    _table(name, f"{common}, {columns}", sa.UniqueConstraint("site_id", "name"), *rest)


def _states(of: str, columns: str, *rest: sa.schema.SchemaItem) -> None:
    """States of resources over time."""
    common = f"id int key, source_id int null cascade, since_unix_s float, {of}_id int cascade"
    _table(f"{of}_state", f"{common}, {columns}", sa.Index(None, f"{of}_id", "source_id", "id"), *rest)


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


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
    """id int key, name text not_empty, description text, only_listed_users bool, runs_recorded int,
    runs_pruned int, snapshot_at int, jobs_recorded int not_negative, version int not_negative""",
    sa.UniqueConstraint("name"),
    _check("runs_pruned_were_recorded", "runs_pruned >= 0 AND runs_pruned <= runs_recorded"),
    _check("snapshot_at_a_recorded_run", "snapshot_at >= 0 AND snapshot_at <= runs_recorded"),
)

# Machines, interconnects and clusters

_table_of_site("machine_class", "architecture text", sa.UniqueConstraint("site_id", "id"))
_table_of_site(
    "machine",
    """machine_class_id int, processors int positive, memory_mb float null positive,
    storage_gb float null not_negative, os text, rating float null positive, notional bool,
    runs_before int not_negative""",
    sa.ForeignKeyConstraint(["site_id", "machine_class_id"], ["machine_class.site_id", "machine_class.id"]),
)
_table_of_site("interconnect", "bandwidth_mbit_per_s float positive, latency_us float not_negative")
_table_of_site(
    "cluster",
    "least_share float",
    _check("least_share_is_a_share", "least_share > 0 AND least_share <= 1"),
)
_table("cluster_member", "cluster_id int key cascade, machine_id int key cascade")
_table("cluster_interconnect", "cluster_id int key cascade, interconnect_id int key cascade")
_table("machine_interconnect", "machine_id int key cascade, interconnect_id int key cascade")

# Job classes, queues and users

_table_of_site("job_class", "description text, size text, network_mbit_per_s float null not_negative")
_table(
    "allowed_place",
    """id int key, job_class_id int cascade, machine_class_id int null cascade, cluster_id int null cascade,
    command_line text null, expected_s float null positive""",
    _one_place("machine_class_id", "cluster_id"),
    _check("time_or_command", "expected_s IS NOT NULL OR command_line IS NOT NULL"),
    _unique_where_filled("allowed_place", "job_class_id", "machine_class_id"),
    _unique_where_filled("allowed_place", "job_class_id", "cluster_id"),
)
_table(
    "preference",
    "job_class_id int key cascade, machine_class_id int key cascade, rank int",
    sa.UniqueConstraint("job_class_id", "rank"),
    _check("rank_not_negative", "rank >= 0"),
)
_table_of_site(
    "queue",
    "priority int, scheduler text null, mapping text, open_to_all bool",
    _check("mapping_known", "mapping IN ('commit', 'remap')"),
)
_table("queue_user", "queue_id int key cascade, user_name text key not_empty")
_table(
    "queue_displaces",
    "queue_id int key cascade, displaced_queue_id int key cascade=queue",
    _check("not_itself", "queue_id <> displaced_queue_id"),
)
_table_of_site(
    "site_user", "listed bool, all_queues bool, most_jobs int null positive, highest_priority int null"
)
_table("user_queue", "user_id int key cascade=site_user, queue_id int key cascade")
_table(
    "submission_right",
    """id int key, user_id int cascade=site_user, as_user_id int cascade=site_user,
    queue_id int null cascade""",
    sa.UniqueConstraint("user_id", "as_user_id", "queue_id"),
    _check("not_as_oneself", "user_id <> as_user_id"),
)
_table(
    "user_usage",
    """user_id int key cascade=site_user, queue text key, jobs_submitted int not_negative,
    runs int not_negative, execution_time_s float not_negative""",
)

# Jobs and their sources

_table(
    "source",
    """id int key, site_id int cascade, kind text, key text not_empty, name text, scheduler text null,
    point int null, replication int null""",
    sa.UniqueConstraint("site_id", "key"),
    _check("kind_known", "kind IN ('live', 'file', 'sacct', 'swf', 'testbed')"),
)
_table("recording", "site_id int key cascade, recorder text key not_empty, batches int positive")
_table(
    "job",
    """site_id int key cascade, serial int key, source_id int cascade, number text, job_class_id int restrict,
    user_id int restrict=site_user, submitted_by_id int null restrict=site_user, queue text,
    size float null positive, state text, reason text, machine_id int null set_null,
    cluster_id int null set_null, submitted_unix_s float, started_unix_s float null,
    ended_unix_s float null, preemptions int not_negative, time_limit_s float null positive,
    run_number int null""",
    _check("one_place_at_most", "machine_id IS NULL OR cluster_id IS NULL"),
    _check("state_known", "state IN ('waiting', 'running', 'done', 'failed', 'refused')"),
    _check("serial_positive", "serial > 0"),
    sa.Index(None, "source_id", "number"),
    sa.Index(None, "site_id", "queue", "state"),
    sqlite_with_rowid=False,
)
_table(
    "prediction",
    """id int key, site_id int, job_serial int, quantity text, made_unix_s float,
    predicted_s float not_negative, low_s float null, high_s float null, grounds text,
    actual_s float null not_negative""",
    sa.ForeignKeyConstraint(["site_id", "job_serial"], ["job.site_id", "job.serial"], ondelete="CASCADE"),
    _check("quantity_known", "quantity IN ('run_time', 'turnaround')"),
    _check("inside_its_interval", "low_s <= predicted_s AND predicted_s <= high_s"),
    sa.Index(None, "site_id", "job_serial"),
)

# Completed runs, their statistics, and states of resources

_table(
    "execution_history",
    """site_id int key cascade, number int key, source_id int restrict, job_class_id int restrict,
    machine_class_id int null restrict, machine_id int null set_null, cluster_id int null restrict,
    members int null, started_unix_s float, run_time_s float positive, size float null positive,
    user_id int restrict=site_user, queue text""",
    _one_place("machine_class_id", "cluster_id"),
    _check("a_machine_or_a_cluster", "machine_id IS NULL OR cluster_id IS NULL"),
    _members_of_clusters(),
    _check("number_positive", "number > 0"),
    sqlite_with_rowid=False,
)
_MOMENTS = """squares_s2 float, least_s float, sized_count int, sized_mean_s float, mean_size float,
    squares_size2 float, products float, sketch bytes"""
_table(
    "execution_statistics",
    f"""id int key, job_class_id int cascade, machine_class_id int null cascade, machine_id int null cascade,
    cluster_id int null cascade, members int null, changed_at int, count int positive, mean_s float positive,
    {_MOMENTS}""",
    _one_place("machine_class_id", "machine_id", "cluster_id"),
    _members_of_clusters(),
    _check("squares_s2_not_negative", "squares_s2 >= 0 AND squares_s2 < 1e300"),
    _unique_where_filled("execution_statistics", "job_class_id", "machine_class_id"),
    _unique_where_filled("execution_statistics", "job_class_id", "machine_id"),
    _unique_where_filled("execution_statistics", "job_class_id", "cluster_id", "members"),
    postgresql_with={"fillfactor": 50},
)
_table(
    "execution_snapshot",
    f"""statistics_id int key cascade=execution_statistics, number int key, count int, mean_s float,
    {_MOMENTS}""",
)
_states("machine", "up bool, local_load float null not_negative")
_states(
    "interconnect",
    """up bool, traffic_mbit_per_s float null not_negative,
    committed_mbit_per_s float null not_negative""",
)
_states(
    "cluster",
    "available_members int, accepts_parallel bool",
    _check("available_members_not_negative", "available_members >= 0"),
)
