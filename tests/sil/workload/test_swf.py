from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from threading import Thread

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import UserError
from scheduler.node_request import Node, Request
from sil.workload import mapped_columns, swf
from sil.workload.job_log import LARGEST, SCHEMA, JobLog
from sil.workload.settings import Overrun, Rules, TooLarge
from sil.workload.swf import read_swf
from sil.workload.swf_writing import write_swf
from site_db.files.input_errors import InvalidFile
from site_db.site_file.cluster import SiteNodes
from tests.sil.workload.swf_files import GOOD, HEADER, assert_sound, job, log_file

STRICT = Rules(strict=True)


def read(folder: Path, *lines: str, header: str = HEADER, rules: Rules | None = None) -> JobLog:
    return read_swf(log_file(folder, *lines, header=header), rules)


def refusal(path: Path, rules: Rules | None = None, processors: int | None = None) -> str:
    with pytest.raises(InvalidFile) as refused:
        read_swf(path, rules, processors)
    message = str(refused.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message


def log_of(*submits_s: float, **header: str) -> JobLog:
    """Jobs of 10 s on 1 of 10 processors."""
    n = len(submits_s)
    columns = {
        "job": range(1, n + 1),
        "submit_s": submits_s,
        "run_s": [10.0] * n,
        "processors": [1] * n,
        "estimate_s": [10.0] * n,
        "user": [-1] * n,
    }
    return JobLog("made", pl.DataFrame(columns, schema=SCHEMA), 10, header)


# What a log says


def test_a_line_becomes_a_job_with_its_requested_processors_and_time(tmp_path: Path) -> None:
    log = read(tmp_path, "17 100 20 300 4 -1 -1 8 900 -1 1 12 2 3 5 6 -1 -1", rules=STRICT)
    assert log.jobs.rows(named=True) == [
        {"job": 17, "submit_s": 100.0, "run_s": 300.0, "processors": 8, "estimate_s": 900.0, "user": 12}
    ]
    assert (log.name, log.processors, log.notes) == ("log.swf", 8, ())


def test_a_strict_reading_accepts_a_clean_log_without_notes(tmp_path: Path) -> None:
    strict = read(tmp_path, job(), job(job=2, submit=1), rules=STRICT)
    assert strict.notes == ()
    assert strict.jobs.equals(read(tmp_path, job(), job(job=2, submit=1)).jobs)


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text.replace(" ", "  "),
        lambda text: text.replace(" ", "\t"),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: text.replace("\n", "\n\n"),
        lambda text: text + "; a comment at the end\n",
        lambda text: text.rstrip("\n"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace("; MaxProcs: 8", "  ;;maxprocs :8  "),
        lambda text: text.replace(" 60 ", " 6e1 "),
    ],
    ids=["spaces", "tabs", "CRLF", "CR", "blank", "comment", "no end", "BOM", "header", "exponent"],
)
def test_formatting_variants_of_a_log_give_the_same_jobs(tmp_path: Path, changed) -> None:  # type: ignore[no-untyped-def]
    path = log_file(tmp_path, job(), job(job=2, submit=7))
    plain = read_swf(path)
    path.write_bytes(changed(path.read_text()).encode())
    again = read_swf(path, STRICT)
    assert again.jobs.equals(plain.jobs)
    assert again.processors == plain.processors


def test_jobs_are_sorted_by_submission_then_by_number(tmp_path: Path) -> None:
    lines = [job(job=3, submit=5), job(job=2, submit=5), job(job=1, submit=9)]
    assert read(tmp_path, *lines).jobs["job"].to_list() == [2, 3, 1]


def test_a_log_that_starts_after_one_billion_seconds_keeps_its_times(tmp_path: Path) -> None:
    log = read(tmp_path, job(submit=1_000_000_000), job(job=2, submit=1_000_000_100))
    assert log.jobs["submit_s"].to_list() == [1e9, 1e9 + 100]
    assert log.span_s == 100
    assert log.load == pytest.approx(2 * 4 * 60 / (8 * 100))
    assert log.with_load(2.0).jobs["submit_s"].to_list() == [1e9, 1e9 + 50]


# Repairs: each is done and told by a lenient reading, and refused with its line by a strict one


@dataclass(frozen=True)
class Case:
    lines: tuple[str, ...]
    line: int
    """The line, after two of header, that a strict reading names."""
    wrong: str
    done: str
    left: dict[str, list[float]]
    """Some columns of what is read."""
    rules: Rules = field(default_factory=Rules)


FINE = job(job=9, submit=9)
CASES = {
    "run of 0 s": Case((job(run=0),), 3, "a run time below 1 s", "1 s is taken", {"run_s": [1]}),
    "part of a second": Case((job(run=0.4),), 3, "a run time below 1 s", "1 s is taken", {"run_s": [1]}),
    "no run time": Case((FINE, job(run=-1)), 4, "the run time is unknown", "left out", {"job": [9]}),
    "no submit time": Case((FINE, job(submit=-1)), 4, "submit time is unknown", "left out", {"job": [9]}),
    "run time below 0": Case(
        (FINE, job(run=-2)), 4, "a run time below 0 (field 4 is -2)", "left out", {"job": [9]}
    ),
    "submit time below 0": Case(
        (FINE, job(submit=-90)), 4, "a submit time below 0 (field 2 is -90)", "left out", {"job": [9]}
    ),
    "cancelled": Case(
        (FINE, job(status=5, run=0)), 4, "cancelled before it started", "left out", {"job": [9]}
    ),
    "cancelled, unknown": Case(
        (FINE, job(status=5, run=-1)), 4, "cancelled before", "left out", {"job": [9]}
    ),
    "no processors": Case(
        (FINE, job(requested=-1, allocated=0)), 4, "number of processors is unknown", "left out", {"job": [9]}
    ),
    "only allocated": Case(
        (job(requested=-1, allocated=3),),
        3,
        "the requested processors are unknown",
        "those allocated are taken",
        {"processors": [3]},
    ),
    "half a processor": Case((job(requested=2.5),), 3, "not whole", "rounded up", {"processors": [3]}),
    "no estimate": Case(
        (job(requested_time=-1),), 3, "requested time is unknown", "run time is taken", {"estimate_s": [60]}
    ),
    "short estimate": Case(
        (job(run=1, requested_time=0.5),),
        3,
        "a requested time below 1 s",
        "1 s is taken",
        {"estimate_s": [1]},
    ),
    "overrun": Case(
        (job(run=120),),
        3,
        "it ran for longer than was requested",
        "the requested time is raised",
        {"run_s": [120], "estimate_s": [120]},
    ),
    "overrun, cut": Case(
        (job(run=120),),
        3,
        "it ran for longer than was requested",
        "the run is cut",
        {"run_s": [90], "estimate_s": [90]},
        Rules(overrun=Overrun.CUT),
    ),
    "too large": Case(
        (job(requested=12),),
        3,
        "more than the 8 processors of the machine",
        "clipped to 8",
        {"processors": [8]},
    ),
    "too large, skipped": Case(
        (FINE, job(requested=12)),
        4,
        "more than the 8 processors of the machine",
        "left out",
        {"job": [9]},
        Rules(too_large=TooLarge.SKIP),
    ),
    "disorder": Case(
        (job(job=1, submit=5), job(job=2, submit=3)),
        4,
        "submitted before a job on an earlier line",
        "sorted by submit time",
        {"job": [2, 1]},
    ),
    "number twice": Case(
        (job(job=4), job(job=4, submit=1)),
        4,
        "an invalid or duplicate job number",
        "a new number",
        {"job": [4, 5]},
    ),
    "number 0": Case(
        (job(job=0), job(job=6, submit=1)),
        3,
        "an invalid or duplicate job number",
        "a new number",
        {"job": [7, 6]},
    ),
    "odd number": Case(
        (job(job=1.5),), 3, "an invalid or duplicate job number", "a new number", {"job": [2]}
    ),
    "infinite": Case((FINE, job(run="inf")), 4, "out of range (field 4 is inf)", "left out", {"job": [9]}),
    "no number at all": Case(
        (FINE, job(run="nan")), 4, "of range (field 4 is nan)", "left out", {"job": [9]}
    ),
    "huge": Case((FINE, job(submit=1e16)), 4, "of range (field 2 is 1e+16)", "left out", {"job": [9]}),
    "few fields": Case(("1 2 3", FINE), 3, "fewer than 18 fields", "left out", {"job": [9]}),
    "many fields": Case((f"{GOOD} 5",), 3, "more than 18 fields", "the rest is ignored", {"job": [1]}),
    "word": Case((job(wait="soon"), FINE), 3, "a field is not a number", "left out", {"job": [9]}),
    "part beside the whole": Case(
        (job(status=0, run=60), job(status=2, run=20), job(status=3, run=40)),
        4,
        "a partial execution of a job that has a line for the whole",
        "left out",
        {"job": [1], "run_s": [60]},
    ),
    "parts without the whole": Case(
        (job(status=2, run=20), job(status=3, run=40, submit=30)),
        3,
        "partial executions of a job that has no line for the whole",
        "joined",
        {"job": [1], "submit_s": [0], "run_s": [60]},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_lenient_reading_repairs_with_a_note(case: Case, tmp_path: Path) -> None:
    log = read(tmp_path, *case.lines, rules=case.rules)
    assert {name: log.jobs[name].to_list() for name in case.left} == case.left
    (note,) = log.notes
    assert case.wrong in note
    assert case.done in note
    assert f"line {case.line}" in note
    assert_sound(log)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_strict_reading_rejects_with_the_line_and_the_lenient_repair(case: Case, tmp_path: Path) -> None:
    strict = Rules(True, case.rules.overrun, case.rules.too_large)
    message = refusal(log_file(tmp_path, *case.lines), strict)
    assert f", line {case.line}: " in message
    assert case.wrong in message
    assert case.done in message


def test_partial_executions_without_run_times_are_left_out(tmp_path: Path) -> None:
    lines = [job(status=2, run=-1), job(status=3, run=-1), FINE]
    assert read(tmp_path, *lines).jobs["job"].to_list() == [9]


def test_a_negative_user_is_unknown(tmp_path: Path) -> None:
    assert read(tmp_path, job(user=-7)).jobs["user"].to_list() == [-1]


def test_a_note_counts_lines_and_names_the_first(tmp_path: Path) -> None:
    (note,) = read(tmp_path, FINE, *[job(job=n, submit=9 + n, run=-1) for n in (1, 2, 3)]).notes
    assert note == "3 lines, the first is line 4: the run time is unknown; left out"


def test_a_note_gives_the_value_of_the_first_line(tmp_path: Path) -> None:
    lines = FINE, job(job=1, submit=10, run="nan"), job(job=2, submit=1e16)
    (note,) = read(tmp_path, *lines).notes
    assert note == "2 lines, the first is line 4: a number out of range (field 4 is nan); left out"


def test_cut_jobs_are_identified_by_their_final_numbers(tmp_path: Path) -> None:
    lines = job(job=3, run=120), job(job=4, submit=1), job(job=4, submit=2, run=91)
    assert read(tmp_path, *lines, rules=Rules(overrun=Overrun.CUT)).cut == {3, 5}
    assert not read(tmp_path, *lines).cut


def test_conflicting_sizes_in_the_header_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_text(f"; MaxProcs: 8\n; MaxProcs: 16\n{GOOD}\n")
    log = read_swf(path)
    assert log.processors == 8
    assert log.notes == ("the header gives MaxProcs as '8' and as '16'; the first is used",)
    assert not read_swf(path, processors=8).notes


def test_a_strict_reading_names_the_first_line_that_needs_repair(tmp_path: Path) -> None:
    path = log_file(tmp_path, FINE, job(job=2, submit=10, requested=12), job(job=3, submit=11, run=-1))
    assert "line 4: more than the 8 processors" in refusal(path, STRICT)


def test_an_oversized_job_stops_the_reading_on_request(tmp_path: Path) -> None:
    message = refusal(log_file(tmp_path, FINE, job(requested=12)), Rules(too_large=TooLarge.STOP))
    assert "line 4: job 1 asks for 12 processors, and the machine has 8" in message
    assert 'too_large="skip"' in message


def test_a_log_without_usable_jobs_is_rejected_with_the_reasons(tmp_path: Path) -> None:
    message = refusal(log_file(tmp_path, job(run=-1), job(submit=-1)))
    assert "none of 2 jobs can be used" in message
    assert "line 3: the run time is unknown" in message
    assert "line 4: the submit time is unknown" in message


# Files that are no log, or damaged


@pytest.mark.parametrize("cut", [15, 2, 1], ids=["few fields", "17 fields", "a lone minus sign"])
def test_a_truncated_log_is_rejected_with_file_and_reason(cut: int, tmp_path: Path) -> None:
    path = log_file(tmp_path, FINE, job(submit=20))
    path.write_text(path.read_text()[: -1 - cut])
    assert "line 4: the last line is cut off" in refusal(path, STRICT)
    assert read_swf(path).notes == ("line 4: the last line is cut off; left out",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b" \n\n\t\n", "the file is empty"),
        (HEADER.encode(), "the file has a header, but no jobs"),
        (HEADER.encode().rstrip(), "the file has a header, but no jobs"),
        (bytes(range(256)) * 40, "line 1: found "),
        (b"\x00" * 5000, "line 1: found "),
        (b"JobID|User|State\n1|ann|COMPLETED\n", "line 1: found 'JobID|User|State'"),
        (b'{"jobs": []}\n', "no line of the file is a job of the Standard Workload Format"),
        (f"{HEADER}{GOOD}\n".encode("utf-16-le"), "the text is in the encoding UTF-16LE; convert it"),
    ],
    ids=["empty", "blank", "header", "header cut", "binary", "zeros", "sacct", "JSON", "UTF-16"],
)
def test_a_file_that_is_not_a_log_is_rejected(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(data)
    message = refusal(path)
    assert reason in message
    assert message.isprintable()


@pytest.mark.parametrize(
    "noise",
    [
        b"\n" * 100_000,
        b" " * 100_000,
        b";" * 100_000,
        b"; a: b" + b" " * 100_000 + b"b",
        b"; " + b"a" * 100_000,
    ],
    ids=["lines", "blanks", "semicolons", "spaces", "letters"],
)
def test_long_blank_or_comment_content_is_read_quickly(noise: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(f"{HEADER}{GOOD}\n".encode() + noise + f"\n{FINE}\n".encode())
    before_s = time.process_time()
    assert len(read_swf(path).jobs) == 2
    assert time.process_time() - before_s < 5.0


# The size of the machine


@pytest.mark.parametrize(
    ("header", "size"),
    [
        ("; MaxProcs: 64\n; MaxNodes: 8\n", 64),
        ("; MaxNodes: 8\n; MaxProcs: 64\n", 64),
        ("; MaxNodes: 8\n", 8),
        ("; MaxProcs: -1\n; MaxNodes: 8\n", 8),
        ("; MaxProcs: 0\n; MaxNodes: 8\n", 8),
        ("; MaxProcs: 64\n; MaxProcs: 4\n", 64),
        ("; MaxProcs: 64 (since May)\n", 64),
        ("; MaxProcs: 1,024\n", 1024),
        ("; MaxProcs: 100000000\n", 100_000_000),
    ],
)
def test_the_header_gives_the_machine_size(header: str, size: int, tmp_path: Path) -> None:
    assert read(tmp_path, job(), header=header).processors == size


def test_an_invalid_machine_size_in_the_header_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "eight.swf"
    path.write_text("; MaxProcs: eight\n1 0 0 5 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n")
    with pytest.raises(InvalidFile, match="how large the machine is \\(MaxProcs is 'eight'\\); give it with"):
        read_swf(path)


@pytest.mark.parametrize(
    "header", ["", "; Computer: X\n", "; MaxProcs: many\n", "; MaxProcs: 2e3\n", "; MaxNodes: 0\n"]
)
def test_a_machine_of_unknown_size_is_rejected_unless_a_size_is_given(header: str, tmp_path: Path) -> None:
    path = log_file(tmp_path, job(), header=header)
    assert "give it with processors=" in refusal(path)
    assert read_swf(path, processors=16).processors == 16


@pytest.mark.parametrize("size", ["100000001", "9" * 5000])
def test_a_machine_above_the_maximum_size_is_rejected(size: str, tmp_path: Path) -> None:
    path = log_file(tmp_path, job(), header=f"; MaxProcs: {size}\n")
    assert "at most 100,000,000 are possible" in refusal(path)
    assert read_swf(path, processors=16).processors == 16


@pytest.mark.parametrize("processors", [0, -4, 100_000_001])
def test_an_impossible_given_machine_size_is_rejected(processors: int, tmp_path: Path) -> None:
    message = refusal(log_file(tmp_path, job()), processors=processors)
    assert f"cannot have {processors:,} processors" in message


def test_a_given_machine_size_overrides_the_header(tmp_path: Path) -> None:
    log = read_swf(log_file(tmp_path, job(requested=8)), processors=5)
    assert (log.processors, log.jobs["processors"].to_list()) == (5, [5])


# What can be cut out of a log, or done to it


def test_a_slice_selects_jobs_by_position() -> None:
    log = log_of(0, 1, 2, 3, 4)
    assert log.slice(1, 3).jobs["job"].to_list() == [2, 3]
    assert log.slice(None, -1).jobs["job"].to_list() == [1, 2, 3, 4]
    assert log.slice(-2, None).jobs["job"].to_list() == [4, 5]


def test_a_slice_may_extend_far_beyond_the_log() -> None:
    assert len(log_of(0, 1).slice(-(10**30), 10**30).jobs) == 2
    with pytest.raises(InvalidFile, match="the log has 2 jobs"):
        log_of(0, 1).slice(10**30, None)


def test_an_empty_slice_is_rejected_with_the_request() -> None:
    with pytest.raises(InvalidFile, match="there are no jobs 7:9; the log has 2 jobs"):
        log_of(0, 1).slice(7, 9)
    with pytest.raises(InvalidFile, match="there are no jobs 1:0; the log has 2 jobs"):
        log_of(0, 1).slice(1, 0)


@pytest.mark.parametrize("start", ["1000000000", "1000000000.0", "1000000000 (Sun Sep  9 01:46:40 UTC 2001)"])
def test_dates_select_a_half_open_interval(start: str) -> None:
    log = log_of(0, 3600, 7200, 10800, unixstarttime=start)
    begin, end = datetime(2001, 9, 9, 2, 46, 40), datetime(2001, 9, 9, 4, 46, 40)
    assert log.between(begin, end).jobs["job"].to_list() == [2, 3]
    assert log.between(None, begin).jobs["job"].to_list() == [1]
    assert log.between(end, None).jobs["job"].to_list() == [4]


def test_dates_may_be_given_as_text() -> None:
    log = log_of(0, 3600, 7200, 10800, unixstarttime="1000000000")
    assert log.between("2001-09-09T02:46:40", "2001-09-09T04:46:40").jobs["job"].to_list() == [2, 3]
    assert len(log.between(begin="2001-09-09").jobs) == 4
    with pytest.raises(UserError, match="'2001-13-01' is no date; expected one like 2001-05-31"):
        log.between(end="2001-13-01")


def test_a_date_may_have_a_time_zone() -> None:
    log = log_of(0, 3600, 7200, unixstarttime="1000000000")
    begin = datetime(2001, 9, 9, 4, 46, 40, tzinfo=timezone(timedelta(hours=2)))
    assert log.between(begin, None).jobs["job"].to_list() == [2, 3]


def test_dates_outside_the_log_are_rejected() -> None:
    with pytest.raises(InvalidFile, match="there are no jobs between 1999-01-01"):
        log_of(0, unixstarttime="1000000000").between(None, None).between(
            datetime(1999, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC)
        )


@pytest.mark.parametrize(
    "header", [{}, {"unixstarttime": ""}, {"unixstarttime": "-1"}, {"unixstarttime": "9" * 500}]
)
def test_dates_require_a_log_with_a_start_time(header: dict[str, str]) -> None:
    with pytest.raises(InvalidFile, match="no header UnixStartTime"):
        log_of(0, **header).between(datetime(2001, 1, 1), None)


def test_doubling_the_load_halves_interarrival_times() -> None:
    log = log_of(100, 200, 301, 500)
    doubled = log.with_load(2.0)
    assert doubled.jobs["submit_s"].to_list() == [100, 150, 200, 300]
    assert log.load == pytest.approx(0.01)
    assert doubled.load == pytest.approx(0.02)


def test_the_summary_counts_in_fitting_units() -> None:
    assert log_of(100, 200, 301, 500).summary == "made: 4 jobs in 6.7 minutes on 10 processors, load 1.0 %"
    assert log_of(0).summary == "made: 1 job in 0 seconds on 10 processors"
    assert ", load 400.0 % while jobs arrive" in log_of(100, 200, 301, 500).with_load(400.0).summary


def test_scaled_arrivals_are_whole_seconds_even_if_the_log_starts_at_a_fraction() -> None:
    assert log_of(10.25, 20.25, 40.0).with_load(2.0).jobs["submit_s"].to_list() == [10, 15, 25]


def test_jobs_scaled_into_the_same_second_are_sorted_by_number() -> None:
    log = log_of(0, 1, 2, 3)
    swapped = JobLog("made", log.jobs.with_columns(job=pl.Series([4, 3, 2, 1])), 10)
    assert swapped.with_load(100.0).jobs["job"].to_list() == [1, 2, 3, 4]


@pytest.mark.parametrize("factor", [0.0, -1.0, float("inf"), float("nan"), 1e-300])
def test_an_invalid_load_factor_is_rejected(factor: float) -> None:
    with pytest.raises(InvalidFile, match="factor"):
        log_of(0, 100).with_load(factor)


def test_a_target_load_is_met() -> None:
    log = log_of(*range(0, 100_000, 100)).at_load(0.7)
    assert log.load == pytest.approx(0.7, rel=0.01)


def test_an_impossible_target_load_is_rejected() -> None:
    with pytest.raises(InvalidFile, match="2 jobs that arrive at whole seconds cannot make a load of 150"):
        log_of(0, 100).at_load(150.0)
    with pytest.raises(InvalidFile, match="all jobs arrive at once"):
        log_of(5, 5).at_load(0.7)
    with pytest.raises(InvalidFile, match="a load of -1 is impossible"):
        log_of(0, 100).at_load(-1.0)


# Writing

SECONDS = st.one_of(st.integers(0, 10**9), st.floats(0, LARGEST / 2)).map(float)


@st.composite
def logs(draw: st.DrawFn) -> JobLog:
    processors = draw(st.integers(1, 100_000))
    rows = [
        (number, submit_s, 1.0 + run_s, size, 1.0 + run_s + more_s, user)
        for number, submit_s, run_s, size, more_s, user in draw(
            st.lists(
                st.tuples(
                    st.integers(1, 10**9),
                    SECONDS,
                    st.floats(0, 1e9),
                    st.integers(1, processors),
                    SECONDS,
                    st.integers(-1, 10**6),
                ),
                min_size=1,
                max_size=8,
                unique_by=lambda row: row[0],
            )
        )
    ]
    jobs = pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("submit_s", "job")
    return JobLog("log.swf", jobs, processors, {"note": draw(st.sampled_from(["", "a: b", "ö"]))})


@given(log=logs(), name=st.sampled_from(["log.swf", "log.swf.gz"]))
def test_a_written_log_round_trips(log: JobLog, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / name
    write_swf(path, log)
    again = read_swf(path, STRICT)
    assert again.jobs.equals(log.jobs)
    assert again.processors == log.processors
    assert again.header["note"] == log.header["note"]


def test_the_header_of_a_slice_counts_its_own_jobs(tmp_path: Path) -> None:
    path = tmp_path / "part.swf"
    write_swf(path, read(tmp_path, job(), job(job=2, submit=1), header=f"{HEADER}; MaxJobs: 2\n").slice(0, 1))
    assert path.read_text().count("MaxJobs: ") == 1
    assert read_swf(path).header["maxjobs"] == "1"


def test_the_same_log_gives_the_same_file(tmp_path: Path) -> None:
    paths = [tmp_path / "a.swf.gz", tmp_path / "b.swf.gz"]
    for path in paths:
        write_swf(path, log_of(0, 1))
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_unwritable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="cannot be written: No such file or directory"):
        write_swf(tmp_path / "missing" / "log.swf", log_of(0))


def test_a_long_log_is_read_without_room_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room() -> None:
        raise FileNotFoundError("no usable temporary directory")

    monkeypatch.setattr(swf, "PART", 100)
    path = log_file(tmp_path, *[job(job=k) for k in range(1, 9)])
    in_parts = read_swf(path)
    monkeypatch.setattr(mapped_columns, "TemporaryFile", no_room)
    assert read_swf(path).jobs.equals(in_parts.jobs)


def test_a_log_that_cannot_be_read_twice_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swf, "PART", 100)
    path, pipe = log_file(tmp_path, *[job(job=k) for k in range(1, 9)]), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(path.read_bytes()))
    writer.start()
    assert read_swf(pipe).jobs.equals(read_swf(path).jobs)
    writer.join()


# On nodes with cores and memory

CLUSTER = SiteNodes({"n1": Node(8, 4096), "n2": Node(8, 4096)}, {}, {})


@pytest.mark.parametrize(
    ("memory", "requested", "mib"), [(2048, 1025, 2), (2048, -1, 2), (-1, -1, 0), (-1, 1024, 1)]
)
def test_a_processor_is_a_task_of_one_core_with_the_requested_memory_else_that_used(
    memory: int, requested: int, mib: int, tmp_path: Path
) -> None:
    path = log_file(tmp_path, job(memory=memory, requested_memory=requested))
    log = read_swf(path, cluster=CLUSTER)
    assert log.processors == 16
    (request,) = log.requests
    assert request == Request(4, 1, mib, most_on_node=None)


def test_jobs_with_the_same_request_share_it(tmp_path: Path) -> None:
    lines = [job(job=k, requested_memory=1024 * (k % 2)) for k in range(1, 5)]
    log = read_swf(log_file(tmp_path, *lines), cluster=CLUSTER)
    assert [log.requests[place].memory_mib for place in log.jobs["request"]] == [1, 0, 1, 0]
    assert len(log.requests) == 2
