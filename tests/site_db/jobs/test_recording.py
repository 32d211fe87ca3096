"""Jobs and runs in a CSV file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from site_db.files.input_errors import InvalidFile
from site_db.jobs import recording
from site_db.jobs.past import with_recorded_data
from site_db.jobs.records import JobRecord, JobState, Source, SourceKind
from site_db.jobs.writer import JobWriter
from site_db.site_file.tables import DataTable
from site_db.sites import SiteReader
from tests.site_db.site_texts import a_run, after_path, record

NOW_S = 1.8e9

TRIAL = Source(SourceKind.TESTBED, "a", "trial", "pjs", 0, 3)


def test_a_written_file_round_trips(tmp_path: Path) -> None:
    done = JobRecord("3", "short", "ann", "day", JobState.DONE, 1.0, "f1", 1, 2.0, 3.0, expected_s=9.0)
    refused = JobRecord("4", "long", "bob", "night", JobState.REFUSED, 3.0, reason="no, not today")
    sized = JobRecord(
        "5", "wide", "bob", "night", JobState.DONE, 3.0, "mixed", 2, 4.0, 0.1 + 0.2, 7.0, "ann", 9.9, 2,
        input_mb=0.5, data_at="archive",
    )  # fmt: skip
    batches = [(TRIAL, [done, done]), (Source(SourceKind.LIVE, "live"), [refused, sized])]
    path = tmp_path / "jobs.csv"
    recording.write(path, batches)
    assert recording.read(path, NOW_S) == batches


def test_the_data_of_a_job_class_are_those_of_recorded_jobs_unless_the_site_states_them(
    session: Session,
) -> None:
    """At the place of most jobs; a job without sizes says nothing, and one that was simulated neither."""
    data = [(100.0, 7.0, ""), (30.0, None, "archive"), (50.0, 4.0, "archive"), (None, None, "tapes")]
    record(session, *(a_run("f1", input_mb=read, output_mb=made, data_at=at) for read, made, at in data))
    JobWriter(session, "small").add(session, TRIAL, [a_run("f1", input_mb=9e9)] * 3)
    there = SiteReader(session, "small")
    file = with_recorded_data(session, there.site.id, there.as_file())
    short, *others = [job_class.data for job_class in file.job_classes]
    assert short == DataTable(input_mb=40.0, output_mb=2.0, at="archive")
    assert others == [None, None]
    stated = {"job_classes": (file.job_classes[0].model_copy(update={"data": DataTable(input_mb=1.0)}),)}
    found = with_recorded_data(session, there.site.id, file.model_copy(update=stated))
    assert found.job_classes[0].data == DataTable(input_mb=1.0)


def test_four_columns_suffice_and_the_file_is_the_source(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("job_class,resource,started_unix_s,run_time_s\nshort,f1,1700000000,12.5\n")
    ((source, (job,)),) = recording.read(path, NOW_S)
    assert (source.kind, source.name) == (SourceKind.FILE, "mine.csv")
    assert (job.number, job.state, job.run_time_s, job.user) == ("2", JobState.DONE, 12.5, "unknown")
    assert job.submitted_s == job.started_s == 1.7e9


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
        (f"{HEADER}\nshort,f1,0,1e15\n", 'line 2: run_time_s = "1e15": expected a number less than'),
        (f"{HEADER},members\nshort,f1,0,1,0\n", 'line 2: members = "0": expected a number greater than'),
        (
            f"{HEADER},input_mb\nshort,f1,0,1,-1\n",
            'line 2: input_mb = "-1": expected a number greater than or',
        ),
        (f"{HEADER},preemptions\nshort,f1,0,1,{2**40}\n", 'line 2: preemptions = "1099511627776"'),
        (f"{HEADER},source_key,source_kind\nshort,f1,0,1,k,rumour\n", 'line 2: source_kind = "rumour"'),
        (f"{HEADER},source_key,source_point\nshort,f1,0,1,k,one\n", 'line 2: source_point = "one"'),
        (f'{HEADER}\n"short,f1,0,1\n', "line 2: expected 4 values"),
        (f"{HEADER},user,user\nshort,f1,0,1,ann,bob\n", "line 1: the column 'user' occurs twice"),
        (f"{HEADER}\nshort,f1,-5,1\n", 'line 2: started_unix_s = "-5"'),
        (f"{HEADER},submitted_unix_s\nshort,f1,5,1,6\n", "line 2: the job was submitted at 6 s, after it"),
        (f"{HEADER},machine_class\nshort,f1,5,1,fast\n", "line 2: either a resource or a machine_class"),
    ],
)
def test_an_invalid_file_is_rejected_with_line_value_and_expected_format(
    text: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InvalidFile) as caught:
        recording.read(path, NOW_S)
    assert sentence in after_path(caught.value, path)


def test_a_run_without_a_machine_belongs_to_its_machine_class(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("job_class,machine_class,started_unix_s,run_time_s\nshort,fast,1700000000,12.5\n")
    ((_, (job,)),) = recording.read(path, NOW_S)
    assert (job.resource, job.machine_class, job.state) == (None, "fast", JobState.DONE)


TEXTS = st.text(st.characters(exclude_categories=("C",)), max_size=5)
NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=5)
SECONDS = st.floats(1e-3, 1e9)
SOURCES = st.builds(
    Source,
    st.sampled_from(SourceKind),
    NAMES,
    TEXTS,
    st.none() | NAMES,
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
)
JOBS = st.builds(
    JobRecord,
    number=NAMES,
    job_class=NAMES,
    user=NAMES,
    queue=NAMES,
    state=st.sampled_from(JobState),
    submitted_s=st.floats(0, 1e9),
    resource=NAMES,
    members=st.integers(1, 9),
    started_s=st.just(1e9),
    run_time_s=st.floats(1e-9, 1e8),
    size=st.none() | SECONDS,
    submitted_by=st.none() | NAMES,
    expected_s=st.none() | SECONDS,
    preemptions=st.integers(0, 9),
    reason=TEXTS,
    time_limit_s=st.none() | SECONDS,
)


@given(
    batches=st.lists(
        st.tuples(SOURCES, st.lists(JOBS, min_size=1, max_size=3)), max_size=3, unique_by=lambda b: b[0].key
    )
)
def test_any_batches_round_trip(batches: list[tuple[Source, list[JobRecord]]], shared_folder: Path) -> None:
    path = shared_folder / "jobs.csv"
    recording.write(path, batches)
    assert recording.read(path, NOW_S) == batches
