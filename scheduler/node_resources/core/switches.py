"""On which leaf switches, or base blocks, the chunks of a job are.

Source: `_eval_nodes_topo` in Slurm's topology/tree, `eval_nodes_block` in topology/block.
"""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import Flags, Ints, integers
from scheduler.node_resources.core.codes import NONE


class Switches:
    """Leaves, and the switches above them: their level, and whether the second of two is `below` the first.
    Blocks have `sizes` by level, in nodes. Nodes have a `leaf`; those that have NONE are for no job that is
    placed by switches. Of a job: how many chunks have `room` below each switch, how many each leaf `gets`, on
    how many leaves (`n_used`), and which blocks are `out`, since it would need too many of their parts.
    """

    def __init__(self, leaf: Ints, level: Ints, has: Flags, sizes: Ints) -> None:
        """`has`: the leaves of each."""
        (self.n, self.n_leaves), self.n_levels = has.shape, len(sizes)
        n_below = has.sum(axis=1)
        is_more = (n_below[:, None] > n_below) | (level[:, None] > level)
        self.below = (is_more & (has.astype(np.int64) @ has.T == n_below)).astype(np.uint8)
        self.leaf, self.level, self.sizes = leaf, level, sizes
        self.room, self.gets, self.n_used = integers(self.n), integers(self.n_leaves), 0
        self.out = np.zeros(self.n, np.uint8)

    def count_room(self, fit: Ints) -> None:
        """`fit`: how many chunks fit on each node."""
        self.n_used = 0
        for s in range(self.n):
            self.room[s] = 0
        for n in range(self.leaf.shape[0]):
            if fit[n] > 0 and self.leaf[n] != NONE:
                self.room[self.leaf[n]] += fit[n]
        for leaf in range(self.n_leaves):
            self.gets[leaf] = 0
            for s in range(self.n_leaves, self.n):
                if self.below[s, leaf]:
                    self.room[s] += self.room[leaf]

    def is_better(self, a: int, b: int, chunks: int) -> bool:
        """Whether switch a is better than b for some chunks: it has room for them, and its level is lower, or
        it has less room there; if one of them lacks room, whether a has more."""
        if self.room[a] < chunks or self.room[b] < chunks:
            return self.room[a] > self.room[b]
        return self.level[a] < self.level[b] or (
            self.level[a] == self.level[b] and self.room[a] < self.room[b]
        )

    def best(self, of: int, level: int, chunks: int) -> int:
        """The best part of a switch, or of all, for some chunks, of this level unless that is NONE; NONE if
        there is no part."""
        best = NONE
        for s in range(self.n):
            is_part = (of == NONE or self.below[of, s]) and (level == NONE or self.level[s] == level)
            if is_part and not self.out[s] and (best == NONE or self.is_better(s, best, chunks)):
                best = s
        return best

    def give(self, of: int, chunks: int) -> None:
        """Give chunks to the leaves of a switch, which has room for them, one after the other."""
        for leaf in range(self.n_leaves):
            here = min(chunks, self.room[leaf])
            if here > 0 and (leaf == of or self.below[of, leaf]):
                self.gets[leaf] += here
                self.n_used += 1
                chunks -= here
                for s in range(self.n):
                    if s == leaf or self.below[s, leaf]:
                        self.room[s] -= here

    def divide_below(self, top: int, chunks: int, n_nodes: int) -> bool:
        """Divide chunks over the leaves of a switch that has room for them: to the smallest leaf that has
        room for those that are left, else to all of the largest. Of a block, these are first blocks of the
        next level, then base blocks. Returns false if there are more of the former than its number of nodes
        needs."""
        s, n_parts = top, 0
        while self.level[s] > 0 and chunks > 0:
            is_block = self.n_levels > 0 and s == top
            part = self.best(s, self.level[s] - 1 if is_block else 0, chunks)
            n_parts += is_block
            if self.room[part] >= chunks:
                s = part
            else:
                chunks -= self.room[part]
                self.give(part, self.room[part])
        self.give(s, chunks)
        return n_parts == 0 or (n_parts - 1) * self.sizes[self.level[top] - 1] < n_nodes

    def divide(self, fit: Ints, chunks: int, n_nodes: int) -> int:
        """Write to `gets` how many chunks each leaf gets, of a job that needs a number of nodes: below the
        lowest switch, or in a block of the least size, that has room. Returns the number of leaves; 0 if
        there is no room. O(nodes + switches * leaves)."""
        level = NONE if self.n_levels == 0 else 0
        while 0 <= level < self.n_levels and self.sizes[level] < n_nodes:
            level += 1
        for s in range(self.n):
            self.out[s] = False
        while True:
            self.count_room(fit)
            top = self.best(NONE, level, chunks)
            if top == NONE or self.room[top] < chunks:
                return 0
            if self.divide_below(top, chunks, n_nodes):
                return self.n_used
            self.out[top] = True
