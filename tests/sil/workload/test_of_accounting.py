"""Accounting without nodes: summaries, conversion, and advice that fits the caller."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import sil
from site_db.files.input_errors import given, of_command, remedy
from tests.commands import sil as command
from tests.commands import the_sentence
from tests.sil.workload.swf_files import job

SACCT = (
    "JobID|User|JobName|Account|QOS|Partition|State|Submit|Start|End|NCPUS|Timelimit|ReqTRES\n"
    "7|ann|a|phys|normal|batch|COMPLETED|1000|1000|4600|8|02:00:00|cpu=8,mem=16G,node=1,gres/gpu=2\n"
    "9_1|bob|b|phys|high|batch|CANCELLED by 3|1000|4600|4700|4|00:01:00|cpu=4,node=1\n"
    "9_2|bob|b||high|long|FAILED|1060|4600|4700|5||cpu=5,node=1\n"
)
COMMENTS = (
    "; UnixStartTime: 1000\n; TimeZoneString: UTC\n; Queue: 1 normal\n; Queue: 2 high\n"
    "; Partition: 1 batch\n; Partition: 2 long\n"
)
LINES = [
    "7 0 0 3600 8 -1 -1 8 7200 2097152 1 1 1 1 1 1 -1 -1",
    "8 0 3600 100 4 -1 -1 4 100 -1 5 2 1 2 2 1 -1 -1",
    "9 60 3540 100 5 -1 -1 5 100 -1 0 2 -1 2 2 2 -1 -1",
]


@pytest.fixture
def sacct(tmp_path: Path) -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    return path


def test_accounting_becomes_a_log_of_the_standard_workload_format(sacct: Path) -> None:
    target = sacct.with_name("log.swf")
    result = command("workload", "convert", sacct, target)
    text = target.read_text()
    assert COMMENTS in text
    assert "; MaxProcs: 9\n" in text  # the last two ran beside each other, after the first
    assert text.splitlines()[-3:] == LINES
    assert "the most processors in use at a time, 9, are taken" in result.stderr
    assert "place for it: ids that are not the numbers of their jobs (2), GPUs (1), names" in result.stderr
    again = sil.read_log(target)
    assert again.jobs["run_s"].to_list() == [3600, 100, 100]


def test_accounting_has_a_summary(sacct: Path) -> None:
    found = json.loads(command("workload", "show", sacct, "--processors", 16, "--json").stdout)
    assert (found["jobs"], found["users"], found["processors"]["maximum"]) == (3, 2, 8)


@pytest.mark.usefixtures("in_this_process")
def test_sweeps_replay_accounting_on_nodes(sacct: Path, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(
        "NodeName=n1 CPUs=16 Gres=gpu:2\nPartitionName=batch Nodes=ALL\nPartitionName=long Nodes=ALL\n"
    )
    schedulers = ("--scheduler", "fcfs", "--scheduler", "easy")
    command("sweep", sacct, "--nodes", conf, *schedulers, "--out", tmp_path / "sweep")
    assert (tmp_path / "sweep" / "sweep.csv").read_text().count("sacct.txt,") == 2


def test_advice_names_only_options_of_the_command(sacct: Path, tmp_path: Path) -> None:
    nodes = "name the nodes with --nodes slurm.conf or --site DATABASE#SITE"
    assert nodes in the_sentence(command("sweep", sacct))
    assert nodes in the_sentence(command("replay", sacct))
    log = tmp_path / "log.swf"
    log.write_text(f"; MaxProcs: 1\n{job(requested=9)}\n")
    stop = command("workload", "convert", log, tmp_path / "x.swf", "--too-large", "stop")
    assert "with --too-large clip or --too-large skip" in the_sentence(stop)
    strict = the_sentence(command("workload", "show", log, "--strict"))
    assert strict.endswith("(read it without --strict, and: clipped to 1)")


@pytest.mark.parametrize(
    ("read", "advice"),
    [
        (lambda path: sil.read_log(path), 'name the nodes with nodes="slurm.conf" or site="DATABASE#SITE"'),
        (lambda path: sil.read_log(path.with_name("no-size.swf")), "give it with processors="),
        (
            lambda path: sil.read_log(path.with_name("large.swf"), too_large="stop"),
            'with too_large="clip" or too_large="skip"',
        ),
        (
            lambda path: sil.read_log(path.with_name("large.swf"), strict=True),
            "read it without strict=True, and",
        ),
    ],
)
def test_advice_in_python_names_keyword_arguments(
    read: Callable[[Path], object], advice: str, sacct: Path
) -> None:
    sacct.with_name("no-size.swf").write_text(f"{job()}\n")
    sacct.with_name("large.swf").write_text(f"; MaxProcs: 1\n{job(requested=9)}\n")
    with pytest.raises(sil.UserError) as caught:
        read(sacct)
    assert advice in str(caught.value)
    assert "--" not in str(caught.value)


def test_a_command_without_an_option_gets_no_advice_to_use_it() -> None:
    with of_command({"--nodes"}):
        assert given("--site", "x") == ""
        assert remedy("; give {}", ("--site", "x"), ("--nodes", "y")) == "; give --nodes y"
    with of_command(set()):
        assert remedy("; give {}", ("--site", "x")) == ""
    assert given("--out") == "folder="
