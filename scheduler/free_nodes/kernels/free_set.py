"""The free nodes as bounds in ascending order: alternately the first free and the first occupied node of each
interval, and END after the last.

Taking or giving back nodes toggles the bounds of their intervals: it removes those that are there, and
inserts those that are not.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from scheduler.compiled import Initially, Ints, Ints2, inlined, part

END = 2**62
"""After all bounds."""

FIRST, LAST = 0, 1
"""Columns of a table of intervals: their first and last node."""


class FreeSet(NamedTuple):
    """The bounds, and a cursor: the place of a bound, and the first node from there on that was not handed
    out."""

    n: Ints
    bounds: Annotated[Ints, "bounds", Initially(END)]
    at: Ints
    node: Ints


@inlined
def row_of(free: FreeSet, node: int) -> int:
    """The first bound that is not below a node."""
    low, high = 0, free.n[0]
    while low < high:
        middle = (low + high) // 2
        if free.bounds[middle] < node:
            low = middle + 1
        else:
            high = middle
    return int(low)


@part
def toggle(free: FreeSet, first: int, last: int) -> None:
    """Take free nodes, or give back occupied ones; there must be room for two more bounds."""
    bounds, n, k, end = free.bounds, free.n[0], row_of(free, first), last + 1
    if bounds[k] == first:
        if bounds[k + 1] == end:
            for x in range(k, n - 2):
                bounds[x] = bounds[x + 2]
            free.n[0] = n - 2
        else:
            bounds[k] = end
    elif bounds[k] == end:
        bounds[k] = first
    else:
        for x in range(n - 1, k - 1, -1):
            bounds[x + 2] = bounds[x]
        bounds[k], bounds[k + 1] = first, end
        free.n[0] = n + 2


@part
def is_free(free: FreeSet, first: int, last: int) -> bool:
    """Whether all nodes of an interval are free."""
    k = row_of(free, first + 1)
    return bool(k % 2 == 1 and free.bounds[k] > last)


@inlined
def begin_handing_out(free: FreeSet) -> None:
    free.at[0], free.node[0] = 0, free.bounds[0]


@part
def lowest(free: FreeSet, n_nodes: int, intervals: Ints2, n: int) -> int:
    """Add the next free nodes from the cursor on to n intervals, and move the cursor behind them; that many
    must be left. Returns the number of intervals."""
    bounds, k, first, left = free.bounds, free.at[0], free.node[0], n_nodes
    while left > 0:
        end = bounds[k + 1]
        if first == end:
            k += 2
            first, end = bounds[k], bounds[k + 1]
        if end > first + left:
            end = first + left
        intervals[n, FIRST], intervals[n, LAST] = first, end - 1
        n += 1
        left -= end - first
        first = end
    free.at[0], free.node[0] = k, first
    return n


@part
def take_before(free: FreeSet) -> None:
    """Take all free nodes before the cursor."""
    bounds, k, n = free.bounds, free.at[0], free.n[0]
    bounds[k] = free.node[0]
    if bounds[k] == bounds[k + 1]:
        k += 2
    for x in range(k, n):
        bounds[x - k] = bounds[x]
    free.n[0] = n - k
