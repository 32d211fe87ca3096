"""A resource manager that is not built in: its process sends the result and the orders of each call to the
judging side, which carries the orders out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from operator import index
from time import perf_counter
from typing import Any

from scheduler.model import (
    DispatchOrder,
    Job,
    JobId,
    RunId,
)
from scheduler.notices import METHOD_OF, JobArrived, Notice, RunEnded
from scheduler.ports import Dispatcher
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import KNOWN_JOB, RETURNS_A_SCHEDULE
from sil.isolation.answers import packed_orders, unpacked_orders
from sil.workers.channel import BadMessage, Message
from sil.world.guard.faults import TESTBED_UNTOUCHED, SchedulerFault, one_line
from sil.world.guard.manager import GuardedManager, wake_up_s
from sil.world.guard.values import is_finite, is_index

BYTES = 1 << 26
"""Limit of the size of what one call orders and returns."""

MOST_WAITING = 1 << 16
"""Jobs whose reasons for waiting are read; messages name the first."""


def diverged(now_s: float) -> SchedulerFault:
    """The fault of a scheduler in whose process other questions are asked than where the run counts."""
    text = "its process diverged from the run; does it change objects or modules of the testbed?"
    return SchedulerFault(TESTBED_UNTOUCHED, text, now_s)


RUN_ROUND = "run_round"


class _Passing(Manager):
    """Passes all calls on to `_called`: what is read, or the method of a notice, by name; and the notice."""

    took_s = 0.0
    """Seconds of the last call."""

    @abstractmethod
    def _called(self, method: str, notice: Notice | None = None) -> Any: ...

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        return bool(self._called("wants_round"))

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        found: float | None = self._called("wakes_at_s")
        return found

    def why_waiting(self) -> Mapping[JobId, str]:
        return {JobId(job): one_line(reason) for job, reason in self._called("why_waiting")}

    def handle(self, notice: Notice) -> str | None:
        refusal: str | None = self._called(METHOD_OF[type(notice)], notice)
        return refusal

    def run_round(self) -> None:
        self._called(RUN_ROUND)


class SelfTimedManager(GuardedManager):
    """The guard of a manager that says how long its rounds took."""

    _manager: _Passing

    def _took_s(self, wall_s: float) -> float:
        return self._manager.took_s


class Answering(_Passing):
    """In the manager's process."""

    def __init__(
        self, make: Callable[[Ports], Manager], ports: Ports, send: Callable[[Message], None]
    ) -> None:
        self._clock = ports.clock
        self._n_places = ports.n_places
        self._send = send
        self._wall_time = perf_counter  # kept from before the manager is imported
        self._orders = _NotedOrders(ports.dispatcher)
        self._manager = make(replace(ports, dispatcher=self._orders))

    def _called(self, method: str, notice: Notice | None = None) -> Any:
        began_s = self._wall_time()
        result = self._result(method, notice)
        if method == "wakes_at_s" and not (result is None or is_finite(result)):
            return result  # the guard says what is wrong with it
        if isinstance(notice, JobArrived) and not isinstance(result, str | None):
            return result
        self.took_s = self._wall_time() - began_s
        orders = packed_orders(self._orders.taken(), self._n_places)
        asked = self._clock.now_s
        fields = {"method": method, "asked": asked, "took": self.took_s, "result": result, "orders": orders}
        self._send(Message(fields))
        return result

    def _result(self, method: str, notice: Notice | None) -> Any:
        """What the manager returns, as plain values where it can be."""
        manager = self._manager
        if notice is not None:
            result = manager.handle(notice)
            if not isinstance(notice, JobArrived):
                return None
            return one_line(result) if isinstance(result, str) else result
        if method == RUN_ROUND:
            return manager.run_round()
        if method == "wants_round":
            return bool(manager.wants_round)
        if method == "wakes_at_s":
            return wake_up_s(manager.wakes_at_s)
        first = islice(manager.why_waiting().items(), MOST_WAITING)
        reasons = [[int(index(job)), one_line(reason)] for job, reason in first]
        return [[job, reason] for job, reason in reasons if is_index(job)]


class Followed(_Passing):
    """Where the run counts. `receive` receives what the manager's process sends, up to a number of bytes."""

    def __init__(self, ports: Ports, receive: Callable[[int], Message]) -> None:
        self._clock = ports.clock
        self._dispatcher = ports.dispatcher
        self._receive = receive
        self._job_of: dict[int, Job] = {}
        self._job_in: dict[RunId, int] = {}

    def handle(self, notice: Notice) -> str | None:
        if isinstance(notice, JobArrived):
            self._job_of[notice.job.id] = notice.job
        refusal = super().handle(notice)
        if refusal is not None and isinstance(notice, JobArrived):
            del self._job_of[notice.job.id]
        if isinstance(notice, RunEnded):
            self._job_of.pop(self._job_in.pop(notice.run, -1), None)
        return refusal

    def _called(self, method: str, notice: Notice | None = None) -> Any:
        now_s = self._clock.now_s
        fields = self._receive(BYTES).fields
        if fields.get("method") != method or fields.get("asked") != now_s:
            raise diverged(now_s)
        try:
            self.took_s = float(fields.get("took", "missing"))
            orders = unpacked_orders(fields.get("orders"), self._job_of)
        except KeyError as error:
            text = f"job {error} was started, which has not arrived or has ended"
            raise SchedulerFault(KNOWN_JOB, text, now_s) from None
        except (BadMessage, TypeError, ValueError) as error:
            text = f"what {method} has ordered cannot be read: {one_line(error)}"
            raise SchedulerFault(RETURNS_A_SCHEDULE, text, now_s) from None
        for order in orders:
            if isinstance(order, DispatchOrder):
                self._job_in[order.run] = order.job.id
                self._dispatcher.dispatch(order)
            else:
                self._dispatcher.preempt(order)
        return fields.get("result")


class _NotedOrders:
    """Passes orders on, and remembers those of the current call."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._noted: list[DispatchOrder | RunId] = []

    def taken(self) -> list[DispatchOrder | RunId]:
        noted, self._noted = self._noted, []
        return noted

    def dispatch(self, order: DispatchOrder) -> None:
        self._noted.append(order)
        self._dispatcher.dispatch(order)

    def preempt(self, run: RunId) -> None:
        self._noted.append(run)
        self._dispatcher.preempt(run)
