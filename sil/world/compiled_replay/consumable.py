"""The compiled loop on nodes with cores, memory and GPUs, of which jobs use parts."""

from __future__ import annotations

from scheduler.compiled import long_running
from scheduler.free_nodes.arrays import QueuePolicy
from scheduler.free_nodes.kernels.queues import Q
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.selection import NodeSelection
from sil.world.compiled_replay import loop
from sil.world.compiled_replay import node_queue as node_queue  # implements the transitions
from sil.world.compiled_replay import uses as uses  # implements what the loop writes
from sil.world.compiled_replay.engine import CompiledQueue
from sil.world.compiled_replay.node_queue import NodeQueue, larger_node_queue, new_node_queue

advance = long_running(loop.advance, {Q: NodeQueue})


def on_consumable_nodes(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy
) -> CompiledQueue[NodeQueue]:
    """See `new_node_queue`."""
    empty = new_node_queue(nodes, selection, policy)
    return CompiledQueue(empty, len(nodes.all), larger_node_queue, advance)
