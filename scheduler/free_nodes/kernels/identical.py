"""Identical nodes, each for one job: what waits for them, and what `ledger` leaves to each kind of nodes."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Ints, Ints2, implements, part
from scheduler.free_nodes.kernels import ledger
from scheduler.free_nodes.kernels.backfilling import Starting, one_pass
from scheduler.free_nodes.kernels.free_set import (
    FIRST,
    LAST,
    FreeSet,
    begin_handing_out,
    is_free,
    lowest,
    take_before,
    toggle,
)
from scheduler.free_nodes.kernels.ledger import (
    CONSERVATIVE,
    ENOUGH,
    MORE_INTERVALS,
    MORE_PLACES,
    Ledger,
    begin,
)
from scheduler.free_nodes.kernels.queue_tree import JOB, SIZE, Tree, close_ranks, set_leaf
from scheduler.free_nodes.kernels.reservations import Reservations, first_reserved_s, reserve

BySlot = Annotated[Ints, "slots"]


class RigidQueue(NamedTuple):
    """What waits for identical nodes, and what is free. The owner replaces arrays that are too small."""

    ledger: Ledger
    n_free: Ints
    free: FreeSet
    """With room for twice as many bounds as `intervals`, and 4: each interval held, and node down, splits
    one."""
    tree: Tree
    n_places: Ints
    slot: Annotated[Ints, "places"]
    """Of the job in each place of the tree."""
    starting: Starting
    reservations: Reservations
    size: BySlot
    place: BySlot
    first_interval: BySlot
    n_intervals: BySlot
    n_held: Ints
    """The number of `intervals` in use."""
    intervals: Annotated[Ints2, "intervals", 2]
    """The nodes of runs."""
    n_down: Ints
    down: Annotated[Ints, "down"]
    """The nodes that are down."""
    is_taken: Annotated[Ints, "down"]
    """Whether such a node was free and is taken for that; otherwise a run holds it."""


@implements(ledger.most_starts)
def most_starts(q: RigidQueue) -> int:
    return int(min(q.ledger.n_waiting[0], q.n_free[0]))


@implements(ledger.lack_of_nodes)
def lack_of_nodes(q: RigidQueue) -> int:
    capacity = len(q.tree) // 2
    if q.n_places[0] == capacity and 2 * q.ledger.n_waiting[0] > capacity:
        return MORE_PLACES
    starting = q.free.n[0] // 2 + most_starts(q)
    return MORE_INTERVALS if q.n_held[0] + q.n_down[0] + starting > len(q.intervals) else ENOUGH


@implements(ledger.nothing_fits)
def nothing_fits(q: RigidQueue) -> bool:
    return bool(q.tree[1, SIZE] > q.n_free[0])


@implements(ledger.wait)
def wait(q: RigidQueue, slot: int, size: int, kind: int, estimate_s: float) -> None:
    capacity = len(q.tree) // 2
    q.size[slot] = size
    if q.n_places[0] == capacity:
        q.n_places[0] = close_ranks(q.tree, q.slot, q.place)
    place = q.n_places[0]
    q.n_places[0] = place + 1
    q.place[slot], q.slot[place] = place, slot
    q.tree[capacity + place, JOB] = q.ledger.job[slot]
    set_leaf(q.tree, place, 1.0, float(size), estimate_s)


@part
def turn_nodes(q: RigidQueue, slot: int) -> None:
    """Take the nodes of a run, or give them back."""
    for x in range(q.first_interval[slot], q.first_interval[slot] + q.n_intervals[slot]):
        toggle(q.free, q.intervals[x, FIRST], q.intervals[x, LAST])


@part
def take_nodes_down(q: RigidQueue) -> None:
    """Nodes that are down are not free."""
    for x in range(q.n_down[0]):
        node = q.down[x]
        if is_free(q.free, node, node):
            toggle(q.free, node, node)
            q.n_free[0] -= 1
            q.is_taken[x] = 1


@implements(ledger.give_nodes_back)
def give_nodes_back(q: RigidQueue, slot: int) -> None:
    turn_nodes(q, slot)
    q.n_free[0] += q.size[slot]
    take_nodes_down(q)


@part
def set_available(q: RigidQueue, node: int, is_available: bool) -> None:
    """A node is up, or down. A run that holds it keeps it."""
    n, x = q.n_down[0], 0
    while x < n and q.down[x] != node:
        x += 1
    if is_available and x < n:
        was_taken = q.is_taken[x]
        q.down[x], q.is_taken[x] = q.down[n - 1], q.is_taken[n - 1]
        q.n_down[0] = n - 1
        if was_taken:
            toggle(q.free, node, node)
            q.n_free[0] += 1
    elif not is_available and x == n:
        q.down[n], q.is_taken[n] = node, 0
        q.n_down[0] = n + 1
        take_nodes_down(q)


@part
def decide_by(q: RigidQueue, ordering: int, backfilling: int, now_s: float) -> int:
    """As `ledger.decide`, by these policies instead of those of the ledger."""
    releases, n_free = q.ledger.releases, q.n_free[0]
    if backfilling != CONSERVATIVE:
        return one_pass(q.tree, releases, n_free, now_s, ordering, backfilling, q.starting)
    n = reserve(q.reservations, q.tree, q.n_places[0], releases, n_free, now_s, q.starting)
    q.ledger.asks_again_s[0] = first_reserved_s(q.reservations)
    return n


@implements(ledger.decide)
def decide(q: RigidQueue, now_s: float) -> int:
    return decide_by(q, q.ledger.ordering[0], q.ledger.backfilling[0], now_s)


@part
def choose_nodes(q: RigidQueue, n_started: int) -> None:
    """The jobs of a decision get the free nodes with the lowest numbers: those before the cursor, still to be
    taken. They are in the next rows of `intervals`."""
    row = q.n_held[0]
    begin_handing_out(q.free)
    for x in range(n_started):
        after = lowest(q.free, q.starting.size[x], q.intervals, row)
        q.starting.n_intervals[x] = after - row
        row = after


@part
def begin_on(q: RigidQueue, slot: int, n_intervals: int, now_s: float, end_s: float) -> None:
    """A waiting job starts on the nodes in the next rows of `intervals`, which are still to be taken."""
    q.first_interval[slot], q.n_intervals[slot] = q.n_held[0], n_intervals
    q.n_held[0] += n_intervals
    set_leaf(q.tree, q.place[slot], 0.0, np.inf, np.inf)
    begin(q.ledger, slot, q.size[slot], now_s, end_s)
    q.n_free[0] -= q.size[slot]
    q.ledger.n_waiting[0] -= 1


@part
def start_on(q: RigidQueue, slot: int, n_intervals: int, now_s: float, end_s: float) -> None:
    """A waiting job starts on any free nodes: those in the next rows of `intervals`."""
    begin_on(q, slot, n_intervals, now_s, end_s)
    turn_nodes(q, slot)


@implements(ledger.start)
def start(q: RigidQueue, n_started: int, now_s: float) -> None:
    choose_nodes(q, n_started)
    for x in range(n_started):
        slot = q.slot[q.starting.place[x]]
        begin_on(q, slot, q.starting.n_intervals[x], now_s, now_s + q.starting.takes_s[x])
        q.ledger.started[x] = slot
    take_before(q.free)
