"""The guard around a resource manager under test that is not built in: in this process, or in another one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from math import inf, nan
from operator import index
from time import perf_counter
from typing import Any, TypeVar

from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.node_set import NodeSet
from scheduler.ports import METHOD_OF, JobArrived, Notice, RunEnded
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import (
    COMPLETION_AS_EXPECTED,
    EACH_JOB_ONCE,
    KNOWN_JOB,
    MAKES_PROGRESS,
    RETURNS_A_SCHEDULE,
    RETURNS_IN_TIME,
)
from sil.world.guard.decision_time import TimeLimitExceeded, time_limit
from sil.world.guard.faults import SchedulerFault, one_line
from sil.world.guard.scheduler import Guard
from sil.world.guard.values import LARGEST, Places, bounded, is_finite, is_index, plain_shares, whole

Answer = TypeVar("Answer")

Called = tuple[Any, list[DispatchOrder | RunId], float]
"""What a call of a manager returned, as a plain value where it can be one, its orders, and its seconds."""

MAX_ORDERS = 1 << 20
"""The most orders of one call."""

MAX_WAITING = 1 << 16
"""The most jobs whose reasons for waiting are read; messages name the first."""

WANTS_ROUND, WAKES_AT_S, WHY_WAITING, RUN_ROUND = "wants_round", "wakes_at_s", "why_waiting", "run_round"


class Orders:
    """The orders of a call of a resource manager: noted, and then checked whether all their values are
    possible."""

    def __init__(self, ports: Ports) -> None:
        self._clock = ports.clock
        self._places = Places(ports)
        self._job_of: dict[RunId, JobId] = {}
        self.jobs: dict[int, Job] = {}
        """The jobs that have arrived and not ended."""
        self._noted: list[tuple[bool, Any]] = []

    def dispatch(self, order: DispatchOrder) -> None:
        self.note(True, order)

    def preempt(self, run: RunId) -> None:
        self.note(False, run)

    def taken(self) -> list[DispatchOrder | RunId]:
        """The orders since the last call, with plain values. Raises SchedulerFault for orders with impossible
        ones, and TypeError and ValueError for a run to be preempted."""
        noted, self._noted = self._noted, []
        if len(noted) > MAX_ORDERS:
            raise self._too_many()  # again: the manager may have caught it
        return [self._checked(each) if starts else RunId(whole(each)) for starts, each in noted]

    def ended(self, run: RunId) -> None:
        self.jobs.pop(self._job_of.get(run, JobId(-1)), None)

    def note(self, starts: bool, order: object) -> None:
        if len(self._noted) <= MAX_ORDERS:
            self._noted.append((starts, order))
        if len(self._noted) > MAX_ORDERS:
            raise self._too_many()

    def _too_many(self) -> SchedulerFault:
        message = f"it gave more than {MAX_ORDERS:,} orders at once"
        return SchedulerFault(MAKES_PROGRESS, message, self._clock.now_s)

    def _checked(self, order: DispatchOrder) -> DispatchOrder:
        now_s, n_places = self._clock.now_s, self._places.n
        try:
            run, job, resource, machines, expected_s, shares = order
            if isinstance(machines, NodeSet):  # maybe of a subclass, whose code runs here for the last time
                ends = [(whole(first), whole(last)) for first, last in bounded(machines.intervals, n_places)]
                machines = NodeSet.parse(" ".join(f"{first}-{last}" for first, last in ends))
            else:
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
        if job.id not in self.jobs:
            raise fault(KNOWN_JOB, "and has not arrived, or has ended")
        if not (is_finite(expected_s) and expected_s >= 0.0):
            raise fault(COMPLETION_AS_EXPECTED, f"with an expected time of {one_line(expected_s)} s")
        checked = DispatchOrder(run, job, resource, machines, float(expected_s), shares)
        self._places.check(checked, now_s)
        if run in self._job_of:
            message = f"run {run} was ordered twice; each order needs a run id of its own"
            raise SchedulerFault(EACH_JOB_ONCE, message, now_s, job.id)
        self._job_of[run] = job.id
        return checked


class GuardedManager(Manager):
    """A resource manager whose rounds are timed, and whose faults end its run with a report.

    Its orders are carried out after the call that gives them; those of a round whose cost is charged to
    simulated time, at the end of that.
    """

    def __init__(self, ports: Ports, guard: Guard, target: str) -> None:
        """`target` is "module:Class" of the manager, for messages."""
        self._clock = ports.clock
        self._dispatcher = ports.dispatcher
        self._n_places = ports.n_places
        self._note, self._charge = guard.note, guard.charge
        self._orders = Orders(ports)
        self._name = target.partition(":")[2]

    @abstractmethod
    def _call(self, method: str, notice: Notice | None) -> Called:
        """Read an attribute of the manager, or call its method for a notice or a round. Raises
        SchedulerFault."""

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        return bool(self._called(WANTS_ROUND))

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        at_s: float | None = self._called(WAKES_AT_S)
        return at_s

    def why_waiting(self) -> Mapping[JobId, str]:
        return {JobId(job): one_line(reason) for job, reason in self._called(WHY_WAITING)}

    def handle(self, notice: Notice) -> str | None:
        if isinstance(notice, JobArrived):
            self._orders.jobs[notice.job.id] = notice.job
        refusal: str | None = self._called(METHOD_OF[type(notice)], notice)
        if isinstance(notice, JobArrived) and refusal is not None:
            del self._orders.jobs[notice.job.id]
        elif isinstance(notice, RunEnded):
            self._orders.ended(notice.run)
        return refusal

    def run_round(self) -> None:
        asked_s, n_jobs = self._clock.now_s, len(self._orders.jobs)
        _, orders, took_s = self._call(RUN_ROUND, None)
        if self._charge is None:
            self._carry_out(orders)
        self._note((asked_s, n_jobs, self._n_places, 0, took_s, nan, nan))
        if self._charge is not None:
            self._charge(n_jobs, self._n_places, took_s)
            self._carry_out(orders)

    def _valid(self, method: str, notice: Notice | None, result: Any) -> Any:
        """What a call returns. Raises SchedulerFault for what it cannot return."""
        job, verb, expected = None, "is", "a time in seconds, or None"
        is_valid = method != WAKES_AT_S or result is None or is_finite(result)
        if isinstance(notice, JobArrived):
            job, verb, expected = notice.job.id, "returned", "None, or the reason for refusing the job"
            is_valid = isinstance(result, str | None)
        if not is_valid:
            message = f"{self._name}.{method} {verb} {one_line(result)}; expected {expected}"
            raise SchedulerFault(RETURNS_A_SCHEDULE, message, self._clock.now_s, job)
        return one_line(result) if isinstance(result, str) else result

    def _called(self, method: str, notice: Notice | None = None) -> Any:
        result, orders, _ = self._call(method, notice)
        self._carry_out(orders)
        return result

    def _carry_out(self, orders: list[DispatchOrder | RunId]) -> None:
        for order in orders:
            if isinstance(order, DispatchOrder):
                self._dispatcher.dispatch(order)
            else:
                self._dispatcher.preempt(order)


class ManagerHere(GuardedManager):
    """A manager in this process. Raises SchedulerFault if a method raises or exceeds the time limit."""

    def __init__(self, make: Callable[[Ports], Manager], ports: Ports, guard: Guard, target: str) -> None:
        super().__init__(ports, guard, target)
        self._limit_s = guard.limit_s
        self._fault_of = guard.fault_of
        self._module = target.partition(":")[0]
        self._wall_time = perf_counter  # kept from before the manager is imported
        self._manager = self._limited("__init__", lambda: make(replace(ports, dispatcher=self._orders)))

    def _call(self, method: str, notice: Notice | None) -> Called:
        began_s = self._wall_time()

        def call() -> tuple[Any, list[DispatchOrder | RunId]]:
            result = self._result(method, notice)
            return self._valid(method, notice, result), self._orders.taken()

        result, orders = self._limited(method, call)
        return result, orders, self._wall_time() - began_s

    def _result(self, method: str, notice: Notice | None) -> Any:
        manager = self._manager
        if notice is not None:
            refusal = manager.handle(notice)
            return refusal if isinstance(notice, JobArrived) else None
        if method == RUN_ROUND:
            return manager.run_round()
        if method == WANTS_ROUND:
            return bool(manager.wants_round)
        if method == WAKES_AT_S:
            at_s: Any = manager.wakes_at_s
            return None if at_s == inf else float(at_s) if is_finite(at_s) else at_s
        first = islice(manager.why_waiting().items(), MAX_WAITING)
        reasons = [(int(index(job)), one_line(reason)) for job, reason in first]
        return [(job, reason) for job, reason in reasons if is_index(job)]

    def _limited(self, method: str, call: Callable[[], Answer]) -> Answer:
        name = f"{self._name}.{method}"
        try:
            with time_limit(self._limit_s):
                return call()
        except SchedulerFault:
            raise
        except TimeLimitExceeded:
            message = f"{name} did not return within {self._limit_s:g} s"
            raise SchedulerFault(RETURNS_IN_TIME, message, self._clock.now_s) from None
        except BaseException as error:
            raise self._fault_of(error, name, self._module) from error
