"""Slurm's scheduling, with its parameters: a main scheduler at each event, and cycles of backfilling."""

from __future__ import annotations

from inspect import signature
from math import inf
from typing import Any

from scheduler.free_nodes.consumable_nodes import ReservingPasses
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import reserved_for
from scheduler.messages import UserError
from scheduler.model import NodeSchedule
from scheduler.node_resources.selection import checked_name, selection_by_name
from scheduler.priority.policy import BackfillParameters, SitePolicy
from scheduler.rules import AllOthers

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

    def __init__(self, selection: str = "first_fit", **given: Any) -> None:
        """`given`: some of `BackfillParameters`."""
        self.selection, self._given = checked_name(selection), given
        self._passes: ReservingPasses | None = None
        self.parameters(None)

    __signature__ = signature(BackfillParameters, eval_str=True)
    __signature__ = __signature__.replace(
        parameters=[
            signature(__init__, eval_str=True).parameters["selection"],
            *__signature__.parameters.values(),
        ]
    )

    def parameters(self, policy: SitePolicy | None) -> BackfillParameters:
        """Those given, else those of the site's `slurm.conf`, else Slurm's defaults. Raises ValueError."""
        stated: dict[str, Any] = {} if policy is None else {**policy.scheduling}
        return BackfillParameters(**(stated | self._given))

    def schedule(self, problem: FreeNodesProblem | ConsumableNodesProblem) -> NodeSchedule:
        if isinstance(problem, FreeNodesProblem):
            raise UserError(
                "slurm_backfill schedules nodes with CPUs, and there are identical processors; name the "
                "nodes, as in --nodes slurm.conf, or give a policy"
            )
        nodes, now_s, n = problem.free_nodes, problem.now_s, problem.n_jobs
        if self._passes is None or self._passes.state is not nodes:
            how = self.parameters(None if nodes.claims is None else nodes.claims.policy)
            self._passes = ReservingPasses(nodes, selection_by_name(self.selection), how)
        starts, again_s = self._passes.starts(now_s), self._passes.asks_again_s
        starts_s = self._passes.starts_s

        def why(i: int) -> str:
            return problem.in_line(i, starts, reserved_for(starts_s[i]) if starts_s[i] < inf else WAITS)

        return NodeSchedule(starts, AllOthers(n, starts, WAITS, why), again_s if again_s < inf else None)
