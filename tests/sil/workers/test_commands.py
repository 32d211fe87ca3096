"""Commands on every executor: a worker that is killed costs no result, and Dask changes none."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest

from sil.workload.swf_writing import write_swf
from tests.builders import tiny_experiment
from tests.commands import succeeded
from tests.sil.experiment.test_replay import FIVE, log_of
from tests.sil.experiment.test_sweep_of_settings import FILES, write_site
from tests.sil.planning.test_plan import ONE_OFFER, plan_file
from tests.sil.workers.cluster import Cluster

KILLED_ONCE = '''
"""Schedulers whose process is killed during their first decision, as if by the kernel for lack of memory."""

import os, signal
from pathlib import Path
from scheduler.free_nodes.rigid import Rigid
from scheduler.mapping.immediate import Mct

KILLED = Path(__file__).with_name("killed")

def be_killed_once():
    if not KILLED.exists():
        KILLED.touch()
        os.kill(os.getpid(), signal.SIGKILL)

class Maps(Mct):
    def schedule(self, problem):
        be_killed_once()
        return super().schedule(problem)

class StartsJobs(Rigid):
    def schedule(self, problem):
        be_killed_once()
        return super().schedule(problem)
'''

COMMANDS = {
    "run": ("run", "experiment.toml", "--scheduler", "mct", "--scheduler", "killed_once:Maps"),
    "replay": ("replay", "log.swf", "--scheduler", "fcfs", "--scheduler", "killed_once:StartsJobs"),
    "sweep": (
        "sweep",
        "log.swf",
        "--slices",
        "2",
        "--scheduler",
        "fcfs",
        "--scheduler",
        "killed_once:StartsJobs",
    ),
    "plan": ("plan", "plan.toml", "--trust"),
}
pytestmark = pytest.mark.usefixtures("without_figures")

RESULTS = ("jobs.csv", "trace.parquet", "options.csv", "ledger.csv", "sweep.csv", "sweep.parquet")
"""Files without measured times."""


@pytest.fixture
def folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an experiment, a plan, a log and the schedulers of KILLED_ONCE."""
    (here / "killed_once.py").write_text(KILLED_ONCE)
    monkeypatch.syspath_prepend(here)
    tiny_experiment(here)
    plan = plan_file(here, ONE_OFFER)
    plan.write_text(plan.read_text().replace('["mct"]', '["killed_once:Maps"]'))
    write_swf(here / "log.swf", log_of(FIVE, 3))
    return here


def results(out: Path) -> dict[Path, bytes]:
    found = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.name in RESULTS}
    assert found
    return found


def assert_succeeds(*arguments: str) -> str:
    done = succeeded(*arguments)
    assert "Traceback" not in done.output
    return done.stdout


@pytest.mark.parametrize(
    "command", ["run", *(pytest.param(name, marks=pytest.mark.long) for name in ("replay", "sweep", "plan"))]
)
@pytest.mark.usefixtures("in_this_process")
def test_a_killed_scheduler_changes_no_result(command: str, folder: Path) -> None:
    for out in ("disturbed", "undisturbed"):
        assert_succeeds(*COMMANDS[command], "--workers", "2", "--out", out)
    assert (folder / "killed").exists()
    assert results(folder / "disturbed") == results(folder / "undisturbed")


@pytest.mark.usefixtures("in_this_process")
def test_a_killed_scheduler_changes_no_check(folder: Path) -> None:
    disturbed = assert_succeeds("check", "killed_once:Maps", "--examples", "5", "--json")
    assert (folder / "killed").exists()
    assert disturbed == assert_succeeds("check", "killed_once:Maps", "--examples", "5", "--json")


def test_a_killed_scheduler_does_not_end_a_measurement_of_decision_times(folder: Path) -> None:
    grid = ("--jobs", "5,10", "--machines", "5", "--tables", "2", "--repetitions", "2")
    assert_succeeds("overhead", "killed_once:Maps", "--vs", "mct", *grid, "--out", "out")
    assert (folder / "killed").exists()
    # The header, and 2 schedulers x 2 sizes x 2 tables x 2 repetitions.
    assert len((folder / "out" / "overhead.csv").read_text().splitlines()) == 1 + 16


@contextmanager
def one_worker_killed() -> Iterator[list[int]]:
    """Kills the first worker of this process that has used 0.05 s of CPU time. Yields a list of its id."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    killed: list[int] = []
    stop = Event()

    def watch() -> None:
        while not killed and not stop.wait(0.02):
            for child in psutil.Process().children(recursive=True):
                is_worker = child.pid not in before and child.pid == os.getpgid(child.pid)
                if is_worker and child.cpu_times().user > 0.05:
                    os.kill(child.pid, signal.SIGKILL)
                    killed.append(child.pid)
                    return

    thread = Thread(target=watch)
    thread.start()
    try:
        yield killed
    finally:
        stop.set()
        thread.join()


@pytest.mark.long
def test_a_killed_worker_changes_no_result_of_a_study(folder: Path, small_study: str) -> None:
    with one_worker_killed() as killed:
        assert_succeeds("reproduce", small_study, "--workers", "2", "--out", "disturbed")
    assert killed
    assert_succeeds("reproduce", small_study, "--workers", "1", "--out", "undisturbed")
    assert results(folder / "disturbed") == results(folder / "undisturbed")


SETTINGS = ("sweep", *shlex.split(FILES), "--slices", "2", "--set", "PriorityWeightFairshare={0,1}")


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("run", "experiment.toml"), id="run", marks=pytest.mark.long),
        pytest.param(("replay", "log.swf"), id="replay"),
        pytest.param(SETTINGS, id="sweep", marks=pytest.mark.long),
        pytest.param(("plan", "plan.toml"), id="plan", marks=pytest.mark.long),
        pytest.param(("reproduce", "cs2"), id="reproduce", marks=pytest.mark.long),
    ],
)
@pytest.mark.usefixtures("in_this_process", "small_study")
def test_results_on_dask_equal_those_of_this_process(
    arguments: tuple[str, ...], folder: Path, cluster: Cluster
) -> None:
    write_site(folder)
    plan = folder / "plan.toml"  # for schedulers that the workers of the cluster can import
    plan.write_text(plan.read_text().replace("killed_once:Maps", "mct"))
    assert_succeeds(*arguments, "--out", "here")
    assert_succeeds(*arguments, "--dask", str(cluster.file), "--out", "dask")
    assert results(folder / "dask") == results(folder / "here")
