"""Conservative backfilling on nodes: a reservation of nodes for every job that waits, and which jobs start.

A reservation that was the earliest possible one still is, unless something was given back since: runs ended
early, nodes came up, or other reservations left their place. So the timeline stays from pass to pass, and a
search begins where what was given back may suffice for the chunks that were lacking. Between two ends of
uses, a later start has at most as much.
"""

from __future__ import annotations

from math import inf, nextafter

import numpy as np

from scheduler.core.arrays import MIN_SIZE, floats, integers, larger
from scheduler.core.heap import Heap
from scheduler.node_resources.core.codes import GPU_CLUSTERING, IN_PYTHON, MAX_RESERVATIONS, NONE, ONE
from scheduler.node_resources.core.on_nodes import OnNodes, StartRule
from scheduler.node_resources.core.placement import Ranking
from scheduler.node_resources.core.search import Search
from scheduler.node_resources.core.timeline import Timeline

MAX_ALIKE = 64
"""The most jobs that are remembered, in one pass, to have reserved for the first time."""


class Freed:
    """Where (`which` places, `n` of them) and when something was given back: `until_s` is before `from_s`
    elsewhere."""

    def __init__(self, n_places: int) -> None:
        self.n, self.which = 0, integers(n_places)
        self.from_s, self.until_s = floats(n_places) + inf, floats(n_places) - inf

    def has(self, place: int) -> bool:
        return self.until_s[place] > self.from_s[place]

    def add(self, place: int, from_s: float, until_s: float) -> None:
        if self.has(place):
            self.from_s[place] = min(self.from_s[place], from_s)
            self.until_s[place] = max(self.until_s[place], until_s)
        elif until_s > from_s:
            self.from_s[place], self.until_s[place] = from_s, until_s
            self.which[self.n] = place
            self.n += 1

    def forget(self) -> None:
        for x in range(self.n):
            self.from_s[self.which[x]], self.until_s[self.which[x]] = inf, -inf
        self.n = 0


class ReservingRule(StartRule):
    """Each job keeps its reservation where it is still free, or moves to the earliest time after it, by
    start; then each, in order of service, moves to the earliest time that the others leave free. A queue's
    jobs are considered as if the queues served after it had no reservations.

    * By slot: `start_s` of the reservation (infinite without one), its `first_use` in the timeline, and how
      many chunks of the job fit at any earlier time, at most (`most`). After a pass, `reserved` are the slots
      of the reservations, and `ticket` those of their jobs; `started` are the first uses of the jobs that
      started.
    * By the first row of a run in `held` of the queue: `run_of` is the run in the timeline, or NONE; its
      first use; and the last pass in which it ran. `runs` are these rows.
    * `freed` since the last pass, `moved`: by reservations that left their place in this pass.
    * Reservations begin and end with slots of time, `slot_s` long, unless that is 0; a job needs what it uses
      for `margin_s` longer than its run time; and if `whole` is a kind of request, reservations are of that
      kind, which takes whole nodes with `all_gpus`.
    * `alike`: kind and chunks of jobs that reserved in this pass for the first time, run time and start.
    """

    def __init__(self, queue: OnNodes, ranking: Ranking) -> None:
        StartRule.__init__(self)
        self.takes, self.queue, self.ranking, self.nodes = False, queue, ranking, ranking.state
        self.timeline = Timeline(self.nodes)
        self.search = Search(self.timeline)
        n_places, self.kept = self.nodes.n_nodes + 1, Heap(MIN_SIZE)
        self.freed, self.moved = Freed(n_places), Freed(n_places)
        self.calendar, self.calendar_version = self.nodes.kinds.calendar, 0
        self.was_up, self.entered = np.ones(n_places - 1, np.uint8), integers(MAX_RESERVATIONS)
        self.first_reserved_s, self.start_s, self.waits = inf, floats(0), np.zeros(0, np.uint8)
        self.first_use, self.most, self.reserved = integers(0), integers(0), integers(0)
        self.ticket, self.started = integers(0), integers(0)
        self.runs, self.run_of, self.use_of, self.seen = (integers(0) for _ in range(4))
        self.n_reserved, self.n_started, self.n_runs = 0, 0, 0
        self.alike_request = np.zeros((MAX_ALIKE, 2), np.int64)
        self.alike_s, self.n_alike = np.zeros((MAX_ALIKE, 2)), 0
        self.all_stay, self.n_passes = True, 0
        self.slot_s, self.margin_s = 0.0, 0.0
        self.whole, self.all_gpus = NONE, (1 << self.nodes.n_gpus) - 1

    def make_room(self) -> None:
        """Make room for all slots and kinds of requests, and for what runs hold."""
        self.nodes.make_room()
        before, n = self.start_s.shape[0], self.queue.n_slots
        if n > before:
            self.start_s, self.waits = larger(self.start_s, n), larger(self.waits, n)
            np.asarray(self.start_s)[before:] = inf
            self.first_use, self.most = larger(self.first_use, n), larger(self.most, n)
            self.reserved, self.ticket = larger(self.reserved, n), larger(self.ticket, n)
            self.started = larger(self.started, n)
            self.kept.make_room(n)
        before, n = self.runs.shape[0], self.queue.held.node.shape[0]
        if n > before:
            self.runs, self.run_of = larger(self.runs, n), larger(self.run_of, n)
            np.asarray(self.run_of)[before:] = NONE
            self.use_of, self.seen = larger(self.use_of, n), larger(self.seen, n)

    def follow_calendar(self) -> None:
        """Note which nodes have come up or gone down since the last pass, and enter new reservations of the
        calendar. O(nodes)."""
        calendar, t, was = self.calendar, self.timeline, self.calendar_version
        self.all_stay, self.calendar_version = False, calendar.version
        for b in range(calendar.n):
            if calendar.serial[b] != 0 and calendar.serial[b] != self.entered[b]:
                self.entered[b] = calendar.serial[b]
                for n in range(self.nodes.n_nodes):
                    if calendar.has[b, n]:
                        t.put_in(
                            t.new_use(n, ONE << b, 0, NONE, NONE), calendar.start_s[b], calendar.end_s[b]
                        )
        for n in range(self.nodes.n_nodes):
            if calendar.up[n] != self.was_up[n] or calendar.reserved_since > was:
                self.was_up[n] = calendar.up[n]
                t.has_gained(n)
                self.freed.add(n, -inf, inf)

    def note_freed(self, freed: Freed, first: int, now_s: float) -> None:
        """Note that what the uses of a job have is free from now on."""
        t, use = self.timeline, first
        while use != NONE:
            freed.add(t.node[use], max(now_s, t.start_s[use]), t.end_s[use])
            use = t.next_of_job[use]

    def note_freed_between(self, first: int, from_s: float, until_s: float) -> None:
        use = first
        while use != NONE:
            self.freed.add(self.timeline.node[use], from_s, until_s)
            use = self.timeline.next_of_job[use]

    def leave(self, first: int, now_s: float) -> None:
        """Note that a reservation leaves its place, to which others may move up in this pass or the next."""
        self.note_freed(self.freed, first, now_s)
        self.n_alike = 0
        self.note_freed(self.moved, first, now_s)

    def is_where_freed(self, first: int) -> bool:
        use = first
        while use != NONE:
            if self.freed.has(self.timeline.node[use]):
                return True
            use = self.timeline.next_of_job[use]
        return False

    def holds_the_same(self, first: int, row: int, end_s: float) -> bool:
        """Whether a run holds what a job that started was to use."""
        t, held, use = self.timeline, self.queue.held, first
        if t.kind[use] != held.kind[row] or t.end_s[use] != end_s:
            return False
        while row != NONE:
            if use == NONE or t.node[use] != held.node[row]:
                return False
            if t.chunks[use] != held.chunks[row] or t.gpus[use] != held.gpus[row]:
                return False
            use = t.next_of_job[use]
            row = held.next[row]
        return use == NONE or t.node[use] == self.nodes.n_nodes

    def note_run(self, row: int, run: int, first: int) -> None:
        self.run_of[row], self.use_of[row], self.seen[row] = run, first, self.n_passes
        self.runs[self.n_runs] = row
        self.n_runs += 1

    def uses_of_run(self, row: int) -> int:
        """New uses of what a run holds, in some order."""
        held, kind = self.queue.held, self.queue.held.kind[row]
        use = self.timeline.use_of_site(kind)
        while row != NONE:
            use = self.timeline.new_use(held.node[row], held.chunks[row], held.gpus[row], kind, use)
            row = held.next[row]
        return use

    def begin_run(self, x: int, end_s: float) -> None:
        """Enter a run that is new to the timeline: it has the uses of a job that started, or new ones."""
        releases = self.queue.releases
        row, run = releases.released[x], releases.run[x]
        for y in range(self.n_started):
            first = self.started[y]
            if first != NONE and self.holds_the_same(first, row, releases.end_s[x]):
                self.note_run(row, run, first)
                self.started[y] = NONE
                return

    def follow_runs(self, now_s: float) -> None:
        """Bring the uses of runs up to date. O(runs), and O(segments) for each use that changes."""
        t, releases, n_kept = self.timeline, self.queue.releases, 0
        soon_s: float = nextafter(now_s, inf)  # when an overdue run is expected to end
        self.n_passes += 1
        for x in range(releases.n):
            row = releases.released[x]
            is_known = self.run_of[row] == releases.run[x]
            if is_known and t.kind[self.use_of[row]] == self.queue.held.kind[row]:
                self.seen[row] = self.n_passes
                first, end_s = self.use_of[row], max(releases.end_s[x], soon_s)
                before_s = t.end_s[first]
                if end_s < before_s:
                    self.note_freed_between(first, max(now_s, end_s), before_s)
                if end_s != before_s and not t.end_at(first, end_s):
                    self.all_stay = False
        for x in range(self.n_runs):
            row = self.runs[x]
            if self.seen[row] == self.n_passes:
                self.runs[n_kept] = row
                n_kept += 1
            else:
                self.note_freed(self.freed, self.use_of[row], now_s)
                t.give_up(self.use_of[row])
                self.run_of[row] = NONE
        self.n_runs = n_kept
        for x in range(releases.n):
            if self.run_of[releases.released[x]] == NONE:
                self.begin_run(x, releases.end_s[x])
        for x in range(self.n_started):  # it did not start
            if self.started[x] != NONE:
                self.note_freed(self.freed, self.started[x], now_s)
                t.give_up(self.started[x])
        self.n_started = 0
        for x in range(releases.n):
            row = releases.released[x]
            if self.run_of[row] == NONE:
                first = self.uses_of_run(row)
                t.put_in(first, -inf, max(releases.end_s[x], soon_s))
                self.note_run(row, releases.run[x], first)
                self.all_stay = False

    def begin(self, now_s: float) -> None:
        """Begin a pass: find what was given back since the last one, and which reservations are over."""
        q, freed, moved = self.queue, self.freed, self.moved
        self.make_room()
        freed.forget()
        for x in range(moved.n):
            place = moved.which[x]
            freed.add(place, max(now_s, moved.from_s[place]), moved.until_s[place])
        moved.forget()
        self.all_stay, self.n_alike = True, 0
        if self.calendar_version != self.calendar.version:
            self.follow_calendar()
        self.follow_runs(now_s)
        for x in range(q.n_waiting):
            self.waits[q.in_order[x]] = True
        for x in range(self.n_reserved):
            slot = self.reserved[x]
            if q.is_reordered or not self.waits[slot] or self.ticket[slot] != q.ticket[slot]:
                self.note_freed(freed, self.first_use[slot], now_s)
                self.timeline.give_up(self.first_use[slot])
                self.start_s[slot] = inf
            elif self.start_s[slot] < now_s:
                self.all_stay = False
        q.is_reordered = False
        for x in range(q.n_waiting):
            slot = q.in_order[x]
            self.waits[slot] = False
            if q.rank[slot] != q.rank[q.in_order[0]] and self.start_s[slot] < inf:
                self.timeline.take_out(self.first_use[slot])

    def gains_s(
        self, k: int, lacking: int, now_s: float, takes_s: float, before_s: float
    ) -> tuple[float, float]:
        """The time from which, and until which, `lacking` more chunks may fit, since something was given
        back; infinite if not before `before_s`.

        `most` of the search is how many more may fit at an earlier time. O(segments of the nodes on which
        something was)."""
        nodes, search, freed, latest_s = self.nodes, self.search, self.freed, -inf
        search.begin(k, takes_s)
        for x in range(freed.n):
            n = freed.which[x]
            if n < nodes.n_nodes and nodes.is_open(k, n):
                # A run that is over before something was given back gains nothing; a second is for rounding.
                from_s = max(now_s, freed.from_s[n] - takes_s - 1.0)
                until_s = min(before_s, freed.until_s[n])
                if from_s < until_s and not search.offers_none(n, until_s):
                    search.first_look_at(k, n, from_s, takes_s, until_s, now_s)
                else:
                    search.offer[n] = 0
                if search.offer[n] > 0:
                    search.look_again_at(n, search.offers_s[n])
                    latest_s = max(latest_s, until_s)
        search.most = 0
        while search.heap.n > 0:
            n = search.heap.pop()
            more = nodes.most_on(k, n, lacking)
            if search.most + more >= lacking:
                return search.at_s[n], latest_s
            search.most += more
        return inf, inf

    def look_for_start_s(self, slot: int, from_s: float, before_s: float, now_s: float) -> float:
        """See `Search.earliest_s`; also notes how many chunks of the job fit earlier."""
        q = self.queue
        k, chunks, takes_s = q.kind[slot], q.chunks[slot], q.estimate_s[slot] + self.margin_s
        start_s = self.search.earliest_s(k, chunks, from_s, takes_s, before_s, now_s)
        self.most[slot] = max(self.most[slot], min(self.search.most, chunks - 1))
        return start_s

    def not_before_others_s(self, k: int, chunks: int, takes_s: float, now_s: float) -> float:
        """A job without a reservation starts no earlier than one like it that reserved in this pass."""
        found_s = now_s
        for x in range(self.n_alike):
            is_alike = self.alike_request[x, 0] == k and self.alike_request[x, 1] <= chunks
            if is_alike and self.alike_s[x, 0] <= takes_s:
                found_s = max(found_s, self.alike_s[x, 1])
        return found_s

    def note_alike(self, k: int, chunks: int, takes_s: float, start_s: float) -> None:
        x = 0
        if self.nodes.kinds.on_node[k] > 0:  # more chunks may be on fewer leaves
            return
        while x < self.n_alike and not (
            self.alike_request[x, 0] == k
            and self.alike_request[x, 1] == chunks
            and self.alike_s[x, 0] == takes_s
        ):
            x += 1
        if x == MAX_ALIKE:
            return
        self.n_alike = max(self.n_alike, x + 1)
        self.alike_request[x, 0], self.alike_request[x, 1] = k, chunks
        self.alike_s[x, 0], self.alike_s[x, 1] = takes_s, start_s

    def keep(self, begins: int, after: int, now_s: float) -> None:
        """Keep the reservations of a queue's jobs, or move them."""
        q, t, kept, start_s = self.queue, self.timeline, self.kept, self.start_s
        for x in range(begins, after):
            slot = q.in_order[x]
            if start_s[slot] < inf:
                if begins == 0:
                    t.take_out(self.first_use[slot])
                kept.push(slot, start_s[slot], x)
        while kept.n > 0:
            slot = kept.pop()
            from_s, first = max(start_s[slot], now_s), self.first_use[slot]
            t.put_in(first, from_s, from_s + q.estimate_s[slot])
            if t.has_room(first):
                start_s[slot] = from_s
                continue
            self.leave(first, now_s)
            t.give_up(first)
            self.reserve(slot, self.look_for_start_s(slot, from_s, inf, now_s))

    def new_start_s(self, slot: int, before_s: float, now_s: float) -> float:
        """The first reservation of a job; infinite if not before a time."""
        q, start_s = self.queue, inf
        k, chunks, takes_s = q.kind[slot], q.chunks[slot], q.estimate_s[slot]
        from_s = self.not_before_others_s(k, chunks, takes_s, now_s)
        self.most[slot] = chunks - 1 if from_s > now_s else 0
        if from_s < before_s:
            start_s = self.look_for_start_s(slot, from_s, before_s, now_s)
            self.note_alike(k, chunks, takes_s, min(start_s, before_s))
        return start_s

    def earlier_start_s(self, slot: int, now_s: float) -> float:
        """An earlier reservation of a job, whose former place is free then; infinite if there is none."""
        q, t, before_s, first = self.queue, self.timeline, self.start_s[slot], self.first_use[slot]
        k, chunks, takes_s = q.kind[slot], q.chunks[slot], q.estimate_s[slot]
        start_s, from_s, until_s = inf, now_s, before_s
        is_out = self.is_where_freed(first)  # elsewhere it delays no other job
        if is_out:
            t.lift(first)
        if not self.nodes.requests_of_site(k):
            from_s, until_s = self.gains_s(k, chunks - self.most[slot], now_s, takes_s, before_s)
            self.most[slot] += self.search.most
        if from_s < before_s:
            if not is_out:
                t.lift(first)
                is_out = True
            start_s = self.look_for_start_s(slot, from_s, until_s, now_s)
        if start_s < before_s:
            self.leave(first, now_s)
            t.stay_out(first)
            t.drop(first)
            return start_s
        if is_out:
            t.put_in(first, before_s, before_s + takes_s)
        return inf

    def choose(self, slot: int, start_s: float, end_s: float) -> bool:
        """Add the best nodes for a job between two times to the rows, after a search that found it, unless it
        exceeds a limit of nodes there."""
        q, t, nodes, ranking, kind = (
            self.queue,
            self.timeline,
            self.nodes,
            self.ranking,
            self.queue.kind[slot],
        )
        begin = q.rows.n
        if ranking.is_scored:  # where a chunk fits, scores are to be computed again
            for n in range(nodes.n_nodes):
                if nodes.fit[kind, n] > 0:
                    if ranking.selection in (GPU_CLUSTERING, IN_PYTHON):
                        t.write_gpu_chunks(n, start_s, end_s)
                    nodes.has_changed(n)
            nodes.seen[kind] = nodes.clock
        ranking.make_current(kind)
        if not q.choose(slot, ranking):
            return False
        ranking.take_rows(kind, q.rows, begin)
        return True

    def use_rows(self, kind: int, begin: int, after: int) -> int:
        """New uses of what these rows state, or of their whole nodes, by the first one."""
        t, rows = self.timeline, self.queue.rows
        use = t.use_of_site(kind)
        for x in range(after - 1, begin - 1, -1):
            chunks, gpus = rows.chunks[x], rows.gpus[x]
            if kind == self.whole:
                chunks, gpus = 1, self.all_gpus
            use = t.new_use(rows.node[x], chunks, gpus, kind, use)
        return use

    def reserve(self, slot: int, start_s: float) -> bool:
        """Reserve the best nodes for a job from a time on; after a search that found it. Returns whether it
        has a reservation."""
        q, kind, begin = self.queue, self.whole, self.queue.rows.n
        end_s, self.start_s[slot] = start_s + q.estimate_s[slot], inf
        if start_s == inf or not self.choose(slot, start_s, end_s):
            return False
        self.start_s[slot] = start_s
        if kind == NONE:
            kind = q.kind[slot]
        self.first_use[slot] = self.use_rows(kind, begin, q.rows.n)
        q.rows.n = begin
        if self.slot_s > 0.0:
            start_s = start_s // self.slot_s * self.slot_s
            end_s = max(end_s // self.slot_s * self.slot_s, start_s + self.slot_s)
        self.timeline.put_in(self.first_use[slot], start_s, end_s)
        return True

    def hold(self, first: int) -> None:
        """Note the first use of a job that starts, or of a reservation that is not kept."""
        if self.n_started == self.started.shape[0]:
            self.started = larger(self.started, 2 * self.n_started)
        self.started[self.n_started] = first
        self.n_started += 1

    def add_reserved(self, slot: int) -> None:
        """Add to the rows what a reservation has of nodes."""
        t, use = self.timeline, self.first_use[slot]
        while use != NONE and t.node[use] < self.nodes.n_nodes:
            self.queue.rows.add(t.node[use], t.chunks[use], t.gpus[use])
            use = t.next_of_job[use]

    def keeps_limits(self, slot: int) -> bool:
        """Whether a job exceeds no limit, where it has a reservation or elsewhere."""
        q, begin = self.queue, self.queue.rows.n
        if q.service.reached(slot) != NONE:
            return False
        if self.start_s[slot] == inf or not q.counts_nodes(slot):
            return True
        self.add_reserved(slot)
        after, q.rows.n = q.rows.n, begin
        limits = q.service.limits
        return limits.first_exceeded_on(limits.claim[slot], q.rows.node, begin, after) == NONE

    def start_due(self, now_s: float) -> None:
        """Write the jobs whose time has come to `placed` of the queue, and what they use to `rows`."""
        q = self.queue
        q.rows.n, q.n_placed = 0, 0
        self.first_reserved_s, self.n_reserved = inf, 0
        for x in range(q.n_waiting):
            slot = q.in_order[x]
            if self.start_s[slot] == now_s:
                self.add_reserved(slot)
                self.started[q.n_placed], self.start_s[slot] = self.first_use[slot], inf
                q.note_placed(slot)
            elif self.start_s[slot] < inf:
                self.reserved[self.n_reserved], self.ticket[slot] = slot, q.ticket[slot]
                self.n_reserved += 1
                self.first_reserved_s = min(self.first_reserved_s, self.start_s[slot])
        self.n_started = q.n_placed

    def decide(self, ordering: int, backfilling: int, now_s: float) -> int:
        """O(n + r) for n waiting jobs and r runs if nothing was given back; then, for each job, O(segments of
        the nodes where something was), and a search (see `Search.earliest_s`) where that may suffice."""
        q, begins = self.queue, 0
        self.begin(now_s)
        while begins < q.n_waiting:
            rank, after = q.rank[q.in_order[begins]], begins
            while after < q.n_waiting and q.rank[q.in_order[after]] == rank:
                after += 1
            if begins > 0 or not self.all_stay:
                self.keep(begins, after, now_s)
            for x in range(begins, after):
                slot = q.in_order[x]
                if not self.keeps_limits(slot):
                    if self.start_s[slot] < inf:
                        self.leave(self.first_use[slot], now_s)
                        self.timeline.give_up(self.first_use[slot])
                        self.start_s[slot] = inf
                    continue
                if self.start_s[slot] == inf:
                    self.reserve(slot, self.new_start_s(slot, inf, now_s))
                elif self.start_s[slot] != now_s and self.freed.n > 0:
                    start_s = self.earlier_start_s(slot, now_s)
                    if start_s < inf:
                        self.reserve(slot, start_s)
                if self.start_s[slot] == now_s:
                    begin = q.rows.n
                    self.add_reserved(slot)
                    q.count(slot, begin, q.rows.n, 1)
                    q.rows.n = begin
            begins = after
        self.start_due(now_s)
        for x in range(q.n_placed):
            q.count(q.placed[x], q.row_before(x), q.after[x], -1)
        q.asks_again_s = self.first_reserved_s
        return q.n_placed
