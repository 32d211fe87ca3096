"""The scheduling manager of an experiment: its schedulers under watch, who may submit, what is known."""

from __future__ import annotations

from collections.abc import Callable

from scheduler import registry
from scheduler.managers.admission import Admission
from scheduler.managers.mapping import MappingManager
from scheduler.managers.queues import PlannedStarts, PreemptionPolicy
from scheduler.model import ExecutionRecord
from scheduler.ports import Clock, Scheduler
from scheduler.resource_manager import Experience, OnMachines
from sil.settings.experiment_file import Experiment
from sil.site.site_in_use import SiteInUse
from sil.trace.recorder import TraceRecorder
from sil.world.guard.decision_cost import Charge
from sil.world.guard.scheduler import GuardedScheduler, Timing


def scheduling_manager(
    experiment: Experiment,
    in_use: SiteInUse,
    ports: OnMachines,
    name: str,
    note: Callable[[Timing], None],
    trace: TraceRecorder,
    charge: Charge | None = None,
) -> MappingManager:
    """The manager of a site's machines, whatever is behind its ports; `name` is the scheduler of the queues
    that have none of their own."""
    schedulers = {
        policy.name: guarded(experiment, own or name, ports.clock, note, trace, charge)
        for policy, own in in_use.queues
    }
    return MappingManager(
        ports,
        [policy for policy, _ in in_use.queues],
        schedulers,
        admission(in_use),
        PlannedStarts(experiment.planned_starts),
        PreemptionPolicy(experiment.preemption.raised_after, experiment.preemption.least_gain_s),
    )


def admission(in_use: SiteInUse) -> Admission:
    """Who may submit what, at the site."""
    return Admission([policy for policy, _ in in_use.queues], in_use.users, in_use.only_listed_users)


def guarded(
    experiment: Experiment,
    name: str,
    clock: Clock,
    note: Callable[[Timing], None],
    trace: TraceRecorder,
    charge: Charge | None = None,
) -> Scheduler:
    """The scheduler of that name, watched as the experiment says."""
    factory, guard = registry.load(name), experiment.guard
    needs_witness = guard.ask_twice and not registry.is_built_in(name)
    return GuardedScheduler(
        factory(),
        clock,
        guard.decision_limit_s,
        note,
        factory() if needs_witness else None,
        charge=charge,
        notes=trace if guard.reasons else None,
    )


class _NoLearning:
    """Experience that stays as it was when the run began."""

    def __init__(self, experience: Experience) -> None:
        self.estimate = experience.estimate

    def record(self, record: ExecutionRecord) -> None:
        """Nothing is learned."""


def experience(experiment: Experiment, in_use: SiteInUse) -> Experience:
    """What is known of the site when a run begins, and whether the run adds to it."""
    known = in_use.experience()
    return known if experiment.experience.learning == "run" else _NoLearning(known)
