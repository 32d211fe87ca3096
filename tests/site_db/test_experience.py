"""The Experience port: one contract for every store and for memory, and what only the database can do."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.orm import Session

from scheduler.model import ExecutionRecord, Job, JobId
from scheduler.resource_manager import Experience
from site_db import store
from site_db.estimation import ENOUGH_RUNS, ExecutionEstimate, Rule
from site_db.experience import MemoryExperience, SqlExperience, StatisticsReader
from site_db.history.as_of import PrunedHistory
from site_db.history.checking import disagreements
from site_db.jobs.records import LIVE
from site_db.jobs.writer import JobWriter
from site_db.schema import ExecutionHistoryRow
from site_db.site_file.importing import put_site
from site_db.sites import SiteReader, UnknownSite
from site_db.store import Address
from tests.postgres import Server
from tests.site_db.conftest import STORES
from tests.site_db.site_texts import a_run, changed, read

# Resources of the small site, and their place in a row of estimates.
F1, F2, S1, S2, ODD, PAIR, MIXED = range(7)
EVERYONE = (2, 3)
INF = float("inf")
AS_THE_STAFF_SAY = {
    "short": [10.0, 10.0, 30.5, 30.5, 30.5, 6.0, 9.0],
    "long": [100.0, 100.0, INF, INF, INF, INF, INF],
    "wide": [INF, INF, INF, INF, INF, INF, 77.0],
}


class Explaining(Experience, Protocol):
    def explain(self, job: Job, resource: int, members: int | None = None) -> ExecutionEstimate | None: ...


def job(job_class: str = "short", number: int = 0, size: float | None = None) -> Job:
    return Job(JobId(number), job_class, 0.0, "ann", "day", size=size)


def estimates(experience: Experience, members: tuple[int, ...] = EVERYONE) -> dict[str, list[float]]:
    return {name: experience.estimate([job(name)], members).row(0).tolist() for name in AS_THE_STAFF_SAY}


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


@pytest.fixture(params=[*STORES, "memory"])
def experience(request: pytest.FixtureRequest) -> Iterator[Explaining]:
    """Every implementation, over the small site without any history."""
    with ExitStack() as stack:
        if request.param == "postgresql":
            server: Server = request.getfixturevalue("server")
            original = request.getfixturevalue("server_database_to_copy")
            address = stack.enter_context(server.copy_of(original))
        else:
            address = store.parse_address(str(request.getfixturevalue("database")))
        engine = store.open_database(address)
        stack.callback(engine.dispose)
        if request.param == "memory":
            with Session(engine) as session:
                reader = StatisticsReader(session, "small")
                yield MemoryExperience(reader.layout, reader.statistics(session))
        else:
            yield SqlExperience(engine, "small")


# -- the contract ------------------------------------------------------------------------------------------


def test_without_history_the_times_of_the_staff_are_expected(experience: Explaining) -> None:
    assert estimates(experience) == AS_THE_STAFF_SAY


def test_below_enough_runs_the_staff_is_believed_and_from_then_on_the_mean(experience: Explaining) -> None:
    assert ENOUGH_RUNS == 3
    for run_time_s, expected_s in ((20.0, 10.0), (22.0, 10.0), (27.0, 23.0), (31.0, 25.0)):
        record(experience, F1, [run_time_s])
        assert experience.estimate([job()], EVERYONE)[0, F1] == pytest.approx(expected_s, rel=1e-12)


def test_runs_on_machines_of_one_class_are_one_experience(experience: Explaining) -> None:
    for resource, run_time_s in ((S1, 40.0), (S2, 44.0), (ODD, 48.0)):
        record(experience, resource, [run_time_s])
    assert estimates(experience) == {**AS_THE_STAFF_SAY, "short": [10.0, 10.0, 44.0, 44.0, 44.0, 6.0, 9.0]}


def test_runs_in_different_places_are_kept_apart(experience: Explaining) -> None:
    """Machine class 1 and cluster 1 have one id in their tables, and f1 is a member of the cluster."""
    for resource, run_time_s in ((F1, 20.0), (S1, 40.0), (PAIR, 7.0), (MIXED, 8.0)):
        record(experience, resource, [run_time_s] * 3)
    assert estimates(experience)["short"] == [20.0, 20.0, 40.0, 40.0, 40.0, 7.0, 8.0]


def test_runs_of_two_job_classes_in_one_place_are_kept_apart(experience: Explaining) -> None:
    record(experience, MIXED, [8.0] * 3, "short")
    record(experience, MIXED, [80.0] * 3, "wide")
    assert (estimates(experience)["short"][MIXED], estimates(experience)["wide"][MIXED]) == (8.0, 80.0)


def test_a_class_may_still_not_run_where_the_staff_did_not_allow_it(experience: Explaining) -> None:
    record(experience, S1, [1.0] * 3, "long")
    assert estimates(experience) == AS_THE_STAFF_SAY


def test_with_fewer_members_a_cluster_takes_longer_unless_its_history_knows(experience: Explaining) -> None:
    assert estimates(experience, (2, 2))["short"][MIXED] == 13.5
    record(experience, MIXED, [11.0] * 3, n_machines=2)
    assert estimates(experience, (2, 2))["short"][MIXED] == 11.0
    assert estimates(experience, (1, 2))["short"][PAIR] == 12.0


def test_a_machine_speaks_for_itself_after_thirty_runs(experience: Explaining) -> None:
    record(experience, F1, [20.0] * 30)
    record(experience, F2, [50.0] * 10)
    expected_s = estimates(experience)["short"]
    assert expected_s[F1] == 20.0
    assert expected_s[F2] == pytest.approx(27.5)


def test_a_job_with_a_size_is_expected_by_the_line_through_those_that_had_one(experience: Explaining) -> None:
    for size in (1.0, 2.0, 3.0):
        record(experience, F1, [10.0 * size], size=size)
    etc = experience.estimate([job(size=7.0), job()], EVERYONE)
    assert (etc[0, F2], etc[1, F2]) == (pytest.approx(70.0), pytest.approx(20.0))


def test_an_estimate_says_by_which_rule_and_how_many_runs_stand_behind_it(experience: Explaining) -> None:
    record(experience, S1, [40.0, 44.0, 48.0])
    assert experience.explain(job(), S2) == ExecutionEstimate(44.0, 4.0, Rule.MACHINE_CLASS, 3)
    assert experience.explain(job(), F1) == ExecutionEstimate(10.0, None, Rule.STAFF, 0)
    assert experience.explain(job("long"), S1) is None
    found = experience.explain(job("wide"), MIXED, members=2)
    assert found == ExecutionEstimate(77.0 * 3 / 2, None, Rule.STAFF, 0)


def test_the_rows_of_an_estimate_are_the_jobs_in_their_order(experience: Explaining) -> None:
    names = ["wide", "short", "long", "short"]
    etc = experience.estimate([job(name, number) for number, name in enumerate(names)], EVERYONE)
    assert etc.dense().tolist() == [AS_THE_STAFF_SAY[name] for name in names]


@pytest.mark.parametrize("run_time_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_run_time_that_cannot_be_is_refused_and_changes_nothing(
    run_time_s: float, experience: Explaining
) -> None:
    record(experience, F1, [20.0] * 3)
    with pytest.raises(ValueError, match="job 0: its run time is"):
        record(experience, F1, [run_time_s])
    assert experience.explain(job(), F1) == ExecutionEstimate(20.0, 0.0, Rule.MACHINE_CLASS, 3)


def test_a_run_time_that_numpy_computed_is_recorded_like_any_other(experience: Explaining) -> None:
    record(experience, F1, np.array([20.0, 21.0, 22.0]))
    assert estimates(experience)["short"][F1] == 21.0


def test_an_unknown_job_class_is_refused_with_the_ones_there_are(experience: Explaining) -> None:
    with pytest.raises(ValueError, match="no job class 'sort'; it has short, long, wide"):
        experience.estimate([job(), job("sort")], EVERYONE)
    with pytest.raises(ValueError, match="no job class 'sort'"):
        record(experience, F1, [1.0], "sort")
    assert estimates(experience) == AS_THE_STAFF_SAY


# -- over the database -------------------------------------------------------------------------------------


@contextmanager
def statements(engine: Engine) -> Iterator[list[str]]:
    """The statements that are sent to the database meanwhile."""
    sent: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_more: Any) -> None:
        if statement != "BEGIN":
            sent.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield sent
    event.remove(engine, "before_cursor_execute", note)


def test_the_whole_matrix_of_a_problem_is_one_query(engine: Engine, address: Address) -> None:
    experience = SqlExperience(engine, "small")
    jobs = [job(name, number) for number, name in enumerate(["short", "long", "wide"] * 300)]
    with statements(engine) as sent:
        experience.estimate(jobs, EVERYONE)
    assert len(sent) == 1


def test_the_statements_of_recording_do_not_become_more_with_the_history(
    engine: Engine, address: Address
) -> None:
    experience = SqlExperience(engine, "small")
    sent_each_time = []
    for _ in range(12):
        with statements(engine) as sent:
            record(experience, F1, [10.0])
        sent_each_time.append(len(sent))
    assert len(set(sent_each_time[1:])) == 1


def test_what_one_records_another_knows_at_once(engine: Engine, address: Address) -> None:
    one, another = (SqlExperience(engine, "small") for _ in range(2))
    record(one, PAIR, [7.0] * 3)
    assert estimates(another)["short"][PAIR] == 7.0
    record(another, PAIR, [11.0] * 3)
    record(one, PAIR, [9.0])
    assert estimates(one)["short"][PAIR] == pytest.approx((3 * 7 + 3 * 11 + 9) / 7)


def test_as_of_a_run_of_the_past_the_experience_is_what_it_was_then(engine: Engine, address: Address) -> None:
    now = SqlExperience(engine, "small")
    told = []
    for time_s in (20.0, 30.0, 40.0, 50.0, 60.0):
        record(now, F1, [time_s])
        told.append(estimates(now))
    for number, expected in enumerate(told, start=1):
        then = SqlExperience(engine, "small", as_of=number)
        assert estimates(then) == expected
    record(now, F1, [70.0])
    assert estimates(then) == told[-1]


def test_as_of_a_run_that_was_not_yet_is_refused(engine: Engine, address: Address) -> None:
    with pytest.raises(PrunedHistory, match="as of run 0 to 0, not as of run 7"):
        SqlExperience(engine, "small", as_of=7)


def test_the_experience_of_an_unknown_site_is_refused(engine: Engine, address: Address) -> None:
    with pytest.raises(UnknownSite, match="the database has no site 'large'; it has small"):
        SqlExperience(engine, "large")


def test_a_machine_that_moved_to_another_class_is_known_anew_by_who_is_at_work(
    engine: Engine, tmp_path: Path
) -> None:
    experience = SqlExperience(engine, "small")
    record(experience, F1, [20.0] * 40)
    assert experience.explain(job("short"), F1).rule is Rule.MACHINE  # type: ignore[union-attr]
    moved = changed('names = ["f[1-2]"]', 'names = ["f2"]', changed('"odd"]', '"odd", "f1"]'))
    with store.changing(engine) as session:
        put_site(session, read(moved, tmp_path))
    assert experience.explain(job("short"), F1).rule is Rule.MACHINE_CLASS  # type: ignore[union-attr]
    record(experience, F1, [90.0])
    with store.reading(engine) as session:
        assert disagreements(session, 1) == []
        run = session.scalars(select(ExecutionHistoryRow).order_by(ExecutionHistoryRow.number.desc())).first()
        classes = {k.id: k.name for k in SiteReader(session, "small").machine_classes}
    assert run is not None
    assert classes[run.machine_class_id or 0] == "slow"


def test_runs_on_a_machine_that_came_later_are_no_matter_to_who_is_at_work(
    engine: Engine, tmp_path: Path
) -> None:
    experience = SqlExperience(engine, "small")
    before = estimates(experience)
    with store.changing(engine) as session:
        put_site(session, read(changed('"odd"]', '"odd", "new"]'), tmp_path))
        JobWriter(session, "small").add(session, LIVE, [a_run("new", 99.0)])
    assert estimates(experience) == before


def test_while_the_server_is_down_what_was_read_last_is_believed_and_completions_wait(
    server: Server, server_database_to_copy: Address, caplog: pytest.LogCaptureFixture
) -> None:
    address = server.new_database(server_database_to_copy)
    engine = store.open_database(address)
    experience = SqlExperience(engine, "small")
    record(experience, F1, [20.0] * 3)
    before = estimates(experience)
    with server.being_down(), caplog.at_level(logging.WARNING):
        assert estimates(experience) == before
        record(experience, F1, [40.0] * 3)
    assert "the server does not answer" in caplog.text
    assert "what was read last is believed" in caplog.text
    record(experience, F1, [60.0])
    assert "can be reached again" in caplog.text
    assert estimates(experience)["short"][F1] == pytest.approx((60 + 120 + 60) / 7)
    engine.dispose()
