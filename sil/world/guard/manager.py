"""The guard around a resource manager under test that is not built in."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import inf, nan
from typing import Any, TypeVar

from scheduler.model import (
    DispatchOrder,
    Job,
    JobId,
    RunId,
)
from scheduler.node_set import NodeSet
from scheduler.notices import METHOD_OF, JobArrived, Notice, RunEnded
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import (
    COMPLETION_AS_EXPECTED,
    EACH_JOB_ONCE,
    KNOWN_JOB,
    RETURNS_A_SCHEDULE,
    RETURNS_IN_TIME,
)
from sil.world.guard.faults import NoResult, SchedulerFault, one_line
from sil.world.guard.scheduler import Guard
from sil.world.guard.time_limit import TimeLimitExceeded, time_limit
from sil.world.guard.values import LARGEST, Places, bounded, is_finite, is_index, plain_shares, whole

Answer = TypeVar("Answer")


def wake_up_s(value: Any) -> Any:
    """A time at which to wake a manager, as a plain number if it is one; None: never."""
    if value == inf:
        return None
    return float(value) if is_finite(value) else value


class WatchedDispatcher:
    """Passes on the resource manager's orders, if all their values are possible. Stores the first fault, in
    case the caller swallows it."""

    def __init__(self, ports: Ports) -> None:
        self._dispatcher = ports.dispatcher
        self._clock = ports.clock
        self._places = Places(ports)
        self._runs: set[RunId] = set()
        self.arrived: set[JobId] = set()
        """All jobs so far."""
        self._delayed: list[Callable[[], None]] | None = None
        self.fault: SchedulerFault | None = None

    def delay(self) -> None:
        """Delay orders until `release`."""
        self._delayed = []

    def release(self) -> None:
        delayed, self._delayed = self._delayed or [], None
        for carry_out in delayed:
            carry_out()

    def dispatch(self, order: DispatchOrder) -> None:
        if self._delayed is not None:
            self._delayed.append(partial(self.dispatch, order))
            return
        try:
            order = self._checked(order)
            if order.run in self._runs:
                message = f"run {order.run} was ordered twice; each order needs a run id of its own"
                raise SchedulerFault(EACH_JOB_ONCE, message, self._clock.now_s, order.job.id)
            self._runs.add(order.run)
            self._dispatcher.dispatch(order)
        except SchedulerFault as fault:
            self.fault = self.fault or fault
            raise

    def preempt(self, run: RunId) -> None:
        if self._delayed is not None:
            self._delayed.append(partial(self.preempt, run))
        else:
            self._dispatcher.preempt(run)

    def _checked(self, order: DispatchOrder) -> DispatchOrder:
        """The same order of plain values. Raises SchedulerFault for numbers that none can have."""
        now_s, n_places = self._clock.now_s, self._places.n
        try:
            run, job, resource, machines, expected_s, shares = order
            if not isinstance(machines, NodeSet):
                machines = tuple(map(whole, bounded(machines, n_places)))
            run, resource, shares = RunId(whole(run)), whole(resource), plain_shares(shares, n_places)
        except (TypeError, ValueError) as error:
            message = f"an order has parts of the wrong type: {one_line(error)}"
            raise SchedulerFault(RETURNS_A_SCHEDULE, message, now_s) from None
        if not (isinstance(job, Job) and is_index(job.id)):
            message = f"an order is for {one_line(job)}; expected a Job that has arrived"
            raise SchedulerFault(RETURNS_A_SCHEDULE, message, now_s)

        def fault(rule: str, how: str) -> SchedulerFault:
            return SchedulerFault(rule, f"job {job.id} was dispatched {how}", now_s, job.id)

        if not 0 <= run <= LARGEST:
            raise fault(RETURNS_A_SCHEDULE, f"as run {run}; expected a run id from 0 to {LARGEST}")
        if not isinstance(machines, NodeSet) and len(set(machines)) < len(machines):
            raise fault(RETURNS_A_SCHEDULE, f"to {one_line(machines)}; expected each once")
        if job.id not in self.arrived:
            raise fault(KNOWN_JOB, "and has not arrived")
        if not (is_finite(expected_s) and expected_s >= 0.0):
            raise fault(COMPLETION_AS_EXPECTED, f"with an expected time of {one_line(expected_s)} s")
        checked = DispatchOrder(run, job, resource, machines, float(expected_s), shares)
        self._places.check(checked, now_s)
        return checked


class GuardedManager(Manager):
    """A resource manager whose rounds are timed, and whose faults end its run with a report.

    If rounds are charged to simulated time, orders are carried out at the end of a round. Raises
    SchedulerFault if a method raises or exceeds the time limit.
    """

    def __init__(self, make: Callable[[Ports], Manager], ports: Ports, guard: Guard, target: str) -> None:
        """`target` is "module:Class" of the manager that `make` makes, for messages."""
        self._clock = ports.clock
        self._orders = WatchedDispatcher(ports)
        self._n_places = ports.n_places
        self._limit_s = guard.limit_s
        self._fault_of = guard.fault_of
        self._note = guard.note
        self._charge = guard.charge
        self._unfinished = 0
        self._module, _, self._name = target.partition(":")
        self._manager = self._call(make, replace(ports, dispatcher=self._orders), name="__init__")

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        return self._call(lambda: bool(self._manager.wants_round), name="wants_round")

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        at_s: float | None = self._call(lambda: wake_up_s(self._manager.wakes_at_s), name="wakes_at_s")
        if at_s is not None and not is_finite(at_s):
            message = f"{self._name}.wakes_at_s is {one_line(at_s)}; expected a time in seconds, or None"
            raise SchedulerFault(RETURNS_A_SCHEDULE, message, self._clock.now_s)
        return at_s

    def why_waiting(self) -> Mapping[JobId, str]:
        return self._call(self._manager.why_waiting)

    def handle(self, notice: Notice) -> str | None:
        job = notice.job.id if isinstance(notice, JobArrived) else None
        if job is not None:
            self._orders.arrived.add(job)
        self._unfinished -= isinstance(notice, RunEnded)
        method = METHOD_OF[type(notice)]
        refusal = self._call(partial(self._manager.handle, notice), name=method)
        if job is None:
            return None
        if refusal is not None and not isinstance(refusal, str):
            message = (
                f"{self._name}.{method} returned {one_line(refusal)}; expected None, or the reason for "
                f"refusing the job"
            )
            raise SchedulerFault(RETURNS_A_SCHEDULE, message, self._clock.now_s, job)
        self._unfinished += refusal is None
        return None if refusal is None else one_line(refusal)

    def run_round(self) -> None:
        asked_s, wall_s = self._clock.now_s, time.perf_counter()
        if self._charge is not None:
            self._orders.delay()
        self._call(self._manager.run_round)
        wall_s = self._took_s(time.perf_counter() - wall_s)
        self._note((asked_s, self._unfinished, self._n_places, 0, wall_s, nan, nan))
        if self._charge is not None:
            self._charge(self._unfinished, self._n_places, wall_s)
            self._orders.release()

    def _took_s(self, wall_s: float) -> float:
        """Seconds of a round that took `wall_s` here."""
        return wall_s

    def _call(self, method: Callable[..., Answer], *arguments: Any, name: str = "") -> Answer:
        """Call a method of the manager; `name` is for messages, instead of the method's own."""
        name = f"{self._name}.{name or method.__name__}"
        try:
            with time_limit(self._limit_s):
                answer = method(*arguments)
        except (SchedulerFault, NoResult):
            raise
        except TimeLimitExceeded:
            message = f"{name} did not return within {self._limit_s:g} s"
            raise SchedulerFault(RETURNS_IN_TIME, message, self._clock.now_s) from None
        except BaseException as error:
            raise self._fault_of(error, name, self._module) from error
        if self._orders.fault is not None:
            raise self._orders.fault
        return answer
