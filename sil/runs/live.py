"""The composition root of a live run: the manager and the schedulers of an experiment on this computer."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scheduler.model import DispatchOrder
from scheduler.registry import SchedulerNotLoaded
from scheduler.resource_manager import OnMachines
from sil.experiment.listener import Listener
from sil.experiment.output_folder import make_usable
from sil.experiment.provenance import describe
from sil.experiment.run import BESIDE_THE_TRACE, DATABASE
from sil.live import kernel
from sil.live.clock import WallClock
from sil.live.loop import LiveLoop
from sil.live.monitor import CoreMonitor, usable_cores
from sil.live.processes import CannotRunLive, Over, Processes
from sil.outcome.live_comparison import Twins, twins
from sil.outcome.metrics import faults
from sil.runs.inputs import actual_runtimes, rounds, workload
from sil.runs.managers import experience, scheduling_manager
from sil.runs.on_machines import run_once, timings_frame
from sil.runs.under_test import brings_its_manager, check_loads
from sil.settings.experiment_file import Experiment
from sil.settings.validation import misfits, problems
from sil.site.site_in_use import SiteInUse, SiteSource
from sil.trace.facts import TRACE, write_trace
from sil.trace.recorder import TraceRecorder
from sil.world.actual_runtimes import ActualRuntimes
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import Timing
from sil.world.harness import in_order_of_arrival
from site_db import toml_file


@dataclass(frozen=True)
class LiveRun:
    """The facts of a run (columns of the trace), what was measured of its decisions, and the CPU seconds of
    each job's last run."""

    facts: pl.DataFrame
    timings: pl.DataFrame
    cpu_s: dict[int, float]


class _BusyUntil:
    """What is executed for an order: a kernel that is as long as the job is in truth on that resource."""

    def __init__(self, runtimes: ActualRuntimes, members: Sequence[Sequence[int]], n_machines: int) -> None:
        self._actual_runtimes = runtimes
        self._members = members
        self._n_machines = n_machines

    def __call__(self, order: DispatchOrder) -> list[str]:
        c = order.resource - self._n_machines
        share = 1.0 if c < 0 else len(order.machines) / len(self._members[c])
        until_s = time.monotonic() + self._actual_runtimes.run_s(order.job, order.resource, share)
        return [sys.executable, "-S", "-E", str(Path(kernel.__file__)), repr(until_s)]


def check_can_run_live(experiment: Experiment, in_use: SiteInUse, name: str) -> None:
    """Raises CannotRunLive where this computer cannot stand for the site, or where faults are made up, and
    SchedulerNotLoaded."""
    check_loads(name)
    if brings_its_manager(name):
        raise CannotRunLive(f"'{name}' keeps queues of its own; live is only the testbed's own manager")
    for sentence in misfits(experiment.model_copy(update={"schedulers": (name,)}), in_use):
        raise SchedulerNotLoaded(sentence)
    if sys.platform != "linux":
        raise CannotRunLive("live runs pin processes to cores by calls that only Linux has")
    if experiment.shared_nodes is not None:
        raise CannotRunLive(f"experiment '{experiment.name}' has shared nodes; live are dedicated machines")
    if (
        in_use.absences
        or experiment.outages
        or experiment.failures
        or experiment.monitors != type(experiment.monitors)()
    ):
        raise CannotRunLive(
            f"experiment '{experiment.name}' has failures or monitors that are made up; live are real ones"
        )
    site, cores = in_use.site, len(usable_cores())
    if site.n_machines > cores:
        raise CannotRunLive(
            f"the site '{site.name}' has {site.n_machines} machines, and this computer {cores} cores that "
            f"can be used; each machine needs one"
        )


def run_beside_its_twin(
    experiment: Experiment, source: Path, out: Path, name: str, listener: Listener
) -> tuple[Twins, LiveRun]:
    """The first replication of the experiment in the file `source`, simulated and then live; the traces and
    timings of both are written into the folders `simulated` and `live` of `out`.

    Raises InvalidFile, SchedulerNotLoaded, UnusableFolder, CannotRunLive, JobFailed and, where the scheduler
    breaks a rule, SchedulerFault.
    """
    make_usable(out)
    experiment = experiment.at(0)
    in_use = SiteSource(experiment, source.parent, None).take_into_use(out / DATABASE)
    for place, sentence in problems(experiment, in_use):
        raise toml_file.invalid(toml_file.read_text(source), source, place, sentence)
    check_can_run_live(experiment, in_use, name)
    simulated = run_once(experiment, in_use, 0, 0, name)
    _write(out / "simulated", experiment, in_use, name, simulated.facts, simulated.timings)
    listener.started(0, experiment.workload.jobs)
    live = run_live(experiment, in_use, 0, name, listener)
    _write(out / "live", experiment, in_use, name, live.facts, live.timings)
    for facts in (simulated.facts, live.facts):
        for fault in faults(facts).iter_rows(named=True):
            raise SchedulerFault(fault["rule"], fault["message"], fault["time_s"], fault["job"])
    return twins(live.facts, simulated.facts, in_use.site), live


def _write(
    folder: Path,
    experiment: Experiment,
    in_use: SiteInUse,
    name: str,
    facts: pl.DataFrame,
    timings: pl.DataFrame,
) -> None:
    make_usable(folder)
    described = describe(experiment.model_copy(update={"schedulers": (name,), "replications": 1}), in_use)
    write_trace(folder / TRACE, facts, described)
    timings.write_parquet(folder / BESIDE_THE_TRACE["timings"])


def run_live(
    experiment: Experiment, in_use: SiteInUse, replication: int, name: str, listener: Listener
) -> LiveRun:
    """One run on this computer: machine j is its j-th core, jobs are processes, and time passes.

    A fault of the scheduler ends the run and is its last fact. Raises CannotRunLive and JobFailed.
    """
    site, trace, timings = in_use.site, TraceRecorder(), list[Timing]()
    jobs = workload(experiment, site, in_use.queues, replication)
    command = _BusyUntil(
        actual_runtimes(experiment, in_use, jobs, replication), site.members, site.n_machines
    )
    cores = usable_cores()[: site.n_machines]
    clock = WallClock()
    monitor = CoreMonitor(cores, clock)
    processes = Processes(cores, command, clock, trace)
    ports = OnMachines(clock, processes, site, monitor, experience(experiment, in_use))
    manager = scheduling_manager(experiment, in_use, ports, name, timings.append, trace)
    cpu_s: dict[int, float] = {}

    def note_over(over: Over) -> None:
        cpu_s[over.order.job.id] = over.cpu_s
        if not over.was_killed:
            listener.progressed(processes.n_ended)

    loop = LiveLoop(
        in_order_of_arrival(jobs),
        manager,
        clock,
        processes,
        monitor,
        rounds(experiment),
        trace,
        note_over,
    )
    try:
        loop.run()
    except SchedulerFault as fault:
        trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
    return LiveRun(trace.frame(0, replication, name), timings_frame(timings, 0, replication, name), cpu_s)
