"""The composition root: the one place where scheduler, testbed and site database meet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from scheduler import registry
from scheduler.admission import Admission
from scheduler.manager import SchedulingManager
from scheduler.model import ExecutionRecord
from scheduler.ports import Experience, Scheduler
from scheduler.queues import PlannedStarts, PreemptionPolicy
from scheduler.resource_manager import OnMachines
from scheduler.rules import first_violation
from sil.batsim.site_machines import SiteMachines
from sil.experiment.config import Experiment
from sil.experiment.decision_costs import decision_cost
from sil.experiment.places import Places
from sil.experiment.site_in_use import SiteInUse
from sil.experiment.streams import stream
from sil.experiment.surroundings import distortions, rounds, spread, state_changes, workload
from sil.experiment.under_test import UnderTest
from sil.outcome.invariants import first_breach
from sil.outcome.run_tables import RunTables
from sil.outcome.trace import TIMINGS_SCHEMA, TraceRecorder
from sil.world.clock import SimClock
from sil.world.decision_cost import Charge
from sil.world.dispatcher import SimDispatcher
from sil.world.events import EventQueue
from sil.world.faults import SchedulerFault
from sil.world.guard import Check, GuardedScheduler, Timing
from sil.world.harness import Harness, in_order_of_arrival
from sil.world.machines.dedicated import DedicatedMachines
from sil.world.monitors import SimMonitor
from sil.world.truth import TrueTimes


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
        return _run_on_shared_nodes(experiment, in_use, point, replication, name)
    trace = TraceRecorder()
    clock = SimClock()
    timings: list[Timing] = []
    try:
        _run_on_machines(experiment, in_use, point, replication, name, clock, trace, timings, printed)
    except SchedulerFault as fault:
        trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
    facts = trace.frame(point, replication, name)
    breach = first_breach(facts, in_use.site)
    if breach is not None:
        trace.note_fault(clock.now_s, breach.rule, breach.message, breach.job)
        facts = trace.frame(point, replication, name)
    return RunTables.of(facts, _timings_frame(timings, point, replication, name))


def _run_on_shared_nodes(
    experiment: Experiment, in_use: SiteInUse, point: int, replication: int, name: str
) -> RunTables:
    # Compiled code, loaded only where nodes are shared.
    from scheduler.loras.rules import first_violation_on_nodes
    from sil.experiment import shared_experiment
    from sil.experiment.shared_nodes import Surroundings

    clock = SimClock()
    timings: list[Timing] = []
    tasks = shared_experiment.sizes_of_jobs(experiment, in_use)
    nodes = {node: n for n, node in enumerate(Places.of(experiment, in_use).names)}
    trace = TraceRecorder()
    around = Surroundings(
        state_changes(experiment, in_use, nodes, replication),
        SimMonitor(clock, distortions(experiment, replication)),
        rounds(experiment),
        shared_experiment.promises_of(experiment),
        _admission(in_use),
        trace,
    )
    charge = _charge(experiment, point, replication, name, clock, trace)
    jobs = workload(experiment, in_use.site, in_use.queues, replication, tasks)
    done = shared_experiment.run_shared(
        experiment,
        in_use,
        shared_experiment.with_limits(experiment, in_use, jobs, replication),
        name,
        _guarded(name, experiment, clock, timings, charge, trace, first_violation_on_nodes),
        replication,
        clock,
        around,
    )
    return RunTables.of(
        done.facts.with_columns(point=pl.lit(point, pl.Int32)),
        _timings_frame(timings, point, replication, name),
        shared_experiment.predictions_frame(done.predictions, point, replication, name),
        shared_experiment.local_users_frame(done, point, replication, name),
    )


def _timings_frame(timings: list[Timing], point: int, replication: int, name: str) -> pl.DataFrame:
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
    everyone = [len(members) for members in site.members]
    true_times = TrueTimes(
        in_use.experience().estimate(jobs, everyone),
        spread(experiment),
        stream(experiment.seed, replication, "run times").random(len(jobs)),
    )
    machines = DedicatedMachines(site, true_times, events)
    monitor = SimMonitor(clock, distortions(experiment, replication))
    dispatcher = SimDispatcher(clock, events, machines, trace)
    ports = OnMachines(clock, dispatcher, site, monitor, _experience(experiment, in_use))
    charge = _charge(experiment, point, replication, name, clock, trace)
    under_test = UnderTest(
        ports,
        SiteMachines(ports, true_times),
        len(jobs),
        clock,
        dispatcher,
        timings.append,
        experiment.guard.decision_limit_s,
        charge,
    )

    def with_scheduler() -> SchedulingManager:
        schedulers = {
            policy.name: _guarded(own or name, experiment, clock, timings, charge, trace)
            for policy, own in in_use.queues
        }
        return _scheduling_manager(experiment, in_use, ports, schedulers)

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


def _scheduling_manager(
    experiment: Experiment, in_use: SiteInUse, ports: OnMachines, schedulers: Mapping[str, Scheduler]
) -> SchedulingManager:
    return SchedulingManager(
        ports.site,
        [policy for policy, _ in in_use.queues],
        schedulers,
        ports.clock,
        ports.dispatcher,
        ports.monitor,
        ports.experience,
        _admission(in_use),
        PlannedStarts(experiment.planned_starts),
        PreemptionPolicy(experiment.preemption.raised_after, experiment.preemption.least_gain_s),
    )


def _admission(in_use: SiteInUse) -> Admission:
    return Admission([policy for policy, _ in in_use.queues], in_use.users, in_use.only_listed_users)


def _guarded(
    name: str,
    experiment: Experiment,
    clock: SimClock,
    timings: list[Timing],
    charge: Charge | None,
    trace: TraceRecorder,
    check: Check = first_violation,
) -> Scheduler:
    factory = registry.load(name)
    needs_witness = experiment.guard.ask_twice and not registry.is_built_in(name)
    witness = factory() if needs_witness else None
    limit_s = experiment.guard.decision_limit_s
    note_reason = trace.note_reason if experiment.guard.reasons else None
    return GuardedScheduler(
        factory(), clock, limit_s, timings.append, witness, check, charge=charge, note_reason=note_reason
    )


def _charge(
    experiment: Experiment, point: int, replication: int, name: str, clock: SimClock, trace: TraceRecorder
) -> Charge | None:
    cost = decision_cost(experiment.guard.cost_of(name), point, replication, name)
    return None if cost is None else Charge(cost, clock, trace.note_charge)


class _NoLearning:
    """Experience that stays as it was when the run began."""

    def __init__(self, experience: Experience) -> None:
        self.estimate = experience.estimate

    def record(self, record: ExecutionRecord) -> None:
        """Nothing is learned."""


def _experience(experiment: Experiment, in_use: SiteInUse) -> Experience:
    experience = in_use.experience()
    return experience if experiment.experience.learning == "run" else _NoLearning(experience)
