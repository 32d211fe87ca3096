"""Min-min by classes; job classes in order of their time on each machine class, sorted only as far as needed;
and the shortest remaining job there."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.arrays import Floats, Ints, floats, integers
from scheduler.core.codes import LAST_INDEX, NONE
from scheduler.mapping.core.lines import Lines
from scheduler.model import Assignments

if TYPE_CHECKING:
    from scheduler.mapping.table import EtcTable


DEPTH = 64
SHORT = 16


class Sorting:
    """For each machine class its job classes by (time, first job): `order` (K, C), of which the first
    `sorted_to` (K,) are in their final places; and a stack of places where partitions end (K, DEPTH)."""

    def __init__(self, table: EtcTable) -> None:
        self.times_s, n_machine_classes = table.by_machine_class_s, len(table.by_machine_class_s)
        self.n = table.by_machine_class_s.shape[1]
        self.first_of = table.jobs[table.first_job[: self.n]]
        self.order = np.arange(self.n)[None, :].repeat(n_machine_classes, axis=0)
        self.bounds = np.empty((n_machine_classes, DEPTH), np.int64)
        self.sorted_to, self.depth = integers(n_machine_classes), integers(n_machine_classes)

    def end_of_stretch(self, k: int) -> int:
        """The end of the partition to sort next."""
        return self.n if self.depth[k] == 0 else self.bounds[k, self.depth[k] - 1]

    def sort_on(self, k: int) -> None:
        """Sort at least one more of machine class k's job classes.

        Incremental quicksort (Paredes and Navarro 2006): only the first partition is sorted, and the ends of
        the others are stored. Pivots are near the first sixth, since most of an order is never needed.
        """
        begin, end = self.sorted_to[k], self.end_of_stretch(k)
        while end - begin > SHORT:
            end = self.split(k, begin, end)
            if self.depth[k] < DEPTH:  # otherwise it is partitioned again
                self.bounds[k, self.depth[k]] = end
                self.depth[k] += 1
        order, times_s = self.order[k], self.times_s[k]
        for x in range(begin + 1, end):
            c, y = order[x], x
            while y > begin and self.comes_before(times_s, c, order[y - 1]):
                order[y] = order[y - 1]
                y -= 1
            order[y] = c
        self.sorted_to[k] = end
        while self.depth[k] > 0 and self.bounds[k, self.depth[k] - 1] <= end:
            self.depth[k] -= 1

    def split(self, k: int, begin: int, end: int) -> int:
        """Partition by a pivot; returns where the second part begins. Neither part is empty."""
        order, times_s = self.order[k], self.times_s[k]
        step, pivot_at = (end - begin) // 5, begin
        for y in range(1, 5):
            if self.comes_before(times_s, order[begin + y * step], order[pivot_at]):
                pivot_at = begin + y * step
        pivot = order[pivot_at]
        order[pivot_at] = order[begin]
        order[begin] = pivot
        pivot_s, cut = times_s[pivot], begin + 1
        for x in range(begin + 1, end):  # without branches that are hard to predict
            c = order[x]
            order[x] = order[cut]
            order[cut] = c
            if times_s[c] == pivot_s:
                cut += self.comes_before(times_s, c, pivot)
            else:
                cut += times_s[c] < pivot_s
        return cut

    def comes_before(self, times_s: Floats, a: int, b: int) -> bool:
        if times_s[a] != times_s[b]:
            return times_s[a] < times_s[b]
        return self.first_of[a] < self.first_of[b]

    def end_of_run(self, k: int, x: int) -> int:
        """The end of the job classes in machine class k's order with the same time as the one at x."""
        past = x + 1
        if past == self.sorted_to[k]:
            return self.past_equals(k, x)
        if self.times_s[k, self.order[k, past]] == self.times_s[k, self.order[k, x]]:
            return self.past_equals(k, x)
        return past

    def past_equals(self, k: int, x: int) -> int:
        low, high, step, time_s = x + 1, x + 1, 1, self.times_s[k, self.order[k, x]]
        while True:
            if high >= self.sorted_to[k]:
                if self.sorted_to[k] == self.n:
                    break
                self.sort_on(k)
            elif self.times_s[k, self.order[k, high]] == time_s:
                low, high, step = high + 1, high + step, 2 * step
            else:
                break
        high = min(high, self.n)
        while low < high:
            middle = (low + high) >> 1
            if self.times_s[k, self.order[k, middle]] > time_s:
                high = middle
            else:
                low = middle + 1
        return low


FEW_LEFT = 512
"""The most job classes that are searched; more are sorted, since repeated searches would take quadratic
time."""


class MinMinByClass:
    """For each machine class, the job class with the shortest remaining job (`top`) and its completion
    (`key_s`); and all remaining classes.

    Job classes with equal times are a run of the sorted order. When the lowest job of a run of several
    classes is first needed, the run becomes a binary heap by lowest remaining job. Invariants, for each
    machine class k, between calls:

    * The classes before `at[k]` in the order have no job left; `at[k]` begins a run, or is `sorted_to[k]`
      if the rest is searched instead.
    * In runs before `in_heaps_to[k]`, `job` is a heap. An entry is a lower bound of its class's lowest
      remaining job, since jobs of a class are taken in ascending order; it is corrected at the top.
    * `place_of[left[x]]` is x for x < `n_left`.
    * `key_s[k]` is infinite if no remaining class can run on k.
    """

    def __init__(self, table: EtcTable, lines: Lines) -> None:
        """The order is kept for later mappings of the same jobs."""
        self.lines, self.sorting = lines, Sorting(table)
        n_job_classes, n = table.by_job_class_s.shape
        self.top, self.at, self.in_heaps_to, self.key_s = integers(n), integers(n), integers(n), floats(n)
        self.job = np.empty((n, n_job_classes), np.int64)
        self.left, self.place_of = integers(n_job_classes), integers(n_job_classes)

    def find_tops(self) -> None:
        """Initialise all fields."""
        self.n_left = 0
        for c in range(self.lines.n_job_classes):
            if not self.lines.is_used_up(c):
                self.left[self.n_left] = c
                self.place_of[c] = self.n_left
                self.n_left += 1
        for k in range(self.lines.n_machine_classes):
            self.at[k], self.in_heaps_to[k] = 0, 0
            self.find_top(k)

    def drop_class(self, c: int) -> None:
        """Remove class c, which has no job left."""
        self.n_left -= 1
        last = self.left[self.n_left]
        self.left[self.place_of[c]] = last
        self.place_of[last] = self.place_of[c]
        for k in range(self.lines.n_machine_classes):
            if self.top[k] == c:
                self.find_top(k)

    def set_key(self, k: int) -> None:
        self.key_s[k] = inf
        if self.top[k] != NONE:
            self.key_s[k] = self.lines.front_s[k] + self.sorting.times_s[k, self.top[k]]

    def find_top(self, k: int) -> None:
        """Find the shortest remaining job on machine class k, extending the sorted order if needed.

        If few job classes remain, and far fewer than the next stretch has, search them instead.
        """
        top, least_s, sorting = NONE, inf, self.sorting
        while top == NONE and self.at[k] < self.lines.n_job_classes:
            if self.at[k] == sorting.sorted_to[k]:
                stretch = sorting.end_of_stretch(k) - sorting.sorted_to[k]
                if self.n_left <= min(FEW_LEFT, stretch // 3):
                    break
                sorting.sort_on(k)
            if self.at[k] < self.in_heaps_to[k]:
                top = self.top_of_heap(k)
            elif self.lines.is_used_up(sorting.order[k, self.at[k]]):
                self.at[k] += 1
            else:
                top = sorting.order[k, self.at[k]]
        if top == NONE:
            for x in range(self.n_left):
                if sorting.times_s[k, self.left[x]] < least_s:
                    top = self.left[x]
                    least_s = sorting.times_s[k, top]
        self.top[k] = top
        self.set_key(k)

    def lowest_job(self, least_s: float, n_offers: int) -> tuple[int, int]:
        """The class of the lowest job that can complete at `least_s`, and the lowest such job of other
        classes. The latter is a lower bound; a smaller one only makes for smaller steps."""
        best, lowest, others = NONE, LAST_INDEX, LAST_INDEX
        lines, sorting = self.lines, self.sorting
        for y in range(n_offers):
            k = lines.offers[y]
            x = self.at[k]
            by_order = x < sorting.sorted_to[k]
            end = lines.n_job_classes if by_order else self.n_left
            if not by_order:
                x = 0
            while x < end:
                if by_order and x == sorting.sorted_to[k]:
                    sorting.sort_on(k)
                c, past = sorting.order[k, x] if by_order else self.left[x], x + 1
                is_tied = lines.front_s[k] + sorting.times_s[k, c] == least_s
                if by_order and not is_tied:
                    break
                if by_order:
                    past = sorting.end_of_run(k, x)
                if past > x + 1:
                    c = self.lowest_of_heap(k, x, past)
                    others = min(others, self.job[k, x + 1])
                    if past > x + 2:
                        others = min(others, self.job[k, x + 2])
                if is_tied and c != NONE and c != best and not lines.is_used_up(c):
                    i = lines.jobs[lines.next_job[c]]
                    others = min(others, max(i, lowest))
                    if i < lowest:
                        best, lowest = c, i
                x = past
        return best, others

    def top_of_heap(self, k: int) -> int:
        """The class with the lowest job of the current run. If none is left: NONE, and go to the next run."""
        past = self.sorting.end_of_run(k, self.at[k])
        top = self.lowest_of_heap(k, self.at[k], past)
        if top == NONE:
            self.at[k] = past
        return top

    def lowest_of_heap(self, k: int, begin: int, end: int) -> int:
        """The class with the lowest remaining job in a run of machine class k's order; NONE if none is
        left."""
        order = self.sorting.order
        for x in range(max(begin, self.in_heaps_to[k]), end):
            self.rise(k, begin, x, order[k, x], self.lowest_left(order[k, x]))
        self.in_heaps_to[k] = max(self.in_heaps_to[k], end)
        while True:
            c = order[k, begin]
            i = self.lowest_left(c)
            if i == self.job[k, begin]:
                return NONE if i == LAST_INDEX else c
            x = begin
            while True:
                child = 2 * x - begin + 1
                if child + 1 < end and self.job[k, child + 1] < self.job[k, child]:
                    child += 1
                if child >= end or self.job[k, child] >= i:
                    break
                order[k, x], self.job[k, x] = order[k, child], self.job[k, child]
                x = child
            order[k, x], self.job[k, x] = c, i

    def lowest_left(self, c: int) -> int:
        return LAST_INDEX if self.lines.is_used_up(c) else self.lines.jobs[self.lines.next_job[c]]

    def rise(self, k: int, begin: int, x: int, c: int, i: int) -> None:
        """Insert class c with lowest job i at position x of the heap at `begin`, and sift it up."""
        order = self.sorting.order
        while x > begin:
            above = begin + ((x - begin - 1) >> 1)
            if self.job[k, above] <= i:
                break
            order[k, x], self.job[k, x] = order[k, above], self.job[k, above]
            x = above
        order[k, x], self.job[k, x] = c, i

    def map(self, next_job: Ints, ready_s: Floats) -> Assignments:
        """Map the jobs from `next_job` (C,) on, the least completion first; `ready_s` by machine index.

        Jobs that no machine can complete are left out. With C and K classes and n jobs at most n steps, each
        O(K); and sorting, O(C K log C), on most matrices O(C K).
        """
        lines = self.lines
        lines.begin(next_job, ready_s)
        self.find_tops()
        while True:
            least_s = inf
            for k in range(lines.n_machine_classes):
                least_s = min(least_s, self.key_s[k])
            if least_s == inf:
                return lines.assignments()
            n_offers = 0
            for k in range(lines.n_machine_classes):
                if self.key_s[k] == least_s:
                    lines.offers[n_offers] = k
                    n_offers += 1
            c, until_job = self.lowest_job(least_s, n_offers)
            used = lines.place(c, least_s, until_job, n_offers)
            if lines.is_used_up(c):
                self.drop_class(c)
            self.set_key(used)
