"""A site learns from an experiment once, wherever its process is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from site_db import store
from site_db.history.stored_statistics import disagreements
from site_db.schema import JobRow, MachineStateRow, SourceRow
from tests.builders import TINY_SITE, tiny_experiment
from tests.commands import sil, succeeded

pytestmark = pytest.mark.usefixtures("in_this_process", "without_reports")

N_JOBS = 3 * 2 * 12  # three replications, two schedulers
FAILURES = "[failures]\nmean_time_between_failures_s = 100\nmean_time_to_repair_s = 20\n"
KILLED = """
import os, signal, sys
from pkgutil import resolve_name

when, place, *arguments = sys.argv[1:]
module, _, path = place.partition(":")
owner, _, name = path.rpartition(".")
owner = resolve_name(f"{module}:{owner}" if owner else module)
original = getattr(owner, name)

def killed(*given, **named):
    if when == "after":
        original(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, killed)
from sil.experiment import run
run.experiment_page = run.write_page = lambda *parts: None
from sil.cli import main
sys.argv[1:] = arguments
main()
"""
PLACES = (
    ("after", "sil.workers.store:Store.remove"),
    ("after", "sil.experiment.run:write_results"),
    ("before", "sil.experiment.run:Teacher.__exit__"),
    ("before", "sil.experiment.run:write_trace"),
    ("before", "sil.experiment.run:render"),
    ("after", "sil.experiment.run:render"),
    ("before", "sil.workers.store:Store.remove"),
    ("before", "sil.cli.process:end_now"),
)


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """With a site whose database learns from it."""
    path = tiny_experiment(tmp_path, FAILURES, site_text=TINY_SITE)
    succeeded("db", "init", "--db", tmp_path / "site.db")
    succeeded("db", "import", tmp_path / "tiny.toml", "--db", tmp_path / "site.db")
    return path


def command(experiment: Path, *more: str) -> list[str]:
    folder = experiment.parent
    where = ["--site", str(folder / "site.db"), "--out", str(folder / "out"), "--workers", "1"]
    return ["run", str(experiment), "--learn", *where, *more]


def killed(when: str, place: str, arguments: list[str]) -> None:
    """Carry out a command that is killed when it calls a function, or right after that."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, when, place, *arguments], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


def recorded(database: Path) -> tuple[int, int, int]:
    """The numbers of jobs, of sources and of states, after a check of the statistics."""
    engine = store.open_file(database)
    with Session(engine) as session:
        assert disagreements(session, 1) == []
        rows = (JobRow, SourceRow, MachineStateRow)
        jobs, sources, states = (session.scalar(select(func.count()).select_from(row)) for row in rows)
    engine.dispose()
    return jobs or 0, sources or 0, states or 0


@pytest.mark.long
@pytest.mark.parametrize(("when", "place"), PLACES)
def test_a_command_killed_after_its_last_run_records_nothing_again(
    when: str, place: str, experiment: Path
) -> None:
    folder = experiment.parent
    killed(when, place, command(experiment))
    assert recorded(folder / "site.db")[0] == N_JOBS
    repeated = succeeded(*command(experiment))
    assert "mct" in repeated.stdout
    assert recorded(folder / "site.db")[:2] == (N_JOBS, 6 + 1)  # runs of the harness, and all of them
    once = recorded(folder / "out" / "results.db")
    assert once[:2] == (N_JOBS, 6 + 1)
    succeeded(*command(experiment))
    assert recorded(folder / "out" / "results.db") == once
    assert recorded(folder / "site.db")[0] == N_JOBS


def test_a_finished_command_says_that_it_runs_nothing_again(experiment: Path) -> None:
    folder = experiment.parent
    first = sil(*command(experiment))
    trace = (folder / "out" / "trace.parquet").stat()
    again = sil(*command(experiment))
    assert "nothing is run or recorded again; name another folder with --out" in again.stderr
    assert again.stdout == first.stdout
    assert (folder / "out" / "trace.parquet").stat().st_mtime_ns == trace.st_mtime_ns
    elsewhere = [*command(experiment)[:-3], str(folder / "elsewhere"), "--workers", "1"]
    succeeded(*elsewhere)
    assert recorded(folder / "site.db")[0] == 2 * N_JOBS


def test_with_more_replications_a_finished_command_goes_on(experiment: Path) -> None:
    """From where it was: the jobs of the first ones are neither simulated with what was learned, nor recorded
    again."""
    folder = experiment.parent
    sil(*command(experiment, "--replications", "1"))
    assert recorded(folder / "site.db")[0] == N_JOBS // 3
    succeeded(*command(experiment))
    assert recorded(folder / "site.db")[0] == recorded(folder / "out" / "results.db")[0] == N_JOBS
