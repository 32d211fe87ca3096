"""Events files: what is read from them, and the refusal of invalid ones with file and line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from scheduler.managers.eligibility import JobArray
from sil.settings.events_file import read_events
from sil.settings.log_events import AtSecond, Command, OfJob, with_names
from sil.slurm.submissions import commands_of
from sil.workload.job_log import JobLog
from site_db.files.input_errors import InvalidFile

JOBS = [
    (1, 0.0, 9.0, 2, 60.0, 1),
    (2, 10.0, 9.0, 1, 60.0, 1),
    (3, 10.0, 9.0, 1, 90.0, 1),
    (4, 20.0, 9.0, 1, 60.0, 2),
]
COLUMNS = ["job", "submit_s", "run_s", "processors", "estimate_s", "user"]
DATED = {"unixstarttime": "1700000000"}


def log_of(header: dict[str, str] | None = None) -> JobLog:
    return JobLog("a.swf", pl.DataFrame(JOBS, COLUMNS, orient="row"), 4, header or {})


def test_events_become_commands_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "events.toml"
    path.write_text(
        """
        cancel = [{ at = 30, jobs = "3-4" }]
        drain = [{ at = 2023-11-14T22:13:30, until = 2023-11-14T23:13:50+01:00, nodes = "n[1-2]" }]
        hold = [{ at = 10.5, jobs = 2 }]
        """
    )
    assert commands_of(read_events(path, log_of(DATED))) == [
        Command(10.0, ("scontrol", "update", "NodeName=n[1-2]", "State=DRAIN", "Reason=maintenance")),
        Command(10.5, ("scontrol", "hold", OfJob(2))),
        Command(30.0, ("scontrol", "update", "NodeName=n[1-2]", "State=RESUME")),
        Command(30.0, ("scancel", OfJob(3))),
        Command(30.0, ("scancel", OfJob(4))),
    ]


def test_a_reservation_is_made_for_somebody(tmp_path: Path) -> None:
    path = tmp_path / "events.toml"
    path.write_text("reservation = [{ start = 100, end = 200, n_nodes = 2, flags = ['MAINT'] }]")
    (command,) = commands_of(read_events(path, log_of()))
    assert command.words[3:] == (
        "ReservationName=reservation1",
        *(AtSecond("StartTime", 100.0), AtSecond("EndTime", 200.0)),
        *("NodeCnt=2", "Users=root", "Flags=MAINT"),
    )


def test_an_outage_puts_nodes_down_and_brings_them_back(tmp_path: Path) -> None:
    path = tmp_path / "events.toml"
    path.write_text("outage = [{ at = 10, until = 20, nodes = 'n1' }]")
    down, back = commands_of(read_events(path, log_of()))
    assert down == Command(10.0, ("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=outage"))
    assert back == Command(20.0, ("scontrol", "update", "NodeName=n1", "State=RESUME"))


def test_arrays_and_options_are_those_of_submissions(tmp_path: Path) -> None:
    path = tmp_path / "events.toml"
    path.write_text(
        """
        array = [{ jobs = [2, 3], at_once = 1 }]
        submission = [{ jobs = 4, dependency = "afterok:1:2,afterany:3", held = true, qos = "long" }]
        """
    )
    found = read_events(path, log_of())
    assert found.arrays == (JobArray((2, 3), 1),)
    assert found.options == {4: {"dependency": "afterok:1:2,afterany:3", "hold": True, "qos": "long"}}


def test_jobs_have_slurms_names_in_a_dependency() -> None:
    names = {1: "17", 2: "18_3"}
    assert with_names("after:1+5,afterok:2?singleton", names) == "after:17+5,afterok:18_3?singleton"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[cancel]]\nat = 0\njobs = 2", "line 2: job 2 is submitted later, at 10 s"),
        ("[[cancel]]\nat = 20\njobs = '2,9'", "line 3: there is no job 9 in a.swf"),
        ("[[cancel]]\nat = 20\njobs = 'all'", "line 3: there is no job 'all' in a.swf"),
        ("[[hold]]\njobs = 2", "the key 'hold[0].at' is missing"),
        ("[[drain]]\nat = 9\nuntil = 3\nnodes = 'n1'", "line 3: until is not after at"),
        ("[[drain]]\nat = 2024-01-01\nnodes = 'n1'", "drain[0].at"),
        ("[[drain]]\nat = 2024-01-01T00:00:00\nnodes = 'n1'", "a.swf has no header UnixStartTime"),
        ("[[drain]]\nat = 1\nnode = 'n1'", "unknown key 'node'; did you mean 'nodes'?"),
        ("[[reservation]]\nstart = 1\nend = 2", "give either nodes, like 'n[1-4]', or n_nodes"),
        ("[[reservation]]\nstart = 2\nend = 1\nnodes = 'n1'", "line 3: end is not after start"),
        ("[[reservation]]\nat = 3\nstart = 2\nend = 9\nnodes = 'n1'", "line 2: at is after start"),
        ("[[array]]\njobs = '2,4'", "line 2: its jobs are not submitted at one time"),
        ("[[array]]\njobs = '1,2'", "are not submitted at one time"),
        ("[[submission]]\njobs = 2\ndependency = 'afterok:4'", "line 3: job 4 is submitted after job 2"),
        ("[[submission]]\njobs = 2\ndependency = 'afterok:7'", "line 3: there is no job 7 in a.swf"),
        ('[[drain]]\nat = 1\nnodes = "n1\\nn2"', "drain[0].nodes"),
    ],
)  # fmt: skip
def test_mistakes_are_told_with_their_lines(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "events.toml"
    path.write_text(text)
    with pytest.raises(InvalidFile) as caught:
        read_events(path, log_of())
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
