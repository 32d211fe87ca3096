"""The compiled loop on identical nodes."""

from __future__ import annotations

from scheduler.compiled import long_running
from scheduler.free_nodes.arrays import QueuePolicy, larger_rigid_queue, new_rigid_queue
from scheduler.free_nodes.kernels import rigid_queue as rigid_queue  # implements the transitions
from scheduler.free_nodes.kernels.queues import Q, RigidQueue
from sil.world.compiled_replay import intervals as intervals  # implements what the loop writes
from sil.world.compiled_replay import loop
from sil.world.compiled_replay.engine import CompiledQueue

advance = long_running(loop.advance, {Q: RigidQueue})


def on_identical_nodes(n_nodes: int, policy: QueuePolicy) -> CompiledQueue[RigidQueue]:
    return CompiledQueue(new_rigid_queue(n_nodes, policy), n_nodes, larger_rigid_queue, advance)
