"""What the database refuses by itself, whoever writes into it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, delete, func, insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from site_db.schema import (
    Base,
    ClusterInterconnectRow,
    ClusterMemberRow,
    ClusterRow,
    ExecutionHistoryRow,
    ExecutionStatisticsRow,
    ExpectedTimeRow,
    InterconnectRow,
    JobClassRow,
    MachineClassRow,
    MachineRow,
    PreferenceRow,
    QueueDisplacesRow,
    QueueRow,
    QueueUserRow,
    SiteRow,
)

SOME_STATISTICS = {"count": 1, "mean_s": 2.0, "sum_squared_deviations_s2": 0.0}
A_RUN = {"run_time_s": 2.0, "started_s": 0.0, "user": "ann", "queue": "day"}

# The first row of each table in the small site has id 1: job class "short" has times on machine classes 1
# and 2 and on clusters 1 and 2, "long" (2) on machine class 1, "wide" (3) on cluster 2.
BAD_VALUES: dict[str, tuple[type[Base], dict[str, Any], str]] = {
    "a share of nothing": (
        ClusterRow,
        {"site_id": 1, "name": "c", "least_share": 0.0},
        "least_share_is_a_share",
    ),
    "a negative share": (
        ClusterRow,
        {"site_id": 1, "name": "c", "least_share": -0.5},
        "least_share_is_a_share",
    ),
    "more than all": (ClusterRow, {"site_id": 1, "name": "c", "least_share": 1.01}, "least_share_is_a_share"),
    "no bandwidth": (
        InterconnectRow,
        {"site_id": 1, "name": "x", "bandwidth_mbit_per_s": 0.0, "latency_us": 1.0},
        "bandwidth_positive",
    ),
    "a negative latency": (
        InterconnectRow,
        {"site_id": 1, "name": "x", "bandwidth_mbit_per_s": 1.0, "latency_us": -1.0},
        "latency_not_negative",
    ),
    "a negative expected time": (
        ExpectedTimeRow,
        {"job_class_id": 2, "machine_class_id": 2, "expected_s": -1.0},
        "expected_time_positive",
    ),
    "an expected time of zero": (
        ExpectedTimeRow,
        {"job_class_id": 2, "machine_class_id": 2, "expected_s": 0.0},
        "expected_time_positive",
    ),
    "an expected time that is no number": (
        ExpectedTimeRow,
        {"job_class_id": 2, "machine_class_id": 2, "expected_s": float("nan")},
        "NOT NULL",
    ),
    "a negative run time": (
        ExecutionHistoryRow,
        {"job_class_id": 1, "machine_class_id": 1, **A_RUN, "run_time_s": -1.0},
        "run_time_positive",
    ),
    "a run time of zero": (
        ExecutionHistoryRow,
        {"job_class_id": 1, "machine_class_id": 1, **A_RUN, "run_time_s": 0.0},
        "run_time_positive",
    ),
    "a run of no user": (
        ExecutionHistoryRow,
        {"job_class_id": 1, "machine_class_id": 1, **A_RUN, "user": None},
        "NOT NULL",
    ),
    "statistics of no run": (
        ExecutionStatisticsRow,
        {"job_class_id": 1, "machine_class_id": 1, **SOME_STATISTICS, "count": 0},
        "count_positive",
    ),
    "a negative mean": (
        ExecutionStatisticsRow,
        {"job_class_id": 1, "machine_class_id": 1, **SOME_STATISTICS, "mean_s": -2.0},
        "mean_positive",
    ),
    "a negative variance": (
        ExecutionStatisticsRow,
        {"job_class_id": 1, "machine_class_id": 1, **SOME_STATISTICS, "sum_squared_deviations_s2": -1e-9},
        "squares_not_negative",
    ),
    "a mapping that is none": (QueueRow, {"site_id": 1, "name": "q", "mapping": "perhaps"}, "mapping_known"),
}
PLACES: dict[str, dict[str, int]] = {"nowhere": {}, "in two places": {"machine_class_id": 2, "cluster_id": 1}}
PER_PLACE: dict[type[Base], dict[str, Any]] = {
    ExpectedTimeRow: {"job_class_id": 2, "expected_s": 1.0},
    ExecutionStatisticsRow: {"job_class_id": 2, **SOME_STATISTICS},
    ExecutionHistoryRow: {"job_class_id": 2, **A_RUN},
}
DOUBLES: dict[str, tuple[type[Base], dict[str, Any]]] = {
    "two sites of one name": (SiteRow, {"name": "small"}),
    "two machine classes of one name": (MachineClassRow, {"site_id": 1, "name": "fast"}),
    "two machines of one name": (MachineRow, {"site_id": 1, "machine_class_id": 1, "name": "odd"}),
    "two interconnects of one name": (
        InterconnectRow,
        {"site_id": 1, "name": "lan", "bandwidth_mbit_per_s": 1.0, "latency_us": 0.0},
    ),
    "two clusters of one name": (ClusterRow, {"site_id": 1, "name": "pair"}),
    "two job classes of one name": (JobClassRow, {"site_id": 1, "name": "short"}),
    "two queues of one name": (QueueRow, {"site_id": 1, "name": "day"}),
    "two expected times on one machine class": (
        ExpectedTimeRow,
        {"job_class_id": 1, "machine_class_id": 1, "expected_s": 1.0},
    ),
    "two expected times on one cluster": (
        ExpectedTimeRow,
        {"job_class_id": 1, "cluster_id": 1, "expected_s": 1.0},
    ),
    "one member twice": (ClusterMemberRow, {"cluster_id": 1, "machine_id": 1}),
    "one interconnect of a cluster twice": (ClusterInterconnectRow, {"cluster_id": 1, "interconnect_id": 1}),
    "two preferences of one rank": (PreferenceRow, {"job_class_id": 1, "machine_class_id": 1, "rank": 0}),
    "one user twice": (QueueUserRow, {"queue_id": 1, "user": "ann"}),
    "one queue displaced twice": (QueueDisplacesRow, {"queue_id": 1, "displaced_queue_id": 2}),
}
LEADS_NOWHERE: dict[str, tuple[type[Base], dict[str, Any]]] = {
    "the site of a machine class": (MachineClassRow, {"site_id": 99, "name": "k"}),
    "the class of a machine": (MachineRow, {"site_id": 1, "machine_class_id": 99, "name": "m"}),
    "a member": (ClusterMemberRow, {"cluster_id": 1, "machine_id": 99}),
    "the cluster of a member": (ClusterMemberRow, {"cluster_id": 99, "machine_id": 1}),
    "an interconnect": (ClusterInterconnectRow, {"cluster_id": 1, "interconnect_id": 99}),
    "the place of a time": (ExpectedTimeRow, {"job_class_id": 2, "machine_class_id": 99, "expected_s": 1.0}),
    "the cluster of a time": (ExpectedTimeRow, {"job_class_id": 2, "cluster_id": 99, "expected_s": 1.0}),
    "the job class of a run": (ExecutionHistoryRow, {"job_class_id": 99, "machine_class_id": 1, **A_RUN}),
    "the machine of a run": (
        ExecutionHistoryRow,
        {"job_class_id": 1, "machine_class_id": 1, "machine_id": 99, **A_RUN},
    ),
    "the job class of statistics": (
        ExecutionStatisticsRow,
        {"job_class_id": 99, "machine_class_id": 1, **SOME_STATISTICS},
    ),
    "a preferred class": (PreferenceRow, {"job_class_id": 2, "machine_class_id": 99, "rank": 0}),
    "the queue of a user": (QueueUserRow, {"queue_id": 99, "user": "ann"}),
    "a displaced queue": (QueueDisplacesRow, {"queue_id": 1, "displaced_queue_id": 99}),
}  # fmt: skip


def assert_is_refused(session: Session, row: type[Base], values: dict[str, Any], reason: str) -> None:
    with pytest.raises(IntegrityError) as caught:
        session.execute(insert(row).values(**values))
    assert reason in str(caught.value.orig)


@pytest.mark.parametrize(("row", "values", "reason"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_a_value_that_cannot_be_is_refused_by_the_name_of_the_rule(
    row: type[Base], values: dict[str, Any], reason: str, session: Session
) -> None:
    assert_is_refused(session, row, values, reason)


@pytest.mark.parametrize("row", PER_PLACE, ids=lambda row: row.__tablename__)
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_what_is_said_of_no_place_or_of_two_is_refused(
    row: type[Base], place: dict[str, int], session: Session
) -> None:
    assert_is_refused(session, row, {**PER_PLACE[row], **place}, "one_place")


@pytest.mark.parametrize(("row", "values"), DOUBLES.values(), ids=DOUBLES)
def test_a_double_is_refused(row: type[Base], values: dict[str, Any], session: Session) -> None:
    assert_is_refused(session, row, values, "UNIQUE constraint failed")


@pytest.mark.parametrize("place", [{"machine_class_id": 1}, {"cluster_id": 1}], ids=str)
def test_two_rows_of_statistics_for_one_place_are_refused(place: dict[str, int], session: Session) -> None:
    values = {"job_class_id": 1, **place, **SOME_STATISTICS}
    session.execute(insert(ExecutionStatisticsRow).values(**values))
    assert_is_refused(session, ExecutionStatisticsRow, values, "UNIQUE constraint failed")


def test_a_machine_class_and_a_cluster_of_one_id_are_two_places(session: Session) -> None:
    for place in ({"machine_class_id": 1}, {"cluster_id": 1}):
        session.execute(insert(ExecutionStatisticsRow).values(job_class_id=1, **place, **SOME_STATISTICS))
    assert session.scalar(select(func.count()).select_from(ExecutionStatisticsRow)) == 2


@pytest.mark.parametrize(("row", "values"), LEADS_NOWHERE.values(), ids=LEADS_NOWHERE)
def test_a_reference_that_leads_nowhere_is_refused(
    row: type[Base], values: dict[str, Any], session: Session
) -> None:
    assert_is_refused(session, row, values, "FOREIGN KEY constraint failed")


def test_good_values_are_no_reason_to_refuse(session: Session) -> None:
    """Otherwise the refusals above would pass for a reason that they do not mean."""
    good: list[tuple[type[Base], dict[str, Any]]] = [
        (ClusterRow, {"site_id": 1, "name": "c", "least_share": 1.0}),
        (InterconnectRow, {"site_id": 1, "name": "x", "bandwidth_mbit_per_s": 1.0, "latency_us": 0.0}),
        (MachineRow, {"site_id": 1, "machine_class_id": 1, "name": "m"}),
        (PreferenceRow, {"job_class_id": 2, "machine_class_id": 1, "rank": 0}),
        (QueueRow, {"site_id": 1, "name": "q", "mapping": "remap"}),
        *((row, {**values, "cluster_id": 1}) for row, values in PER_PLACE.items()),
        *((row, {**values, "machine_class_id": 2}) for row, values in PER_PLACE.items()),
    ]
    for row, values in good:
        session.execute(insert(row).values(**values))


def test_foreign_keys_are_on_in_every_connection(engine: Engine) -> None:
    with engine.connect() as one, engine.connect() as another:
        for connection in (one, another):
            assert connection.scalar(text("PRAGMA foreign_keys")) == 1


def test_a_machine_class_with_machines_cannot_be_deleted(session: Session) -> None:
    with pytest.raises(IntegrityError, match="FOREIGN KEY constraint failed"):
        session.execute(delete(MachineClassRow).where(MachineClassRow.name == "fast"))


def test_what_belongs_to_a_cluster_goes_with_it_and_its_machines_stay(session: Session) -> None:
    session.execute(delete(ClusterRow).where(ClusterRow.name == "mixed"))
    assert session.scalar(select(func.count()).select_from(ClusterMemberRow)) == 2
    assert session.scalar(select(func.count()).select_from(MachineRow)) == 5
    assert session.scalars(
        select(ExpectedTimeRow.cluster_id).where(ExpectedTimeRow.cluster_id > 0)
    ).all() == [1]
