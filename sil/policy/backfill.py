"""A policy that chooses which of the waiting jobs starts next, as a scheduler for identical nodes."""

from __future__ import annotations

from scheduler import UserError
from scheduler.compiled import called_by_handle, handle
from scheduler.free_nodes.kernels.identical import RigidQueue, choose_nodes, lack_of_nodes
from scheduler.free_nodes.kernels.ledger import ENOUGH
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.model import NodeSchedule
from scheduler.rules import Kind
from scheduler.wait_reasons import AllOthers
from sil.policy.asking import Policy
from sil.world.compiled_replay import observation
from sil.world.compiled_replay.observation import Views, new_views, observation_of

WAITS = "the policy lets it wait"


@called_by_handle
def begin(q: RigidQueue, v: Views, now_s: float) -> int:
    """Begin a pass. Returns how many of the jobs in the window fit; if an array is too small, nothing
    is done: -1 times what lacks."""
    lacking = lack_of_nodes(q)
    if lacking != ENOUGH:
        return -lacking
    observation.begin_pass(q, v, 0)
    return observation.observe(q, v, 0, now_s)


@called_by_handle
def act(q: RigidQueue, v: Views, action: int, now_s: float) -> int:
    """Carry out an action of the pass. Returns how many jobs fit now, 0 if the others wait."""
    row = observation.chosen_row(v, 0, action)
    if row == v.mask.shape[1] - 1:
        return 0
    observation.choose(q, v, 0, row, now_s)
    return observation.observe(q, v, 0, now_s)


@called_by_handle
def end(q: RigidQueue, now_s: float) -> int:
    """End a pass. Returns how many jobs start, on the nodes of `choose_nodes`."""
    n = observation.end_pass(q, now_s)
    choose_nodes(q, n)
    return n


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
        nodes, now_s = problem.free_nodes, problem.now_s
        if self._views is None:
            self._views = new_views(1, self._window, nodes.n_nodes)
            self._handle = handle(self._views)
        seen, views = observation_of(self._views), self._handle
        while (n_fitting := begin(nodes.queue.handle, views, now_s)) < 0:
            nodes.queue.enlarge(-n_fitting)
        try:
            while n_fitting:
                action = self._policy.action(seen)
                n_fitting = act(nodes.queue.handle, views, action, now_s)
        finally:  # the queue is as before, whatever the policy raises
            n_started = end(nodes.queue.handle, now_s)
        starts = nodes.starts(n_started, now_s)
        return NodeSchedule(starts, AllOthers(problem.n_jobs, starts, WAITS))

    def __reduce__(self) -> tuple[type[BackfillPolicy], tuple[Policy, int]]:
        """Copies have views of their own."""
        return BackfillPolicy, (self._policy, self._window)
