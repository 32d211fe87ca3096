from __future__ import annotations

from itertools import pairwise, permutations, product

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler import registry
from scheduler.mapping.problem import MappingProblem
from tests.scheduler.bounds import least_sum_of_completions

INF = np.inf
ETC_S = hnp.arrays(np.float64, (4, 3), elements=st.floats(1.0, 50.0, width=32))
READY_S = hnp.arrays(np.float64, 3, elements=st.sampled_from([0.0, 2.0, 11.0]))


def by_enumeration(etc_s: np.ndarray, ready_s: np.ndarray) -> float:
    """Least sum over every order of the jobs and every choice of machines."""
    n, m = etc_s.shape
    best = INF
    for order, machines in product(permutations(range(n)), product(range(m), repeat=n)):
        free_s, total_s = ready_s.copy(), 0.0
        for i in order:
            free_s[machines[i]] += etc_s[i, machines[i]]
            total_s += free_s[machines[i]]
        best = min(best, total_s)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_equals_complete_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    etc_s, ready_s = rng.uniform(1, 20, (4, 2)), rng.uniform(0, 10, 2)
    optimum = least_sum_of_completions(etc_s, ready_s)
    assert optimum.completion_s.sum() == pytest.approx(by_enumeration(etc_s, ready_s), rel=1e-12)


@given(ETC_S, READY_S)
def test_no_heuristic_beats_the_optimum(etc_s: np.ndarray, ready_s: np.ndarray) -> None:
    optimum_s = least_sum_of_completions(etc_s, ready_s).completion_s.sum()
    for name in registry.ON_MACHINES:
        if name in registry.OPTIMISING:  # those have tests of their own
            continue
        made = registry.resolve(name).make().schedule(MappingProblem.from_matrix(etc_s, ready_s))
        assert made.sum_completion_s >= optimum_s * (1 - 1e-12), name


@given(ETC_S, READY_S)
def test_the_optimum_satisfies_the_rules(etc_s: np.ndarray, ready_s: np.ndarray) -> None:
    optimum = least_sum_of_completions(etc_s, ready_s)
    for j in range(3):
        rows = sorted((a.start_s, a.completion_s) for a in optimum if a.resource == j)
        assert all(start_s >= ready_s[j] for start_s, _ in rows)
        assert all(end_s <= start_s for (_, end_s), (start_s, _) in pairwise(rows))


def test_the_optimum_avoids_incompatible_and_down_machines() -> None:
    optimum = least_sum_of_completions(
        np.array([[INF, 5.0, 1.0], [1.0, 9.0, 1.0]]), np.array([0.0, 0.0, INF])
    )
    assert {a.job: a.resource for a in optimum} == {0: 1, 1: 0}


def test_a_job_without_a_machine_has_no_optimum() -> None:
    with pytest.raises(ValueError, match="can run on no available machine"):
        least_sum_of_completions(np.array([[INF, INF]]), np.zeros(2))
