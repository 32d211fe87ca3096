"""The free nodes as bounds in ascending order: alternately the first free and the first occupied node of each
interval, and END after the last.

Taking or giving back nodes toggles the bounds of their intervals: it removes those that are there, and
inserts those that are not.
"""

from __future__ import annotations

from scheduler.compiled import Ints, Ints2, inlined, part

END = 2**62
"""After all bounds."""

FIRST, LAST = 0, 1
"""Columns of a table of intervals: their first and last node."""

AT, NODE = 0, 1
"""Places in a cursor: of a bound of a free interval, and the first node there that was not handed out."""


@inlined
def row_of(bounds: Ints, n: int, node: int) -> int:
    """The first of the n bounds that is not below a node."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if bounds[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@part
def toggle(bounds: Ints, n: int, first: int, last: int) -> int:
    """Take free nodes, or give back occupied ones. Returns the number of bounds; there must be room for two
    more."""
    k, end = row_of(bounds, n, first), last + 1
    if bounds[k] == first:
        if bounds[k + 1] == end:
            for x in range(k, n - 2):
                bounds[x] = bounds[x + 2]
            return n - 2
        bounds[k] = end
    elif bounds[k] == end:
        bounds[k] = first
    else:
        for x in range(n - 1, k - 1, -1):
            bounds[x + 2] = bounds[x]
        bounds[k], bounds[k + 1] = first, end
        return n + 2
    return n


@part
def is_free(bounds: Ints, n: int, first: int, last: int) -> bool:
    """Whether all nodes of an interval are free."""
    k = row_of(bounds, n, first + 1)
    return bool(k % 2 == 1 and bounds[k] > last)


@part
def lowest(bounds: Ints, cursor: Ints, n_nodes: int, intervals: Ints2, n: int) -> int:
    """Add the next free nodes from a cursor on to n intervals, and move the cursor behind them; there must be
    so many. Returns the number of intervals."""
    k, first, left = cursor[AT], cursor[NODE], n_nodes
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
    cursor[AT], cursor[NODE] = k, first
    return n


@part
def take_before(bounds: Ints, n: int, cursor: Ints) -> int:
    """Take all free nodes before a cursor. Returns the number of bounds."""
    k = cursor[AT]
    bounds[k] = cursor[NODE]
    if bounds[k] == bounds[k + 1]:
        k += 2
    for x in range(k, n):
        bounds[x - k] = bounds[x]
    return int(n - k)
