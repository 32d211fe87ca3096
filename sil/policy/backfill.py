"""A policy that chooses which of the waiting jobs starts next, as a scheduler for identical nodes."""

from __future__ import annotations

from scheduler import UserError
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import NodeSchedule
from scheduler.rules import Kind
from scheduler.wait_reasons import AllOthers
from sil.policy.asking import Policy
from sil.world.core.observation import Views

WAITS = "the policy lets it wait"


class BackfillPolicy:
    """Asks a policy job by job: which of the first waiting jobs starts next, until none should or fits.

    It is asked while a job in its window fits. It sees what `sil/Backfill-v0` shows, and an action that the
    mask excludes means the same as there.
    """

    kind = Kind.FREE_NODES
    memoryless = True

    def __init__(self, policy: Policy, window: int) -> None:
        self._policy, self._window = policy, window
        self._views: Views | None = None

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        """Raises UserError for nodes of which jobs use parts."""
        if not isinstance(problem, FreeNodesProblem):
            raise UserError("a policy of sil/Backfill-v0 schedules identical processors, not parts of nodes")
        queue, now_s = problem.free_nodes.queue, problem.now_s
        if self._views is None:
            self._views = Views(1, self._window, problem.free_nodes.n_nodes)
        views = self._views
        views.begin_pass(queue, 0)
        n_fitting = views.observe(queue, 0, now_s)
        try:
            while n_fitting:
                row = views.chosen_row(0, self._policy.action(views.seen))
                if row == self._window:
                    break
                views.choose(queue, 0, row, now_s)
                n_fitting = views.observe(queue, 0, now_s)
        finally:  # the queue is as before, whatever the policy raises
            views.end_pass(queue, now_s)
        starts = queue.chosen(now_s)
        return NodeSchedule(starts, AllOthers(problem.n_jobs, starts, WAITS))

    def __reduce__(self) -> tuple[type[BackfillPolicy], tuple[Policy, int]]:
        """Copies have views of their own."""
        return BackfillPolicy, (self._policy, self._window)
