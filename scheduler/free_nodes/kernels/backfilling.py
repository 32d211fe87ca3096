"""Which of the waiting jobs start now: one pass over the queue, as far as needed."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats2, inlined, part
from scheduler.free_nodes.kernels.free_over_time import END_S, RELEASED, ReleaseTable, insert, remove
from scheduler.free_nodes.kernels.queue_tree import (
    ESTIMATE_S,
    N_JOBS,
    NONE,
    SIZE,
    Tree,
    first_that_fits,
    place_of,
    rank_of,
    set_leaf,
    shortest_that_fits,
)

FCFS, SJF = range(2)
NO_BACKFILLING, IN_ORDER, SHORTEST_FIRST = range(3)
"""The codes of `Ordering` and `Backfilling`."""

PLACE, NODES, TAKES_S, RANK, INTERVALS = range(5)
"""Columns of the table of jobs that start: place in the queue's tree, number of nodes, estimated run time,
number of jobs before it; and the number of intervals that the nodes are, once they are chosen."""


@inlined
def first_in_queue(tree: Tree, ordering: int) -> int:
    if tree[1, N_JOBS] == 0:
        return NONE
    return place_of(tree, 0) if ordering == FCFS else shortest_that_fits(tree, np.inf)


@inlined
def start(tree: Tree, started: Floats2, n_started: int, place: int) -> None:
    """Record the job, and remove it from the queue for the rest of the pass."""
    k = len(tree) // 2 + place
    started[n_started, PLACE], started[n_started, NODES] = place, tree[k, SIZE]
    started[n_started, TAKES_S] = tree[k, ESTIMATE_S]
    set_leaf(tree, place, 0.0, np.inf, np.inf)


@inlined
def put_back(tree: Tree, started: Floats2, n_started: int) -> None:
    """Restore the queue as it was before the pass."""
    for x in range(n_started):
        set_leaf(tree, int(started[x, PLACE]), 1.0, started[x, NODES], started[x, TAKES_S])
    for x in range(n_started):
        started[x, RANK] = rank_of(tree, int(started[x, PLACE]))


@inlined
def next_to_backfill(
    tree: Tree, backfilling: int, n_free: int, spare: int, now_s: float, shadow_s: float
) -> int:
    """The next job that fits now and does not delay the first, which does not fit."""
    if backfilling == IN_ORDER:
        return first_that_fits(tree, n_free, spare, now_s, shadow_s)
    place = shortest_that_fits(tree, n_free)
    if place != NONE and now_s + tree[len(tree) // 2 + place, ESTIMATE_S] > shadow_s:
        place = shortest_that_fits(tree, min(n_free, spare))
    return place


@inlined
def reservation(releases: ReleaseTable, n: int, n_free: int, needed: int, now_s: float) -> tuple[float, int]:
    """When `needed` nodes are expected to be free, counting all released at that time; and the spare ones.

    Infinite if too few nodes are up.
    """
    then_s, x = now_s, 0
    while x < n and (n_free < needed or releases[x, END_S] <= then_s):
        then_s = max(then_s, releases[x, END_S])
        n_free += int(releases[x, RELEASED])
        x += 1
    return (then_s, n_free - needed) if n_free >= needed else (np.inf, 0)


@part
def one_pass(
    tree: Tree,
    releases: ReleaseTable,
    n_running: int,
    n_free: int,
    now_s: float,
    ordering: int,
    backfilling: int,
    started: Floats2,
) -> int:
    """Write the jobs that start to `started`, in order; returns their number.

    Leaves `tree` and `releases` unchanged; `releases` must have room for all jobs that may start.
    """
    capacity = len(tree) // 2
    n_started = 0
    head = first_in_queue(tree, ordering)
    while head != NONE and tree[capacity + head, SIZE] <= n_free:
        n_free -= int(tree[capacity + head, SIZE])
        start(tree, started, n_started, head)
        n_started += 1
        head = first_in_queue(tree, ordering)
    if head != NONE and backfilling != NO_BACKFILLING and tree[1, SIZE] <= n_free:
        n_heads = n_started
        for x in range(n_heads):
            insert(releases, n_running + x, now_s + started[x, TAKES_S], started[x, NODES], np.inf, 0)
        needed = int(tree[capacity + head, SIZE])
        shadow_s, spare = reservation(releases, n_running + n_heads, n_free, needed, now_s)
        for x in range(n_heads):
            remove(releases, n_running + n_heads - x, now_s + started[x, TAKES_S], np.inf)
        while tree[1, SIZE] <= n_free:
            place = next_to_backfill(tree, backfilling, n_free, spare, now_s, shadow_s)
            if place == NONE:
                break
            size = int(tree[capacity + place, SIZE])
            n_free -= size
            if now_s + tree[capacity + place, ESTIMATE_S] > shadow_s:
                spare -= size
            start(tree, started, n_started, place)
            n_started += 1
    put_back(tree, started, n_started)
    return n_started
