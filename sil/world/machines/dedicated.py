"""Dedicated machines: one run at a time in each slot; a run that is preempted or lost starts again from the
beginning."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.model import DispatchOrder, RunId, Site
from scheduler.rules import CLASS_CAN_RUN_THERE, CLUSTER_MEMBERS_FREE, KNOWN_RESOURCE, NO_DOUBLE_BOOKING
from sil.world.actual_runtimes import ActualRuntimes
from sil.world.events import EndDue, EventQueue
from sil.world.failures import Hindrances
from sil.world.guard.faults import SchedulerFault
from sil.world.machines.execution import ExecutionModel


class DedicatedMachines(ExecutionModel):
    """The actual state of a site's machines and interconnects.

    The machines of `site` are slots: `slots` are those of each machine, which go down and come back together.
    A cluster can run jobs while one of its interconnects is up.
    """

    def __init__(
        self,
        site: Site,
        actual_runtimes: ActualRuntimes,
        events: EventQueue,
        slots: Sequence[tuple[int, ...]],
        hindrances: Hindrances | None = None,
    ) -> None:
        super().__init__(hindrances)
        self._site = site
        self._slots = slots
        self._machine_of = {j: machine for machine, of_one in enumerate(slots) for j in of_one}
        self._actual_runtimes = actual_runtimes
        self._events = events
        self._run_on: list[RunId | None] = [None] * site.n_machines
        self._active: dict[RunId, DispatchOrder] = {}

    def down_for(self, order: DispatchOrder) -> tuple[int | str, ...]:
        """All slots of machines, else the interconnects of the cluster if all are down."""
        machines = dict.fromkeys(self._machine_of[j] for j in order.machines) if self._outages else ()
        slots = tuple(j for machine in machines if self._outages.get(machine) for j in self._slots[machine])
        return slots or self._missing_interconnects(order.resource)

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raises SchedulerFault if a machine is busy or not part of the resource, or if the job cannot run
        there."""
        job, where = order.job.id, self._site.resource_names[order.resource]
        c = order.resource - self._site.n_machines
        members = {order.resource} if c < 0 else set(self._site.members[c])
        if not order.machines or not members.issuperset(order.machines):
            message = f"job {job} was dispatched to {where} with machines that do not belong to it"
            raise SchedulerFault(KNOWN_RESOURCE, message, now_s, job)
        if not self._actual_runtimes.can_run(order.job, order.resource):
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
        for j in order.machines:
            self._run_on[j] = order.run
        self._active[order.run] = order
        c = order.resource - self._site.n_machines
        share = 1.0 if c < 0 else len(order.machines) / len(self._site.members[c])
        run_s = self._actual_runtimes.run_s(order.job, order.resource, share)
        self._begin(order, self._hindered_s(order, run_s, now_s), now_s)

    def _begin(self, order: DispatchOrder, run_s: float, now_s: float) -> None:
        self._events.push(now_s + run_s, EndDue(order.run))

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        order = self._active.pop(run)
        for j in order.machines:
            self._run_on[j] = None
        return order

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        if isinstance(subject, int):
            runs = dict.fromkeys(self._run_on[j] for j in self._slots[subject])
            return [run for run in runs if run is not None]
        active = self._active.items()
        return [run for run, order in active if subject in self._missing_interconnects(order.resource)]

    def known_as(self, subject: int | str) -> tuple[int | str, ...]:
        return self._slots[subject] if isinstance(subject, int) else (subject,)

    def is_down(self, place: int) -> bool:
        return self._machine_of[place] in self._outages

    def _missing_interconnects(self, resource: int) -> tuple[str, ...]:
        """The interconnects of a cluster, if it has any and all are down."""
        c = resource - self._site.n_machines
        interconnects = self._site.clusters[c].interconnects if c >= 0 else ()
        return interconnects if all(self._outages.get(name) for name in interconnects) else ()
