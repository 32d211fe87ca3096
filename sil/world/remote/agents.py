"""Both ends of an unreliable network: the agents on machines, and the orders of a resource manager."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from scheduler.durability.reliable_delivery import lead_of
from scheduler.model import DispatchOrder, JobId, RunId
from scheduler.ports import (
    MachineAnswered,
    Notice,
    OrderReceived,
    OrderRefused,
    RunEnded,
    RunLost,
    RunPreempted,
)
from sil.trace.facts import Fact
from sil.world.events import MessageDue
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.values import Places
from sil.world.harness import World
from sil.world.remote.network import Network

REPEATED_AFTER_S = 10.0
MAX_S_BETWEEN_REPEATS = 160.0


class Agents:
    """The agents on machines: they start each run at most once, and report that it is over until that is
    acknowledged.

    The agent on the first machine of an order answers for the run. Agents remember the runs that they have
    had, also while their machine is down; then they neither hear nor send. An order that cannot be carried
    out is refused while a run of `doomed`, those that the manager has ordered to stop, still has machines or
    site resources that it needs; else it is a fault of the manager."""

    def __init__(self, world: World, network: Network, tell: Callable[[Notice], str | None]) -> None:
        """`tell` hands a notice over to the resource manager, if it is running."""
        self._clock = world.clock
        self._events = world.events
        self._machines = world.machines
        self._trace = world.trace
        self._network = network
        self._tell = tell
        self.doomed: set[RunId] = set()
        """Runs that the manager has ordered to stop, or abandoned."""
        self._carry_out = world.dispatcher
        self._lead_of: dict[RunId, int] = {}
        """The leading machine of each run that agents have heard of."""
        self.active: dict[RunId, tuple[float, DispatchOrder]] = {}
        """When active runs began, and their orders."""
        self.notices: dict[RunId, Notice] = {}
        """The notices of runs that are over, until acknowledged."""

    def on_order(self, order: DispatchOrder) -> None:
        run, lead = order.run, lead_of(order)
        if self._machines.is_down(lead):
            return
        if run in self._lead_of:
            self._answer(run)
            return
        self._lead_of[run] = lead
        now_s = self._clock.now_s
        try:
            self._machines.check(order, now_s)
        except SchedulerFault as fault:
            if not self._is_waiting_for_a_stop(order):
                raise
            refused, job, resource = Fact.ORDER_REFUSED, order.job.id, order.resource
            self._trace.note(now_s, refused, job=job, run=run, resource=resource, detail=fault.message)
            self._over(run, OrderRefused(run))
            return
        self.active[run] = now_s, order
        self._carry_out.dispatch(order)
        if self._machines.is_active(run):
            self._answer(run)

    def on_stop(self, run: RunId, lead: int) -> None:
        if self._machines.is_down(lead):
            return
        if run not in self._lead_of:
            self._lead_of[run] = lead
            self._over(run, RunPreempted(run))
        elif run in self.active:
            self._carry_out.preempt(run)  # the notice follows as an event
        else:
            self._answer(run)

    def on_acknowledged(self, run: RunId, lead: int) -> None:
        if not self._machines.is_down(lead):
            self.notices.pop(run, None)

    def on_ping(self, machine: int) -> None:
        self._send(machine, partial(self._tell, MachineAnswered(machine)))

    def over(self, notice: RunEnded | RunPreempted | RunLost) -> None:
        """Note that an active run is over in the simulated world."""
        began_s, _ = self.active.pop(notice.run)
        if isinstance(notice, RunEnded):
            notice = notice._replace(ran_s=notice.ended_s - began_s)
        self._over(notice.run, notice)

    def _is_waiting_for_a_stop(self, order: DispatchOrder) -> bool:
        return any(run in self.doomed and _share(order, other) for run, (_, other) in self.active.items())

    def _over(self, run: RunId, notice: Notice) -> None:
        self.notices[run] = notice
        self._repeat(run, REPEATED_AFTER_S)

    def _repeat(self, run: RunId, wait_s: float) -> None:
        if run not in self.notices:
            return
        self._answer(run)
        again = partial(self._repeat, run, min(2.0 * wait_s, MAX_S_BETWEEN_REPEATS))
        self._events.push(self._clock.now_s + wait_s, MessageDue(again))

    def _answer(self, run: RunId) -> None:
        if run in self.notices:
            self._send(self._lead_of[run], partial(self._tell, self.notices[run]))
        elif run in self.active:
            self._send(self._lead_of[run], partial(self._tell, OrderReceived(run)))

    def _send(self, machine: int, deliver: Callable[[], object]) -> None:
        if not self._machines.is_down(machine):
            self._network.send(machine, deliver)


def _share(one: DispatchOrder, other: DispatchOrder) -> bool:
    """Whether two orders are for the same machines, or need the same resources of the whole site."""
    if not frozenset(one.machines).isdisjoint(other.machines):
        return True
    requests = one.job.request, other.job.request
    needed = [set() if request is None else request.site_resources.keys() for request in requests]
    return bool(needed[0] & needed[1])


@dataclass(slots=True)
class Ordered:
    """A run that the manager has ordered, and what else it has ordered for it; times in the world."""

    order: DispatchOrder
    ordered_s: float
    sent_s: float
    """When its order to start was last sent, or the one to stop."""
    is_answered: bool = False
    waited_s: float = 0.0
    """The longest time until an order was sent again, or answered."""
    is_stopped: bool = False
    """An order to stop it was sent before it was abandoned, if it was."""
    abandoned_s: float = inf
    silent_s: float = inf
    """How long its machine had answered no ping when it was abandoned."""
    over_s: float = inf
    """When the manager acknowledged that it is over."""

    def sent(self, now_s: float, stops: bool) -> None:
        """Note that an order to start or to stop is sent."""
        if stops is self.is_stopped:
            self._wait_until(now_s)
        elif stops:
            self.is_stopped, self.is_answered, self.sent_s = True, False, now_s

    def answered(self, now_s: float) -> None:
        self._wait_until(now_s)
        self.is_answered = True

    def _wait_until(self, now_s: float) -> None:
        if not self.is_answered:
            self.waited_s = max(self.waited_s, now_s - self.sent_s)
            self.sent_s = now_s


class AgentDispatcher:
    """The manager's dispatcher. The manager may crash before each order is sent."""

    def __init__(
        self,
        world: World,
        network: Network,
        strike: Callable[[], None],
        agents: Agents,
        places: Places,
        is_known: Callable[[JobId], None],
    ) -> None:
        self._world, self._network, self._agents = world, network, agents
        self._strike, self._places, self._is_known = strike, places, is_known
        self.ordered: dict[RunId, Ordered] = {}
        self._answered_s: dict[int, float] = {}
        """When the manager last received the answer of each machine to a ping."""
        self._given_up: set[JobId] = set()

    def dispatch(self, order: DispatchOrder) -> None:
        now_s = self._world.clock.now_s
        self._places.check(order, now_s)
        self.ordered.setdefault(order.run, Ordered(order, now_s, now_s)).sent(now_s, stops=False)
        self._send(lead_of(order), partial(self._agents.on_order, order))

    def preempt(self, run: RunId) -> None:
        self._agents.doomed.add(run)
        self._stop(run)

    def abandon(self, run: RunId) -> None:
        ordered, now_s = self.ordered[run], self._world.clock.now_s
        if ordered.abandoned_s == inf:
            ordered.answered(now_s)  # from now on, pings decide when to order it to stop
            ordered.abandoned_s = now_s
            ordered.silent_s = now_s - self._answered_s.get(lead_of(ordered.order), -inf)
            self._world.trace.note_abandoned(now_s, ordered.order)
        self.preempt(run)

    def acknowledge(self, run: RunId) -> None:
        ordered, now_s = self.ordered[run], self._world.clock.now_s
        lead = lead_of(ordered.order)
        if isinstance(self._agents.notices.get(run), RunEnded) and ordered.abandoned_s == inf:
            self._is_known(ordered.order.job.id)
        ordered.answered(now_s)
        ordered.over_s = min(ordered.over_s, now_s)
        self._send(lead, partial(self._agents.on_acknowledged, run, lead))

    def note_answer(self, machine: int) -> None:
        """Note that the manager has received the answer to a ping."""
        self._answered_s[machine] = self._world.clock.now_s

    def note_started(self, run: RunId) -> None:
        """Note that the manager knows that a run has started."""
        if not self.ordered[run].is_stopped:
            self.ordered[run].answered(self._world.clock.now_s)

    def give_up(self, job: JobId, why: str) -> None:
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

    def _send(self, machine: int, deliver: Callable[[], None]) -> None:
        self._strike()
        self._network.send(machine, deliver)
