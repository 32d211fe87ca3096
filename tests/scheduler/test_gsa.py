"""Genetic simulated annealing: it starts from the schedule of PJS, and comes near the optimum."""

from __future__ import annotations

import numpy as np
import pytest

from scheduler.mapping.greedy import Sjs
from scheduler.mapping.gsa import Gsa
from scheduler.mapping.optimal import Optimal
from scheduler.mapping.pjs import Pjs, PjsTryNext
from scheduler.mapping.problem import MappingProblem


def random_problem(n: int, clusters: int, seed: int) -> MappingProblem:
    rng = np.random.default_rng(seed)
    etc_s = np.hstack([rng.uniform(1.0, 100.0, (n, 12)), rng.uniform(1.0, 33.0, (n, clusters))])
    members = [list(range(4 * c, 4 * c + 4)) for c in range(clusters)]
    return MappingProblem.from_matrix(etc_s, None, members)


@pytest.mark.parametrize("seed", range(5))
def test_gsa_is_never_worse_than_its_initial_schedules(seed: int) -> None:
    problem = random_problem(25, 3, seed)
    initial = [made.schedule(problem).sum_completion_s for made in (Sjs(), Pjs(), PjsTryNext())]
    assert Gsa(work=100_000).schedule(problem).sum_completion_s <= min(initial)


@pytest.mark.parametrize("seed", range(5))
def test_without_clusters_gsa_halves_the_gap_between_sjs_and_the_optimum(seed: int) -> None:
    problem = random_problem(30, 0, seed)
    found, initial, least = (made.schedule(problem).sum_completion_s for made in (Gsa(), Sjs(), Optimal()))
    assert found - least <= 0.5 * (initial - least) + 1e-6
    assert found >= least - 1e-6


def test_gsa_is_repeatable_by_seed_and_more_work_is_no_worse() -> None:
    problem = random_problem(40, 3, 1)
    once, again = (Gsa(work=200_000, seed=7).schedule(problem) for _ in range(2))
    assert list(once.assignments) == list(again.assignments)
    assert Gsa().schedule(problem).sum_completion_s <= once.sum_completion_s
