"""The arrays of queues on nodes of which jobs use parts, of their passes and of reservations: new ones, and
larger ones."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from scheduler.compiled import copied, grown, made
from scheduler.free_nodes.arrays import FEWEST
from scheduler.free_nodes.kernels.ledger import MORE_SLOTS, Ledger, QueuePolicy
from scheduler.free_nodes.kernels.on_nodes import EasyQueue, NodeQueue, ReservingQueue
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.kernels.releases import Rows
from scheduler.node_resources.kernels.reservations import Reservations
from scheduler.node_resources.kernels.segments import clear
from scheduler.node_resources.kernels.window import MOST_KNOWN
from scheduler.node_resources.kernels.workspace import OnNodes, Shadow
from scheduler.node_resources.selection import NodeSelection, new_ranking

T = TypeVar("T", NodeQueue, EasyQueue, ReservingQueue)

MOST_OF_NODES = 2**20
"""About the most items of what a search knows of nodes."""


def new_node_queue(nodes: DescribedNodes, policy: QueuePolicy = QueuePolicy()) -> NodeQueue:  # noqa: B008 (immutable)
    """An empty queue of idle nodes."""
    n = FEWEST
    q = NodeQueue(made(Ledger, slots=n), made(OnNodes, **nodes.sizes, slots=n, rows=n, held=n))
    policy.write(q.ledger)
    return q._replace(on=q.on._replace(nodes=nodes.table, requests=nodes.requests))


def new_shadow(nodes: DescribedNodes) -> Shadow:
    """Room for the state at a reserved time."""
    return made(Shadow, **nodes.sizes)._replace(then=copied(nodes.table))


def new_reservations(nodes: DescribedNodes, n_slots: int, n_held: int) -> Reservations:
    """Nothing is reserved. `nodes` are the work space of searches."""
    n, table = len(nodes.all), nodes.table
    sizes = {
        **nodes.sizes,
        "places": n + 1,
        "known": min(MOST_KNOWN, MOST_OF_NODES // (n + 1) + 1),
        "width": max(table.free.shape[1], table.site.shape[1]),
    }
    r = made(Reservations, **sizes, slots=n_slots, held=n_held, **_room_for(n_slots, n))
    r.search.number[:] = np.arange(n)
    clear(r.timeline, table)
    return r._replace(nodes=table, requests=nodes.requests)


def _room_for(n_uses: int, n_nodes: int) -> dict[str, int]:
    return {
        "uses": n_uses,
        "segments": n_nodes + 3 + 2 * n_uses,
    }  # a use begins a segment, and its end another


def easy_queue(q: NodeQueue, nodes: DescribedNodes, selection: NodeSelection) -> EasyQueue:
    return EasyQueue(*q, new_ranking(nodes, selection), new_shadow(nodes))


def reserving_queue(q: NodeQueue, nodes: DescribedNodes, selection: NodeSelection) -> ReservingQueue:
    """`nodes` are another state of the same nodes."""
    reservations = new_reservations(nodes, len(q.ledger.run), len(q.on.held.kind))
    return ReservingQueue(*q, new_ranking(nodes, selection), reservations)


def larger_node_queue(q: T, lack: int) -> T:
    """The queue with more of what it lacks (`ledger.lack`)."""
    if lack == MORE_SLOTS:
        return grown(q, slots=2 * len(q.ledger.run))
    q = with_rows(q, int(q.on.rows_waiting[0]))
    if isinstance(q, ReservingQueue):
        q = q._replace(reservations=with_room(q.reservations, q))
    return q


def with_rows(q: T, n: int) -> T:
    """The queue with rows for n nodes of jobs that start."""
    sizes, held = dict[str, int](), q.on.held
    if n > len(q.on.decided.rows):
        sizes["rows"] = 2 * n
    if n > n_rows_left(held):
        sizes["held"] = 2 * (len(held.spare) + n)
    return grown(q, **sizes) if sizes else q


def with_room(r: Reservations, q: NodeQueue | ReservingQueue) -> Reservations:
    """The same reservations with room for all that a queue may need."""
    needed = int(q.on.rows_waiting[0] + q.ledger.n_waiting[0] + q.ledger.releases.n[0])
    needed += len(q.on.held.spare) - n_rows_left(q.on.held)
    sizes, n_slots, n_held = dict[str, int](), len(q.ledger.run), len(q.on.held.spare)
    if needed > n_rows_left(r.timeline):
        sizes = _room_for(2 * (len(r.timeline.kind) + needed), len(r.nodes.n_chunks))
    if n_slots > len(r.start_s) or n_held > len(r.runs):
        sizes |= {"slots": n_slots, "held": n_held}
    return grown(r, **sizes) if sizes else r


def n_rows_left(table: Rows) -> int:
    return int(len(table.spare) - table.n_used[0] + table.n_spare[0])
