"""What runs and reservations use of each node over time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, Ints2, compiled, direct, inlined, part
from scheduler.node_resources.kernels.shadow import END_S, FIRST
from scheduler.node_resources.kernels.tables import CHUNKS, GPUS, NODE, NONE, Held

N_USES, N_STARTS, N_SPARE = range(3)
"""Places in `Timeline.sizes`."""


class Timeline(NamedTuple):
    """Uses of nodes, in A rows at most: by runs until their expected ends, and by jobs that start later."""

    row: Ints2  # (A, 3): NODE, CHUNKS, GPUS
    kind: Ints  # (A,): of request
    start_s: Floats  # (A,)
    end_s: Floats  # (A,)
    next_on_node: Ints  # (A,)
    next_of_job: Ints  # (A,): NONE for one row of each job, which counts for what it has of the site
    by_end: Ints  # (A,): uses in order of their ends
    by_start: Ints  # (A,): those that start later, in order of their starts
    spare: Ints  # (A,): rows that are not in use
    sizes: Ints  # (3,): N_USES, N_STARTS, N_SPARE
    first: Ints  # (N,): a use of each node, or NONE
    most: Ints  # (R + D + 1): work space


@direct
@compiled
def clear(uses: Timeline) -> None:
    uses.first[:] = NONE
    uses.sizes[:] = 0
    n = len(uses.spare)
    uses.sizes[N_SPARE] = n
    for x in range(n):
        uses.spare[x] = n - 1 - x


@inlined
def place_of(order: Ints, n: int, times_s: Floats, time_s: float) -> int:
    """The first place in `order` of a use whose time is greater."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if times_s[order[middle]] <= time_s:
            low = middle + 1
        else:
            high = middle
    return low


@part
def insert(order: Ints, n: int, times_s: Floats, use: int) -> None:
    x = place_of(order, n, times_s, times_s[use])
    for y in range(n, x, -1):
        order[y] = order[y - 1]
    order[x] = use


@part
def remove(order: Ints, n: int, times_s: Floats, use: int) -> None:
    x = place_of(order, n, times_s, times_s[use]) - 1
    while order[x] != use:
        x -= 1
    for y in range(x, n - 1):
        order[y] = order[y + 1]


@part
def add_use(uses: Timeline, row: Ints, kind: int, start_s: float, end_s: float, following: int) -> int:
    """Returns the new use, of which `following` is the job's next. There must be a spare row."""
    uses.sizes[N_SPARE] -= 1
    use = uses.spare[uses.sizes[N_SPARE]]
    uses.row[use, NODE], uses.row[use, CHUNKS], uses.row[use, GPUS] = row[NODE], row[CHUNKS], row[GPUS]
    uses.kind[use], uses.start_s[use], uses.end_s[use] = kind, start_s, end_s
    uses.next_on_node[use] = uses.first[row[NODE]]
    uses.first[row[NODE]] = use
    uses.next_of_job[use] = following
    insert(uses.by_end, uses.sizes[N_USES], uses.end_s, use)
    uses.sizes[N_USES] += 1
    return int(use)


@direct
@compiled
def add_runs(uses: Timeline, releases: Floats2, n_running: int, held: Held, now_s: float) -> None:
    """Add what runs hold. An overdue run is expected to end right after now."""
    for x in range(n_running):
        end_s = max(releases[x, END_S], np.nextafter(now_s, np.inf))
        row, use = int(releases[x, FIRST]), NONE
        while row != NONE:
            use = add_use(uses, held.row[row], held.kind[row], now_s, end_s, use)
            row = held.next[row]


@direct
@compiled
def reserve(uses: Timeline, used: Ints2, kind: int, start_s: float, end_s: float) -> int:
    """Add a reservation of what the rows of `used` state; returns its first use."""
    use = NONE
    for x in range(len(used)):
        use = add_use(uses, used[x], kind, start_s, end_s, use)
        insert(uses.by_start, uses.sizes[N_STARTS], uses.start_s, use)
        uses.sizes[N_STARTS] += 1
    return int(use)


@direct
@compiled
def cancel(uses: Timeline, use: int) -> None:
    """Remove a reservation, by its first use."""
    while use != NONE:
        remove(uses.by_end, uses.sizes[N_USES], uses.end_s, use)
        remove(uses.by_start, uses.sizes[N_STARTS], uses.start_s, use)
        uses.sizes[N_USES] -= 1
        uses.sizes[N_STARTS] -= 1
        n = uses.row[use, NODE]
        if uses.first[n] == use:
            uses.first[n] = uses.next_on_node[use]
        else:
            x = uses.first[n]
            while uses.next_on_node[x] != use:
                x = uses.next_on_node[x]
            uses.next_on_node[x] = uses.next_on_node[use]
        uses.spare[uses.sizes[N_SPARE]] = use
        uses.sizes[N_SPARE] += 1
        use = uses.next_of_job[use]
