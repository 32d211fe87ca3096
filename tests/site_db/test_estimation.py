"""Which statistics speak for a job class in a place: the table of fallbacks, rule by rule."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from scheduler.model import Job, JobId
from site_db.estimation import (
    ENOUGH_RUNS_OF_ONE_MACHINE,
    Estimator,
    ExecutionEstimate,
    Layout,
    Place,
    PlaceKind,
    Rule,
)
from site_db.history.statistics import RunStatistics
from site_db.site_file.machine_names import Slots

FAST, SLOW = (Place(PlaceKind.MACHINE_CLASS, k) for k in (0, 1))
PAIR, TRIO = (Place(PlaceKind.CLUSTER, c) for c in (0, 1))
F0, F1, S2, S3, S4, ON_PAIR, ON_TRIO = range(7)
EVERYONE = (2, 3)
WORK = 0


def estimator(
    staff_s: Mapping[Place, float | None],
    runs: Mapping[Place, list[float]],
    ratings: tuple[float | None, ...] = (None,) * 5,
) -> Estimator:
    """Two fast machines and three slow ones; the fast ones are a cluster, the slow ones another."""
    layout = Layout(
        ("work",), ("f0", "f1", "s2", "s3", "s4"), ("fast", "slow"), (0, 0, 1, 1, 1), ratings,
        ("pair", "trio"), ((0, 1), (2, 3, 4)), (staff_s,), Slots((1,) * 5, (1, 1)),
    )  # fmt: skip
    return Estimator(layout, {(WORK, place): RunStatistics.of(times_s) for place, times_s in runs.items()})


def machine(j: int) -> Place:
    return Place(PlaceKind.MACHINE, j)


def with_members(cluster: Place, members: int) -> Place:
    return Place(PlaceKind.CLUSTER, cluster.which, members)


def summary(estimate: ExecutionEstimate | None) -> tuple[float, Rule, int] | None:
    return estimate and (pytest.approx(estimate.expected_s), estimate.rule, estimate.runs)  # type: ignore[return-value]


def test_without_runs_the_staff_time_is_used() -> None:
    assert summary(estimator({FAST: 10.0}, {}).estimate(WORK, F0)) == (10.0, Rule.STAFF, 0)


def test_a_class_without_a_staff_entry_cannot_run_despite_history() -> None:
    known = estimator({FAST: 10.0}, {SLOW: [1.0] * 9, machine(S2): [1.0] * 40})
    assert known.estimate(WORK, S2) is None
    assert known.estimate(WORK, ON_TRIO) is None


def test_three_runs_on_machines_of_the_class_override_the_staff_time_and_two_do_not() -> None:
    two, three = ({FAST: [20.0] * n, machine(F0): [20.0] * n} for n in (2, 3))
    assert summary(estimator({FAST: 10.0}, two).estimate(WORK, F1)) == (10.0, Rule.STAFF, 0)
    assert summary(estimator({FAST: 10.0}, three).estimate(WORK, F1)) == (20.0, Rule.MACHINE_CLASS, 3)


def test_thirty_runs_on_a_machine_give_it_its_own_estimate() -> None:
    runs = {FAST: [20.0] * 30 + [10.0] * 30, machine(F0): [20.0] * 30, machine(F1): [10.0] * 29}
    known = estimator({FAST: 10.0}, runs)
    assert summary(known.estimate(WORK, F0)) == (20.0, Rule.MACHINE, 30)
    assert summary(known.estimate(WORK, F1)) == (15.0, Rule.MACHINE_CLASS, 60)


def test_runs_on_rated_machines_are_scaled_to_another_rating() -> None:
    """40 s at rating 2 and 20 s at rating 4 are both 80 s at rating 1, so 16 s at rating 5."""
    ratings = (5.0, 5.0, 2.0, 4.0, None)
    runs = {
        SLOW: [40.0, 20.0, 20.0, 99.0],
        machine(S2): [40.0],
        machine(S3): [20.0, 20.0],
        machine(S4): [99.0],
    }
    known = estimator({FAST: 10.0, SLOW: 30.0}, runs, ratings)
    assert summary(known.estimate(WORK, F0)) == (16.0, Rule.RATING, 3)


def test_runs_are_not_scaled_to_a_machine_without_a_rating() -> None:
    known = estimator(
        {FAST: 10.0, SLOW: 30.0}, {SLOW: [30.0] * 3, machine(S2): [30.0] * 3}, (None, None, 1, 1, 1)
    )
    assert summary(known.estimate(WORK, F0)) == (10.0, Rule.STAFF, 0)


def test_without_a_local_time_runs_elsewhere_are_used_unscaled() -> None:
    known = estimator({FAST: None, SLOW: None, PAIR: None}, {SLOW: [30.0, 50.0]})
    assert summary(known.estimate(WORK, F0)) == (40.0, Rule.ELSEWHERE, 2)
    assert summary(known.estimate(WORK, ON_PAIR)) == (40.0, Rule.ELSEWHERE, 2)


def test_without_a_staff_time_one_local_run_outweighs_many_elsewhere() -> None:
    runs = {FAST: [20.0], SLOW: [30.0] * 9, with_members(TRIO, 2): [6.0]}
    known = estimator({FAST: None, SLOW: None, PAIR: None, TRIO: None}, runs)
    assert summary(known.estimate(WORK, F0)) == (20.0, Rule.MACHINE_CLASS, 1)
    assert summary(known.estimate(WORK, ON_TRIO)) == (4.0, Rule.MEMBERS, 1)


def test_without_any_run_the_mean_staff_time_elsewhere_is_used() -> None:
    assert summary(estimator({FAST: None, SLOW: 30.0, PAIR: 10.0}, {}).estimate(WORK, F0)) == (
        20.0,
        Rule.ELSEWHERE,
        0,
    )


def test_a_cluster_uses_the_runs_with_the_same_number_of_members() -> None:
    known = estimator({TRIO: 9.0}, {with_members(TRIO, 3): [6.0] * 3, with_members(TRIO, 2): [8.0] * 4})
    assert summary(known.estimate(WORK, ON_TRIO)) == (6.0, Rule.CLUSTER, 3)
    assert summary(known.estimate(WORK, ON_TRIO, members=2)) == (8.0, Rule.CLUSTER, 4)


def test_with_fewer_members_parallel_time_scales_by_size_over_available_without_history() -> None:
    known = estimator({TRIO: 9.0, PAIR: 5.0}, {with_members(TRIO, 3): [6.0] * 3})
    assert summary(known.estimate(WORK, ON_TRIO, members=2)) == (9.0, Rule.MEMBERS, 3)
    assert summary(known.estimate(WORK, ON_PAIR, members=1)) == (10.0, Rule.STAFF, 0)


def test_a_cluster_that_permanently_lost_a_member_uses_its_larger_runs_scaled() -> None:
    known = estimator({TRIO: 9.0}, {with_members(TRIO, 4): [6.0] * 3})
    assert summary(known.estimate(WORK, ON_TRIO)) == (8.0, Rule.MEMBERS, 3)


def test_a_closed_cluster_is_estimated_with_all_members() -> None:
    assert summary(estimator({TRIO: 9.0}, {}).estimate(WORK, ON_TRIO, members=0)) == (9.0, Rule.STAFF, 0)


def test_runs_of_a_cluster_are_scaled_to_another_by_the_sum_of_member_ratings() -> None:
    """12 s on the pair, rated 4 + 4, are 96 s at 1, so 16 s on the trio, rated 2 + 2 + 2."""
    runs = {with_members(PAIR, 2): [12.0] * 3}
    known = estimator({PAIR: 1.0, TRIO: 1.0}, runs, (4.0, 4.0, 2.0, 2.0, 2.0))
    assert summary(known.estimate(WORK, ON_TRIO)) == (16.0, Rule.RATING, 3)
    assert summary(known.estimate(WORK, ON_TRIO, members=2)) == (24.0, Rule.RATING, 3)


def test_the_deviation_is_that_of_the_runs_in_the_estimate() -> None:
    estimate = estimator({FAST: 10.0}, {FAST: [10.0, 20.0, 30.0]}).estimate(WORK, F0)
    assert estimate is not None
    assert estimate.deviation_s == pytest.approx(10.0)


def test_a_job_with_a_size_is_estimated_by_the_line() -> None:
    layout = Layout(
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
