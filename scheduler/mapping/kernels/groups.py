"""Job classes grouped by the machine class that was best for them when they were last looked at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from scheduler.compiled import compiled, inlined, part
from scheduler.mapping.kernels.blocks import BLOCKS, Blocks, row_of
from scheduler.mapping.kernels.lines import LINES, Lines, line_up, soonest
from scheduler.mapping.kernels.table import (
    FLOATS,
    INTS,
    NOBODY,
    TABLE,
    Floats,
    Ints,
    Table,
    is_used_up,
    named_tuple,
)

ALIKE = 1.5
"""A block is kept if its bound is at most so many times the best completion of one of its members."""


class Groups(NamedTuple):
    """For each machine class the job classes that were best off there, the longest on top: pairing heaps.

    (Fredman, Sedgewick, Sleator and Tarjan 1986.) A whole block of job classes stands there as one, with the
    number C + b, until it is dissolved.
    """

    time_s: Floats  # (C + B,) on that machine class
    child: Ints  # (C + B,)
    sibling: Ints  # (C + B,)
    top: Ints  # (K,)


GROUPS = named_tuple((FLOATS, INTS, INTS, INTS), Groups)


def grouped(table: Table, blocks: Blocks, lines: Lines, ready_s: Floats) -> Groups:
    """The groups of all blocks, or job classes where there are no blocks, while machines are ready so."""
    n = len(table.by_job_class_s) + len(blocks.row_s)
    groups = Groups(
        np.empty(n),
        np.full(n, NOBODY),
        np.full(n, NOBODY),
        np.full(len(table.by_machine_class_s), NOBODY),
    )
    _group_all(table, blocks, lines, groups, ready_s)
    return groups


def copied(groups: Groups) -> Groups:
    return Groups(groups.time_s.copy(), groups.child.copy(), groups.sibling.copy(), groups.top.copy())


@inlined
def bound_of(lines: Lines, groups: Groups, k: int) -> float:
    """No job of group k has a larger best completion."""
    if groups.top[k] == NOBODY:
        return -np.inf
    return float(lines.front_s[k] + groups.time_s[groups.top[k]])


@inlined
def best_completion_s(table: Table, blocks: Blocks, lines: Lines, c: int) -> float:
    return soonest(row_of(table, blocks, c), lines.front_s)


@part
def enter(table: Table, blocks: Blocks, lines: Lines, groups: Groups, c: int, completion_s: float) -> int:
    """A job class or block is done at `completion_s` on the first machine class that offers that: which?"""
    times_s, k = row_of(table, blocks, c), 0
    while lines.front_s[k] + times_s[k] != completion_s:
        k += 1
    join(groups, c, k, times_s[k])
    return k


@inlined
def take_tied(
    table: Table,
    lines: Lines,
    groups: Groups,
    next_job: Ints,
    bound_s: Floats,
    largest_s: float,
    tied: Ints,
    group_of: Ints,
) -> int:
    """Take all whose bound is `largest_s` out of their groups; returns how many of them have jobs left."""
    n_tied = 0
    for k in range(len(bound_s)):
        if bound_s[k] != largest_s:
            continue
        while bound_of(lines, groups, k) == largest_s:
            c = groups.top[k]
            leave(groups, k)
            if c >= len(next_job) or not is_used_up(table, next_job, c):
                tied[n_tied], group_of[c] = c, k
                n_tied += 1
        bound_s[k] = bound_of(lines, groups, k)
    return n_tied


@inlined
def join(groups: Groups, c: int, k: int, time_s: float) -> None:
    groups.time_s[c] = time_s
    groups.top[k] = meld(groups, groups.top[k], c)


@part
def leave(groups: Groups, k: int) -> None:
    """Take off the top of group k."""
    c, pairs = groups.child[groups.top[k]], NOBODY
    groups.child[groups.top[k]] = NOBODY
    while c != NOBODY:
        other, later = groups.sibling[c], NOBODY
        groups.sibling[c] = NOBODY
        if other != NOBODY:
            later = groups.sibling[other]
            groups.sibling[other] = NOBODY
        c = meld(groups, c, other)
        groups.sibling[c] = pairs
        pairs, c = c, later
    top = NOBODY
    while pairs != NOBODY:
        later = groups.sibling[pairs]
        groups.sibling[pairs] = NOBODY
        top = meld(groups, top, pairs)
        pairs = later
    groups.top[k] = top


@inlined
def meld(groups: Groups, a: int, b: int) -> int:
    """One heap of two."""
    if a == NOBODY:
        return b
    if b == NOBODY:
        return a
    if groups.time_s[b] > groups.time_s[a]:
        a, b = b, a
    groups.sibling[b] = groups.child[a]
    groups.child[a] = b
    return a


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


@compiled(types.void(TABLE, BLOCKS, LINES, GROUPS, FLOATS))
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
