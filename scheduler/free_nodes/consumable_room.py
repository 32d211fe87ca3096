"""What is free on consumable nodes, less what jobs got in this pass."""

from __future__ import annotations

from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.free_nodes.room import Room
from scheduler.model import Start
from scheduler.node_resources.kernels.tables import NODE
from scheduler.node_resources.placement import Placement
from scheduler.node_resources.room import room_for
from scheduler.node_resources.selections import selection_by_name
from scheduler.node_resources.shares import shares_of
from scheduler.node_set import NodeSet


class ConsumableRoom(Room):
    """A copy of what is free, so that the problem stays as it is. A new one costs O(N)."""

    def __init__(self, problem: ConsumableNodesProblem, selection: str) -> None:
        self._problem = problem
        self._waiting = problem.free_nodes.waiting
        self._nodes = problem.free_nodes.nodes.alongside()
        self._placement = Placement(self._nodes, selection_by_name(selection))

    def fits(self, i: int) -> bool:
        return self._nodes.fits(int(self._waiting.kinds[i]), int(self._waiting.chunks[i]))

    def start(self, i: int) -> Start:
        kind, chunks = int(self._waiting.kinds[i]), int(self._waiting.chunks[i])
        used = self._placement.place(kind, chunks)
        if used is None:
            request = self._nodes.request_of(kind, chunks)
            raise ValueError(f"job {self._problem.jobs[i].id} does not fit: {room_for(self._nodes, request)}")
        completion_s = self._problem.now_s + float(self._waiting.estimates_s[i])
        return Start(i, NodeSet.of(set(used[:, NODE].tolist())), completion_s, shares_of(used))
