"""The arrays of compiled queues for nodes of which jobs use parts: new ones, and larger ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from scheduler.compiled import allocate
from scheduler.free_nodes.kernels.node_queues import N, NodeQueue
from scheduler.free_nodes.kernels.queues import MORE_ROWS, MORE_SLOTS, ROWS_WAITING
from scheduler.free_nodes.queues.arrays import FEWEST, QueuePolicy, columns_of_all, doubled, more_slots
from scheduler.node_resources.arrays import empty_shadow, new_held, new_pass, with_rows, with_spare_rows
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.kernels.workspace import Jobs
from scheduler.node_resources.selection import NodeSelection, new_ranking


def new_node_queue(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy, n_users: int
) -> NodeQueue:
    """An empty queue of idle nodes, which know the kinds of all requests to come; users are known by number,
    below `n_users`. The selection must be a compiled one."""
    return NodeQueue(
        **columns_on_nodes(nodes, selection, policy, n_users),
        shadow=empty_shadow(nodes),
        by_estimate=np.zeros(FEWEST, dtype=np.int64),
    )


def columns_on_nodes(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy, n_users: int
) -> dict[str, Any]:
    """Of an empty queue of either kind."""
    n = FEWEST
    return {
        **columns_of_all(policy, n_users),
        "nodes": nodes.table,
        "requests": nodes.requests,
        "ranking": new_ranking(nodes, selection),
        "held": new_held(n),
        "decided": new_pass(n, n),
        "jobs": allocate(Jobs, n, n, n),
        "first_row": np.zeros(n, dtype=np.int64),
        "in_order": np.zeros(n, dtype=np.int64),
    }


def larger_node_queue(q: NodeQueue, lack: int) -> NodeQueue:
    """The queue with more of what it lacks (`kernels.transitions.lack`)."""
    return _LARGER[lack](q)


def with_more_slots_on_nodes(q: N, own: Iterable[str] = ()) -> N:
    """See `more_slots`."""
    q = q._replace(**more_slots(q, ("first_row", "in_order", *own)))
    return q._replace(jobs=Jobs(*map(doubled, q.jobs)), decided=new_pass(len(q.run), len(q.decided.rows)))


def with_more_rows(q: N) -> N:
    """With rows for what all waiting jobs would use."""
    n = int(q.counts[ROWS_WAITING])
    if n > len(q.decided.rows):
        q = q._replace(decided=with_rows(q.decided, 2 * n))
    return q if n <= q.held.n_spare[0] else q._replace(held=with_spare_rows(q.held, n))


def _with_slots(q: NodeQueue) -> NodeQueue:
    return with_more_slots_on_nodes(q, ("by_estimate",))


_LARGER: Mapping[int, Callable[[NodeQueue], NodeQueue]] = {
    MORE_SLOTS: _with_slots,
    MORE_ROWS: with_more_rows,
}
