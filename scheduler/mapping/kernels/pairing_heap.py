"""Pairing heaps over numbered nodes: the node of smallest key is the root.

`child` and `sibling` have a place for each node, NOBODY where there is none; a heap is its root, or NOBODY.
Source: Fredman, Sedgewick, Sleator and Tarjan 1986.
"""

from __future__ import annotations

from scheduler.compiled import Floats, Ints, inlined, part
from scheduler.mapping.kernels.table import NOBODY


@inlined
def meld(key: Floats | Ints, child: Ints, sibling: Ints, a: int, b: int) -> int:
    """One heap of two."""
    if a == NOBODY:
        return b
    if b == NOBODY:
        return a
    if key[b] < key[a]:
        a, b = b, a
    sibling[b] = child[a]
    child[a] = b
    return a


@part
def without_root(key: Floats | Ints, child: Ints, sibling: Ints, root: int) -> int:
    """The heap without its root, which is a node by itself then."""
    c, pairs = child[root], NOBODY
    child[root] = NOBODY
    while c != NOBODY:
        other, later = sibling[c], NOBODY
        sibling[c] = NOBODY
        if other != NOBODY:
            later = sibling[other]
            sibling[other] = NOBODY
        c = meld(key, child, sibling, c, other)
        sibling[c] = pairs
        pairs, c = c, later
    rest = NOBODY
    while pairs != NOBODY:
        later = sibling[pairs]
        sibling[pairs] = NOBODY
        rest = meld(key, child, sibling, rest, pairs)
        pairs = later
    return rest
