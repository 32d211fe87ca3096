"""Job classes in order of their time on each machine class, sorted only as far as needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.arrays import Floats, integers

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
