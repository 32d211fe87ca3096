"""The composition root: the one place where scheduler, testbed and site database meet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType

import polars as pl

from scheduler import registry
from scheduler.admission import Admission
from scheduler.manager import SchedulingManager
from scheduler.model import ExecutionRecord, Job, Site
from scheduler.ports import Experience, Scheduler
from scheduler.queues import PlannedStarts, PreemptionPolicy, in_order_of_service
from sil.experiment.config import (
    AtOnceTable,
    EmpiricalTable,
    EveryQuantumTable,
    ExactTable,
    Experiment,
    GammaTable,
    LognormalTable,
    NormalTable,
)
from sil.experiment.places import Places
from sil.experiment.site_in_use import Queues, SiteInUse
from sil.experiment.streams import stream
from sil.outcome.invariants import first_breach
from sil.outcome.run_tables import RunTables
from sil.outcome.trace import TIMINGS_SCHEMA, TraceRecorder
from sil.workload.arrivals import Arrivals, AtOnce, Poisson
from sil.workload.job_mix import JobMix, Order, QueueOrder
from sil.world.clock import SimClock
from sil.world.dispatcher import SimDispatcher
from sil.world.events import EventQueue
from sil.world.failures import Outage, TimedChange, in_order_of_time, listed_outages, random_failures
from sil.world.faults import SchedulerFault
from sil.world.guard import GuardedScheduler, Timing
from sil.world.harness import Harness
from sil.world.machines.dedicated import DedicatedMachines
from sil.world.monitors import Distortion, Noisy, SimMonitor, Stale
from sil.world.rounds import EveryQuantum, OnRequest, RoundPolicy
from sil.world.truth import Empirical, Gamma, Lognormal, Normal, NoSpread, Spread, TrueTimes
from site_db.toml_file import Location


def problems(experiment: Experiment, in_use: SiteInUse) -> Iterator[tuple[Location, str]]:
    """What in an experiment does not fit its site: (place in the experiment file, sentence)."""
    site = in_use.site
    known = {
        "mix": ("job class", [k.name for k in site.job_classes]),
        "queues": ("queue", [queue.name for queue, _ in in_use.queues]),
        "sizes": ("job class", [k.name for k in site.job_classes]),
    }
    for key, (what, names) in known.items():
        for name in getattr(experiment.workload, key):
            if name not in names:
                yield (
                    ("workload", key, name),
                    (
                        f"the workload names the {what} '{name}', which the site '{site.name}' does not "
                        f"have; it has {', '.join(names)}"
                    ),
                )
    try:
        in_order_of_service([policy for policy, _ in in_use.queues])
    except ValueError as error:
        yield ("queues",) if experiment.queues else ("site",), str(error)
    machines: Collection[str] = site.machine_index
    if experiment.shared_nodes is not None:
        from sil.experiment.shared_experiment import problems_on_shared_nodes

        found = list(problems_on_shared_nodes(experiment, in_use))
        yield from found
        if found:
            return
        machines = in_use.shared_cluster(experiment.shared_nodes.cluster).members
    interconnects = [x.name for x in site.interconnects]
    for k, outage in enumerate(experiment.outages):
        name = outage.machine or outage.interconnect
        if name not in (machines if outage.machine else interconnects):
            kind = "machine" if outage.machine else "interconnect"
            where = f"the site '{site.name}'" if machines is site.machine_index else "the shared cluster"
            yield ("outages", k, kind), f"{where} has no {kind} '{name}'"


def misfits(experiment: Experiment, in_use: SiteInUse) -> Iterator[str]:
    """Schedulers that cannot do what the experiment asks, a sentence each."""
    shared = experiment.shared_nodes is not None
    own = () if shared else (own for _, own in in_use.queues if own)
    for name in (*experiment.schedulers, *own):
        on_shared = registry.is_on_shared_nodes(name)
        if shared and on_shared is False:
            few = ", ".join(registry.ON_SHARED_NODES)
            yield f"scheduler '{name}' maps jobs to machines, and here nodes are shared; there are {few}"
        if not shared and on_shared:
            yield (
                f"scheduler '{name}' starts jobs on shared nodes, and the experiment has none; give it a "
                f"table shared_nodes, or use another scheduler"
            )
    if shared:
        from sil.experiment.shared_experiment import cannot_promise

        yield from cannot_promise(experiment)


def notes(experiment: Experiment, in_use: SiteInUse) -> Iterator[str]:
    """What of the experiment is left out, and why: a sentence each."""
    if experiment.shared_nodes is not None:
        from sil.experiment.shared_experiment import cannot_predict

        yield from cannot_predict(experiment)
        for policy, own in in_use.queues:
            if own is not None:
                yield f"the scheduler '{own}' of the queue '{policy.name}' is not used: here nodes are shared"


def workload(
    experiment: Experiment,
    site: Site,
    queues: Queues,
    replication: int,
    tasks: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> list[Job]:
    """The jobs of one replication: the same for every scheduler. `tasks`: how many those of a class may
    have."""
    table = experiment.workload
    mix = JobMix(
        classes=table.mix or {job_class.name: 1.0 for job_class in site.job_classes},
        queues=table.queues or {queues[0][0].name: 1.0},
        users=table.users,
        order=Order(table.order),
        queue_order=QueueOrder(table.queue_order),
        sizes=table.sizes,
        tasks=tasks,
    )
    luck = stream(experiment.seed, replication, "workload")
    return mix.jobs(table.jobs, _arrivals(experiment), site.job_classes, luck)


def run_once(experiment: Experiment, in_use: SiteInUse, point: int, replication: int, name: str) -> RunTables:
    """One run of the harness.

    `experiment` is that of one point, without a grid. A fault of the scheduler ends the run and is its last
    fact.
    """
    if experiment.shared_nodes is not None:
        return _run_on_shared_nodes(experiment, in_use, point, replication, name)
    trace = TraceRecorder()
    timings: list[Timing] = []
    harness, clock = _assemble(experiment, in_use, replication, name, trace, timings)
    try:
        harness.run()
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
    from sil.experiment import shared_experiment
    from sil.experiment.shared_nodes import Surroundings

    clock, timings = SimClock(), []  # type: ignore[var-annotated]
    tasks = shared_experiment.sizes_of_jobs(experiment, in_use)
    nodes = {name: n for n, name in enumerate(Places.of(experiment, in_use).names)}
    around = Surroundings(
        _state_changes(experiment, in_use, nodes, replication),
        SimMonitor(clock, _distortions(experiment, replication)),
        _rounds(experiment),
        shared_experiment.promises_of(experiment),
        _admission(in_use),
    )
    jobs = workload(experiment, in_use.site, in_use.queues, replication, tasks)
    done = shared_experiment.run_shared(
        experiment,
        in_use,
        shared_experiment.with_limits(experiment, in_use, jobs, replication),
        _spread(experiment),
        around,
        replication,
        name,
        timings,
        clock,
    )
    return RunTables.of(
        done.facts.with_columns(point=pl.lit(point, pl.Int32)),
        _timings_frame(timings, point, replication, name),
        shared_experiment.predictions_frame(done.predictions, point, replication, name),
        shared_experiment.local_users_frame(done, point, replication, name),
    )


def _timings_frame(timings: list[Timing], point: int, replication: int, name: str) -> pl.DataFrame:
    rows = [(point, replication, name, t.time_s, t.n_jobs, t.n_resources, t.wall_s, t.cpu_s) for t in timings]
    return pl.DataFrame(rows, schema=TIMINGS_SCHEMA, orient="row")


def _assemble(
    experiment: Experiment,
    in_use: SiteInUse,
    replication: int,
    name: str,
    trace: TraceRecorder,
    timings: list[Timing],
) -> tuple[Harness, SimClock]:
    site = in_use.site
    clock, events = SimClock(), EventQueue()
    jobs = workload(experiment, site, in_use.queues, replication)
    everyone = [len(members) for members in site.members]
    true_times = TrueTimes(
        in_use.experience().estimate(jobs, everyone),
        _spread(experiment),
        stream(experiment.seed, replication, "run times").random(len(jobs)),
    )
    machines = DedicatedMachines(site, true_times, events)
    monitor = SimMonitor(clock, _distortions(experiment, replication))
    manager = SchedulingManager(
        site,
        [policy for policy, _ in in_use.queues],
        {policy.name: _guarded(own or name, experiment, clock, timings) for policy, own in in_use.queues},
        clock,
        SimDispatcher(clock, events, machines, trace),
        monitor,
        _experience(experiment, in_use),
        _admission(in_use),
        PlannedStarts(experiment.planned_starts),
        PreemptionPolicy(experiment.preemption.raised_after, experiment.preemption.least_gain_s),
    )
    changes = _state_changes(experiment, in_use, site.machine_index, replication)
    rounds = _rounds(experiment)
    return Harness(jobs, manager, clock, events, machines, monitor, changes, rounds, trace), clock


def _admission(in_use: SiteInUse) -> Admission:
    return Admission([policy for policy, _ in in_use.queues], in_use.users, in_use.only_listed_users)


def _guarded(name: str, experiment: Experiment, clock: SimClock, timings: list[Timing]) -> Scheduler:
    factory = registry.load(name)
    needs_witness = experiment.guard.ask_twice and not registry.is_built_in(name)
    witness = factory() if needs_witness else None
    return GuardedScheduler(factory(), clock, experiment.guard.decision_limit_s, timings.append, witness)


class _NoLearning:
    """Experience that stays as it was when the run began."""

    def __init__(self, experience: Experience) -> None:
        self.estimate = experience.estimate

    def record(self, record: ExecutionRecord) -> None:
        """Nothing is learned."""


def _experience(experiment: Experiment, in_use: SiteInUse) -> Experience:
    experience = in_use.experience()
    return experience if experiment.experience.learning == "run" else _NoLearning(experience)


def _arrivals(experiment: Experiment) -> Arrivals:
    table = experiment.workload.arrivals
    return AtOnce() if isinstance(table, AtOnceTable) else Poisson(table.jobs_per_quantum, table.quantum_s)


def _rounds(experiment: Experiment) -> RoundPolicy:
    table = experiment.rounds
    if isinstance(table, EveryQuantumTable):
        return EveryQuantum(table.quantum_s)
    return OnRequest(table.least_distance_s)


def _spread(experiment: Experiment) -> Spread:
    table = experiment.run_times
    match table:
        case ExactTable():
            return NoSpread()
        case NormalTable():
            return Normal(table.coefficient_of_variation)
        case LognormalTable():
            return Lognormal(table.coefficient_of_variation)
        case GammaTable():
            return Gamma(table.coefficient_of_variation)
        case EmpiricalTable():
            return Empirical(table.ratios)


def _distortions(experiment: Experiment, replication: int) -> list[Distortion]:
    table = experiment.monitors
    luck = stream(experiment.seed, replication, "monitors")
    noisy: list[Distortion] = [Noisy(table.misread_share, table.corrected_after_s, luck)]
    stale: list[Distortion] = [Stale(table.delay_s)]
    return (noisy if table.misread_share else []) + (stale if table.delay_s else [])


def _state_changes(
    experiment: Experiment, in_use: SiteInUse, machines: Mapping[str, int], replication: int
) -> Iterator[TimedChange]:
    """What of `machines`, and of the interconnects, goes down and comes back."""
    elsewhere = in_use.site.machine_index.keys() - machines.keys()
    outages = [Outage(machines.get(name, name), 0.0, inf) for name in in_use.down if name not in elsewhere]
    outages += [
        Outage(
            machines[outage.machine] if outage.machine else str(outage.interconnect),
            outage.from_s,
            outage.to_s,
        )
        for outage in experiment.outages
    ]
    sources = [listed_outages(outages)]
    if experiment.failures:
        table = experiment.failures
        sources.append(
            random_failures(
                len(machines),
                table.mean_time_between_failures_s,
                table.mean_time_to_repair_s,
                stream(experiment.seed, replication, "failures"),
            )
        )
    return in_order_of_time(*sources)
