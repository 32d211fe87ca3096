"""A site in another database: the same site, of which the same is believed, and nothing flows back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from scheduler import UserError
from scheduler.model import Job
from site_db import store
from site_db.estimation import Estimator
from site_db.exchange import copy_site
from site_db.experience import StatisticsReader
from site_db.history.stored_statistics import disagreements
from site_db.schema import ExecutionHistoryRow, JobRow, UserRow
from site_db.site_file.importing import put_site
from site_db.sites import SiteReader
from site_db.states import Observation, StateWriter, current_states
from tests.site_db.site_texts import FULL, a_run, dump, read, record


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Session]:
    """A database that has another site already, so that ids differ."""
    engine = store.replace(tmp_path / "copy.db")
    with Session(engine) as session:
        put_site(session, read(FULL, tmp_path))
        yield session
    engine.dispose()


def matrix(session: Session, as_of: int | None = None) -> list[list[float]]:
    reader = StatisticsReader(session, "small")
    estimator = Estimator(reader.layout, reader.statistics(session, as_of))
    jobs = [Job(k, name, 0.0) for k, name in enumerate(reader.layout.job_classes)]
    sizes = [len(members) for members in reader.layout.members]
    found: list[list[float]] = estimator.matrix(jobs, sizes).dense().tolist()
    return found


def learn(session: Session) -> None:
    record(session, *(a_run("f1", 10.0 + k) for k in range(5)), a_run("pair", 7.0, members=2))
    record(session, *(a_run("s1", 50.0) for _ in range(4)), a_run("mixed", 9.5, members=2))


def test_a_copied_site_has_the_same_file_and_estimates(session: Session, copy: Session) -> None:
    learn(session)
    assert copy_site(session, "small", copy) == 11
    assert SiteReader(copy, "small").as_file() == SiteReader(session, "small").as_file()
    assert matrix(copy) == matrix(session)


def test_a_copy_as_of_a_run_has_the_estimates_of_that_time(session: Session, copy: Session) -> None:
    record(session, *(a_run("f1", 10.0 + k) for k in range(5)))
    then = matrix(session)
    record(session, *(a_run("f1", 99.0) for _ in range(40)))
    assert matrix(session) != then
    assert copy_site(session, "small", copy, as_of=5) == 5
    assert matrix(copy) == then == matrix(session, as_of=5)


def test_runs_jobs_and_their_users_are_not_copied(session: Session, copy: Session) -> None:
    learn(session)
    copy_site(session, "small", copy)
    for row in (ExecutionHistoryRow, JobRow):
        assert copy.scalar(select(func.count()).select_from(row)) == 0
    assert "ann" not in copy.scalars(
        select(UserRow.name).where(UserRow.site_id == SiteReader(copy, "small").site.id)
    )


def test_a_copy_learns_independently_and_its_statistics_agree(session: Session, copy: Session) -> None:
    learn(session)
    session.commit()
    before = dump(session)
    copy_site(session, "small", copy)
    record(copy, a_run("f1", 30.0), a_run("f2", 31.0))
    site = SiteReader(copy, "small").site
    assert (site.runs_recorded, site.runs_pruned) == (13, 11)
    assert list(disagreements(copy, site.id)) == []
    with pytest.raises(UserError):
        matrix(copy, as_of=3)
    session.expire_all()
    assert dump(session) == before


def test_current_states_are_copied_and_previous_ones_are_not(session: Session, copy: Session) -> None:
    writer = StateWriter(session, SiteReader(session, "small"))
    writer.add("f1", Observation(up=False), 1.0)
    writer.add("s1", Observation(up=False, local_load=0.5), 2.0)
    writer.add("s1", Observation(up=True, local_load=1.5), 3.0)
    writer.add("sci", Observation(up=False, traffic_mbit_per_s=5.0, committed_mbit_per_s=6.0), 4.0)
    copy_site(session, "small", copy)
    states = current_states(copy, SiteReader(copy, "small"))
    assert states.down == ["f1", "sci"]
    assert (states.machines["s1"].local_load, states.machines["s1"].since_unix_s) == (1.5, 3.0)
    sci = states.interconnects["sci"]
    assert (sci.traffic_mbit_per_s, sci.committed_mbit_per_s) == (5.0, 6.0)
    found = {name: (s.since_unix_s, s.available_members) for name, s in states.clusters.items()}
    assert found == {"pair": (1.0, 1), "mixed": (3.0, 3)}
