"""Starting jobs one after another: the bookkeeping that one-pass algorithms for free nodes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scheduler.free_nodes.problem import FreeNodesProblem, FreeRoom
from scheduler.model import NodeSchedule, Start
from scheduler.rules import AllOthers

if TYPE_CHECKING:
    from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem


class Placer:
    """One pass that starts jobs on free nodes; all other jobs wait.

    Ask `fits(i)` and call `start(i)` for job i of the problem, and return `schedule(reason)`. Of identical
    nodes a job gets those with the lowest numbers, of consumable nodes those that the node selection prefers
    (a name like `best_fit`).
    """

    def __init__(
        self, problem: FreeNodesProblem | ConsumableNodesProblem, selection: str = "first_fit"
    ) -> None:
        self._n_jobs = len(problem.free_nodes.waiting)
        self._starts: list[Start] = []
        self._room = problem.room(selection)

    @property
    def n_free(self) -> int:
        """The identical nodes that are free, less those assigned in this pass. Raises AttributeError for
        consumable nodes: see `fits`."""
        if not isinstance(self._room, FreeRoom):
            raise AttributeError("consumable nodes have no n_free; ask fits(i)")
        return self._room.n_free

    def fits(self, i: int) -> bool:
        """Whether job i fits now, in addition to those started in this pass."""
        return self._room.fits(i)

    def start(self, i: int) -> None:
        """Start job i now. Raises ValueError if it does not fit."""
        self._starts.append(self._room.start(i))

    def schedule(self, reason: str, in_detail: Callable[[int], str] | None = None) -> NodeSchedule:
        """The jobs started; the others wait for `reason`, or for job i in detail `in_detail(i)`."""
        starts = tuple(self._starts)
        return NodeSchedule(starts, AllOthers(self._n_jobs, starts, reason, in_detail))
