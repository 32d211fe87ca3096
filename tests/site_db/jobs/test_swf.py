from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_db.files.access import open_lines
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import LoggedJob, Tally
from site_db.jobs.swf import read_swf
from tests.oracles import oracle

PATH = Path("log.swf")
ORIGIN = "; UnixStartTime: 1000000"
NO_ORIGIN = "no UnixStartTime header: times count from 0"

GOOD = "17 100 20 300 4 -1 -1 8 900 -1 1 12 2 3 5 6 -1 -1"
NUMBERS = GOOD.split()


def row(**fields: str) -> str:
    """A row of a good job with some fields, by number as in f4="300", put otherwise."""
    numbers = list(NUMBERS)
    for name, text in fields.items():
        numbers[int(name[1:]) - 1] = text
    return " ".join(numbers)


def read(*lines: str) -> tuple[list[LoggedJob], Tally]:
    tally = Tally()
    return list(read_swf((f"{line}\n" for line in lines), PATH, tally)), tally


def the_job(*lines: str) -> LoggedJob:
    (job,), _ = read(*lines)
    return job


def test_a_row_becomes_a_run_with_times_relative_to_the_header() -> None:
    jobs, tally = read("; Version: 2.2", ORIGIN, "", row())
    assert jobs == [
        LoggedJob(
            "17", "user-12", "program-3", "partition-6", 4, (), 1_000_100.0, 1_000_120.0, 1_000_420.0, 900.0
        )
    ]
    assert tally == Tally(used=1)


@pytest.mark.parametrize(
    "header",
    [
        ";UnixStartTime:1000000",
        " ; unixstarttime : 1000000.0",
        "; UnixStartTime: 1000000 Mon Jan 12 13:46:40",
    ],
)
def test_the_header_is_found_in_any_format(header: str) -> None:
    assert the_job(header, row()).submitted_unix_s == 1_000_100


@pytest.mark.parametrize(
    "headers",
    [
        [],
        ["; StartTime: 1000000"],
        ["; UnixStartTime:"],
        ["; UnixStartTime: -1"],
        ["; UnixStartTime: nan"],
        ["; UnixStartTime: 1e300"],
        ["; UnixStartTime: long ago"],
    ],
)
def test_without_a_start_time_times_count_from_0_with_one_note(headers: list[str]) -> None:
    jobs, tally = read(*headers, row(), row())
    assert [job.submitted_unix_s for job in jobs] == [100, 100]
    assert tally.repaired == {NO_ORIGIN: 1}


@pytest.mark.parametrize("lines", [["; UnixStartTime: 0", row()], [row(f11="0")]], ids=["from 0", "unused"])
def test_a_start_of_0_and_times_that_are_not_used_are_not_noted(lines: list[str]) -> None:
    assert not read(*lines)[1].repaired


def test_concatenated_logs_use_their_own_headers() -> None:
    jobs, _ = read(ORIGIN, row(), "; UnixStartTime: 5000000", row())
    assert [job.submitted_unix_s for job in jobs] == [1_000_100, 5_000_100]


def test_partial_executions_without_a_summary_line_are_joined() -> None:
    """Their run times add up, the first gives the submission, the last the status."""
    parts = [
        row(f11="2"),
        row(f1="18"),
        row(f2="500", f4="50", f5="6", f11="2"),
        row(f2="900", f4="7", f11="3.0"),
    ]
    jobs, tally = read(ORIGIN, *parts)
    assert [job.number for job in jobs] == ["18", "17"]
    whole = jobs[1]
    assert (whole.submitted_unix_s, whole.started_unix_s) == (1_000_100, 1_000_120)
    assert (whole.ended_unix_s - whole.started_unix_s, whole.processors) == (357, 6)
    assert (tally.used, tally.refused.total()) == (4, 0)
    assert tally.repaired == {"partial executions of a job that has no line for the whole job, joined": 3}


@pytest.mark.parametrize("whole_is_first", [True, False])
def test_partial_executions_with_a_summary_line_are_left_out(whole_is_first: bool) -> None:
    lines = [row(), row(f4="200", f11="2"), row(f4="100", f11="3")]
    jobs, tally = read(ORIGIN, *(lines if whole_is_first else lines[::-1]))
    assert [job.ended_unix_s - job.started_unix_s for job in jobs] == [300]
    assert tally.refused == {"a partial execution of a job that has a line for the whole job, too": 2}


REFUSED = {
    "the job failed": [row(f11=status) for status in ("0", "4", "4.00")],
    "the last partial execution of the job is missing": [row(f11="2")],
    "the job was cancelled": [row(f11="5")],
    "a status that the format does not have": [row(f11=status) for status in ("6", "0.5", "-2")],
    "the submit time is unknown": [row(f2="-1")],
    "the run time is unknown": [row(f4="-1")],
    "the run time is zero": [row(f4=text) for text in ("0", "0.00", "1e-30")],
    "the number of processors is unknown": [
        row(f5=had, f8=requested) for had, requested in (("-1", "-1"), ("0", "0"), ("0.5", "4294967294"))
    ],
    "a time is beyond the year 9999": [row(f2="9" * 12), row(f4="9" * 40)],
    "fewer than 18 fields": [row().rpartition(" ")[0], "17", "17 100 hello"],
    "a field is not a number": [
        row(**{field: text})
        for field in ("f1", "f2", "f4", "f7", "f12", "f18")
        for text in ("x", "-", "nan", "inf", "-inf", "1e999", "9" * 400, "1_0", "5-1", "0x10", "²", "1,5")
    ],
}


@pytest.mark.parametrize(
    ("line", "reason"), [(line, reason) for reason, lines in REFUSED.items() for line in lines]
)
def test_a_line_that_is_no_completed_run_is_refused_with_the_reason(line: str, reason: str) -> None:
    jobs, tally = read(ORIGIN, row(f1="1"), line)
    assert (len(jobs), tally.refused) == (1, {reason: 1})


@pytest.mark.parametrize(
    ("line", "expected", "repairs"),
    [
        (row(), {"processors": 4, "time_limit_s": 900.0, "submitted_unix_s": 1_000_100.0}, []),
        (row(f5="-1"), {"processors": 8}, []),
        (row(f5="0"), {"processors": 8}, []),
        (row(f9="-1"), {"time_limit_s": None}, []),
        (row(f9="0"), {"time_limit_s": None}, []),
        (row(f9="90.5"), {"time_limit_s": 90.5}, []),
        (row(f11="-1"), {"ended_unix_s": 1_000_420.0}, ["status unknown, taken as completed"]),
        (
            row(f3="-1"),
            {"started_unix_s": 1_000_100.0, "ended_unix_s": 1_000_400.0},
            ["wait unknown, taken as none"],
        ),
        (f"{row()} 19 a_note", {"number": "17"}, ["more than 18 fields, the rest ignored"]),
        (
            row(f2="0.25", f3="1.5", f4="0.5"),
            {"submitted_unix_s": 1_000_000.25, "started_unix_s": 1_000_001.75, "ended_unix_s": 1_000_002.25},
            [],
        ),
        (row(f12="-1", f14="-1", f16="-1"), {"user": "unknown", "program": "queue-5", "partition": ""}, []),
        (row(f14="-1", f15="-1"), {"program": "unknown"}, []),
        (row(f12="0", f14="0", f16="0"), {"user": "user-0"}, []),
    ],
)
def test_a_line_has_what_its_fields_say_with_each_repair_in_the_tally(
    line: str, expected: dict[str, object], repairs: list[str]
) -> None:
    (job,), tally = read(ORIGIN, line)
    assert {name: getattr(job, name) for name in expected} == expected
    assert tally.repaired == dict.fromkeys(repairs, 1)


@pytest.mark.parametrize("line", [f"{'.00 '.join(NUMBERS)}.00", "   " + row().replace(" ", " \t ") + "  \r"])
def test_numbers_may_be_decimals_and_between_any_blanks(line: str) -> None:
    assert read(ORIGIN, line) == read(ORIGIN, row())


def test_the_tally_is_current_at_each_job_and_accumulates_over_logs() -> None:
    tally = Tally()
    jobs = read_swf([row(f11="0"), row(), row(), row(f11="5")], PATH, tally)
    next(jobs)
    assert (tally.used, tally.rows) == (1, 2)
    assert len(list(jobs)) == 1
    assert (tally.used, tally.rows) == (2, 4)
    list(read_swf([row()], PATH, tally))
    assert (tally.used, tally.rows) == (3, 5)


def test_a_log_is_read_as_a_stream() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield row()

    assert next(read_swf(endless(), PATH, Tally())).number == "17"


def test_a_file_of_another_format_is_rejected_with_its_first_line() -> None:
    with pytest.raises(InvalidFile) as caught:
        read("", 'name = "small"', "", "[[machines]]")
    assert str(caught.value) == (
        "log.swf, line 2: found 'name = \"small\"', and no line of the file is a job of the Standard "
        "Workload Format, which is 18 numbers like '1 0 5 60 4 -1 -1 4 90 -1 1 7 1 3 1 1 -1 -1'"
    )


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["; Version: 2.2"], "the file has a header, but no jobs"),
        (["; Version: 2.2", "x"], "line 2: found 'x', and"),
        (["x" * 100], f"line 1: found '{'x' * 57}...', and"),
        (["a\0b"], r"line 1: found 'a\u0000b', and"),
        ([row(f3="x")], "line 1: found '17 100 x 300"),
        ([], "the file is empty; expected a job of the Standard Workload Format"),
        (["", " "], "the file is empty; expected"),
    ],
)
def test_a_file_without_rows_is_rejected(lines: list[str], found: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        read(*lines)
    assert found in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_log_may_consist_of_rejected_jobs_only() -> None:
    jobs, tally = read(row(f11="0"))
    assert (jobs, tally.rows) == ([], 1)


TEXTS = st.one_of(
    st.sampled_from(["-1", "0", "1", "2.5", "17", "nan", "inf", "1e308", "9" * 400, "-", "_", ";", "²", "٣"]),
    st.integers().map(str),
    st.floats().map(str),
    st.text(max_size=4),
)
LINES = st.one_of(
    st.text(),
    st.lists(TEXTS, min_size=15, max_size=20).map(" ".join),
    st.dictionaries(st.integers(1, 18).map(lambda n: f"f{n}"), TEXTS, max_size=3).map(lambda f: row(**f)),
    TEXTS.map("; UnixStartTime: {}".format),
)


@given(st.lists(LINES))
def test_any_row_is_used_or_rejected_and_every_job_is_valid(lines: list[str]) -> None:
    tally = Tally()
    jobs: list[LoggedJob] = []
    with suppress(InvalidFile):
        jobs.extend(read_swf(lines, PATH, tally))
    assert tally.used == len(jobs)
    assert tally.rows == sum(1 for line in lines if line.strip() and not line.lstrip().startswith(";"))
    for job in jobs:
        assert 0 <= job.submitted_unix_s <= job.started_unix_s < job.ended_unix_s < math.inf
        assert 1 <= job.processors < 2**31
        assert all(f"{job.number}{name}".isprintable() for name in (job.user, job.program, job.partition))
        assert job.user
        assert job.program


@pytest.mark.parametrize(("log", "jobs"), [("KTH-SP2", 28_481), ("CTC-SP2", 77_199)])
def test_archive_logs_are_read_to_the_last_job(log: str, jobs: int) -> None:
    path = oracle(f"swf/{log}.swf.gz")
    tally = Tally()
    with open_lines(path) as lines:
        assert sum(1 for _ in read_swf(lines, path, tally)) == jobs
    assert (tally.used, tally.rows) == (jobs, jobs)
    assert tally.repaired[NO_ORIGIN] == 1


def test_jobs_that_name_a_preceding_job_are_remarked_by_kind() -> None:
    rows = [row(f1="1", f17="3"), row(f1="2", f17="2"), row(f1="3", f17="99"), row(f1="4", f17="1")]
    _, tally = read(*rows)
    (remark,) = tally.remarks()
    assert remark.startswith(
        "4 jobs (first: 1) named a preceding job in field 17, after whose end the job may"
    )
    assert "1 names itself, 1 names a job that is not in the log, 1 names a job on a later line)" in remark
