"""The database of Figure 1, whole: users, jobs, states, places with command lines, statistics per machine.

Nearly every table changes, so what release 0.1.0 kept is read, its tables go, and it is written into the new
ones. It kept no runs with fewer cluster members than all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op

from site_db.history.quantile_sketch import QuantileSketch
from site_db.history.statistics import RunStatistics

revision = "0002"
down_revision = "0001"

Rows = list[dict[str, Any]]

OLD_TABLES = (
    "queue_displaces",
    "queue_user",
    "queue",
    "execution_history",
    "execution_statistics",
    "expected_time",
    "preference",
    "job_class",
    "cluster_interconnect",
    "cluster_member",
    "cluster",
    "interconnect",
    "machine",
    "machine_class",
    "site",
)
IN_SITE_ORDER = ("machine_class", "machine", "interconnect", "cluster", "job_class", "queue")


def upgrade() -> None:
    connection = op.get_bind()
    old = {name: _rows(connection, name) for name in OLD_TABLES}
    for name in OLD_TABLES:
        op.drop_table(name)
    _make_tables()
    new = _translated(old)
    tables = sa.MetaData()
    tables.reflect(connection)
    for table in tables.sorted_tables:
        if new.get(table.name):
            connection.execute(sa.insert(table), new[table.name])
    if connection.dialect.name == "postgresql":
        _go_on_counting(connection, tables)


def _rows(connection: sa.Connection, name: str) -> Rows:
    query = sa.select(sa.table(name, sa.column("*", is_literal=True)))
    return [dict(row) for row in connection.execute(query).mappings()]


def _translated(old: dict[str, Rows]) -> dict[str, Rows]:
    """The rows of the new tables."""
    new = {name: old[name] for name in ("cluster_member", "cluster_interconnect", "preference")}
    new["queue_displaces"] = old["queue_displaces"]
    new["queue_user"] = [{"queue_id": row["queue_id"], "user_name": row["user"]} for row in old["queue_user"]]
    for name in IN_SITE_ORDER:
        new[name] = _numbered(sorted(old[name], key=lambda row: row["id"]))
    for machine in new["machine"]:
        machine.update(processors=1, os="", notional=False, runs_before=0)
    for job_class in new["job_class"]:
        job_class["size"] = ""
    for queue in new["queue"]:
        queue["open_to_all"] = bool(queue["open_to_all"])
    new["allowed_place"] = old["expected_time"]
    new |= _history(old)
    recorded = Counter(run["site_id"] for run in new["execution_history"])
    new["site"] = [
        {
            **site,
            "only_listed_users": False,
            "runs_recorded": recorded[site["id"]],
            "runs_pruned": 0,
            "snapshot_at": 0,
            "jobs_recorded": 0,
            "version": 0,
        }
        for site in old["site"]
    ]
    return new


def _numbered(rows: Rows) -> Rows:
    places: Counter[int] = Counter()
    numbered = []
    for row in rows:
        numbered.append({**row, "position": places[row["site_id"]]})
        places[row["site_id"]] += 1
    return numbered


def _history(old: dict[str, Rows]) -> dict[str, Rows]:
    site_of = {row["id"]: row["site_id"] for row in old["job_class"]}
    members = Counter(row["cluster_id"] for row in old["cluster_member"])
    sources: dict[int, dict[str, Any]] = {}
    users: dict[tuple[int, str], dict[str, Any]] = {}
    usage: dict[tuple[int, str], dict[str, Any]] = {}
    runs: Rows = []
    numbers: Counter[int] = Counter()
    for row in sorted(old["execution_history"], key=lambda row: row["id"]):
        site = site_of[row["job_class_id"]]
        numbers[site] += 1
        source = sources.setdefault(site, _source(len(sources) + 1, site))
        user = users.setdefault((site, row["user"]), _user(len(users) + 1, site, row["user"]))
        had = usage.setdefault((user["id"], row["queue"]), _usage(user["id"], row["queue"]))
        had["runs"] += 1
        had["execution_time_s"] += row["run_time_s"]
        runs.append(
            {
                "site_id": site,
                "number": numbers[site],
                "source_id": source["id"],
                "job_class_id": row["job_class_id"],
                "machine_class_id": row["machine_class_id"],
                "machine_id": row["machine_id"],
                "cluster_id": row["cluster_id"],
                "members": members[row["cluster_id"]] if row["cluster_id"] is not None else None,
                "started_unix_s": row["started_s"],
                "run_time_s": row["run_time_s"],
                "user_id": user["id"],
                "queue": row["queue"],
            }
        )
    return {
        "source": list(sources.values()),
        "site_user": list(users.values()),
        "user_usage": list(usage.values()),
        "execution_history": runs,
        "execution_statistics": _statistics(runs),
    }


def _source(id: int, site: int) -> dict[str, Any]:
    return {"id": id, "site_id": site, "kind": "live", "key": "live", "name": "recorded as it happened"}


def _user(id: int, site: int, name: str) -> dict[str, Any]:
    return {
        "id": id,
        "site_id": site,
        "name": name or "unknown",
        "position": 2**31 - 1,
        "listed": False,
        "all_queues": True,
    }


def _usage(user: int, queue: str) -> dict[str, Any]:
    return {"user_id": user, "queue": queue, "jobs_submitted": 0, "runs": 0, "execution_time_s": 0.0}


def _statistics(runs: Rows) -> Rows:
    places = ("job_class_id", "machine_class_id", "machine_id", "cluster_id", "members")
    times_of: defaultdict[tuple[int | None, ...], list[float]] = defaultdict(list)
    changed_at: dict[tuple[int | None, ...], int] = {}
    for run in runs:
        for place in _counts_for(run):
            times_of[place].append(run["run_time_s"])
            changed_at[place] = run["number"]
    rows: Rows = []
    for place, times_s in times_of.items():
        seen = RunStatistics.of(times_s)
        rows.append(
            {
                **dict(zip(places, place, strict=True)),
                "count": seen.count,
                "mean_s": seen.mean_s,
                "squares_s2": seen.squares_s2,
                "least_s": seen.least_s,
                "sized_count": 0,
                "sized_mean_s": 0.0,
                "mean_size": 0.0,
                "squares_size2": 0.0,
                "products": 0.0,
                "sketch": QuantileSketch(times_s).to_bytes(),
                "changed_at": changed_at[place],
            }
        )
    return rows


def _counts_for(run: dict[str, Any]) -> Iterable[tuple[int | None, ...]]:
    job_class = run["job_class_id"]
    if run["cluster_id"] is not None:
        yield job_class, None, None, run["cluster_id"], run["members"]
        return
    yield job_class, run["machine_class_id"], None, None, None
    if run["machine_id"] is not None:
        yield job_class, None, run["machine_id"], None, None


def _go_on_counting(connection: sa.Connection, tables: sa.MetaData) -> None:
    """Ids were given by hand: PostgreSQL's sequences go on behind them."""
    for table in tables.sorted_tables:
        if "id" in table.columns:
            last = f"(SELECT max(id) FROM {table.name})"
            connection.exec_driver_sql(
                f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), {last}) WHERE {last} > 0"
            )


def _make_tables() -> None:
    # ### commands auto generated by Alembic - please adjust! ###
    op.create_table(
        "site",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("only_listed_users", sa.Boolean(), nullable=False),
        sa.Column("runs_recorded", sa.Integer(), nullable=False),
        sa.Column("runs_pruned", sa.Integer(), nullable=False),
        sa.Column("snapshot_at", sa.Integer(), nullable=False),
        sa.Column("jobs_recorded", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("name <> ''", name=op.f("ck_site_name_not_empty")),
        sa.CheckConstraint(
            "jobs_recorded >= 0 AND jobs_recorded < 1e15", name=op.f("ck_site_jobs_recorded_not_negative")
        ),
        sa.CheckConstraint(
            "runs_pruned >= 0 AND runs_pruned <= runs_recorded",
            name=op.f("ck_site_runs_pruned_were_recorded"),
        ),
        sa.CheckConstraint(
            "snapshot_at >= 0 AND snapshot_at <= runs_recorded",
            name=op.f("ck_site_snapshot_at_a_recorded_run"),
        ),
        sa.CheckConstraint("version >= 0 AND version < 1e15", name=op.f("ck_site_version_not_negative")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_site")),
        sa.UniqueConstraint("name", name=op.f("uq_site_name")),
    )
    op.create_table(
        "cluster",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("least_share", sa.Double(), nullable=False),
        sa.CheckConstraint("name <> ''", name=op.f("ck_cluster_name_not_empty")),
        sa.CheckConstraint(
            "least_share > 0 AND least_share <= 1", name=op.f("ck_cluster_least_share_is_a_share")
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["site.id"], name=op.f("fk_cluster_site_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster")),
        sa.UniqueConstraint("site_id", "name", name=op.f("uq_cluster_site_id_name")),
    )
    op.create_table(
        "interconnect",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("bandwidth_mbit_per_s", sa.Double(), nullable=False),
        sa.Column("latency_us", sa.Double(), nullable=False),
        sa.CheckConstraint("name <> ''", name=op.f("ck_interconnect_name_not_empty")),
        sa.CheckConstraint(
            "bandwidth_mbit_per_s > 0 AND bandwidth_mbit_per_s < 1e15",
            name=op.f("ck_interconnect_bandwidth_mbit_per_s_positive"),
        ),
        sa.CheckConstraint(
            "latency_us >= 0 AND latency_us < 1e15", name=op.f("ck_interconnect_latency_us_not_negative")
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["site.id"], name=op.f("fk_interconnect_site_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interconnect")),
        sa.UniqueConstraint("site_id", "name", name=op.f("uq_interconnect_site_id_name")),
    )
    op.create_table(
        "job_class",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("size", sa.String(), nullable=False),
        sa.Column("network_mbit_per_s", sa.Double(), nullable=True),
        sa.CheckConstraint("name <> ''", name=op.f("ck_job_class_name_not_empty")),
        sa.CheckConstraint(
            "network_mbit_per_s >= 0 AND network_mbit_per_s < 1e15",
            name=op.f("ck_job_class_network_mbit_per_s_not_negative"),
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["site.id"], name=op.f("fk_job_class_site_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_class")),
        sa.UniqueConstraint("site_id", "name", name=op.f("uq_job_class_site_id_name")),
    )
    op.create_table(
        "machine_class",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("architecture", sa.String(), nullable=False),
        sa.CheckConstraint("name <> ''", name=op.f("ck_machine_class_name_not_empty")),
        sa.ForeignKeyConstraint(
            ["site_id"], ["site.id"], name=op.f("fk_machine_class_site_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machine_class")),
        sa.UniqueConstraint("site_id", "id", name=op.f("uq_machine_class_site_id_id")),
        sa.UniqueConstraint("site_id", "name", name=op.f("uq_machine_class_site_id_name")),
    )
    op.create_table(
        "queue",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("scheduler", sa.String(), nullable=True),
        sa.Column("mapping", sa.String(), nullable=False),
        sa.Column("open_to_all", sa.Boolean(), nullable=False),
        sa.CheckConstraint("mapping IN ('commit', 'remap')", name=op.f("ck_queue_mapping_known")),
        sa.CheckConstraint("name <> ''", name=op.f("ck_queue_name_not_empty")),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name=op.f("fk_queue_site_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_queue")),
        sa.UniqueConstraint("site_id", "name", name=op.f("uq_queue_site_id_name")),
    )
    op.create_table(
        "recording",
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("recorder", sa.String(), nullable=False),
        sa.Column("batches", sa.Integer(), nullable=False),
        sa.CheckConstraint("recorder <> ''", name=op.f("ck_recording_recorder_not_empty")),
        sa.CheckConstraint("batches > 0 AND batches < 1e15", name=op.f("ck_recording_batches_positive")),
        sa.ForeignKeyConstraint(
            ["site_id"], ["site.id"], name=op.f("fk_recording_site_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("site_id", "recorder", name=op.f("pk_recording")),
    )
    op.create_table(
        "site_user",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("listed", sa.Boolean(), nullable=False),
        sa.Column("all_queues", sa.Boolean(), nullable=False),
        sa.Column("most_jobs", sa.Integer(), nullable=True),
        sa.Column("highest_priority", sa.Integer(), nullable=True),
        sa.CheckConstraint("name <> ''", name=op.f("ck_site_user_name_not_empty")),
        sa.CheckConstraint(
            "most_jobs > 0 AND most_jobs < 1e15", name=op.f("ck_site_user_most_jobs_positive")
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["site.id"], name=op.f("fk_site_user_site_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_site_user")),
        sa.UniqueConstraint("site_id", "name", name=op.f("uq_site_user_site_id_name")),
    )
    op.create_table(
        "source",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("scheduler", sa.String(), nullable=True),
        sa.Column("point", sa.Integer(), nullable=True),
        sa.Column("replication", sa.Integer(), nullable=True),
        sa.CheckConstraint("key <> ''", name=op.f("ck_source_key_not_empty")),
        sa.CheckConstraint(
            "kind IN ('live', 'file', 'sacct', 'swf', 'testbed')", name=op.f("ck_source_kind_known")
        ),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name=op.f("fk_source_site_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_source")),
        sa.UniqueConstraint("site_id", "key", name=op.f("uq_source_site_id_key")),
    )
    op.create_table(
        "allowed_place",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_class_id", sa.Integer(), nullable=False),
        sa.Column("machine_class_id", sa.Integer(), nullable=True),
        sa.Column("cluster_id", sa.Integer(), nullable=True),
        sa.Column("command_line", sa.String(), nullable=True),
        sa.Column("expected_s", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "CASE WHEN machine_class_id IS NULL THEN 0 ELSE 1 END + CASE WHEN cluster_id IS NULL THEN 0 ELSE 1 END = 1",
            name=op.f("ck_allowed_place_one_place"),
        ),
        sa.CheckConstraint(
            "expected_s > 0 AND expected_s < 1e15", name=op.f("ck_allowed_place_expected_s_positive")
        ),
        sa.CheckConstraint(
            "expected_s IS NOT NULL OR command_line IS NOT NULL",
            name=op.f("ck_allowed_place_time_or_command"),
        ),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["cluster.id"], name=op.f("fk_allowed_place_cluster_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["job_class_id"], ["job_class.id"], name=op.f("fk_allowed_place_job_class_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["machine_class_id"],
            ["machine_class.id"],
            name=op.f("fk_allowed_place_machine_class_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_allowed_place")),
    )
    op.create_index(
        "uq_allowed_place_job_class_id_cluster_id",
        "allowed_place",
        ["job_class_id", "cluster_id"],
        unique=True,
        sqlite_where=sa.text("cluster_id IS NOT NULL"),
        postgresql_where=sa.text("cluster_id IS NOT NULL"),
    )
    op.create_index(
        "uq_allowed_place_job_class_id_machine_class_id",
        "allowed_place",
        ["job_class_id", "machine_class_id"],
        unique=True,
        sqlite_where=sa.text("machine_class_id IS NOT NULL"),
        postgresql_where=sa.text("machine_class_id IS NOT NULL"),
    )
    op.create_table(
        "cluster_interconnect",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("interconnect_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["cluster.id"],
            name=op.f("fk_cluster_interconnect_cluster_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["interconnect_id"],
            ["interconnect.id"],
            name=op.f("fk_cluster_interconnect_interconnect_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("cluster_id", "interconnect_id", name=op.f("pk_cluster_interconnect")),
    )
    op.create_table(
        "cluster_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.Column("since_unix_s", sa.Double(), nullable=False),
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("available_members", sa.Integer(), nullable=False),
        sa.Column("accepts_parallel", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "available_members >= 0", name=op.f("ck_cluster_state_available_members_not_negative")
        ),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["cluster.id"], name=op.f("fk_cluster_state_cluster_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source.id"], name=op.f("fk_cluster_state_source_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_cluster_state")),
    )
    op.create_index(
        op.f("ix_cluster_state_cluster_id_source_id_id"),
        "cluster_state",
        ["cluster_id", "source_id", "id"],
        unique=False,
    )
    op.create_table(
        "interconnect_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.Column("since_unix_s", sa.Double(), nullable=False),
        sa.Column("interconnect_id", sa.Integer(), nullable=False),
        sa.Column("up", sa.Boolean(), nullable=False),
        sa.Column("traffic_mbit_per_s", sa.Double(), nullable=True),
        sa.Column("committed_mbit_per_s", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "committed_mbit_per_s >= 0 AND committed_mbit_per_s < 1e15",
            name=op.f("ck_interconnect_state_committed_mbit_per_s_not_negative"),
        ),
        sa.CheckConstraint(
            "traffic_mbit_per_s >= 0 AND traffic_mbit_per_s < 1e15",
            name=op.f("ck_interconnect_state_traffic_mbit_per_s_not_negative"),
        ),
        sa.ForeignKeyConstraint(
            ["interconnect_id"],
            ["interconnect.id"],
            name=op.f("fk_interconnect_state_interconnect_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source.id"], name=op.f("fk_interconnect_state_source_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interconnect_state")),
    )
    op.create_index(
        op.f("ix_interconnect_state_interconnect_id_source_id_id"),
        "interconnect_state",
        ["interconnect_id", "source_id", "id"],
        unique=False,
    )
    op.create_table(
        "machine",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("machine_class_id", sa.Integer(), nullable=False),
        sa.Column("processors", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Double(), nullable=True),
        sa.Column("storage_gb", sa.Double(), nullable=True),
        sa.Column("os", sa.String(), nullable=False),
        sa.Column("rating", sa.Double(), nullable=True),
        sa.Column("notional", sa.Boolean(), nullable=False),
        sa.Column("runs_before", sa.Integer(), nullable=False),
        sa.CheckConstraint("name <> ''", name=op.f("ck_machine_name_not_empty")),
        sa.CheckConstraint("memory_mb > 0 AND memory_mb < 1e15", name=op.f("ck_machine_memory_mb_positive")),
        sa.CheckConstraint(
            "processors > 0 AND processors < 1e15", name=op.f("ck_machine_processors_positive")
        ),
        sa.CheckConstraint("rating > 0 AND rating < 1e15", name=op.f("ck_machine_rating_positive")),
        sa.CheckConstraint(
            "runs_before >= 0 AND runs_before < 1e15", name=op.f("ck_machine_runs_before_not_negative")
        ),
        sa.CheckConstraint(
            "storage_gb >= 0 AND storage_gb < 1e15", name=op.f("ck_machine_storage_gb_not_negative")
        ),
        sa.ForeignKeyConstraint(
            ["site_id", "machine_class_id"],
            ["machine_class.site_id", "machine_class.id"],
            name=op.f("fk_machine_site_id_machine_class_id"),
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["site.id"], name=op.f("fk_machine_site_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machine")),
        sa.UniqueConstraint("site_id", "name", name=op.f("uq_machine_site_id_name")),
    )
    op.create_table(
        "preference",
        sa.Column("job_class_id", sa.Integer(), nullable=False),
        sa.Column("machine_class_id", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.CheckConstraint("rank >= 0", name=op.f("ck_preference_rank_not_negative")),
        sa.ForeignKeyConstraint(
            ["job_class_id"], ["job_class.id"], name=op.f("fk_preference_job_class_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["machine_class_id"],
            ["machine_class.id"],
            name=op.f("fk_preference_machine_class_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_class_id", "machine_class_id", name=op.f("pk_preference")),
        sa.UniqueConstraint("job_class_id", "rank", name=op.f("uq_preference_job_class_id_rank")),
    )
    op.create_table(
        "queue_displaces",
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("displaced_queue_id", sa.Integer(), nullable=False),
        sa.CheckConstraint("queue_id <> displaced_queue_id", name=op.f("ck_queue_displaces_not_itself")),
        sa.ForeignKeyConstraint(
            ["displaced_queue_id"],
            ["queue.id"],
            name=op.f("fk_queue_displaces_displaced_queue_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["queue_id"], ["queue.id"], name=op.f("fk_queue_displaces_queue_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("queue_id", "displaced_queue_id", name=op.f("pk_queue_displaces")),
    )
    op.create_table(
        "queue_user",
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.Column("user_name", sa.String(), nullable=False),
        sa.CheckConstraint("user_name <> ''", name=op.f("ck_queue_user_user_name_not_empty")),
        sa.ForeignKeyConstraint(
            ["queue_id"], ["queue.id"], name=op.f("fk_queue_user_queue_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("queue_id", "user_name", name=op.f("pk_queue_user")),
    )
    op.create_table(
        "submission_right",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("as_user_id", sa.Integer(), nullable=False),
        sa.Column("queue_id", sa.Integer(), nullable=True),
        sa.CheckConstraint("user_id <> as_user_id", name=op.f("ck_submission_right_not_as_oneself")),
        sa.ForeignKeyConstraint(
            ["as_user_id"], ["site_user.id"], name=op.f("fk_submission_right_as_user_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["queue_id"], ["queue.id"], name=op.f("fk_submission_right_queue_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["site_user.id"], name=op.f("fk_submission_right_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_submission_right")),
        sa.UniqueConstraint(
            "user_id", "as_user_id", "queue_id", name=op.f("uq_submission_right_user_id_as_user_id_queue_id")
        ),
    )
    op.create_table(
        "user_queue",
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("queue_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["queue_id"], ["queue.id"], name=op.f("fk_user_queue_queue_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["user_id"], ["site_user.id"], name=op.f("fk_user_queue_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "queue_id", name=op.f("pk_user_queue")),
    )
    op.create_table(
        "user_usage",
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("jobs_submitted", sa.Integer(), nullable=False),
        sa.Column("runs", sa.Integer(), nullable=False),
        sa.Column("execution_time_s", sa.Double(), nullable=False),
        sa.CheckConstraint(
            "execution_time_s >= 0 AND execution_time_s < 1e15",
            name=op.f("ck_user_usage_execution_time_s_not_negative"),
        ),
        sa.CheckConstraint(
            "jobs_submitted >= 0 AND jobs_submitted < 1e15",
            name=op.f("ck_user_usage_jobs_submitted_not_negative"),
        ),
        sa.CheckConstraint("runs >= 0 AND runs < 1e15", name=op.f("ck_user_usage_runs_not_negative")),
        sa.ForeignKeyConstraint(
            ["user_id"], ["site_user.id"], name=op.f("fk_user_usage_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("user_id", "queue", name=op.f("pk_user_usage")),
    )
    op.create_table(
        "cluster_member",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["cluster.id"], name=op.f("fk_cluster_member_cluster_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["machine_id"], ["machine.id"], name=op.f("fk_cluster_member_machine_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("cluster_id", "machine_id", name=op.f("pk_cluster_member")),
    )
    op.create_table(
        "execution_history",
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("job_class_id", sa.Integer(), nullable=False),
        sa.Column("machine_class_id", sa.Integer(), nullable=True),
        sa.Column("machine_id", sa.Integer(), nullable=True),
        sa.Column("cluster_id", sa.Integer(), nullable=True),
        sa.Column("members", sa.Integer(), nullable=True),
        sa.Column("started_unix_s", sa.Double(), nullable=False),
        sa.Column("run_time_s", sa.Double(), nullable=False),
        sa.Column("size", sa.Double(), nullable=True),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.CheckConstraint(
            "(cluster_id IS NULL AND members IS NULL) OR (cluster_id IS NOT NULL AND members IS NOT NULL AND members > 0)",
            name=op.f("ck_execution_history_members_of_clusters"),
        ),
        sa.CheckConstraint(
            "CASE WHEN machine_class_id IS NULL THEN 0 ELSE 1 END + CASE WHEN cluster_id IS NULL THEN 0 ELSE 1 END = 1",
            name=op.f("ck_execution_history_one_place"),
        ),
        sa.CheckConstraint(
            "machine_id IS NULL OR cluster_id IS NULL",
            name=op.f("ck_execution_history_a_machine_or_a_cluster"),
        ),
        sa.CheckConstraint("number > 0", name=op.f("ck_execution_history_number_positive")),
        sa.CheckConstraint(
            "run_time_s > 0 AND run_time_s < 1e15", name=op.f("ck_execution_history_run_time_s_positive")
        ),
        sa.CheckConstraint("size > 0 AND size < 1e15", name=op.f("ck_execution_history_size_positive")),
        sa.ForeignKeyConstraint(["cluster_id"], ["cluster.id"], name=op.f("fk_execution_history_cluster_id")),
        sa.ForeignKeyConstraint(
            ["job_class_id"], ["job_class.id"], name=op.f("fk_execution_history_job_class_id")
        ),
        sa.ForeignKeyConstraint(
            ["machine_class_id"], ["machine_class.id"], name=op.f("fk_execution_history_machine_class_id")
        ),
        sa.ForeignKeyConstraint(
            ["machine_id"], ["machine.id"], name=op.f("fk_execution_history_machine_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["site_id"], ["site.id"], name=op.f("fk_execution_history_site_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_execution_history_source_id")),
        sa.ForeignKeyConstraint(["user_id"], ["site_user.id"], name=op.f("fk_execution_history_user_id")),
        sa.PrimaryKeyConstraint("site_id", "number", name=op.f("pk_execution_history")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "execution_statistics",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_class_id", sa.Integer(), nullable=False),
        sa.Column("machine_class_id", sa.Integer(), nullable=True),
        sa.Column("machine_id", sa.Integer(), nullable=True),
        sa.Column("cluster_id", sa.Integer(), nullable=True),
        sa.Column("members", sa.Integer(), nullable=True),
        sa.Column("changed_at", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("mean_s", sa.Double(), nullable=False),
        sa.Column("squares_s2", sa.Double(), nullable=False),
        sa.Column("least_s", sa.Double(), nullable=False),
        sa.Column("sized_count", sa.Integer(), nullable=False),
        sa.Column("sized_mean_s", sa.Double(), nullable=False),
        sa.Column("mean_size", sa.Double(), nullable=False),
        sa.Column("squares_size2", sa.Double(), nullable=False),
        sa.Column("products", sa.Double(), nullable=False),
        sa.Column("sketch", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint(
            "(cluster_id IS NULL AND members IS NULL) OR (cluster_id IS NOT NULL AND members IS NOT NULL AND members > 0)",
            name=op.f("ck_execution_statistics_members_of_clusters"),
        ),
        sa.CheckConstraint(
            "CASE WHEN machine_class_id IS NULL THEN 0 ELSE 1 END + CASE WHEN machine_id IS NULL THEN 0 ELSE 1 END + CASE WHEN cluster_id IS NULL THEN 0 ELSE 1 END = 1",
            name=op.f("ck_execution_statistics_one_place"),
        ),
        sa.CheckConstraint("count > 0 AND count < 1e15", name=op.f("ck_execution_statistics_count_positive")),
        sa.CheckConstraint(
            "mean_s > 0 AND mean_s < 1e15", name=op.f("ck_execution_statistics_mean_s_positive")
        ),
        sa.CheckConstraint(
            "squares_s2 >= 0 AND squares_s2 < 1e300",
            name=op.f("ck_execution_statistics_squares_s2_not_negative"),
        ),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["cluster.id"],
            name=op.f("fk_execution_statistics_cluster_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["job_class_id"],
            ["job_class.id"],
            name=op.f("fk_execution_statistics_job_class_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["machine_class_id"],
            ["machine_class.id"],
            name=op.f("fk_execution_statistics_machine_class_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["machine_id"],
            ["machine.id"],
            name=op.f("fk_execution_statistics_machine_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_execution_statistics")),
        postgresql_with={"fillfactor": 50},
    )
    op.create_index(
        "uq_execution_statistics_job_class_id_cluster_id_members",
        "execution_statistics",
        ["job_class_id", "cluster_id", "members"],
        unique=True,
        sqlite_where=sa.text("cluster_id IS NOT NULL"),
        postgresql_where=sa.text("cluster_id IS NOT NULL"),
    )
    op.create_index(
        "uq_execution_statistics_job_class_id_machine_class_id",
        "execution_statistics",
        ["job_class_id", "machine_class_id"],
        unique=True,
        sqlite_where=sa.text("machine_class_id IS NOT NULL"),
        postgresql_where=sa.text("machine_class_id IS NOT NULL"),
    )
    op.create_index(
        "uq_execution_statistics_job_class_id_machine_id",
        "execution_statistics",
        ["job_class_id", "machine_id"],
        unique=True,
        sqlite_where=sa.text("machine_id IS NOT NULL"),
        postgresql_where=sa.text("machine_id IS NOT NULL"),
    )
    op.create_table(
        "job",
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("serial", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.String(), nullable=False),
        sa.Column("job_class_id", sa.Integer(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("submitted_by_id", sa.Integer(), nullable=True),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("size", sa.Double(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=True),
        sa.Column("cluster_id", sa.Integer(), nullable=True),
        sa.Column("submitted_unix_s", sa.Double(), nullable=False),
        sa.Column("started_unix_s", sa.Double(), nullable=True),
        sa.Column("ended_unix_s", sa.Double(), nullable=True),
        sa.Column("preemptions", sa.Integer(), nullable=False),
        sa.Column("time_limit_s", sa.Double(), nullable=True),
        sa.Column("run_number", sa.Integer(), nullable=True),
        sa.CheckConstraint(
            "state IN ('waiting', 'running', 'done', 'failed', 'refused')", name=op.f("ck_job_state_known")
        ),
        sa.CheckConstraint("machine_id IS NULL OR cluster_id IS NULL", name=op.f("ck_job_one_place_at_most")),
        sa.CheckConstraint(
            "preemptions >= 0 AND preemptions < 1e15", name=op.f("ck_job_preemptions_not_negative")
        ),
        sa.CheckConstraint("serial > 0", name=op.f("ck_job_serial_positive")),
        sa.CheckConstraint("size > 0 AND size < 1e15", name=op.f("ck_job_size_positive")),
        sa.CheckConstraint(
            "time_limit_s > 0 AND time_limit_s < 1e15", name=op.f("ck_job_time_limit_s_positive")
        ),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["cluster.id"], name=op.f("fk_job_cluster_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["job_class_id"], ["job_class.id"], name=op.f("fk_job_job_class_id")),
        sa.ForeignKeyConstraint(
            ["machine_id"], ["machine.id"], name=op.f("fk_job_machine_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(["site_id"], ["site.id"], name=op.f("fk_job_site_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source.id"], name=op.f("fk_job_source_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["submitted_by_id"], ["site_user.id"], name=op.f("fk_job_submitted_by_id")),
        sa.ForeignKeyConstraint(["user_id"], ["site_user.id"], name=op.f("fk_job_user_id")),
        sa.PrimaryKeyConstraint("site_id", "serial", name=op.f("pk_job")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_job_site_id_queue_state"), "job", ["site_id", "queue", "state"], unique=False)
    op.create_index(op.f("ix_job_source_id_number"), "job", ["source_id", "number"], unique=False)
    op.create_table(
        "machine_interconnect",
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("interconnect_id", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["interconnect_id"],
            ["interconnect.id"],
            name=op.f("fk_machine_interconnect_interconnect_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["machine_id"],
            ["machine.id"],
            name=op.f("fk_machine_interconnect_machine_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("machine_id", "interconnect_id", name=op.f("pk_machine_interconnect")),
    )
    op.create_table(
        "machine_state",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=True),
        sa.Column("since_unix_s", sa.Double(), nullable=False),
        sa.Column("machine_id", sa.Integer(), nullable=False),
        sa.Column("up", sa.Boolean(), nullable=False),
        sa.Column("local_load", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "local_load >= 0 AND local_load < 1e15", name=op.f("ck_machine_state_local_load_not_negative")
        ),
        sa.ForeignKeyConstraint(
            ["machine_id"], ["machine.id"], name=op.f("fk_machine_state_machine_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source.id"], name=op.f("fk_machine_state_source_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_machine_state")),
    )
    op.create_index(
        op.f("ix_machine_state_machine_id_source_id_id"),
        "machine_state",
        ["machine_id", "source_id", "id"],
        unique=False,
    )
    op.create_table(
        "execution_snapshot",
        sa.Column("statistics_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("mean_s", sa.Double(), nullable=False),
        sa.Column("squares_s2", sa.Double(), nullable=False),
        sa.Column("least_s", sa.Double(), nullable=False),
        sa.Column("sized_count", sa.Integer(), nullable=False),
        sa.Column("sized_mean_s", sa.Double(), nullable=False),
        sa.Column("mean_size", sa.Double(), nullable=False),
        sa.Column("squares_size2", sa.Double(), nullable=False),
        sa.Column("products", sa.Double(), nullable=False),
        sa.Column("sketch", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["statistics_id"],
            ["execution_statistics.id"],
            name=op.f("fk_execution_snapshot_statistics_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("statistics_id", "number", name=op.f("pk_execution_snapshot")),
    )
    op.create_table(
        "prediction",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("site_id", sa.Integer(), nullable=False),
        sa.Column("job_serial", sa.Integer(), nullable=False),
        sa.Column("quantity", sa.String(), nullable=False),
        sa.Column("made_unix_s", sa.Double(), nullable=False),
        sa.Column("predicted_s", sa.Double(), nullable=False),
        sa.Column("low_s", sa.Double(), nullable=True),
        sa.Column("high_s", sa.Double(), nullable=True),
        sa.Column("grounds", sa.String(), nullable=False),
        sa.Column("actual_s", sa.Double(), nullable=True),
        sa.CheckConstraint(
            "quantity IN ('run_time', 'turnaround')", name=op.f("ck_prediction_quantity_known")
        ),
        sa.CheckConstraint(
            "actual_s >= 0 AND actual_s < 1e15", name=op.f("ck_prediction_actual_s_not_negative")
        ),
        sa.CheckConstraint(
            "low_s <= predicted_s AND predicted_s <= high_s", name=op.f("ck_prediction_inside_its_interval")
        ),
        sa.CheckConstraint(
            "predicted_s >= 0 AND predicted_s < 1e15", name=op.f("ck_prediction_predicted_s_not_negative")
        ),
        sa.ForeignKeyConstraint(
            ["site_id", "job_serial"],
            ["job.site_id", "job.serial"],
            name=op.f("fk_prediction_site_id_job_serial"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prediction")),
    )
    op.create_index(
        op.f("ix_prediction_site_id_job_serial"), "prediction", ["site_id", "job_serial"], unique=False
    )
