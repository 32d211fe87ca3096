"""Recording while the database goes away and comes back; and what is kept in a file when it does not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from site_db import job_file, store
from site_db.history import disagreements
from site_db.jobs import BadRecord, JobRecord, JobState, Source, SourceKind
from site_db.recorder import Recorder
from site_db.schema import ExecutionHistoryRow, SourceRow
from site_db.store import Address, parse_address
from site_db.toml_file import InvalidFile
from tests.postgres import Server
from tests.site_db.site_texts import after_path, assert_is_one_plain_sentence

NOW_S = 1.8e9


def source(key: str) -> Source:
    return Source(SourceKind.TESTBED, key, "trial", "pjs", 0, 3)


def jobs(*times_s: float, resource: str = "f1") -> list[JobRecord]:
    return [
        JobRecord(str(k), "short", "ann", "day", JobState.DONE, 1.0, resource, 1, 2.0, time_s, expected_s=9.0)
        for k, time_s in enumerate(times_s)
    ]


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


def test_what_comes_while_the_server_is_down_is_written_in_order_when_it_is_back(
    server: Server, on_server: tuple[Address, Engine]
) -> None:
    address, engine = on_server
    said: list[str] = []
    recorder = Recorder(engine, address, "small", said.append)
    recorder.record(source("a"), jobs(1.0, 2.0))
    with server.being_down():
        recorder.record(source("b"), jobs(3.0))
        recorder.record(source("c"), jobs(4.0, 5.0))
        assert [one.key for one, _ in recorder.waiting] == ["b", "c"]
    recorder.record(source("d"), jobs(6.0))
    assert recorder.waiting == ()
    assert recorded(engine) == [("a", 1.0), ("a", 2.0), ("b", 3.0), ("c", 4.0), ("c", 5.0), ("d", 6.0)]
    assert ["does not answer" in said[0], "can be reached again" in said[1], len(said)] == [True, True, 2]
    for sentence in said:
        assert_is_one_plain_sentence(sentence)
        assert sentence.startswith(str(address))


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_commit_that_was_cut_off_is_neither_lost_nor_done_twice(
    lost: str, engine: Engine, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks while the answer to COMMIT is awaited: it may have been carried out or not."""
    recorder = Recorder(engine, address, "small", lambda _: None)
    real = Session.commit
    cuts = [True]

    def cut_off(session: Session) -> None:
        if cuts:
            cuts.pop()
            if lost == "after":
                real(session)
            raise OperationalError("COMMIT", {}, Exception("connect lost"), connection_invalidated=True)
        real(session)

    monkeypatch.setattr(Session, "commit", cut_off)
    monkeypatch.setattr(store, "_SQLITE", {"connect lost": "gone"})
    monkeypatch.setattr(store, "_MAY_PASS", ("connect lost",))
    recorder.record(source("a"), jobs(1.0, 2.0))
    assert len(recorder.waiting) == 1
    recorder.record(source("b"), jobs(3.0))
    assert recorded(engine) == [("a", 1.0), ("a", 2.0), ("b", 3.0)]


def test_a_database_that_is_locked_for_long_is_written_later(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_S", 0.1)
    address = parse_address(str(database))
    engine = store.open_database(address)
    said: list[str] = []
    recorder = Recorder(engine, address, "small", said.append)
    another = sqlite3.connect(database, isolation_level=None)
    another.execute("BEGIN EXCLUSIVE")
    recorder.record(source("a"), jobs(1.0))
    assert "another process keeps the database locked" in said[0]
    another.execute("COMMIT")
    another.close()
    recorder.write()
    assert recorded(engine) == [("a", 1.0)]
    engine.dispose()


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (
            JobRecord("7", "sort", "ann", "day", JobState.DONE, 0.0, "f1", 1, 0.0, 1.0),
            "has no job class 'sort'",
        ),
        (JobRecord("7", "short", "ann", "day", JobState.DONE, 0.0, "x9", 1, 0.0, 1.0), "machine class 'x9'"),
        (JobRecord("7", "short", "ann", "day", JobState.DONE, 0.0, "f1", 1, 0.0, 0.0), "its run time is 0.0"),
        (JobRecord("7", "short", "ann", "day", JobState.DONE, 0.0, "pair", 3, 0.0, 1.0), "3 machines"),
        (JobRecord("7", "short", "ann", "day", JobState.DONE, 0.0, "f1", 1, None, 1.0), "started at None"),
        (
            JobRecord("7", "short", "ann", "day", JobState.DONE, 0.0, "f1", 1, 0.0, 1.0, size=-1.0),
            "its size is -1.0",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_job_is_refused_with_its_whole_batch_and_the_next_one_goes_on(
    bad: JobRecord, sentence: str, engine: Engine, address: Address
) -> None:
    recorder = Recorder(engine, address, "small", lambda _: None)
    with pytest.raises(BadRecord, match=sentence) as caught:
        recorder.record(source("a"), [*jobs(1.0), bad])
    assert_is_one_plain_sentence(str(caught.value))
    assert str(caught.value).startswith("job 7: ")
    recorder.record(source("b"), jobs(2.0))
    assert recorded(engine) == [("b", 2.0)]


# -- the file ----------------------------------------------------------------------------------------------


def test_what_is_written_to_a_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    refused = JobRecord("4", "long", "bob", "night", JobState.REFUSED, 3.0, reason="no, not today")
    sized = JobRecord(
        "5", "wide", "bob", "night", JobState.DONE, 3.0, "mixed", 2, 4.0, 0.1 + 0.2, 7.0, "ann", 9.9, 2
    )
    batches = [(source("a"), jobs(1.0, 2.0)), (Source(SourceKind.LIVE, "live"), [refused, sized])]
    path = tmp_path / "jobs.csv"
    job_file.write(path, batches)
    assert job_file.read(path, NOW_S) == batches


def test_four_columns_are_enough_and_the_file_is_the_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("job_class,resource,started_unix_s,run_time_s\nshort,f1,1700000000,12.5\n")
    ((told_by, (job,)),) = job_file.read(path, NOW_S)
    assert (told_by.kind, told_by.name) == (SourceKind.FILE, "mine.csv")
    assert (job.number, job.state, job.run_time_s, job.user) == ("2", JobState.DONE, 12.5, "unknown")
    assert job.submitted_unix_s == job.started_unix_s == 1.7e9


HEADER = "job_class,resource,started_unix_s,run_time_s"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "line 1: the column 'job_class' is missing"),
        ("job_class,resource,run_time_s\n", "line 1: the column 'started_unix_s' is missing"),
        (f"{HEADER},colour\n", "line 1: unknown column 'colour'"),
        (f"{HEADER}\nshort,f1,0,0\n", 'line 2: run_time_s = "0": expected a number greater than 0'),
        (f"{HEADER}\nshort,f1,0,nan\n", 'line 2: run_time_s = "nan"'),
        (f"{HEADER}\nshort,f1,0,inf\n", 'line 2: run_time_s = "inf"'),
        (f"{HEADER}\nshort,f1,soon,1\n", 'line 2: started_unix_s = "soon"'),
        (f"{HEADER}\nshort,f1,0,1\n,f1,0,1\n", "line 3: the key 'job_class' is missing"),
        (f"{HEADER}\nshort,f1,0\n", "line 2: expected 4 values"),
        (f"{HEADER}\nshort,f1,0,1,2\n", "line 2: expected 4 values"),
        (f"{HEADER},state\nshort,f1,0,,done\n", "line 2: a job that is done has a resource"),
        (
            f"{HEADER}\nshort,f1,1900000000,1\n",
            "line 2: the run ended at 1.9e+09 s (2030-03-17), which is in",
        ),
        (f"{HEADER}\nshort,f1,1700000000000,1\n", "which is in the future"),
    ],
)
def test_a_bad_file_is_refused_with_line_value_and_what_was_expected(
    text: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InvalidFile) as caught:
        job_file.read(path, NOW_S)
    assert sentence in after_path(caught.value, path)
