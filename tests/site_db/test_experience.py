"""History, its statistics, and the times that are expected from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from scheduler.model import ExecutionRecord, Job, JobId
from site_db import exchange, sites, store
from site_db.experience import ENOUGH_RUNS, SqlExperience
from site_db.history import add_run
from site_db.schema import ExecutionHistoryRow, ExecutionStatisticsRow
from tests.site_db.site_texts import HCS_2001, SMALL, changed, read

# Resources of the small site, and their place in a row of estimates.
F1, F2, S1, S2, ODD, PAIR, MIXED = range(7)
INF = float("inf")
AS_THE_STAFF_SAY = {
    "short": [10.0, 10.0, 30.5, 30.5, 30.5, 6.0, 9.0],
    "long": [100.0, 100.0, INF, INF, INF, INF, INF],
    "wide": [INF, INF, INF, INF, INF, INF, 77.0],
}


def job(job_class: str = "short", number: int = 0) -> Job:
    return Job(JobId(number), job_class, 0.0, "ann", "day")


def estimates(experience: SqlExperience) -> dict[str, list[float]]:
    return {name: experience.estimate([job(name)]).row(0).tolist() for name in AS_THE_STAFF_SAY}


def record(
    experience: SqlExperience, resource: int, run_times_s: Iterable[float], job_class: str = "short"
) -> None:
    for run_time_s in run_times_s:
        experience.record(ExecutionRecord(job(job_class), resource, 5.0, run_time_s))


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """The statements that are sent to the database meanwhile."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine, "before_cursor_execute", note)


@pytest.fixture
def experience(engine: Engine) -> SqlExperience:
    return SqlExperience(engine, "small")


def test_without_history_the_times_of_the_staff_are_expected(experience: SqlExperience) -> None:
    assert estimates(experience) == AS_THE_STAFF_SAY


def test_below_enough_runs_the_staff_is_believed_and_from_then_on_the_mean(
    experience: SqlExperience,
) -> None:
    assert ENOUGH_RUNS == 3
    for run_time_s, expected_s in ((20.0, 10.0), (22.0, 10.0), (27.0, 23.0), (31.0, 25.0)):
        record(experience, F1, [run_time_s])
        assert experience.estimate([job()]).row(0)[F1] == pytest.approx(expected_s, rel=1e-12)


def test_runs_on_machines_of_one_class_are_one_experience(experience: SqlExperience) -> None:
    record(experience, S1, [40.0])
    record(experience, S2, [44.0])
    record(experience, ODD, [48.0])
    assert estimates(experience) == {**AS_THE_STAFF_SAY, "short": [10.0, 10.0, 44.0, 44.0, 44.0, 6.0, 9.0]}


def test_runs_on_a_cluster_and_on_machines_of_one_class_are_kept_apart(experience: SqlExperience) -> None:
    """Machine class 1 and cluster 1 have one id in their tables, and f1 is a member of the cluster."""
    record(experience, F1, [20.0, 20.0, 20.0])
    record(experience, PAIR, [7.0, 7.0])
    assert estimates(experience)["short"] == [20.0, 20.0, 30.5, 30.5, 30.5, 6.0, 9.0]
    record(experience, PAIR, [7.0])
    assert estimates(experience)["short"] == [20.0, 20.0, 30.5, 30.5, 30.5, 7.0, 9.0]


def test_runs_on_two_clusters_and_on_machines_of_two_classes_are_kept_apart(
    experience: SqlExperience,
) -> None:
    for _ in range(ENOUGH_RUNS):
        for resource, run_time_s in ((F1, 20.0), (S1, 40.0), (PAIR, 7.0), (MIXED, 8.0)):
            record(experience, resource, [run_time_s])
    assert estimates(experience)["short"] == [20.0, 20.0, 40.0, 40.0, 40.0, 7.0, 8.0]


def test_runs_of_two_job_classes_in_one_place_are_kept_apart(experience: SqlExperience) -> None:
    record(experience, MIXED, [8.0] * 3, "short")
    record(experience, MIXED, [80.0] * 3, "wide")
    assert estimates(experience)["short"][MIXED] == 8.0
    assert estimates(experience)["wide"][MIXED] == 80.0


def test_runs_at_one_site_are_no_experience_of_another_with_the_same_names(
    engine: Engine, tmp_path: Path
) -> None:
    with Session(engine) as session, session.begin():
        sites.add_site(session, read(changed('name = "small"', 'name = "other"'), tmp_path))
    small, other = SqlExperience(engine, "small"), SqlExperience(engine, "other")
    record(other, F1, [55.0] * 3)
    record(other, PAIR, [5.0] * 3)
    assert estimates(small) == AS_THE_STAFF_SAY
    assert estimates(other)["short"] == [55.0, 55.0, 30.5, 30.5, 30.5, 5.0, 9.0]


def test_a_class_may_still_not_run_where_the_staff_gave_no_time(experience: SqlExperience) -> None:
    record(experience, S1, [1.0] * ENOUGH_RUNS, "long")
    assert estimates(experience) == AS_THE_STAFF_SAY


def test_the_rows_of_an_estimate_are_the_jobs_in_their_order(experience: SqlExperience) -> None:
    names = ["wide", "short", "long", "short"]
    etc = experience.estimate([job(name, number) for number, name in enumerate(names)])
    assert etc.dense().tolist() == [AS_THE_STAFF_SAY[name] for name in names]
    assert etc.resource_class_names == ("fast", "slow", "pair", "mixed")


def test_no_jobs_have_an_estimate_of_no_rows(experience: SqlExperience) -> None:
    etc = experience.estimate([])
    assert (etc.n_jobs, etc.n_resources) == (0, 7)


def test_an_estimate_of_many_jobs_is_one_query_and_none_until_something_is_recorded(
    engine: Engine, experience: SqlExperience
) -> None:
    jobs = [job(name, number) for number, name in enumerate(["short", "long", "wide"] * 100)]
    with statements(engine) as sent:
        experience.estimate(jobs)
        assert len(sent) == 1
        experience.estimate(jobs)
        assert len(sent) == 1
    record(experience, F1, [12.0])
    with statements(engine) as sent:
        experience.estimate(jobs)
        experience.estimate(jobs)
    assert len(sent) == 1


def test_the_estimates_of_142_machines_and_18_clusters_are_one_query_too(tmp_path: Path) -> None:
    engine = store.create(tmp_path / "hcs.sqlite")
    with Session(engine) as session, session.begin():
        sites.add_site(session, exchange.read_site_file(HCS_2001))
    experience = SqlExperience(engine, "hcs-2001")
    with statements(engine) as sent:
        etc = experience.estimate([job("vecmat"), job("stats")])
    assert len(sent) == 1
    assert etc.n_resources == 160
    assert etc.row(0)[[0, 6, 141, 142, 159]].tolist() == [114.286, 114.286, 800.0, 22.998, 266.667]
    assert np.isinf(etc.row(1)[142:]).all()
    engine.dispose()


def test_the_cost_of_recording_does_not_grow_with_the_history(
    engine: Engine, experience: SqlExperience
) -> None:
    record(experience, F1, [10.0])
    sent_each_time = []
    for _ in range(20):
        with statements(engine) as sent:
            record(experience, F1, [10.0])
        sent_each_time.append(len(sent))
    assert sent_each_time == [2] * 20


def test_what_was_recorded_is_there_for_the_next_who_opens_the_database(
    engine: Engine, experience: SqlExperience
) -> None:
    record(experience, PAIR, [7.0] * 3)
    assert estimates(SqlExperience(engine, "small"))["short"][PAIR] == 7.0


def test_the_history_tells_of_each_run_its_place_its_machine_and_whose_it_was(
    engine: Engine, experience: SqlExperience
) -> None:
    record(experience, S2, [33.0])
    record(experience, MIXED, [70.0], "wide")
    with Session(engine) as session:
        on_machine, on_cluster = session.scalars(select(ExecutionHistoryRow).order_by(ExecutionHistoryRow.id))
    assert (on_machine.machine_class_id, on_machine.machine_id, on_machine.cluster_id) == (2, 4, None)
    assert (on_cluster.machine_class_id, on_cluster.machine_id, on_cluster.cluster_id) == (None, None, 2)
    assert (on_machine.job_class_id, on_cluster.job_class_id) == (1, 3)
    assert (on_machine.run_time_s, on_machine.started_s) == (33.0, 5.0)
    assert (on_machine.user, on_machine.queue) == ("ann", "day")


def test_a_private_copy_learns_and_the_file_stays_as_it_was_to_the_byte(database: Path) -> None:
    before = database.read_bytes()
    learning = SqlExperience(store.private_copy(database), "small")
    record(learning, F1, [20.0] * 3)
    assert estimates(learning)["short"][F1] == 20.0
    assert database.read_bytes() == before
    assert estimates(SqlExperience(store.private_copy(database), "small")) == AS_THE_STAFF_SAY


@pytest.mark.parametrize("run_time_s", [0.0, -1.0, float("nan")])
def test_a_run_time_that_cannot_be_is_refused_and_leaves_history_and_estimates_as_they_were(
    run_time_s: float, engine: Engine, experience: SqlExperience
) -> None:
    record(experience, F1, [20.0] * 3)
    with pytest.raises(IntegrityError):
        record(experience, F1, [run_time_s])
    assert estimates(experience)["short"][F1] == 20.0
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(ExecutionHistoryRow)) == 3
        assert session.scalars(select(ExecutionStatisticsRow.count)).all() == [3]


def test_a_run_time_that_numpy_computed_is_recorded_like_any_other(experience: SqlExperience) -> None:
    record(experience, F1, np.array([20.0, 21.0, 22.0]))
    assert estimates(experience)["short"][F1] == 21.0


def test_an_unknown_job_class_is_refused_with_the_ones_there_are(experience: SqlExperience) -> None:
    with pytest.raises(ValueError, match="job class") as caught:
        experience.estimate([job(), job("sort")])
    assert str(caught.value) == "the site has no job class 'sort'; it has short, long, wide"
    with pytest.raises(ValueError, match="has no job class 'sort'"):
        record(experience, F1, [1.0], "sort")
    assert estimates(experience) == AS_THE_STAFF_SAY


def test_the_experience_of_an_unknown_site_is_refused(engine: Engine) -> None:
    with pytest.raises(sites.UnknownSite, match="the database has no site 'large'; it has small"):
        SqlExperience(engine, "large")


# -- the statistics against numpy -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def learned_from(shared_folder: Path) -> Iterator[Session]:
    """A session on a small site of its own; what a test writes there it also rolls back."""
    engine = store.create(shared_folder / "learned.sqlite")
    with Session(engine) as session, session.begin():
        sites.add_site(session, read(SMALL, shared_folder))
    with Session(engine) as session:
        yield session
    engine.dispose()


def statistics_of(session: Session, run_times_s: Iterable[float]) -> tuple[int, float, float]:
    """Count, mean and variance that the database keeps of these runs in one place, among runs in another."""
    session.rollback()
    for run_time_s in run_times_s:
        for machine_class_id, cluster_id, factor in ((1, None, 1.0), (None, 1, 5.0)):
            add_run(
                session,
                job_class_id=1,
                machine_class_id=machine_class_id,
                machine_id=None,
                cluster_id=cluster_id,
                started_s=0.0,
                run_time_s=factor * run_time_s,
                user="ann",
                queue="day",
            )
    rows = session.scalars(select(ExecutionStatisticsRow)).all()
    assert len(rows) == 2
    (row,) = [row for row in rows if row.machine_class_id == 1]
    return row.count, row.mean_s, row.sum_squared_deviations_s2 / row.count


@settings(max_examples=40, deadline=None)
@given(quarters=st.lists(st.integers(1, 400_000), min_size=1, max_size=12))
@example(quarters=[4_000_000_000, 4_000_000_004, 4_000_000_008])
@example(quarters=[7] * 5)
@example(quarters=[1, 400_000] * 6)
def test_count_mean_and_variance_are_numpys(quarters: list[int], learned_from: Session) -> None:
    """Quarters of seconds, so that rounding the run times themselves plays no part."""
    run_times_s = np.array(quarters) / 4
    count, mean_s, variance_s2 = statistics_of(learned_from, run_times_s.tolist())
    assert count == len(run_times_s)
    assert mean_s == pytest.approx(np.mean(run_times_s), rel=1e-9, abs=0.0)
    assert variance_s2 == pytest.approx(np.var(run_times_s), rel=1e-9, abs=0.0)


@settings(max_examples=25, deadline=None)
@given(run_times_s=st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=10))
def test_the_mean_of_any_run_times_is_numpys(run_times_s: list[float], learned_from: Session) -> None:
    _, mean_s, variance_s2 = statistics_of(learned_from, run_times_s)
    assert mean_s == pytest.approx(np.mean(run_times_s), rel=1e-9)
    assert variance_s2 >= 0.0
