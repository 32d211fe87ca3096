"""The optimal mapping, against complete enumeration, the assignment problem and every other scheduler."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import registry
from scheduler.mapping.etc import EtcMatrix
from scheduler.mapping.optimal import Optimal, PjsOptimal
from scheduler.mapping.pjs import Pjs
from scheduler.mapping.problem import MappingProblem
from tests.scheduler.bounds import least_sum_of_completions


@st.composite
def matrices(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m = draw(st.integers(1, 10)), draw(st.integers(1, 4))
    whole = rng.choice([0.0, 1.0, 2.0, 3.0, 5.0, np.inf], (n, m))
    etc_s = whole if draw(st.booleans()) else rng.uniform(1.0, 50.0, (n, m))
    etc_s[:, 0] = np.where(np.isinf(etc_s[:, 0]), 9.0, etc_s[:, 0])
    return etc_s, rng.choice([0.0, 0.0, 3.0, 5.5], m)


@given(matrices())
def test_the_sum_equals_that_of_the_assignment_problem_and_no_scheduler_beats_it(
    case: tuple[np.ndarray, np.ndarray],
) -> None:
    problem, least_s = MappingProblem.from_matrix(*case), least_sum_of_completions(*case)
    made = Optimal().schedule(problem)
    assert made.sum_completion_s == pytest.approx(least_s, abs=1e-6)
    assert len(made.assignments) == len(case[0])
    for name in registry.ON_MACHINES.keys() - registry.OPTIMISING - registry.IN_BATCHES:
        assert registry.resolve(name).make().schedule(problem).sum_completion_s >= least_s - 1e-6, name


def by_enumeration(etc_s: np.ndarray, ready_s: np.ndarray) -> float:
    """Least sum over every order of the jobs and every choice of machines."""
    n, m = etc_s.shape
    best = np.inf
    for order, machines in product(permutations(range(n)), product(range(m), repeat=n)):
        free_s, total_s = ready_s.copy(), 0.0
        for i in order:
            free_s[machines[i]] += etc_s[i, machines[i]]
            total_s += free_s[machines[i]]
        best = min(best, total_s)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_sum_equals_that_of_complete_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    etc_s, ready_s = rng.uniform(1, 20, (4, 2)), rng.uniform(0, 10, 2)
    assert least_sum_of_completions(etc_s, ready_s) == pytest.approx(by_enumeration(etc_s, ready_s))


def test_no_scheduler_has_a_smaller_sum_of_many_jobs_of_few_classes() -> None:
    rng = np.random.default_rng(1)
    etc = EtcMatrix(rng.uniform(1.0, 100.0, (5, 4)), rng.integers(0, 5, 200), rng.integers(0, 4, 30))
    problem = MappingProblem.from_etc(etc)
    least_s = Optimal().schedule(problem).sum_completion_s
    for name in registry.ON_MACHINES.keys() - registry.IN_BATCHES:
        assert registry.resolve(name).make().schedule(problem).sum_completion_s >= least_s - 1e-6, name


def test_the_optimal_step_makes_pjs_no_worse_under_light_load() -> None:
    rng = np.random.default_rng(2)
    etc_s, parallel_s = rng.uniform(50.0, 100.0, (6, 8)), rng.uniform(10.0, 30.0, (6, 2))
    members = [[0, 1, 2, 3], [4, 5, 6, 7]]
    problem = MappingProblem.from_matrix(np.hstack([etc_s, parallel_s]), None, members)
    assert PjsOptimal().schedule(problem).sum_completion_s <= Pjs().schedule(problem).sum_completion_s
