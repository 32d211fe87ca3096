"""Identical nodes, each for one job: what waits for them, and what is free."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import MIN_SIZE, integers, larger
from scheduler.core.codes import CONSERVATIVE, EDF, IN_ORDER, NO_BACKFILLING, NONE, SJF, QueueCodes
from scheduler.core.free_intervals import FreeIntervals, InOrder
from scheduler.core.queue import Queue
from scheduler.core.reservations import Reservations
from scheduler.core.starting import Starting
from scheduler.core.waiting_tree import WaitingTree
from scheduler.model import Start
from scheduler.node_set import NodeSet


class IdenticalNodes(Queue):
    """The queue of identical nodes, and which are free. The nodes of a run are in rows of `intervals`.
    `last_s` and `last_job` are the arrival and the number of the last job in order that has waited.
    `is_taken` says whether a node that is down is withheld from the free ones; otherwise a run holds it."""

    def __init__(self, n_nodes: int, policy: QueueCodes = QueueCodes()) -> None:  # noqa: B008 (immutable)
        Queue.__init__(self, policy)
        self.free = FreeIntervals(n_nodes)
        self.cursor = InOrder(self.free)
        self.tree, self.starting, self.reservations = WaitingTree(), Starting(), Reservations()
        self.size, self.place = integers(MIN_SIZE), integers(MIN_SIZE)
        self.first_interval, self.n_intervals = integers(MIN_SIZE), integers(MIN_SIZE)
        self.n_held, self.intervals = 0, np.zeros((2 * MIN_SIZE, 2), np.int64)
        self.n_down, self.down, self.is_taken = 0, integers(8), integers(8)
        self.last_s, self.last_job = -inf, NONE

    def make_room(self, n_slots: int) -> None:
        Queue.make_room(self, n_slots)
        self.size, self.place = larger(self.size, n_slots), larger(self.place, n_slots)
        self.first_interval = larger(self.first_interval, n_slots)
        self.n_intervals = larger(self.n_intervals, n_slots)

    def make_room_for_intervals(self, more: int) -> None:
        """Drop the intervals of ended runs; make room for `more`, and as much again."""
        if self.n_held + more <= self.intervals.shape[0]:
            return
        holding = np.flatnonzero(np.asarray(self.holds))
        sizes = np.asarray(self.n_intervals)[holding]
        ends = sizes.cumsum()
        total = int(sizes.sum())
        rows = np.repeat(np.asarray(self.first_interval)[holding] - ends + sizes, sizes) + np.arange(total)
        kept = np.zeros((max(32_768, 2 * (total + more)), 2), np.int64)
        kept[:total] = np.asarray(self.intervals)[rows]
        np.asarray(self.first_interval)[holding] = ends - sizes
        self.intervals, self.n_held = kept, total

    def nothing_fits(self) -> bool:
        return self.tree.size[1] > self.free.n

    def wait(self, slot: int, size: int, kind: int, estimate_s: float) -> None:
        self.size[slot] = size
        self.tree.add(self.job[slot], slot, size, estimate_s, self.place)
        since_s, job = self.began_s[slot], self.job[slot]
        if since_s < self.last_s or (since_s == self.last_s and job < self.last_job):
            self.sort_waiting()  # it waits again, before jobs that arrived later
        else:
            self.last_s, self.last_job = since_s, job

    def leave(self, slot: int) -> None:
        self.tree.set_leaf(self.place[slot], 0, inf, inf)
        self.n_waiting -= 1

    def turn_nodes(self, slot: int) -> None:
        """Take the nodes of a run, or give them back."""
        first = self.first_interval[slot]
        for x in range(first, first + self.n_intervals[slot]):
            self.free.toggle(self.intervals[x, 0], self.intervals[x, 1])

    def take_nodes_down(self) -> None:
        """Withhold the nodes that are down from the free ones."""
        for x in range(self.n_down):
            node = self.down[x]
            if self.free.is_free(node, node):
                self.free.toggle(node, node)
                self.is_taken[x] = 1

    def give_nodes_back(self, slot: int) -> None:
        self.turn_nodes(slot)
        self.take_nodes_down()

    def set_available(self, node: int, is_available: bool) -> None:
        """Mark a node as up or down. A run that holds it keeps it."""
        n, x = self.n_down, 0
        while x < n and self.down[x] != node:
            x += 1
        if is_available and x < n:
            was_taken = self.is_taken[x]
            self.down[x], self.is_taken[x] = self.down[n - 1], self.is_taken[n - 1]
            self.n_down = n - 1
            if was_taken:
                self.free.toggle(node, node)
        elif not is_available and x == n:
            if n == self.down.shape[0]:
                self.down, self.is_taken = larger(self.down, 2 * n), larger(self.is_taken, 2 * n)
            self.down[n], self.is_taken[n], self.n_down = node, 0, n + 1
            self.take_nodes_down()

    def start_one(self, place: int) -> int:
        """Record the job, and remove it from the queue for the rest of the pass. Returns its number of
        nodes."""
        k = self.tree.capacity + place
        size = int(self.tree.size[k])
        self.starting.add(place, size, self.tree.estimate_s[k], 0)
        self.tree.set_leaf(place, 0, inf, inf)
        return size

    def put_back(self) -> None:
        """Restore the queue as it was before the pass."""
        s = self.starting
        for x in range(s.n):
            self.tree.set_leaf(s.place[x], 1, s.size[x], s.takes_s[x])
        for x in range(s.n):
            s.rank[x] = self.tree.rank_of(s.place[x])

    def reservation(self, n_free: int, needed: int, now_s: float) -> tuple[float, int]:
        """Return when `needed` nodes are expected to be free, counting all released at that time, and how
        many are spare then. Infinite if too few nodes are up."""
        then_s, x, r = now_s, 0, self.releases
        while x < r.n and (n_free < needed or r.end_s[x] <= then_s):
            then_s = max(then_s, r.end_s[x])
            n_free += r.released[x]
            x += 1
        return (then_s, n_free - needed) if n_free >= needed else (inf, 0)

    def first_in_queue(self, ordering: int) -> int:
        """The place of the first job by an ordering, or NONE."""
        if ordering >= EDF:
            return self.tree.most_urgent(self.urgency(ordering), inf, inf, 0.0, inf)
        return self.tree.first_in_queue(ordering == SJF)

    def one_pass(self, ordering: int, backfilling: int, now_s: float) -> None:
        """Write the jobs that start to `starting`, in order, and leave all else unchanged."""
        tree, starting, n_free = self.tree, self.starting, self.free.n
        starting.n = 0
        head = self.first_in_queue(ordering)
        while head != NONE and tree.size[tree.capacity + head] <= n_free:
            n_free -= self.start_one(head)
            head = self.first_in_queue(ordering)
        if head != NONE and backfilling != NO_BACKFILLING and tree.size[1] <= n_free:
            n_heads = starting.n
            for x in range(n_heads):
                self.releases.expect(now_s + starting.takes_s[x], starting.size[x])
            shadow_s, spare = self.reservation(n_free, int(tree.size[tree.capacity + head]), now_s)
            for x in range(n_heads):
                self.releases.forget(now_s + starting.takes_s[x])
            while tree.size[1] <= n_free:
                if backfilling == IN_ORDER and ordering >= EDF:
                    place = tree.most_urgent(self.urgency(ordering), n_free, spare, now_s, shadow_s)
                elif backfilling == IN_ORDER:
                    place = tree.first_that_fits(n_free, spare, now_s, shadow_s)
                else:
                    place = tree.shortest_that_fits(n_free)
                    if place != NONE and now_s + tree.estimate_s[tree.capacity + place] > shadow_s:
                        place = tree.shortest_that_fits(min(n_free, spare))
                if place == NONE:
                    break
                is_late = now_s + tree.estimate_s[tree.capacity + place] > shadow_s
                size = self.start_one(place)
                n_free -= size
                if is_late:
                    spare -= size
        self.put_back()

    def decide_by(self, ordering: int, backfilling: int, now_s: float) -> int:
        """Decide by these policies instead of the queue's."""
        if backfilling == CONSERVATIVE:
            self.reservations.reserve(self.tree, self.releases, self.free.n, now_s, self.starting)
            self.asks_again_s = self.reservations.first_reserved_s()
        else:
            self.one_pass(ordering, backfilling, now_s)
        return self.starting.n

    def decide(self, now_s: float) -> int:
        return self.decide_by(self.ordering, self.backfilling, now_s)

    def choose_nodes(self, n_started: int) -> None:
        """Give the jobs of a decision the free nodes with the lowest numbers: write them to the next rows of
        `intervals`. The nodes before the cursor are still to be taken."""
        self.make_room_for_intervals(self.free.n_bounds // 2 + n_started)
        row = self.n_held
        self.cursor.begin()
        for x in range(n_started):
            after = self.cursor.hand_out(self.starting.size[x], self.intervals, row)
            self.starting.n_intervals[x] = after - row
            row = after

    def begin_on(self, slot: int, n_intervals: int, now_s: float, end_s: float) -> None:
        """Start a waiting job on the nodes in the next rows of `intervals`, which are still to be taken."""
        self.first_interval[slot], self.n_intervals[slot] = self.n_held, n_intervals
        self.n_held += n_intervals
        self.leave(slot)
        self.begin(slot, self.size[slot], now_s, end_s)

    def start(self, n_started: int, now_s: float) -> None:
        self.choose_nodes(n_started)
        s = self.starting
        for x in range(n_started):
            slot = self.tree.slot[s.place[x]]
            self.begin_on(slot, s.n_intervals[x], now_s, now_s + s.takes_s[x])
            self.started[x] = slot
        self.free.take_before(self.cursor)

    def decided(self, ordering: int, backfilling: int, now_s: float) -> tuple[Start, ...]:
        """The jobs that start by these policies, in order."""
        self.decide_by(ordering, backfilling, now_s)
        return self.chosen(now_s)

    def chosen(self, now_s: float) -> tuple[Start, ...]:
        """The jobs that start by the last pass, in order, on the free nodes with the lowest numbers."""
        self.choose_nodes(self.starting.n)
        found, row, s = list[Start](), self.n_held, self.starting
        for x in range(s.n):
            after = row + s.n_intervals[x]
            intervals = [(self.intervals[y, 0], self.intervals[y, 1]) for y in range(row, after)]
            found.append(Start(s.rank[x], NodeSet(tuple(intervals), s.size[x]), now_s + s.takes_s[x]))
            row = after
        return tuple(found)

    def start_on(self, slot: int, nodes: NodeSet, run: int, now_s: float, end_s: float) -> None:
        """Start a waiting job on any free nodes."""
        self.make_room_for_intervals(len(nodes.intervals))
        for x, (first, last) in enumerate(nodes.intervals, self.n_held):
            self.intervals[x, 0], self.intervals[x, 1] = first, last
        self.next_run = run
        self.begin_on(slot, len(nodes.intervals), now_s, end_s)
        self.turn_nodes(slot)

    def sort_waiting(self) -> None:
        """Put the waiting jobs in order of arrival, then number."""
        tree = self.tree
        leaves = np.asarray(tree.n_jobs)[tree.capacity : tree.capacity + tree.n_places]
        slots = np.asarray(tree.slot)[: tree.n_places][leaves > 0]
        order = np.lexsort((np.asarray(self.job)[slots], np.asarray(self.began_s)[slots]))
        tree.sort(slots[order].tolist(), np.asarray(self.place))

    def slot_at(self, rank: int) -> int:
        """The slot of the waiting job with `rank` jobs before it."""
        return self.tree.slot[self.tree.place_of(rank)]

    def estimate_of(self, slot: int) -> float:
        """The estimated run time of a waiting job."""
        return self.tree.estimate_s[self.tree.capacity + self.place[slot]]
