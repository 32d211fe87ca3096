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

from scheduler.model import Completion, DispatchOrder, Job, JobId, Loss, RunId
from scheduler.ports import Dispatcher
from scheduler.resource_manager import Ports, ResourceManager
from scheduler.rules import KNOWN_JOB, RETURNS_A_SCHEDULE
from sil.isolation.answers import packed_orders, unpacked_orders
from sil.isolation.channel import BadMessage, Message
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


class _ByMethod(ResourceManager):
    """Passes all calls on to `_called`, with the name of the method."""

    took_s = 0.0
    """Seconds of the last call."""

    @abstractmethod
    def _called(self, method: str, *arguments: Any) -> Any: ...

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        return bool(self._called("wants_round"))

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        found: float | None = self._called("wakes_at_s")
        return found

    def why_waiting(self) -> Mapping[JobId, str]:
        return {JobId(job): one_line(reason) for job, reason in self._called("why_waiting")}

    def on_job_arrived(self, job: Job) -> str | None:
        refusal: str | None = self._called("on_job_arrived", job)
        return refusal

    def on_run_ended(self, completion: Completion) -> None:
        self._called("on_run_ended", completion)

    def on_run_released(self, run: RunId) -> None:
        self._called("on_run_released", run)

    def on_run_preempted(self, run_id: RunId) -> None:
        self._called("on_run_preempted", run_id)

    def on_run_lost(self, loss: Loss) -> None:
        self._called("on_run_lost", loss)

    def on_monitor_news(self) -> None:
        self._called("on_monitor_news")

    def on_time_passed(self) -> None:
        self._called("on_time_passed")

    def run_round(self) -> None:
        self._called("run_round")


class SelfTimedManager(GuardedManager):
    """The guard of a manager that says how long its rounds took."""

    _manager: _ByMethod

    def _took_s(self, wall_s: float) -> float:
        return self._manager.took_s


class Answering(_ByMethod):
    """In the manager's process."""

    def __init__(
        self, make: Callable[[Ports], ResourceManager], ports: Ports, send: Callable[[Message], None]
    ) -> None:
        self._clock = ports.clock
        self._n_places = ports.n_places
        self._send = send
        self._wall_time = perf_counter  # kept from before the manager is imported
        self._orders = _NotedOrders(ports.dispatcher)
        self._manager = make(replace(ports, dispatcher=self._orders))

    def _called(self, method: str, *arguments: Any) -> Any:
        began_s = self._wall_time()
        found = getattr(self._manager, method)
        result = found(*arguments) if callable(found) else found
        if method == "why_waiting":
            first = islice(result.items(), MOST_WAITING)
            result = [[int(index(job)), one_line(reason)] for job, reason in first]
            result = [[job, reason] for job, reason in result if is_index(job)]
        elif method == "wants_round":
            result = bool(result)
        elif method == "wakes_at_s":
            result = wake_up_s(result)
            if not (result is None or is_finite(result)):
                return result  # the guard says what is wrong with it
        elif method == "on_job_arrived":
            if not isinstance(result, str | None):
                return result
            result = None if result is None else one_line(result)
        else:
            result = None
        self.took_s = self._wall_time() - began_s
        orders = packed_orders(self._orders.taken(), self._n_places)
        asked = self._clock.now_s
        fields = {"method": method, "asked": asked, "took": self.took_s, "result": result, "orders": orders}
        self._send(Message(fields))
        return result


class Followed(_ByMethod):
    """Where the run counts. `receive` receives what the manager's process sends, up to a number of bytes."""

    def __init__(self, ports: Ports, receive: Callable[[int], Message]) -> None:
        self._clock = ports.clock
        self._dispatcher = ports.dispatcher
        self._receive = receive
        self._job_of: dict[int, Job] = {}
        self._job_in: dict[RunId, int] = {}

    def on_job_arrived(self, job: Job) -> str | None:
        self._job_of[job.id] = job
        refusal = super().on_job_arrived(job)
        if refusal is not None:
            del self._job_of[job.id]
        return refusal

    def on_run_ended(self, completion: Completion) -> None:
        super().on_run_ended(completion)
        self._job_of.pop(self._job_in.pop(completion.run, -1), None)

    def _called(self, method: str, *arguments: Any) -> Any:
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
