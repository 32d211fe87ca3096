"""What is free on nodes, and how many chunks of a request fit on each.

What fits is evaluated again only for nodes that changed. Less than nothing of a node's CPUs is free while a
run that is suspended and the one for which it is have them both.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np

from scheduler.core.arrays import Flags, Floats, Ints, Ints2, floats, integers, larger
from scheduler.node_resources.core.calendar import Calendar
from scheduler.node_resources.core.codes import FREE, NONE, ONE, WHOLE
from scheduler.node_resources.core.switches import Switches

MIN_KINDS = 16
NO_SWITCHES = Switches(integers(0), integers(0), np.zeros((0, 0), np.bool_), integers(0))


class NodeTable(NamedTuple):
    """Nodes, and resources of the whole site."""

    capacity: Ints2
    """By node and resource: cores, memory, those that the site names."""
    free: Ints2
    gpu_type: Ints2
    """By node and GPU: one bit for the type of each; 0 where there is none."""
    gpu_free: Ints2
    """What is left of each GPU, in thousandths."""
    gpu_chunks: Ints2
    """Running chunks by node and number of GPUs, part of one in column 0."""
    n_chunks: Ints
    """Running chunks on each node."""
    largest: Floats
    """The largest capacity of a node; of GPUs, in thousandths, last."""
    site: Ints2
    """HAS and FREE."""


class Kinds:
    """Kinds of chunk, of which there are `n`: what one needs of a node, and a job of the site's resources;
    of GPUs, how many, thousandths of each (less than a whole only of one), and the bits of the types that
    will do; the most chunks of one job on a node; whether one needs a node on which nothing runs, and takes
    all of it; on which nodes it may be, by partition and features; the `pool` of nodes that its partitions
    are, of which some `overlap`; and its class in the `calendar`.

    Those that are placed by `switches` have `on_node`, the most chunks of one job on any node, or 0. A job
    whose kind has `most_leaves` has chunks on at most so many leaf switches until it has waited for `wait_s`;
    from then on it is of the kind `after`."""

    def __init__(self, n_nodes: int, n_needs: int) -> None:
        self.n, self.calendar, self.job_class = 0, Calendar(n_nodes), integers(MIN_KINDS)
        self.need = np.zeros((MIN_KINDS, n_needs), np.int64)
        self.gpus, self.gpu_share = integers(MIN_KINDS), integers(MIN_KINDS)
        self.gpu_types, self.most_on_node = integers(MIN_KINDS), integers(MIN_KINDS)
        self.exclusive = np.zeros(MIN_KINDS, np.uint8)
        self.eligible = np.zeros((MIN_KINDS, n_nodes), np.uint8)
        self.pool, self.overlap = integers(MIN_KINDS), np.zeros((0, 0), np.uint8)
        self.switches, self.on_node, self.most_leaves = NO_SWITCHES, integers(MIN_KINDS), integers(MIN_KINDS)
        self.wait_s, self.after = floats(MIN_KINDS), integers(MIN_KINDS)

    def add(
        self, need: Sequence[int], gpus: Sequence[int], most: int, exclusive: bool, eligible: Flags, pool: int
    ) -> int:
        """Add a kind; `gpus` are its number, share and types of GPUs. Returns its number."""
        k = self.n
        if k == self.gpus.shape[0]:
            self.need, self.eligible = larger(self.need, 2 * k), larger(self.eligible, 2 * k)
            self.gpus, self.gpu_share = larger(self.gpus, 2 * k), larger(self.gpu_share, 2 * k)
            self.gpu_types, self.exclusive = larger(self.gpu_types, 2 * k), larger(self.exclusive, 2 * k)
            self.most_on_node, self.pool = larger(self.most_on_node, 2 * k), larger(self.pool, 2 * k)
            self.job_class, self.on_node = larger(self.job_class, 2 * k), larger(self.on_node, 2 * k)
            self.most_leaves, self.wait_s = larger(self.most_leaves, 2 * k), larger(self.wait_s, 2 * k)
            self.after = larger(self.after, 2 * k)
        np.asarray(self.need)[k], np.asarray(self.eligible)[k] = need, eligible
        self.gpus[k], self.gpu_share[k], self.gpu_types[k] = gpus
        self.most_on_node[k], self.exclusive[k], self.pool[k], self.n = most, exclusive, pool, k + 1
        return k

    def place_by_switches(self, k: int, on_node: int, most_leaves: int, wait_s: float, after: int) -> None:
        self.on_node[k], self.most_leaves[k] = on_node, most_leaves
        self.wait_s[k], self.after[k] = wait_s, after

    def n_leaves(self, k: int, chunks: int, fit: Ints) -> int:
        """On how many leaves chunks of a job are, of which so many `fit` on each node; 0 without room."""
        return self.switches.divide(fit, chunks, (chunks + self.on_node[k] - 1) // self.on_node[k])

    def connects(self, k: int, chunks: int, fit: Ints) -> bool:
        """Whether switches allow that many chunks of a job, for which nodes have room."""
        if self.on_node[k] == 0:
            return True
        n = self.n_leaves(k, chunks, fit)
        return n > 0 and (self.most_leaves[k] == 0 or n <= self.most_leaves[k])

    def takes_parts_of_gpus(self, k: int) -> bool:
        return self.gpu_share[k] < WHOLE and not self.exclusive[k]

    def own(self, k: int) -> int:
        """The own reservation of jobs, as a bit."""
        return self.calendar.own[self.job_class[k]]

    def placed(self, k: int, chunks: int) -> int:
        """How many of some chunks count as being on a node: none of what a suspended run keeps."""
        return chunks if self.most_on_node[k] > 0 else 0

    def gpu_kind(self, k: int) -> int:
        """Column of `NodeTable.gpu_chunks` for a request of GPUs."""
        return self.gpus[k] if self.gpu_share[k] == WHOLE else 0


def times(need: int, amount: int, most: int) -> int:
    """How many times an amount is enough for a need, at most `most`. Division takes longer than all else."""
    if amount < need:
        return 0
    if most <= 1 or amount < 2 * need:
        return min(most, 1)
    return min(most, amount // need)


class NodeState:
    """The state of nodes, whose arrays are those of `table`.

    Of changes, which are numbered, `version` is the last one of each node, `newest` the node that changed
    last, and `newer` and `older` link the nodes in this order. `fit` is how many chunks of each kind fit on
    each node for one job, and `total` the sum, as of the change `seen`.
    """

    def __init__(self, table: NodeTable, kinds: Kinds) -> None:
        self.table, self.kinds = table, kinds
        self.capacity, self.free, self.site = table.capacity, table.free, table.site
        self.gpu_type, self.gpu_free, self.gpu_chunks = table.gpu_type, table.gpu_free, table.gpu_chunks
        self.n_chunks, self.largest = table.n_chunks, table.largest
        self.n_nodes, self.n_resources = table.free.shape
        self.n_gpus, self.n_site = table.gpu_type.shape[1], table.site.shape[1]
        n = self.n_nodes
        self.clock, self.newest, self.version = 1, 0, np.ones(n, np.int64)
        self.newer, self.older = np.arange(-1, n - 1), np.append(np.arange(1, n), NONE)
        self.fit, self.total, self.seen = np.zeros((0, n), np.int64), integers(0), integers(0)
        self.make_room()

    def alongside(self) -> NodeState:
        """Another state of the same nodes, for the same kinds of requests."""
        return NodeState(deepcopy(self.table), self.kinds)

    def make_room(self) -> None:
        """Make room for all kinds of requests."""
        n = self.kinds.gpus.shape[0]
        if n > self.total.shape[0]:
            self.fit, self.total, self.seen = larger(self.fit, n), larger(self.total, n), larger(self.seen, n)

    def has_changed(self, n: int) -> None:
        """Put the node first in the order of changes."""
        self.clock += 1
        self.version[n] = self.clock
        first = self.newest
        if first == n:
            return
        newer, older = self.newer[n], self.older[n]
        self.older[newer] = older
        if older != NONE:
            self.newer[older] = newer
        self.newer[n], self.older[n] = NONE, first
        self.newer[first] = n
        self.newest = n

    def changed_since(self, since: int) -> Ints:
        """The nodes that changed after `since`, the last one first."""
        n, found = self.newest, list[int]()
        while n != NONE and self.version[n] > since:
            found.append(n)
            n = self.older[n]
        return np.array(found, np.int64)

    def site_need(self, k: int, s: int) -> int:
        """What a job of kind k requests of resource s of the site."""
        return self.kinds.need[k, self.n_resources + s]

    def give_of_site(self, k: int, sign: int) -> None:
        """A job of kind k gives back (1) or takes (-1) what it has of the site's resources."""
        for s in range(self.n_site):
            self.site[FREE, s] += sign * self.site_need(k, s)

    def site_suffices(self, k: int) -> bool:
        """Whether what is free of the site's resources is enough for a job of kind k."""
        for s in range(self.n_site):
            if self.site_need(k, s) > self.site[FREE, s]:
                return False
        return True

    def requests_of_site(self, k: int) -> bool:
        for s in range(self.n_site):
            if self.site_need(k, s) > 0:
                return True
        return False

    def gpu_left(self, n: int) -> int:
        left = 0
        for d in range(self.n_gpus):
            left += self.gpu_free[n, d]
        return left

    def offers(self, k: int, n: int, d: int) -> bool:
        """Whether GPU d of node n is of a requested type and has the requested share left."""
        kinds = self.kinds
        return (self.gpu_type[n, d] & kinds.gpu_types[k]) != 0 and self.gpu_free[n, d] >= kinds.gpu_share[k]

    def tightest_gpu(self, k: int, n: int) -> int:
        """The GPU with the least left that offers what is requested; the first of equals."""
        best = NONE
        for d in range(self.n_gpus):
            if self.offers(k, n, d) and (best == NONE or self.gpu_free[n, d] < self.gpu_free[n, best]):
                best = d
        return best

    def gpu_chunks_that_fit(self, k: int, n: int, most: int) -> int:
        """How many chunks fit by their GPUs, at most `most`. Each of several GPUs is a whole one."""
        kinds, n_fit = self.kinds, 0
        for d in range(self.n_gpus):
            if self.gpu_type[n, d] & kinds.gpu_types[k]:
                n_fit += times(kinds.gpu_share[k], self.gpu_free[n, d], most)
        return times(kinds.gpus[k], n_fit, most)

    def is_open(self, k: int, n: int) -> bool:
        """Whether node n is up, and chunks of kind k may be there."""
        return self.kinds.calendar.up[n] and self.kinds.eligible[k, n]

    def chunks_that_fit(self, k: int, n: int) -> int:
        """How many chunks of kind k one job may have on node n now."""
        kinds = self.kinds
        if not self.is_open(k, n) or (kinds.exclusive[k] and self.n_chunks[n] > 0):
            return 0
        most = kinds.most_on_node[k]
        for r in range(self.n_resources):
            if kinds.need[k, r] > 0:
                most = times(kinds.need[k, r], self.free[n, r], most)
        if most > 0 and kinds.gpus[k] > 0:
            most = self.gpu_chunks_that_fit(k, n, most)
        return most

    def most_on(self, k: int, n: int, most: int) -> int:
        """How many chunks of kind k fit on node n at any time, and at most `most`."""
        kinds = self.kinds
        most = min(most, kinds.most_on_node[k])
        for r in range(self.n_resources):
            if kinds.need[k, r] > 0:
                most = times(kinds.need[k, r], self.capacity[n, r], most)
        return most

    def refresh(self, k: int) -> None:
        """Bring `fit` and `total` of kind k up to date."""
        n = self.newest
        while n != NONE and self.version[n] > self.seen[k]:
            fit = self.chunks_that_fit(k, n)
            self.total[k] += fit - self.fit[k, n]
            self.fit[k, n] = fit
            n = self.older[n]
        self.seen[k] = self.clock

    def fits_now(self, k: int, chunks: int) -> bool:
        """As `fits`, whatever switches allow, if there is room for the kind."""
        if self.seen[k] != self.clock:
            self.refresh(k)
        return self.total[k] >= chunks and self.site_suffices(k)

    def fits(self, k: int, chunks: int) -> bool:
        """Whether a job of that many chunks of kind k may start now; brings `fit` and `total` up to date."""
        self.make_room()
        return self.fits_now(k, chunks) and self.kinds.connects(k, chunks, self.fit[k])

    def next_that_may_fit(self, without: NodeState, kinds: Ints, chunks: Ints, i: int, end: int) -> int:
        """The first position in the queue, from i on, of a job that does not fit, but would `without` some
        runs; or `end`."""
        while i < end and (self.fits(kinds[i], chunks[i]) or not without.fits(kinds[i], chunks[i])):
            i += 1
        return i

    def choose_gpus(self, k: int, n: int, wanted: int, gpu: int) -> int:
        """The bits of the first whole GPUs; or of the GPU of which to take a part: `gpu`, else the
        tightest."""
        if self.kinds.gpu_share[k] < WHOLE:
            return ONE << (self.tightest_gpu(k, n) if gpu == NONE else gpu)
        bits = 0
        for d in range(self.n_gpus):
            if wanted > 0 and self.offers(k, n, d):
                bits |= ONE << d
                wanted -= 1
        return bits

    def take_all(self, n: int) -> int:
        """Take the whole node; returns the bits of its GPUs."""
        bits = 0
        for r in range(self.n_resources):
            self.free[n, r] -= self.capacity[n, r]
        for d in range(self.n_gpus):
            if self.gpu_type[n, d]:
                self.gpu_free[n, d] -= WHOLE
                bits |= ONE << d
        return bits

    def take(self, k: int, n: int, chunks: int, gpus: int, gpu: int) -> int:
        """Take chunks of kind k on node n, with these GPUs or, if there are none, others. Returns the GPUs.

        These are the first whole ones, or for a part of one, `gpu` or, if that is NONE, the one with the
        least left; there must be one chunk then.
        """
        kinds = self.kinds
        if kinds.exclusive[k]:
            gpus = self.take_all(n)
        else:
            for r in range(self.n_resources):
                self.free[n, r] -= chunks * kinds.need[k, r]
            if kinds.gpus[k] > 0 and gpus == 0:
                gpus = self.choose_gpus(k, n, chunks * kinds.gpus[k], gpu)
            for d in range(self.n_gpus):
                if (gpus >> d) & ONE:
                    self.gpu_free[n, d] -= kinds.gpu_share[k]
        if kinds.gpus[k] > 0:
            self.gpu_chunks[n, kinds.gpu_kind(k)] += chunks
        self.n_chunks[n] += kinds.placed(k, chunks)
        self.has_changed(n)
        return gpus

    def take_all_of(self, k: int, used: Ints2) -> None:
        """Take what the rows of `used` state, NODE, CHUNKS and GPUS, and the site's resources once. Writes
        GPUs where rows name none."""
        for x in range(used.shape[0]):
            used[x, 2] = self.take(k, used[x, 0], used[x, 1], used[x, 2], NONE)
        self.give_of_site(k, -1)

    def give_all_back(self, k: int, used: Ints2) -> None:
        """Give back what `take_all_of` took."""
        for x in range(used.shape[0]):
            self.give_back(k, used[x, 0], used[x, 1], used[x, 2])
        self.give_of_site(k, 1)

    def give_back(self, k: int, n: int, chunks: int, gpus: int) -> None:
        """Give back what `take` took."""
        kinds = self.kinds
        exclusive = kinds.exclusive[k]
        for r in range(self.n_resources):
            self.free[n, r] += self.capacity[n, r] if exclusive else chunks * kinds.need[k, r]
        share = WHOLE if exclusive else kinds.gpu_share[k]
        for d in range(self.n_gpus):
            if (gpus >> d) & ONE:
                self.gpu_free[n, d] += share
        if kinds.gpus[k] > 0:
            self.gpu_chunks[n, kinds.gpu_kind(k)] -= chunks
        self.n_chunks[n] -= kinds.placed(k, chunks)
        self.has_changed(n)
