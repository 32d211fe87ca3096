"""The compiled loop on nodes of which jobs use parts."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan

import numpy as np

from scheduler.core.codes import CONSERVATIVE, QueueCodes
from scheduler.managers.preemptor import RunStep, RunSteps
from scheduler.managers.starting_manager import PREEMPTED
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
from sil.world.core.codes import CHANGED, CONTINUED, DOWN, LOST, NEWS, STOPPED, UP
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
        self.places: dict[tuple[int, float], int] = {}

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
            job = self.nodes.job[slot]
            self.wait_again(slot)
            self.over(slot, False)
            self.expire(job)
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
        if self.preemptor is not None:
            self.preemptor.displacement.has_changed(n)

    def begin_runs(self, n_started: int) -> None:
        q, preemptor = self.nodes, self.preemptor
        if preemptor is None:
            Loop.begin_runs(self, n_started)
            return
        for x in range(n_started):
            slot = q.started[x]
            preemptor.displacement.begin(slot, self.since_s[q.job[slot]], self.now_s)
        started = np.asarray(q.run)[np.asarray(q.started)[:n_started]].tolist()
        self.take(preemptor.decided(started, self.now_s))
        if q.n_waiting > 0:
            q.asks_again_s = min(q.asks_again_s, q.changes_s(self.now_s), preemptor.displacement.again_s)
        q.wants_round = bool(preemptor.suspension.lending)

    def take(self, steps: RunSteps) -> None:
        """Carry out what is to be done with runs."""
        assert self.preemptor is not None
        for step, run in steps:
            slot = self.preemptor.displacement.runs[run].slot
            job = self.nodes.job[slot]
            if step is RunStep.BEGIN:
                self.begin_run(slot)
            elif step is RunStep.STOP:
                self.stop(slot)
            elif step is RunStep.SUSPEND:
                self.suspend(slot)
            elif step is RunStep.CONTINUE:
                self.go_on(slot)
            elif step is RunStep.REQUEUE:
                self.wait_again(slot)
            elif step is RunStep.TAKE_BACK:
                self.free(slot)
                self.wait(job)
            else:
                self.free(slot)
                if self.eligibility is not None:
                    self.eligibility.end(job, self.now_s, False)
                self.give_up(job, PREEMPTED)

    def suspend(self, slot: int) -> None:
        """Suspend a run, unless it is already, was stopped or is about to end."""
        self.nodes.wants_round = True
        if slot in self.left or slot in self.stopped or self.running.keys[slot] == -inf:
            return
        end_s, place = self.running.keys[slot], self.running.ties[slot]
        self.places[self.nodes.run[slot], end_s] = place
        self.left[slot] = end_s - self.now_s
        self.ends_no_more(slot)
        self.running.push(slot, inf, place)
        self.note_run(slot, STOPPED, nan)

    def go_on(self, slot: int) -> None:
        """Let a run continue that is suspended; an end that is as before keeps its place."""
        if slot in self.left:
            end_s = self.now_s + self.left.pop(slot)
            self.ends_no_more(slot)
            place = self.places.setdefault((self.nodes.run[slot], end_s), self.n_begun)
            self.running.push(slot, end_s, place)
            self.n_begun += 1
            self.note_run(slot, CONTINUED, nan)

    def over(self, slot: int, is_stopped: bool) -> None:
        if self.preemptor is None:
            Loop.over(self, slot, is_stopped)
        else:
            self.take(self.preemptor.over(self.nodes.run[slot], is_stopped, self.now_s))
            self.go_on_all()
            self.nodes.something_changed()

    def withdraw(self, job: int) -> None:
        slot, preemptor = self.slot_of.pop(job), self.preemptor
        if preemptor is not None and preemptor.again.pop(job, None) is not None:
            self.nodes.something_changed()
        elif self.nodes.is_holding(slot):  # it has stopped, and others for the same job have not
            self.free(slot)
            self.over(slot, False)
        else:
            self.nodes.withdraw(slot)

    def estimate_overdue(self) -> None:
        Loop.estimate_overdue(self)
        if self.preemptor is not None:
            for job in self.preemptor.due(self.now_s):
                self.wait(job)
            self.take(self.preemptor.time_passed(self.now_s))

    def go_on_all(self) -> None:
        """Let suspended runs continue whose CPUs are free."""
        if self.preemptor is not None:
            self.take(self.preemptor.continued(self.now_s))

    def admit(self) -> None:
        self.go_on_all()
        Loop.admit(self)
        self.later_s = inf if self.preemptor is None else self.preemptor.next_s

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
