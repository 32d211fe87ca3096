"""Max-min by classes: job classes by the machine class that was best at their last evaluation.

Ready times only grow, so the completion there is an upper bound, and one ready time raises the bounds of a
whole group. Only the longest of a group is evaluated, and blocks of similar classes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import (
    FixedFloats2,
    Floats,
    Floats2,
    Ints,
    allocate,
    called_from_python,
    inlined,
    part,
)
from scheduler.mapping.kernels.least_work import SLACK, LeastWork, least_rest_s, least_work_of
from scheduler.mapping.kernels.lines import Lines, line_up, place, soonest
from scheduler.mapping.kernels.table import LAST_INDEX, NONE, Plan, Table, is_used_up

CHUNK = 16
"""Machine classes of which the best is good enough, if it lowers a bound."""
FEW = 256
"""Fewest job classes for which there are blocks."""
MEMBERS = 16
"""Job classes per block."""
ALIKE = 1.5
"""A block is used if its bound is at most this multiple of the latest best completion of its members."""


class Groups(NamedTuple):
    """For each machine class a pairing heap of the nodes that were best there, the longest first.

    A node is a job class, or C + a block of classes of similar work, which counts as the longest of its
    members until it is dissolved. Source: Fredman, Sedgewick, Sleator and Tarjan 1986.
    """

    time_s: Floats  # (C + B,) on that machine class
    child: Ints  # (C + B,) NONE where there is none
    sibling: Ints  # (C + B,)
    top: Ints  # (K,)
    bound_s: Floats  # (K,) an upper bound of the best completions of a group
    tied: Ints  # (C + B,) room for the nodes with equal bounds
    group_of: Ints  # (C + B,) their groups
    block_s: FixedFloats2  # (B, K) the longest time of its members
    first: Ints  # (B + 1,) where the members of each block begin in `least_work.by_work`
    least_work: LeastWork


def groups_of(table: Table, ready_s: Floats) -> Groups:
    """For mappings with ready times of at least `ready_s` (m,)."""
    c, k = table.by_job_class_s.shape
    least_work = least_work_of(table, ready_s)
    n_blocks = c // MEMBERS if c > FEW else 0
    first = np.arange(n_blocks + 1) * len(least_work.by_work) // max(1, n_blocks)
    block_s = np.zeros((n_blocks, k))
    _longest(table.by_job_class_s, least_work.by_work, first, block_s)
    block_s.flags.writeable = False
    n, last = c + n_blocks, {"block_s": block_s, "first": first, "least_work": least_work}
    return allocate(Groups, n, n, n, k, k, n, n, **last)


@called_from_python
def _longest(times_s: FixedFloats2, members: Ints, first: Ints, block_s: Floats2) -> None:
    for b in range(len(block_s)):
        for x in range(first[b], first[b + 1]):
            for k in range(block_s.shape[1]):
                block_s[b, k] = max(block_s[b, k], times_s[members[x], k])


@inlined
def times_of(table: Table, groups: Groups, node: int) -> Floats:
    n = len(table.by_job_class_s)
    times_s: Floats = table.by_job_class_s[node] if node < n else groups.block_s[node - n]
    return times_s


@inlined
def lowest_left(table: Table, next_job: Ints, node: int) -> int:
    """The lowest job left of a class; a block precedes all jobs."""
    return int(table.jobs[next_job[node]]) if node < len(next_job) else NONE


@inlined
def meld(groups: Groups, a: int, b: int) -> int:
    """Join two heaps."""
    if a == NONE or b == NONE:
        return max(a, b)
    if groups.time_s[b] > groups.time_s[a]:
        a, b = b, a
    groups.sibling[b] = groups.child[a]
    groups.child[a] = b
    return a


@inlined
def set_bound(lines: Lines, groups: Groups, k: int) -> None:
    top = groups.top[k]
    groups.bound_s[k] = lines.front_s[k] + groups.time_s[top] if top != NONE else -np.inf


@part
def pop(lines: Lines, groups: Groups, k: int) -> int:
    """Remove the longest node of group k."""
    root = groups.top[k]
    node, pairs, rest = groups.child[root], NONE, NONE
    while node != NONE:
        other, later = groups.sibling[node], NONE
        if other != NONE:
            later = groups.sibling[other]
        pair = meld(groups, node, other)
        groups.sibling[pair] = pairs
        pairs, node = pair, later
    while pairs != NONE:
        later = groups.sibling[pairs]
        rest = meld(groups, rest, pairs)
        pairs = later
    groups.top[k] = rest
    set_bound(lines, groups, k)
    return int(root)


@inlined
def join(lines: Lines, groups: Groups, node: int, k: int, time_s: float) -> None:
    """Add a node to group k."""
    groups.time_s[node], groups.child[node], groups.sibling[node] = time_s, NONE, NONE
    groups.top[k] = meld(groups, groups.top[k], node)
    set_bound(lines, groups, k)


@part
def evaluate(table: Table, lines: Lines, groups: Groups, node: int, k: int, bound_s: float) -> bool:
    """Whether the best completion of a node of group k is its bound. If not, it joins the group of a machine
    class that completes it sooner."""
    times_s, n = times_of(table, groups, node), len(lines.front_s)
    step = n if bound_s == np.inf else CHUNK
    begin = k - k % step
    for _ in range(0, n, step):
        end = min(begin + step, n)
        found_s = soonest(times_s[begin:end], lines.front_s[begin:end])
        if found_s < bound_s:
            while lines.front_s[begin] + times_s[begin] != found_s:
                begin += 1
            join(lines, groups, node, begin, times_s[begin])
            return False
        begin = end if end < n else 0
    return True


@part
def enter(table: Table, lines: Lines, groups: Groups, next_job: Ints, begin: int, end: int) -> None:
    """Enter the classes in these places by work."""
    for x in range(begin, end):
        c = groups.least_work.by_work[x]
        if not is_used_up(table, next_job, c):
            evaluate(table, lines, groups, c, 0, np.inf)


@inlined
def next_class(
    table: Table, lines: Lines, groups: Groups, next_job: Ints, largest_s: float
) -> tuple[int, int, int]:
    """The class of the lowest job whose best completion is its bound, `largest_s`, or NONE; the lowest job of
    other classes that may be tied; and the number of evaluations. A block at its bound is dissolved."""
    tied, group_of, n_tied = groups.tied, groups.group_of, 0
    for k in range(len(groups.top)):
        while groups.bound_s[k] == largest_s:  # by rounding, shorter ones may be as late
            tied[n_tied], group_of[n_tied] = pop(lines, groups, k), k
            n_tied += 1
    found, looks, others = NONE, 0, LAST_INDEX
    while n_tied > 0 and found == NONE:
        x = 0
        for y in range(1, n_tied):
            if lowest_left(table, next_job, tied[y]) < lowest_left(table, next_job, tied[x]):
                x = y
        node, k = tied[x], group_of[x]
        n_tied -= 1
        tied[x], group_of[x] = tied[n_tied], group_of[n_tied]
        looks += 1
        if evaluate(table, lines, groups, node, k, largest_s):
            found = node
    for x in range(n_tied):
        others = min(others, lowest_left(table, next_job, tied[x]))
        join(lines, groups, tied[x], group_of[x], groups.time_s[tied[x]])
    if found >= len(next_job):
        block = found - len(next_job)
        enter(table, lines, groups, next_job, groups.first[block], groups.first[block + 1])
        found = NONE
    return found, others, looks


@called_from_python
def max_min(
    table: Table, lines: Lines, groups: Groups, plan: Plan, next_job: Ints, ready_s: Floats, limit_s: float
) -> int:
    """Map the jobs from `next_job` (C,) on, the largest best completion first.

    `ready_s` by machine index, none less than for `groups_of`. Returns the number of jobs written to `plan`;
    jobs that no machine can complete are left out. Returns 0 as soon as the sum of completions is known to
    exceed `limit_s`. With C and K classes and n jobs at most n steps, each O(K) for each job class evaluated:
    few on most matrices, at worst all.
    """
    line_up(table, lines, ready_s)
    n_machine_classes, n_blocks = len(groups.top), len(groups.block_s)
    for k in range(n_machine_classes):
        lines.offers[k] = k
        groups.top[k], groups.bound_s[k] = NONE, -np.inf
    for b in range(n_blocks):
        latest_s = 0.0
        for x in range(groups.first[b], groups.first[b + 1]):
            times_s = table.by_job_class_s[groups.least_work.by_work[x]]
            latest_s = max(latest_s, soonest(times_s, lines.front_s))
        if soonest(groups.block_s[b], lines.front_s) <= ALIKE * latest_s < np.inf:
            evaluate(table, lines, groups, len(next_job) + b, 0, np.inf)
        else:
            enter(table, lines, groups, next_job, groups.first[b], groups.first[b + 1])
    if n_blocks == 0:
        enter(table, lines, groups, next_job, 0, len(groups.least_work.by_work))
    sum_s = 0.0
    done = looks = next_check = 0
    while True:
        if limit_s < np.inf and looks >= next_check:
            if sum_s + least_rest_s(table, groups.least_work, lines, next_job) > limit_s * (1.0 + SLACK):
                return 0
            # Checks cost less than evaluations.
            next_check = looks + 1 + 4 * (len(next_job) + len(ready_s)) // n_machine_classes
        largest_s = -np.inf
        for k in range(n_machine_classes):
            largest_s = max(largest_s, groups.bound_s[k])
        if largest_s == -np.inf:
            return done
        c, until_job, looked = next_class(table, lines, groups, next_job, largest_s)
        looks += looked
        if c == NONE:
            continue
        placed, k = place(table, lines, plan, done, next_job, c, largest_s, until_job, n_machine_classes)
        sum_s += placed * largest_s
        done += placed
        if not is_used_up(table, next_job, c):
            join(lines, groups, c, k, table.by_job_class_s[c, k])
        set_bound(lines, groups, k)
