"""What `transitions` do on nodes of which jobs use parts, with a reservation for each job."""

from __future__ import annotations

from scheduler.compiled import implements
from scheduler.free_nodes.kernels import transitions
from scheduler.free_nodes.kernels.node_queue import begin_all, close_ranks
from scheduler.free_nodes.kernels.node_queues import ReservingQueue
from scheduler.free_nodes.kernels.queues import (
    ASKS_AGAIN_S,
    ENOUGH,
    MORE_ROWS,
    N_RELEASES,
    N_WAITING,
    ROWS_WAITING,
)
from scheduler.node_resources.kernels.allocation import most_rows
from scheduler.node_resources.kernels.holding import let_go
from scheduler.node_resources.kernels.timeline.reserved import FIRST_RESERVED_S
from scheduler.node_resources.kernels.timeline.reserving import reserve
from scheduler.node_resources.kernels.timeline.runs import lacks_rows
from scheduler.node_resources.kernels.workspace import N_PLACED


@implements(transitions.lack_of_nodes)
def lack_of_nodes(q: ReservingQueue) -> int:
    n_rows, n_waiting, n_running = q.counts[ROWS_WAITING], q.counts[N_WAITING], q.counts[N_RELEASES]
    lacks = lacks_rows(q.reservations, n_rows, n_waiting, q.held, n_running, q.decided)
    return MORE_ROWS if lacks or n_rows > q.held.n_spare[0] else ENOUGH


@implements(transitions.nothing_fits)
def nothing_fits(q: ReservingQueue) -> bool:
    """Reservations move though nothing fits now."""
    return False


@implements(transitions.wait)
def wait(q: ReservingQueue, slot: int, size: int, kind: int, estimate_s: float) -> None:
    q.jobs.kinds[slot], q.jobs.chunks[slot], q.jobs.estimates_s[slot] = kind, size, estimate_s
    q.in_order[q.counts[N_WAITING]] = slot
    q.counts[ROWS_WAITING] += most_rows(q.requests, kind, size)


@implements(transitions.give_nodes_back)
def give_nodes_back(q: ReservingQueue, slot: int) -> None:
    let_go(q.held, q.first_row[slot])


@implements(transitions.decide)
def decide(q: ReservingQueue, now_s: float) -> int:
    n_waiting = q.counts[N_WAITING]
    q.end_of_queue[0] = n_waiting
    reserve(
        q.reservations,
        q.nodes,
        q.requests,
        q.ranking,
        q.jobs,
        q.in_order[:n_waiting],
        q.end_of_queue,
        q.in_order[:0],  # all nodes are up
        q.releases,
        q.counts[N_RELEASES],
        q.held,
        now_s,
        q.decided,
    )
    q.times_s[ASKS_AGAIN_S] = q.reservations.times_s[FIRST_RESERVED_S]
    return int(q.decided.counts[N_PLACED])


@implements(transitions.start)
def start(q: ReservingQueue, n_started: int, now_s: float) -> None:
    begin_all(q, n_started, now_s)
    if n_started > 0:
        close_ranks(q, q.in_order)
        q.counts[N_WAITING] -= n_started
