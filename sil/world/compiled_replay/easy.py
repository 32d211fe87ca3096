"""The compiled loop on nodes of which jobs use parts, under FCFS, SJF and EASY."""

from __future__ import annotations

from scheduler.compiled import long_running
from scheduler.free_nodes.kernels.ledger import Q
from scheduler.free_nodes.kernels.on_nodes import EasyQueue
from sil.world.compiled_replay import loop
from sil.world.compiled_replay import uses as uses  # implements what the loop writes

advance = long_running(loop.advance, {Q: EasyQueue})
