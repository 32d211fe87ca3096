"""FCFS, SJF and EASY backfilling on nodes of which jobs use parts: which jobs start, and on what."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Flags, Ints, integers, larger
from scheduler.core.codes import EDF, NO_BACKFILLING, SHORTEST_FIRST, SJF
from scheduler.node_resources.core.codes import FREE, NONE, ONE, WHOLE
from scheduler.node_resources.core.on_nodes import Held, OnNodes, StartRule
from scheduler.node_resources.core.placement import Ranking, Rows
from scheduler.node_resources.core.state import NodeState

MAX_DELAYING = 256
"""The most requests that are remembered, in one pass, to delay the first job."""


class Shadow:
    """The state `then`, at another time, of which the rows of `copied` nodes are valid: elsewhere it equals
    the state now. What is free of the site's resources is always valid. On nodes that are `shut` then,
    nothing fits.

    Of one job: the kind of its request and its number of chunks, how many chunks `fit` then on each copied
    node (where switches count, on each), and how many in `total`.
    """

    def __init__(self, nodes: NodeState) -> None:
        self.nodes, self.then, n = nodes, nodes.alongside(), nodes.n_nodes
        self.is_copied, self.copied, self.fit = np.zeros(n, np.uint8), integers(n), integers(n)
        self.n_copied, self.total, self.kind, self.chunks = 0, 0, 0, 0
        self.calendar, self.shut = nodes.kinds.calendar, np.zeros(n, np.uint8)

    def look_at(self, kind: int, chunks: int) -> None:
        """Make the state equal to that now, to be shifted until a job fits."""
        for x in range(self.n_copied):
            self.is_copied[self.copied[x]] = self.shut[self.copied[x]] = False
        self.nodes.fits(kind, chunks)  # brings `total` up to date
        self.n_copied, self.total = 0, self.nodes.total[kind]
        self.kind, self.chunks = kind, chunks
        if self.nodes.kinds.on_node[kind] > 0:
            self.fit[:] = self.nodes.fit[kind]
        for s in range(self.nodes.n_site):
            self.then.site[FREE, s] = self.nodes.site[FREE, s]

    def copy_row(self, n: int) -> None:
        """Make the row of node n valid. The node must not have changed since `look_at`."""
        if self.is_copied[n]:
            return
        nodes, then = self.nodes, self.then
        self.is_copied[n] = True
        self.copied[self.n_copied] = n
        self.n_copied += 1
        for r in range(nodes.n_resources):
            then.free[n, r] = nodes.free[n, r]
        for d in range(nodes.n_gpus):
            then.gpu_free[n, d] = nodes.gpu_free[n, d]
        then.n_chunks[n] = nodes.n_chunks[n]
        self.fit[n] = nodes.fit[self.kind, n]

    def shift(self, kind: int, n: int, chunks: int, gpus: int, sign: int) -> None:
        """Give back (1) or take (-1) chunks on node n."""
        then, kinds = self.then, self.then.kinds
        exclusive = kinds.exclusive[kind]
        for r in range(then.n_resources):
            then.free[n, r] += sign * (then.capacity[n, r] if exclusive else chunks * kinds.need[kind, r])
        share = WHOLE if exclusive else kinds.gpu_share[kind]
        for d in range(then.n_gpus):
            if (gpus >> d) & ONE:
                then.gpu_free[n, d] += sign * share
        then.n_chunks[n] -= sign * kinds.placed(kind, chunks)
        self.count(n)

    def count(self, n: int) -> None:
        """Count what fits on a copied node."""
        fit = 0 if self.shut[n] else self.then.chunks_that_fit(self.kind, n)
        self.total += fit - self.fit[n]
        self.fit[n] = fit

    def pass_time(self, then_s: float, takes_s: float) -> None:
        """Shut the nodes that a reservation keeps from a run of the job which begins then. O(nodes)."""
        own = self.nodes.kinds.own(self.kind)
        for n in range(self.nodes.n_nodes):
            is_shut = self.calendar.in_the_way(own, n, then_s, then_s + takes_s) != NONE
            if is_shut != self.shut[n]:
                self.copy_row(n)
                self.shut[n] = is_shut
                self.count(n)

    def shift_run(self, held: Held, first: int, sign: int) -> None:
        """A run, by its first row, gives back (1) or takes (-1) what it holds."""
        self.shift_held(held, first, held.kind[first], sign)

    def shift_held(self, held: Held, first: int, kind: int, sign: int) -> None:
        """As `shift_run`, as if the run's request were of another kind."""
        row = first
        self.then.give_of_site(kind, sign)
        while row != NONE:
            self.copy_row(held.node[row])
            self.shift(kind, held.node[row], held.chunks[row], held.gpus[row], sign)
            row = held.next[row]

    def shift_rows(self, kind: int, rows: Rows, begin: int, after: int, sign: int) -> None:
        """A job gives back (1) or takes (-1) what these rows state."""
        self.then.give_of_site(kind, sign)
        for x in range(begin, after):
            self.copy_row(rows.node[x])
            self.shift(kind, rows.node[x], rows.chunks[x], rows.gpus[x], sign)

    def first_fits(self) -> bool:
        """Whether the job fits then."""
        has_room = self.total >= self.chunks and self.then.site_suffices(self.kind)
        return has_room and self.nodes.kinds.connects(self.kind, self.chunks, self.fit)

    def would_delay(self, kind: int, rows: Rows, begin: int, after: int) -> bool:
        """Whether the job no longer fits then if another one still uses these rows. If it still fits, the
        state is updated."""
        self.shift_rows(kind, rows, begin, after, -1)
        if self.first_fits():
            return False
        self.shift_rows(kind, rows, begin, after, 1)
        return True

    def shift_stopped(self, held: Held, first: int, kept: int, sign: int) -> None:
        """As `shift_run`, of a run that, stopped, keeps what a request of the kind `kept` has, if any."""
        self.shift_run(held, first, sign)
        if kept != NONE:
            self.shift_held(held, first, kept, -sign)

    def runs_to_stop(
        self, held: Held, firsts: Ints, kept: Ints, kind: int, chunks: int, stopped: Flags
    ) -> bool:
        """Mark the runs that have to stop so that a job fits: the first ones until it does, less those that
        are not needed then, of which the last are tried first. Returns whether it fits.

        `firsts` has the first row of each run in `held`, `kept` the kind of request whose resources it keeps
        when it is suspended, or NONE. The nodes stay as they are.
        """
        self.look_at(kind, chunks)
        x = 0
        while x < firsts.shape[0] and not self.first_fits():
            self.shift_stopped(held, firsts[x], kept[x], 1)
            stopped[x] = True
            x += 1
        if not self.first_fits():
            return False
        for y in range(x - 2, -1, -1):  # it does not fit without the last one
            self.shift_stopped(held, firsts[y], kept[y], -1)
            if self.first_fits():
                stopped[y] = False
            else:
                self.shift_stopped(held, firsts[y], kept[y], 1)
        return True


class EasyRule(StartRule):
    """Jobs start in order until one does not fit; those that have reached a limit are left out, as are those
    of a reservation that do not fit there. With backfilling, this first job has a reservation at the earliest
    time at which it is expected to fit, counting all runs that are expected to end at that time. Another job
    that fits starts if it is expected to end by then, or if the first one still fits at that time. Their rows
    are taken.

    `reserved_s`: when the first job fits; infinite if never, or if nothing is reserved. `is_out`, by slot:
    whether a job starts, or is the first that does not fit. `by_end`: places in `placed`, by expected end.
    `delaying`: kind and chunks of requests that would delay the first job.
    """

    def __init__(self, queue: OnNodes, ranking: Ranking) -> None:
        StartRule.__init__(self)
        self.queue, self.ranking, self.shadow = queue, ranking, Shadow(queue.nodes)
        self.reserved_s, self.is_out, self.by_end = inf, np.zeros(MIN_SIZE, np.uint8), integers(MIN_SIZE)
        self.n_delaying = 0
        self.delaying_kind, self.delaying_chunks = integers(MAX_DELAYING), integers(MAX_DELAYING)

    def begin(self) -> None:
        """Begin a pass, in which no job has started."""
        q = self.queue
        q.rows.n, q.n_placed, self.reserved_s = 0, 0, inf
        if q.n_slots > self.is_out.shape[0]:
            self.is_out, self.by_end = larger(self.is_out, q.n_slots), larger(self.by_end, q.n_slots)

    def end(self) -> int:
        """End a pass. Returns the number of jobs that start."""
        for x in range(self.queue.n_placed):
            self.is_out[self.queue.placed[x]] = False
        return self.queue.n_placed

    def decide(self, ordering: int, backfilling: int, now_s: float) -> int:
        q, x = self.queue, 0
        self.begin()
        order = q.by_estimate if ordering == SJF else q.in_order
        if ordering >= EDF:
            order = q.by_urgency(ordering)
        while x < q.n_waiting:
            slot = order[x]
            if q.service.reached(slot) == NONE:
                if q.fits(slot, now_s):
                    if self.take(slot, False, now_s):
                        self.place(slot)
                        self.note_end(q.n_placed - 1)
                elif q.nodes.kinds.own(q.kind[slot]) == 0 and q.has_nodes_left(slot):
                    break
            x += 1
        if x < q.n_waiting and backfilling != NO_BACKFILLING:
            first = order[x]
            self.is_out[first] = True
            self.reserved_s = self.reserve(first, now_s)
            others = order if ordering >= EDF else q.in_order
            self.backfill(q.by_estimate if backfilling == SHORTEST_FIRST else others, now_s)
            self.is_out[first] = False
        return self.end()

    def take(self, slot: int, is_backfilling: bool, now_s: float) -> bool:
        """Choose and take what a job uses, unless it has to wait for a limit of nodes."""
        q, ranking, kind, begin = self.queue, self.ranking, self.queue.kind[slot], self.queue.rows.n
        ranking.make_current(kind)
        q.hide(slot, now_s)
        is_within = q.choose(slot, ranking)
        q.show(kind)
        if not is_within:
            return False
        if is_backfilling:
            for x in range(begin, q.rows.n):
                self.shadow.copy_row(q.rows.node[x])
        ranking.take_rows(kind, q.rows, begin)
        q.nodes.give_of_site(kind, -1)
        return True

    def place(self, slot: int) -> None:
        """Start a job on what it has taken."""
        q = self.queue
        q.note_placed(slot)
        q.count(slot, q.row_before(q.n_placed - 1), q.rows.n, 1)
        self.is_out[slot], self.n_delaying = True, 0

    def note_end(self, x: int) -> None:
        """Insert the job in this place of `placed` in the order of ends."""
        q, y = self.queue, x
        while y > 0 and q.estimate_s[q.placed[self.by_end[y - 1]]] > q.estimate_s[q.placed[x]]:
            self.by_end[y] = self.by_end[y - 1]
            y -= 1
        self.by_end[y] = x

    def reserve(self, slot: int, now_s: float) -> float:
        """The earliest time at which a job that does not fit now is expected to fit; infinite if never.

        Jobs that start in this pass count as running. All runs that are expected to end at that time count as
        ended. O(releases up to then).
        """
        q, shadow, releases = self.queue, self.shadow, self.queue.releases
        shadow.look_at(q.kind[slot], q.chunks[slot])
        then_s, x, y, n_running, n_placed = now_s, 0, 0, releases.n, q.n_placed
        calendar, opens_s = shadow.calendar, shadow.calendar.next_s(now_s)
        while x < n_running or y < n_placed or opens_s < inf:
            run_ends_s = releases.end_s[x] if x < n_running else inf
            placed_ends_s = now_s + q.estimate_s[q.placed[self.by_end[y]]] if y < n_placed else inf
            next_s = min(run_ends_s, placed_ends_s, opens_s)
            if next_s > then_s and self.first_fits_from(slot, then_s):
                break
            then_s = max(then_s, next_s)
            if opens_s == next_s:
                opens_s = calendar.next_s(opens_s)
            elif x < n_running and run_ends_s == next_s:
                shadow.shift_run(q.held, releases.released[x], 1)
                x += 1
            else:
                place = self.by_end[y]
                shadow.shift_rows(q.kind[q.placed[place]], q.rows, q.row_before(place), q.after[place], 1)
                y += 1
        return then_s if self.first_fits_from(slot, then_s) else inf

    def first_fits_from(self, slot: int, then_s: float) -> bool:
        """Whether the first job fits from then on."""
        if self.shadow.calendar.n > 0:
            self.shadow.pass_time(then_s, self.queue.estimate_s[slot])
        return self.shadow.first_fits()

    def is_known_to_delay(self, kind: int, chunks: int) -> bool:
        for x in range(self.n_delaying):
            if self.delaying_kind[x] == kind and self.delaying_chunks[x] == chunks:
                return True
        return False

    def backfill(self, later: Ints, now_s: float) -> None:
        """Start jobs that do not delay the first one, considered once each in this order. One whose request
        would delay it counts only if it is expected to end by the reserved time."""
        q = self.queue
        self.n_delaying = 0
        for x in range(q.n_waiting):
            slot = later[x]
            kind, chunks, begin = q.kind[slot], q.chunks[slot], q.rows.n
            if self.is_out[slot] or not q.fits(slot, now_s) or q.service.reached(slot) != NONE:
                continue
            ends_in_time = now_s + q.estimate_s[slot] <= self.reserved_s
            elsewhere = q.counts_nodes(slot)  # perhaps, and not where one with this request was
            if not ends_in_time and not elsewhere and self.is_known_to_delay(kind, chunks):
                continue
            if not self.take(slot, True, now_s):
                continue
            if ends_in_time or not self.shadow.would_delay(kind, q.rows, begin, q.rows.n):
                self.place(slot)
                continue
            q.give_rows_back(kind, begin, q.rows.n)
            q.rows.n = begin
            # Where a reservation is, what is alike but for the time may be elsewhere, too. It is tried again.
            if self.n_delaying < MAX_DELAYING and self.shadow.calendar.n == 0 and not elsewhere:
                self.delaying_kind[self.n_delaying] = kind
                self.delaying_chunks[self.n_delaying] = chunks
                self.n_delaying += 1
