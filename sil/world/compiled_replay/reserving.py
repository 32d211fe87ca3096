"""The compiled loop and its queue on nodes of which jobs use parts, with a reservation for each job."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from scheduler.compiled import implements, long_running
from scheduler.free_nodes.arrays import FEWEST, QueuePolicy
from scheduler.free_nodes.kernels import transitions
from scheduler.free_nodes.kernels.queues import (
    ASKS_AGAIN_S,
    ENOUGH,
    MORE_ROWS,
    MORE_SLOTS,
    N_RELEASES,
    N_WAITING,
    ROWS_WAITING,
    Q,
)
from scheduler.node_resources.arrays import new_reservations, with_enough_uses, with_held, with_jobs
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.kernels.allocation import most_rows
from scheduler.node_resources.kernels.reservations import FIRST_RESERVED_S
from scheduler.node_resources.kernels.reserving import reserve
from scheduler.node_resources.kernels.run_uses import lacks_rows
from scheduler.node_resources.kernels.tables import let_go
from scheduler.node_resources.kernels.workspace import N_PLACED
from scheduler.node_resources.selection import NodeSelection
from sil.world.compiled_replay import loop
from sil.world.compiled_replay import uses as uses  # implements what the loop writes
from sil.world.compiled_replay.engine import CompiledQueue
from sil.world.compiled_replay.node_queue import (
    ReservingQueue,
    begin_all,
    close_ranks,
    columns_on_nodes,
    with_more_rows,
    with_more_slots_on_nodes,
)


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


def new_reserving_queue(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy
) -> ReservingQueue:
    """See `new_node_queue`."""
    return ReservingQueue(
        **columns_on_nodes(nodes, selection, policy),
        reservations=new_reservations(nodes.table, FEWEST, FEWEST, FEWEST),
        end_of_queue=np.zeros(1, dtype=np.int64),
    )


def larger_reserving_queue(q: ReservingQueue, lack: int) -> ReservingQueue:
    """The queue with more of what it lacks (`kernels.transitions.lack`)."""
    return _LARGER[lack](q)


def _with_slots(q: ReservingQueue) -> ReservingQueue:
    q = with_more_slots_on_nodes(q)
    return q._replace(reservations=with_jobs(q.reservations, len(q.run)))


def _with_rows(q: ReservingQueue) -> ReservingQueue:
    q = with_more_rows(q)
    reservations = with_held(q.reservations, len(q.held.kind))
    return q._replace(reservations=with_enough_uses(reservations, q.nodes))


_LARGER: Mapping[int, Callable[[ReservingQueue], ReservingQueue]] = {
    MORE_SLOTS: _with_slots,
    MORE_ROWS: _with_rows,
}


advance = long_running(loop.advance, {Q: ReservingQueue})


def with_reservations(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy
) -> CompiledQueue[ReservingQueue]:
    """See `new_reserving_queue`."""
    empty = new_reserving_queue(nodes, selection, policy)
    return CompiledQueue(empty, len(nodes.all), larger_reserving_queue, advance)
