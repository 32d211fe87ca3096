"""The waiting jobs as leaves of a binary tree, in the order of the queue.

Node k has the children 2k and 2k + 1; the root is node 1. A node has the number of jobs below it, their least
size and their least estimate: the next job that may start is found without a scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Floats, Floats2, Ints, floats, integers, larger
from scheduler.core.codes import NONE


def after(k: int) -> int:
    """The next node of a walk from left to right after the subtree of node k; 0 = none."""
    while k & 1:
        k >>= 1
    return k + 1 if k > 0 else 0


class WaitingTree:
    """Each job has a place, which is a leaf, and a slot of the queue. Places are taken from left to right."""

    def __init__(self) -> None:
        self.capacity = MIN_SIZE
        self.n_places = 0
        self.n_jobs = integers(2 * MIN_SIZE)
        self.size, self.estimate_s = floats(2 * MIN_SIZE) + inf, floats(2 * MIN_SIZE) + inf
        self.job, self.slot = integers(MIN_SIZE), integers(MIN_SIZE)

    def summarise(self, k: int) -> None:
        """Set a node from its children."""
        left, right = 2 * k, 2 * k + 1
        self.n_jobs[k] = self.n_jobs[left] + self.n_jobs[right]
        self.size[k] = min(self.size[left], self.size[right])
        self.estimate_s[k] = min(self.estimate_s[left], self.estimate_s[right])

    def set_leaf(self, place: int, n_jobs: int, size: float, estimate_s: float) -> None:
        k = self.capacity + place
        self.n_jobs[k], self.size[k], self.estimate_s[k] = n_jobs, size, estimate_s
        while k > 1:
            k >>= 1
            self.summarise(k)

    def add(self, job: int, slot: int, size: float, estimate_s: float, place_of: Ints) -> None:
        """Append a job to the queue. `place_of` has the places of all slots."""
        if self.n_places == self.capacity:
            if 2 * self.n_jobs[1] > self.capacity:
                self.double_capacity()
            else:
                self.close_ranks(place_of)
        place = self.n_places
        self.n_places = place + 1
        self.job[place], self.slot[place], place_of[slot] = job, slot, place
        self.set_leaf(place, 1, size, estimate_s)

    def close_ranks(self, place_of: Ints) -> None:
        """Move all jobs to the front, in their order."""
        n = 0
        for place in range(self.capacity):
            old, new = self.capacity + place, self.capacity + n
            if self.n_jobs[old] > 0:
                if place != n:
                    self.size[new], self.estimate_s[new] = self.size[old], self.estimate_s[old]
                    self.n_jobs[new], self.job[n], self.slot[n] = 1, self.job[place], self.slot[place]
                    self.n_jobs[old], self.size[old], self.estimate_s[old] = 0, inf, inf
                place_of[self.slot[n]] = n
                n += 1
        for k in range(self.capacity - 1, 0, -1):
            self.summarise(k)
        self.n_places = n

    def double_capacity(self) -> None:
        """Double the number of leaves; the new ones come last."""
        n = self.capacity
        none = integers(n)
        self.n_jobs = np.concatenate([integers(2 * n), np.asarray(self.n_jobs)[n:], none])
        self.size = np.concatenate([floats(2 * n), np.asarray(self.size)[n:], none + inf])
        self.estimate_s = np.concatenate([floats(2 * n), np.asarray(self.estimate_s)[n:], none + inf])
        self.job, self.slot = larger(self.job, 2 * n), larger(self.slot, 2 * n)
        self.capacity = 2 * n
        for k in range(2 * n - 1, 0, -1):
            self.summarise(k)

    def sort(self, slots: Sequence[int], place_of: Ints) -> None:
        """Put the waiting jobs, all of which are in these slots, in this order."""
        n = self.capacity
        leaves = [n + place_of[slot] for slot in slots]
        sizes, estimates_s = [self.size[k] for k in leaves], [self.estimate_s[k] for k in leaves]
        jobs = [self.job[k - n] for k in leaves]
        for place in range(self.n_places):
            self.n_jobs[n + place], self.size[n + place], self.estimate_s[n + place] = 0, inf, inf
        for place, slot in enumerate(slots):
            self.n_jobs[n + place], self.size[n + place] = 1, sizes[place]
            self.estimate_s[n + place], self.job[place] = estimates_s[place], jobs[place]
            self.slot[place], place_of[slot] = slot, place
        for k in range(n - 1, 0, -1):
            self.summarise(k)
        self.n_places = len(slots)

    @property
    def table(self) -> Floats2:
        """(n, 4) a row for each job in order: 1, its size, estimated run time and number."""
        n_jobs = np.asarray(self.n_jobs)[self.capacity :]
        columns = (
            n_jobs,
            np.asarray(self.size)[self.capacity :],
            np.asarray(self.estimate_s)[self.capacity :],
        )
        return np.stack([*columns, np.asarray(self.job)], axis=1, dtype=np.float64)[n_jobs > 0]

    @property
    def least_size(self) -> float:
        """The smallest size requested; infinite if no job waits."""
        return self.size[1]

    def place_of(self, rank: int) -> int:
        """The place of the job with `rank` jobs before it."""
        k = 1
        while k < self.capacity:
            k *= 2
            if self.n_jobs[k] <= rank:
                rank -= self.n_jobs[k]
                k += 1
        return k - self.capacity

    def rank_of(self, place: int) -> int:
        """The number of jobs before the one in a place."""
        k, rank = self.capacity + place, 0
        while k > 1:
            if k & 1:
                rank += self.n_jobs[k - 1]
            k >>= 1
        return rank

    def first_in_queue(self, shortest: bool) -> int:
        if self.n_jobs[1] == 0:
            return NONE
        return self.shortest_that_fits(inf) if shortest else self.place_of(0)

    def first_that_fits(self, most: float, spare: float, now_s: float, until_s: float) -> int:
        """The first job that needs at most `most` nodes, and either no more than `spare` or ends by
        `until_s`."""
        k = 1
        while k > 0:
            size = self.size[k]
            if size <= most and (size <= spare or now_s + self.estimate_s[k] <= until_s):
                if k >= self.capacity:
                    return k - self.capacity
                k *= 2
            else:
                k = after(k)
        return NONE

    def shortest_that_fits(self, most: float) -> int:
        """The job of the least estimate that needs at most `most` nodes; ties go to the first."""
        k, best, least_s = 1, NONE, inf
        while k > 0:
            if self.size[k] <= most and self.estimate_s[k] < least_s:
                if k < self.capacity:
                    k *= 2
                    continue
                best, least_s = k - self.capacity, self.estimate_s[k]
            k = after(k)
        return best

    def most_urgent(self, urgency: Floats, most: float, spare: float, now_s: float, until_s: float) -> int:
        """The least job by `urgency`, which is by slot, among those that `first_that_fits` may find. O(n)."""
        best, least = NONE, inf
        for place in range(self.n_places):
            k = self.capacity + place
            size = self.size[k]
            may = size < inf and size <= most and (size <= spare or now_s + self.estimate_s[k] <= until_s)
            if may and (best == NONE or urgency[self.slot[place]] < least):
                best, least = place, urgency[self.slot[place]]
        return best
