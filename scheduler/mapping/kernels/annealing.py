"""Genetic simulated annealing over schedules, each a resource for every job."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import FixedFloats2, Floats, Ints, Ints2, compiled, inlined, part
from scheduler.mapping.kernels.table import NONE


class Choices(NamedTuple):
    """The possible resources of each job, and when they are ready."""

    times_s: (
        FixedFloats2  # (n, m + clusters), infinite where a job cannot run or the resource is not available
    )
    favourites: Ints2  # (n, F) the resources of shortest time for each job
    ready_s: Floats  # (m,)
    members: Ints  # machines of all clusters, one cluster after the other
    first_member: Ints  # (clusters + 1,)


class Workspace(NamedTuple):
    """Work space: the evaluation of one schedule, and the state of the search."""

    head: Ints  # (m + clusters,) the first job on each resource, shortest first
    behind: Ints  # (n,) the next job on its resource
    free_s: Floats  # (m,)
    child: Ints  # (n,)
    best: Ints  # (n,) the best schedule so far
    sums_s: Floats  # (P,) of the population
    random: Ints  # (1,) state of the random numbers


@inlined
def drawn(state: Ints, n: int) -> int:
    """A number from 0 to n - 1 (xorshift: Marsaglia 2003)."""
    x = np.uint64(state[0])
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = np.int64(x)
    number: int = np.int64((x >> np.uint64(11)) % np.uint64(n))  # type: ignore[assignment]
    return number


@inlined
def copy(source: Ints, target: Ints) -> None:
    for i in range(len(source)):
        target[i] = source[i]


@part
def line_up_jobs(choices: Choices, space: Workspace, chosen: Ints) -> None:
    """The jobs of each resource from the shortest to the longest."""
    space.head[:] = NONE
    for i in range(len(chosen)):
        j = chosen[i]
        time_s, before, after = choices.times_s[i, j], NONE, space.head[j]
        while after != NONE and choices.times_s[after, j] <= time_s:
            before, after = after, space.behind[after]
        space.behind[i] = after
        if before == NONE:
            space.head[j] = i
        else:
            space.behind[before] = i


@part
def sum_s(choices: Choices, space: Workspace, chosen: Ints) -> float:
    """Sum of completions where job i is on resource `chosen[i]`: clusters go first, then single machines."""
    line_up_jobs(choices, space, chosen)
    m = len(choices.ready_s)
    for j in range(m):
        space.free_s[j] = choices.ready_s[j]
    total_s = 0.0
    for c in range(len(choices.first_member) - 1):
        i = space.head[m + c]
        if i == NONE:
            continue
        end_s = 0.0
        for x in range(choices.first_member[c], choices.first_member[c + 1]):
            end_s = max(end_s, space.free_s[choices.members[x]])
        while i != NONE:
            end_s += choices.times_s[i, m + c]
            total_s += end_s
            i = space.behind[i]
        for x in range(choices.first_member[c], choices.first_member[c + 1]):
            space.free_s[choices.members[x]] = end_s
    for j in range(m):
        i, end_s = space.head[j], space.free_s[j]
        while i != NONE:
            end_s += choices.times_s[i, j]
            total_s += end_s
            i = space.behind[i]
    return total_s


@part
def other_resource(choices: Choices, state: Ints, i: int) -> int:
    """A random resource for job i: mostly one of its favourites."""
    n_favourites = choices.favourites.shape[1]
    for _ in range(8):
        if drawn(state, 8) > 0:
            j = choices.favourites[i, drawn(state, n_favourites)]
        else:
            j = drawn(state, choices.times_s.shape[1])
        if choices.times_s[i, j] < np.inf:
            return int(j)
    return int(choices.favourites[i, 0])


@compiled
def anneal(choices: Choices, space: Workspace, population: Ints2, cooling: float, generations: int) -> None:
    """Change `population` (P, n) for some generations; the best schedule found is `space.best`.

    In each generation every schedule has one child: a crossover with a mate, or a mutation. The child
    replaces it if its sum is less than the parent's plus the temperature, which begins as a twentieth of the
    mean sum and cools by the factor `cooling`.
    """
    child, best, sums_s, state = space.child, space.best, space.sums_s, space.random
    size, n = population.shape
    temperature_s = 0.0
    best_s = np.inf
    for p in range(size):
        sums_s[p] = sum_s(choices, space, population[p])
        temperature_s += sums_s[p] / size / 20.0
        if sums_s[p] < best_s:
            best_s = sums_s[p]
            copy(population[p], best)
    for _ in range(generations):
        for p in range(size):
            copy(population[p], child)
            if drawn(state, 3) == 0:
                mate, a, b = drawn(state, size), drawn(state, n), drawn(state, n)
                for i in range(min(a, b), max(a, b) + 1):
                    child[i] = population[mate, i]
            else:
                for _ in range(1 + drawn(state, 3)):
                    i = drawn(state, n)
                    child[i] = other_resource(choices, state, i)
            child_s = sum_s(choices, space, child)
            if child_s < sums_s[p] + temperature_s:
                copy(child, population[p])
                sums_s[p] = child_s
                if child_s < best_s:
                    best_s = child_s
                    copy(child, best)
        temperature_s *= cooling
