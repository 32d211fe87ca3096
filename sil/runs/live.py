"""Live runs: the schedulers of an experiment on this computer."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scheduler.model import DispatchOrder
from scheduler.resource_manager import OnMachines
from sil.live import kernel
from sil.live.clock import WallClock
from sil.live.loop import LiveWorld
from sil.live.monitor import CoreMonitor, usable_cores
from sil.live.processes import CannotRunLive, Over, Processes
from sil.runs.composition import RunKey, run_in
from sil.runs.machines_scenario import MachinesScenario
from sil.runs.scenario import Scenario
from sil.trace.facts import timings_frame
from sil.trace.recorder import TraceRecorder
from sil.workers.listener import Listener
from sil.world.actual_runtimes import ActualRuntimes
from sil.world.harness import in_order_of_arrival


@dataclass(frozen=True)
class LiveRun:
    """The facts of a run (columns of the trace), its measured decisions, and the CPU seconds of each job."""

    facts: pl.DataFrame
    timings: pl.DataFrame
    cpu_s: dict[int, float]


class _BusyUntil:
    """The command for an order: a kernel that takes the job's actual run time on that resource."""

    def __init__(self, runtimes: ActualRuntimes, members: Sequence[Sequence[int]], n_machines: int) -> None:
        self._actual_runtimes = runtimes
        self._members = members
        self._n_machines = n_machines

    def __call__(self, order: DispatchOrder) -> list[str]:
        c = order.resource - self._n_machines
        share = 1.0 if c < 0 else len(order.machines) / len(self._members[c])
        until_s = time.monotonic() + self._actual_runtimes.run_s(order.job, order.resource, share)
        return [sys.executable, "-S", "-E", str(Path(kernel.__file__)), repr(until_s)]


def machines_to_run_live(scenario: Scenario, name: str) -> MachinesScenario:
    """The scenario. Raises CannotRunLive if this computer cannot stand for its site, or if failures are
    simulated."""
    experiment, in_use = scenario.experiment, scenario.in_use
    if scenario.under_test(name).has_own_queue:
        raise CannotRunLive(f"'{name}' is a whole resource manager; live runs use the testbed's own")
    if sys.platform != "linux":
        raise CannotRunLive("live runs pin processes to cores by calls that only Linux has")
    if not isinstance(scenario, MachinesScenario):
        raise CannotRunLive(
            f"experiment '{experiment.name}' has time-shared nodes; live runs are on dedicated machines"
        )
    if (
        in_use.absences
        or experiment.outages
        or experiment.failures
        or experiment.monitors != type(experiment.monitors)()
    ):
        raise CannotRunLive(
            f"experiment '{experiment.name}' has simulated failures or monitor errors; live ones are real"
        )
    site, cores = in_use.site, len(usable_cores())
    if site.n_machines > cores:
        raise CannotRunLive(
            f"the site '{site.name}' has {site.n_machines} machines, but this computer has only "
            f"{cores} usable cores; each machine needs one"
        )
    return scenario


def run_live(scenario: MachinesScenario, run: RunKey, listener: Listener) -> LiveRun:
    """One run on this computer: machine j is its j-th core, jobs are processes, and time is real.

    A fault of the scheduler ends the run and is its last fact. Raises JobFailed.
    """
    site, trace, decisions = scenario.in_use.site, TraceRecorder(), list[float]()
    jobs = scenario.jobs(run.replication)
    actual = scenario.actual_runtimes(jobs, run.replication)
    cores = usable_cores()[: site.n_machines]
    clock = WallClock()
    processes = Processes(cores, _BusyUntil(actual, site.members, site.n_machines), clock, trace)
    cpu_s: dict[int, float] = {}

    def note_over(over: Over) -> None:
        cpu_s[over.order.job.id] = over.cpu_s
        if not over.was_killed:
            listener.progressed(processes.n_ended, len(jobs))

    world = LiveWorld(clock, trace, processes, CoreMonitor(cores, clock), scenario.rounds, note_over)
    ports = OnMachines(clock, processes, site, world.monitor, scenario.experience())
    manager = scenario.manager(
        ports, scenario.under_test(run.scheduler), scenario.supervision(run, world, decisions)
    )
    run_in(world, in_order_of_arrival(jobs), nullcontext(manager))
    return LiveRun(trace.frame(*run), timings_frame(decisions, run), cpu_s)
