"""One run of an experiment on this computer, and its comparison with the same run simulated."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scheduler.model import DispatchOrder
from scheduler.resource_manager import OnMachines
from sil.experiment.output_folder import make_usable
from sil.experiment.provenance import describe
from sil.experiment.run import BESIDE_THE_TRACE, DATABASE
from sil.live import kernel
from sil.live.loop import CoreMonitor, LiveWorld, WallClock, usable_cores
from sil.live.processes import CannotRunLive, JobProcesses, Over
from sil.outcome.live_comparison import LiveComparison, compare_live
from sil.outcome.metrics import faults
from sil.runs.composition import RunKey, run_in
from sil.runs.machines_scenario import MachinesScenario
from sil.runs.resolve import scenario_of_file
from sil.runs.scenario import Scenario
from sil.settings.experiment_file import Experiment, changed
from sil.site.site_in_use import SiteSource
from sil.trace.facts import TRACE, timings_frame, write_trace
from sil.trace.recorder import TraceRecorder
from sil.workers.executor import Listener
from sil.world.guard.faults import SchedulerFault
from sil.world.harness import in_order_of_arrival


@dataclass(frozen=True)
class LiveRun:
    """The facts of a run (columns of the trace), its measured decisions, and the CPU seconds of each job."""

    facts: pl.DataFrame
    timings: pl.DataFrame
    cpu_s: dict[int, float]


def machines_to_run_live(scenario: Scenario, name: str) -> MachinesScenario:
    """The scenario. Raises CannotRunLive if this computer cannot represent its site, or if failures are
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
    """One run on this computer: machine j is its j-th core, jobs are processes, and time is real. A fault of
    the scheduler ends the run and is its last fact. Raises JobFailed."""
    site, trace, decisions = scenario.in_use.site, TraceRecorder(), list[float]()
    jobs = scenario.jobs(run.replication)
    actual = scenario.actual_runtimes(jobs, run.replication)
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
            listener.progressed(processes.n_ended, len(jobs))

    world = LiveWorld(clock, trace, processes, CoreMonitor(cores, clock), scenario.rounds, note_over)
    ports = OnMachines(clock, processes, site, world.monitor, scenario.experience())
    manager = scenario.manager(
        ports, scenario.under_test(run.scheduler), scenario.supervision(run, world, decisions)
    )
    run_in(world, in_order_of_arrival(jobs), nullcontext(manager))
    return LiveRun(trace.frame(*run), timings_frame(decisions, run), cpu_s)


def run_live_and_simulated(
    experiment: Experiment, source: Path, out: Path, name: str, listener: Listener
) -> tuple[LiveComparison, LiveRun]:
    """The first replication of the experiment in the file `source`, simulated and then live. Traces and
    timings are written into the folders `simulated` and `live` of `out`.

    Raises InvalidFile, UnusableFolder, CannotRunLive, JobFailed and, if the scheduler breaks a rule,
    SchedulerFault.
    """
    make_usable(out)
    experiment = changed(experiment.at(0), schedulers=(name,), replications=1)
    in_use = SiteSource(experiment, source.parent, None).snapshot(out / DATABASE)
    scenario = machines_to_run_live(scenario_of_file(experiment, in_use, source), name)
    run = RunKey(0, 0, name)
    simulated = scenario.run(run)
    _write(out / "simulated", scenario, simulated.facts, simulated.timings)
    listener.progressed(0, experiment.drawn.jobs)
    live = run_live(scenario, run, listener)
    _write(out / "live", scenario, live.facts, live.timings)
    for facts in (simulated.facts, live.facts):
        for fault in faults(facts).iter_rows(named=True):
            raise SchedulerFault(fault["rule"], fault["message"], fault["time_s"], fault["job"])
    return compare_live(live.facts, simulated.facts, in_use.site), live


def _write(folder: Path, scenario: Scenario, facts: pl.DataFrame, timings: pl.DataFrame) -> None:
    make_usable(folder)
    write_trace(folder / TRACE, facts, describe(scenario))
    timings.write_parquet(folder / BESIDE_THE_TRACE["timings"])
