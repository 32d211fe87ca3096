"""A scenario: an experiment on its site, with schedulers and tables resolved into what runs use."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from scheduler import UserError
from scheduler.managers.queues import Admission, QueuePolicy, in_order_of_service
from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Job
from scheduler.rules import Kind
from sil.isolation.host import Host
from sil.live.real_events import RealEvents, Shared
from sil.outcome.statistics import Sample
from sil.runs import faults
from sil.runs.hosting import Supervision, hosted
from sil.runs.simulation import Disturbances, RunKey, SiteModel, SiteRun
from sil.runs.under_test import NO_PROGRAM, Find, InProcess, Refused, UnderTest, resolve, resolve_all
from sil.settings.experiment_file import (
    EmpiricalTable,
    Experiment,
    PoissonTable,
    VariationTable,
    changed_keys,
    read_experiment,
)
from sil.settings.faults import FailuresTable
from sil.settings.time_shared_table import KindTable
from sil.site.site_in_use import ResourceNames, SiteInUse
from sil.site.what_if_times import with_uncertainty
from sil.trace.facts import RunTables, timings_frame
from sil.workers.executor import FIRST, Attempt
from sil.workload.arrivals import JobMix, Order, Poisson, QueueOrder
from sil.world.actual_runtimes import Empirical, RandomStreams, Spread, Variation
from sil.world.events import Rounds
from sil.world.failures import Checkpoints, Outage, TimedChange, in_order_of_time, listed_outages
from sil.world.monitors import Distortion, Noisy, Stale
from site_db.files import toml_file
from site_db.files.input_errors import InvalidFile
from site_db.files.toml_file import Location

if TYPE_CHECKING:
    from sil.live.computer import Computer

Mistakes = list[tuple[Location, str]]
"""Places in the experiment file, and a sentence about each."""

MAX_NAMES = 10
"""The most names in a message."""
NO_FILE = Path(os.devnull)


class DoesNotFit(UserError):
    """An experiment does not fit its site or its schedulers; the message has a line for each mistake."""

    def __init__(self, mistakes: Mistakes) -> None:
        super().__init__("\n".join(sentence for _, sentence in mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True)
class Scenario(ABC):
    """One experiment on its site. `experiment` has a grid, or the settings of one point (see `at`)."""

    experiment: Experiment
    in_use: SiteInUse
    schedulers: tuple[UnderTest, ...]
    queue_schedulers: Mapping[str, InProcess] = field(default_factory=dict)
    """The schedulers of the queues, or of the clusters of several, that have their own."""
    replication: int = 0
    place: int = 0
    """Its number, if it is one of several clusters."""
    submitted: Sequence[Job] | None = None
    """The jobs, if they are not those of its own workload."""
    computer: Computer | None = None
    """The computer in place of simulated machines."""

    kind: ClassVar[Kind]
    purpose: ClassVar[str]
    """What schedulers of that kind are needed for, in error messages."""
    where: ClassVar[str]
    """Where jobs run, in error messages."""
    without_effect: ClassVar[tuple[str, ...]] = ()
    """Settings that are refused, since they have no effect there."""
    refused: ClassVar[Refused] = NO_PROGRAM
    """Programs that cannot be used there."""
    queues_have_schedulers: ClassVar[bool] = False
    """Whether a queue may have a scheduler of its own."""

    @classmethod
    def of(cls, experiment: Experiment, in_use: SiteInUse, find: Find = resolve) -> Self:
        """Resolve an experiment at its site. Raises DoesNotFit with all that does not fit."""
        schedulers, unusable = resolve_all(experiment.schedulers, cls.kind, cls.purpose, find, cls.refused)
        n_runs = experiment.replications * len(experiment.points)
        for scheduler in schedulers if n_runs > 1 else ():
            if (why := scheduler.why_not_in_many(f"this experiment has {n_runs}")) is not None:
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

    def at(self, point: int, replication: int = 0) -> Self:
        """One replication with the settings of one point of the grid."""
        experiment, in_use = self.experiment.at(point), self.in_use.at(point)
        return replace(self, experiment=experiment, in_use=in_use, replication=replication)

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
    def places(self) -> Mapping[str, tuple[int, ...]]:
        """The machines by name, in order, and the indices in orders of each: its slots, or itself."""
        return {name: (n,) for n, name in enumerate(self.resources.names)}

    @abstractmethod
    def site(self) -> SiteModel:
        """The site with the jobs of this replication, for one run."""

    def run(self, run: RunKey, log: Path = NO_FILE, attempt: Attempt = FIRST) -> RunTables:
        """One run. A fault of the scheduler ends it and is its last fact. `log` is the file for the output of
        a scheduler in another process."""
        here = self.at(run.point, run.replication)
        asked = (self.under_test(run.scheduler), *self.queue_schedulers.values())
        memory_mb = self.experiment.guard.memory_limit_mb
        with hosted(partial(here._carry_out, run), asked, log, memory_mb, attempt) as host:
            return here._carry_out(run, host, log)

    def _carry_out(self, run: RunKey, host: Host, log: Path = NO_FILE) -> RunTables:
        decisions: list[float] = []
        simulation = self.simulation(host, decisions)
        seed = self.streams.scheduler_seed
        asking = Supervision.of(self.experiment.guard, run, host, simulation.world, decisions, seed)
        simulation.run(simulation.managed(self.under_test(run.scheduler), asking, log), host)
        facts = simulation.checked(run)
        return RunTables.of(facts=facts, timings=timings_frame(decisions, run), **simulation.site.tables(run))

    def simulation(self, host: Host, decisions: list[float]) -> SiteRun:
        """One run, as a simulation if it is not live. Measured decisions are added to `decisions`."""
        site, real = self.site(), self.computer
        events = RealEvents(Shared(real, host)) if real is not None else None
        return SiteRun(site, self.disturbances(site, decisions), events=events)

    def notes(self) -> Iterator[str]:
        """Sentences about what is down, changed or left out, and why."""
        for policy, own in () if self.queues_have_schedulers else self.in_use.queues:
            if own is not None:
                one = f"{self.where}, one scheduler serves all queues"
                yield f"the scheduler '{own}' of the queue '{policy.name}' is not used: {one}"
        if down := self.in_use.down:
            more = f" and {len(down) - MAX_NAMES} more" if len(down) > MAX_NAMES else ""
            names = ", ".join(down[:MAX_NAMES]) + more
            yield f"down at the site, and in the experiment from its beginning: {names}"
        if self.experiment.notional:
            changes = "; ".join(change.text for change in self.experiment.notional)
            yield f"what-if changes of the site: {changes}"

    @property
    def checkpoints(self) -> Checkpoints | None:
        """The checkpoints that all jobs take."""
        interval_s, cost_s = self.experiment.checkpoint_interval_s, self.experiment.checkpoint_cost_s
        return None if interval_s is None else Checkpoints(interval_s, cost_s)

    @property
    def streams(self) -> RandomStreams:
        return RandomStreams(self.experiment.seed, self.replication, self.place)

    @property
    def spread(self) -> Spread:
        """The distribution of actual run times around their mean."""
        table = self.experiment.run_times
        if isinstance(table, VariationTable):
            return Variation(table.kind, table.coefficient_of_variation)
        return Empirical(table.ratios) if isinstance(table, EmpiricalTable) else Variation()

    @property
    def policies(self) -> Sequence[QueuePolicy]:
        """The policies of the queues."""
        return [policy for policy, _ in self.in_use.queues]

    @property
    def admission(self) -> Admission:
        """Who may submit what."""
        return Admission(self.policies, self.in_use.users, self.in_use.only_listed_users)

    def jobs(self) -> list[Job]:
        """The jobs of this replication: the same for every scheduler."""
        if self.submitted is not None:
            return list(self.submitted)
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
        come = table.arrivals
        arrivals = None
        if isinstance(come, PoissonTable):
            arrivals = Poisson(come.jobs_per_quantum, come.quantum_s)
        return mix.jobs(table.jobs, arrivals, site.job_classes, self.streams.of("workload"))

    def with_limits(
        self, jobs: list[Job], times: tuple[float, float], of: Callable[[Job], float | None]
    ) -> list[Job]:
        """The jobs with turnaround limits: what `of` says of each, times a factor drawn from this range."""
        factors = self.streams.of("limits").uniform(*times, len(jobs)).tolist()
        least_s = map(of, jobs)
        return [
            job if time_s is None else job._replace(limit_s=factor * time_s)
            for job, time_s, factor in zip(jobs, least_s, factors, strict=True)
        ]

    def run_times(self, jobs: Sequence[Job]) -> tuple[EtcMatrix, Spread, Sample]:
        """The mean run times of jobs on each resource, and the spread around them, with the quantile of each
        job."""
        in_use = self.in_use
        mean = in_use.expected_times(jobs)
        if in_use.uncertainty:
            rng = self.streams.of("imagined times")
            mean = with_uncertainty(mean, jobs, in_use.layout, in_use.uncertainty, rng)
        return mean, self.spread, self.streams.of("run times").random(len(jobs))

    def _tasks(self) -> Mapping[str, Sequence[int]]:
        return MappingProxyType({})

    def disturbances(self, site: SiteModel, decisions: list[float]) -> Disturbances:
        """What happens to the site. For `decisions` see `simulation`."""
        experiment, places, streams = self.experiment, self.places, self.streams
        rounds, monitors = experiment.rounds, experiment.monitors
        failures = experiment.failures or FailuresTable()
        most = experiment.max_batch_requeue if failures.jobs else None
        distortions: list[Distortion] = []
        if monitors.misread_share:
            rng = streams.of("monitors")
            distortions.append(Noisy(monitors.misread_share, monitors.corrected_after_s, rng))
        if monitors.delay_s:
            distortions.append(Stale(monitors.delay_s))
        network = None
        if faults.is_remote(experiment):
            network = partial(faults.RemoteSettings(experiment, places, streams).manager, most, decisions)
        return Disturbances(
            rounds=Rounds(**rounds.model_dump(include={"quantum_s", "least_distance_s"})),
            changes=self.outages({name: n for n, name in enumerate(places)}),
            distortions=distortions,
            hindrances=faults.hindrances(failures, site, places, streams, self.checkpoints),
            max_batch_requeue=most,
            remote=network,
        )

    def outages(self, machines: Mapping[str, int]) -> Iterator[TimedChange]:
        """Failures and repairs of `machines` (index by name) and of interconnects."""
        experiment, in_use = self.experiment, self.in_use
        elsewhere = set(in_use.layout.machines) - machines.keys()
        outages = [Outage(machines.get(x, x), 0.0, inf) for x in in_use.down if x not in elsewhere]
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
            sources += faults.at_random(experiment.failures, machines, interconnects, self.streams)
        return in_order_of_time(*sources)

    def _mistakes_in_faults(self, machines: Collection[str], owner: str) -> Iterator[tuple[Location, str]]:
        """The mistakes in the tables of faults, see `faults.mistakes`. Jobs need interconnects where they run
        on clusters."""
        has_lines = self.kind is Kind.MAPPING
        return faults.mistakes(self.experiment, self.in_use, self.schedulers, machines, owner, has_lines)

    def _without_effect(self) -> Mistakes:
        experiment, refused = self.experiment, self.without_effect
        tables = tuple(f"{key}." for key in refused)
        places = [tuple(key.split(".")) for key in changed_keys(experiment, refused)]
        places += [("grid", key) for key in experiment.grid if f"{key}.".startswith(tables)]
        return [(place, f"{'.'.join(place)} has no effect {self.where}; leave it out") for place in places]

    def _mistakes(self) -> Mistakes:
        experiment, site = self.experiment, self.in_use.site
        job_classes = [job_class.name for job_class in site.job_classes]
        known = {
            "mix": ("job class", job_classes),
            "queues": ("queue", [queue.name for queue, _ in self.in_use.queues]),
            "sizes": ("job class", job_classes),
        }
        found: Mistakes = [
            (
                ("workload", key, name),
                f"the workload names the {what} '{name}', which the site '{site.name}' does not have; it has "
                f"{', '.join(names)}",
            )
            for key, (what, names) in known.items()
            for name in (getattr(experiment.workload, key) if experiment.workload is not None else ())
            if name not in names
        ] + self._without_effect()
        try:
            in_order_of_service([policy for policy, _ in self.in_use.queues])
        except ValueError as error:
            found.append((("queues",) if experiment.queues else ("site",), str(error)))
        return found


def scenario_of(experiment: Experiment, in_use: SiteInUse, find: Find = resolve) -> Scenario:
    """The scenario for the kind of site. `find` finds the schedulers under test by name. Raises DoesNotFit
    with everything that does not fit the site or the schedulers."""
    names = [table.scenario for _, table in experiment if isinstance(table, KindTable)]
    if experiment.clusters:
        names = ["sil.runs.several_clusters:SeveralClusters"]
    if not names and in_use.has_nodes and not _maps_to_slots(experiment, in_use, find):
        names = ["sil.runs.nodes_scenario:NodesScenario"]
    # Classes are loaded when they are used, since they import this module.
    scenario: type[Scenario] = resolve_name([*names, "sil.runs.machines_scenario:MachinesScenario"][0])
    return scenario.of(experiment, in_use, find)


def _maps_to_slots(experiment: Experiment, in_use: SiteInUse, find: Find) -> bool:
    """Whether the schedulers map jobs to machines, and the site declares slots for them."""
    if all(group.slots == 1 for group in in_use.file.machines):
        return False
    schedulers, unusable = resolve_all(experiment.schedulers, Kind.MAPPING, "slots", find)
    return not unusable and all(isinstance(s, InProcess) and s.spec.kind is Kind.MAPPING for s in schedulers)


def scenario_of_file(
    experiment: Experiment, in_use: SiteInUse, source: Path, find: Find = resolve
) -> Scenario:
    """The scenario of an experiment that was read from `source`, perhaps with other schedulers. Raises
    InvalidFile with everything that does not fit, with the lines of what the file has."""
    try:
        return scenario_of(experiment, in_use, find)
    except DoesNotFit as error:
        in_file = [("schedulers", name) for name in read_experiment(source).schedulers]
        found: dict[bool, Mistakes] = {True: [], False: []}
        for place, sentence in error.mistakes:
            is_in_file = len(place) != 2 or place[0] != "schedulers" or place in in_file
            found[is_in_file].append((place, sentence))
        given = [sentence for _, sentence in found[False]]  # by an option, or in Python
        raise InvalidFile(*given, *toml_file.located(source, found[True])) from None
