"""A controller that is killed, hangs or does not start is at fault; other schedulers keep their results."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.sil.slurm.installed import needs_slurm

pytestmark = needs_slurm
N_JOBS = 400


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A queue that is never empty, on 4 processors."""
    rows = (
        f"{k} {k} -1 50 {k % 4 + 1} -1 -1 {k % 4 + 1} 600 -1 1 1 1 -1 1 -1 -1 -1" for k in range(1, N_JOBS)
    )
    path = tmp_path / "busy.swf"
    path.write_text("; MaxProcs: 4\n" + "\n".join(rows) + "\n")
    return path


def replayed(log: Path, slurm: str, *options: str) -> subprocess.Popen[str]:
    """`sil replay` under easy and Slurm, which has begun."""
    words = ("--scheduler", "easy", "--scheduler", slurm, "--no-report", "--out", str(log.parent / "out"))
    return subprocess.Popen(
        [sys.executable, "-m", "sil", "replay", str(log), *words, *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def controller_of(command: subprocess.Popen[str], after_s: float) -> tuple[psutil.Process, Path]:
    """Its slurmctld, `after_s` real seconds after it was seen, and its directory."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        for process in psutil.Process(command.pid).children(recursive=True):
            if process.name() == "slurmctld":
                time.sleep(after_s)
                return process, Path(process.cmdline()[0]).parent
        time.sleep(0.02)
    raise AssertionError("slurmctld did not start")


def judge(command: subprocess.Popen[str], log: Path) -> str:
    """What is said about Slurm, in one line, if easy is unaffected."""
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 1
    jobs = (log.parent / "out" / "easy" / "jobs.csv").read_text().splitlines()
    assert len(jobs) == N_JOBS
    assert (log.parent / "out" / "summary.json").is_file()
    return " ".join(errors.split())


def goes_away(folder: Path) -> bool:
    """A process of its own removes it."""
    deadline_s = time.monotonic() + 10
    while folder.exists() and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return not folder.exists()


@pytest.mark.long
def test_a_controller_that_is_killed_within_a_replay(log: Path) -> None:
    with replayed(log, "slurm") as command:
        slurmctld, folder = controller_of(command, 1.0)
        slurmctld.kill()
        errors = judge(command, log)
    assert goes_away(folder)
    assert "slurmctld has ended; the log of slurmctld ends with:" in errors


@pytest.mark.long
def test_a_controller_that_hangs_within_a_replay(log: Path) -> None:
    with replayed(log, "slurm", "--decision-limit", "2") as command:
        slurmctld, folder = controller_of(command, 1.0)
        slurmctld.send_signal(signal.SIGSTOP)
        errors = judge(command, log)
    assert not slurmctld.is_running()
    assert goes_away(folder)
    assert "slurmctld did not come to rest within 2 s; the log of slurmctld ends with:" in errors


def test_a_configuration_with_which_it_does_not_start(log: Path) -> None:
    with replayed(log, "slurm (SchedulerType=sched/imaginary)") as command:
        errors = judge(command, log)
    assert "slurmctld does not start with this configuration: " in errors
    assert re.search("cannot (find|create) sched (plugin|context) for sched/imaginary", errors)
