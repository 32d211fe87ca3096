"""The machines' side of an unreliable network: an agent on each machine."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import Any, Protocol

from scheduler.dependable.reliable_delivery import lead_of
from scheduler.model import Completion, DispatchOrder, RunId
from sil.trace.facts import Fact
from sil.world.events import MessageDue
from sil.world.guard.faults import SchedulerFault
from sil.world.harness import World
from sil.world.remote.network import Network

REPEATED_AFTER_S = 10.0
MOST_S_BETWEEN_REPEATS = 160.0


class Tell(Protocol):
    """Call a method of the resource manager, if it is running."""

    def __call__(self, method: str, *arguments: Any) -> None: ...


class Agents:
    """Start each run at most once, and report that it is over until that is acknowledged.

    The agent on the first machine of an order answers for the run. Agents remember the runs that they have
    had, also while their machine is down; then they neither hear nor send. An order for machines that are in
    use is refused as long as a run of `doomed`, those that the manager has told to stop, has not stopped; if
    there is none, it is a fault of the manager.
    """

    def __init__(
        self,
        world: World,
        network: Network,
        tell: Tell,
        doomed: Container[RunId],
    ) -> None:
        self._clock = world.clock
        self._events = world.events
        self._machines = world.machines
        self._trace = world.trace
        self._network = network
        self._tell = tell
        self._doomed = doomed
        self._carry_out = world.dispatcher
        self._lead_of: dict[RunId, int] = {}
        """Of all runs that agents have heard of."""
        self._began_s: dict[RunId, float] = {}
        """Of active runs."""
        self._notices: dict[RunId, tuple[str, Any]] = {}
        """Of runs that are over: the method of the manager and its argument, until acknowledged."""

    @property
    def n_active(self) -> int:
        return len(self._began_s)

    def has_ended(self, run: RunId) -> bool:
        """Whether a run has ended by itself, and the manager may not know it."""
        return self._notices.get(run, ("",))[0] == "on_run_ended"

    def on_order(self, order: DispatchOrder) -> None:
        run, lead = order.run, lead_of(order)
        if self._machines.is_down(lead):
            return
        if run in self._lead_of:
            self._answer(run)
            return
        self._lead_of[run] = lead
        self._began_s[run] = self._clock.now_s
        try:
            self._carry_out.dispatch(order)
        except SchedulerFault as fault:
            if not any(active in self._doomed for active in self._began_s):
                raise
            now_s = self._clock.now_s
            self._trace.note(
                now_s,
                Fact.ORDER_REFUSED,
                job=order.job.id,
                run=run,
                resource=order.resource,
                detail=fault.message,
            )
            del self._began_s[run]
            self._over(run, "on_order_refused", run)
            return
        if self._machines.is_active(run):
            self._answer(run)

    def on_stop(self, run: RunId, lead: int) -> None:
        if self._machines.is_down(lead):
            return
        if run not in self._lead_of:
            self._lead_of[run] = lead
            self._over(run, "on_run_preempted", run)
        elif run in self._began_s:
            self._carry_out.preempt(run)  # the notice follows as an event
        else:
            self._answer(run)

    def on_acknowledged(self, run: RunId, lead: int) -> None:
        if not self._machines.is_down(lead):
            self._notices.pop(run, None)

    def on_ping(self, machine: int) -> None:
        self._send(machine, partial(self._tell, "on_answer", machine))

    def over(self, run: RunId, method: str, notice: Any) -> None:
        """An active run is over, in the simulated world."""
        began_s = self._began_s.pop(run)
        if isinstance(notice, Completion):
            notice = notice._replace(ran_s=notice.ended_s - began_s)
        self._over(run, method, notice)

    def _over(self, run: RunId, method: str, notice: Any) -> None:
        self._notices[run] = method, notice
        self._repeat(run, REPEATED_AFTER_S)

    def _repeat(self, run: RunId, wait_s: float) -> None:
        if run not in self._notices:
            return
        self._answer(run)
        again = partial(self._repeat, run, min(2.0 * wait_s, MOST_S_BETWEEN_REPEATS))
        self._events.push(self._clock.now_s + wait_s, MessageDue(again))

    def _answer(self, run: RunId) -> None:
        if run in self._notices:
            self._send(self._lead_of[run], partial(self._tell, *self._notices[run]))
        elif run in self._began_s:
            self._send(self._lead_of[run], partial(self._tell, "on_order_received", run))

    def _send(self, machine: int, deliver: Callable[[], None]) -> None:
        if not self._machines.is_down(machine):
            self._network.send(machine, deliver)
