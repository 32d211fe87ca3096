"""The arrays of a compiled queue for nodes of which jobs use parts: new ones, and larger ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from scheduler.compiled import allocate
from scheduler.free_nodes.kernels.queues import (
    MORE_ROWS,
    MORE_SLOTS,
    ROWS_WAITING,
    NodeQueue,
)
from scheduler.free_nodes.queues.arrays import FEWEST, QueuePolicy, columns_of_both, doubled, with_more_slots
from scheduler.node_resources.arrays import empty_shadow, new_held, new_pass, with_rows, with_spare_rows
from scheduler.node_resources.kernels.workspace import Jobs
from scheduler.node_resources.selection import NodeSelection, new_ranking
from scheduler.node_resources.state import NodeResources


def new_node_queue(
    nodes: NodeResources, selection: NodeSelection, policy: QueuePolicy, n_users: int
) -> NodeQueue:
    """An empty queue of idle nodes, which know the kinds of all requests to come; users are known by number,
    below `n_users`. The selection must be a compiled one."""
    n = FEWEST
    return NodeQueue(
        **columns_of_both(policy, n_users),
        nodes=nodes.table,
        requests=nodes.requests,
        ranking=new_ranking(nodes, selection),
        shadow=empty_shadow(nodes),
        held=new_held(n),
        decided=new_pass(n, n),
        jobs=allocate(Jobs, n, n, n),
        first_row=np.zeros(n, dtype=np.int64),
        in_order=np.zeros(n, dtype=np.int64),
        by_estimate=np.zeros(n, dtype=np.int64),
    )


def larger_node_queue(q: NodeQueue, lack: int) -> NodeQueue:
    """The queue with more of what it lacks (`kernels.transitions.lack`)."""
    return _LARGER[lack](q)


def _with_slots(q: NodeQueue) -> NodeQueue:
    q = with_more_slots(q, ("first_row", "in_order", "by_estimate"))
    return q._replace(jobs=Jobs(*map(doubled, q.jobs)), decided=new_pass(len(q.run), len(q.decided.rows)))


def _with_rows(q: NodeQueue) -> NodeQueue:
    n = int(q.counts[ROWS_WAITING])
    if n > len(q.decided.rows):
        q = q._replace(decided=with_rows(q.decided, 2 * n))
    return q if n <= q.held.n_spare[0] else q._replace(held=with_spare_rows(q.held, n))


_LARGER: Mapping[int, Callable[[NodeQueue], NodeQueue]] = {
    MORE_SLOTS: _with_slots,
    MORE_ROWS: _with_rows,
}
