"""Genetic simulated annealing over schedules, each a resource for every job."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints, Ints2, floats, integers
from scheduler.core.codes import NONE

MASK = 2**64 - 1


class Choices(NamedTuple):
    """The possible resources of each job, and when they are ready."""

    times_s: Floats2  # (n, m + clusters), infinite where a job cannot run or the resource is not available
    favourites: Ints2  # (n, F) the resources of shortest time for each job
    ready_s: Floats  # (m,)
    members: Ints  # machines of all clusters, one cluster after the other
    first_member: Ints  # (clusters + 1,)


class Annealing:
    """A population of schedules (P, n), and work space: the first job on each resource (`head`), the next one
    on its resource (`behind`), shortest first."""

    def __init__(self, choices: Choices, population: Ints2, seed: int) -> None:
        self.times_s, self.favourites = choices.times_s, choices.favourites
        self.ready_s, self.members, self.first_member = choices.ready_s, choices.members, choices.first_member
        n, n_resources = choices.times_s.shape
        self.population, self.child, self.best = population, np.zeros((1, n), np.int64), integers(n)
        self.head, self.behind, self.free_s = integers(n_resources), integers(n), floats(len(choices.ready_s))
        self.state = seed

    def drawn(self, n: int) -> int:
        """Draw a number from 0 to n - 1 (xorshift: Marsaglia 2003)."""
        self.state ^= (self.state << 13) & MASK
        self.state ^= self.state >> 7
        self.state ^= (self.state << 17) & MASK
        return (self.state >> 11) % n

    def line_up_jobs(self, schedules: Ints2, p: int) -> None:
        """Sort the jobs of each resource from the shortest to the longest."""
        for j in range(self.head.shape[0]):
            self.head[j] = NONE
        for i in range(schedules.shape[1]):
            j = schedules[p, i]
            time_s, before, after = self.times_s[i, j], NONE, self.head[j]
            while after != NONE and self.times_s[after, j] <= time_s:
                before, after = after, self.behind[after]
            self.behind[i] = after
            if before == NONE:
                self.head[j] = i
            else:
                self.behind[before] = i

    def sum_s(self, schedules: Ints2, p: int) -> float:
        """Sum of completions by a schedule: clusters go first, then single machines."""
        self.line_up_jobs(schedules, p)
        m, total_s = self.ready_s.shape[0], 0.0
        for j in range(m):
            self.free_s[j] = self.ready_s[j]
        for c in range(self.first_member.shape[0] - 1):
            i = self.head[m + c]
            if i == NONE:
                continue
            end_s = 0.0
            for x in range(self.first_member[c], self.first_member[c + 1]):
                end_s = max(end_s, self.free_s[self.members[x]])
            while i != NONE:
                end_s += self.times_s[i, m + c]
                total_s += end_s
                i = self.behind[i]
            for x in range(self.first_member[c], self.first_member[c + 1]):
                self.free_s[self.members[x]] = end_s
        for j in range(m):
            i, end_s = self.head[j], self.free_s[j]
            while i != NONE:
                end_s += self.times_s[i, j]
                total_s += end_s
                i = self.behind[i]
        return total_s

    def other_resource(self, i: int) -> int:
        """A random resource for job i: mostly one of its favourites."""
        for _ in range(8):
            if self.drawn(8) > 0:
                j = self.favourites[i, self.drawn(self.favourites.shape[1])]
            else:
                j = self.drawn(self.times_s.shape[1])
            if self.times_s[i, j] < inf:
                return j
        return self.favourites[i, 0]

    def beget(self, p: int) -> None:
        """The child of a schedule: a crossover with a mate, or a mutation."""
        size, n = self.population.shape[0], self.population.shape[1]
        for i in range(n):
            self.child[0, i] = self.population[p, i]
        if self.drawn(3) == 0:
            mate = self.drawn(size)
            a = self.drawn(n)
            b = self.drawn(n)
            for i in range(min(a, b), max(a, b) + 1):
                self.child[0, i] = self.population[mate, i]
        else:
            for _ in range(1 + self.drawn(3)):
                i = self.drawn(n)
                self.child[0, i] = self.other_resource(i)

    def run(self, cooling: float, generations: int) -> Ints:
        """Change the population for some generations; returns the best schedule found.

        In each generation every schedule has one child, which replaces it if its sum is less than the
        parent's plus the temperature, which begins as a twentieth of the mean sum and cools by the factor
        `cooling`.
        """
        self.anneal(self.best, floats(self.population.shape[0]), cooling, generations)
        return self.best

    def anneal(self, best: Ints, sums_s: Floats, cooling: float, generations: int) -> None:
        size, n = self.population.shape[0], self.population.shape[1]
        temperature_s, best_s = 0.0, inf
        for p in range(size):
            sums_s[p] = self.sum_s(self.population, p)
            temperature_s += sums_s[p] / size / 20.0
            if sums_s[p] < best_s:
                best_s = sums_s[p]
                for i in range(n):
                    best[i] = self.population[p, i]
        for _ in range(generations):
            for p in range(size):
                self.beget(p)
                child_s = self.sum_s(self.child, 0)
                if child_s < sums_s[p] + temperature_s:
                    sums_s[p] = child_s
                    for i in range(n):
                        self.population[p, i] = self.child[0, i]
                    if child_s < best_s:
                        best_s = child_s
                        for i in range(n):
                            best[i] = self.child[0, i]
            temperature_s *= cooling
