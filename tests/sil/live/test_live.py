"""Live runs: jobs run as real processes on this computer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import pytest

from scheduler import UserError
from scheduler.mapping.etc import EtcMatrix
from scheduler.model import DispatchOrder, ExecutionRecord, Job, JobId, RunId
from scheduler.ports import Dispatcher, RunEnded
from scheduler.resource_manager import ResourceManager
from scheduler.rules import MAKES_PROGRESS, RETURNS_A_SCHEDULE
from sil.experiment.live import run_live_and_simulated
from sil.isolation.host import HERE
from sil.live.computer import Computer, NodeSettings, usable_cores
from sil.live.machines import RealMachines
from sil.live.real_events import RealEvents, Shared
from sil.settings import files
from sil.settings.experiment_file import read_experiment
from sil.trace.facts import Fact
from sil.trace.reading import read_trace
from sil.trace.recorder import TraceRecorder
from sil.workers.executor import Listener
from sil.world.actual_runtimes import ActualRuntimes, Variation
from sil.world.events import Rounds, SimClock
from sil.world.guard.faults import SchedulerFault
from sil.world.harness import World
from sil.world.monitors import SimMonitor
from tests.builders import site, tiny_experiment
from tests.commands import sil, the_sentence
from tests.sil.workers.test_no_process_is_left import alive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live runs need calls that only Linux has")
two_cores = pytest.mark.skipif(
    sys.platform != "linux" or len(usable_cores()) < 2, reason="this computer has one core only"
)


@two_cores
@pytest.mark.long
def test_a_dozen_real_jobs_match_the_simulation_in_decisions_and_times(tmp_path: Path) -> None:
    source = files.built_in("experiments")["real-jobs"]
    found, cpu_s = run_live_and_simulated(read_experiment(source), source, tmp_path, "sjs", Listener())
    assert found.diverged_at is None, (found.live, found.simulated)
    assert sum(fact == Fact.RUN_PREEMPTED for fact, _, _ in found.live) == 4
    assert len(found.jobs) == 12
    assert found.jobs["difference"].abs().max() < 0.1, found.jobs
    assert all(seconds > 0.05 for seconds in cpu_s.values()), "they compute, they do not sleep"
    live, simulated = (read_trace(tmp_path / side / "trace.parquet")[1] for side in ("live", "simulated"))
    assert live.scheduler_source == simulated.scheduler_source != ""


def order(run: int, job: int = 0, machine: int = 0) -> DispatchOrder:
    return DispatchOrder(RunId(run), Job(JobId(job), "work", 0.0), machine, (machine,), 1.0)


@contextmanager
def computer(n_cores: int = 1) -> Iterator[Computer]:
    made = Computer([NodeSettings(f"core-{j}") for j in range(n_cores)])
    try:
        made.begin()
        yield made
    finally:
        made.close()


PYTHON_HELPERS = ("nursery", "forkserver", "resource_tracker")
"""Helpers of worker processes that other tests left."""


def children(of: psutil.Process | None = None) -> list[psutil.Process]:
    """The processes that were started, apart from those of the interpreter's own."""
    found, started = list[psutil.Process](), list[psutil.Process]()
    with suppress(psutil.NoSuchProcess):
        started = (of or psutil.Process()).children()
    for child in started:
        try:
            command = " ".join(child.cmdline())
        except psutil.ZombieProcess:
            command = ""  # a zombie
        except psutil.NoSuchProcess:
            continue
        if not any(name in command for name in PYTHON_HELPERS):
            found.append(child)
    return found


def wait_for(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + 60.0  # on a busy computer
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.01)


@two_cores
def test_a_run_is_a_process_bound_to_the_core_of_its_machine() -> None:
    before = usable_cores()
    with computer(2) as real:
        real.start(order(0, machine=1), 60.0)
        _, node = children()
        wait_for(node.children)
        (job,) = node.children()
        assert job.cpu_affinity() == [before[1]]
        assert usable_cores() == before, "the testbed itself is not pinned"
    assert not children()


def test_a_run_is_reported_once_and_one_that_is_ended_is_killed() -> None:
    with computer() as real:
        real.start(order(7), 0.01)
        happened = real.happened(60.0)
        assert happened is not None
        assert happened[1] == [7]
        assert real.has_exited(RunId(7))
        again = real.happened(happened[0])
        assert again is not None
        assert again[1] == []
        real.end(RunId(7))
        assert real.happened(inf) is None, "nothing can happen any more"
        real.start(order(8), 60.0)
        (node,) = children()
        wait_for(node.children)
        real.end(RunId(8))
        wait_for(lambda: not node.children())
        assert not node.children()
        assert real.happened(happened[0] + 0.2) is not None, "its end is no failure"


def test_a_job_that_crashes_is_named_with_its_node() -> None:
    with computer() as real:
        real.start(order(0, job=5), 60.0)
        (node,) = children()
        wait_for(node.children)
        node.children()[0].send_signal(signal.SIGSEGV)
        with pytest.raises(UserError, match="job 5 ended with signal 11 on node 'core-0'"):
            real.happened(60.0)


def test_a_node_that_ends_is_named_and_so_is_a_run_that_takes_too_long() -> None:
    with computer() as real:
        real.start(order(0), 60.0)
        real.most_s = 0.0
        with pytest.raises(UserError, match="given up after 0 s"):
            real.happened(60.0)
        real.most_s = inf
        children()[0].kill()
        with pytest.raises(UserError, match="the process of node 'core-0' has ended"):
            real.happened(60.0)


@two_cores
def test_the_loss_and_return_of_a_core_is_detected() -> None:
    cores = usable_cores()
    with computer(2) as real:
        os.sched_setaffinity(0, {cores[0]})
        try:
            lost = real.happened(60.0)
        finally:
            os.sched_setaffinity(0, cores)
        back = real.happened(60.0)
    assert (lost and lost[2], back and back[2]) == ([("core", 1, False)], [("core", 1, True)])


class ForgettingManager(ResourceManager):
    """A manager that takes one job after another, and starts only those with even numbers."""

    wakes_at_s = None

    def __init__(self, dispatcher: Dispatcher, gives_reasons: bool) -> None:
        self.dispatcher, self.gives_reasons = dispatcher, gives_reasons
        self.waiting: list[Job] = []
        self.ended: list[int] = []
        self.wants_round = False

    def why_waiting(self) -> dict[JobId, str]:
        return {job.id: "it is odd" for job in self.waiting} if self.gives_reasons else {}

    def on_job_arrived(self, job: Job) -> str | None:
        self.waiting.append(job)
        self.wants_round = True
        return None

    def on_run_ended(self, completion: RunEnded) -> None:
        self.ended.append(completion.run)

    def run_round(self) -> None:
        self.wants_round = False
        for job in [job for job in self.waiting if job.id % 2 == 0]:
            self.waiting.remove(job)
            self.dispatcher.dispatch(order(job.id, job.id))


@pytest.mark.parametrize(
    ("gives_reasons", "sentence"),
    [(True, "left waiting are job 1: it is odd"), (False, "jobs remain and nothing can happen any more$")],
)
def test_a_forgotten_job_is_named_instead_of_waiting_forever(gives_reasons: bool, sentence: str) -> None:
    of_one = site(1)
    mean = EtcMatrix.from_dense(np.full((2, 1), 0.05))
    actual = ActualRuntimes(mean, Variation(), np.full(2, 0.5))
    jobs = [Job(JobId(0), "work", 0.0), Job(JobId(1), "work", 0.05)]
    with computer() as real:
        shared, clock, trace = Shared(real, HERE), SimClock(), TraceRecorder()
        events = RealEvents(shared)
        machines = RealMachines(shared, of_one, actual, events)
        world = World(clock, events, trace, machines, SimMonitor(clock), Rounds())
        manager = ForgettingManager(world.dispatcher, gives_reasons)
        with pytest.raises(SchedulerFault, match=sentence) as caught:
            world.run(jobs, manager)
    assert (caught.value.rule, caught.value.job) == (MAKES_PROGRESS, 1)
    assert manager.ended == [0]
    assert [*real.cpu_s] == [0]
    assert not children()


QUICK_SITE = """
name = "quick"
[[machine_classes]]
name = "any"
[[machines]]
names = ["m1"]
machine_class = "any"
[[job_classes]]
name = "quick"
[job_classes.sequential_s]
any = 0.3
"""


def test_completed_runs_enter_experience(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[ExecutionRecord] = []
    from site_db.experience import MemoryExperience

    take_in = MemoryExperience.record
    monkeypatch.setattr(
        MemoryExperience, "record", lambda self, record: (records.append(record), take_in(self, record))[1]
    )
    path = tiny_experiment(tmp_path, '[experience]\nlearning = "run"\n', site_text=QUICK_SITE, jobs="2")
    run_live_and_simulated(read_experiment(path), path, tmp_path / "out", "mct", Listener())
    simulated, live = records[:2], records[2:]
    assert [record.run_time_s for record in simulated] == [0.3, 0.3]
    assert len(live) == 2
    facts, _ = read_trace(tmp_path / "out" / "live" / "trace.parquet")
    started, ended = (
        facts.filter(pl.col("event") == kind.value) for kind in (Fact.RUN_STARTED, Fact.RUN_ENDED)
    )
    took = (ended["time_s"] - started["time_s"]).to_list()
    assert [record.run_time_s for record in live] == pytest.approx(took)
    assert all(run_time_s >= 0.3 for run_time_s in took)


def test_a_misbehaving_scheduler_is_reported(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(here)
    path = tiny_experiment(here, site_text=QUICK_SITE, jobs="2")
    (here / "wrong.py").write_text("class Wrong:\n    def schedule(self, problem):\n        return 7\n")
    done = sil("live", path, "--scheduler", "wrong:Wrong")
    assert done.exit_code == 1
    assert f"wrong:Wrong broke the rule {RETURNS_A_SCHEDULE}" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["light-to-heavy"], "has 142 machines, but this computer"),
        (["unreliable-site"], "simulated failures, checkpoints or monitor errors"),
        (["shared-nodes"], "live nodes need shared_nodes.sharing = 'detailed', not 'fluid'"),
        (["coscheduled-nodes"], "live nodes need shared_nodes.in_detail.cpu_scheduler = 'cfs'"),
        (["gpu-cluster"], "has nodes of which jobs take parts; live runs are on"),
        (["real-jobs", "--cluster"], "has no table shared_nodes, which --cluster needs"),
        (["--scheduler", "batsim: ls mine.py"], "is a whole resource manager"),
        (["--scheduler", "easy"], "needs one that maps jobs to machines"),
        (["no-such-experiment"], "there is no file no-such-experiment"),
    ],
)
def test_an_experiment_that_cannot_run_live_is_rejected_in_one_sentence(
    arguments: list[str], message: str, here: Path
) -> None:
    assert message in the_sentence(sil("live", *arguments))


def test_ctrl_c_ends_the_nodes_and_the_running_jobs(tmp_path: Path) -> None:
    slow = QUICK_SITE.replace("any = 0.3", "any = 60")
    path = tiny_experiment(tmp_path, site_text=slow, jobs="1")
    command = [sys.executable, "-m", "sil", "live", str(path)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        started = with_a_job(psutil.Process(process.pid))
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Interrupted" in told
    assert not alive({each.pid for each in started})


STARTS_A_JOB = """
from scheduler.model import DispatchOrder, Job
from sil.live.computer import Computer
from sil.live.computer import NodeSettings
real = Computer([NodeSettings("a")])
real.begin()
real.start(DispatchOrder(1, Job(1, 'work', 0.0), 0, (0,), 1.0), 60.0)
real.happened(1e6)
"""


@pytest.mark.parametrize("stopped", ["nothing", "the node", "the job"])
def test_no_process_is_left_when_the_command_is_killed(stopped: str) -> None:
    with subprocess.Popen([sys.executable, "-c", STARTS_A_JOB]) as process:
        node, job = with_a_job(psutil.Process(process.pid))
        for each in {"the node": [node], "the job": [job]}.get(stopped, []):
            each.suspend()
        process.kill()
    assert not alive({node.pid, job.pid})


def test_a_command_that_was_started_with_nice_stays_behind_other_programs() -> None:
    nice = max(0, os.getpriority(os.PRIO_PROCESS, 0)) + 5
    command = [
        "nice",
        "-n",
        str(nice - os.getpriority(os.PRIO_PROCESS, 0)),
        sys.executable,
        "-c",
        STARTS_A_JOB,
    ]
    with subprocess.Popen(command) as process:
        node, job = with_a_job(psutil.Process(process.pid))
        groups = [Path(f"/proc/{each.pid}/autogroup").read_text() for each in (node, job)]
        process.kill()
    assert groups[0] == groups[1]
    assert groups[0].endswith(f"nice {nice}\n"), "not before them, as root's nodes are otherwise"


def with_a_job(testbed: psutil.Process) -> list[psutil.Process]:
    """The node that a process starts, and the job on it, when that has begun."""
    wait_for(lambda: any(map(children, children(testbed))))
    (node,) = filter(children, children(testbed))
    (job,) = node.children()
    return [node, job]
