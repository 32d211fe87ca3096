"""Nodes of which jobs use parts: what waits for them, and what runs hold."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Ints, Ints2, floats, integers, larger
from scheduler.core.codes import QueueCodes
from scheduler.core.queue import Queue
from scheduler.node_resources.core.codes import NONE
from scheduler.node_resources.core.placement import Ranking, Rows
from scheduler.node_resources.core.state import NodeState
from scheduler.priority.core.service import Service


class Held:
    """What runs hold, as rows linked by `next`. Unused rows begin at `spare`."""

    def __init__(self) -> None:
        self.node, self.chunks, self.gpus = integers(MIN_SIZE), integers(MIN_SIZE), integers(MIN_SIZE)
        self.kind, self.next = integers(MIN_SIZE), integers(MIN_SIZE)
        self.n_used, self.spare = 0, NONE

    def new_row(self) -> int:
        row = self.spare
        if row != NONE:
            self.spare = self.next[row]
            return row
        row = self.n_used
        if row == self.node.shape[0]:
            n = 2 * row
            self.node, self.chunks = larger(self.node, n), larger(self.chunks, n)
            self.gpus, self.kind, self.next = larger(self.gpus, n), larger(self.kind, n), larger(self.next, n)
        self.n_used = row + 1
        return row

    def hold(self, rows: Rows, begin: int, after: int, kind: int) -> int:
        """Note what a run holds, with a request of this kind. Returns its first row."""
        following = NONE
        for x in range(after - 1, begin - 1, -1):
            row = self.new_row()
            self.node[row], self.chunks[row], self.gpus[row] = rows.node[x], rows.chunks[x], rows.gpus[x]
            self.kind[row], self.next[row] = kind, following
            following = row
        return following

    def let_go(self, first: int) -> None:
        """Free the rows of a run."""
        last = first
        while self.next[last] != NONE:
            last = self.next[last]
        self.next[last], self.spare = self.spare, first

    def table(self, first: int) -> Ints2:
        """Columns NODE, CHUNKS and GPUS of what a run holds, by its first row."""
        rows, row = list[tuple[int, int, int]](), first
        while row != NONE:
            rows.append((self.node[row], self.chunks[row], self.gpus[row]))
            row = self.next[row]
        return np.array(rows, np.int64)


class StartRule:
    """Decides which of the waiting jobs start."""

    def __init__(self) -> None:
        self.takes = True
        """Whether the jobs of a decision have taken what they use."""

    def decide(self, ordering: int, backfilling: int, now_s: float) -> int:
        """Write the jobs that start to `placed` of the queue, and what they use to `rows`. Returns their
        number."""
        return 0


class OnNodes(Queue):
    """By slot: the kind of a job's request and its number of chunks; a run's first row in `held`; a `ticket`
    that no other job has had in this slot; the rank of the job's queue, 0 for the one served first; the
    number of its user, or NONE; the priority of a waiting job in its queue.

    The slots of waiting jobs are `in_order` of queue, priority, arrival and number, and `by_estimate`: of
    queue, estimate, arrival and number. `next_rank` and `next_user` are those of the next job which arrives.
    `is_reordered`: jobs changed places since reservations were made. `displacement`, if any, knows jobs that
    do not fit, but may stop runs.

    A job of several partitions has `n_choices`, and by slot their `kinds` and `claims`, row 0 being those
    with which it waits; `choice` is the row that counts now. `choices` has the kinds and claims of such jobs
    by number before they arrive, and `where` the partition of a kind.

    Of a decision: the jobs that start are in the slots `placed`, the rows of each end before `after`.
    """

    def __init__(self, nodes: NodeState, policy: QueueCodes) -> None:
        Queue.__init__(self, policy)
        self.nodes, self.held, self.rows, self.rule = nodes, Held(), Rows(), StartRule()
        self.kind, self.chunks, self.first_row = integers(MIN_SIZE), integers(MIN_SIZE), integers(MIN_SIZE)
        self.ticket, self.rank, self.estimate_s = integers(MIN_SIZE), integers(MIN_SIZE), floats(MIN_SIZE)
        self.in_order, self.by_estimate = integers(MIN_SIZE), integers(MIN_SIZE)
        self.placed, self.after = integers(MIN_SIZE), integers(MIN_SIZE)
        self.next_rank, self.n_tickets, self.n_placed = 0, 0, 0
        self.next_user, self.user = NONE, integers(MIN_SIZE)
        self.choices, self.where = dict[int, Ints2](), dict[int, str]()
        self.n_choices, self.choice = integers(MIN_SIZE), integers(MIN_SIZE)
        self.kinds, self.claims = np.zeros((MIN_SIZE, 0), np.int64), np.zeros((MIN_SIZE, 0), np.int64)
        self.service, self.priority, self.is_reordered = Service(), integers(MIN_SIZE), False
        self.calendar, self.n_hidden = nodes.kinds.calendar, 0
        self.hidden, self.hidden_fit = integers(nodes.n_nodes), integers(nodes.n_nodes)
        self.fit_there = integers(nodes.n_nodes)
        self.any_switches_s = inf
        self.displacement: Any = None

    def make_room(self, n_slots: int) -> None:
        Queue.make_room(self, n_slots)
        self.kind, self.chunks = larger(self.kind, n_slots), larger(self.chunks, n_slots)
        self.first_row, self.ticket = larger(self.first_row, n_slots), larger(self.ticket, n_slots)
        self.rank, self.estimate_s = larger(self.rank, n_slots), larger(self.estimate_s, n_slots)
        self.priority, self.user = larger(self.priority, n_slots), larger(self.user, n_slots)
        self.in_order, self.by_estimate = larger(self.in_order, n_slots), larger(self.by_estimate, n_slots)
        self.placed, self.after = larger(self.placed, n_slots), larger(self.after, n_slots)
        self.n_choices, self.choice = larger(self.n_choices, n_slots), larger(self.choice, n_slots)
        self.kinds, self.claims = larger(self.kinds, n_slots), larger(self.claims, n_slots)

    def nothing_fits(self) -> bool:
        for x in range(self.n_waiting):
            slot = self.in_order[x]
            if self.nodes.fits_now(self.kind[slot], self.chunks[slot]) and not self.service.is_held(slot):
                return False
        return self.displacement is None or not self.displacement.may_help()

    def fits(self, slot: int, now_s: float) -> bool:
        """Whether a job fits now, where no reservation is in its way. O(nodes) if one may be."""
        kind = self.kind[slot]
        if not self.nodes.fits_now(kind, self.chunks[slot]):
            return False
        self.hide(slot, now_s)
        nodes, chunks = self.nodes, self.chunks[slot]
        is_enough = nodes.total[kind] >= chunks and nodes.kinds.connects(kind, chunks, nodes.fit[kind])
        self.show(kind)
        return is_enough

    def hide(self, slot: int, now_s: float) -> None:
        """Let a job fit nowhere that a reservation is in its way, until `show`; what fits is up to date."""
        nodes, calendar, kind = self.nodes, self.calendar, self.kind[slot]
        own, until_s = nodes.kinds.own(kind), now_s + self.estimate_s[slot]
        self.n_hidden = 0
        if calendar.n == 0 or not calendar.has_in_the_way(own, now_s, until_s):
            return
        for n in range(nodes.n_nodes):
            if nodes.fit[kind, n] > 0 and calendar.in_the_way(own, n, now_s, until_s) != NONE:
                self.hidden[self.n_hidden], self.hidden_fit[self.n_hidden] = n, nodes.fit[kind, n]
                nodes.total[kind] -= nodes.fit[kind, n]
                nodes.fit[kind, n] = 0
                self.n_hidden += 1

    def show(self, kind: int) -> None:
        for x in range(self.n_hidden):
            self.nodes.fit[kind, self.hidden[x]] = self.hidden_fit[x]
            self.nodes.total[kind] += self.hidden_fit[x]

    def choose(self, slot: int, ranking: Ranking) -> bool:
        """Add to the rows what a job uses, with those nodes first that count already for its limits of nodes.
        Returns whether it exceeds none of them there; otherwise it adds nothing. O(n) in the nodes, with such
        limits."""
        kind, left, begin, fit = self.kind[slot], self.chunks[slot], self.rows.n, ranking.state.fit
        limits, claim = self.service.limits, self.service.limits.claim_of(slot)
        if not limits.of_nodes[claim]:
            ranking.choose(kind, left, self.rows)
            return True
        kinds, fit_there = self.nodes.kinds, self.fit_there
        by_switches = kinds.on_node[kind] > 0
        for is_new in range(2):
            total = 0
            for n in range(self.nodes.n_nodes):
                fit_there[n] = fit[kind, n]
                if limits.counts_on(claim, n) == is_new and not (by_switches and is_new):
                    fit[kind, n] = 0
                total += fit[kind, n]
            some = min(total, left)
            if by_switches and (some < left or not kinds.connects(kind, left, fit[kind])):
                some = 0  # all of its nodes are chosen together
            if some > 0:
                ranking.choose(kind, some, self.rows)
            left -= some
            for n in range(self.nodes.n_nodes):
                fit[kind, n] = fit_there[n]
        if limits.first_exceeded_on(claim, self.rows.node, begin, self.rows.n) == NONE:
            return True
        self.rows.n = begin
        return False

    def has_nodes_left(self, slot: int) -> bool:
        """Whether a job exceeds no limit of nodes wherever it runs."""
        limits = self.service.limits
        return limits.first_exceeded_on(limits.claim_of(slot), self.rows.node, 0, 0) == NONE

    def counts_nodes(self, slot: int) -> bool:
        """Whether a job counts for a limit of nodes."""
        return self.service.limits.of_nodes[self.service.limits.claim_of(slot)]

    def comes_first(self, a: int, b: int) -> bool:
        """Whether job a comes before job b by arrival, then number."""
        return self.began_s[a] < self.began_s[b] or (
            self.began_s[a] == self.began_s[b] and self.job[a] < self.job[b]
        )

    def wait(self, slot: int, size: int, kind: int, estimate_s: float) -> None:
        rank, ranks, estimates_s = self.next_rank, self.rank, self.estimate_s
        self.kind[slot], self.chunks[slot], ranks[slot], estimates_s[slot] = kind, size, rank, estimate_s
        self.n_tickets += 1
        self.ticket[slot], self.user[slot] = self.n_tickets, self.next_user
        self.nodes.make_room()
        self.service.arrives(slot, self.began_s[slot])
        self.note_choices(slot)
        self.priority[slot] = NONE
        self.put_in_order(slot, self.n_waiting)
        y = self.n_waiting
        while y > 0:
            other = self.by_estimate[y - 1]
            if ranks[other] < rank or (
                ranks[other] == rank
                and (
                    estimates_s[other] < estimate_s
                    or (estimates_s[other] == estimate_s and self.comes_first(other, slot))
                )
            ):
                break
            self.by_estimate[y] = other
            y -= 1
        self.by_estimate[y] = slot

    def note_choices(self, slot: int) -> None:
        """Note between which partitions there is a choice for a job that arrives."""
        self.n_choices[slot], self.choice[slot] = 0, 0
        if not self.choices or self.job[slot] not in self.choices:
            return
        kinds, claims = self.choices[self.job[slot]]
        n, width = len(kinds), self.kinds.shape[1]
        if n >= width:
            more = ((0, 0), (0, n + 1 - width))
            self.kinds, self.claims = np.pad(self.kinds, more), np.pad(self.claims, more)
        np.asarray(self.kinds)[slot, : n + 1] = self.kind[slot], *kinds
        np.asarray(self.claims)[slot, : n + 1] = self.service.limits.claim_of(slot), *claims
        self.n_choices[slot] = n

    def choose_partition(self, slot: int, choice: int) -> None:
        """Let a waiting job request and claim what it does in one of its partitions, or none (0)."""
        if choice != self.choice[slot]:
            self.kind[slot], self.choice[slot] = self.kinds[slot, choice], choice
            self.service.limits.change(slot, self.claims[slot, choice])

    def priority_of(self, slot: int) -> int:
        """The tier and priority of a waiting job, which are calculated where it is first compared with
        another."""
        if self.priority[slot] == NONE:
            self.priority[slot] = self.service.order(slot)
        return self.priority[slot]

    def put_in_order(self, slot: int, x: int) -> int:
        """Insert a waiting job among the first x in order. Returns its place."""
        rank = self.rank[slot]
        priority = self.priority_of(slot) if x > 0 else NONE
        while x > 0:
            other = self.in_order[x - 1]
            if self.rank[other] != rank:
                if self.rank[other] < rank:
                    break
            elif self.priority_of(other) != priority:
                if self.priority[other] > priority:
                    break
            elif self.comes_first(other, slot):
                break
            self.in_order[x] = other
            x -= 1
        self.in_order[x] = slot
        return x

    def by_urgency(self, ordering: int) -> Ints:
        """The slots of waiting jobs by the rank of their queue, an ordering by deadlines, then in order."""
        slots = np.asarray(self.in_order)[: self.n_waiting]
        keys = np.asarray(self.urgency(ordering))[slots], np.asarray(self.rank)[slots]
        return slots[np.lexsort(keys)]

    def set_in_order(self, now_s: float) -> None:
        """Calculate priorities again, if that is due, and note which reservations of the calendar are over.
        O(n) for n waiting jobs, if few change places."""
        self.calendar.forget_past(now_s)
        self.end_waits_for_switches(now_s)
        if not self.service.calculate(now_s):
            return
        for x in range(self.n_waiting):
            slot = self.in_order[x]
            self.priority[slot] = NONE
            if self.put_in_order(slot, x) != x:
                self.is_reordered = True

    def end_waits_for_switches(self, now_s: float) -> None:
        """Let jobs have any number of leaf switches that have waited long enough for few."""
        kinds, self.any_switches_s = self.nodes.kinds, inf
        if kinds.switches.n == 0:
            return
        for x in range(self.n_waiting):
            slot = self.in_order[x]
            kind = self.kind[slot]
            if kinds.most_leaves[kind] > 0:
                until_s = self.began_s[slot] + kinds.wait_s[kind]
                if until_s > now_s:
                    self.any_switches_s = min(self.any_switches_s, until_s)
                else:
                    self.kind[slot], self.is_reordered = kinds.after[kind], True
                    for c in range(self.n_choices[slot] + 1 if self.n_choices[slot] > 0 else 0):
                        self.kinds[slot, c] = kinds.after[self.kinds[slot, c]]

    def ended(self, slot: int, now_s: float) -> None:
        self.service.ends(slot, now_s)
        Queue.ended(self, slot, now_s)

    def give_nodes_back(self, slot: int) -> None:
        held, first = self.held, self.first_row[slot]
        self.hold_in(self.nodes, slot, self.kind[slot], -1)
        if self.counts_nodes(slot):
            row = first
            while row != NONE:
                self.service.limits.count_on(self.service.limits.claim[slot], held.node[row], -1)
                row = held.next[row]
        self.service.take(slot, -1)
        held.let_go(first)

    def hold_in(self, nodes: NodeState, slot: int, kind: int, sign: int) -> None:
        """In a state of the nodes, a run takes (1) or gives back (-1) what it holds, as if its request were
        of some kind."""
        held, row = self.held, self.first_row[slot]
        while row != NONE:
            if sign > 0:
                nodes.take(kind, held.node[row], held.chunks[row], held.gpus[row], NONE)
            else:
                nodes.give_back(kind, held.node[row], held.chunks[row], held.gpus[row])
            row = held.next[row]
        nodes.give_of_site(kind, -sign)

    def hold_as(self, slot: int, kind: int, end_s: float) -> None:
        """A run holds from now on, as expected until `end_s`, what a request of another kind has, on the same
        nodes."""
        row = self.first_row[slot]
        self.hold_in(self.nodes, slot, self.kind[slot], -1)
        self.hold_in(self.nodes, slot, kind, 1)
        while row != NONE:
            self.held.kind[row] = kind
            row = self.held.next[row]
        self.kind[slot] = kind
        self.expect_end(slot, self.first_row[slot], end_s)

    def place_of(self, job: int) -> int:
        """The position of a job among those that wait, in order; NONE if it does not wait."""
        for x in range(self.n_waiting):
            if self.job[self.in_order[x]] == job:
                return x
        return NONE

    def row_before(self, x: int) -> int:
        """The first row of the job in this place of a decision."""
        return self.after[x - 1] if x > 0 else 0

    def note_placed(self, slot: int) -> None:
        """Note that the rows added since the job before are of this one."""
        self.placed[self.n_placed], self.after[self.n_placed] = slot, self.rows.n
        self.n_placed += 1

    def give_rows_back(self, kind: int, begin: int, after: int) -> None:
        """Free what a job of this kind took in a pass."""
        rows = self.rows
        for x in range(begin, after):
            self.nodes.give_back(kind, rows.node[x], rows.chunks[x], rows.gpus[x])
        self.nodes.give_of_site(kind, 1)

    def count(self, slot: int, begin: int, after: int, sign: int) -> None:
        """Count a job with what these rows state for its limits (1), or no longer (-1)."""
        self.service.take(slot, sign)
        if self.counts_nodes(slot):
            for x in range(begin, after):
                self.service.limits.count_on(self.service.limits.claim[slot], self.rows.node[x], sign)

    def undo(self) -> None:
        """Free what jobs took in a pass."""
        for x in range(self.n_placed - 1, -1, -1):
            slot, begin, after = self.placed[x], self.row_before(x), self.after[x]
            self.give_rows_back(self.kind[slot], begin, after)
            self.count(slot, begin, after, -1)
            self.choose_partition(slot, 0)

    def changes_s(self, now_s: float) -> float:
        """When priorities are calculated, a reservation begins or ends, or a job may have any switches."""
        return min(self.service.next_s(), self.calendar.next_s(now_s), self.any_switches_s)

    def decide(self, now_s: float) -> int:
        self.asks_again_s = inf
        self.set_in_order(now_s)
        n_placed = self.rule.decide(self.ordering, self.backfilling, now_s)
        if n_placed < self.n_waiting:
            self.asks_again_s = min(self.asks_again_s, self.changes_s(now_s))
        return n_placed

    def take_placed(self, n_started: int) -> None:
        """Take what the jobs of a decision use."""
        rows, x = self.rows, 0
        for y in range(n_started):
            kind = self.kind[self.placed[y]]
            while x < self.after[y]:
                rows.gpus[x] = self.nodes.take(kind, rows.node[x], rows.chunks[x], rows.gpus[x], NONE)
                x += 1
            self.nodes.give_of_site(kind, -1)
            self.count(self.placed[y], self.row_before(y), self.after[y], 1)

    def begin_on(self, slot: int, row: int, after: int, now_s: float, end_s: float) -> None:
        """Start a waiting job on what these rows state, which is taken; it still has its place in the
        queue."""
        self.first_row[slot] = self.held.hold(self.rows, row, after, self.kind[slot])
        self.begin(slot, self.first_row[slot], now_s, end_s)
        self.service.begins(slot, now_s)

    def leave(self, slot: int) -> None:
        self.holds[slot] = True
        self.close_ranks()
        self.holds[slot] = False
        self.service.leaves(slot)

    def close_ranks(self) -> None:
        """Remove the jobs that hold nodes from those that wait."""
        n, m = 0, 0
        for x in range(self.n_waiting):
            if not self.holds[self.in_order[x]]:
                self.in_order[n] = self.in_order[x]
                n += 1
            if not self.holds[self.by_estimate[x]]:
                self.by_estimate[m] = self.by_estimate[x]
                m += 1
        self.n_waiting = n

    def start(self, n_started: int, now_s: float) -> None:
        if not self.rule.takes:
            self.take_placed(n_started)
        for x in range(n_started):
            slot = self.placed[x]
            self.begin_on(slot, self.row_before(x), self.after[x], now_s, now_s + self.estimate_s[slot])
            self.started[x] = slot
        if n_started > 0:
            self.close_ranks()

    def start_on(self, slot: int, used: Ints2, run: int, now_s: float, end_s: float) -> None:
        """Start a waiting job on what the rows of `used` state, which is still to be taken; rows without GPUs
        get some."""
        rows = self.rows
        rows.n, self.next_run = 0, run
        self.nodes.take_all_of(self.kind[slot], used)
        for x in range(used.shape[0]):
            rows.add(used[x, 0], used[x, 1], used[x, 2])
        self.count(slot, 0, rows.n, 1)
        self.begin_on(slot, 0, rows.n, now_s, end_s)
        self.close_ranks()
