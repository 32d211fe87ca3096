"""The compiled loop on nodes of which jobs use parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from scheduler.core.codes import CONSERVATIVE, QueueCodes
from scheduler.node_resources.core.codes import CORES, NONE, WHOLE
from scheduler.node_resources.core.easy import EasyRule
from scheduler.node_resources.core.on_nodes import OnNodes
from scheduler.node_resources.core.placement import Ranking
from scheduler.node_resources.core.reserving import ReservingRule
from scheduler.node_resources.core.two_passes import TwoPassRule
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.selection import NodeSelection, weights_of
from scheduler.ports import DrainChanged, ReservationMade
from scheduler.priority.policy import BackfillParameters
from sil.world.core.codes import CHANGED
from sil.world.core.jobs import RigidJobs
from sil.world.core.loop import Loop
from sil.world.failures import TimedNotice


def queue_on_nodes(
    nodes: DescribedNodes, selection: NodeSelection, policy: QueueCodes, how: BackfillParameters | None = None
) -> OnNodes:
    """An empty queue, for Slurm's schedulers if it has parameters. The selection must be a compiled one."""
    queue, weights = OnNodes(nodes.state, policy), weights_of(selection, nodes)
    queue.rule = main = EasyRule(queue, Ranking(nodes.state, selection.code, weights))
    if policy.backfilling == CONSERVATIVE:
        queue.rule = plan = ReservingRule(queue, Ranking(nodes.state.alongside(), selection.code, weights))
        if how is not None:
            queue.rule = TwoPassRule(queue, main, plan, how)
    return queue


class LoopOnNodes(Loop):
    """A job uses chunks and GPUs of nodes. `limit_of` has the limits of submitted jobs that refused jobs."""

    def __init__(
        self,
        jobs: RigidJobs,
        nodes: OnNodes,
        ranks: Sequence[int],
        by: int,
        room: int,
        changes: Sequence[TimedNotice] = (),
    ) -> None:
        Loop.__init__(self, jobs, nodes, ranks, by, room)
        self.changes, self.n_changed = tuple(changes), 0
        self.next_change_s = changes[0][0] if changes else inf
        self.nodes, self.claim = nodes, jobs.claim
        self.limit_of: dict[int, int] = {}

    def change(self) -> None:
        q, facts, calendar = self.nodes, self.facts, self.nodes.calendar
        notice = self.changes[self.n_changed][1]
        facts.note(self.now_s, CHANGED, 0, self.n_changed, 0.0)
        self.n_changed += 1
        self.next_change_s = self.changes[self.n_changed][0] if self.n_changed < len(self.changes) else inf
        for n in notice.nodes:
            facts.hold(n, 0, 0)
            if isinstance(notice, DrainChanged):
                calendar.set_up(n, not notice.is_drained)
                q.nodes.has_changed(n)
        if isinstance(notice, ReservationMade):
            calendar.reserve(*notice)
        q.something_changed()

    def refuses(self, job: int) -> bool:
        service = self.nodes.service
        service.next_claim, self.nodes.next_user = self.claim[job], self.user[job]
        limit = service.refusing()
        if limit != NONE:
            self.limit_of[job] = limit
        return limit != NONE

    def note_use(self, x: int) -> None:
        """Add shares of nodes, and the cores of whole nodes, if these were requested."""
        q, facts = self.nodes, self.facts
        begin, after = q.row_before(x), q.after[x]
        for row in range(begin, after):
            facts.hold(q.rows.node[row], q.rows.chunks[row], q.rows.gpus[row])
        if q.nodes.kinds.exclusive[q.kind[q.placed[x]]]:
            facts.whole_cores[facts.n - 1] = self.whole_cores(begin, after)

    def whole_cores(self, begin: int, after: int) -> int:
        """The cores of whole nodes, rounded half to even."""
        total = 0
        for row in range(begin, after):
            total += self.nodes.nodes.capacity[self.nodes.rows.node[row], CORES]
        cores, rest = total // WHOLE, total % WHOLE
        if 2 * rest > WHOLE or (2 * rest == WHOLE and cores % 2 == 1):
            cores += 1
        return cores
