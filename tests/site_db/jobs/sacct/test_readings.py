"""Rows of accounting in which texts of users contain the separator and ends of lines."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from site_db.jobs.logged import LoggedJob, Tally
from site_db.jobs.sacct.columns import RAN
from site_db.jobs.sacct.reader import read_sacct
from site_db.jobs.sacct.rows import TOO_FEW, TOO_MANY
from tests.examples import up_to

TIMES = st.integers(1_700_000_000, 1_700_000_900)
WORDS = st.text("abcxyz019_-", min_size=1, max_size=6)
ORDINARY = {
    "User": WORDS,
    "Account": WORDS,
    "Partition": WORDS,
    "QOS": WORDS,
    "State": st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 17"]),
    "Submit": TIMES.map(str),
    "Start": TIMES.map(lambda time: str(time + 1_000)),
    "End": TIMES.map(lambda time: str(time + 3_000)),
    "ExitCode": st.sampled_from(["0:0", "1:0", ""]),
    "NNodes": st.integers(1, 9).map(str),
    "AllocCPUS": st.integers(1, 99).map(str),
    "TimelimitRaw": st.one_of(st.integers(1, 999).map(str), st.just("UNLIMITED")),
    "ReqTRES": st.sampled_from(["", "cpu=4", "billing=4,cpu=4,mem=500M,node=1"]),
    "NodeList": st.sampled_from(["n1", "n[1-3]", "None assigned"]),
}
PIECES = ("|", "\n", " ", "a", "b.sh", "1", "/home/u", "n1", "COMPLETED", "1700000000", "0:0", "sbatch x")
FREE = ("JobName", "Comment", "Constraints", "SubmitLine", "WorkDir", "AdminComment", "Extra")
SEPARATORS = ("|", "|", ",")


@st.composite
def logs(draw: st.DrawFn) -> tuple[str, list[list[str]]]:
    """A separator, and columns in any order above rows with the numbers 10, 20 and so on."""
    separator = draw(st.sampled_from(SEPARATORS))
    pieces = st.sampled_from([piece.replace("|", separator) for piece in PIECES])
    text = st.lists(pieces, max_size=6).map("".join)
    free = draw(st.lists(st.sampled_from(FREE), unique=True, max_size=3))
    some = draw(st.lists(st.sampled_from(sorted(ORDINARY)), unique=True, max_size=9))
    columns = draw(st.permutations(sorted({"JobID", "State", "Start", "End", *some, *free})))
    rows = [list(columns)]
    for k in range(draw(st.integers(1, 4))):
        of_users = draw(st.sampled_from([text, WORDS]))
        values = ORDINARY | {"JobID": st.just(str(10 * (k + 1)))}
        rows.append([draw(values.get(name, of_users)).strip() for name in columns])
    return separator, rows


def jobs_of(text: str) -> tuple[dict[str, LoggedJob], Tally]:
    tally = Tally()
    found = list(read_sacct(text.splitlines(keepends=True), Path("log"), tally, RAN))
    return {job.number: job for job in found}, tally


TIMED = "2026-03-02T09:00:00|2026-03-02T10:00:00"
HEADER = "JobID|User|JobName|State|Start|End|NCPUS|Partition"


def row(number: int, name: str = "x", after: str = "") -> str:
    return f"{number}|ann|{name}|COMPLETED|{TIMED}|16|batch{after}"


NEVER_GUESSED = "more fields than the header, which may be texts of {}; not guessed"
CASES = {
    "a name with a separator": (HEADER, [row(1, "a|b")], {"1": "a|b"}, ["a | inside JobName"], []),
    "several in a name": (HEADER, [row(1, "|a||b|")], {"1": "|a||b|"}, ["a | inside JobName"], []),
    "an end of a line": (HEADER, [row(1, "a\nb")], {"1": "a b"}, ["an end of a line inside JobName"], []),
    "both": (
        HEADER,
        [row(1, "a|\n\nb|c")],
        {"1": "a| b|c"},
        ["a | inside JobName", "an end of a line inside JobName"],
        [],
    ),
    "a command at the end, with a loop": (
        f"{HEADER}|WorkDir|SubmitLine",
        [
            row(1, after="|/home/ann|sbatch --wrap=for i in 1 2\ndo date | sort\n\ndone"),
            row(2, after="|/|sbatch y"),
        ],
        {"1": "x", "2": "x"},
        ["a | inside SubmitLine", "an end of a line inside SubmitLine"],
        [],
    ),
    "two texts side by side that are not used": (
        f"{HEADER}|Comment|Extra",
        [row(1, after="|a|b|c")],
        {"1": "x"},
        ["a | inside Comment or Extra"],
        [],
    ),
    "two texts side by side, of which one is used": (
        "JobID|User|Comment|JobName|State|Start|End|NCPUS|Partition",
        [row(1, "a|b|c"), row(2, "a|b")],
        {"2": "b"},
        [],
        [NEVER_GUESSED.format("Comment or JobName")],
    ),
    "a constraint beside a number": (
        "JobID|Constraints|NCPUS|JobName|State|Start|End",
        [f"1|ib|eth|16|a|COMPLETED|{TIMED}", f"2|ib|16|a|b|COMPLETED|{TIMED}"],
        {"1": "a", "2": "a|b"},
        ["a | inside Constraints", "a | inside JobName"],
        [],
    ),
    "a row that ends too early": (HEADER, [row(1)[:20], row(2)], {"2": "x"}, [], [TOO_FEW]),
    "a file that ends too early": (HEADER, [row(1), row(2)[:50]], {"1": "x"}, [], [TOO_FEW]),
    "a name as first column": (
        "JobName|JobID|State|Start|End|NCPUS",
        [f"a\nb|1|COMPLETED|{TIMED}|1", f"c|2|COMPLETED|{TIMED}|1"],
        {"2": "c"},
        [],
        ["the line before it may belong to it", TOO_FEW],
    ),
    "no text that could have it": (
        "JobID|User|State|Start|End|NCPUS|Partition",
        [f"1|ann|bob|COMPLETED|{TIMED}|1|batch"],
        {},
        [],
        [TOO_MANY],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_repaired_if_there_is_one_reading_and_the_note_names_it(case: str) -> None:
    header, rows, programs, repaired, refused = CASES[case]
    found, tally = jobs_of("\n".join([header, *rows, ""]))
    assert {number: job.program for number, job in found.items()} == programs
    assert sorted(tally.repaired) == sorted(repaired)
    assert sorted(tally.refused) == sorted(refused)


def test_long_texts_take_time_in_proportion_to_their_length() -> None:
    """With all ways to distribute 30,000 separators, or lines, this would not end."""
    found, _ = jobs_of("\n".join([HEADER, row(1, "a|" * 30_000), row(2, "b\n" * 30_000), ""]))
    assert [len(job.program) for job in found.values()] == [60_000, 59_999]


@pytest.mark.parametrize(
    ("header", "rows", "expected"),
    [
        ("SubmitLine|JobID|State|Start|End", ["sbatch|", f"a|1|COMPLETED|{TIMED}"], {"1": ""}),
        (
            "JobID|State|Start|End|SubmitLine",
            [f"1|COMPLETED|{TIMED}|sbatch a", "2|COMPLETED", f"3|COMPLETED|{TIMED}|sbatch c"],
            {"1": "", "3": "sbatch c"},
        ),
    ],
    ids=["the line before it may belong to it", "the line after it may belong to it"],
)
def test_a_submit_line_that_may_be_a_part_of_one_is_not_read(
    header: str, rows: list[str], expected: dict[str, str]
) -> None:
    found, tally = jobs_of("\n".join([header, *rows, ""]))
    assert {number: job.submit_line for number, job in found.items()} == expected
    assert tally.refused == {TOO_FEW: 1}


@settings(max_examples=up_to(1000), deadline=None)
@given(logs())
@example(
    ("|", [["SubmitLine", "End", "JobID", "Start", "State"], ["|\na", "1700003000", "10", "1700001000", ""]])
)
@example(
    (
        "|",
        [
            ["JobID", "Constraints", "End", "Start", "State"],
            ["10", "|\n1|", "1700003000", "1700001000", "COMPLETED"],
        ],
    )
)
def test_a_spoiled_row_is_read_as_it_was_or_refused(log: tuple[str, list[list[str]]]) -> None:
    separator, rows = log
    true = io.StringIO()
    csv.writer(true, delimiter=";", lineterminator="\n").writerows(rows)
    expected, _ = jobs_of(true.getvalue())
    found, tally = jobs_of("".join(separator.join(row) + "\n" for row in rows))
    lines = [line.split(separator) for row in rows for line in separator.join(row).split("\n")]
    whole = {line[rows[0].index("JobID")] for line in lines if len(line) == len(rows[0])}
    for number, job in found.items():
        if number in whole - expected.keys():
            assert tally.refused, (
                "a line within a text is a row, as far as any reader can tell; the rest is none"
            )
            continue
        true = expected[number]
        assert {job.submit_line, job.reservation} <= {true.submit_line, true.reservation, ""}, "if uncertain"
        assert replace(job, submit_line=true.submit_line, reservation=true.reservation) == true
    assert found.keys() == expected.keys() or tally.refused
