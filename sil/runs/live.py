"""A run on this computer, in real time.

On both sides (`sil.isolation.judging`), what is read from the computer is the same: a time, the usable cores
or which runs are over is read once, where the run counts, and passed on to where its scheduler answers.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from scheduler.model import DispatchOrder, RunId
from scheduler.ports import Clock
from scheduler.resource_manager import OnMachines
from sil.isolation.host import Host
from sil.live import kernel
from sil.live.loop import CoreMonitor, LiveWorld, WallClock, usable_cores
from sil.live.processes import JobProcesses, Over, Runs
from sil.runs.hosting import hosted
from sil.runs.machines_scenario import MachinesScenario
from sil.runs.simulation import RunKey, run_in
from sil.trace.facts import timings_frame
from sil.trace.recorder import TraceRecorder


@dataclass(frozen=True)
class LiveRun:
    """The facts of a run (columns of the trace), its measured decisions, and the CPU seconds of each job."""

    facts: pl.DataFrame
    timings: pl.DataFrame
    cpu_s: dict[int, float]


def run_live(
    scenario: MachinesScenario, run: RunKey, printed: Path, on_ended: Callable[[int], None]
) -> LiveRun:
    """One run on this computer: machine j is its j-th core, jobs are processes, and time is real. What the
    scheduler prints goes into the file `printed`; `on_ended` gets the number of ended jobs. A fault of the
    scheduler ends the run and is its last fact. Raises UserError and KilledFromOutside."""
    site, trace = scenario.in_use.site, TraceRecorder()
    actual = scenario.actual_runtimes(scenario.jobs(run.replication), run.replication)
    cores = usable_cores()[: site.n_machines]
    clock = WallClock()
    cpu_s: dict[int, float] = {}

    def command(order: DispatchOrder) -> list[str]:
        c = order.resource - site.n_machines
        share = 1.0 if c < 0 else len(order.machines) / len(site.members[c])
        until_s = time.monotonic() + actual.run_s(order.job, order.resource, share)
        return [sys.executable, "-S", "-E", str(Path(kernel.__file__)), repr(until_s)]

    processes = JobProcesses(cores, command, clock, trace)

    def note_over(over: Over) -> None:
        cpu_s[over.order.job.id] = over.cpu_s
        if not over.was_killed:
            on_ended(processes.n_ended)

    asked = (scenario.under_test(run.scheduler), *scenario.queue_schedulers.values())
    memory_mb = scenario.experiment.guard.memory_limit_mb
    with hosted(partial(_follow, scenario, run, cores), asked, printed, memory_mb) as host:
        computer = _Computer(host, cores, clock, processes, note_over)
        decisions = _carry_out(scenario, run, trace, computer)
    return LiveRun(trace.frame(*run), timings_frame(decisions, run), cpu_s)


@dataclass(frozen=True)
class _Computer:
    """What a live run has of this computer; no `processes` where a scheduler answers."""

    host: Host
    cores: Sequence[int]
    clock: Clock
    processes: JobProcesses | None = None
    on_over: Callable[[Over], None] = lambda over: None

    def read(self, read: Callable[[], Any]) -> Any:
        """What `read` returns where the run counts, on both sides."""
        return json.loads(self.host.input(lambda: json.dumps(read()).encode()))


def _carry_out(
    scenario: MachinesScenario, run: RunKey, trace: TraceRecorder, computer: _Computer
) -> list[float]:
    """Run all jobs. Returns the cells of measured decisions."""
    clock, runs, decisions = _SharedClock(computer), _SharedRuns(computer), list[float]()
    monitor = CoreMonitor(computer.cores, clock, lambda: computer.read(usable_cores))
    world = LiveWorld(clock, trace, runs, monitor, scenario.rounds, computer.on_over)
    ports = OnMachines(clock, runs, scenario.in_use.site, monitor, scenario.experience())
    supervision = scenario.supervision(run, computer.host, world, decisions)
    scheduler = scenario.under_test(run.scheduler).require_in_process("a live run")
    manager = scenario.manager(ports, scheduler, supervision)
    run_in(world, scenario.jobs(run.replication), nullcontext(manager), computer.host)
    return decisions


def _follow(scenario: MachinesScenario, run: RunKey, cores: Sequence[int], host: Host) -> None:
    """The same run, where a scheduler answers."""
    _carry_out(scenario, run, TraceRecorder(), _Computer(host, cores, WallClock()))


class _SharedClock:
    """The same times on both sides."""

    def __init__(self, computer: _Computer) -> None:
        self._computer = computer

    @property
    def now_s(self) -> float:
        return float(self._computer.read(lambda: self._computer.clock.now_s))


class _SharedRuns:
    """The runs of the processes of a computer; where the scheduler answers, nothing is started."""

    def __init__(self, computer: _Computer) -> None:
        self._runs: Runs | None = computer.processes
        self._read = computer.read
        self._running: dict[RunId, DispatchOrder] = {}

    @property
    def is_idle(self) -> bool:
        return not self._running

    def dispatch(self, order: DispatchOrder) -> None:
        if self._runs is not None:
            self._runs.dispatch(order)
        self._running[order.run] = order

    def preempt(self, run: RunId) -> None:
        if self._runs is not None:
            self._runs.preempt(run)

    def over(self, within_s: float) -> Iterator[Over]:
        def read() -> list[Any]:
            assert self._runs is not None, "read where the run counts"
            return [[over.order.run, over.was_killed, over.cpu_s] for over in self._runs.over(within_s)]

        for run, was_killed, cpu_s in self._read(read):
            yield Over(self._running.pop(run), was_killed, cpu_s)

    def end_all(self) -> None:
        if self._runs is not None:
            self._runs.end_all()
