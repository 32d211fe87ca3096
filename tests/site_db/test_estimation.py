"""Which statistics speak for a job class in a place: the table of fallbacks, rule by rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from scheduler.model import Job, JobId
from site_db.estimation import (
    ENOUGH_RUNS_OF_ONE_MACHINE,
    Estimator,
    ExecutionEstimate,
    PlaceKind,
    Rule,
    RunPlace,
    SiteLayout,
)
from site_db.history.statistics import RunStatistics
from site_db.site_file.machine_names import Slots

FAST, SLOW = (RunPlace(PlaceKind.MACHINE_CLASS, k) for k in (0, 1))
PAIR, TRIO = (RunPlace(PlaceKind.CLUSTER, c) for c in (0, 1))
F0, F1, S2, S3, S4, ON_PAIR, ON_TRIO = range(7)
EVERYONE = (2, 3)
WORK = 0


def estimator(
    staff_s: Mapping[RunPlace, float | None],
    runs: Mapping[RunPlace, list[float]],
    ratings: tuple[float | None, ...] = (None,) * 5,
) -> Estimator:
    """Two fast machines and three slow ones; the fast ones are a cluster, the slow ones another."""
    layout = SiteLayout(
        ("work",), ("f0", "f1", "s2", "s3", "s4"), ("fast", "slow"), (0, 0, 1, 1, 1), ratings,
        ("pair", "trio"), ((0, 1), (2, 3, 4)), (staff_s,), Slots((1,) * 5, (1, 1)),
    )  # fmt: skip
    return Estimator(layout, {(WORK, place): RunStatistics.of(times_s) for place, times_s in runs.items()})


def machine(j: int) -> RunPlace:
    return RunPlace(PlaceKind.MACHINE, j)


def with_members(cluster: RunPlace, members: int) -> RunPlace:
    return RunPlace(PlaceKind.CLUSTER, cluster.which, members)


def summary(estimate: ExecutionEstimate | None) -> tuple[float, Rule, int] | None:
    return estimate and (pytest.approx(estimate.expected_s), estimate.rule, estimate.runs)  # type: ignore[return-value]


SEQUENTIAL = {FAST: 10.0, SLOW: 30.0}
UNKNOWN = {FAST: None, SLOW: None, PAIR: None, TRIO: None}
RATED = {SLOW: [40.0, 20.0, 20.0, 99.0], machine(S2): [40.0], machine(S3): [20.0, 20.0], machine(S4): [99.0]}
OWN = {FAST: [20.0] * 30 + [10.0] * 30, machine(F0): [20.0] * 30, machine(F1): [10.0] * 29}
SMALLER = {with_members(TRIO, 3): [6.0] * 3, with_members(TRIO, 2): [8.0] * 4}
# By sentence: staff times, runs, where (and with how many members), and what is expected by which rule of how
# many runs.
CASES: dict[str, tuple[Any, ...]] = {
    "without runs, the staff time": ({FAST: 10.0}, {}, F0, (10.0, Rule.STAFF, 0)),
    "nothing where the staff has no entry": ({FAST: 10.0}, {machine(S2): [1.0] * 40}, S2, None),
    "nor on a cluster": ({FAST: 10.0}, {SLOW: [1.0] * 9}, ON_TRIO, None),
    "two runs of the class are not enough": ({FAST: 10.0}, {FAST: [20.0] * 2}, F1, (10.0, Rule.STAFF, 0)),
    "three are": ({FAST: 10.0}, {FAST: [20.0] * 3}, F1, (20.0, Rule.MACHINE_CLASS, 3)),
    "thirty of a machine are its own": ({FAST: 10.0}, OWN, F0, (20.0, Rule.MACHINE, 30)),
    "29 are not": ({FAST: 10.0}, OWN, F1, (15.0, Rule.MACHINE_CLASS, 60)),
    "without a local time, runs elsewhere": (UNKNOWN, {SLOW: [30.0, 50.0]}, F0, (40.0, Rule.ELSEWHERE, 2)),
    "also on a cluster": (UNKNOWN, {SLOW: [30.0, 50.0]}, ON_PAIR, (40.0, Rule.ELSEWHERE, 2)),
    "one local run outweighs many": (
        UNKNOWN, {FAST: [20.0], SLOW: [30.0] * 9}, F0, (20.0, Rule.MACHINE_CLASS, 1)
    ),
    "also with fewer members": (UNKNOWN, {with_members(TRIO, 2): [6.0]}, ON_TRIO, (4.0, Rule.MEMBERS, 1)),
    "without any run, the mean elsewhere": (
        {FAST: None, SLOW: 30.0, PAIR: 10.0}, {}, F0, (20.0, Rule.ELSEWHERE, 0)
    ),
    "runs with as many members": ({TRIO: 9.0}, SMALLER, ON_TRIO, (6.0, Rule.CLUSTER, 3)),
    "runs with two members": ({TRIO: 9.0}, SMALLER, (ON_TRIO, 2), (8.0, Rule.CLUSTER, 4)),
    "fewer members take longer": (
        {TRIO: 9.0}, {with_members(TRIO, 3): [6.0] * 3}, (ON_TRIO, 2), (9.0, Rule.MEMBERS, 3)
    ),
    "also by the staff time": ({PAIR: 5.0}, {}, (ON_PAIR, 1), (10.0, Rule.STAFF, 0)),
    "a member is lost": ({TRIO: 9.0}, {with_members(TRIO, 4): [6.0] * 3}, ON_TRIO, (8.0, Rule.MEMBERS, 3)),
    "a closed cluster has all members": ({TRIO: 9.0}, {}, (ON_TRIO, 0), (9.0, Rule.STAFF, 0)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_estimate_follows_the_first_rule_that_applies(case: str) -> None:
    staff_s, runs, where, expected = CASES[case]
    j, members = where if isinstance(where, tuple) else (where, None)
    assert summary(estimator(staff_s, runs).estimate(WORK, j, members=members)) == expected


def test_runs_on_rated_machines_are_scaled_to_another_rating_if_it_has_one() -> None:
    """40 s at rating 2 and 20 s at rating 4 are both 80 s at rating 1, so 16 s at rating 5."""
    known = estimator(SEQUENTIAL, RATED, (5.0, 5.0, 2.0, 4.0, None))
    assert summary(known.estimate(WORK, F0)) == (16.0, Rule.RATING, 3)
    known = estimator(SEQUENTIAL, RATED, (None, None, 1, 1, 1))
    assert summary(known.estimate(WORK, F0)) == (10.0, Rule.STAFF, 0)


def test_runs_of_a_cluster_are_scaled_to_another_by_the_sum_of_member_ratings() -> None:
    """12 s on the pair, rated 4 + 4, are 96 s at 1, so 16 s on the trio, rated 2 + 2 + 2."""
    known = estimator({PAIR: 1.0, TRIO: 1.0}, {with_members(PAIR, 2): [12.0] * 3}, (4.0, 4.0, 2.0, 2.0, 2.0))
    assert summary(known.estimate(WORK, ON_TRIO)) == (16.0, Rule.RATING, 3)
    assert summary(known.estimate(WORK, ON_TRIO, members=2)) == (24.0, Rule.RATING, 3)


def test_the_deviation_is_that_of_the_runs_in_the_estimate() -> None:
    estimate = estimator({FAST: 10.0}, {FAST: [10.0, 20.0, 30.0]}).estimate(WORK, F0)
    assert estimate is not None
    assert estimate.deviation_s == pytest.approx(10.0)


def test_a_job_with_a_size_is_estimated_by_the_line() -> None:
    layout = SiteLayout(
        ("work",), ("f0",), ("fast",), (0,), (None,), (), (), ({FAST: 10.0},), Slots((1,))
    )  # fmt: skip
    known = Estimator(layout, {(WORK, FAST): RunStatistics.of([10.0, 20.0, 30.0], [1.0, 2.0, 3.0])})
    estimate = known.estimate(WORK, 0, size=4.0)
    assert estimate is not None
    assert (estimate.expected_s, estimate.by_size) == (pytest.approx(40.0), True)
    jobs = [Job(JobId(0), "work", 0.0, size=4.0), Job(JobId(1), "work", 0.0)]
    assert known.matrix(jobs, []).dense() == pytest.approx(np.array([[40.0], [20.0]]))


# -- the matrix --------------------------------------------------------------------------------------------


def jobs(n: int = 1) -> list[Job]:
    return [Job(JobId(i), "work", 0.0) for i in range(n)]


def test_the_matrix_equals_the_individual_estimates() -> None:
    runs = {FAST: [20.0] * 40, machine(F0): [20.0] * 40, with_members(TRIO, 3): [6.0] * 3}
    known = estimator({FAST: 10.0, SLOW: 30.0, PAIR: 5.0, TRIO: 9.0}, runs)
    for members in (EVERYONE, (1, 2), (2, 0)):
        etc = known.matrix(jobs(), members)
        for j in range(7):
            estimate = known.estimate(WORK, j, members=members[j - 5] if j >= 5 else None)
            assert etc[0, j] == (estimate.expected_s if estimate else np.inf), (members, j)


def test_machines_with_the_same_estimates_share_a_column() -> None:
    known = estimator({FAST: 10.0, SLOW: 30.0, PAIR: 5.0}, {})
    etc = known.matrix(jobs(1000), EVERYONE)
    assert etc.by_class_s.shape == (1, 4)
    assert etc.resource_class_names == ("fast", "slow", "pair", "trio")


def test_a_machine_with_its_own_estimate_gets_its_own_column() -> None:
    known = estimator({FAST: 10.0, SLOW: 30.0}, {})
    known.learn(WORK, F1, 1, RunStatistics.of([20.0] * ENOUGH_RUNS_OF_ONE_MACHINE))
    known.learn(WORK, F0, 1, RunStatistics.of([10.0] * ENOUGH_RUNS_OF_ONE_MACHINE))
    etc = known.matrix(jobs(), EVERYONE)
    assert (etc[0, F0], etc[0, F1], etc[0, S2]) == (10.0, 20.0, 30.0)
    assert set(etc.resource_class_names) == {"f0", "f1", "slow", "pair", "trio"}


def test_learning_changes_the_next_matrix_and_not_the_previous_one() -> None:
    known = estimator({FAST: 10.0, SLOW: 30.0}, {})
    before = known.matrix(jobs(), EVERYONE)
    known.learn(WORK, F0, 1, RunStatistics.of([50.0] * 3))
    assert (before[0, F0], known.matrix(jobs(), EVERYONE)[0, F1]) == (10.0, 50.0)


def test_a_matrix_of_no_jobs_has_no_rows() -> None:
    etc = estimator({FAST: 10.0}, {}).matrix([], EVERYONE)
    assert (etc.n_jobs, etc.n_resources) == (0, 7)


def test_an_unknown_job_class_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="the site has no job class 'sort'; it has work"):
        estimator({FAST: 10.0}, {}).matrix([Job(JobId(0), "sort", 0.0)], EVERYONE)
