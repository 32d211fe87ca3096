"""Whatever a scheduler under test starts, and however the testbed ends: no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from sil.runs.on_log import Replay
from sil.workers.executor import Inline, Listener
from sil.workload.swf_writing import write_swf
from tests.builders import tiny_experiment
from tests.sil.experiment.replaying import jobs_under, replay_all
from tests.sil.experiment.test_experiment import ROOT
from tests.sil.experiment.test_replay import FIVE, log_of

FORKS = """
import os, time
from pathlib import Path
from scheduler.free_nodes.rigid import Rigid

def fork():
    if os.fork() == 0:
        with open(Path(__file__).with_name("children"), "a") as told:
            print(os.getpid(), file=told)
        {afterwards}

class Forks(Rigid):
    def schedule(self, problem):
        fork()
        return super().schedule(problem)
"""


THREADS = """
from threading import Event, Thread
from scheduler.mapping.immediate import Mct
from scheduler.free_nodes.rigid import Rigid

class AsItDecides(Rigid):
    def schedule(self, problem):
        Thread(target=Event().wait).start()
        return super().schedule(problem)

class AsItMaps(Mct):
    def schedule(self, problem):
        Thread(target=Event().wait).start()
        return super().schedule(problem)

class AsItIsMade(Mct):
    def __init__(self):
        super().__init__()
        Thread(target=Event().wait).start()
"""


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "log.swf", "--scheduler", "fcfs", "--scheduler", "threads:AsItDecides"),
        pytest.param(
            ("run", "experiment.toml", "--scheduler", "mct", "--scheduler", "threads:AsItMaps"),
            marks=pytest.mark.long,
        ),
        pytest.param(
            ("run", "experiment.toml", "--scheduler", "mct", "--scheduler", "threads:AsItIsMade"),
            marks=pytest.mark.long,
        ),
        pytest.param(("check", "threads:AsItIsMade", "--examples", "5"), marks=pytest.mark.long),
    ],
    ids=lambda command: f"{command[0]}-{command[-1].split(':')[-1]}",
)
def test_the_command_does_not_wait_for_threads_of_a_scheduler(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "threads.py").write_text(THREADS)
    write_swf(tmp_path / "log.swf", log_of(FIVE, 3))
    tiny_experiment(tmp_path)
    sil = [sys.executable, "-m", "sil", *command]
    done = subprocess.run(
        sil, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, timeout=100, check=False
    )
    assert done.returncode == 0


SLEEPS = """
import time
from pathlib import Path
from scheduler.free_nodes.rigid import Rigid as Sleeps

Path(__file__).with_name("began").touch()
while True:
    try:
        time.sleep(600)
    except BaseException:
        pass
"""


def test_ctrl_c_ends_a_command_while_it_waits_for_an_import_that_swallows_everything(tmp_path: Path) -> None:
    (tmp_path / "sleeps.py").write_text(SLEEPS)
    write_swf(tmp_path / "log.swf", log_of(FIVE, 3))
    sil = [sys.executable, "-m", "sil", "replay", "log.swf", "--scheduler", "sleeps:Sleeps"]
    command = subprocess.Popen(
        sil, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60.0
    while not (tmp_path / "began").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    started = {child.pid for child in psutil.Process(command.pid).children(recursive=True)}
    command.send_signal(signal.SIGINT)
    _, told = command.communicate(timeout=60)
    assert command.returncode == 130
    assert "Interrupted" in told
    assert not (tmp_path / "sil-log").exists()
    assert started
    assert not alive(started)


def alive(pids: set[int]) -> set[int]:
    """Of some processes, those that are so for more than a few seconds to come."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        pids = {pid for pid in pids if runs(pid)}
        if not pids:
            break
        time.sleep(0.05)
    return pids


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children(folder: Path) -> set[int]:
    return {int(line) for line in (folder / "children").read_text().split()}


@pytest.fixture(params=["time.sleep(600)", "pass"])
def forking(request: pytest.FixtureRequest, importable: Path) -> Path:
    """Where a module of schedulers is that fork; the child sleeps, or goes on like its parent."""
    name = f"forking_{abs(hash(request.param))}"
    (importable / f"{name}.py").write_text(FORKS.replace("{afterwards}", request.param))
    return importable / name


def test_processes_forked_by_a_scheduler_in_a_replay_are_killed_and_its_run_counts_once(
    forking: Path,
) -> None:
    folder = forking.parent
    names = ["fcfs", f"{forking.name}:Forks"]
    fcfs, forks = replay_all(Replay(log_of(FIVE, 3)), names, folder / "out", Inline(), False, Listener())
    assert forks.fault is None
    assert jobs_under(forks).equals(jobs_under(fcfs))
    assert children(folder)
    assert not alive(children(folder))
