"""The arrays of a compiled queue with a reservation for each job, on nodes of which jobs use parts: new ones,
and larger ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from scheduler.free_nodes.kernels.node_queues import ReservingQueue
from scheduler.free_nodes.kernels.queues import MORE_ROWS, MORE_SLOTS
from scheduler.free_nodes.queues.arrays import FEWEST, QueuePolicy
from scheduler.free_nodes.queues.consumable import columns_on_nodes, with_more_rows, with_more_slots_on_nodes
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.reservations import new_reservations, with_enough_uses, with_held, with_jobs
from scheduler.node_resources.selection import NodeSelection


def new_reserving_queue(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy, n_users: int
) -> ReservingQueue:
    """See `new_node_queue`."""
    return ReservingQueue(
        **columns_on_nodes(nodes, selection, policy, n_users),
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
