"""What is free on each node over time, beside what runs and reservations use.

Places are the nodes and, behind the last one, the site with its resources.
"""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import MIN_SIZE, floats, integers, larger
from scheduler.node_resources.core.codes import HAS, NONE, ONE, WHOLE
from scheduler.node_resources.core.state import NodeState


class Segments:
    """One list for each place: what is free from `start_s` of a segment until that of the next one; the last
    has no end. It is less than 0 while uses overlap that exclude each other. `reserved` has the bits of the
    calendar's reservations. Spare rows begin at `spare`."""

    def __init__(self, nodes: NodeState) -> None:
        self.nodes, n, n_resources = nodes, nodes.n_nodes, nodes.n_resources
        room, width = n + 1 + MIN_SIZE, max(n_resources, nodes.n_site)
        self.first, self.next, self.n_chunks = np.arange(n + 1), integers(room) + NONE, integers(room)
        self.reserved = integers(room)
        self.start_s, self.free = floats(room) - inf, np.zeros((room, width), np.int64)
        self.gpu_free = np.zeros((room, nodes.n_gpus), np.int64)
        table = nodes.table
        np.asarray(self.free)[:n, :n_resources] = table.capacity
        np.asarray(self.free)[n, : nodes.n_site] = table.site[HAS]
        np.asarray(self.gpu_free)[:n] = np.where(table.gpu_type != 0, WHOLE, 0)
        self.spare, self.n_used = NONE, n + 1

    def end_s(self, x: int) -> float:
        return self.start_s[self.next[x]] if self.next[x] != NONE else inf

    def at(self, place: int, time_s: float) -> int:
        """The segment of a time, not before the first one."""
        x = self.first[place]
        while self.end_s(x) <= time_s and self.next[x] != NONE:
            x = self.next[x]
        return x

    def forget_past(self, place: int, now_s: float) -> None:
        """Remove the segments that are over."""
        x = self.first[place]
        while self.next[x] != NONE and self.start_s[self.next[x]] <= now_s:
            following = self.next[x]
            self.next[x], self.spare = self.spare, x
            x = following
        self.first[place] = x

    def make_room(self) -> None:
        n = 2 * self.n_used
        self.next, self.n_chunks = larger(self.next, n), larger(self.n_chunks, n)
        self.start_s, self.free = larger(self.start_s, n), larger(self.free, n)
        self.gpu_free, self.reserved = larger(self.gpu_free, n), larger(self.reserved, n)

    def split(self, x: int, time_s: float) -> int:
        """A new segment from a time within segment x until its end."""
        new = self.spare
        if new != NONE:
            self.spare = self.next[new]
        else:
            if self.n_used == self.next.shape[0]:
                self.make_room()
            new = self.n_used
            self.n_used += 1
        for r in range(self.free.shape[1]):
            self.free[new, r] = self.free[x, r]
        for d in range(self.gpu_free.shape[1]):
            self.gpu_free[new, d] = self.gpu_free[x, d]
        self.n_chunks[new], self.start_s[new] = self.n_chunks[x], time_s
        self.reserved[new] = self.reserved[x]
        self.next[new], self.next[x] = self.next[x], new
        return new

    def is_same(self, x: int, y: int) -> bool:
        if self.n_chunks[x] != self.n_chunks[y] or self.reserved[x] != self.reserved[y]:
            return False
        for r in range(self.free.shape[1]):
            if self.free[x, r] != self.free[y, r]:
                return False
        for d in range(self.gpu_free.shape[1]):
            if self.gpu_free[x, d] != self.gpu_free[y, d]:
                return False
        return True

    def join(self, x: int) -> None:
        """Make segment x and the next one a single one if they are equal."""
        y = self.next[x]
        if y != NONE and self.is_same(x, y):
            self.next[x] = self.next[y]
            self.next[y], self.spare = self.spare, y

    def is_overbooked(self, x: int) -> bool:
        for r in range(self.free.shape[1]):
            if self.free[x, r] < 0:
                return True
        for d in range(self.gpu_free.shape[1]):
            if self.gpu_free[x, d] < 0:
                return True
        return False


class Timeline:
    """Uses of places by runs and reservations, and what they leave.

    Uses are rows: chunks of a kind of request on a node, with GPUs as bits, from a time until another; those
    of kind NONE are a reservation of the calendar, whose bit stands for chunks. Those
    of a job are linked, and those on a node; spare rows by `next_of_job`, from `spare` on. `version` of a
    place is when it last gained something, by a clock of such events; negative while a use is lifted.
    """

    def __init__(self, nodes: NodeState) -> None:
        self.nodes, self.segments, n = nodes, Segments(nodes), nodes.n_nodes
        self.node, self.chunks, self.gpus = integers(MIN_SIZE), integers(MIN_SIZE), integers(MIN_SIZE)
        self.kind, self.start_s, self.end_s = integers(MIN_SIZE), floats(MIN_SIZE), floats(MIN_SIZE)
        self.next_of_job, self.next_on_node = integers(MIN_SIZE), integers(MIN_SIZE)
        self.first_on_node, self.version = integers(n + 1) + NONE, integers(n + 1) + 1
        self.clock, self.spare, self.n_used = 1, NONE, 0

    def make_room(self) -> None:
        n = 2 * self.n_used
        self.node, self.chunks = larger(self.node, n), larger(self.chunks, n)
        self.gpus, self.kind = larger(self.gpus, n), larger(self.kind, n)
        self.start_s, self.end_s = larger(self.start_s, n), larger(self.end_s, n)
        self.next_of_job, self.next_on_node = larger(self.next_of_job, n), larger(self.next_on_node, n)

    def new_use(self, node: int, chunks: int, gpus: int, kind: int, following: int) -> int:
        """Add a use, whose next one of the same job is `following`."""
        use = self.spare
        if use != NONE:
            self.spare = self.next_of_job[use]
        else:
            if self.n_used == self.node.shape[0]:
                self.make_room()
            use = self.n_used
            self.n_used += 1
        self.node[use], self.chunks[use], self.gpus[use] = node, chunks, gpus
        self.kind[use], self.next_of_job[use] = kind, following
        return use

    def use_of_site(self, kind: int) -> int:
        """A new use, or NONE if a job of a kind requests nothing of the site."""
        if not self.nodes.requests_of_site(kind):
            return NONE
        return self.new_use(self.nodes.n_nodes, 1, 0, kind, NONE)

    def take_of(self, x: int, use: int, sign: int) -> None:
        """A use takes (1) or gives back (-1) what its row states, in segment x."""
        segments, nodes, kinds, k = self.segments, self.nodes, self.nodes.kinds, self.kind[use]
        n, chunks = self.node[use], sign * self.chunks[use]
        if k == NONE:
            segments.reserved[x] += chunks
            return
        if n == nodes.n_nodes:
            for s in range(nodes.n_site):
                segments.free[x, s] -= chunks * nodes.site_need(k, s)
            return
        whole = kinds.exclusive[k]
        for r in range(nodes.n_resources):
            segments.free[x, r] -= sign * nodes.capacity[n, r] if whole else chunks * kinds.need[k, r]
        gpus = self.gpus[use]
        if gpus != 0:
            share = sign * (WHOLE if whole else kinds.gpu_share[k])
            for d in range(nodes.n_gpus):
                if (gpus >> d) & ONE:
                    segments.gpu_free[x, d] -= share
        segments.n_chunks[x] += sign * kinds.placed(k, self.chunks[use])

    def shift(self, use: int, from_s: float, until_s: float, sign: int) -> None:
        """A use takes (1) or gives back (-1) what its row states, from a time until another. O(segments)."""
        segments = self.segments
        before, x, last = NONE, segments.first[self.node[use]], NONE
        while segments.next[x] != NONE and segments.start_s[segments.next[x]] <= from_s:
            before = x
            x = segments.next[x]
        if segments.start_s[x] < from_s:
            before = x
            x = segments.split(x, from_s)
        while x != NONE and segments.start_s[x] < until_s:
            if segments.end_s(x) > until_s:
                segments.split(x, until_s)
            self.take_of(x, use, sign)
            last = x
            x = segments.next[x]
        if last != NONE:
            segments.join(last)
        if before != NONE:
            segments.join(before)

    def leaves_room(self, use: int, from_s: float, until_s: float) -> bool:
        """Whether the node of a use has what all its uses take, from a time until another; if the use is to
        have a whole node, whether nothing else uses it."""
        segments, n = self.segments, self.node[use]
        alone = n < self.nodes.n_nodes and self.nodes.kinds.exclusive[self.kind[use]]
        own = self.nodes.kinds.own(self.kind[use]) if n < self.nodes.n_nodes else 0
        x = segments.at(n, from_s)
        while x != NONE and segments.start_s[x] < until_s:
            if (alone and segments.n_chunks[x] != self.chunks[use]) or segments.is_overbooked(x):
                return False
            if segments.reserved[x] != own:
                return False
            x = segments.next[x]
        return True

    def has_room(self, first: int) -> bool:
        """Whether the uses of a job may be where they are."""
        use = first
        while use != NONE:
            n = self.node[use]
            if n < self.nodes.n_nodes and not self.nodes.is_open(self.kind[use], n):
                return False
            if not self.leaves_room(use, self.start_s[use], self.end_s[use]):
                return False
            use = self.next_of_job[use]
        return True

    def has_gained(self, place: int) -> None:
        """Note that more may fit in a place."""
        self.clock += 1
        self.version[place] = self.clock

    def put_in(self, first: int, start_s: float, end_s: float) -> None:
        """Enter the uses of a job, by its first one, with this start and end."""
        use = first
        while use != NONE:
            self.start_s[use], self.end_s[use] = start_s, end_s
            self.shift(use, start_s, end_s, 1)
            n = self.node[use]
            self.version[n] = abs(self.version[n])
            self.next_on_node[use] = self.first_on_node[n]
            self.first_on_node[n] = use
            use = self.next_of_job[use]

    def lift(self, first: int) -> None:
        """Take out the uses of a job for a trial: `put_in` or `stay_out` follows before another job is
        lifted."""
        use = first
        while use != NONE:
            self.shift(use, self.start_s[use], self.end_s[use], -1)
            n = self.node[use]
            self.version[n] = -abs(self.version[n])
            if self.first_on_node[n] == use:
                self.first_on_node[n] = self.next_on_node[use]
            else:
                x = self.first_on_node[n]
                while self.next_on_node[x] != use:
                    x = self.next_on_node[x]
                self.next_on_node[x] = self.next_on_node[use]
            use = self.next_of_job[use]

    def stay_out(self, first: int) -> None:
        """Leave out the uses of a job that was lifted."""
        use = first
        while use != NONE:
            self.has_gained(self.node[use])
            use = self.next_of_job[use]

    def take_out(self, first: int) -> None:
        """Take out the uses of a job: the opposite of `put_in`."""
        self.lift(first)
        self.stay_out(first)

    def drop(self, first: int) -> None:
        """Free the rows of a job's uses."""
        last = first
        while self.next_of_job[last] != NONE:
            last = self.next_of_job[last]
        self.next_of_job[last], self.spare = self.spare, first

    def give_up(self, first: int) -> None:
        """The uses of a job are no longer there."""
        self.take_out(first)
        self.drop(first)

    def end_at(self, first: int, end_s: float) -> bool:
        """Change the end of a job's uses. Returns whether there is room for them."""
        has_room, use = True, first
        while use != NONE:
            before_s = self.end_s[use]
            self.end_s[use] = end_s
            if end_s > before_s:
                self.shift(use, before_s, end_s, 1)
                if has_room:
                    has_room = self.leaves_room(use, before_s, end_s)
            else:
                self.shift(use, end_s, before_s, -1)
                self.has_gained(self.node[use])
            use = self.next_of_job[use]
        return has_room

    def write_gpu_chunks(self, n: int, from_s: float, until_s: float) -> None:
        """Write the chunks with GPUs of node n's uses between two times, as what runs there."""
        nodes, kinds, use = self.nodes, self.nodes.kinds, self.first_on_node[n]
        for column in range(nodes.n_gpus + 1):
            nodes.gpu_chunks[n, column] = 0
        while use != NONE:
            k = self.kind[use]
            if k != NONE and kinds.gpus[k] > 0 and self.start_s[use] < until_s and self.end_s[use] > from_s:
                nodes.gpu_chunks[n, kinds.gpu_kind(k)] += self.chunks[use]
            use = self.next_on_node[use]
