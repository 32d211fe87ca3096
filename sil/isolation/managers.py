"""A resource manager that is not built in: its process sends the result and the orders of each call to the
judging side, which carries the orders out."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.model import DispatchOrder, JobId
from scheduler.notices import Notice
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import KNOWN_JOB, RETURNS_A_SCHEDULE
from sil.isolation.answers import packed_orders, unpacked_orders
from sil.workers.channel import BadMessage, Message
from sil.world.guard.faults import TESTBED_UNTOUCHED, SchedulerFault, one_line
from sil.world.guard.manager import WHY_WAITING, Called, GuardedManager, ManagerHere
from sil.world.guard.scheduler import Guard
from sil.world.guard.values import whole

BYTES = 1 << 26
"""Limit of the size of what one call orders and returns."""


def diverged(now_s: float) -> SchedulerFault:
    """The fault of a scheduler in whose process other questions are asked than where the run counts."""
    text = "its process diverged from the run; does it change objects or modules of the testbed?"
    return SchedulerFault(TESTBED_UNTOUCHED, text, now_s)


class Answering(ManagerHere):
    """In the manager's process."""

    def __init__(
        self,
        make: Callable[[Ports], Manager],
        ports: Ports,
        guard: Guard,
        target: str,
        send: Callable[[Message], None],
    ) -> None:
        super().__init__(make, ports, guard, target)
        self._send = send

    def _call(self, method: str, notice: Notice | None) -> Called:
        result, orders, took_s = super()._call(method, notice)
        rows, asked = packed_orders(orders), self._clock.now_s
        fields = {"method": method, "asked": asked, "took": took_s, "result": result, "orders": rows}
        self._send(Message(fields))
        return result, orders, took_s


class Followed(GuardedManager):
    """Where the run counts. `receive` receives what the manager's process sends, up to a number of bytes."""

    def __init__(self, receive: Callable[[int], Message], ports: Ports, guard: Guard, target: str) -> None:
        super().__init__(ports, guard, target)
        self._receive = receive

    def _call(self, method: str, notice: Notice | None) -> Called:
        now_s = self._clock.now_s
        fields = self._receive(BYTES).fields
        if fields.get("method") != method or fields.get("asked") != now_s:
            raise diverged(now_s)
        try:
            result, took_s = fields.get("result"), float(fields.get("took", "missing"))
            if method == WHY_WAITING:
                result = [(JobId(whole(job)), reason) for job, reason in result or ()]
            for order in unpacked_orders(fields.get("orders"), self._orders.jobs):
                self._orders.note(isinstance(order, DispatchOrder), order)
            return self._valid(method, notice, result), self._orders.taken(), took_s
        except KeyError as error:
            text = f"job {error} was started, which has not arrived or has ended"
            raise SchedulerFault(KNOWN_JOB, text, now_s) from None
        except (BadMessage, TypeError, ValueError) as error:
            text = f"what {method} has ordered cannot be read: {one_line(error)}"
            raise SchedulerFault(RETURNS_A_SCHEDULE, text, now_s) from None
