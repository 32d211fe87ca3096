"""Machines by ready time, class by class, and the assignment of jobs to the first of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, allocate, inlined, part
from scheduler.mapping.kernels.table import LAST_INDEX, NONE, Plan, Table


class Lines(NamedTuple):
    """Machines of each class by ready time: runs of equal ready time in a heap, the first one as the front.

    The machines of a run are a slice of `members`: first the m machines in their initial order, then one for
    each assignment, in order of decision (`Plan.machines` is that part of `members`). Invariants, for each
    class k, between calls:

    * `front[front_at[k]:front_end[k]]` are ready at `front_s[k]`, ascending by index; if they are none,
      `front_s[k]` is infinite and no run is left.
    * Every run in the heap is ready after `front_s[k]`.
    * Each machine that is ever ready is in exactly one front or run.
    """

    members: Ints  # (m + n,)
    run_s: Floats  # (m,) of each class from its `first_machine` on, as a binary heap
    run_at: Ints  # (m,)
    run_length: Ints  # (m,)
    n_runs: Ints  # (K,)
    front: Ints  # (m,) the machines of each class that are ready first, ascending
    front_at: Ints  # (K,)
    front_end: Ints  # (K,)
    front_s: Floats  # (K,) when they are ready; infinite where no machine is left
    offers: Ints  # (K,) work space: the machine classes to choose from


def room_for_lines(table: Table) -> Lines:
    m, n_classes = len(table.machines), len(table.first_machine) - 1
    n_members = m + len(table.jobs)
    return allocate(Lines, n_members, m, m, m, n_classes, m, n_classes, n_classes, n_classes, n_classes)


@part
def line_up(table: Table, lines: Lines, ready_s: Floats) -> None:
    """Initialise with all machines that are ever ready; neighbours ready at the same time are one run."""
    for k in range(len(lines.n_runs)):
        lines.n_runs[k] = 0
        at, end = table.first_machine[k], table.first_machine[k + 1]
        while at < end:
            time_s, until = ready_s[table.machines[at]], at
            while until < end and ready_s[table.machines[until]] == time_s:
                lines.members[until] = table.machines[until]
                until += 1
            if time_s < np.inf:
                push_run(table, lines, k, time_s, at, until - at)
            at = until
        next_front(table, lines, k)


@part
def soonest(times_s: Floats, front_s: Floats) -> float:
    """The least completion over all machine classes; eight minima, which processors compute in parallel."""
    a = b = c = d = e = f = g = h = np.inf
    n = len(front_s)
    whole = n - n % 8
    for k in range(0, whole, 8):
        a = min(a, front_s[k] + times_s[k])
        b = min(b, front_s[k + 1] + times_s[k + 1])
        c = min(c, front_s[k + 2] + times_s[k + 2])
        d = min(d, front_s[k + 3] + times_s[k + 3])
        e = min(e, front_s[k + 4] + times_s[k + 4])
        f = min(f, front_s[k + 5] + times_s[k + 5])
        g = min(g, front_s[k + 6] + times_s[k + 6])
        h = min(h, front_s[k + 7] + times_s[k + 7])
    for k in range(whole, n):
        a = min(a, front_s[k] + times_s[k])
    return min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))


@inlined
def place(
    table: Table,
    lines: Lines,
    plan: Plan,
    done: int,
    next_job: Ints,
    c: int,
    completion_s: float,
    until_job: int,
    n_offers: int,
) -> tuple[int, int]:
    """Assign the next jobs of class c to machines on which they complete at `completion_s`.

    One call makes as many steps of the reference algorithm as take the same decision: the lowest job goes to
    the lowest machine, both ascending. Returns the number of jobs and the class of their machines.

    Preconditions: `completion_s` is the least completion of class c (`soonest`); the first `n_offers` classes
    in `offers` are those that reach it; jobs of c below `until_job` precede all tied jobs of other classes.
    Steps stop at `until_job`, at the lowest machine tied in another class or run (`others`), and at the end
    of the front. There is one step only if the machine comes from a later run, tied by rounding, or if the
    job takes no time, so that its machine stays at the front.

    Writes rows `done`, `done + 1`, ... of `plan` and advances `next_job[c]`. Machines that left the front, or
    their run, enter the heap as one run at `completion_s`: the invariants of `Lines` hold again.
    """
    times_s = table.by_job_class_s[c]
    best = behind = NONE
    lowest = others = LAST_INDEX
    for y in range(n_offers):
        k = lines.offers[y]
        if lines.front_s[k] + times_s[k] != completion_s:
            continue
        j = lines.front[lines.front_at[k]]
        others = min(others, max(j, lowest))
        if j < lowest:
            best, behind, lowest = k, NONE, j
        base = table.first_machine[k]
        if lines.n_runs[k] > 0 and lines.run_s[base] + times_s[k] == completion_s:
            for x in range(lines.n_runs[k]):  # later runs can be tied with the front by rounding
                if lines.run_s[base + x] + times_s[k] == completion_s:
                    j = lines.members[lines.run_at[base + x]]
                    others = min(others, max(j, lowest))
                    if j < lowest:
                        best, behind, lowest = k, x, j
    begin, at, start_s = next_job[c], lines.front_at[best], lines.front_s[best]
    placed = 1
    if behind >= 0:
        start_s = lines.run_s[table.first_machine[best] + behind]
        take_behind(table, lines, best, behind)
    elif completion_s > start_s:
        most = min(table.first_job[c + 1] - begin, lines.front_end[best] - at)
        while placed < most and table.jobs[begin + placed] < until_job and lines.front[at + placed] < others:
            placed += 1
        lines.front_at[best] += placed
    plan.machines[done] = lowest
    for x in range(1, placed):
        plan.machines[done + x] = lines.front[at + x]
    for x in range(placed):
        plan.jobs[done + x] = table.jobs[begin + x]
        plan.start_s[done + x] = start_s
        plan.completion_s[done + x] = completion_s
    next_job[c] += placed
    if behind >= 0 or completion_s > start_s:  # otherwise the machine stays at the front
        push_run(table, lines, best, completion_s, len(table.machines) + done, placed)
        if lines.front_at[best] == lines.front_end[best]:
            next_front(table, lines, best)
    return placed, best


@part
def take_behind(table: Table, lines: Lines, k: int, x: int) -> None:
    """Remove the first machine of the run in place x of class k's heap."""
    run = table.first_machine[k] + x
    lines.run_at[run] += 1
    lines.run_length[run] -= 1
    if lines.run_length[run] == 0:
        drop_run(table, lines, k, x)


@inlined
def next_front(table: Table, lines: Lines, k: int) -> None:
    """All runs of class k that are ready first become its front."""
    if lines.n_runs[k] == 0:
        lines.front_s[k] = np.inf
        return
    begin = end = root = table.first_machine[k]
    ready_s = lines.run_s[root]
    while lines.n_runs[k] > 0 and lines.run_s[root] == ready_s:
        at = lines.run_at[root]
        for x in range(lines.run_length[root]):
            lines.front[end + x] = lines.members[at + x]
        end += lines.run_length[root]
        drop_run(table, lines, k, 0)
    sort_ascending(lines.front, begin, end)
    lines.front_at[k], lines.front_end[k], lines.front_s[k] = begin, end, ready_s


@part
def sort_ascending(values: Ints, begin: int, end: int) -> None:
    """Shell sort in place; one pass if the values are sorted."""
    x = begin + 1
    while x < end and values[x - 1] < values[x]:
        x += 1
    if x >= end:
        return
    gap = 1
    while gap < (end - begin) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for x in range(begin + gap, end):
            value, y = values[x], x
            while y >= begin + gap and values[y - gap] > value:
                values[y] = values[y - gap]
                y -= gap
            values[y] = value
        gap //= 3


@inlined
def push_run(table: Table, lines: Lines, k: int, ready_s: float, at: int, length: int) -> None:
    base, x = table.first_machine[k], lines.n_runs[k]
    lines.n_runs[k] += 1
    rise(lines, base, x, ready_s, at, length)


@inlined
def drop_run(table: Table, lines: Lines, k: int, x: int) -> None:
    """Remove the run in place x of class k's heap."""
    base = table.first_machine[k]
    n = lines.n_runs[k] - 1
    lines.n_runs[k] = n
    if x == n:
        return
    ready_s, at, length = lines.run_s[base + n], lines.run_at[base + n], lines.run_length[base + n]
    while True:
        child = 2 * x + 1
        if child + 1 < n and lines.run_s[base + child + 1] < lines.run_s[base + child]:
            child += 1
        if child >= n or lines.run_s[base + child] >= ready_s:
            break
        move_run(lines, base + child, base + x)
        x = child
    rise(lines, base, x, ready_s, at, length)


@inlined
def rise(lines: Lines, base: int, x: int, ready_s: float, at: int, length: int) -> None:
    """Sift up a run from place x of the heap that begins at `base`."""
    while x > 0 and lines.run_s[base + (x - 1) // 2] > ready_s:
        move_run(lines, base + (x - 1) // 2, base + x)
        x = (x - 1) // 2
    lines.run_s[base + x], lines.run_at[base + x], lines.run_length[base + x] = ready_s, at, length


@inlined
def move_run(lines: Lines, source: int, target: int) -> None:
    lines.run_s[target] = lines.run_s[source]
    lines.run_at[target] = lines.run_at[source]
    lines.run_length[target] = lines.run_length[source]
