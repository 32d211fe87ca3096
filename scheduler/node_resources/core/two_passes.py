"""Slurm's two schedulers: the main one starts jobs in order at each event, and the backfill scheduler makes a
plan now and then.

Source: `build_job_queue` and `_schedule` in slurmctld/job_scheduler.c, `_attempt_backfill` in
sched/backfill/backfill.c.
"""

from __future__ import annotations

from math import ceil, inf, nextafter

import numpy as np

from scheduler.core.arrays import integers, larger
from scheduler.node_resources.core.codes import NONE, WHOLE
from scheduler.node_resources.core.easy import EasyRule
from scheduler.node_resources.core.on_nodes import OnNodes, StartRule
from scheduler.node_resources.core.reserving import ReservingRule
from scheduler.priority.policy import BackfillParameters

RESERVED = 3
"""The limit of reservations, after those of a user, an association and a pool."""


class TwoPassRule(StartRule):
    """Jobs start in order, in each pool of nodes until one does not fit there: then those of all pools that
    share nodes with it wait for the backfill scheduler. This one begins a cycle at each multiple of
    `interval_s` by which something has happened since the last one. Cycle by cycle it makes a new plan, in
    which each job, in order, has the earliest start that runs and the reservations before it leave; jobs
    whose start is now start. Jobs that wait for a limit or for resources of the site are left out by both;
    those that wait for their reservation let others go on. Both try a job of several partitions in each of
    them that admits it, at the place in `order` where its tier and priority there put it: row x is a slot and
    a choice. It may have a reservation in each.

    By limit and key, `counts` are the jobs that a cycle has tested, or the reservations, of which there may
    be `most`; 0 = any number. `plans_all`: whether jobs get reservations that no job can delay, so that these
    are known.
    """

    def __init__(
        self,
        queue: OnNodes,
        main: EasyRule,
        plan: ReservingRule,
        how: BackfillParameters,
        plans_all: bool = False,
    ) -> None:
        StartRule.__init__(self)
        self.queue, self.main, self.plan, self.kinds = queue, main, plan, queue.nodes.kinds
        self.plans_all, self.full_s, self.stopped = plans_all, -inf, np.zeros(0, np.uint8)
        self.order, self.choice, self.n = queue.in_order, integers(0), 0
        self.depth = how.default_queue_depth + 1  # as in Slurm
        self.full_interval_s = how.sched_interval
        self.interval_s, self.window_s = how.bf_interval, 60.0 * how.bf_window
        self.most_tested, self.min_age_s = how.bf_max_job_test, how.bf_min_age_reserve
        self.most_started = how.bf_max_job_start or how.bf_max_job_test
        self.cycle_s = -inf if self.most_tested > 0 else inf
        most_of_user = 0 if how.bf_max_job_assoc else how.bf_max_job_user  # as in Slurm
        most = most_of_user, how.bf_max_job_assoc, how.bf_max_job_part, how.bf_job_part_count_reserve
        self.most, self.keys = np.array(most, np.int64), np.zeros(len(most), np.int64)
        self.counts = np.zeros((1, len(most)), np.int64)
        self.plan.slot_s = how.bf_resolution
        self.plan.margin_s = min(how.bf_resolution, 1)  # a job that ends when another one begins delays it
        if how.reserve == "nodes":
            none, nowhere = (0,) * self.kinds.need.shape[1], np.zeros(queue.nodes.n_nodes, np.bool_)
            self.plan.whole = self.kinds.add(none, (0, WHOLE, 0), 0, True, nowhere, 0)

    def decide(self, ordering: int, backfilling: int, now_s: float) -> int:
        """O(depth), and O(n log n) for n waiting jobs of which some have several partitions; in a cycle, O(r)
        for r runs and a search (see `Search.earliest_s`) for each job that is tested before the last one that
        fits."""
        q, depth = self.queue, self.depth
        q.asks_again_s = inf
        self.main.begin()
        self.plan.make_room()
        self.line_up()
        if now_s >= self.full_s:
            depth, self.full_s = self.n, now_s + self.full_interval_s
        self.start_in_order(depth, now_s)
        n_before = NONE
        if self.interval_s > 0.0 and self.cycle_s < now_s:
            self.cycle_s = ceil(now_s / self.interval_s) * self.interval_s
        if now_s >= self.cycle_s:
            n_before, self.cycle_s = q.n_placed, now_s + self.interval_s
            self.backfill(now_s)
        if q.n_placed < q.n_waiting:
            if q.n_placed > n_before and now_s < self.cycle_s:  # there is something new for the next cycle
                q.asks_again_s = self.cycle_s
            if depth < self.n:
                q.asks_again_s = min(q.asks_again_s, self.full_s)
        for x in range(q.n_placed):
            self.plan.start_s[q.placed[x]] = inf
        for x in range(q.n_waiting if q.choices else 0):
            if not self.main.is_out[q.in_order[x]]:
                q.choose_partition(q.in_order[x], 0)
        return self.main.end()

    def line_up(self) -> None:
        """Put what is tried in order."""
        q, n = self.queue, 0
        self.order, self.n = q.in_order, q.n_waiting
        if not q.choices:
            return
        room = q.n_waiting * max(q.kinds.shape[1], 1)
        slots, choices, priorities = (integers(room) for _ in range(3))
        for x in range(q.n_waiting):
            slot = q.in_order[x]
            for choice in range(min(q.n_choices[slot], 1), q.n_choices[slot] + 1):
                q.choose_partition(slot, choice)
                slots[n], choices[n], priorities[n] = slot, choice, -q.service.order(slot)
                n += 1
        which = np.asarray(slots)[:n]
        columns = np.asarray(q.job)[which], np.asarray(q.began_s)[which], priorities[:n]
        at = np.lexsort((choices[:n], *columns, np.asarray(q.rank)[which]))
        self.order, self.choice, self.n = which[at], np.asarray(choices)[at], n

    def slot_at(self, x: int) -> int:
        """The slot in this place of the order, of which the choice there counts unless the job starts."""
        slot = self.order[x]
        if self.queue.choices and not self.main.is_out[slot]:
            self.queue.choose_partition(slot, self.choice[x])
        return slot

    def start_in_order(self, depth: int, now_s: float) -> None:
        """The main pass over the first jobs."""
        q, overlap, n_pools = self.queue, self.kinds.overlap, self.kinds.overlap.shape[0]
        if n_pools > self.stopped.shape[0]:
            self.stopped = np.zeros(n_pools, np.uint8)
        for p in range(n_pools):
            self.stopped[p] = False
        n_left = n_pools
        for x in range(self.n):
            slot = self.slot_at(x)
            if self.main.is_out[slot]:
                continue
            if depth == 0:
                return
            depth -= 1
            kind = q.kind[slot]
            pool = self.kinds.pool[kind]
            if self.stopped[pool] or q.service.reached(slot) != NONE or not q.nodes.site_suffices(kind):
                continue
            if q.fits(slot, now_s):
                if self.main.take(slot, False, now_s):
                    self.main.place(slot)
            elif (
                self.kinds.own(kind) == 0
                and q.has_nodes_left(slot)
                and now_s - q.began_s[slot] >= self.min_age_s
            ):
                for p in range(n_pools):
                    if overlap[pool, p] and not self.stopped[p]:
                        self.stopped[p] = True
                        n_left -= 1
                if n_left == 0:
                    return

    def last_that_fits(self, x: int) -> int:
        """The place of the last job in order, up to x, that has not started and fits now; NONE without."""
        q = self.queue
        while x >= 0:
            slot = self.slot_at(x)
            if not self.main.is_out[slot] and q.nodes.fits_now(q.kind[slot], q.chunks[slot]):
                break
            x -= 1
        return x

    def is_full(self, limit: int) -> bool:
        """Whether no further job with these keys may be counted."""
        key = self.keys[limit]
        if self.most[limit] == 0 or key == NONE:
            return False
        if key >= self.counts.shape[0]:
            self.counts = larger(self.counts, 2 * key + 1)
        return self.counts[key, limit] >= self.most[limit]

    def count(self, limit: int) -> None:
        if self.most[limit] > 0 and self.keys[limit] != NONE:
            self.counts[self.keys[limit], limit] += 1

    def is_left_out(self, slot: int) -> bool:
        """Whether a cycle does not test a job; otherwise it is counted, and `keys` are those of the job."""
        q, keys, kind = self.queue, self.keys, self.queue.kind[slot]
        if self.main.is_out[slot] or q.service.reached(slot) != NONE:
            return True
        keys[0], keys[1], keys[2] = q.user[slot], q.service.charged(slot), self.kinds.pool[kind]
        keys[RESERVED] = keys[2]
        if self.is_full(0) or self.is_full(1) or self.is_full(2):
            return True
        for limit in range(RESERVED):
            self.count(limit)
        return not q.nodes.site_suffices(kind)

    def backfill(self, now_s: float) -> None:
        """A cycle. What comes after the last job that fits can start no job."""
        q, plan, n_tested, n_started, x = self.queue, self.plan, 0, 0, 0
        last = self.n - 1 if self.plans_all else self.last_that_fits(self.n - 1)
        if last == NONE:
            return
        for y in range(q.n_waiting):
            plan.start_s[q.in_order[y]] = inf  # no reservation is kept
        plan.begin(now_s)
        for y in range(q.n_placed):
            self.hold(q.placed[y], q.row_before(y), q.after[y], now_s)
        self.counts = np.zeros_like(self.counts)
        while x <= last and n_tested < self.most_tested and n_started < self.most_started:
            slot = self.slot_at(x)
            x += 1
            if self.is_left_out(slot):
                continue
            n_tested += 1
            if self.starts(slot, now_s):
                n_started += 1
                if not self.plans_all:
                    last = self.last_that_fits(last)

    def hold(self, slot: int, begin: int, after: int, now_s: float) -> None:
        """Enter what a job that starts uses into the plan."""
        plan, use = self.plan, self.plan.use_rows(self.queue.kind[slot], begin, after)
        plan.timeline.put_in(use, now_s, now_s + self.queue.estimate_s[slot])
        plan.hold(use)

    def starts(self, slot: int, now_s: float) -> bool:
        """Test a job: it starts, or has a reservation, or neither. Returns whether it starts."""
        q, plan, rows, begin = self.queue, self.plan, self.queue.rows, self.queue.rows.n
        kind, until_s = q.kind[slot], now_s
        if now_s - q.began_s[slot] >= self.min_age_s and not self.is_full(RESERVED):
            until_s += self.window_s
        before_s: float = nextafter(until_s, inf)
        start_s = plan.new_start_s(slot, before_s, now_s)
        if start_s == inf:
            return False
        if start_s > now_s:
            if q.has_nodes_left(slot) and self.reserve(slot, start_s):
                self.count(RESERVED)
            return False
        if not plan.choose(slot, now_s, now_s + q.estimate_s[slot]):
            return False
        for x in range(begin, rows.n):
            rows.gpus[x] = q.nodes.take(kind, rows.node[x], rows.chunks[x], rows.gpus[x], NONE)
        q.nodes.give_of_site(kind, -1)
        self.main.place(slot)
        self.hold(slot, begin, rows.n, now_s)
        return True

    def reserve(self, slot: int, start_s: float) -> bool:
        """Reserve nodes until the next cycle. Returns whether it could."""
        plan, before_s = self.plan, self.plan.start_s[slot]
        is_reserved = plan.reserve(slot, start_s)
        if is_reserved:
            plan.hold(plan.first_use[slot])
        plan.start_s[slot] = min(before_s, plan.start_s[slot])
        return is_reserved
