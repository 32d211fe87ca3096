"""Dedicated machines: one run at a time, undisturbed; what is preempted or lost starts again from zero."""

from __future__ import annotations

from scheduler.model import DispatchOrder, RunId, Site
from scheduler.rules import CLASS_CAN_RUN_THERE, CLUSTER_MEMBERS_FREE, KNOWN_RESOURCE, NO_DOUBLE_BOOKING
from sil.world.actual_runtimes import ActualRuntimes
from sil.world.events import EventQueue, RunEnded
from sil.world.guard.faults import SchedulerFault


class DedicatedMachines:
    """The true state of a site's machines and interconnects.

    A cluster can run a job while it has machines for it and one of its interconnects is up.
    """

    def __init__(self, site: Site, actual_runtimes: ActualRuntimes, events: EventQueue) -> None:
        self._site = site
        self._true_times = actual_runtimes
        self._events = events
        self._run_on: list[RunId | None] = [None] * site.n_machines
        self._outages: dict[int | str, int] = {}
        self._active: dict[RunId, DispatchOrder] = {}

    @property
    def is_idle(self) -> bool:
        return not self._active

    def is_active(self, run: RunId) -> bool:
        return run in self._active

    def has_ended(self, run: RunId, now_s: float) -> bool:
        """The end of a run never moves."""
        return run in self._active

    def give_back(self, run: RunId, now_s: float) -> bool:
        """Machines are held until the end is told."""
        return False

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """What an order needs and finds down: machines, and the interconnects of its cluster if all are."""
        machines = tuple(j for j in order.machines if self._outages.get(j))
        return machines or self._missing_interconnects(order.resource)

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault where an order holds a machine that is busy or not of its resource, or where
        its job cannot run."""
        job, where = order.job.id, self._site.resource_names[order.resource]
        c = order.resource - self._site.n_machines
        belonging = {order.resource} if c < 0 else set(self._site.members[c])
        if not order.machines or not belonging.issuperset(order.machines):
            message = f"job {job} was dispatched to {where} with machines that do not belong to it"
            raise SchedulerFault(KNOWN_RESOURCE, message, now_s, job)
        if not self._true_times.can_run(order.job, order.resource):
            kind = order.job.job_class
            message = f"job {job} was dispatched to {where}, where jobs of class '{kind}' cannot run"
            raise SchedulerFault(CLASS_CAN_RUN_THERE, message, now_s, job)
        for j in order.machines:
            run = self._run_on[j]
            if run is not None:
                rule = NO_DOUBLE_BOOKING if c < 0 else CLUSTER_MEMBERS_FREE
                other, machine = self._active[run].job.id, self._site.resource_names[j]
                message = f"job {job} was dispatched to {where} while job {other} runs on machine {machine}"
                raise SchedulerFault(rule, message, now_s, job)

    def start(self, order: DispatchOrder, now_s: float) -> None:
        """Start a run, and with that know its end."""
        for j in order.machines:
            self._run_on[j] = order.run
        self._active[order.run] = order
        c = order.resource - self._site.n_machines
        share = 1.0 if c < 0 else len(order.machines) / len(self._site.members[c])
        self._events.push(
            now_s + self._true_times.run_s(order.job, order.resource, share), RunEnded(order.run)
        )

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        """End a run, for whatever reason, and free its machines."""
        order = self._active.pop(run)
        for j in order.machines:
            self._run_on[j] = None
        return order

    def change(self, subject: int | str, up: bool) -> bool:
        """A machine or interconnect goes down or comes back. False where another outage hides the change."""
        before = self._outages.get(subject, 0)
        self._outages[subject] = after = before + (-1 if up else 1)
        return (before == 0) != (after == 0)

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        """The active runs that cannot go on now that `subject` is down."""
        if isinstance(subject, int):
            run = self._run_on[subject]
            return [] if run is None else [run]
        return [
            run
            for run, order in self._active.items()
            if subject in self._missing_interconnects(order.resource)
        ]

    def _missing_interconnects(self, resource: int) -> tuple[str, ...]:
        """The interconnects of a cluster, if it has any and all are down."""
        c = resource - self._site.n_machines
        interconnects = self._site.clusters[c].interconnects if c >= 0 else ()
        return interconnects if all(self._outages.get(name) for name in interconnects) else ()
