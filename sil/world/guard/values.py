"""Whether values of a scheduler are ones that everything behind can compute with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite, nan
from numbers import Real
from operator import index
from typing import Any, SupportsIndex, TypeGuard, TypeVar

import numpy as np

from scheduler.model import ON_NODES, DispatchOrder, Share
from scheduler.node_set import NodeSet
from scheduler.resource_manager import OnMachines, Ports
from scheduler.rules import KNOWN_NODES, KNOWN_RESOURCE, RETURNS_A_SCHEDULE
from sil.world.guard.faults import SchedulerFault, one_line

Value = TypeVar("Value")

LARGEST = 2**53
"""Larger integers are no indices or numbers of runs."""

MORE = 1_000
"""Parts are read up to twice the possible number and this many more: the rules say which part is wrong, but
reading ends."""


def is_finite(value: object) -> bool:
    """Whether it is a number that fits into a floating-point number, and no infinity."""
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def finite(value: Any) -> float:
    """A plain number. Raises ValueError for other values, and for one that is not finite."""
    if not is_finite(value):
        raise ValueError(f"{one_line(value)} is no finite number")
    return float(value)


def is_index(value: object) -> TypeGuard[int]:
    """Whether it is a plain integer that fits into tables."""
    return type(value) is int and -LARGEST <= value <= LARGEST


def whole(value: SupportsIndex) -> int:
    """A plain integer. Raises TypeError and ValueError for other values, and for one too large for tables."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError("expected an integer, not a truth value")
    found = int(index(value))
    if not is_index(found):
        raise ValueError(f"{one_line(found)} is too large")
    return found


def plain_shares(shares: Iterable[Share], n_nodes: int) -> tuple[Share, ...]:
    """Shares of plain integers. Raises TypeError, ValueError and SchedulerFault for other values."""
    return tuple(
        Share(whole(node), whole(chunks), tuple(map(whole, bounded(gpus, 0))))
        for node, chunks, gpus in bounded(shares, n_nodes)
    )


def bounded(values: Iterable[Value], n: int) -> Iterator[Value]:
    """`values`, of which there can be `n`. Raises SchedulerFault if there are many more."""
    most = 2 * n + MORE
    for k, value in enumerate(values):
        if k == most:
            message = f"a part of what it gives has more than {most:,} entries"
            raise SchedulerFault(RETURNS_A_SCHEDULE, message, nan)
        yield value


class Places:
    """The resources, and machines or nodes, that orders may name."""

    def __init__(self, ports: Ports) -> None:
        self.n = ports.n_places
        self._rule, self._resources, self._where = KNOWN_NODES, range(ON_NODES, ON_NODES + 1), "nodes"
        if isinstance(ports, OnMachines):
            self._rule, self._where = KNOWN_RESOURCE, "machines"
            self._resources = range(len(ports.site.resource_names))

    def check(self, order: DispatchOrder, now_s: float) -> None:
        """Raise SchedulerFault for an order that names others, or none."""
        ends: Sequence[int] = order.machines
        if isinstance(ends, NodeSet):
            ends = [end for interval in (*ends.intervals[:1], *ends.intervals[-1:]) for end in interval]
        first, last = min(ends, default=-1), max(ends, default=-1)
        if order.resource not in self._resources or not 0 <= first <= last < self.n:
            message = (
                f"job {order.job.id} was dispatched to resource {order.resource} with {self._where} "
                f"{one_line(order.machines)}; there are resources {self._resources[0]} to "
                f"{self._resources[-1]} and {self._where} 0 to {self.n - 1}"
            )
            raise SchedulerFault(self._rule, message, now_s, order.job.id)
