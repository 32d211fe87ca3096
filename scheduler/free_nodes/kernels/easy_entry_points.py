"""A pass of FCFS, SJF or EASY on nodes of which jobs use parts, for callers in Python."""

from __future__ import annotations

from scheduler.compiled import called_by_handle
from scheduler.free_nodes.kernels.on_nodes import EasyQueue, easy_pass
from scheduler.node_resources.kernels.backfilling import begin_pass, undo_pass


@called_by_handle
def begin(q: EasyQueue) -> None:
    begin_pass(q.on.decided)


@called_by_handle
def undo(q: EasyQueue) -> None:
    """What the jobs of the pass took is free."""
    undo_pass(q.on)


go_on = called_by_handle(easy_pass)
