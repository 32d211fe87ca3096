"""What the database itself rejects, whatever writes into it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, Float, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from site_db import store
from site_db.schema import (
    AllowedPlaceRow,
    Base,
    ClusterInterconnectRow,
    ClusterMemberRow,
    ClusterRow,
    ClusterStateRow,
    ExecutionHistoryRow,
    ExecutionStatisticsRow,
    JobClassRow,
    JobRow,
    MachineClassRow,
    MachineInterconnectRow,
    MachineRow,
    MachineStateRow,
    SiteRow,
    SourceRow,
    UserRow,
)
from tests.site_db.conftest import STORES

TABLES = Base.metadata.tables
Values = dict[str, Any]

OF_SITE = {"site_id": 1, "name": "new", "position": 9}
A_MACHINE = {**OF_SITE, "machine_class_id": 1}
AN_INTERCONNECT = {**OF_SITE, "bandwidth_mbit_per_s": 1.0, "latency_us": 0.0}
A_USER = {**OF_SITE, "listed": True}
A_SOURCE = {"site_id": 1, "kind": "live", "key": "new"}
A_RECORDER = {"site_id": 1, "recorder": "new", "batches": 1}
MOMENTS = {
    "count": 1,
    "mean_s": 2.0,
    "squares_s2": 0.0,
    "least_s": 2.0,
    "sized_count": 0,
    "sized_mean_s": 0.0,
    "mean_size": 0.0,
    "squares_size2": 0.0,
    "products": 0.0,
    "sketch": b"",
}
STATISTICS = {"job_class_id": 3, "changed_at": 1, **MOMENTS}
A_RUN = {
    "site_id": 1,
    "number": 9,
    "source_id": 1,
    "job_class_id": 2,
    "started_unix_s": 0.0,
    "run_time_s": 2.0,
    "user_id": 1,
    "queue": "day",
}
A_JOB = {
    "site_id": 1,
    "serial": 9,
    "source_id": 1,
    "number": "9",
    "job_class_id": 1,
    "user_id": 1,
    "queue": "day",
    "state": "done",
    "submitted_unix_s": 0.0,
}
A_PREDICTION = {"site_id": 1, "job_serial": 1, "quantity": "run_time", "made_unix_s": 0.0, "predicted_s": 2.0}
SEEN = {"since_unix_s": 0.0, "up": True}
A_CONTRACT = {"cluster_id": 2, "share": 0.5, "most_jobs": 4}
A_GPU = {"machine_id": 2, "gpu_type": "a100", "amount": 4}
SCRATCH = {"machine_id": 2, "resource": "scratch", "amount": 100}
A_LICENCE = {**OF_SITE, "amount": 5}
A_PARTITION = {**OF_SITE, "exclusive": False}
A_REQUEST = {
    "job_class_id": 2,
    "nodes": 1,
    "cores": 1.0,
    "memory_mb": 0,
    "gpus": 0,
    "gpu_share": 1.0,
    "gpu_types": [],
    "resources": {},
    "site_resources": {},
    "features": [],
    "partitions": [],
    "exclusive": False,
}
DATA = {"input_mb": 5.0, "output_mb": 0.0, "at": "west"}
ALONE = {"job_class_id": 2, "tasks": 2, "exe_s": 10.0, "cpu": 0.5, "memory_mb": 64.0}

# The first row of each table in the small site has id 1: job class "short" may run on machine classes 1 and 2
# and on clusters 1 and 2, "long" (2) on machine class 1, "wide" (3) on cluster 2. Besides these there are:
PRESENT: list[tuple[str, Values]] = [
    ("site", {"name": "annex"}),
    ("machine_class", {"site_id": 2, "name": "theirs", "position": 0}),
    ("source", {"site_id": 1, "kind": "live", "key": "live"}),
    ("recording", {**A_RECORDER, "recorder": "one"}),
    ("site_user", {**A_USER, "name": "ann"}),
    ("site_user", {**A_USER, "name": "bob"}),
    ("user_queue", {"user_id": 1, "queue_id": 1}),
    ("submission_right", {"user_id": 1, "as_user_id": 2, "queue_id": 1}),
    ("user_usage", {"user_id": 1, "queue": "day"}),
    ("machine_interconnect", {"machine_id": 1, "interconnect_id": 1}),
    ("machine_gpu", {**A_GPU, "machine_id": 1}),
    ("machine_resource", {**SCRATCH, "machine_id": 1}),
    ("machine_feature", {"machine_id": 1, "feature": "avx"}),
    ("site_resource", {**A_LICENCE, "name": "matlab"}),
    ("partition", {**A_PARTITION, "name": "all"}),
    ("partition_node", {"partition_id": 1, "machine_id": 1}),
    ("request", {**A_REQUEST, "job_class_id": 1}),
    ("job", {**A_JOB, "serial": 1, "machine_id": 1}),
    ("job", {**A_JOB, "serial": 2}),
    ("prediction", A_PREDICTION),
    ("job_data", {"site_id": 1, "job_serial": 1, **DATA}),
    ("job_class_data", {"job_class_id": 1, **DATA}),
    ("social_contract", {**A_CONTRACT, "cluster_id": 1}),
    ("characterisation", {**ALONE, "job_class_id": 1}),
    ("execution_history", {**A_RUN, "number": 1, "job_class_id": 1, "machine_class_id": 1, "machine_id": 1}),
    ("execution_history", {**A_RUN, "number": 2, "job_class_id": 3, "cluster_id": 2, "members": 3}),
    ("execution_statistics", {**STATISTICS, "job_class_id": 1, "machine_class_id": 1}),
    ("execution_statistics", {**STATISTICS, "job_class_id": 1, "machine_id": 1}),
    ("execution_statistics", {**STATISTICS, "job_class_id": 3, "cluster_id": 2, "members": 3}),
    ("execution_snapshot", {"statistics_id": 1, "number": 1, **MOMENTS}),
    ("machine_state", {"machine_id": 1, **SEEN}),
    ("interconnect_state", {"interconnect_id": 1, **SEEN}),
    (
        "cluster_state",
        {"cluster_id": 1, "since_unix_s": 0.0, "available_members": 2, "accepts_parallel": True},
    ),
]

ON_A_MACHINE = {"machine_class_id": 1}
ON_A_CLUSTER = {"cluster_id": 2, "members": 3}
IN_TWO_PLACES = {"machine_class_id": 2, "cluster_id": 1}

GOOD: list[tuple[str, Values]] = [
    ("site", {"name": "third", "runs_recorded": 5, "runs_pruned": 5, "snapshot_at": 5}),
    ("machine_class", OF_SITE),
    ("machine", {**A_MACHINE, "processors": 1, "memory_mb": 0.5, "storage_gb": 0.0, "rating": 1e-9}),
    ("machine", {"site_id": 2, "name": "m", "position": 0, "machine_class_id": 3}),
    ("machine", {**A_MACHINE, "threads_per_core": 2, "slots": 64}),
    ("machine_gpu", A_GPU),
    ("machine_resource", SCRATCH),
    ("machine_feature", {"machine_id": 2, "feature": "avx"}),
    ("site_resource", A_LICENCE),
    ("partition", A_PARTITION),
    ("partition", {**A_PARTITION, "max_time_s": 60.0, "default_time_s": 60.0, "max_nodes": 1}),
    ("partition_node", {"partition_id": 1, "machine_id": 2}),
    ("request", {**A_REQUEST, "time_limit_s": 1.0}),
    ("request", {**A_REQUEST, "tasks": 4, "cores": 0.0, "gpus": 1, "gpu_share": 0.5, "gpu_types": ["a100"]}),
    ("job", {**A_JOB, "account": "physics", "qos": "high"}),
    ("interconnect", AN_INTERCONNECT),
    ("cluster", {**OF_SITE, "least_share": 1.0}),
    ("job_class", {**OF_SITE, "network_mbit_per_s": 0.0}),
    ("allowed_place", {"job_class_id": 2, "machine_class_id": 2, "expected_s": 1.0}),
    ("allowed_place", {"job_class_id": 2, "cluster_id": 1, "expected_s": None, "command_line": "x"}),
    ("preference", {"job_class_id": 2, "machine_class_id": 1, "rank": 0}),
    ("queue", {**OF_SITE, "mapping": "remap"}),
    ("queue_user", {"queue_id": 1, "user_name": "cy"}),
    ("queue_displaces", {"queue_id": 2, "displaced_queue_id": 1}),
    ("site_user", {**A_USER, "most_jobs": 1, "highest_priority": -1}),
    ("user_queue", {"user_id": 1, "queue_id": 2}),
    ("submission_right", {"user_id": 1, "as_user_id": 2, "queue_id": None}),
    ("user_usage", {"user_id": 1, "queue": "night", "jobs_submitted": 0, "runs": 0, "execution_time_s": 0.0}),
    ("source", A_SOURCE),
    ("recording", A_RECORDER),
    *(("source", {**A_SOURCE, "kind": kind, "key": kind}) for kind in ("file", "sacct", "swf", "testbed")),
    *(("job", {**A_JOB, "state": state}) for state in ("waiting", "running", "done", "failed", "refused")),
    ("job", {**A_JOB, "size": 1.0, "preemptions": 0, "cluster_id": 1}),
    ("job_data", {"site_id": 1, "job_serial": 2, **DATA}),
    ("job_class_data", {"job_class_id": 2, **DATA}),
    ("prediction", {**A_PREDICTION, "low_s": 2.0, "high_s": 2.0, "actual_s": 0.0}),
    ("prediction", {**A_PREDICTION, "quantity": "turnaround", "waiting": True, "jobs_there": 0}),
    ("prediction", {**A_PREDICTION, "low_s": 0.5, "high_s": 1.5}),
    ("social_contract", {**A_CONTRACT, "share": 1.0, "most_cpu": 1.5}),
    ("characterisation", {**ALONE, "cpu": 1.0, "memory_mb": 0.0}),
    ("execution_history", {**A_RUN, "number": 3, **ON_A_MACHINE}),
    ("execution_history", {**A_RUN, "number": 4, **ON_A_MACHINE, "machine_id": 1, "size": 1.0}),
    ("execution_history", {**A_RUN, "number": 5, **ON_A_CLUSTER}),
    ("execution_history", {**A_RUN, "number": 1, "site_id": 2, **ON_A_MACHINE}),
    ("execution_statistics", {**STATISTICS, **ON_A_MACHINE}),
    ("execution_statistics", {**STATISTICS, "machine_id": 1}),
    ("execution_statistics", {**STATISTICS, "cluster_id": 2, "members": 2}),
    ("execution_snapshot", {"statistics_id": 1, "number": 9, **MOMENTS}),
    ("machine_interconnect", {"machine_id": 2, "interconnect_id": 2}),
    ("cluster_member", {"cluster_id": 1, "machine_id": 5}),
    ("cluster_interconnect", {"cluster_id": 2, "interconnect_id": 1}),
    ("machine_state", {"machine_id": 1, **SEEN, "local_load": 0.0}),
    (
        "interconnect_state",
        {"interconnect_id": 1, **SEEN, "traffic_mbit_per_s": 0, "committed_mbit_per_s": 0},
    ),
    (
        "cluster_state",
        {"cluster_id": 1, "since_unix_s": 0.0, "available_members": 0, "accepts_parallel": False},
    ),
]

# Rules on one value, by the end of their names: what they refuse.
REFUSED: dict[str, tuple[Any, ...]] = {
    "positive": (0, -1),
    "not_negative": (-1,),
    "not_empty": ("",),
    "is_a_share": (0.0, -0.5, 1.01),
    "known": ("perhaps",),
}
BEYOND = (1e15, float("inf"))
"""Refused, too, of what is measured."""
OF_ONE_VALUE = {
    "site": "name_not_empty jobs_recorded_not_negative version_not_negative",
    "machine_class": "name_not_empty",
    "machine": "name_not_empty threads_per_core_positive slots_positive processors_positive "
    "memory_mb_positive rating_positive storage_gb_not_negative runs_before_not_negative",
    "machine_gpu": "gpu_type_not_empty amount_positive",
    "machine_resource": "resource_not_empty amount_positive",
    "machine_feature": "feature_not_empty",
    "site_resource": "name_not_empty amount_positive",
    "partition": "name_not_empty max_time_s_positive default_time_s_positive max_nodes_positive",
    "request": "nodes_positive tasks_positive time_limit_s_positive cores_not_negative "
    "memory_mb_not_negative gpus_not_negative gpu_share_is_a_share",
    "interconnect": "name_not_empty bandwidth_mbit_per_s_positive latency_us_not_negative",
    "cluster": "name_not_empty least_share_is_a_share",
    "job_class": "name_not_empty network_mbit_per_s_not_negative",
    "allowed_place": "expected_s_positive",
    "preference": "rank_not_negative",
    "queue": "name_not_empty mapping_known",
    "queue_user": "user_name_not_empty",
    "site_user": "name_not_empty most_jobs_positive",
    "user_usage": "jobs_submitted_not_negative runs_not_negative execution_time_s_not_negative",
    "source": "key_not_empty kind_known",
    "recording": "recorder_not_empty batches_positive",
    "job": "state_known size_positive preemptions_not_negative serial_positive time_limit_s_positive",
    "prediction": "quantity_known predicted_s_not_negative actual_s_not_negative jobs_there_not_negative",
    **dict.fromkeys(("job_data", "job_class_data"), "input_mb_not_negative output_mb_not_negative"),
    "social_contract": "share_is_a_share most_jobs_positive most_cpu_positive",
    "characterisation": "tasks_positive exe_s_positive cpu_is_a_share memory_mb_not_negative",
    "execution_history": "number_positive run_time_s_positive size_positive",
    "execution_statistics": "count_positive mean_s_positive squares_s2_not_negative",
    "machine_state": "local_load_not_negative",
    "interconnect_state": "traffic_mbit_per_s_not_negative committed_mbit_per_s_not_negative",
    "cluster_state": "available_members_not_negative",
}
UNBOUNDED = {"mean_s", "squares_s2", "least_s"}


def refused_values(table: str, rule: str) -> Iterator[tuple[str, Values, Values, str]]:
    (good,) = islice((values for of, values in GOOD if of == table), 1)
    end = next(end for end in REFUSED if rule.endswith(f"_{end}"))
    column = rule.removesuffix(f"_{end}")
    is_measured = isinstance(TABLES[table].c[column].type, Float) and column not in UNBOUNDED
    for value in REFUSED[end] + (BEYOND if is_measured and end != "is_a_share" else ()):
        yield table, good, {column: value}, rule


# Each is a good row but for some values, and breaks the rule of that name.
RULES: list[tuple[str, Values, Values, str]] = [
    *(
        case
        for table, of in OF_ONE_VALUE.items()
        for rule in of.split()
        for case in refused_values(table, rule)
    ),
    ("site", {"name": "s"}, {"runs_pruned": 1}, "runs_pruned_were_recorded"),
    ("site", {"name": "s"}, {"runs_pruned": -1}, "runs_pruned_were_recorded"),
    ("site", {"name": "s"}, {"snapshot_at": 1}, "snapshot_at_a_recorded_run"),
    ("site", {"name": "s"}, {"snapshot_at": -1}, "snapshot_at_a_recorded_run"),
    ("request", A_REQUEST, {"nodes": 2, "tasks": 2}, "nodes_or_tasks"),
    ("allowed_place", {"job_class_id": 2, "machine_class_id": 2}, {}, "time_or_command"),
    ("queue_displaces", {"queue_id": 1}, {"displaced_queue_id": 1}, "not_itself"),
    ("submission_right", {"user_id": 1}, {"as_user_id": 1}, "not_as_oneself"),
    ("job", A_JOB, {"machine_id": 1, "cluster_id": 1}, "one_place_at_most"),
    ("prediction", A_PREDICTION, {"low_s": 2.5, "high_s": 2.4}, "interval_in_order"),
    ("execution_history", {**A_RUN, **ON_A_CLUSTER}, {"machine_id": 1}, "a_machine_or_a_cluster"),
    *(
        (row, values, members, "members_of_clusters")
        for row, values in (("execution_history", A_RUN), ("execution_statistics", STATISTICS))
        for members in ({**ON_A_MACHINE, "members": 1}, {"cluster_id": 2}, {"cluster_id": 2, "members": 0})
    ),
    *(
        (row, {**values, "members": 1} if place and row != "allowed_place" else values, place, "one_place")
        for row, values in (
            ("allowed_place", {"job_class_id": 2, "expected_s": 1.0}),
            ("execution_history", A_RUN),
            ("execution_statistics", STATISTICS),
        )
        for place in ({}, IN_TWO_PLACES)
    ),
    ("execution_statistics", STATISTICS, {"machine_class_id": 1, "machine_id": 1}, "one_place"),
    ("execution_statistics", STATISTICS, {"machine_id": 1, "cluster_id": 1, "members": 1}, "one_place"),
]

# By columns in which no two rows are equal: the tables, with * where these are the primary key.
KEYS = {
    "name": "site",
    "site_id name": "machine_class machine interconnect cluster job_class queue site_user site_resource "
    "partition",
    "site_id key": "source",
    "site_id recorder": "recording*",
    "site_id number": "execution_history*",
    "site_id serial": "job*",
    "user_id queue": "user_usage*",
    "user_id queue_id": "user_queue*",
    "user_id as_user_id queue_id": "submission_right",
    "queue_id user_name": "queue_user*",
    "queue_id displaced_queue_id": "queue_displaces*",
    "machine_id gpu_type": "machine_gpu*",
    "machine_id resource": "machine_resource*",
    "machine_id feature": "machine_feature*",
    "machine_id interconnect_id": "machine_interconnect*",
    "partition_id machine_id": "partition_node*",
    "cluster_id machine_id": "cluster_member*",
    "cluster_id interconnect_id": "cluster_interconnect*",
    "cluster_id": "social_contract*",
    "site_id job_serial": "job_data*",
    "job_class_id": "request* job_class_data*",
    "job_class_id tasks": "characterisation*",
    "job_class_id machine_class_id": "allowed_place execution_statistics preference*",
    "job_class_id cluster_id": "allowed_place",
    "job_class_id machine_id": "execution_statistics",
    "job_class_id cluster_id members": "execution_statistics",
    "statistics_id number": "execution_snapshot*",
}
DOUBLES = [
    (table, columns.split(), f"pk_{table}" if is_primary else f"uq_{table}_{columns.replace(' ', '_')}")
    for columns, tables in KEYS.items()
    for table, is_primary in ((text.strip("*"), text.endswith("*")) for text in tables.split())
]


@pytest.fixture(scope="module", params=STORES)
def shared_engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """The small site and what is PRESENT, in either store; nothing is committed into it."""
    if request.param == "sqlite":
        original: Path = request.getfixturevalue("database_to_copy")
        engine = store.open_file(Path(shutil.copy(original, tmp_path_factory.mktemp("schema"))))
    else:
        like = request.getfixturevalue("server_database_to_copy")
        engine = store.open_database(request.getfixturevalue("server").new_database(like))
    with Session(engine) as session, session.begin():
        session.execute(update(SiteRow).values(runs_recorded=2))
        for row, values in PRESENT:
            session.execute(insert(TABLES[row]).values(**values))
    yield engine
    engine.dispose()


@pytest.fixture
def session(shared_engine: Engine) -> Iterator[Session]:
    with Session(shared_engine) as session:
        yield session


def refusal(session: Session, table: str, values: Values) -> str:
    """The name of the rule that refuses a row; SQLite tells names of CHECKs only, else what kind of rule."""
    try:
        with session.begin_nested():
            session.execute(insert(TABLES[table]).values(**values))
    except IntegrityError as caught:
        error: Any = caught.orig
    else:
        return "nothing: the row is in"
    if hasattr(error, "diag"):
        return str(error.diag.constraint_name or error.sqlstate)
    return str(error).removeprefix("CHECK constraint failed: ")


def on_sqlite(session: Session) -> bool:
    return session.get_bind().dialect.name == "sqlite"


def shown(values: Values) -> str:
    return ",".join(f"{name}={value}" for name, value in values.items()) or "nothing"


def of_each_table(cases: Sequence[tuple[Any, ...]]) -> pytest.MarkDecorator:
    """One test for each table that is among the cases, since there are hundreds of these."""
    return pytest.mark.parametrize("table", list(dict.fromkeys(table for table, *_ in cases)))


@of_each_table(RULES)
def test_an_invalid_value_is_rejected_by_its_check_constraint(table: str, session: Session) -> None:
    assert [
        f"{shown(bad)} is refused by {refused_by}, not by {rule}"
        for of, values, bad, rule in RULES
        if of == table and (refused_by := refusal(session, table, {**values, **bad})) != f"ck_{table}_{rule}"
    ] == []


@pytest.mark.parametrize(("table", "columns", "rule"), DOUBLES)
def test_a_duplicate_is_rejected(table: str, columns: list[str], rule: str, session: Session) -> None:
    """The first row that has a value in all these columns, once more."""
    row = TABLES[table]
    query = select(row).where(*(row.c[name].is_not(None) for name in columns))
    values = {
        name: value for name, value in session.execute(query).mappings().first().items() if name != "id"
    }
    if table == "preference":
        values["rank"] = 9  # else it would be refused for that
    named = ", ".join(f"{table}.{name}" for name in columns)
    assert refusal(session, table, values) == (
        f"UNIQUE constraint failed: {named}" if on_sqlite(session) else rule
    )


def test_two_preferences_of_one_rank_are_rejected(session: Session) -> None:
    # Both classes that the site has are preferred already.
    session.execute(insert(MachineClassRow).values(**OF_SITE))
    new = session.scalar(select(func.max(MachineClassRow.id)))
    refused_by = refusal(session, "preference", {"job_class_id": 1, "machine_class_id": new, "rank": 0})
    assert refused_by in (
        "uq_preference_job_class_id_rank",
        "UNIQUE constraint failed: preference.job_class_id, preference.rank",
    )


@of_each_table(GOOD)
def test_a_dangling_reference_is_rejected(table: str, session: Session) -> None:
    """In a good row; which other rules its place has to keep depends on the row."""

    def names(column: str) -> set[str]:
        keys = {str(key.constraint.name) for key in TABLES[table].c[column].foreign_keys}
        return {"FOREIGN KEY constraint failed"} if on_sqlite(session) else keys

    columns = [column.key for column in TABLES[table].columns if column.foreign_keys]
    good = [values for of, values in GOOD if of == table]
    refused = {
        column: {refusal(session, table, {**values, column: 99}) for values in good} for column in columns
    }
    assert {column for column in columns if refused[column].isdisjoint(names(column))} == set()


@of_each_table(GOOD)
def test_valid_values_are_accepted(table: str, session: Session) -> None:
    """Otherwise the refusals above would pass for a reason that they do not mean."""
    for values in (values for of, values in GOOD if of == table):
        inserted = session.begin_nested()
        session.execute(insert(TABLES[table]).values(**values))
        inserted.rollback()


def test_every_constraint_of_the_schema_is_tested() -> None:
    broken = {f"ck_{table}_{rule}" for table, _, _, rule in RULES}
    broken |= {rule for _, _, rule in DOUBLES} | {"uq_preference_job_class_id_rank"}
    # Ids that the database gives need no test; the last is there for machines to refer to.
    given = {f"pk_{name}" for name, table in TABLES.items() if "id" in table.columns}
    given |= {"uq_machine_class_site_id_id"}
    tables = TABLES.values()
    rules = {
        str(rule.name) for table in tables for rule in table.constraints if not rule.name.startswith("fk_")
    }
    rules |= {str(index.name) for table in tables for index in table.indexes if index.unique}
    assert rules == broken | given
    assert {table for table, _ in GOOD} == {*TABLES}
    ids = {c for table in tables for c in table.columns if c.name.endswith("_id") or c.name == "job_serial"}
    assert ids == {c for table in tables for c in table.columns if c.foreign_keys}


@pytest.mark.parametrize("missing", ["user_id", "queue", "started_unix_s", "run_time_s", "source_id"])
def test_a_run_with_a_missing_value_is_rejected(missing: str, session: Session) -> None:
    values = {**A_RUN, **ON_A_MACHINE, missing: None}
    message = "NOT NULL constraint failed: execution_history." + missing if on_sqlite(session) else "23502"
    assert refusal(session, "execution_history", values) == message


def test_a_run_time_that_is_not_a_number_is_rejected(session: Session) -> None:
    """To PostgreSQL NaN is greater than any number; to SQLite it is NULL."""
    values = {**A_RUN, **ON_A_MACHINE, "run_time_s": float("nan")}
    assert refusal(session, "execution_history", values) in (
        "ck_execution_history_run_time_s_positive",
        "NOT NULL constraint failed: execution_history.run_time_s",
    )


def test_an_expected_time_that_is_not_a_number_is_rejected(session: Session) -> None:
    """To SQLite NaN is NULL: no time, and so a place that needs a command line."""
    values = {"job_class_id": 2, "machine_class_id": 2, "expected_s": float("nan")}
    rule = "time_or_command" if on_sqlite(session) else "expected_s_positive"
    assert refusal(session, "allowed_place", values) == f"ck_allowed_place_{rule}"


def test_a_machine_cannot_belong_to_a_class_of_another_site(session: Session) -> None:
    theirs = session.scalar(select(MachineClassRow.id).where(MachineClassRow.name == "theirs"))
    refused_by = refusal(session, "machine", {**A_MACHINE, "machine_class_id": theirs})
    assert refused_by in ("FOREIGN KEY constraint failed", "fk_machine_site_id_machine_class_id")


def test_a_machine_class_a_machine_and_a_cluster_of_one_id_are_separate_places(session: Session) -> None:
    for place in ({"machine_class_id": 1}, {"machine_id": 1}, {"cluster_id": 1, "members": 1}):
        session.execute(insert(ExecutionStatisticsRow).values(**{**STATISTICS, "job_class_id": 2, **place}))
    row = ExecutionStatisticsRow
    assert session.scalar(select(func.count()).select_from(row).where(row.job_class_id == 2)) == 3


# -- what may go, and what goes with it --------------------------------------------------------------------


def count(session: Session, row: type[Base]) -> int:
    return session.scalar(select(func.count()).select_from(row)) or 0


HELD_BY_HISTORY = [ExecutionStatisticsRow, JobRow, MachineRow]


@pytest.mark.parametrize(
    ("gone", "row", "name", "held_by"),
    [
        (HELD_BY_HISTORY, JobClassRow.name, "short", "execution_history_"),
        (HELD_BY_HISTORY, ClusterRow.name, "mixed", "execution_history_"),
        (HELD_BY_HISTORY, MachineClassRow.name, "fast", "execution_history_"),
        ([ExecutionHistoryRow], JobClassRow.name, "short", "job_job_class_id"),
        ([ExecutionHistoryRow], MachineClassRow.name, "fast", "machine_site_id"),
        ([JobRow], UserRow.name, "ann", "execution_history_user_id"),
        ([], SourceRow.key, "live", "execution_history_source_id"),
    ],
    ids=str,
)
def test_what_another_row_refers_to_cannot_be_deleted(
    gone: list[type[Base]], row: Any, name: str, held_by: str, session: Session
) -> None:
    for other in gone:
        session.execute(delete(other))
    with pytest.raises(IntegrityError, match=f"FOREIGN KEY constraint failed|fk_{held_by}"):
        session.execute(delete(row.class_).where(row == name))


def test_resources_without_history_can_be_deleted(session: Session) -> None:
    """Otherwise the refusals above would pass for a reason that they do not mean."""
    for row in (ExecutionHistoryRow, JobRow, MachineRow):
        session.execute(delete(row))
    for row, name in (
        (JobClassRow, "short"),
        (ClusterRow, "mixed"),
        (MachineClassRow, "fast"),
        (UserRow, "ann"),
    ):
        session.execute(delete(row).where(row.name == name))
    assert session.scalars(select(ExecutionStatisticsRow.id)).all() == []


def test_deleting_a_machine_deletes_its_statistics_and_leaves_its_runs_to_its_class(session: Session) -> None:
    session.execute(delete(MachineRow).where(MachineRow.name == "f1"))
    run, statistics = ExecutionHistoryRow, ExecutionStatisticsRow
    history = select(run.number, run.machine_class_id, run.machine_id, run.cluster_id).order_by(run.number)
    assert session.execute(history).all() == [(1, 1, None, None), (2, None, None, 2)]
    assert session.scalars(select(JobRow.machine_id).distinct()).all() == [None]
    places = select(statistics.machine_class_id, statistics.machine_id, statistics.cluster_id)
    assert session.execute(places.order_by(statistics.id)).all() == [(1, None, None), (None, None, 2)]
    assert (count(session, MachineStateRow), count(session, MachineInterconnectRow)) == (0, 0)
    assert sorted(session.scalars(select(ClusterMemberRow.machine_id))) == [2, 2, 3, 4]


def test_deleting_a_cluster_deletes_its_dependents_and_keeps_its_machines(session: Session) -> None:
    session.execute(delete(ClusterRow).where(ClusterRow.name == "pair"))
    assert count(session, ClusterMemberRow) == 3
    assert count(session, MachineRow) == 5
    assert (count(session, ClusterInterconnectRow), count(session, ClusterStateRow)) == (0, 0)
    clusters = select(AllowedPlaceRow.cluster_id).where(AllowedPlaceRow.cluster_id.is_not(None))
    assert session.scalars(clusters).all() == [2, 2]


def test_deleting_a_site_deletes_all_its_rows_and_keeps_other_sites(session: Session) -> None:
    session.execute(delete(SiteRow).where(SiteRow.name == "small"))
    left = {row.__tablename__ for row in (SiteRow, MachineClassRow)}
    counts = {name: session.scalar(select(func.count()).select_from(table)) for name, table in TABLES.items()}
    assert {name for name, n in counts.items() if n} == left
    assert session.scalars(select(SiteRow.name)).all() == ["annex"]
    assert session.scalars(select(MachineClassRow.name)).all() == ["theirs"]


def test_the_site_to_delete_has_a_row_in_every_table(session: Session) -> None:
    """Otherwise the test above would not see what stays."""
    for name, table in TABLES.items():
        assert session.scalar(select(func.count()).select_from(table)), name
