"""The Experience port in memory, and what the database tells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from scheduler import UserError
from scheduler.model import ExecutionRecord, Job, JobId
from scheduler.resource_manager import Experience
from site_db import store
from site_db.estimation import ExecutionEstimate, PlaceKind, Rule
from site_db.experience import MemoryExperience, StatisticsReader
from site_db.history.stored_statistics import disagreements
from site_db.jobs.records import LIVE
from site_db.jobs.writer import JobWriter
from site_db.schema import ExecutionHistoryRow
from site_db.site_file.importing import put_site
from site_db.sites import SiteReader
from site_db.store import Address
from tests.site_db.site_texts import a_run, changed, read

# Resources of the small site, and their place in a row of estimates.
F1, F2, S1, S2, ODD, PAIR, MIXED = range(7)
EVERYONE = (2, 3)
INF = float("inf")
STAFF_TIMES = {
    "short": [10.0, 10.0, 30.5, 30.5, 30.5, 6.0, 9.0],
    "long": [100.0, 100.0, INF, INF, INF, INF, INF],
    "wide": [INF, INF, INF, INF, INF, INF, 77.0],
}


def job(job_class: str = "short", number: int = 0, size: float | None = None) -> Job:
    return Job(JobId(number), job_class, 0.0, "ann", "day", size=size)


def estimates(experience: Experience, members: tuple[int, ...] = EVERYONE) -> dict[str, list[float]]:
    return {name: experience.estimate([job(name)], members).row(0).tolist() for name in STAFF_TIMES}


def record(
    experience: Experience,
    resource: int,
    run_times_s: Iterable[float],
    job_class: str = "short",
    n_machines: int | None = None,
    size: float | None = None,
) -> None:
    n = n_machines or {PAIR: 2, MIXED: 3}.get(resource, 1)
    for run_time_s in run_times_s:
        experience.record(ExecutionRecord(job(job_class, size=size), resource, n, 5.0, run_time_s))


@pytest.fixture
def address(database: Path) -> Address:
    """SQLite only: on a server, other modules execute these statements."""
    return Address.of_file(database)


@pytest.fixture
def experience(database: Path) -> Iterator[MemoryExperience]:
    """Experience of the small site without any history."""
    engine = store.open_file(database)
    with Session(engine) as session:
        yield experience_of(session)
    engine.dispose()


def experience_of(session: Session, as_of: int | None = None) -> MemoryExperience:
    reader = StatisticsReader(session, "small")
    return MemoryExperience(reader.layout, reader.statistics(session, as_of))


# -- the contract ------------------------------------------------------------------------------------------


def test_without_history_the_staff_times_are_expected(experience: MemoryExperience) -> None:
    assert estimates(experience) == STAFF_TIMES


def test_runs_in_different_places_are_separate(experience: MemoryExperience) -> None:
    """Machine class 1 and cluster 1 have one id in their tables, and f1 is a member of the cluster."""
    for resource, run_time_s in ((F1, 20.0), (S1, 40.0), (PAIR, 7.0), (MIXED, 8.0)):
        record(experience, resource, [run_time_s] * 3)
    assert estimates(experience)["short"] == [20.0, 20.0, 40.0, 40.0, 40.0, 7.0, 8.0]


def test_runs_of_two_job_classes_in_one_place_are_separate(experience: MemoryExperience) -> None:
    record(experience, MIXED, [8.0] * 3, "short")
    record(experience, MIXED, [80.0] * 3, "wide")
    assert (estimates(experience)["short"][MIXED], estimates(experience)["wide"][MIXED]) == (8.0, 80.0)


def test_an_estimate_names_its_rule_and_number_of_runs(experience: MemoryExperience) -> None:
    record(experience, S1, [40.0, 44.0, 48.0])
    assert experience.explain(job(), S2) == ExecutionEstimate(44.0, 4.0, Rule.MACHINE_CLASS, 3)
    assert experience.explain(job(), F1) == ExecutionEstimate(10.0, None, Rule.STAFF, 0)
    assert experience.explain(job("long"), S1) is None
    found = experience.explain(job("wide"), MIXED, members=2)
    assert found == ExecutionEstimate(77.0 * 3 / 2, None, Rule.STAFF, 0)


def test_the_rows_of_an_estimate_are_in_job_order(experience: MemoryExperience) -> None:
    names = ["wide", "short", "long", "short"]
    etc = experience.estimate([job(name, number) for number, name in enumerate(names)], EVERYONE)
    assert etc.dense().tolist() == [STAFF_TIMES[name] for name in names]


@pytest.mark.parametrize("run_time_s", [0.0, -1.0, float("nan"), float("inf")])
def test_an_invalid_run_time_is_rejected_and_changes_nothing(
    run_time_s: float, experience: MemoryExperience
) -> None:
    record(experience, F1, [20.0] * 3)
    with pytest.raises(ValueError, match="job 0: its run time is"):
        record(experience, F1, [run_time_s])
    assert experience.explain(job(), F1) == ExecutionEstimate(20.0, 0.0, Rule.MACHINE_CLASS, 3)


def test_a_numpy_run_time_is_recorded_like_any_other(experience: MemoryExperience) -> None:
    record(experience, F1, np.array([20.0, 21.0, 22.0]))
    assert estimates(experience)["short"][F1] == 21.0


def test_an_unknown_job_class_is_rejected_with_the_known_ones(experience: MemoryExperience) -> None:
    with pytest.raises(ValueError, match="no job class 'sort'; it has short, long, wide"):
        experience.estimate([job(), job("sort")], EVERYONE)
    with pytest.raises(ValueError, match="no job class 'sort'"):
        record(experience, F1, [1.0], "sort")
    assert estimates(experience) == STAFF_TIMES


# -- over the database -------------------------------------------------------------------------------------


def test_experience_from_the_database_equals_experience_in_memory(
    session: Session, experience: MemoryExperience
) -> None:
    runs = [(F1, "f1", 1), (S1, "s1", 1), (PAIR, "pair", 2), (MIXED, "mixed", 2)]
    for resource, name, members in runs:
        record(experience, resource, [20.0, 22.0, 27.0], n_machines=members)
        jobs = [a_run(name, time_s, members=members) for time_s in (20.0, 22.0, 27.0)]
        JobWriter(session, "small").add(session, LIVE, jobs)
    assert estimates(experience_of(session)) == estimates(experience)


def test_as_of_a_past_run_the_experience_is_that_of_the_time(session: Session) -> None:
    writer, now = JobWriter(session, "small"), []
    for time_s in (20.0, 30.0, 40.0, 50.0, 60.0):
        writer.add(session, LIVE, [a_run("f1", time_s)])
        now.append(estimates(experience_of(session)))
    assert [estimates(experience_of(session, number)) for number in range(1, 6)] == now


def test_as_of_a_future_run_is_rejected(session: Session) -> None:
    with pytest.raises(UserError, match="as of run 0 to 0, not as of run 7"):
        experience_of(session, 7)


def test_the_experience_of_an_unknown_site_is_rejected(session: Session) -> None:
    with pytest.raises(UserError, match="the database has no site 'large'; it has small"):
        StatisticsReader(session, "large")


def test_a_machine_that_changed_its_class_loses_its_own_estimate(session: Session, tmp_path: Path) -> None:
    JobWriter(session, "small").add(session, LIVE, [a_run("f1", 20.0)] * 40)
    assert experience_of(session).explain(job("short"), F1).rule is Rule.MACHINE  # type: ignore[union-attr]
    put_site(
        session,
        read(changed('names = ["f[1-2]"]', 'names = ["f2"]', changed('"odd"]', '"odd", "f1"]')), tmp_path),
    )
    f1 = experience_of(session).explain(job("short"), ODD)
    assert f1 is not None
    assert f1.rule is not Rule.MACHINE
    JobWriter(session, "small").add(session, LIVE, [a_run("f1", 90.0)])
    assert disagreements(session, 1) == []
    run = session.scalars(select(ExecutionHistoryRow).order_by(ExecutionHistoryRow.number.desc())).first()
    assert run is not None
    assert run.machine_class_id == SiteReader(session, "small").ids("machine_classes")["slow"]


def test_statistics_of_a_machine_added_later_are_left_out(session: Session, tmp_path: Path) -> None:
    reader = StatisticsReader(session, "small")
    before = reader.statistics(session)
    put_site(session, read(changed('"odd"]', '"odd", "new"]'), tmp_path))
    JobWriter(session, "small").add(session, LIVE, [a_run("new", 99.0)])
    found = reader.statistics(session)
    assert before == {}
    assert [place.kind for _, place in found] == [PlaceKind.MACHINE_CLASS]
