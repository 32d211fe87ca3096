"""Which nodes have gone down or come back, for resource managers that get notices of changes."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.managers.availability import LatestReadings
from scheduler.model import MachineReading
from scheduler.notices import RunLost
from scheduler.ports import Monitor, NodeMonitor


class NodeChanges:
    """Follows the readings of a monitor; all nodes are up at first, and always without one."""

    def __init__(self, monitor: Monitor | NodeMonitor | None) -> None:
        self._monitor = monitor
        self._down: set[int] = set()
        self._latest = LatestReadings()

    def new(self, loss: RunLost | None = None) -> Iterator[tuple[int, bool]]:
        """Nodes, and whether they are up, whose reported state has changed since the last call, by the
        monitor or by the loss of a run."""
        news = self._monitor.news() if self._monitor else ()
        for reading in (*(loss.readings if loss else ()), *news):
            if not isinstance(reading, MachineReading):
                continue
            node, up = reading.machine, reading.up
            if self._latest.accept(node, reading.measured_s) and up == (node in self._down):
                self._down ^= {node}
                yield node, up
