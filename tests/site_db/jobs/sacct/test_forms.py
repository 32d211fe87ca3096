"""The forms in which accounting is printed or saved; all of them give the same jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import LoggedJob, Tally
from site_db.jobs.sacct.reader import is_sacct, read_file

_COLUMNS = "JobID User JobName State Submit Start End NCPUS NNodes Partition Timelimit NodeList"
COLUMNS = _COLUMNS.split()
AT = "2026-03-02T09:00:00", "2026-03-02T10:00:00", "2026-03-02T11:00:00"
ROWS = [
    ["1", "ann", "a", "COMPLETED", AT[0], AT[0], AT[1]],
    ["2_7", "bob", "b c", "CANCELLED by 12", AT[0], *AT[1:]],
]
ENDS = [["16", "1", "batch", "02:00:00", "n01"], ["64", "4", "batch,all", "1-00:00:00", "n[01,03-05]"]]
TABLE = [COLUMNS, *([*row, *end] for row, end in zip(ROWS, ENDS, strict=True))]


def written(separator: str, quote: str = "", end: str = "\n") -> str:
    quoted = ([f"{quote}{value}{quote}" for value in row] for row in TABLE)
    return "".join(separator.join(row) + end for row in quoted)


def aligned(*widths: int) -> str:
    """As `sacct` without -P: right-justified except the first column, and cut off with a +."""

    def cut(value: str, width: int) -> str:
        return value if len(value) <= width else f"{value[: width - 1]}+"

    rows = [[cut(v, w).rjust(w) for v, w in zip(row, widths, strict=True)] for row in TABLE]
    lines = [" ".join([row[0].strip().ljust(widths[0]), *row[1:]]) for row in rows]
    return "\n".join([lines[0], " ".join("-" * width for width in widths), *lines[1:], ""])


def jobs_of(path: Path, text: str) -> tuple[list[LoggedJob], Tally]:
    path.write_text(text, encoding="utf-8")
    tally = Tally()
    return list(read_file(path, tally)), tally


WIDTHS = (6, 4, 8, 16, 19, 19, 19, 5, 6, 10, 10, 12)
FORMS = {
    "sacct -P": written("|"),
    "sacct -p": written("|", end="|\n"),
    "sacct --delimiter=,": written(","),
    "sacct --delimiter=;": written(";"),
    "sacct --delimiter=^": written("^"),
    "sacct --delimiter=::": written("::"),
    "tabs": written("\t"),
    "a spreadsheet's CSV": written(",", '"', "\r\n"),
    "quotes and semicolons": written(";", '"'),
    "R's write.table": written("|", '"'),
    "sacct": aligned(*WIDTHS),
    "a table with an index": "".join(
        f"{k or ''},{line}" for k, line in enumerate(written(",", '"').splitlines(True))
    ),
    "a table with borders": "".join(f"| {line} |\n" for line in written(" | ").splitlines()),
    "two logs": written("|") + "JobIDRaw|State|Start|End\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_accounting_is_recognised_by_its_header_and_read_whatever_separates_it(
    name: str, tmp_path: Path
) -> None:
    expected, _ = jobs_of(tmp_path / "log", FORMS["sacct -P"])
    assert [job.nodes for job in expected] == [("n01",), ("n01", "n03", "n04", "n05")]
    found, tally = jobs_of(tmp_path / "log.swf", FORMS[name])
    assert is_sacct(tmp_path / "log.swf")
    assert found == expected
    assert not tally.refused


@pytest.mark.parametrize(
    "text", ["; a | b\n1 0 0 10 1\n", "name,cpu_milli,memory_mib\n", '{"jobs": [], "nb_res": 1}', ""]
)
def test_other_files_are_no_accounting(text: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    assert not is_sacct(tmp_path / "log")


def test_values_that_are_cut_off_are_reported_and_not_misread(tmp_path: Path) -> None:
    found, tally = jobs_of(tmp_path / "log", aligned(*WIDTHS[:-1], 8))
    assert [job.nodes for job in found] == [("n01",), ()]
    assert tally.repaired == {"NodeList is cut off (+); print whole values with sacct -P": 1}


NARROW = f"""JobID  Partit      State Start               End
------ ------ ---------- ------------------- -------------------
1         lab  COMPLETED {AT[0]} {AT[1]}
2         lab  COMPLETED {AT[0]} {AT[1]}
"""


def test_names_of_columns_that_are_cut_off_are_those_that_begin_so(tmp_path: Path) -> None:
    found, _ = jobs_of(tmp_path / "log", NARROW)
    assert [job.partition for job in found] == ["lab", "lab"]


def test_letters_of_several_bytes_move_what_follows_in_aligned_columns(tmp_path: Path) -> None:
    """Slurm counts bytes."""
    text = aligned(*WIDTHS)
    found, _ = jobs_of(tmp_path / "log", text.replace("  b c", " é c"))
    assert [(job.number, job.program) for job in found] == [("1", "a"), ("2_7", "é c")]


def test_a_further_header_names_the_columns_of_the_rows_below_it(tmp_path: Path) -> None:
    text = written("|") + "State|End|Start|JobID\nCOMPLETED|2026-03-03T10:00:00|2026-03-03T09:00:00|9\n"
    found, _ = jobs_of(tmp_path / "log", text)
    assert [job.number for job in found] == ["1", "2_7", "9"]


@pytest.mark.parametrize("quoted", [(";a;",), (";a;", ";b c;")], ids=["nothing", "another name"])
def test_quotes_that_no_text_before_the_next_row_closes_are_part_of_a_text(
    quoted: tuple[str, ...], tmp_path: Path
) -> None:
    """sacct does not quote: names that begin with a quote must not take the rows between them away."""
    text = written(";")
    for name in quoted:
        text = text.replace(name, f';"{name[1:]}')
    found, _ = jobs_of(tmp_path / "log", text)
    assert [job.number for job in found] == ["1", "2_7"]


SET = {"set": True, "infinite": False}
UNSET = {"set": False, "infinite": False, "number": 0}


def of_json(**changed: Any) -> dict[str, Any]:
    """A job as recent versions of `sacct --json` print it."""
    tres = [
        {"type": "cpu", "name": "", "id": 1, "count": 8},
        {"type": "mem", "name": "", "id": 2, "count": 500},
        {"type": "energy", "name": "", "id": 3, "count": -2},
        {"type": "gres", "name": "gpu:a100", "id": 1001, "count": 2},
    ]
    time = {
        "submission": 1_000_000,
        "eligible": 1_000_060,
        "start": 1_000_100,
        "end": 1_000_200,
        "elapsed": 100,
    }
    return {
        "account": "lab",
        "allocation_nodes": 2,
        "array": {"job_id": 0, "task_id": UNSET, "limits": {"max": {"running": {"tasks": 0}}}},
        "association": {"user": "ann"},
        "constraints": "ib",
        "het": {"job_id": 0, "job_offset": UNSET},
        "job_id": 7,
        "name": "a|b\nc",
        "nodes": "n[1-2]",
        "partition": "batch",
        "qos": "high",
        "state": {"current": ["COMPLETED"], "reason": "None"},
        "time": {**time, "elapsed": 100, "suspended": 0, "limit": {**SET, "number": 60}},
        "tres": {"requested": tres, "allocated": tres},
        "user": "ann",
        **changed,
    }


OLD = {
    "array": {"job_id": None, "task_id": None, "limits": {"max": {"running": {"tasks": None}}}},
    "het": {"job_id": None, "job_offset": None},
    "state": {"current": "COMPLETED", "reason": "None"},
}


def test_every_version_of_the_json_gives_the_job_of_the_table(tmp_path: Path) -> None:
    old = of_json(**OLD)
    old["time"]["limit"] = 60
    document = {"meta": {}, "jobs": [of_json(), old], "errors": []}
    text = f"{json.dumps(document, indent=1)}\n{json.dumps(document)}"
    (first, second, *of_the_next), tally = jobs_of(tmp_path / "sacct.json", text)
    assert is_sacct(tmp_path / "sacct.json")
    columns = "JobID|User|Account|QOS|JobName|Partition|Submit|Eligible|Start|End|State"
    row = "7|ann|lab|high|a|b c|batch|1000000|1000060|1000100|1000200|COMPLETED|60|"
    row = f"{row}cpu=8,mem=500M,gres/gpu:a100=2|ib"
    columns = f"{columns}|TimelimitRaw|ReqTRES|Constraints|NodeList|NCPUS"
    (expected,), _ = jobs_of(tmp_path / "sacct.txt", f"{columns}\n{row}|n[1-2]|8\n")
    assert [first, second, *of_the_next] == [expected] * 4
    assert first.line == 4
    assert tally.rows == 4


@pytest.mark.parametrize(
    ("changed", "number"),
    [
        ({"array": {"job_id": 5, "task_id": {**SET, "number": 0}}}, "5_0"),
        ({"array": {"job_id": 5, "task_id": 3}}, "5_3"),
        ({"het": {"job_id": 6, "job_offset": {**SET, "number": 1}}}, "6+1"),
        ({"het": {"job_id": 6, "job_offset": 0}}, "6+0"),
    ],
)
def test_tasks_and_components_in_json_have_the_numbers_of_sacct(
    changed: dict[str, Any], number: str, tmp_path: Path
) -> None:
    (job,), _ = jobs_of(tmp_path / "log", json.dumps({"jobs": [of_json(**changed)]}))
    assert job.number == number


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (json.dumps({"jobs": [of_json()]})[:-9], "line 1: this JSON cannot be read: Expecting"),
        ('{"meta": {"plugin": {"data_parser": 1}}}', "the file has no list of jobs"),
        ('{"jobs": [3], "data_parser": 1}', "line 1: 'jobs' is not a list of objects"),
        (
            '{"jobs": [{"association": ' + "9" * 5000,
            "line 1: this JSON cannot be read: it is nested too deeply, or",
        ),
        (json.dumps({"jobs": [of_json()]}) + "\n3", "line 2: this JSON cannot be read: Expecting '{'"),
    ],
)
def test_damaged_json_is_refused_in_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=sentence):
        jobs_of(tmp_path / "log", text)
