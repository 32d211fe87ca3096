"""Job classes by the machine class that was best at their last evaluation, and blocks of similar classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import FixedFloats2, Floats, Floats2, Ints, called_from_python, inlined, part
from scheduler.mapping.kernels.lines import Lines, line_up, soonest
from scheduler.mapping.kernels.table import NONE, Table

FEW = 256
"""Fewest job classes for which there are blocks."""

MEMBERS = 16
"""Job classes per block."""

ALIKE = 1.5
"""A block is used if its bound is at most this multiple of the latest best completion of its members."""


class Blocks(NamedTuple):
    """B blocks of job classes; each cell of a row is the longest time of its members."""

    row_s: FixedFloats2  # (B, K)
    members: Ints  # (C,) block by block
    first: Ints  # (B + 1,)


def blocks_of(table: Table, in_order: Ints) -> Blocks:
    """Blocks of consecutive classes in the order given."""
    n_job_classes, n_machine_classes = table.by_job_class_s.shape
    n_blocks = n_job_classes // MEMBERS if n_job_classes > FEW else 0
    first = np.arange(n_blocks + 1) * len(in_order) // max(1, n_blocks)
    row_s = np.empty((n_blocks, n_machine_classes))
    _longest(table.by_job_class_s, in_order, first, row_s)
    row_s.flags.writeable = False
    return Blocks(row_s, in_order, first)


@inlined
def row_of(table: Table, blocks: Blocks, c: int) -> Floats:
    """The times of a job class, or of block c - C."""
    n = len(table.by_job_class_s)
    row_s: Floats = table.by_job_class_s[c] if c < n else blocks.row_s[c - n]
    return row_s


@called_from_python
def _longest(times_s: FixedFloats2, members: Ints, first: Ints, row_s: Floats2) -> None:
    row_s[:] = 0.0
    for b in range(len(row_s)):
        for x in range(first[b], first[b + 1]):
            for k in range(row_s.shape[1]):
                row_s[b, k] = max(row_s[b, k], times_s[members[x], k])


class Groups(NamedTuple):
    """For each machine class the job classes that were best there, the longest at the root.

    Pairing heaps by time (Fredman, Sedgewick, Sleator and Tarjan 1986): the root has the least key, and
    `child` and `sibling` are NONE where there is none. Classes of one group with equal times become one
    node when they are first compared: the class of the lowest job, with the others in a heap by job below it.
    A whole block of job classes is also a node, with the number C + b, until it is dissolved; it precedes all
    jobs.
    """

    minus_s: Floats  # (C + B,) less the time on that machine class
    child: Ints  # (C + B,) of the heap by time
    sibling: Ints  # (C + B,)
    head: Ints  # (C + B,) the lowest job left of the class, when last looked up
    equal_child: Ints  # (C + B,) of the heap by job
    equal_sibling: Ints  # (C + B,)
    top: Ints  # (K,)


def grouped(table: Table, blocks: Blocks, lines: Lines, ready_s: Floats) -> Groups:
    """The groups of all blocks, or of all job classes if there are no blocks, at these ready times."""
    n_classes, n_blocks = len(table.by_job_class_s), len(blocks.row_s)
    n = n_classes + n_blocks
    groups = Groups(
        np.empty(n),
        np.full(n, NONE),
        np.full(n, NONE),
        np.concatenate([table.jobs[table.first_job[:-1]], np.full(n_blocks, NONE)]),
        np.full(n, NONE),
        np.full(n, NONE),
        np.full(len(table.by_machine_class_s), NONE),
    )
    _group_all(table, blocks, lines, groups, ready_s)
    return groups


@inlined
def meld(key: Floats | Ints, child: Ints, sibling: Ints, a: int, b: int) -> int:
    """Join two heaps."""
    if a == NONE:
        return b
    if b == NONE:
        return a
    if key[b] < key[a]:
        a, b = b, a
    sibling[b] = child[a]
    child[a] = b
    return a


@part
def without_root(key: Floats | Ints, child: Ints, sibling: Ints, root: int) -> int:
    """Remove the root, which becomes a heap of its own. Returns the rest."""
    c, pairs = child[root], NONE
    child[root] = NONE
    while c != NONE:
        other, later = sibling[c], NONE
        sibling[c] = NONE
        if other != NONE:
            later = sibling[other]
            sibling[other] = NONE
        c = meld(key, child, sibling, c, other)
        sibling[c] = pairs
        pairs, c = c, later
    rest = NONE
    while pairs != NONE:
        later = sibling[pairs]
        sibling[pairs] = NONE
        rest = meld(key, child, sibling, rest, pairs)
        pairs = later
    return rest


@inlined
def bound_of(lines: Lines, groups: Groups, k: int) -> float:
    """An upper bound of the best completions of group k."""
    if groups.top[k] == NONE:
        return -np.inf
    return float(lines.front_s[k] - groups.minus_s[groups.top[k]])


@inlined
def join(groups: Groups, c: int, k: int, time_s: float) -> None:
    """Add a class, with the equal ones below it, to group k."""
    groups.minus_s[c] = -time_s
    groups.top[k] = meld(groups.minus_s, groups.child, groups.sibling, groups.top[k], c)


@inlined
def meld_equals(groups: Groups, a: int, b: int) -> int:
    return meld(groups.head, groups.equal_child, groups.equal_sibling, a, b)


@inlined
def without_lowest(groups: Groups, c: int) -> int:
    """The equal classes below class c."""
    return without_root(groups.head, groups.equal_child, groups.equal_sibling, c)


@inlined
def best_completion_s(table: Table, blocks: Blocks, lines: Lines, c: int) -> float:
    return soonest(row_of(table, blocks, c), lines.front_s)


@part
def enter(table: Table, blocks: Blocks, lines: Lines, groups: Groups, c: int, completion_s: float) -> int:
    """Add a class or block to the group of the first machine class that completes it then. Returns that."""
    times_s, k = row_of(table, blocks, c), 0
    while lines.front_s[k] + times_s[k] != completion_s:
        k += 1
    join(groups, c, k, times_s[k])
    return k


@inlined
def take_tied(
    lines: Lines, groups: Groups, bound_s: Floats, largest_s: float, tied: Ints, group_of: Ints
) -> int:
    """Remove all whose bound is `largest_s` from their groups; those of equal time in a group become one.

    Writes the class of the lowest job of each to `tied`, and its group to `group_of`; returns their number.
    """
    n_tied = 0
    for k in range(len(bound_s)):
        if bound_s[k] != largest_s:
            continue
        first = n_tied
        while bound_of(lines, groups, k) == largest_s:  # by rounding, shorter ones may be as late
            c = groups.top[k]
            groups.top[k] = without_root(groups.minus_s, groups.child, groups.sibling, c)
            if n_tied > first and groups.minus_s[tied[n_tied - 1]] == groups.minus_s[c]:
                tied[n_tied - 1] = meld_equals(groups, tied[n_tied - 1], c)
            else:
                tied[n_tied], group_of[n_tied] = c, k
                n_tied += 1
        bound_s[k] = bound_of(lines, groups, k)
    return n_tied


@part
def enter_members(table: Table, blocks: Blocks, lines: Lines, groups: Groups, b: int) -> None:
    """Dissolve a block."""
    for x in range(blocks.first[b], blocks.first[b + 1]):
        c = blocks.members[x]
        completion_s = best_completion_s(table, blocks, lines, c)
        if completion_s < np.inf:
            enter(table, blocks, lines, groups, c, completion_s)


@part
def latest_member_s(table: Table, blocks: Blocks, lines: Lines, b: int) -> float:
    """The largest best completion of a block's members."""
    latest_s = 0.0
    for x in range(blocks.first[b], blocks.first[b + 1]):
        latest_s = max(latest_s, best_completion_s(table, blocks, lines, blocks.members[x]))
    return latest_s


@called_from_python
def _group_all(table: Table, blocks: Blocks, lines: Lines, groups: Groups, ready_s: Floats) -> None:
    """O(C K)."""
    line_up(table, lines, ready_s)
    n = len(table.by_job_class_s)
    for b in range(len(blocks.row_s)):
        bound_s = best_completion_s(table, blocks, lines, n + b)
        if bound_s <= ALIKE * latest_member_s(table, blocks, lines, b):
            enter(table, blocks, lines, groups, n + b, bound_s)
        else:
            enter_members(table, blocks, lines, groups, b)
    if len(blocks.row_s) == 0:
        for c in range(n):
            completion_s = best_completion_s(table, blocks, lines, c)
            if completion_s < np.inf:
                enter(table, blocks, lines, groups, c, completion_s)
