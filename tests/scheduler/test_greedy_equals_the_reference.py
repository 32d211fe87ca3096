"""The greedy algorithms against plain reference versions, which recompute every completion at every step."""

from __future__ import annotations

import hypothesis.extra.numpy as hnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from scheduler.mapping.greedy import MaxMin, MinMin, Sjs
from scheduler.mapping.pjs import Pjs
from scheduler.mapping.problem import MappingProblem
from scheduler.mapping.sufferage import Sufferage

Steps = list[tuple[int, int, float]]
Matrix = NDArray[np.float64]

CELLS = st.one_of(st.integers(1, 6).map(float), st.floats(0.5, 100.0, width=32), st.just(np.inf))


@st.composite
def matrices(draw: st.DrawFn, most_jobs: int = 12) -> tuple[Matrix, Matrix]:
    n, m = draw(st.integers(1, most_jobs)), draw(st.integers(1, 6))
    etc_s = draw(hnp.arrays(np.float64, (n, m), elements=CELLS))
    ready_s = draw(hnp.arrays(np.float64, m, elements=st.sampled_from([0.0, 0.0, 3.0, 7.5, np.inf])))
    return etc_s, ready_s


def steps_of(scheduler: MinMin | MaxMin | Sufferage, etc_s: Matrix, ready_s: Matrix) -> Steps:
    made = scheduler.schedule(MappingProblem.from_matrix(etc_s, ready_s))
    return [(a.job, a.resource, a.completion_s) for a in made.assignments]


def reference(etc_s: Matrix, ready_s: Matrix, key_of: object) -> Steps:
    """The job with the smallest key goes to its best machine; keys are recomputed at every step."""
    ready, left, steps = ready_s.copy(), list(range(len(etc_s))), []
    while True:
        bests = {i: int((ready + etc_s[i]).argmin()) for i in left}
        able = [i for i in left if np.isfinite(ready[bests[i]] + etc_s[i, bests[i]])]
        if not able:
            return steps
        i = min(able, key=lambda i: (key_of(np.sort(ready + etc_s[i])), i))  # type: ignore[operator]
        ready[bests[i]] += etc_s[i, bests[i]]
        steps.append((i, bests[i], float(ready[bests[i]])))
        left.remove(i)


@given(matrices())
def test_min_min(case: tuple[Matrix, Matrix]) -> None:
    assert steps_of(MinMin(), *case) == reference(*case, key_of=lambda completions: completions[0])


@given(matrices())
def test_max_min(case: tuple[Matrix, Matrix]) -> None:
    assert steps_of(MaxMin(), *case) == reference(*case, key_of=lambda completions: -completions[0])


@given(matrices())
def test_sufferage(case: tuple[Matrix, Matrix]) -> None:
    def negated_sufferage(completions: Matrix) -> float:
        second = completions[1] if len(completions) > 1 else np.inf
        return float(completions[0] - second)

    assert steps_of(Sufferage(), *case) == reference(*case, key_of=negated_sufferage)


@st.composite
def problems_with_clusters(draw: st.DrawFn) -> MappingProblem:
    n, m, clusters = draw(st.integers(1, 8)), draw(st.integers(2, 6)), draw(st.integers(1, 3))
    etc_s = draw(hnp.arrays(np.float64, (n, m + clusters), elements=CELLS))
    etc_s[:, 0] = np.where(np.isinf(etc_s[:, 0]), 9.0, etc_s[:, 0])
    members = [draw(st.sets(st.integers(0, m - 1), min_size=1)) for _ in range(clusters)]
    ready_s = draw(hnp.arrays(np.float64, m, elements=st.sampled_from([0.0, 0.0, 5.0])))
    return MappingProblem.from_matrix(etc_s, ready_s, [sorted(group) for group in members])


@given(problems_with_clusters())
def test_pjs_never_has_a_larger_sum_of_job_times_than_sjs(problem: MappingProblem) -> None:
    pjs, sjs = Pjs().schedule(problem), Sjs().schedule(problem)
    assert pjs.sum_completion_s <= sjs.sum_completion_s


@given(problems_with_clusters())
def test_pjs_follows_the_five_steps_of_the_paper(problem: MappingProblem) -> None:
    made = Pjs().schedule(problem)
    assert {(a.job, a.resource, a.completion_s) for a in made.assignments} == _paper_pjs(problem)


def _paper_pjs(problem: MappingProblem) -> set[tuple[int, int, float]]:
    """Steps 1 to 5 of section 3, one after the other, without a thought for speed."""
    etc_s, parallel_s = problem.machine_etc_s, problem.cluster_etc_s
    m, members = problem.ready_times.n_machines, problem.ready_times.members
    ready_s, jobs = problem.ready_times.machine_s.copy(), list(range(problem.n_jobs))
    committed: set[tuple[int, int, float]] = set()
    best = _sjs(etc_s, ready_s, jobs)
    while True:
        offers = []
        for i in jobs:
            for c, group in enumerate(members):
                gain_s = (ready_s + etc_s[i]).min() - (max(ready_s[j] for j in group) + parallel_s[i, c])
                if gain_s > 0:
                    offers.append((-gain_s, i, c))
        if not offers:
            return best
        _, i, c = min(offers)
        end_s = max(ready_s[j] for j in members[c]) + parallel_s[i, c]
        for j in members[c]:
            ready_s[j] = end_s
        committed.add((i, m + c, end_s))
        jobs.remove(i)
        trial = committed | _sjs(etc_s, ready_s, jobs)
        if sum(end for *_, end in trial) >= sum(end for *_, end in best):
            return best
        best = trial


def _sjs(etc_s: Matrix, ready_s: Matrix, jobs: list[int]) -> set[tuple[int, int, float]]:
    both = [
        [(jobs[i], j, end_s) for i, j, end_s in reference(etc_s[jobs], ready_s, key)] if jobs else []
        for key in (lambda completions: completions[0], lambda completions: -completions[0])
    ]
    return set(min(both, key=lambda steps: np.array([end for *_, end in steps]).sum()))
