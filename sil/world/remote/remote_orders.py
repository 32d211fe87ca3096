"""The dispatcher of a resource manager behind a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from scheduler.dependable.reliable_delivery import lead_of
from scheduler.model import ON_NODES, DispatchOrder, JobId, RunId
from scheduler.resource_manager import OnMachines, Ports
from scheduler.rules import KNOWN_RESOURCE
from sil.world.guard.faults import SchedulerFault
from sil.world.harness import World
from sil.world.remote.agents import Agents
from sil.world.remote.network import Network
from sil.world.remote.ordered import Ordered


@dataclass(frozen=True)
class Sender:
    """Sends orders to agents; `strike` raises ManagerCrashed if the manager crashes before one leaves."""

    network: Network
    agents: Agents
    strike: Callable[[], None]

    def send(self, machine: int, deliver: Callable[[], None]) -> None:
        self.strike()
        self.network.send(machine, deliver)


class RemoteOrders:
    """The manager's dispatcher. Its process may end before each order leaves."""

    def __init__(
        self,
        world: World,
        ports: Ports,
        sender: Sender,
        doomed: set[RunId],
        is_known: Callable[[JobId], None],
    ) -> None:
        """Runs that are told to stop are added to `doomed`; `is_known` is told of jobs that the manager knows
        to be over."""
        self._world = world
        self._send = sender.send
        self._strike = sender.strike
        self._agents = sender.agents
        self._doomed = doomed
        self._resources, self._n_machines = _resources(ports), ports.n_places
        self._is_known = is_known
        self.ordered: dict[RunId, Ordered] = {}
        self._answered_s: dict[int, float] = {}
        """By machine: when the manager last received the answer to a ping."""
        self._given_up: set[JobId] = set()

    def dispatch(self, order: DispatchOrder) -> None:
        machines = order.machines
        if (
            order.resource not in self._resources
            or not machines
            or not 0 <= min(machines) <= max(machines) < self._n_machines
        ):
            message = f"job {order.job.id} was dispatched to machines that the site does not have"
            raise SchedulerFault(KNOWN_RESOURCE, message, self._world.clock.now_s, order.job.id)
        now_s = self._world.clock.now_s
        self.ordered.setdefault(order.run, Ordered(order, now_s, now_s)).sent(now_s, stops=False)
        self._send(lead_of(order), partial(self._agents.on_order, order))

    def preempt(self, run: RunId) -> None:
        if self.ordered[run].abandoned_s == inf:
            self._doomed.add(run)
        self._stop(run)

    def abandon(self, run: RunId) -> None:
        ordered, now_s = self.ordered[run], self._world.clock.now_s
        if ordered.abandoned_s == inf:
            ordered.answered(now_s)  # from now on, pings decide when it is told to stop
            ordered.abandoned_s = now_s
            ordered.silent_s = now_s - self._answered_s.get(lead_of(ordered.order), -inf)
            self._doomed.discard(run)
            self._world.trace.note_abandoned(now_s, ordered.order)
        self._stop(run)

    def acknowledge(self, run: RunId) -> None:
        ordered, now_s = self.ordered[run], self._world.clock.now_s
        lead = lead_of(ordered.order)
        if self._agents.has_ended(run) and ordered.abandoned_s == inf:
            self._is_known(ordered.order.job.id)
        ordered.answered(now_s)
        ordered.over_s = min(ordered.over_s, now_s)
        self._send(lead, partial(self._agents.on_acknowledged, run, lead))

    def note_answer(self, machine: int) -> None:
        """The manager has received the answer to a ping."""
        self._answered_s[machine] = self._world.clock.now_s

    def note_started(self, run: RunId) -> None:
        """The manager knows that a run has started."""
        if not self.ordered[run].is_stopped:
            self.ordered[run].answered(self._world.clock.now_s)

    def give_up(self, job: JobId, why: str) -> None:
        """Tell the user of a job that it is not run again."""
        self._strike()
        if job not in self._given_up:
            self._given_up.add(job)
            self._world.dispatcher.give_up(job, why)
            self._is_known(job)

    def ping(self, machine: int) -> None:
        self._send(machine, partial(self._agents.on_ping, machine))

    def _stop(self, run: RunId) -> None:
        ordered = self.ordered[run]
        if ordered.abandoned_s == inf:
            ordered.sent(self._world.clock.now_s, stops=True)
        lead = lead_of(ordered.order)
        self._send(lead, partial(self._agents.on_stop, run, lead))


def _resources(ports: Ports) -> range:
    """Those that orders may name."""
    if isinstance(ports, OnMachines):
        return range(len(ports.site.resource_names))
    return range(ON_NODES, ON_NODES + 1)
