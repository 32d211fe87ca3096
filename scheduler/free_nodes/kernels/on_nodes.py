"""Nodes of which jobs use parts: what waits for them, and what `ledger` leaves to each kind of nodes.

All kinds of queues have the same state of the nodes; those of the compiled engine also have what their pass
needs.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from scheduler.compiled import Ints, implements, part
from scheduler.free_nodes.kernels import ledger
from scheduler.free_nodes.kernels.ledger import (
    ENOUGH,
    MORE_ROWS,
    NO_BACKFILLING,
    SHORTEST_FIRST,
    SJF,
    Ledger,
    begin,
)
from scheduler.node_resources.kernels.allocation import give_back_row, most_rows, take_row
from scheduler.node_resources.kernels.backfilling import begin_pass, one_pass
from scheduler.node_resources.kernels.releases import n_left
from scheduler.node_resources.kernels.reservations import Reservations
from scheduler.node_resources.kernels.reserving import reserve
from scheduler.node_resources.kernels.tables import NONE, fits_now, give_of_site, hold, let_go
from scheduler.node_resources.kernels.workspace import OnNodes, Ranking, Shadow


class NodeQueue(NamedTuple):
    """Without a pass, which is that of a scheduler in Python."""

    ledger: Ledger
    on: OnNodes


class EasyQueue(NamedTuple):
    """For FCFS, SJF and EASY."""

    ledger: Ledger
    on: OnNodes
    ranking: Ranking
    shadow: Shadow


class ReservingQueue(NamedTuple):
    """For conservative backfilling."""

    ledger: Ledger
    on: OnNodes
    ranking: Ranking
    reservations: Reservations


N = TypeVar("N", NodeQueue, EasyQueue, ReservingQueue)
NE = TypeVar("NE", NodeQueue, EasyQueue)


@implements(ledger.most_starts)
def most_starts(q: N) -> int:
    return int(q.ledger.n_waiting[0])


@implements(ledger.lack_of_nodes)
def lack_of_rows(q: NE) -> int:
    rows = q.on.rows_waiting[0]
    return MORE_ROWS if rows > len(q.on.decided.rows) or rows > n_left(q.on.held) else ENOUGH


@part
def uses_needed(q: ReservingQueue) -> int:
    """What waiting jobs and runs use has at most that many rows in a timeline."""
    rows_held = len(q.on.held.spare) - n_left(q.on.held)
    return int(q.on.rows_waiting[0] + q.ledger.n_waiting[0] + rows_held + q.ledger.releases.n[0])


@implements(ledger.lack_of_nodes)
def lack_of_uses(q: ReservingQueue) -> int:
    rows = q.on.rows_waiting[0]
    lacks = rows > len(q.on.decided.rows) or rows > n_left(q.on.held)
    return MORE_ROWS if lacks or uses_needed(q) > n_left(q.reservations.timeline) else ENOUGH


@implements(ledger.nothing_fits)
def nothing_fits(q: N) -> bool:
    for x in range(q.ledger.n_waiting[0]):
        slot = q.on.in_order[x]
        if fits_now(q.on.nodes, q.on.requests, q.on.kind[slot], q.on.chunks[slot]):
            return False
    return True


@part
def comes_first(q: N, a: int, b: int) -> bool:
    """Of two jobs that rank equally in all else: by arrival, then number."""
    began_s, job = q.ledger.began_s, q.ledger.job
    return bool(began_s[a] < began_s[b] or (began_s[a] == began_s[b] and job[a] < job[b]))


@implements(ledger.wait)
def wait(q: N, slot: int, size: int, kind: int, estimate_s: float) -> None:
    on, rank, estimates_s = q.on, q.on.next_rank[0], q.on.estimate_s
    on.kind[slot], on.chunks[slot], on.rank[slot], estimates_s[slot] = kind, size, rank, estimate_s
    on.ticket[slot] = on.n_tickets[0] = on.n_tickets[0] + 1
    on.rows_waiting[0] += most_rows(on.requests, kind, size)
    x = y = q.ledger.n_waiting[0]
    while x > 0:
        other = on.in_order[x - 1]
        if on.rank[other] < rank or (on.rank[other] == rank and comes_first(q, other, slot)):
            break
        on.in_order[x] = other
        x -= 1
    on.in_order[x] = slot
    while y > 0:
        other = on.by_estimate[y - 1]
        if on.rank[other] < rank or (
            on.rank[other] == rank
            and (
                estimates_s[other] < estimate_s
                or (estimates_s[other] == estimate_s and comes_first(q, other, slot))
            )
        ):
            break
        on.by_estimate[y] = other
        y -= 1
    on.by_estimate[y] = slot


@implements(ledger.give_nodes_back)
def give_nodes_back(q: N, slot: int) -> None:
    on, first, kind = q.on, q.on.first_row[slot], q.on.kind[slot]
    row = first
    while row != NONE:
        give_back_row(on.nodes, on.requests, kind, on.held.row, row)
        row = on.held.next[row]
    give_of_site(on.nodes, on.requests, kind, 1)
    let_go(on.held, first)


@part
def easy_pass(q: EasyQueue, ordering: int, backfilling: int, now_s: float) -> int:
    """See `one_pass`."""
    return one_pass(
        q.on,
        q.ranking,
        q.shadow,
        q.ledger.releases,
        q.ledger.n_waiting[0],
        q.on.by_estimate if ordering == SJF else q.on.in_order,
        q.on.by_estimate if backfilling == SHORTEST_FIRST else q.on.in_order,
        backfilling != NO_BACKFILLING,
        now_s,
    )


@implements(ledger.decide)
def decide(q: EasyQueue, now_s: float) -> int:
    """What the jobs use is taken."""
    begin_pass(q.on.decided)
    easy_pass(q, q.ledger.ordering[0], q.ledger.backfilling[0], now_s)
    return int(q.on.decided.n_placed[0])


@part
def conservative_pass(q: ReservingQueue, ends: Ints, toggled: Ints, now_s: float) -> int:
    """See `reserve`."""
    on, n = q.on, q.ledger.n_waiting[0]
    return reserve(q.reservations, on, q.ranking, on.in_order[:n], ends, toggled, q.ledger.releases, now_s)


@implements(ledger.decide)
def decide_with_reservations(q: ReservingQueue, now_s: float) -> int:
    """What the jobs use is not taken yet. There is one queue, and all nodes are up."""
    conservative_pass(q, q.ledger.n_waiting, q.on.in_order[:0], now_s)
    q.ledger.asks_again_s[0] = q.reservations.first_reserved_s[0]
    return int(q.on.decided.n_placed[0])


@part
def take_placed(q: ReservingQueue, n_started: int) -> None:
    """The jobs of a pass take what they use."""
    on, row = q.on, 0
    for x in range(n_started):
        kind = on.kind[on.decided.placed[x]]
        while row < on.decided.after[x]:
            take_row(on.nodes, on.requests, kind, on.decided.rows, row, NONE)
            row += 1
        give_of_site(on.nodes, on.requests, kind, -1)


@part
def begin_on(q: N, slot: int, row: int, after: int, now_s: float, end_s: float) -> None:
    """A waiting job starts on what the rows of `decided` state, which is taken; it still has its place in the
    queue."""
    on, kind = q.on, q.on.kind[slot]
    on.first_row[slot] = hold(on.held, on.decided.rows, row, after, kind)
    begin(q.ledger, slot, on.first_row[slot], now_s, end_s)
    on.rows_waiting[0] -= most_rows(on.requests, kind, on.chunks[slot])


@part
def close_ranks(q: N, slots: Ints) -> int:
    """Jobs that run now are no longer among those that wait. Returns how many these are."""
    n = 0
    for x in range(q.ledger.n_waiting[0]):
        if not q.ledger.holds[slots[x]]:
            slots[n] = slots[x]
            n += 1
    return n


@part
def begin_all(q: N, n_started: int, now_s: float) -> None:
    """The jobs of the last decision are runs that hold what they use."""
    on, row = q.on, 0
    for x in range(n_started):
        slot, after = on.decided.placed[x], on.decided.after[x]
        begin_on(q, slot, row, after, now_s, now_s + on.estimate_s[slot])
        q.ledger.started[x] = slot
        row = after
    if n_started > 0:
        close_ranks(q, on.by_estimate)
        q.ledger.n_waiting[0] = close_ranks(q, on.in_order)


@implements(ledger.start)
def start(q: EasyQueue, n_started: int, now_s: float) -> None:
    begin_all(q, n_started, now_s)


@implements(ledger.start)
def start_reserved(q: ReservingQueue, n_started: int, now_s: float) -> None:
    take_placed(q, n_started)
    begin_all(q, n_started, now_s)


@part
def start_on(q: NodeQueue, slot: int, n_rows: int, now_s: float, end_s: float) -> None:
    """A waiting job starts on what the first rows of `decided` state, which is still to be taken."""
    on, kind = q.on, q.on.kind[slot]
    for row in range(n_rows):
        take_row(on.nodes, on.requests, kind, on.decided.rows, row, NONE)
    give_of_site(on.nodes, on.requests, kind, -1)
    begin_on(q, slot, 0, n_rows, now_s, end_s)
    close_ranks(q, on.by_estimate)
    q.ledger.n_waiting[0] = close_ranks(q, on.in_order)
