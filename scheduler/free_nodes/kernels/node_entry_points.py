"""The transitions of a queue on nodes of which jobs use parts, for callers in Python."""

from __future__ import annotations

from scheduler.compiled import called_by_handle
from scheduler.free_nodes.kernels import ledger, on_nodes
from scheduler.free_nodes.kernels.ledger import ENOUGH, Q
from scheduler.free_nodes.kernels.on_nodes import NodeQueue

_ON_NODES = {Q: NodeQueue}


@called_by_handle
def arrived(
    q: NodeQueue, job: int, chunks: int, kind: int, estimate_s: float, rank: int, since_s: float
) -> int:
    """See `ledger.arrived`. If an array is too small, nothing is done: returns -1 times what lacks."""
    lacking = ledger.lack(q)
    if lacking != ENOUGH:
        return -lacking
    q.on.next_rank[0] = rank
    return ledger.arrived(q, job, chunks, kind, estimate_s, since_s)


@called_by_handle
def lack(q: NodeQueue) -> int:
    """What is too small for a decision."""
    return ledger.lack_of_nodes(q)


@called_by_handle
def nothing_fits(q: NodeQueue) -> bool:
    return ledger.nothing_fits(q)


@called_by_handle
def extend_estimate(q: NodeQueue, takes_s: float, now_s: float) -> None:
    ledger.extend_estimate(q.ledger, takes_s, now_s)


start_on = called_by_handle(on_nodes.start_on)
released = called_by_handle(ledger.released, _ON_NODES)
ended = called_by_handle(ledger.ended, _ON_NODES)
