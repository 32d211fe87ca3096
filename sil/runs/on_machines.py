"""The composition root: the one place where scheduler, testbed and site database meet."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl

from scheduler.managers.mapping import MappingManager
from scheduler.resource_manager import OnMachines, OnSharedNodes
from sil.batsim.shared_nodes import NodesWithUsers
from sil.batsim.site_machines import SiteMachines
from sil.outcome.invariants import Capacity, first_breach
from sil.runs.inputs import actual_runtimes, distortions, rounds, state_changes, workload
from sil.runs.managers import admission, experience, guarded, scheduling_manager
from sil.runs.under_test import UnderTest, brings_its_manager
from sil.settings.decision_costs import decision_cost
from sil.settings.experiment_file import Experiment
from sil.site.resource_names import Places
from sil.site.site_in_use import SiteInUse
from sil.trace.facts import TIMINGS_SCHEMA
from sil.trace.recorder import TraceRecorder
from sil.trace.tables import RunTables
from sil.world.clock import SimClock
from sil.world.dispatcher import SimDispatcher
from sil.world.events import EventQueue
from sil.world.guard.decision_cost import Charge
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import Timing
from sil.world.harness import Harness, ResourceManager, in_order_of_arrival
from sil.world.machines.dedicated import DedicatedMachines
from sil.world.monitors import SimMonitor

Ours = Callable[[], ResourceManager]
"""Makes our resource manager."""


def run_once(
    experiment: Experiment,
    in_use: SiteInUse,
    point: int,
    replication: int,
    name: str,
    printed: Path = Path(os.devnull),
) -> RunTables:
    """One run of the harness.

    `experiment` is that of one point, without a grid. A fault of the scheduler ends the run and is its last
    fact. What one in a process of its own prints goes into the file `printed`.
    """
    if experiment.shared_nodes is not None:
        return _run_on_shared_nodes(experiment, in_use, point, replication, name, printed)
    trace = TraceRecorder()
    clock = SimClock()
    timings: list[Timing] = []
    try:
        _run_on_machines(experiment, in_use, point, replication, name, clock, trace, timings, printed)
    except SchedulerFault as fault:
        trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
    facts = trace.frame(point, replication, name)
    breach = first_breach(facts, Capacity(in_use.site.n_machines, names=in_use.site.resource_names))
    if breach is not None:
        trace.note_fault(clock.now_s, breach.rule, breach.message, breach.job)
        facts = trace.frame(point, replication, name)
    return RunTables.of(facts, timings_frame(timings, point, replication, name))


def _run_on_shared_nodes(
    experiment: Experiment, in_use: SiteInUse, point: int, replication: int, name: str, printed: Path
) -> RunTables:
    # Compiled code, loaded only where nodes are shared.
    from sil.runs import time_shared_experiment
    from sil.runs.on_time_shared import Surroundings

    clock = SimClock()
    timings: list[Timing] = []
    tasks = time_shared_experiment.sizes_of_jobs(experiment, in_use)
    nodes = {node: n for n, node in enumerate(Places.of(experiment, in_use).names)}
    trace = TraceRecorder()
    charge = _charge(experiment, point, replication, name, clock, trace)
    jobs = workload(experiment, in_use.site, in_use.queues, replication, tasks)
    limit_s = experiment.guard.decision_limit_s

    def managed_by(
        ports: OnSharedNodes, dispatcher: SimDispatcher, ours: Ours
    ) -> AbstractContextManager[ResourceManager]:
        nodes = NodesWithUsers(ports)
        under_test = UnderTest(ports, nodes, len(jobs), clock, dispatcher, timings.append, limit_s, charge)
        return under_test.managed_by(name, ours, printed)

    around = Surroundings(
        state_changes(experiment, in_use, nodes, replication),
        SimMonitor(clock, distortions(experiment, replication)),
        rounds(experiment),
        time_shared_experiment.promises_of(experiment),
        admission(in_use),
        trace,
        managed_by,
    )
    scheduler = None
    if not brings_its_manager(name):
        scheduler = guarded(experiment, name, clock, timings.append, trace, charge)
    done = time_shared_experiment.run_shared(
        experiment,
        in_use,
        time_shared_experiment.with_limits(experiment, in_use, jobs, replication),
        name,
        scheduler,
        replication,
        clock,
        around,
    )
    return RunTables.of(
        done.facts.with_columns(point=pl.lit(point, pl.Int32)),
        timings_frame(timings, point, replication, name),
        time_shared_experiment.predictions_frame(done.predictions, point, replication, name),
        time_shared_experiment.local_users_frame(done, point, replication, name),
    )


def timings_frame(timings: list[Timing], point: int, replication: int, name: str) -> pl.DataFrame:
    """What was measured of the decisions of one run, as rows of timings.parquet."""
    rows = [(point, replication, name, *timing) for timing in timings]
    return pl.DataFrame(rows, schema=TIMINGS_SCHEMA, orient="row")


def _run_on_machines(
    experiment: Experiment,
    in_use: SiteInUse,
    point: int,
    replication: int,
    name: str,
    clock: SimClock,
    trace: TraceRecorder,
    timings: list[Timing],
    printed: Path,
) -> None:
    """Raises SchedulerFault."""
    site = in_use.site
    events = EventQueue()
    jobs = workload(experiment, site, in_use.queues, replication)
    truth = actual_runtimes(experiment, in_use, jobs, replication)
    machines = DedicatedMachines(site, truth, events)
    monitor = SimMonitor(clock, distortions(experiment, replication))
    dispatcher = SimDispatcher(clock, events, machines, trace)
    ports = OnMachines(clock, dispatcher, site, monitor, experience(experiment, in_use))
    charge = _charge(experiment, point, replication, name, clock, trace)
    under_test = UnderTest(
        ports,
        SiteMachines(ports, truth),
        len(jobs),
        clock,
        dispatcher,
        timings.append,
        experiment.guard.decision_limit_s,
        charge,
    )

    def with_scheduler() -> MappingManager:
        return scheduling_manager(experiment, in_use, ports, name, timings.append, trace, charge)

    with under_test.managed_by(name, with_scheduler, printed) as manager:
        Harness(
            in_order_of_arrival(jobs),
            manager,
            clock,
            events,
            machines,
            monitor,
            state_changes(experiment, in_use, site.machine_index, replication),
            rounds(experiment),
            trace,
        ).run()


def _charge(
    experiment: Experiment, point: int, replication: int, name: str, clock: SimClock, trace: TraceRecorder
) -> Charge | None:
    cost = decision_cost(experiment.guard.cost_of(name), point, replication, name)
    return None if cost is None else Charge(cost, clock, trace.note_charge)
