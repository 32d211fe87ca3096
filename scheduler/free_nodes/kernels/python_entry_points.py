"""The transitions of a queue of identical nodes, and what is looked up there, for callers in Python.

Callers in compiled code do without this module, which would be compiled for nothing.
"""

from __future__ import annotations

from scheduler.compiled import called_by_handle, called_from_python
from scheduler.free_nodes.kernels import free_set, identical, ledger, queue_tree
from scheduler.free_nodes.kernels.identical import RigidQueue
from scheduler.free_nodes.kernels.ledger import ENOUGH, Q

_IDENTICAL = {Q: RigidQueue}


@called_by_handle
def arrived(q: RigidQueue, job: int, size: int, estimate_s: float, since_s: float) -> int:
    """See `ledger.arrived`. If an array is too small, nothing is done: returns -1 times what lacks."""
    lacking = ledger.lack(q)
    return -lacking if lacking != ENOUGH else ledger.arrived(q, job, size, 0, estimate_s, since_s)


@called_by_handle
def decide(q: RigidQueue, ordering: int, backfilling: int, now_s: float) -> int:
    """Which jobs start by these policies, and where: see `identical.choose_nodes`. Returns their number; if
    an array is too small, -1 times what lacks."""
    lacking = ledger.lack_of_nodes(q)
    if lacking != ENOUGH:
        return -lacking
    n = identical.decide_by(q, ordering, backfilling, now_s)
    identical.choose_nodes(q, n)
    return n


@called_by_handle
def extend_estimate(q: RigidQueue, takes_s: float, now_s: float) -> None:
    ledger.extend_estimate(q.ledger, takes_s, now_s)


start_on = called_by_handle(identical.start_on)
released = called_by_handle(ledger.released, _IDENTICAL)
ended = called_by_handle(ledger.ended, _IDENTICAL)
set_available = called_by_handle(identical.set_available)
place_of = called_from_python(queue_tree.place_of)
are_free = called_from_python(free_set.is_free)
lowest = called_from_python(free_set.lowest)
