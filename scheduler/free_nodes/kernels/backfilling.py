"""Which of the waiting jobs start now: one pass over the queue, as far as needed."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, inlined, part
from scheduler.free_nodes.kernels.ledger import FCFS, IN_ORDER, NO_BACKFILLING
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
from scheduler.node_resources.kernels.releases import AFTER_ALL, Releases, insert, remove


class Starting(NamedTuple):
    """The jobs that start in a pass, in order."""

    n: Ints
    place: Annotated[Ints, "slots"]
    """In the tree of the queue."""
    size: Annotated[Ints, "slots"]
    takes_s: Annotated[Floats, "slots"]
    """The estimated run time."""
    rank: Annotated[Ints, "slots"]
    """The number of jobs before it in the queue."""
    n_intervals: Annotated[Ints, "slots"]
    """Of which its nodes consist, once they are chosen."""


@inlined
def first_in_queue(tree: Tree, ordering: int) -> int:
    if tree[1, N_JOBS] == 0:
        return NONE
    return place_of(tree, 0) if ordering == FCFS else shortest_that_fits(tree, np.inf)


@inlined
def start(tree: Tree, starting: Starting, place: int) -> int:
    """Record the job, and remove it from the queue for the rest of the pass. Returns its number of nodes."""
    x, k = starting.n[0], len(tree) // 2 + place
    size = int(tree[k, SIZE])
    starting.place[x], starting.size[x], starting.takes_s[x] = place, size, tree[k, ESTIMATE_S]
    starting.n[0] = x + 1
    set_leaf(tree, place, 0.0, np.inf, np.inf)
    return size


@inlined
def put_back(tree: Tree, starting: Starting) -> None:
    """Restore the queue as it was before the pass."""
    for x in range(starting.n[0]):
        set_leaf(tree, starting.place[x], 1.0, float(starting.size[x]), starting.takes_s[x])
    for x in range(starting.n[0]):
        starting.rank[x] = rank_of(tree, starting.place[x])


@inlined
def expect_ends(releases: Releases, starting: Starting, n: int, now_s: float) -> None:
    """The first jobs that start release their nodes, until `forget_ends`."""
    for x in range(n):
        insert(releases, now_s + starting.takes_s[x], starting.size[x], AFTER_ALL, 0)


@inlined
def forget_ends(releases: Releases, starting: Starting, n: int, now_s: float) -> None:
    for x in range(n):
        remove(releases, now_s + starting.takes_s[x], AFTER_ALL)


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
def reservation(releases: Releases, n_free: int, needed: int, now_s: float) -> tuple[float, int]:
    """When `needed` nodes are expected to be free, counting all released at that time; and the spare ones.

    Infinite if too few nodes are up.
    """
    then_s, x = now_s, 0
    while x < releases.n[0] and (n_free < needed or releases.end_s[x] <= then_s):
        then_s = max(then_s, releases.end_s[x])
        n_free += releases.released[x]
        x += 1
    return (then_s, n_free - needed) if n_free >= needed else (np.inf, 0)


@part
def one_pass(
    tree: Tree,
    releases: Releases,
    n_free: int,
    now_s: float,
    ordering: int,
    backfilling: int,
    starting: Starting,
) -> int:
    """Write the jobs that start to `starting`, in order; returns their number.

    Leaves `tree` and `releases` unchanged; `releases` must have room for all jobs that may start.
    """
    capacity = len(tree) // 2
    starting.n[0] = 0
    head = first_in_queue(tree, ordering)
    while head != NONE and tree[capacity + head, SIZE] <= n_free:
        n_free -= start(tree, starting, head)
        head = first_in_queue(tree, ordering)
    if head != NONE and backfilling != NO_BACKFILLING and tree[1, SIZE] <= n_free:
        n_heads = starting.n[0]
        expect_ends(releases, starting, n_heads, now_s)
        shadow_s, spare = reservation(releases, n_free, int(tree[capacity + head, SIZE]), now_s)
        forget_ends(releases, starting, n_heads, now_s)
        while tree[1, SIZE] <= n_free:
            place = next_to_backfill(tree, backfilling, n_free, spare, now_s, shadow_s)
            if place == NONE:
                break
            is_late = now_s + tree[capacity + place, ESTIMATE_S] > shadow_s
            size = start(tree, starting, place)
            n_free -= size
            if is_late:
                spare -= size
    put_back(tree, starting)
    return int(starting.n[0])
