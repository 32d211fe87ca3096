"""The composition root: the one place where scheduler, testbed and site database meet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from sqlalchemy.orm import Session

from scheduler import registry
from scheduler.etc import EtcMatrix
from scheduler.manager import SchedulingManager
from scheduler.model import ExecutionRecord, Job, Site
from scheduler.ports import Experience, Scheduler
from scheduler.queues import MappingPolicy, QueuePolicy, in_order_of_service
from sil.experiment import files
from sil.experiment.config import (
    AtOnceTable,
    EveryQuantumTable,
    ExactTable,
    Experiment,
)
from sil.experiment.streams import stream
from sil.outcome.invariants import first_breach
from sil.outcome.trace import TIMINGS_SCHEMA, Fact, TraceRecorder
from sil.workload.arrivals import Arrivals, AtOnce, Poisson
from sil.workload.job_mix import JobMix, Order
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
from sil.world.truth import Lognormal, NoSpread, Spread, TrueTimes
from site_db import exchange, sites, store
from site_db.exchange import QueueTable
from site_db.experience import SqlExperience
from site_db.toml_file import Location

Queues = tuple[tuple[QueuePolicy, str | None], ...]


@dataclass(frozen=True)
class SiteInUse:
    """A site as one experiment uses it; `database` is the file with its experience."""

    site: Site
    queues: Queues
    expected: EtcMatrix
    """What the site's staff gave; the true mean times of the simulated machines. Row c is job class c."""
    database: Path


def import_site(experiment: Experiment, folder: Path, database: Path) -> SiteInUse:
    """Make the site database of an experiment; relative paths in the experiment start at `folder`.

    Raises InvalidFile where the site file is missing or wrong.
    """
    file = exchange.read_site_file(files.find(experiment.site, "sites", folder))
    engine = store.create(database)
    with Session(engine) as session, session.begin():
        sites.add_site(session, file)
    engine.dispose()
    return open_site(experiment, database, file.name)


def open_site(experiment: Experiment, database: Path, name: str) -> SiteInUse:
    """A site that is in a database, with the queues of the experiment if it has any of its own."""
    engine = store.open_file(database)
    with Session(engine) as session:
        queues = [(_policy(table), table.scheduler) for table in experiment.queues]
        queues = queues or sites.load_queues(session, name) or [(QueuePolicy(), None)]
        in_use = SiteInUse(
            sites.load_site(session, name),
            tuple(queues),
            sites.load_expected_times(session, name),
            database,
        )
    engine.dispose()
    return in_use


def _policy(table: QueueTable) -> QueuePolicy:
    return QueuePolicy(
        table.name,
        table.priority,
        None if table.users is None else frozenset(table.users),
        frozenset(table.displaces),
        MappingPolicy(table.mapping),
    )


def problems(experiment: Experiment, in_use: SiteInUse) -> Iterator[tuple[Location, str]]:
    """What in an experiment does not fit its site: (place in the experiment file, sentence)."""
    site = in_use.site
    known = {
        "mix": ("job class", [k.name for k in site.job_classes]),
        "queues": ("queue", [queue.name for queue, _ in in_use.queues]),
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
    interconnects = [x.name for x in site.interconnects]
    for k, outage in enumerate(experiment.outages):
        name = outage.machine or outage.interconnect
        if name not in (site.machine_index if outage.machine else interconnects):
            kind = "machine" if outage.machine else "interconnect"
            yield ("outages", k, kind), f"the site '{site.name}' has no {kind} '{name}'"


def workload(experiment: Experiment, site: Site, queues: Queues, replication: int) -> list[Job]:
    """The jobs of one replication: the same for every scheduler."""
    table = experiment.workload
    mix = JobMix(
        classes=table.mix or {job_class.name: 1.0 for job_class in site.job_classes},
        queues=table.queues or {queues[0][0].name: 1.0},
        users=table.users,
        order=Order(table.order),
    )
    luck = stream(experiment.seed, replication, "workload")
    return mix.jobs(table.jobs, _arrivals(experiment), site.job_classes, luck)


def run_once(
    experiment: Experiment, in_use: SiteInUse, point: int, replication: int, name: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One run of the harness: its facts (columns of the trace) and its timings.

    `experiment` is that of one point, without a grid. A fault of the scheduler ends the run and is its last
    fact.
    """
    trace = TraceRecorder()
    timings: list[Timing] = []
    harness, clock = _assemble(experiment, in_use, replication, name, trace, timings)
    try:
        harness.run()
    except SchedulerFault as fault:
        _note_fault(trace, fault)
    facts = trace.frame(point, replication, name)
    breach = first_breach(facts, in_use.site)
    if breach is not None:
        _note_fault(trace, SchedulerFault(breach.rule, breach.message, clock.now_s, breach.job))
        facts = trace.frame(point, replication, name)
    rows = [(point, replication, name, t.time_s, t.n_jobs, t.n_resources, t.wall_s, t.cpu_s) for t in timings]
    return facts, pl.DataFrame(rows, schema=TIMINGS_SCHEMA, orient="row")


def _note_fault(trace: TraceRecorder, fault: SchedulerFault) -> None:
    trace.note(fault.time_s, Fact.FAULT, job=fault.job, detail=fault.rule, message=fault.message)


def _assemble(
    experiment: Experiment,
    in_use: SiteInUse,
    replication: int,
    name: str,
    trace: TraceRecorder,
    timings: list[Timing],
) -> tuple[Harness, SimClock]:
    site = in_use.site
    clock, events, machines = SimClock(), EventQueue(), DedicatedMachines(site)
    jobs = workload(experiment, site, in_use.queues, replication)
    true_times = TrueTimes(
        in_use.expected,
        {job_class.name: c for c, job_class in enumerate(site.job_classes)},
        _spread(experiment),
        stream(experiment.seed, replication, "run times").random(len(jobs)),
    )
    monitor = SimMonitor(clock, _distortions(experiment, replication))
    manager = SchedulingManager(
        site,
        [policy for policy, _ in in_use.queues],
        {policy.name: _guarded(own or name, experiment, clock, timings) for policy, own in in_use.queues},
        clock,
        SimDispatcher(clock, events, machines, true_times, trace),
        monitor,
        _experience(experiment, in_use),
    )
    changes = _state_changes(experiment, site, replication)
    rounds = _rounds(experiment)
    return Harness(jobs, manager, clock, events, machines, monitor, changes, rounds, trace), clock


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
    learns = experiment.experience.learning == "run"
    engine = store.private_copy(in_use.database) if learns else store.open_file(in_use.database)
    experience = SqlExperience(engine, in_use.site.name)
    return experience if learns else _NoLearning(experience)


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
    return NoSpread() if isinstance(table, ExactTable) else Lognormal(table.coefficient_of_variation)


def _distortions(experiment: Experiment, replication: int) -> list[Distortion]:
    table = experiment.monitors
    luck = stream(experiment.seed, replication, "monitors")
    noisy: list[Distortion] = [Noisy(table.misread_share, table.corrected_after_s, luck)]
    stale: list[Distortion] = [Stale(table.delay_s)]
    return (noisy if table.misread_share else []) + (stale if table.delay_s else [])


def _state_changes(experiment: Experiment, site: Site, replication: int) -> Iterator[TimedChange]:
    outages = [
        Outage(
            site.machine_index[outage.machine] if outage.machine else str(outage.interconnect),
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
                site.n_machines,
                table.mean_time_between_failures_s,
                table.mean_time_to_repair_s,
                stream(experiment.seed, replication, "failures"),
            )
        )
    return in_order_of_time(*sources)
