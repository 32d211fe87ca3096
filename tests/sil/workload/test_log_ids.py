"""Jobs keep the ids of their log: in tables, in events files, and where people name them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import sil
from sil.settings.events_file import read_events
from sil.site.logs import read_log
from sil.trace.log_ids import LOG_ID, LogIds
from sil.trace.reading import read_facts
from sil.workload.settings import Rules
from tests.commands import sil as command
from tests.commands import the_sentence
from tests.sil.workload.swf_files import job, log_file

NODES = "NodeName=n[1-4] CPUs=16\nPartitionName=batch Nodes=ALL\n"
SACCT = (
    "JobID|User|State|Submit|Start|End|ReqTRES\n"
    "1001|ann|COMPLETED|2026-03-02T09:00:00|2026-03-02T09:00:00|2026-03-02T10:00:00|cpu=64,node=4\n"
    "100_1|bob|COMPLETED|2026-03-02T09:00:00|2026-03-02T10:00:00|2026-03-02T11:00:00|cpu=64,node=4\n"
)
EXPLAINED = (
    "job 100_1 waits: first of the queue: it requests 4 nodes with 16 CPUs each; 4 nodes up, of these 0 with "
    "16 free CPUs"
)


@pytest.fixture
def log(tmp_path: Path) -> sil.api.logs.JobLog:
    (tmp_path / "slurm.conf").write_text(NODES)
    (tmp_path / "sacct.txt").write_text(SACCT)
    return sil.read_log(tmp_path / "sacct.txt", nodes=tmp_path / "slurm.conf")


@pytest.mark.usefixtures("in_this_process", "without_reports")
@pytest.mark.parametrize("engine", ["harness", "compiled"])
def test_an_array_task_keeps_its_id_in_tables_and_traces(
    log: sil.api.logs.JobLog, engine: str, tmp_path: Path
) -> None:
    replays = sil.replay(log, "fcfs", engine=engine, progress=False)
    assert log.jobs[LOG_ID].to_list() == ["1001", "100_1"]
    jobs = replays.jobs("fcfs")
    assert jobs.select("job_id", LOG_ID, "starting_time").rows() == [(1001, "1001", 0), (1002, "100_1", 3600)]
    facts = replays.trace("fcfs")
    ids = facts.drop_nulls("job").select("job", LOG_ID).unique().sort("job").rows()
    assert ids == [(1001, "1001"), (1002, "100_1")]
    explained = str(replays.why("fcfs", "100_1"))
    assert "job 100_1 waits: first of the queue" in explained
    assert explained == str(replays.why("fcfs", 1002)) == str(replays.why("fcfs", "1002"))


@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_the_command_finds_jobs_by_their_ids_and_no_others(log: object, tmp_path: Path) -> None:
    nodes = ("--nodes", tmp_path / "slurm.conf")
    command(
        "replay", tmp_path / "sacct.txt", *nodes, "--scheduler", "fcfs", "--reasons", "--out", tmp_path / "o"
    )
    trace = tmp_path / "o" / "fcfs"
    assert "job 100_1 waits" in command("why", trace, "--job", "100_1").stdout
    for wrong, near in (("1_001", "1001"), (" 1001", "1001"), ("100_2", "100_1"), ("١٠٠١", None)):
        sentence = the_sentence(command("why", trace, "--job", wrong))
        assert f"there is no job '{wrong}' in" in sentence
        assert near is None or "did you mean" in sentence


def test_a_table_of_a_log_whose_ids_are_numbers_has_no_column_of_ids(tmp_path: Path) -> None:
    found = read_log(log_file(tmp_path, job(), job(job=2)), Rules(), None)
    assert LOG_ID not in found.jobs.columns
    replays = sil.replay(found, "fcfs", progress=False)
    assert LOG_ID not in replays.jobs("fcfs").columns
    assert LOG_ID not in read_facts(replays.folder / "fcfs" / "trace.parquet").columns


def test_jobs_of_batsim_have_any_texts_as_ids(tmp_path: Path) -> None:
    ids = ["0", "a b", "w0!7", "7", "007", 12]
    jobs = [{"id": id, "subtime": k, "res": 1, "profile": "p"} for k, id in enumerate(ids)]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"nb_res": 1, "jobs": jobs, "profiles": {"p": {"type": "delay", "delay": 9}}}))
    log = read_log(path, Rules(), None)
    assert log.jobs[LOG_ID].to_list() == ["0", "a b", "w0!7", "7", "007", "12"]
    numbers = dict(log.jobs.select(LOG_ID, "job").rows())
    assert [log.ids.number(text) for text in numbers] == list(numbers.values())
    assert log.ids.number(7) == 7 == numbers["w0!7"]  # a number, not an id


BIG = "12345678901234567"


def test_lines_with_impossible_numbers_are_numbered_anew_and_keep_them(tmp_path: Path) -> None:
    numbers = [BIG, "1e16", "3", "3", "-1", "2.5", "nan"]
    log = read_log(log_file(tmp_path, *(job(job=n, submit=k) for k, n in enumerate(numbers))), Rules(), None)
    assert log.jobs[LOG_ID].to_list() == numbers
    assert log.jobs["job"].to_list() == [4, 5, 3, 6, 7, 8, 9]
    assert (
        "6 lines, the first is line 3: an invalid or duplicate job number; a new number is given" in log.notes
    )
    assert (log.ids.number(BIG), log.ids.number("3")) == (4, 3)
    assert log.ids.namesakes(3) == ["1 other job of this id: 6."]


KNOWN = LogIds(pl.DataFrame({"job": [1, 2, 3], LOG_ID: ["9_[1]", "9_2", "9_2"]}), "a.txt")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("9_1", "there is no job '9_1' in a.txt; did you mean"),
        ("9_2", "2 jobs in a.txt have the id '9_2'; give the number of one, as in the column job_id"),
        (7, "there is no job 7 in a.txt"),
        (2.0, "2.0 is no job; expected its number, or its id in the log as a text"),
        (True, "True is no job"),
        ("1_0", "there is no job '1_0'"),
        ("9" * 5000, "there is no job '999"),
    ],
)
def test_jobs_that_are_not_there_are_refused_with_the_nearest_id(given: object, sentence: str) -> None:
    with pytest.raises(sil.UserError) as caught:
        KNOWN.number(given)
    assert str(caught.value).startswith(sentence)


def test_events_files_name_jobs_by_their_ids(log: sil.api.logs.JobLog, tmp_path: Path) -> None:
    path = tmp_path / "events.toml"
    path.write_text(
        '[[cancel]]\nat = 5\njobs = "100_1"\n[[hold]]\nat = 6\njobs = ["100_1", 1001]\n'
        "[[submission]]\njobs = '100_1'\ndependency = 'after:1001+5'\n"
    )
    events = read_events(path, log)
    assert [each.job for each in events.on_jobs] == [1002, 1002, 1001]
    assert events.options == {1002: {"dependency": "after:1001+5"}}
    path.write_text("[[submission]]\njobs = '1001'\ndependency = 'afterok:100_3'\n")
    with pytest.raises(
        sil.UserError, match=r"line 3: there is no job .100_3. in sacct\.txt; did you mean .100_1"
    ):
        read_events(path, log)


@pytest.mark.usefixtures("in_this_process", "without_reports")
def test_reasons_name_other_jobs_by_their_ids(tmp_path: Path) -> None:
    jobs = [
        {"id": id, "subtime": k, "res": 2 - k // 2, "profile": "p"} for k, id in enumerate(("a", "b", "c"))
    ]
    path = tmp_path / "log.json"
    path.write_text(json.dumps({"nb_res": 3, "jobs": jobs, "profiles": {"p": {"type": "delay", "delay": 9}}}))
    explained = str(sil.replay(sil.read_log(path), "fcfs", progress=False).why("fcfs", "c"))
    assert "job c waits: it requests 1 node, 1 free; but job b comes first" in explained
