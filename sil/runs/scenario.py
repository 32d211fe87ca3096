"""A scenario: an experiment on its site, with schedulers and tables resolved into what runs use."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from scheduler import UserError
from scheduler.managers.queues import Admission, in_order_of_service
from scheduler.model import Job
from scheduler.rules import Kind
from sil.isolation.host import Host
from sil.runs import faults
from sil.runs.hosting import Supervision, hosted
from sil.runs.simulation import Disturbances, RunKey, Simulation, SiteModel
from sil.runs.under_test import Find, InProcess, SlurmProgram, UnderTest, resolve, resolve_all
from sil.settings.decision_costs import decision_cost
from sil.settings.experiment_file import (
    AtOnceTable,
    EmpiricalTable,
    EveryQuantumTable,
    ExactTable,
    Experiment,
    VariationTable,
)
from sil.site.resource_names import ResourceNames
from sil.site.site_in_use import SiteInUse
from sil.trace.facts import RunTables, timings_frame
from sil.workload.job_mix import Arrivals, AtOnce, JobMix, Order, Poisson, QueueOrder
from sil.world.actual_runtimes import Empirical, Gamma, Lognormal, Normal, NoSpread, Spread
from sil.world.events import EveryQuantum, OnRequest, RoundPolicy, SimClock
from sil.world.failures import Outage, TimedChange, in_order_of_time, listed_outages
from sil.world.guard.decision_cost import Charge
from sil.world.guard.scheduler import Guard
from sil.world.harness import World
from sil.world.monitors import Distortion, Noisy, Stale
from sil.world.random_streams import RandomStreams
from site_db.files.toml_file import Location

if TYPE_CHECKING:
    from sil.live.loop import LiveWorld

Mistakes = list[tuple[Location, str]]
"""Places in the experiment file, and a sentence about each."""


class DoesNotFit(UserError):
    """An experiment does not fit its site or its schedulers; the message has a line for each mistake."""

    def __init__(self, mistakes: Mistakes) -> None:
        super().__init__("\n".join(sentence for _, sentence in mistakes))
        self.mistakes = mistakes


_VARIATIONS: dict[str, Callable[[float], Spread]] = {"normal": Normal, "lognormal": Lognormal, "gamma": Gamma}
"""Distributions of actual run times with a coefficient of variation, by kind."""


@dataclass(frozen=True)
class Scenario(ABC):
    """One experiment on its site. `experiment` has a grid, or the settings of one point (see `at`)."""

    experiment: Experiment
    in_use: SiteInUse
    schedulers: tuple[UnderTest, ...]
    queue_schedulers: Mapping[str, InProcess] = field(default_factory=dict)
    """By queue, for queues with a scheduler of their own."""

    kind: ClassVar[Kind]
    purpose: ClassVar[str]
    """What schedulers of that kind are needed for, in error messages."""

    @classmethod
    def of(cls, experiment: Experiment, in_use: SiteInUse, find: Find = resolve) -> Self:
        """Raises DoesNotFit with all that does not fit."""
        schedulers, unusable = resolve_all(experiment.schedulers, cls.kind, cls.purpose, find)
        n_runs = experiment.replications * len(experiment.points)
        for scheduler in schedulers:
            why = scheduler.why_not_in_many(f"this experiment has {n_runs}")
            if n_runs > 1 and why is not None:
                unusable[scheduler.label] = why
        mistakes: Mistakes = [
            (("schedulers", name), unusable[name]) for name in experiment.schedulers if name in unusable
        ]
        of_queues, misfits = cls._resolve_queues(experiment, in_use, find)
        scenario = cls(experiment, in_use, schedulers, of_queues)
        mistakes += [*scenario._mistakes(), *misfits]
        if mistakes:
            raise DoesNotFit(mistakes)
        return scenario

    @classmethod
    def _resolve_queues(
        cls, experiment: Experiment, in_use: SiteInUse, find: Find
    ) -> tuple[Mapping[str, InProcess], Mistakes]:
        """The schedulers of single queues, by queue, and the mistakes in their names."""
        return {}, []

    def at(self, point: int) -> Self:
        """With the settings of one point of the grid."""
        return replace(self, experiment=self.experiment.at(point))

    def under_test(self, name: str) -> UnderTest:
        return next(scheduler for scheduler in self.schedulers if scheduler.label == name)

    @property
    @abstractmethod
    def resources(self) -> ResourceNames:
        """The names of what jobs run on."""

    @property
    def model(self) -> dict[str, Any]:
        """How nodes of partitions are modelled, for the description of the runs (`RunDescription`)."""
        return {}

    @property
    def all_schedulers(self) -> tuple[UnderTest, ...]:
        """Those under test, and those of single queues."""
        return (*self.schedulers, *self.queue_schedulers.values())

    def run(self, run: RunKey, log: Path = Path(os.devnull)) -> RunTables:
        """One run. A fault of the scheduler ends it and is its last fact. `log` is the file for the output of
        a scheduler in another process."""
        asked = (self.under_test(run.scheduler), *self.queue_schedulers.values())
        memory_mb = self.experiment.guard.memory_limit_mb
        with hosted(partial(self.carry_out, run), asked, log, memory_mb) as host:
            return self.carry_out(run, host, log)

    def carry_out(self, run: RunKey, host: Host, log: Path = Path(os.devnull)) -> RunTables:
        """See `run`: the same on both sides, where the run counts and where a scheduler answers."""
        decisions: list[float] = []
        site = self.site(run.replication)
        simulation = Simulation(site, self._disturbances(site, run.replication, decisions))
        asking = self.supervision(run, host, simulation.world, decisions)
        simulation.run(self.under_test(run.scheduler), asking, log)
        facts = simulation.checked(run)
        return RunTables.of(facts=facts, timings=timings_frame(decisions, run), **site.tables(run))

    @abstractmethod
    def site(self, replication: int) -> SiteModel:
        """The site with the jobs of a replication."""

    @property
    @abstractmethod
    def places(self) -> Mapping[str, tuple[int, ...]]:
        """The machines by name, in order, and the indices in orders of each: its slots."""

    def notes(self) -> Iterator[str]:
        """Sentences about what is changed or left out, and why."""
        if self.experiment.notional:
            changes = "; ".join(change.text for change in self.experiment.notional)
            yield f"what-if changes of the site: {changes}"

    def streams(self, replication: int) -> RandomStreams:
        return RandomStreams(self.experiment.seed, replication)

    @property
    def arrivals(self) -> Arrivals:
        table = self.experiment.drawn.arrivals
        if isinstance(table, AtOnceTable):
            return AtOnce()
        return Poisson(table.jobs_per_quantum, table.quantum_s)

    @property
    def rounds(self) -> RoundPolicy:
        table = self.experiment.rounds
        if isinstance(table, EveryQuantumTable):
            return EveryQuantum(table.quantum_s)
        return OnRequest(table.least_distance_s)

    @property
    def spread(self) -> Spread:
        """The distribution of actual run times around their mean."""
        table = self.experiment.run_times
        match table:
            case ExactTable():
                return NoSpread()
            case VariationTable():
                return _VARIATIONS[table.kind](table.coefficient_of_variation)
            case EmpiricalTable():
                return Empirical(table.ratios)

    @property
    def admission(self) -> Admission:
        """Who may submit what."""
        policies = [policy for policy, _ in self.in_use.queues]
        return Admission(policies, self.in_use.users, self.in_use.only_listed_users)

    def jobs(self, replication: int) -> list[Job]:
        """The jobs of one replication: the same for every scheduler."""
        table, site = self.experiment.drawn, self.in_use.site
        mix = JobMix(
            classes=table.mix or {job_class.name: 1.0 for job_class in site.job_classes},
            queues=table.queues or {self.in_use.queues[0][0].name: 1.0},
            users=table.users,
            order=Order(table.order),
            queue_order=QueueOrder(table.queue_order),
            sizes=table.sizes,
            tasks=self._tasks(),
        )
        rng = self.streams(replication).of("workload")
        return mix.jobs(table.jobs, self.arrivals, site.job_classes, rng)

    def _tasks(self) -> Mapping[str, Sequence[int]]:
        """By job class, how many tasks its jobs may have."""
        return MappingProxyType({})

    def _distortions(self, replication: int) -> list[Distortion]:
        """The errors of the monitor of machines and interconnects."""
        table = self.experiment.monitors
        distortions: list[Distortion] = []
        if table.misread_share:
            rng = self.streams(replication).of("monitors")
            distortions.append(Noisy(table.misread_share, table.corrected_after_s, rng))
        if table.delay_s:
            distortions.append(Stale(table.delay_s))
        return distortions

    def _disturbances(self, site: SiteModel, replication: int, decisions: list[float]) -> Disturbances:
        """What happens to the site. The cells of measured decisions go to `decisions`."""
        experiment, places, streams = self.experiment, self.places, self.streams(replication)
        table, hindrances, network = experiment.failures, None, None
        if table is not None:
            hindrances = faults.hindrances(table, list(site.jobs), places, streams, site.limit_s)
        if faults.is_remote(experiment):
            settings = faults.RemoteSettings(experiment, places, streams)
            network = partial(settings.manager, self.max_batch_requeue, decisions)
        return Disturbances(
            rounds=self.rounds,
            changes=self.outages({name: n for n, name in enumerate(places)}, replication),
            distortions=self._distortions(replication),
            hindrances=hindrances,
            max_batch_requeue=self.max_batch_requeue,
            remote=network,
        )

    def outages(self, machines: Mapping[str, int], replication: int) -> Iterator[TimedChange]:
        """Failures and repairs of `machines` (index by name) and of interconnects."""
        experiment, in_use = self.experiment, self.in_use
        elsewhere = set(in_use.layout.machines) - machines.keys()
        outages = [
            Outage(machines.get(name, name), 0.0, inf) for name in in_use.down if name not in elsewhere
        ]
        outages += [
            Outage(machines[o.machine] if o.machine else str(o.interconnect), o.from_s, o.to_s)
            for o in experiment.outages
        ]
        outages += [
            Outage(machines[absence.machine], absence.from_s, absence.to_s)
            for absence in in_use.absences
            if absence.machine in machines
        ]
        sources = [listed_outages(outages)]
        if experiment.failures is not None:
            interconnects = [interconnect.name for interconnect in in_use.site.interconnects]
            streams = self.streams(replication)
            sources += faults.at_random(experiment.failures, machines, interconnects, streams)
        return in_order_of_time(*sources)

    @property
    def max_batch_requeue(self) -> int | None:
        """How often a job is requeued after failed runs; None where none fail."""
        table = self.experiment.failures
        return self.experiment.max_batch_requeue if table is not None and table.jobs else None

    def supervision(
        self, run: RunKey, host: Host, world: World | LiveWorld, decisions: list[float]
    ) -> Supervision:
        """How the schedulers of a run are guarded. The cells of measured decisions go to `decisions`."""
        table = self.experiment.guard
        cost = decision_cost(table.cost_of(run.scheduler), run.point, run.replication, run.scheduler)
        charge = None
        if cost is not None and isinstance(world.clock, SimClock):
            charge = Charge(cost, world.clock, world.trace.note_charge)
        log = world.trace if table.reasons else None
        guard = Guard(world.clock, table.decision_limit_s, decisions.extend, charge, log)
        return Supervision(host, guard, self.streams(run.replication).scheduler_seed, table.ask_twice)

    def _mistakes(self) -> Mistakes:
        """What does not fit the site."""
        found = self._unknown_in_workload() if self.experiment.workload is not None else []
        try:
            in_order_of_service([policy for policy, _ in self.in_use.queues])
        except ValueError as error:
            found.append((("queues",) if self.experiment.queues else ("site",), str(error)))
        return found

    def _unknown_in_workload(self) -> Mistakes:
        """Names in the table `workload` that the site does not have."""
        experiment, site = self.experiment, self.in_use.site
        job_classes = [job_class.name for job_class in site.job_classes]
        known = {
            "mix": ("job class", job_classes),
            "queues": ("queue", [queue.name for queue, _ in self.in_use.queues]),
            "sizes": ("job class", job_classes),
        }
        return [
            (
                ("workload", key, name),
                f"the workload names the {what} '{name}', which the site '{site.name}' does not have; it has "
                f"{', '.join(names)}",
            )
            for key, (what, names) in known.items()
            for name in getattr(experiment.drawn, key)
            if name not in names
        ]

    def _unknown_in_failures(self, machines: Collection[str], owner: str) -> Mistakes:
        """What the tables `outages` and `failures` name and the site does not have."""
        found = self._unknown_in_outages(machines, owner)
        found += faults.unknown_machines(self.experiment.messages, machines, owner)
        found += faults.mistakes(self.experiment, self.schedulers)
        table, in_use = self.experiment.failures, self.in_use
        if table is None:
            return found
        classes = [job_class.name for job_class in in_use.site.job_classes]
        if in_use.log is not None:
            classes += sorted(set(in_use.log.job_classes) - set(classes))
        interconnects = in_use.site.interconnects if self.kind is Kind.MAPPING else ()
        found += faults.unknown_names(table, machines, owner, classes, bool(interconnects))
        for scheduler in self.schedulers if table.jobs else ():
            if isinstance(scheduler, SlurmProgram):
                sentence = (
                    f"scheduler '{scheduler.label}': Slurm's controller is not told of runs that fail "
                    f"(failures.jobs); leave out one of the two"
                )
                found.append((("schedulers", scheduler.label), sentence))
        return found

    def _unknown_in_outages(self, machines: Collection[str], owner: str) -> Mistakes:
        names = {"machine": set(machines), "interconnect": {x.name for x in self.in_use.site.interconnects}}
        return [
            (("outages", k, kind), f"{owner} has no {kind} '{name}'")
            for k, outage in enumerate(self.experiment.outages)
            for kind, name in (("machine", outage.machine), ("interconnect", outage.interconnect))
            if name is not None and name not in names[kind]
        ]
