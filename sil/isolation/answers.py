"""Answers as bytes: numbers and strings in JSON, and columns of numbers behind it; never objects.

What a scheduler returns is read in its own process, so that no method of its classes runs where it is judged.
There, types and sizes of what arrives are checked; whether it is a good answer is left to the rules. So it is
with the orders of resource managers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.model import (
    Answer,
    Assignments,
    DispatchOrder,
    Job,
    JobId,
    NodeSchedule,
    RunId,
    Schedule,
    Share,
    Start,
)
from scheduler.node_set import NodeSet
from scheduler.ports import Notice
from scheduler.problem import SchedulingProblem
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import KNOWN_JOB, RETURNS_A_SCHEDULE, AllOthers, in_detail
from sil.workers.channel import BadMessage, Message
from sil.world.guard.faults import MAX_TEXT, TESTBED_UNTOUCHED, SchedulerFault, one_line
from sil.world.guard.manager import WHY_WAITING, Called, GuardedManager, ManagerHere
from sil.world.guard.scheduler import Guard
from sil.world.guard.values import LARGEST, bounded, finite, plain_shares, whole

_INTEGER = np.dtype("<i8")
_FLOAT = np.dtype("<f8")
_COLUMNS = (_INTEGER, _INTEGER, _FLOAT, _FLOAT)
"""The types of the columns of assignments: job, resource, start and completion."""


def packed_answer(problem: SchedulingProblem, answer: object, with_details: bool) -> Message:
    """An answer to a problem; its wait reasons in detail, if so asked. Raises SchedulerFault for an answer
    that is malformed, and what the scheduler's own objects raise."""
    try:
        if isinstance(answer, Schedule):
            return _packed_schedule(answer, problem.n_jobs, with_details)
        if isinstance(answer, NodeSchedule):
            return _packed_node_schedule(answer, problem, with_details)
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        why = f"its parts have the wrong type: {one_line(error)}"
    else:
        why = f"schedule(problem) returned {type(answer).__name__}, expected a schedule"
    violation = problem.violation(answer)
    if violation is not None:
        raise SchedulerFault.of(violation, problem.now_s)
    raise SchedulerFault(RETURNS_A_SCHEDULE, why, problem.now_s)


def unpacked_answer(message: Message, n_jobs: int) -> Answer:
    """The answer to a problem with `n_jobs` jobs. Raises BadMessage."""
    fields, columns = message
    reasons = fields.get("waiting")
    try:
        if "again" in fields:
            starts = [_start(row) for row in _listed(fields["starts"])]
            again_s = None if fields["again"] is None else finite(fields["again"])
            return NodeSchedule(starts, _unpacked_reasons(reasons, n_jobs, starts), again_s)
        assignments = _unpacked_assignments(columns)
        preemptions = tuple(RunId(whole(run)) for run in _listed(fields["preempted"]))
        return Schedule(assignments, _unpacked_reasons(reasons, n_jobs, ()), preemptions)
    except (KeyError, TypeError, ValueError) as error:
        raise BadMessage(f"its parts have the wrong type ({one_line(error)})") from None


def packed_orders(orders: Iterable[DispatchOrder | RunId]) -> list[list[Any]]:
    """Orders of plain values to dispatch jobs, and to preempt runs."""
    return [
        [order.run, order.job.id, order.resource, _packed_nodes(order.machines), *order[4:]]
        if isinstance(order, DispatchOrder)
        else [order]
        for order in orders
    ]


def unpacked_orders(rows: object, job_of: Mapping[int, Job]) -> list[DispatchOrder | RunId]:
    """The orders in a message, whose values are still to be checked. Raises BadMessage, TypeError and
    ValueError; KeyError for an unknown job."""
    orders: list[DispatchOrder | RunId] = []
    for row in _listed(rows):
        run, *rest = _listed(row)
        if rest:
            job, resource, nodes, *others = _listed(rest, 5)
            run = DispatchOrder(run, job_of[whole(job)], resource, _unpacked_nodes(nodes), *others)
        orders.append(run)
    return orders


def _packed_schedule(answer: Schedule, n_jobs: int, with_details: bool) -> Message:
    columns = answer.assignments
    if not isinstance(columns, Assignments) or not isinstance(answer.preemptions, tuple):
        raise TypeError("expected Assignments, and a tuple of preemptions")
    arrays = [_column(column, kind) for column, kind in zip(columns.columns, _COLUMNS, strict=True)]
    if len({len(array) for array in arrays}) > 1:
        raise ValueError("columns of different lengths")
    fields = {
        "preempted": [whole(run) for run in answer.preemptions],
        "waiting": _packed_reasons(answer.wait_reasons, n_jobs, with_details),
    }
    return Message(fields, b"".join(array.tobytes() for array in arrays))


def _column(values: object, kind: np.dtype[Any]) -> NDArray[Any]:
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind != kind.kind:
        raise TypeError("expected a one-dimensional array")
    return np.asarray(values, dtype=kind)


def _unpacked_assignments(columns: bytes) -> Assignments:
    n, rest = divmod(len(columns), sum(kind.itemsize for kind in _COLUMNS))
    if rest:
        raise BadMessage("its columns have different lengths")
    arrays: list[Any] = []
    offset = 0
    for kind in _COLUMNS:
        arrays.append(np.frombuffer(columns, kind, n, offset))
        offset += n * kind.itemsize
    return Assignments(*arrays)


def _packed_node_schedule(answer: NodeSchedule, problem: SchedulingProblem, with_details: bool) -> Message:
    n_jobs, n_nodes = problem.n_jobs, problem.n_places
    rows: list[list[Any]] = []
    for start in bounded(answer.starts, n_jobs):
        if type(start) is not Start:
            raise TypeError("expected a Start")
        nodes = start.nodes
        if not isinstance(nodes, NodeSet):
            nodes = [whole(node) for node in bounded(nodes, n_nodes)]
        shares = list(plain_shares(start.shares, n_nodes))
        row = whole(start.job), _packed_nodes(nodes), finite(start.completion_s), shares
        rows.append([*row, one_line(start.partition)])
    again_s = None if answer.ask_again_s is None else finite(answer.ask_again_s)
    reasons = answer.wait_reasons
    if isinstance(reasons, AllOthers) and not with_details and reasons.are_all_but(answer.starts, n_jobs):
        # By construction of all jobs that do not start; none is looked at.
        waiting: object = one_line(reasons.reason)
    else:
        waiting = _packed_reasons(reasons, n_jobs, with_details)
    return Message({"starts": rows, "waiting": waiting, "again": again_s})


def _start(row: object) -> Start:
    job, nodes, completion_s, shares, partition = _listed(row, 5)
    held = _unpacked_nodes(nodes), finite(completion_s), _unpacked_shares(shares)
    return Start(whole(job), *held, one_line(partition))


def _packed_nodes(nodes: Sequence[int]) -> object:
    """The nodes as text; as numbers in a list if some occur twice or are negative, which the rules forbid."""
    try:
        found = NodeSet.of(nodes)
    except ValueError:
        return [*nodes]
    return str(found) if not found.intervals or found.intervals[0][0] >= 0 else [*nodes]


def _unpacked_nodes(packed: object) -> Sequence[int]:
    if isinstance(packed, list):
        return [whole(node) for node in packed]
    if not isinstance(packed, str) or not (found := NodeSet.parse(packed)).within(LARGEST):
        raise BadMessage("nodes are neither a set nor numbers")
    return found


def _unpacked_shares(rows: object) -> tuple[Share, ...]:
    listed = _listed(rows)
    return plain_shares(listed, len(listed))


def _packed_reasons(reasons: Mapping[int, str], n_jobs: int, with_details: bool) -> list[Any]:
    """Jobs, the number of the reason of each, and the reasons, which are mostly a few."""
    number_of: dict[str, int] = {}
    jobs = [whole(i) for i in bounded(reasons, n_jobs)]
    numbers = []
    for i in jobs:
        reason = one_line(in_detail(reasons, i) if with_details else reasons[i])
        numbers.append(number_of.setdefault(reason, len(number_of)))
    return [jobs, numbers, list(number_of)]


def _unpacked_reasons(packed: object, n_jobs: int, starts: Sequence[Start]) -> Mapping[int, str]:
    if isinstance(packed, str):
        return AllOthers(n_jobs, starts, _text(packed))
    jobs, numbers, reasons = _listed(packed, 3)
    texts = [_text(reason) for reason in _listed(reasons)]
    pairs = zip(_listed(jobs), _listed(numbers), strict=True)
    return {whole(i): texts[whole(number)] for i, number in pairs}


def _listed(value: object, n: int | None = None) -> list[Any]:
    """A list, perhaps of `n` entries; the size of the message limits it otherwise."""
    if not isinstance(value, list) or (n is not None and len(value) != n):
        raise BadMessage("a list is missing, or has the wrong length")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT + len(" ..."):
        raise BadMessage("a text is missing, or too long")
    return value


BYTES = 1 << 26
"""The largest size of what one call orders and returns, in bytes."""


def diverged(now_s: float) -> SchedulerFault:
    """The fault of a scheduler in whose process other questions are asked than where the run counts."""
    text = "its process diverged from the run; does it change objects or modules of the testbed?"
    return SchedulerFault(TESTBED_UNTOUCHED, text, now_s)


class ManagerServer(ManagerHere):
    """A resource manager in its own process, which sends the result and the orders of each call."""

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


class ManagerProxy(GuardedManager):
    """Where the run counts, and orders are carried out. `receive` receives what the manager's process sends,
    up to a number of bytes."""

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
