"""Converted logs keep what their format holds, and notes count what they lose."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sil.site.logs import read_log, write_log
from sil.workload import swf
from sil.workload.settings import Rules
from tests.commands import sil, succeeded
from tests.sil.workload.swf_files import job, log_file

HEADER = "; Computer: X\n; Queue: 1 batch\n; Queue: 2 long\n; a remark\n; MaxProcs: 8\n; UnixStartTime: 9\n"
LINES = [
    "1 0 3 100 1 90 2000000 1 100 3000000 0 7 2 3 1 2 -1 -1",
    "2 5 0 100.5 2 90 2000000 1 200 3000000 1 7 2 3 2 2 1 60",
    "3 9 7 100 1 -1 -1 1 100 -1 1 -1 -1 -1 -1 -1 -1 -1",
]


@pytest.mark.parametrize("n", [0, 5000], ids=["short", "long"])
def test_a_cut_log_keeps_all_fields_and_the_header(n: int, tmp_path: Path) -> None:
    more = [job(job=k + 4, submit=k + 9) for k in range(n)]  # a long log has another reader
    log_file(tmp_path, *LINES, *more, header=HEADER)
    succeeded("workload", "convert", tmp_path / "log.swf", tmp_path / "part.swf", "--jobs", "0:2")
    found = (tmp_path / "part.swf").read_text().splitlines()
    kept = [line for line in HEADER.splitlines() if "MaxProcs" not in line]
    counts = ["; MaxJobs: 2", "; MaxRecords: 2", "; MaxProcs: 8"]
    assert found == ["; Version: 2.2", *kept, *counts, *LINES[:2]]


def test_a_repair_changes_only_the_fields_that_it_concerns(tmp_path: Path) -> None:
    broken = "1 0 3 100 9 90 2000 9 50 3000 0 7 2 3 1 2 -1 -1"  # too large, and longer than requested
    path = log_file(tmp_path, broken, header=HEADER)
    write_log(tmp_path / "b.swf", read_log(path, Rules(), None, keep=True))
    assert (tmp_path / "b.swf").read_text().splitlines()[-1] == (
        "1 0 3 100 8 90 2000 8 100 3000 0 7 2 3 1 2 -1 -1"
    )


def test_what_another_format_cannot_hold_is_counted(tmp_path: Path) -> None:
    log_file(tmp_path, *LINES, header=HEADER)
    result = sil("workload", "convert", tmp_path / "log.swf", tmp_path / "log.json")
    note = (
        "Note: not in the file, since Batsim's JSON has no place for it: wait (3), cpu time (2), memory (2), "
    )
    assert note in result.stderr
    assert "status (3)" in result.stderr
    assert "preceding (1), think time (1), comments of the header (6)" in result.stderr


def test_a_workload_of_batsim_keeps_what_batsim_ignores(tmp_path: Path) -> None:
    profiles = {"p": {"type": "delay", "delay": 9, "c": 1}, "unused": {"type": "parallel_homogeneous"}}
    jobs = [{"id": id, "subtime": 0, "res": 1, "profile": "p", "metadata": "m"} for id in ("a", "b")]
    document = {"nb_res": 2, "command": "x", "jobs": jobs, "profiles": profiles}
    (tmp_path / "a.json").write_text(json.dumps(document))
    sil("workload", "convert", tmp_path / "a.json", tmp_path / "b.json", "--jobs", "1:2")
    assert json.loads((tmp_path / "b.json").read_text()) == {**document, "jobs": jobs[1:]}
    result = sil("workload", "convert", tmp_path / "a.json", tmp_path / "b.swf")
    assert "ids that are not the numbers of their jobs (2), 'metadata' of jobs (2), 'c' of profiles (1)" in (
        result.stderr
    )


PRECEDING = [
    job(job=1, preceding=3),
    job(job=2, submit=1, preceding=2),
    job(job=3, submit=2, preceding=99),
    job(job=4, submit=3, run=0, status=5),
    job(job=5, submit=4, preceding=4),
]
COUNTED = (
    "4 lines, the first is line 3, name a preceding job in field 17, after whose end the job may start (of "
    "these, 1 names itself, 1 names a job that is not in the log, 1 names a job on a later line, 1 names a "
    "job that is left out); not modelled: jobs do not wait for preceding jobs and think times (field 18)"
)


def test_preceding_jobs_are_counted_since_no_job_waits_for_them(tmp_path: Path) -> None:
    assert COUNTED in read_log(log_file(tmp_path, *PRECEDING), Rules(), None).notes


def test_a_log_that_names_one_preceding_job_everywhere_names_no_dependency(tmp_path: Path) -> None:
    log = read_log(log_file(tmp_path, *(job(job=k, submit=k, preceding=7) for k in (1, 2, 3))), Rules(), None)
    assert "all name job 7, which is probably no dependency" in log.notes[-1]
    assert not read_log(log_file(tmp_path, job(), job(job=2)), Rules(strict=True), None).notes


def test_preceding_jobs_of_a_long_log_are_counted_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [job(job=k, submit=k, preceding=k + 1 if k % 3 else k - 2) for k in range(1, 400)]
    path = log_file(tmp_path, *lines)
    whole = read_log(path, Rules(), None)
    monkeypatch.setattr(swf, "PART", 1000)
    in_parts = read_log(path, Rules(), None)
    assert in_parts.notes == whole.notes
    assert "399 lines, the first is line 3, name a preceding job" in whole.notes[0]


@pytest.mark.parametrize("name", ["log.swf", "log.json", "log.csv", "log"])
@pytest.mark.parametrize("kind", ["swf", "json"])
def test_the_content_says_how_a_log_is_read_and_not_its_name(kind: str, name: str, tmp_path: Path) -> None:
    log_file(tmp_path, *LINES, header=HEADER)
    sil("workload", "convert", tmp_path / "log.swf", tmp_path / "other.json")
    source = tmp_path / {"swf": "log.swf", "json": "other.json"}[kind]
    path = tmp_path / "renamed" / name
    path.parent.mkdir()
    path.write_bytes(source.read_bytes())
    assert read_log(path, Rules(), None).jobs.equals(read_log(source, Rules(), None).jobs)
