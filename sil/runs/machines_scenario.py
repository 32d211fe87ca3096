"""Runs on the machines and clusters of a site, under the testbed's mapping manager or another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from scheduler.managers.mapping_manager import MappingManager
from scheduler.managers.queues import Gain, PlannedStarts, PreemptionPolicy
from scheduler.model import ExecutionRecord
from scheduler.registry import ON_SINGLE_MACHINES
from scheduler.resource_manager import Experience, OnMachines
from scheduler.rules import Kind
from sil.live.real_events import RealEvents
from sil.outcome.invariants.checker import Capacity
from sil.runs.hosting import Supervision
from sil.runs.scenario import Mistakes, Scenario
from sil.runs.simulation import SiteModel
from sil.runs.under_test import Find, InProcess, resolve_all
from sil.settings.experiment_file import Experiment
from sil.settings.notional import NO_TIME_CHANGES
from sil.site.site_in_use import ResourceNames, SiteInUse
from sil.world.actual_runtimes import ActualRuntimes
from sil.world.events import EventQueue
from sil.world.failures import Hindrances
from sil.world.harness import World
from sil.world.machines.execution import DedicatedMachines
from site_db.files.toml_file import Location
from site_db.site_file.nodes import request_of

if TYPE_CHECKING:
    from sil.batsim.nodes import NumberedNodes


class MachinesScenario(Scenario):
    """A site whose machines run one job at a time in each slot."""

    kind = Kind.MAPPING
    purpose = "an experiment on the machines of a site"
    where = "on machines, of which jobs request no parts"
    without_effect = ("nodes", "policy", "events")
    queues_have_schedulers = True

    @property
    def resources(self) -> ResourceNames:
        in_use = self.in_use
        return ResourceNames(in_use.site.name, in_use.site.resource_names, layout=in_use.layout)

    @property
    def places(self) -> Mapping[str, tuple[int, ...]]:
        layout = self.in_use.layout
        return dict(zip(layout.machines, layout.slots.by_machine, strict=True))

    def site(self) -> SiteModel:
        return Machines(self)

    def notes(self) -> Iterator[str]:
        yield from super().notes()
        for change in self.experiment.notional:
            if change.leaves_times:
                yield f"{change.text}: {NO_TIME_CHANGES}"

    def _mistakes(self) -> Mistakes:
        site = self.in_use.site
        found = super()._mistakes()
        if self.experiment.workload is None:
            which = "log" if self.experiment.log is not None else "history"
            sentence = (
                f"the jobs of a {which} run on nodes, and the site '{site.name}' has no partitions; import "
                f"its slurm.conf (sil db import-slurm-conf), or give the site file [[partitions]]"
            )
            return [*found, ((which,), sentence)]
        found += [*self._without_clusters(), *self._larger_than_slots()]
        return [*found, *self._mistakes_in_faults(self.places, f"the site '{site.name}'")]

    def _larger_than_slots(self) -> Iterator[tuple[Location, str]]:
        """Job classes that request more than one core of one node, at a site of nodes with slots."""
        mix = self.experiment.workload.mix if self.experiment.workload is not None else {}
        for table in self.in_use.file.job_classes:
            request = request_of(table.request)
            is_larger = request.chunks > 1 or request.cores > 1 or request.gpus is not None
            if table.request is not None and is_larger and (not mix or table.name in mix):
                yield (
                    ("schedulers",),
                    f"these schedulers map each job to one slot of a machine, but the job class "
                    f"'{table.name}' requests {request}; use schedulers for free nodes (fcfs, easy, "
                    f"conservative), or leave the class out of workload.mix",
                )
                return

    def _without_clusters(self) -> Iterator[tuple[Location, str]]:
        """Schedulers that would leave jobs waiting forever, since these run only on clusters."""
        site, mix = self.in_use.site, self.experiment.drawn.mix
        machine_classes = {machine.machine_class for machine in site.machines}
        parallel = [
            job_class.name
            for job_class in site.job_classes
            if job_class.clusters
            and machine_classes.isdisjoint(job_class.machine_classes)
            and (not mix or mix.get(job_class.name))
        ]
        if not parallel or self.queue_schedulers:
            return
        for scheduler in self.schedulers:
            if isinstance(scheduler, InProcess) and scheduler.spec.target in ON_SINGLE_MACHINES:
                yield (
                    ("schedulers", scheduler.label),
                    f"scheduler '{scheduler.label}' maps jobs to single machines, but jobs of the class "
                    f"'{parallel[0]}' run only on clusters; use pjs or gsa, or leave the class out of "
                    f"workload.mix",
                )

    @classmethod
    def _resolve_queues(
        cls, experiment: Experiment, in_use: SiteInUse, find: Find
    ) -> tuple[Mapping[str, InProcess], Mistakes]:
        own = {policy.name: (k, name) for k, (policy, name) in enumerate(in_use.queues) if name}
        found, unusable = resolve_all((name for _, name in own.values()), cls.kind, "a queue", find)
        by_name = {
            scheduler.label: scheduler
            for scheduler in found
            if isinstance(scheduler, InProcess) and not scheduler.has_own_queue
        }
        unusable |= {
            name: f"scheduler '{name}' is a whole resource manager; a queue cannot use it"
            for name in (scheduler.label for scheduler in found)
            if name not in by_name
        }
        mistakes: Mistakes = [
            (("queues", k, "scheduler") if experiment.queues else ("site",), unusable[name])
            for k, name in own.values()
            if name in unusable
        ]
        return {queue: by_name[name] for queue, (_, name) in own.items() if name in by_name}, mistakes


class Machines(SiteModel):
    """The machines and clusters of a site, with the jobs of a replication."""

    def __init__(self, scenario: MachinesScenario) -> None:
        self.jobs = scenario.jobs()
        self.n_jobs = len(self.jobs)
        site = self._site = scenario.in_use.site
        self.capacity = Capacity(site.n_machines, names=site.resource_names)
        self._scenario = scenario
        self._actual = ActualRuntimes(*scenario.run_times(self.jobs))

    def machines(self, events: EventQueue, hindrances: Hindrances | None) -> DedicatedMachines:
        if isinstance(events, RealEvents):
            from sil.live.machines import RealMachines

            return RealMachines(events.computer, self._site, self._actual, events)
        slots = [*self._scenario.places.values()]
        return DedicatedMachines(self._site, self._actual, events, slots, hindrances)

    def ports(self, world: World) -> OnMachines:
        known: Experience = self._scenario.in_use.experience()
        if self._scenario.experiment.experience.learning != "run":
            known = _NoLearning(known)
        return OnMachines(world.clock, world.dispatcher, self._site, world.monitor, known)

    def manager(self, ports: OnMachines, scheduler: InProcess, asking: Supervision) -> MappingManager:
        """`scheduler` is for queues that have none of their own."""
        scenario, preemption = self._scenario, self._scenario.experiment.preemption
        policies, own = scenario.policies, scenario.queue_schedulers
        return MappingManager(
            ports,
            policies,
            {policy.name: asking.scheduler(own.get(policy.name, scheduler)) for policy in policies},
            scenario.admission,
            PlannedStarts(scenario.experiment.planned_starts),
            PreemptionPolicy(preemption.raised_after, preemption.least_gain_s, Gain(preemption.gain)),
        )

    def batsim_nodes(self, ports: OnMachines) -> NumberedNodes:
        from sil.batsim.nodes import site_machines

        return site_machines(ports, self._actual.run_s)


class _NoLearning:
    """Experience as it was when the run began."""

    def __init__(self, experience: Experience) -> None:
        self.estimate = experience.estimate

    def record(self, record: ExecutionRecord) -> None: ...
