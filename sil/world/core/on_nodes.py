"""The compiled loop on nodes of which jobs use parts."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.core.codes import CONSERVATIVE, QueueCodes
from scheduler.node_resources.core.codes import CORES, NONE, WHOLE
from scheduler.node_resources.core.easy import EasyRule
from scheduler.node_resources.core.on_nodes import OnNodes
from scheduler.node_resources.core.placement import Ranking
from scheduler.node_resources.core.reserving import ReservingRule
from scheduler.node_resources.core.two_passes import TwoPassRule
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.selection import NodeSelection, weights_of
from scheduler.ports import DrainChanged
from scheduler.priority.policy import BackfillParameters
from sil.world.core.codes import CHANGED, DOWN, LOST, NEWS, UP
from sil.world.core.jobs import RigidJobs
from sil.world.core.loop import Loop
from sil.world.events import NodeNotice, StateChange


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

    def __init__(self, jobs: RigidJobs, nodes: OnNodes, ranks: Sequence[int], by: int, room: int) -> None:
        Loop.__init__(self, jobs, nodes, ranks, by, room)
        self.down, self.drained, self.news = set[int](), set[int](), list[tuple[int, bool]]()
        self.nodes, self.claim = nodes, jobs.claim
        self.limit_of: dict[int, int] = {}

    def change(self, change: StateChange | NodeNotice) -> None:
        if isinstance(change, StateChange):
            self.change_state([n for n in change.subjects if isinstance(n, int)], change.up)
            return
        self.facts.note(self.now_s, CHANGED, 0, self.n_changed - 1, 0.0)
        for n in change.nodes:
            self.facts.hold(n, 0, 0)
            if isinstance(change, DrainChanged):
                self.take_out(self.drained, n, change.is_drained)
        if not isinstance(change, DrainChanged):
            self.nodes.calendar.reserve(*change)
        self.nodes.something_changed()

    def change_state(self, nodes: Sequence[int], is_up: bool) -> None:
        """Nodes go down or come back, which monitors see. The manager hears of lost runs at once."""
        for n in nodes:
            self.facts.note(self.now_s, UP if is_up else DOWN, 0, n, 0.0)
        self.news += [(n, is_up) for n in nodes]
        self.n_due[NEWS] = 1
        lost = [] if is_up else [slot for n in nodes for slot in self.runs_on(n)]
        for slot in dict.fromkeys(lost):
            self.interrupt(slot, LOST)
            for n in nodes:
                self.take_out(self.down, n, True)
            self.wait_again(slot)
            self.admit()

    def runs_on(self, node: int) -> list[int]:
        """The slots of the runs that hold a node, in order of start."""
        q, held, found = self.nodes, self.nodes.held, list[tuple[int, int]]()
        for x in range(self.running.n):
            slot = self.running.items[x]
            row = q.first_row[slot]
            while row != NONE and held.node[row] != node:
                row = held.next[row]
            if row != NONE:
                found.append((q.run[slot], slot))
        return [slot for _, slot in sorted(found)]

    def read_news(self) -> None:
        for n, is_up in self.news:
            self.take_out(self.down, n, not is_up)
            self.nodes.something_changed()
        self.news.clear()
        self.n_due[NEWS] = 0

    def take_out(self, out: set[int], n: int, is_out: bool) -> None:
        """Note whether a node is down, or drained."""
        if is_out:
            out.add(n)
        else:
            out.discard(n)
        self.nodes.calendar.set_up(n, n not in self.down and n not in self.drained)
        self.nodes.nodes.has_changed(n)

    def note_next(self, job: int) -> None:
        self.nodes.service.next_claim, self.nodes.next_user = self.claim[job], self.user[job]

    def refuses(self, job: int) -> bool:
        self.note_next(job)
        limit = self.nodes.service.refusing()
        if limit != NONE:
            self.limit_of[job] = limit
        return limit != NONE

    def note_use(self, slot: int) -> None:
        """Add shares of nodes, and the cores of whole nodes, if these were requested."""
        q, facts, held = self.nodes, self.facts, self.nodes.held
        row, at = q.first_row[slot], facts.n - 1
        if q.choices and q.job[slot] in q.choices and q.kind[slot] in q.where:
            facts.texts[at] = q.where[q.kind[slot]]
        while row != NONE:
            facts.hold(held.node[row], held.chunks[row], held.gpus[row])
            if q.nodes.kinds.exclusive[q.kind[slot]]:
                facts.whole_cores[at] += q.nodes.capacity[held.node[row], CORES]
            row = held.next[row]
        facts.whole_cores[at] = self.whole(facts.whole_cores[at])

    def whole(self, total: int) -> int:
        """Cores of whole nodes, rounded half to even."""
        cores, rest = total // WHOLE, total % WHOLE
        if 2 * rest > WHOLE or (2 * rest == WHOLE and cores % 2 == 1):
            cores += 1
        return cores
