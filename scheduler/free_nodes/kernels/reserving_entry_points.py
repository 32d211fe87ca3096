"""A pass with reservations on nodes of which jobs use parts, for callers in Python."""

from __future__ import annotations

from scheduler.compiled import called_by_handle
from scheduler.free_nodes.kernels.on_nodes import conservative_pass

go_on = called_by_handle(conservative_pass)
