"""The pass with reservations as Python calls it, which the compiled engine does without."""

from __future__ import annotations

from scheduler.compiled import called_from_python
from scheduler.node_resources.kernels.timeline.reserving import reserve

go_on_reserving = called_from_python(reserve)
