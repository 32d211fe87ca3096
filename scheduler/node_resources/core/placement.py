"""Choosing the nodes of a job by score.

Scores are for one chunk of a request, 0 to 100; the best node has the highest score. Where no chunk fits, the
score has no meaning.
"""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Floats, Floats2, Ints, Ints2, integers, larger
from scheduler.node_resources.core.codes import (
    BEST_FIT,
    CONSECUTIVE,
    CORES,
    DOT_PRODUCT,
    FIRST_FIT,
    GPU_PACKING,
    IN_PYTHON,
    NONE,
    WHOLE,
    WORST_FIT,
)
from scheduler.node_resources.core.state import NodeState


class Rows:
    """What jobs use: chunks on a node, with GPUs as bits."""

    def __init__(self) -> None:
        self.n = 0
        self.node, self.chunks, self.gpus = integers(MIN_SIZE), integers(MIN_SIZE), integers(MIN_SIZE)

    def add(self, node: int, chunks: int, gpus: int) -> None:
        n = self.n
        if n == self.node.shape[0]:
            self.node, self.chunks = larger(self.node, 2 * n), larger(self.chunks, 2 * n)
            self.gpus = larger(self.gpus, 2 * n)
        self.node[n], self.chunks[n], self.gpus[n] = node, chunks, gpus
        self.n = n + 1

    def table(self, begin: int, after: int) -> Ints2:
        """Columns NODE, CHUNKS and GPUS of some rows."""
        columns = np.asarray(self.node), np.asarray(self.chunks), np.asarray(self.gpus)
        return np.stack([column[begin:after] for column in columns], axis=1)


def dot_product(state: NodeState, k: int, n: int, weights: Floats) -> float:
    """The smaller the dot product of what is left and what is requested, the better."""
    kinds, n_resources, product = state.kinds, state.n_resources, 0.0
    for r in range(n_resources):
        most = state.largest[r]
        if most > 0.0:
            product += weights[r] * ((state.free[n, r] / most) * (kinds.need[k, r] / most))
    most = state.largest[n_resources]
    if most > 0.0:
        of_gpus = (state.gpu_left(n) / most) * (kinds.gpus[k] * kinds.gpu_share[k] / most)
        product += weights[n_resources] * of_gpus
    return 100.0 * (1.0 - product)


def tightness(state: NodeState, k: int, n: int, weights: Floats) -> float:
    """The less is left afterwards, the better."""
    kinds, n_resources, left = state.kinds, state.n_resources, 0.0
    for r in range(n_resources):
        most = state.largest[r]
        if most > 0.0:
            left += weights[r] * (state.free[n, r] - kinds.need[k, r]) / most
    most = state.largest[n_resources]
    if most > 0.0:
        left += weights[n_resources] * (state.gpu_left(n) - kinds.gpus[k] * kinds.gpu_share[k]) / most
    return 100.0 * (1.0 - left)


def packing(state: NodeState, k: int, n: int) -> float:
    """Prefer GPUs in use to untouched ones, and nodes with GPUs in use to idle nodes."""
    kinds = state.kinds
    if kinds.gpus[k] == 0 or state.fit[k, n] == 0:
        return 0.0
    n_gpus, n_untouched = 0, 0
    for d in range(state.n_gpus):
        n_gpus += state.gpu_type[n, d] != 0
        n_untouched += state.gpu_free[n, d] == WHOLE
    if n_untouched == n_gpus:
        return 33.0 - n_gpus
    if kinds.gpu_share[k] == WHOLE:
        return 50.0 - kinds.gpus[k]
    left = state.gpu_free[n, state.tightest_gpu(k, n)]
    return 100.0 - left / 100.0 if left < WHOLE else 49.0


def clustering(state: NodeState, k: int, n: int) -> float:
    """Prefer nodes with only jobs of the same number of GPUs, then those also with others, then idle ones."""
    kinds = state.kinds
    if kinds.gpus[k] == 0:
        return 0.0
    of_its_kind, others = 0.0, 0.0
    for column in range(state.n_gpus + 1):
        if state.gpu_chunks[n, column] > 0:
            if column == kinds.gpu_kind(k):
                of_its_kind = 1.0
            else:
                others = 1.0
    base = 25.0 + 50.0 * of_its_kind - 25.0 * others
    most = float(state.largest[state.n_resources])
    return base + 25.0 * (most - state.gpu_left(n)) / most


def score(state: NodeState, selection: int, weights: Floats, k: int, n: int) -> float:
    if selection == BEST_FIT:
        return tightness(state, k, n, weights)
    if selection == WORST_FIT:
        return -tightness(state, k, n, weights)
    if selection == DOT_PRODUCT:
        return dot_product(state, k, n, weights)
    if selection == GPU_PACKING:
        return packing(state, k, n)
    return clustering(state, k, n)


def write_scores(
    state: NodeState, selection: int, weights: Floats, k: int, which: Ints, scores: Floats2
) -> None:
    """Write the scores of the nodes in `which` to row k of `scores`."""
    for x in range(which.shape[0]):
        scores[k, which[x]] = score(state, selection, weights, k, which[x])


class Ranking:
    """The scores of nodes by kind of request, as of the change `seen` of each kind."""

    def __init__(self, state: NodeState, selection: int, weights: Floats) -> None:
        """`weights` are those of cores, memory, the site's own resources and, last, GPUs."""
        self.state, self.selection, self.weights = state, selection, weights
        self.is_scored = selection not in (FIRST_FIT, CONSECUTIVE)
        self.scores, self.seen = np.zeros((0, state.n_nodes)), integers(0)
        self.heap, self.after, self.room, self.cpus = (integers(state.n_nodes) for _ in range(4))

    def make_room(self) -> None:
        """Make room for all kinds of requests."""
        n = self.state.kinds.gpus.shape[0]
        if n > self.seen.shape[0]:
            self.scores, self.seen = larger(self.scores, n), larger(self.seen, n)

    def score_in_python(self, k: int) -> None:
        """Bring the scores for a kind of request up to date, if the selection is not compiled."""

    def gpu(self, k: int, n: int) -> int:
        """The GPU of node n of which to take a part, if the selection is not compiled; NONE: the one with the
        least left."""
        return NONE

    def make_current(self, k: int) -> None:
        """Bring the scores for a kind of request up to date, as `fit` must be."""
        state, selection = self.state, self.selection
        if not self.is_scored:
            return
        self.make_room()
        if self.seen[k] == state.clock:
            return
        if selection == IN_PYTHON:
            self.score_in_python(k)
        else:
            n = state.newest
            while n != NONE and state.version[n] > self.seen[k]:
                self.scores[k, n] = score(state, selection, self.weights, k, n)
                n = state.older[n]
        self.seen[k] = state.clock

    def is_better(self, k: int, a: int, b: int) -> bool:
        """Whether node a is better than node b: by score, then the lower number."""
        return self.scores[k, a] > self.scores[k, b] or (self.scores[k, a] == self.scores[k, b] and a < b)

    def sift_down(self, k: int, size: int, x: int) -> None:
        """Restore a heap, best node first, whose element x may be too good for its place."""
        while True:
            best = x
            for child in range(2 * x + 1, min(2 * x + 3, size)):
                if self.is_better(k, self.heap[child], self.heap[best]):
                    best = child
            if best == x:
                return
            self.heap[x], self.heap[best] = self.heap[best], self.heap[x]
            x = best

    def most_on(self, k: int, n: int, chunks: int) -> int:
        """How many of some chunks of a job may be on node n, where switches divide them."""
        switches, most = self.state.kinds.switches, min(chunks, self.state.fit[k, n])
        if most == 0 or self.state.kinds.on_node[k] == 0:
            return most
        return min(most, switches.gets[switches.leaf[n]]) if switches.leaf[n] != NONE else 0

    def write_row(self, k: int, n: int, chunks: int, rows: Rows) -> None:
        """Add chunks on a node to `rows`: one row, or one for each chunk that takes a part of a GPU, which
        may be another one."""
        if self.state.kinds.on_node[k] > 0:
            self.state.kinds.switches.gets[self.state.kinds.switches.leaf[n]] -= chunks
        if self.state.kinds.takes_parts_of_gpus(k):
            for _ in range(chunks):
                rows.add(n, 1, 0)
        else:
            rows.add(n, chunks, 0)

    def choose(self, k: int, chunks: int, rows: Rows) -> None:
        """Add the best nodes for `chunks` chunks to `rows`, best first, with as many chunks on each as fit.
        There must be room for all of them, and scores must be current. Ties: the lowest node. O(N + chosen
        log N)."""
        n, best, size = 0, NONE, 0
        if self.state.kinds.on_node[k] > 0:
            self.state.kinds.n_leaves(k, chunks, self.state.fit[k])
        elif self.selection == CONSECUTIVE:
            self.choose_consecutive(k, chunks, rows)
            return
        if not self.is_scored:
            while chunks > 0:
                here = self.most_on(k, n, chunks)
                if here > 0:
                    self.write_row(k, n, here, rows)
                    chunks -= here
                n += 1
            return
        for n in range(self.state.n_nodes):
            if self.most_on(k, n, chunks) > 0:
                self.heap[size] = n
                size += 1
                if best == NONE or self.scores[k, n] > self.scores[k, best]:
                    best = n
        if self.most_on(k, best, chunks) == chunks:  # as for most jobs
            self.write_row(k, best, chunks, rows)
            return
        for x in range(size // 2 - 1, -1, -1):
            self.sift_down(k, size, x)
        while chunks > 0:
            n = self.heap[0]
            size -= 1
            self.heap[0] = self.heap[size]
            self.sift_down(k, size, 0)
            here = self.most_on(k, n, chunks)
            self.write_row(k, n, here, rows)
            chunks -= here

    def choose_consecutive(self, k: int, chunks: int, rows: Rows) -> None:
        """Add nodes of the set of consecutive ones with fewest free CPUs that suffices for all chunks, else
        those of the largest sets; if one node suffices, the one of its set with fewest. Ties: the lowest
        node. O(N + s^2) for s sets. Source: `_eval_nodes` in Slurm's select/cons_tres."""
        fit, begin, after, room, n, n_sets = self.state.fit, self.heap, self.after, self.room, 0, 0
        free, cpus = self.state.free, self.cpus
        while n < self.state.n_nodes:
            if fit[k, n] == 0:
                n += 1
                continue
            begin[n_sets], room[n_sets], cpus[n_sets] = n, 0, 1
            while n < self.state.n_nodes and fit[k, n] > 0:
                room[n_sets] += fit[k, n]
                cpus[n_sets] += max(free[n, CORES], 0)
                n += 1
            after[n_sets] = n
            n_sets += 1
        while chunks > 0:
            best, only = 0, NONE
            for x in range(1, n_sets):
                suffices = room[x] >= chunks
                if room[best] < chunks:
                    best = x if suffices or cpus[x] > cpus[best] else best
                elif suffices and cpus[x] < cpus[best]:
                    best = x
            for n in range(begin[best], after[best]):
                if fit[k, n] >= chunks and (only == NONE or free[n, CORES] < free[only, CORES]):
                    only = n
            n = begin[best] if only == NONE else only
            while chunks > 0 and n < after[best]:
                here = min(chunks, fit[k, n])
                self.write_row(k, n, here, rows)
                chunks -= here
                n += 1
            room[best], cpus[best] = 0, 0

    def take_rows(self, k: int, rows: Rows, begin: int) -> None:
        """Take what the rows from `begin` on state, and give them their GPUs."""
        asks = self.selection == IN_PYTHON and self.state.kinds.takes_parts_of_gpus(k)
        for x in range(begin, rows.n):
            gpu = self.gpu(k, rows.node[x]) if asks else NONE
            rows.gpus[x] = self.state.take(k, rows.node[x], rows.chunks[x], rows.gpus[x], gpu)

    def take_best(self, k: int, chunks: int, rows: Rows) -> None:
        """Take the best nodes for a job that fits, and add what it uses to `rows`."""
        begin = rows.n
        self.make_current(k)
        self.choose(k, chunks, rows)
        self.take_rows(k, rows, begin)
        self.state.give_of_site(k, -1)
