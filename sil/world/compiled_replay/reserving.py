"""The compiled loop on nodes of which jobs use parts, with a reservation for each job."""

from __future__ import annotations

from scheduler.compiled import long_running
from scheduler.free_nodes.kernels import reserving_queue as reserving_queue  # implements the transitions
from scheduler.free_nodes.kernels.node_queues import ReservingQueue
from scheduler.free_nodes.kernels.queues import Q
from scheduler.free_nodes.queues.arrays import QueuePolicy
from scheduler.free_nodes.queues.reserving import larger_reserving_queue, new_reserving_queue
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.selection import NodeSelection
from sil.world.compiled_replay import loop
from sil.world.compiled_replay import uses as uses  # implements what the loop writes
from sil.world.compiled_replay.engine import CompiledQueue

advance = long_running(loop.advance, {Q: ReservingQueue})


def with_reservations(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy, n_users: int
) -> CompiledQueue[ReservingQueue]:
    """See `new_reserving_queue`."""
    empty = new_reserving_queue(nodes, selection, policy, n_users)
    return CompiledQueue(empty, len(nodes.all), larger_reserving_queue, advance)
