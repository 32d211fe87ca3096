"""Genetic simulated annealing, with clusters."""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import Ints
from scheduler.mapping.core.annealing import Annealing, Choices
from scheduler.mapping.greedy import Sjs
from scheduler.mapping.pjs import Pjs, PjsTryNext
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.mapping.table import in_a_row
from scheduler.model import Assignments, Schedule

POPULATION = 30
FAVOURITES = 6
MIN_GENERATIONS = 20
GENERATIONS_PER_JOB = 60
"""Makes up for the few places of jobs looked at in a generation of a small problem."""
LAST_TEMPERATURE = 1e-2
"""The last temperature, relative to the first."""


class Gsa:
    """GSA: genetic simulated annealing over schedules, starting from those of PJS.

    A schedule says on which machine or cluster each job runs; clusters go before single machines, and on each
    the shortest job first. Never worse than SJS, PJS and PJS with try-next by the sum of expected job times.
    It ends after an amount of `work` (places of jobs looked at), which bounds its time without making it
    depend on a clock; the same `seed` gives the same schedule. By default less than a tenth of a second at
    100 jobs. Its table of times takes memory in proportion to jobs x (machines + clusters), whatever the
    classes. Source: Shroff, Watson, Flann and Freund 1996; Braun et al. 2001; named by Collins and George
    2001."""

    def __init__(self, work: int = 6_000_000, seed: int = 2001) -> None:
        self._work = work
        self._seed = seed

    def schedule(self, problem: MappingProblem) -> Schedule:
        starts = [made.schedule(problem).assignments for made in (Sjs(), Pjs(), PjsTryNext())]
        given = min(starts, key=lambda rows: (-len(rows), float(rows.completion_s.sum())))
        if not len(given):
            return mapped(problem, given)
        jobs = np.sort(given.jobs)  # the others can run nowhere
        choices = _choices(problem, jobs)
        n = len(jobs)
        population = np.empty((POPULATION, n), dtype=np.int64)
        for p in range(POPULATION):
            rows = starts[p % len(starts)]
            alike = rows if len(rows) == n else given
            population[p, np.searchsorted(jobs, alike.jobs)] = alike.resources
        enough = MIN_GENERATIONS + GENERATIONS_PER_JOB * n
        generations = max(MIN_GENERATIONS, min(enough, self._work // (POPULATION * n)))
        annealing = Annealing(choices, population, self._seed * 2_654_435_761 + 1)
        best = annealing.run(LAST_TEMPERATURE ** (1.0 / generations), generations)
        found = _in_order(problem, choices, jobs, best)
        better = found.completion_s.sum() < given.completion_s.sum()
        return mapped(problem, found if better else given)


def _choices(problem: MappingProblem, jobs: Ints) -> Choices:
    ready = problem.ready_times
    resource_s = np.concatenate([ready.machine_s, ready.cluster_s])
    times_s = np.ascontiguousarray(np.where(np.isfinite(resource_s), problem.etc.dense()[jobs], np.inf))
    times_s.flags.writeable = False
    n_favourites = min(FAVOURITES, times_s.shape[1])
    favourites = np.ascontiguousarray(np.argsort(times_s, axis=1, kind="stable")[:, :n_favourites])
    return Choices(times_s, favourites, np.array(ready.machine_s), *in_a_row(ready.members))


def _in_order(problem: MappingProblem, choices: Choices, jobs: Ints, chosen: Ints) -> Assignments:
    """The schedule in which job i is on resource `chosen[i]`."""
    m = len(choices.ready_s)
    free_s = choices.ready_s.copy()
    time_s = choices.times_s[np.arange(len(jobs)), chosen]
    start_s = np.empty(len(jobs))
    # Clusters before machines, then resource by resource, the shortest first.
    for i in np.lexsort((jobs, time_s, chosen, chosen < m)):
        j = int(chosen[i])
        machines = list(problem.ready_times.machines_of(j))
        start_s[i] = free_s[machines].max()
        free_s[machines] = start_s[i] + time_s[i]
    return Assignments(jobs, chosen, start_s, start_s + time_s).take(np.lexsort((jobs, start_s)))
