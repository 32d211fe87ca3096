"""The orders of a resource manager behind a network, and the notices that it has had of each run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from scheduler.durability.reliable_delivery import lead_of
from scheduler.model import DispatchOrder, JobId, RunId
from scheduler.notices import RunEnded
from sil.world.guard.values import Places
from sil.world.harness import World
from sil.world.remote.agents import Agents
from sil.world.remote.network import Network


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
    """For how long its machine had answered no ping when it was abandoned."""
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


class Orders:
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
        """By machine: when the manager last received the answer to a ping."""
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

    def _send(self, machine: int, deliver: Callable[[], None]) -> None:
        self._strike()
        self._network.send(machine, deliver)
