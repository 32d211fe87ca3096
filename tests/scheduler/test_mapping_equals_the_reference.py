"""Min-min, Max-min, Sufferage, SJS and PJS give the schedules of plain versions, decision by decision."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from scheduler.mapping.core import groups
from scheduler.mapping.greedy import MaxMin, MinMin, Sjs, Sufferage
from scheduler.mapping.pjs import Pjs, PjsTryNext
from scheduler.mapping.placer import mapped
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Assignment, Assignments, Schedule
from scheduler.ports import AnyScheduler
from sil.studies.collins_george.cs1 import ReferencePjs, ReferenceSjs, greedy
from tests.examples import up_to

Matrix = NDArray[np.float64]


class ReferenceGreedy:
    """Min-min if `sign` is 1, Max-min if it is -1."""

    def __init__(self, sign: float) -> None:
        self._sign = sign

    def schedule(self, problem: MappingProblem) -> Schedule:
        ready_s, jobs = problem.ready_times.machine_s, np.arange(problem.n_jobs)
        rows = greedy(problem.machine_etc_s, ready_s, jobs, self._sign)
        return mapped(problem, Assignments.of(rows))


class ReferenceSufferage:
    """Every step computes the sufferage of every job."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        etc_s, ready_s = problem.machine_etc_s, problem.ready_times.machine_s.copy()
        left, rows = np.arange(len(etc_s)), list[Assignment]()
        while True:
            ends_s = np.column_stack([ready_s + etc_s[left], np.full(len(left), np.inf)])
            left, ends_s = left[able := np.isfinite(ends_s).any(axis=1)], ends_s[able]
            if not len(left):
                return mapped(problem, Assignments.of(rows))
            k = int(np.diff(np.sort(ends_s)[:, :2]).argmax())
            i, j = int(left[k]), int(ends_s[k].argmin())
            rows.append(Assignment(i, j, float(ready_s[j]), float(ends_s[k, j])))
            ready_s[j] = ends_s[k, j]
            left = np.delete(left, k)


PAIRS: list[tuple[AnyScheduler, AnyScheduler]] = [
    (MinMin(), ReferenceGreedy(1.0)),
    (MaxMin(), ReferenceGreedy(-1.0)),
    (Sufferage(), ReferenceSufferage()),
    (Sjs(), ReferenceSjs()),
    (Pjs(), ReferencePjs()),
]

KINDS = ("any", "whole", "tenths", "by class", "absorbed", "consistent")


def random_times(kind: str, n: int, m: int, rng: np.random.Generator) -> Matrix:
    """ETC matrices (n, m) that are hard in different ways."""
    tenths = [0.1, 0.2, 0.3, 0.7, 1.1, 3.3]
    if kind == "whole":  # ties everywhere, and jobs that take no time
        return rng.integers(0, 6, (n, m)).astype(float)
    if kind == "tenths":  # sums that differ by rounding, and are equal once something is added
        return rng.choice(tenths, (n, m))
    if kind == "by class":
        return rng.choice(tenths, (4, 3))[rng.integers(0, 4, n)][:, rng.integers(0, 3, m)]
    if kind == "absorbed":  # times that vanish beside others
        return rng.choice([0.0, 1.0, 2.0, 1e-17, 1e17], (n, m))
    etc_s = rng.uniform(1.0, 3000.0, (n, 1)) * rng.uniform(1.0, 1000.0, (n, m))
    return np.sort(etc_s, axis=1) if kind == "consistent" else etc_s


@st.composite
def problems(draw: st.DrawFn, most_jobs: int = 30, most_machines: int = 10) -> MappingProblem:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m = draw(st.integers(1, most_jobs)), draw(st.integers(1, most_machines))
    kind = draw(st.sampled_from(KINDS))
    etc_s = random_times(kind, n, m, rng)
    if draw(st.booleans()):
        etc_s[rng.random(etc_s.shape) < 0.2] = np.inf
    clusters = draw(st.integers(0, 3))
    parallel_s = rng.choice(etc_s.ravel(), (n, clusters)) * rng.choice([0.3, 0.5, 1.0])
    if kind == "by class":
        parallel_s = parallel_s[rng.integers(0, n, n)]
    members = [rng.choice(m, rng.integers(0, min(m, 4) + 1), replace=False) for _ in range(clusters)]
    ready_s = rng.choice([0.0, 0.0, 0.3, 0.1 + 0.2, 7.5, 1e-17, np.inf], m)
    return MappingProblem.from_matrix(
        np.hstack([etc_s, parallel_s]), ready_s, [np.sort(machines).tolist() for machines in members]
    )


def columns(schedule: Schedule) -> list[list[float]]:
    made = schedule.assignments
    return [column.tolist() for column in (made.jobs, made.resources, made.start_s, made.completion_s)]


@pytest.mark.parametrize(("fast", "reference"), PAIRS, ids=lambda scheduler: type(scheduler).__name__)
@given(problem=problems())
@settings(max_examples=up_to(300))
def test_small_problems_equal_the_reference(
    fast: AnyScheduler, reference: AnyScheduler, problem: MappingProblem
) -> None:
    assert columns(fast.schedule(problem)) == columns(reference.schedule(problem))


@pytest.mark.parametrize(("fast", "reference"), PAIRS, ids=lambda scheduler: type(scheduler).__name__)
@given(problem=problems())
@settings(max_examples=up_to(100))
def test_small_problems_with_blocks_of_job_classes_equal_the_reference(
    fast: AnyScheduler, reference: AnyScheduler, problem: MappingProblem
) -> None:
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(groups, "FEW", 2)
        changed.setattr(groups, "MEMBERS", 3)
        assert columns(fast.schedule(problem)) == columns(reference.schedule(problem))


@pytest.mark.parametrize(("fast", "reference"), PAIRS[:4], ids=lambda scheduler: type(scheduler).__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_large_problems_equal_the_reference(kind: str, fast: AnyScheduler, reference: AnyScheduler) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    problem = MappingProblem.from_matrix(random_times(kind, 400, 30, rng), rng.choice([0.0, 5.0], 30))
    assert columns(fast.schedule(problem)) == columns(reference.schedule(problem))


def test_sjs_may_choose_max_min_with_a_job_that_only_a_down_machine_can_run() -> None:
    etc_s = [[3.3, np.inf, 0.7], [1.1, 0.7, 0.2], [1.1, 0.1, 0.1], [np.inf, np.inf, 3.3]]
    problem = MappingProblem.from_matrix(np.array(etc_s), np.array([0.0, 0.3, np.inf]))
    assert columns(Sjs().schedule(problem)) == columns(ReferenceGreedy(-1.0).schedule(problem))


@given(problem=problems())
def test_trying_the_next_pair_is_never_worse_than_stopping(problem: MappingProblem) -> None:
    on, stopped = PjsTryNext().schedule(problem), Pjs().schedule(problem)
    assert len(on.assignments) >= len(stopped.assignments)
    if len(on.assignments) == len(stopped.assignments):
        assert on.sum_completion_s <= stopped.sum_completion_s
