"""Min-min by classes."""

from __future__ import annotations

import numpy as np
from numba import types

from scheduler.compiled import FLOATS, INTS, Floats, Ints, compiled
from scheduler.mapping.kernels.heads import HEADS, Heads, drop_class, find_tops, lowest_job, set_key
from scheduler.mapping.kernels.lines import LINES, Lines, line_up, place, soonest
from scheduler.mapping.kernels.sorting import SORTING, Sorting
from scheduler.mapping.kernels.table import PLAN, TABLE, Plan, Table, is_used_up


@compiled(types.int64(TABLE, SORTING, LINES, HEADS, PLAN, INTS, FLOATS))
def min_min(
    table: Table,
    sorting: Sorting,
    lines: Lines,
    heads: Heads,
    plan: Plan,
    next_job: Ints,
    ready_s: Floats,
) -> int:
    """Map the jobs from `next_job` (C,) on, of all the least completion first; `ready_s` by machine index.

    Returns how many jobs were written to `plan`; jobs that no machine will ever complete are left out. With C
    and K classes and n jobs there are n steps at worst, each O(K), and fewer by as often as a choice repeats.
    Sorting is O(C K log C) in all, on most matrices O(C K).
    """
    line_up(table, lines, ready_s)
    find_tops(table, sorting, lines, heads, next_job)
    done = 0
    while True:
        least_s = soonest(heads.key_s, heads.zero_s)
        if least_s == np.inf:
            return done
        n_offers = 0
        for k in range(len(heads.key_s)):
            if heads.key_s[k] == least_s:
                lines.offers[n_offers] = k
                n_offers += 1
        c, until_job = lowest_job(table, sorting, lines, heads, next_job, least_s, n_offers)
        placed, used = place(table, lines, plan, done, next_job, c, least_s, until_job, n_offers)
        done += placed
        if is_used_up(table, next_job, c):
            drop_class(table, sorting, lines, heads, next_job, c)
        set_key(table, lines, heads, used)
