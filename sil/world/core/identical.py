"""The compiled loop on identical nodes."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.identical import IdenticalNodes
from sil.world.core.jobs import RigidJobs
from sil.world.core.loop import Loop


class LoopOnIdenticalNodes(Loop):
    """A job uses nodes."""

    def __init__(
        self, jobs: RigidJobs, nodes: IdenticalNodes, ranks: Sequence[int], by: int, room: int
    ) -> None:
        Loop.__init__(self, jobs, nodes, ranks, by, room)
        self.nodes = nodes

    def note_use(self, slot: int) -> None:
        first = self.nodes.first_interval[slot]
        for y in range(first, first + self.nodes.n_intervals[slot]):
            self.facts.hold(self.nodes.intervals[y, 0], self.nodes.intervals[y, 1], 0)
