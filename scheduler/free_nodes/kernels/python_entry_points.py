"""The transitions of a queue of identical nodes, and what is looked up there, for callers in Python.

Callers in compiled code do without this module, which would be compiled for nothing.
"""

from __future__ import annotations

from scheduler.compiled import called_by_handle, called_from_python
from scheduler.free_nodes.kernels import free_set, queue_tree, rigid_queue, transitions
from scheduler.free_nodes.kernels.queues import ENOUGH, Q, RigidQueue

_IDENTICAL = {Q: RigidQueue}


@called_by_handle
def arrived(q: RigidQueue, job: int, size: int, estimate_s: float, since_s: float) -> int:
    """See `transitions.arrived`. If an array is too small, nothing is done: returns -1 times what lacks."""
    lacking = transitions.lack(q)
    return -lacking if lacking != ENOUGH else transitions.arrived(q, job, size, 0, estimate_s, since_s)


@called_by_handle
def decide(q: RigidQueue, ordering: int, backfilling: int, now_s: float) -> int:
    """Which jobs start by these policies, and where: see `rigid_queue.choose_nodes`. Returns their number; if
    an array is too small, -1 times what lacks."""
    lacking = transitions.lack_of_nodes(q)
    if lacking != ENOUGH:
        return -lacking
    n = rigid_queue.decide_by(q, ordering, backfilling, now_s)
    rigid_queue.choose_nodes(q, n)
    return n


start_on = called_by_handle(rigid_queue.start_on)
released = called_by_handle(transitions.released, _IDENTICAL)
ended = called_by_handle(transitions.ended, _IDENTICAL)
takes_longer = called_by_handle(transitions.takes_longer, _IDENTICAL)
set_available = called_by_handle(rigid_queue.set_available)
place_of = called_from_python(queue_tree.place_of)
are_free = called_from_python(free_set.is_free)
lowest = called_from_python(free_set.lowest)
