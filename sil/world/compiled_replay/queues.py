"""The queues of the compiled loop when a replay begins. Each kind loads what only its own code needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scheduler.free_nodes.kernels.ledger import CONSERVATIVE, QueuePolicy
from sil.world.compiled_replay.engine import CompiledQueue

if TYPE_CHECKING:
    from scheduler.free_nodes.kernels.identical import RigidQueue
    from scheduler.node_resources.described import DescribedNodes
    from scheduler.node_resources.selection import NodeSelection


def on_identical_nodes(n_nodes: int, policy: QueuePolicy) -> CompiledQueue[RigidQueue]:
    from scheduler.free_nodes.arrays import larger_rigid_queue, new_rigid_queue
    from sil.world.compiled_replay.rigid import advance

    return CompiledQueue(new_rigid_queue(n_nodes, policy), n_nodes, larger_rigid_queue, advance)


def on_nodes(nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy) -> CompiledQueue[Any]:
    """For nodes that know the kinds of all requests to come. The selection must be a compiled one."""
    from scheduler.free_nodes.node_arrays import (
        easy_queue,
        larger_node_queue,
        new_node_queue,
        reserving_queue,
    )

    empty = new_node_queue(nodes, policy)
    if policy.backfilling == CONSERVATIVE:
        from sil.world.compiled_replay import reserving

        reserved = reserving_queue(empty, nodes.alongside(), selection)
        return CompiledQueue(reserved, len(nodes.all), larger_node_queue, reserving.advance)
    from sil.world.compiled_replay import easy

    queue = easy_queue(empty, nodes, selection)
    return CompiledQueue(queue, len(nodes.all), larger_node_queue, easy.advance)
