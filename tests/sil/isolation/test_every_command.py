"""Every kind of misbehaviour through every command that takes a scheduler. Long tests."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from sil.experiment.checking import check
from sil.trace.facts import TRACE
from sil.workload.swf_writing import write_swf
from sil.world.guard.faults import Died
from tests import commands, hostile
from tests.builders import tiny_experiment
from tests.commands import in_a_process
from tests.sil.cli.test_predict import QUEUE
from tests.sil.experiment.test_experiment import ROOT
from tests.sil.experiment.test_replay import FIVE, log_of
from tests.sil.live.test_live import QUICK_SITE, two_cores
from tests.sil.planning.test_plan import FEW, plan_file

pytestmark = pytest.mark.long

LIMIT_S = 0.5
ONLY_IN_RUNS = {
    "asks_again_each_millisecond",
    "decides_by_chance",
    "has_reasons_that_raise",
    "replaces_the_clock",
}
"""Seen only where there are a second instance, or a second decision."""
NOT_ALWAYS = {"decides_by_chance", "is_killed_elsewhere_each_time"}
"""Seen only if chance will have it, or in the third decision."""
ONE_BY_ONE = [*hostile.FAULTS, *hostile.HARMLESS, *hostile.KILLED]
GUARD = f"\n[guard]\ndecision_limit_s = {LIMIT_S}\n"
LIMIT = ("--decision-limit", str(LIMIT_S))
BEGIN = re.compile(r'Traceback \(most recent call last\):\s+File "([^"]*)"')
"""The file where a traceback begins."""

COMMANDS = {
    "replay": ["replay", "log.swf", "--no-report", *LIMIT],
    "run": ["run", "experiment.toml"],
    "sweep": ["sweep", "log.swf", "--slices", "1", *LIMIT],
    "schedule": ["schedule", "matrix.csv", *LIMIT],
    "overhead": ["overhead", "--jobs", "8", "--machines", "4", "--tables", "1", "--repetitions", "1", *LIMIT],
}
"""Those that take several schedulers, and go on when one of them is at fault."""


def named(kinds: dict[str, Any]) -> list[str]:
    return [of_plug_in(kind) for kind in kinds]


def of_plug_in(kind: str) -> str:
    return f"{hostile.__name__}:{kind}"


def sil(folder: Path, *arguments: str, most_s: float = 500) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-m", "sil", *arguments)
    done = in_a_process(*command, cwd=folder, timeout=most_s, PYTHONPATH=str(ROOT))
    assert_no_traceback(done.stderr)
    return done


def assert_no_traceback(printed: str) -> None:
    """A scheduler may print tracebacks of its own, which begin in its file."""
    assert {*BEGIN.findall(printed)} <= {hostile.__file__}


def in_this_process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The same, by a command that needs no process of its own: the scheduler has one."""
    with chdir(folder):
        done = commands.sil(*arguments)
    assert_no_traceback(done.stderr)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


OFFER = '\n[[offers]]\nname = "two fast"\nchanges = ["2 x fast"]\nprice = 100\n'


def each(option: str, names: list[str]) -> list[str]:
    return [word for name in names for word in (option, name)]


@pytest.mark.parametrize("group", ["FAULTS", "HARMLESS", "KILLED"])
@pytest.mark.parametrize("command", COMMANDS)
def test_no_kind_of_misbehaviour_affects_others(command: str, group: str, tmp_path: Path) -> None:
    names = named(getattr(hostile, group))
    write_swf(tmp_path / "log.swf", log_of(FIVE, 3))
    tiny_experiment(tmp_path, GUARD)
    (tmp_path / "matrix.csv").write_text("10,20\n30,5\n")
    good = "fcfs" if command in ("replay", "sweep") else "mct"
    found = {}
    for out, others in (("alone", []), ("among", names)):
        option = "--vs" if command == "overhead" else "--scheduler"
        first = [good] if command == "overhead" else ["--scheduler", good]
        to = ["--out", f"{out}.csv" if command == "schedule" else out]
        found[out] = sil(tmp_path, *COMMANDS[command], "--json", *to, *first, *each(option, others))
    assert found["alone"].returncode == 0, found["alone"].stderr
    among = found["among"]
    assert results_of(good, command, tmp_path / "among") == results_of(good, command, tmp_path / "alone")
    faults = {name for name in names if f"Fault: {name} " in among.stderr}
    expected = set() if group == "HARMLESS" else set(names)
    if command in ("schedule", "overhead"):
        expected -= {of_plug_in(kind) for kind in ONLY_IN_RUNS}
    assert faults >= expected - {of_plug_in(kind) for kind in NOT_ALWAYS}
    assert among.returncode == (1 if faults else 0)


def results_of(scheduler: str, command: str, out: Path) -> object:
    """What a command has written about a scheduler, without measured times."""
    match command:
        case "replay":
            return (out / scheduler / "jobs.csv").read_bytes()
        case "run":
            return pl.read_parquet(out / TRACE).filter(pl.col("scheduler") == scheduler).rows()
        case "schedule":
            rows = csv.DictReader(out.with_suffix(".csv").open())
            return [row["completion"] for row in rows if row.get("scheduler", scheduler) == scheduler]
        case "sweep":
            rows = csv.DictReader((out / "sweep.csv").open())
            return [
                {key: value for key, value in row.items() if not key.startswith("decision")}
                for row in rows
                if row["scheduler"] == scheduler
            ]
    return [
        row["decisions"]
        for row in csv.DictReader((out / "overhead.csv").open())
        if row["scheduler"] == scheduler
    ]


def assert_told(done: subprocess.CompletedProcess[str], kind: str, *, exit_code_if_killed: int = 1) -> None:
    """A command that ends with its only scheduler says what this did."""
    if kind in NOT_ALWAYS:
        assert done.returncode in (0, 1), (done.stdout, done.stderr)
    elif kind in hostile.FAULTS:
        assert done.returncode == 1, (done.stdout, done.stderr)
        assert "broke the rule" in done.stderr
    elif kind in hostile.KILLED:
        assert done.returncode == exit_code_if_killed, (done.stdout, done.stderr)
        assert "killed from outside" in done.stderr
        assert "broke the rule" not in done.stderr
    else:
        assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("in_this_process", "without_figures")
@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_every_kind_is_told_in_a_plan(kind: str, tmp_path: Path) -> None:
    plan = plan_file(tmp_path, OFFER + GUARD, FEW.replace("jobs = 40", "jobs = 10"))
    done = in_this_process(tmp_path, "plan", plan.name, "--scheduler", of_plug_in(kind), "--out", "out")
    assert_told(done, kind)


@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_every_kind_is_told_in_a_prediction(kind: str, tmp_path: Path) -> None:
    (tmp_path / "queue.toml").write_text(QUEUE)
    command = ("predict", "queue.toml", "--site", "cisne-2006", "--scheduler", of_plug_in(kind))
    done = in_this_process(tmp_path, *command)
    if kind in ONLY_IN_RUNS | NOT_ALWAYS:
        assert done.returncode in (0, 1), done.stderr
    else:
        assert_told(done, kind)


@two_cores
@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_every_kind_is_told_in_a_live_run(kind: str, tmp_path: Path) -> None:
    tiny_experiment(tmp_path, GUARD, QUICK_SITE.replace("any = 0.3", "any = 0.01"), jobs="3")
    named = of_plug_in(kind)
    done = sil(tmp_path, "live", "experiment.toml", "--scheduler", named, "--out", "out", most_s=150)
    assert_told(done, kind, exit_code_if_killed=2)


@pytest.mark.parametrize("group", ["FAULTS", "HARMLESS", "KILLED"])
def test_every_kind_that_is_served_to_a_simulator_affects_no_others(group: str, tmp_path: Path) -> None:
    write_swf(tmp_path / "log.swf", log_of(FIVE, 3))
    serve = f"batsim: {sys.executable} -m sil serve-scheduler {{}} --bind tcp://127.0.0.1:{{{{port}}}}"
    served = [serve.format(" ".join((name, *LIMIT))) for name in named(getattr(hostile, group))]
    done = sil(
        tmp_path, "replay", "log.swf", "--no-report", "--scheduler", "fcfs", *each("--scheduler", served)
    )
    assert done.returncode == (0 if group == "HARMLESS" else 1)
    print(done.stderr)


@pytest.mark.parametrize("kind", ["mapping", "free-nodes"])
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_no_kind_of_misbehaviour_ends_a_check(name: str, kind: str) -> None:
    try:
        checked = check(of_plug_in(name), kind, 5, LIMIT_S)
    except Died as died:
        if died.from_outside and name in hostile.KILLED:
            return
        raise
    broken = [finding.rule for finding in checked.findings]
    if name in hostile.HARMLESS:
        assert not broken, checked.findings
    elif name not in (*ONLY_IN_RUNS, *NOT_ALWAYS, "replaces_the_encoder"):
        assert broken
