"""Slurm's scheduling, with its parameters: a main scheduler at each event, and cycles of backfilling."""

from __future__ import annotations

from inspect import signature
from typing import Any, cast

from scheduler.free_nodes.consumable_nodes import ReservingPasses
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import planned
from scheduler.messages import UserError
from scheduler.model import NodeSchedule
from scheduler.node_resources.selection import checked_name, selection_by_name
from scheduler.priority.policy import BackfillParameters, SitePolicy

WAITS = (
    "it does not fit on the nodes, or would delay jobs that were planned before it, if backfilling tests it"
)


class SlurmBackfill:
    """Slurm's main and backfill schedulers on nodes with CPUs, memory and GPUs.

    The main scheduler starts jobs in order at each event; in each pool of nodes that partitions share, only
    until one does not fit. Every `bf_interval`, if something has happened, backfilling makes a new plan: each
    job it tests gets the earliest start within `bf_window` that runs and reservations before it leave, and
    starts if that is now. Decisions take no time. Cost: see `node_resources/core/two_passes.py`.
    """

    __signature__ = signature(BackfillParameters, eval_str=True)

    def __init__(self, **given: Any) -> None:
        """`given`: some of `BackfillParameters`."""
        self._given, self._passes = given, cast("ReservingPasses | None", None)
        self.selection = checked_name(self.parameters(None).selection)

    def parameters(self, policy: SitePolicy | None) -> BackfillParameters:
        """Those given, else those of the site's `slurm.conf`, else Slurm's defaults. Raises ValueError."""
        stated: dict[str, Any] = {} if policy is None else {**policy.scheduling}
        return BackfillParameters(**(stated | self._given))

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        if isinstance(problem, FreeNodesProblem):
            raise UserError("slurm_backfill schedules nodes with CPUs, and not identical processors")
        nodes = problem.free_nodes
        if self._passes is None or self._passes.state is not nodes:
            how = self.parameters(None if nodes.claims is None else nodes.claims.policy)
            self._passes = ReservingPasses(nodes, selection_by_name(self.selection), how)
        starts, again_s = self._passes.starts(problem.now_s), self._passes.asks_again_s
        return planned(problem, starts, self._passes.starts_s, again_s, WAITS)
