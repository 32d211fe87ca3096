"""The optimal mapping, against the assignment problem in full and against every other scheduler."""

from __future__ import annotations

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
def test_the_sum_equals_that_of_the_assignment_problem(case: tuple[np.ndarray, np.ndarray]) -> None:
    etc_s, ready_s = case
    made = Optimal().schedule(MappingProblem.from_matrix(etc_s, ready_s))
    least_s = least_sum_of_completions(etc_s, ready_s).completion_s.sum()
    assert made.sum_completion_s == pytest.approx(least_s, abs=1e-6)
    assert len(made.assignments) == len(etc_s)


def test_no_single_machine_scheduler_has_a_smaller_sum() -> None:
    rng = np.random.default_rng(1)
    etc = EtcMatrix(rng.uniform(1.0, 100.0, (5, 4)), rng.integers(0, 5, 200), rng.integers(0, 4, 30))
    problem = MappingProblem.from_etc(etc)
    least_s = Optimal().schedule(problem).sum_completion_s
    for name in registry.ON_MACHINES:
        assert registry.resolve(name).make().schedule(problem).sum_completion_s >= least_s - 1e-6, name


def test_the_optimal_mapping_equals_a_hand_computed_example() -> None:
    # Both short jobs before the long one on the fast machine would be 1 + 2 + 6; this is 1 + 2 + 5.
    problem = MappingProblem.from_matrix([[1.0, 3.0], [1.0, 3.0], [4.0, 5.0]])
    made = Optimal().schedule(problem)
    assert sorted((a.job, a.resource, a.completion_s) for a in made.assignments) == [
        (0, 0, 1.0),
        (1, 0, 2.0),
        (2, 1, 5.0),
    ]


def test_the_optimal_step_makes_pjs_no_worse_under_light_load() -> None:
    rng = np.random.default_rng(2)
    etc_s = rng.uniform(50.0, 100.0, (6, 8))
    parallel_s = rng.uniform(10.0, 30.0, (6, 2))
    members = [[0, 1, 2, 3], [4, 5, 6, 7]]
    problem = MappingProblem.from_matrix(np.hstack([etc_s, parallel_s]), None, members)
    assert PjsOptimal().schedule(problem).sum_completion_s <= Pjs().schedule(problem).sum_completion_s


def test_a_job_without_a_machine_is_left_waiting() -> None:
    problem = MappingProblem.from_matrix([[1.0, 2.0], [np.inf, np.inf]])
    made = Optimal().schedule(problem)
    assert list(made.wait_reasons) == [1]
    assert len(made.assignments) == 1
