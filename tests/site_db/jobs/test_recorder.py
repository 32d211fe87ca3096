"""Recording while the database goes away and comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from site_db import store
from site_db.history.stored_statistics import disagreements
from site_db.jobs.recording import Recorder
from site_db.jobs.records import JobRecord, JobState, Source, SourceKind
from site_db.jobs.writer import BadRecord, JobWriter
from site_db.schema import ExecutionHistoryRow, JobRow, SourceRow
from site_db.store import Address, Rejected
from tests.postgres import Server
from tests.site_db.site_texts import a_run, assert_has_a_plain_sentence_for_each_mistake


def source(key: str) -> Source:
    return Source(SourceKind.TESTBED, key, "trial", "pjs", 0, 3)


def jobs(*times_s: float, resource: str = "f1") -> list[JobRecord]:
    return [a_run(resource, time_s, number=str(k), expected_s=9.0) for k, time_s in enumerate(times_s)]


def recorded(engine: Engine) -> list[tuple[str, float]]:
    row = ExecutionHistoryRow
    query = select(SourceRow.key, row.run_time_s).join(SourceRow, SourceRow.id == row.source_id)
    with Session(engine) as session:
        assert disagreements(session, 1) == []
        return [(key, time_s) for key, time_s in session.execute(query.order_by(row.number))]


@pytest.fixture
def on_server(server: Server, server_database_to_copy: Address) -> Iterator[tuple[Address, Engine]]:
    address = server.new_database(server_database_to_copy)
    engine = store.open_database(address)
    yield address, engine
    engine.dispose()


def test_jobs_recorded_while_the_server_is_down_are_written_in_order_after_recovery(
    server: Server, on_server: tuple[Address, Engine]
) -> None:
    address, engine = on_server
    sentences: list[str] = []
    recorder = Recorder(engine, "small", sentences.append)
    recorder.record(source("a"), jobs(1.0, 2.0))
    with server.being_down():
        recorder.record(source("b"), jobs(3.0))
        recorder.record(source("c"), jobs(4.0, 5.0))
        assert [one.key for one, _ in recorder.waiting] == ["b", "c"]
    recorder.record(source("d"), jobs(6.0))
    assert recorder.waiting == ()
    assert recorded(engine) == [("a", 1.0), ("a", 2.0), ("b", 3.0), ("c", 4.0), ("c", 5.0), ("d", 6.0)]
    for sentence, words in zip(sentences, ("does not answer", "can be reached again"), strict=True):
        assert words in sentence
        assert_has_a_plain_sentence_for_each_mistake(sentence)
        assert sentence.startswith(str(address))


@pytest.mark.parametrize("kind", [SourceKind.TESTBED, SourceKind.LIVE])
@pytest.mark.parametrize("state", [JobState.DONE, JobState.FAILED])
@pytest.mark.parametrize("lost", ["before", "after"])
def test_an_interrupted_commit_is_neither_lost_nor_repeated(
    lost: str, state: JobState, kind: SourceKind, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks while the answer to COMMIT is awaited: it may have been carried out or not."""
    recorder = Recorder(engine, "small", lambda _: None)
    cuts = [True]

    def cut_off(connection: Connection) -> None:
        if cuts:
            cuts.pop()
            driver: Any = connection.connection.driver_connection
            if lost == "after":
                driver.commit()
            raise OperationalError("COMMIT", {}, Exception("connection lost"), connection_invalidated=True)

    monkeypatch.setattr(store, "_SQLITE", {"connection lost": (store.Unreachable, "gone")})
    event.listen(engine, "commit", cut_off)
    batch = [replace(job, state=state) for job in jobs(1.0, 2.0)]
    recorder.record(Source(kind, "a"), batch)
    assert len(recorder.waiting) == 1
    recorder.record(Source(kind, "a" if kind is SourceKind.LIVE else "b"), jobs(3.0))
    with store.reading(engine) as session:
        assert disagreements(session, 1) == []
        assert session.scalar(select(func.count()).select_from(JobRow)) == 3
        times = session.scalars(select(ExecutionHistoryRow.run_time_s).order_by(ExecutionHistoryRow.number))
        assert times.all() == ([1.0, 2.0, 3.0] if state is JobState.DONE else [3.0])


def test_a_batch_that_violates_a_constraint_does_not_block_later_ones(engine: Engine) -> None:
    """Also not where the server's reason speaks of an interconnect: that is no lost connection."""
    recorder = Recorder(engine, "small", lambda _: None)
    bad = replace(jobs(1.0)[0], queue="interconnect-tests", preemptions=-1)
    with pytest.raises(Rejected):
        recorder.record(source("a"), [bad])
    recorder.record(source("b"), jobs(2.0))
    assert recorded(engine) == [("b", 2.0)]


def test_jobs_recorded_while_the_database_is_locked_are_written_later(
    address: Address, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.1)
    impatient = store.open_database(address)
    sentences: list[str] = []
    recorder = Recorder(impatient, "small", sentences.append)
    with store.changing(engine) as session:
        JobWriter(session, "small").lock(session)
        recorder.record(source("a"), jobs(1.0))
        assert "another process keeps the database locked" in sentences[0]
    recorder.write()
    assert recorded(engine) == [("a", 1.0)]
    impatient.dispose()


def test_jobs_of_many_sources_are_recorded_at_once_as_one_source_after_the_other(engine: Engine) -> None:
    """Also of a source that has some already, and of one that is named twice."""
    batches = [
        (source("b"), jobs(2.0, 3.0)),
        (source("a"), jobs(4.0)),
        (source("none"), []),
        (source("b"), jobs(5.0)),
    ]
    with store.changing(engine) as session:
        writer = JobWriter(session, "small")
        writer.add(session, source("a"), jobs(1.0))
        writer.add_all(session, batches)
        known = writer.ids_of(session, [source(key) for key in ("a", "b", "none", "other")])
        assert known.keys() == {"a", "b", "none"}
    assert recorded(engine) == [("a", 1.0), ("b", 2.0), ("b", 3.0), ("a", 4.0), ("b", 5.0)]


def test_a_cluster_run_without_a_number_of_members_used_all(engine: Engine) -> None:
    run = a_run("pair")
    Recorder(engine, "small", lambda _: None).record(source("a"), [run, replace(run, members=1)])
    with Session(engine) as session:
        assert session.scalars(select(ExecutionHistoryRow.members)).all() == [2, 1]


WAITS = {"state": JobState.WAITING, "started_s": None, "run_time_s": None}


@pytest.mark.parametrize(
    ("resource", "changed", "sentence"),
    [
        ("f1", {"job_class": "sort"}, "has no job class 'sort'"),
        (None, {"job_class": "sort", **WAITS}, "has no job class 'sort'"),
        ("x9", {}, "no machine or cluster 'x9'"),
        (None, {"machine_class": "x"}, "no machine class 'x'"),
        ("f1", {"members": 3}, "3 machines, and 'f1'"),
        ("pair", {"members": 3}, "3 machines"),
        (None, {"submitted_s": float("nan"), **WAITS}, "it was submitted at nan"),
        ("f1", {"run_time_s": 0.0}, "its run time is 0.0"),
        ("f1", {"started_s": None}, "started at None"),
        ("f1", {"size": -1.0}, "its size is -1.0"),
    ],
)
def test_an_invalid_job_rejects_its_whole_batch_and_the_next_batch_is_recorded(
    resource: str | None, changed: dict[str, Any], sentence: str, engine: Engine
) -> None:
    recorder = Recorder(engine, "small", lambda _: None)
    with pytest.raises(BadRecord, match=sentence) as caught:
        recorder.record(source("a"), [*jobs(1.0), replace(a_run(resource, number="7"), **changed)])
    assert_has_a_plain_sentence_for_each_mistake(str(caught.value))
    assert str(caught.value).startswith("job 7: ")
    recorder.record(source("b"), jobs(2.0))
    assert recorded(engine) == [("b", 2.0)]
