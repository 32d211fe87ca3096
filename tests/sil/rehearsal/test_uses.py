"""The rules of verdicts: a limit, an interval within it, and enough jobs."""

from __future__ import annotations

import numpy as np
import pytest

from sil.outcome.statistics import Interval
from sil.rehearsal.sections import judged_title
from sil.rehearsal.uses import NEAR_S, TITLES, Agreement, Grade, Judgement, Measure, Use
from tests.sil.rehearsal.test_reproduction import HOUR_S, N, of

MEAN_S = 10 * HOUR_S
"""Of which a tenth is an hour."""


def grade_of_waits(low_s: float, high_s: float, jobs: int = 100, worst_s: float = 1e9) -> Grade:
    difference = Interval.between((low_s + high_s) / 2, low_s, high_s)
    agreement = Agreement(Measure.WAIT, difference, worst_s, MEAN_S)
    return Judgement(Use.WAITS, "partition", "main", jobs, jobs, 0, (agreement,)).grade


@pytest.mark.parametrize(
    ("low_s", "high_s", "grade"),
    [
        (-1_000.0, 3_500.0, Grade.GOOD),
        (-1_000.0, 3_700.0, Grade.THIS_PERIOD),
        (-3_700.0, 1_000.0, Grade.THIS_PERIOD),
        (3_500.0, 3_900.0, Grade.NOT),
        (-3_900.0, -3_500.0, Grade.NOT),
    ],
)
def test_a_use_is_settled_if_the_interval_is_within_the_limit(
    low_s: float, high_s: float, grade: Grade
) -> None:
    assert grade_of_waits(low_s, high_s) is grade


def test_few_jobs_are_not_judged_and_no_larger_difference_needs_no_interval() -> None:
    assert grade_of_waits(9_000.0, 9_001.0, jobs=19) is Grade.NOT_JUDGED
    assert grade_of_waits(9_000.0, 9_001.0, jobs=20) is Grade.NOT
    assert grade_of_waits(-1_000.0, 3_700.0, worst_s=HOUR_S) is Grade.GOOD


def test_a_difference_of_five_minutes_is_allowed_also_where_hardly_any_job_waits() -> None:
    agreement = Agreement(Measure.WAIT, Interval(NEAR_S, None), NEAR_S, mean=1.0)
    assert Judgement(Use.WAITS, "all", "all", 50, 0, 0, (agreement,)).grade is Grade.GOOD


@pytest.mark.parametrize(
    ("found", "grade"),
    [
        (Interval.between(0.95, 0.91, 0.97), Grade.GOOD),
        (Interval.between(0.95, 0.89, 0.97), Grade.THIS_PERIOD),
        (Interval(0.95, None), Grade.THIS_PERIOD),
        (Interval(1.0, None), Grade.GOOD),
        (Interval.between(0.89, 0.85, 0.93), Grade.NOT),
    ],
)
def test_shares_and_ranks_are_settled_by_their_intervals_or_where_all_jobs_agree(
    found: Interval, grade: Grade
) -> None:
    agreement = Agreement(Measure.NEAR, found)
    assert Judgement(Use.JOBS, "all", "all", 100, 100, 0, (agreement,)).grade is grade


def grades(recorded_s: list[float], replayed_s: list[float]) -> dict[str, Grade]:
    return {judged_title(each): each.grade for each in of(recorded_s, replayed_s).judgements}


def test_the_same_waits_of_other_jobs_are_good_for_means_of_all_and_not_for_choosing_settings() -> None:
    waits = [HOUR_S * (k % 10) for k in range(N)]
    others = np.random.default_rng(1).permutation(waits).tolist()
    found = grades(waits, others)
    assert found[TITLES[Use.WAITS]] in (Grade.GOOD, Grade.THIS_PERIOD)
    assert found[TITLES[Use.MEANS]] is Grade.NOT


def test_waits_of_two_partitions_that_are_exchanged_are_told_though_the_mean_is_right() -> None:
    waits = [HOUR_S * (1 + k % 2) for k in range(N)]
    found = grades(waits, [3 * HOUR_S - wait_s for wait_s in waits])
    assert found[TITLES[Use.WAITS]] in (Grade.GOOD, Grade.THIS_PERIOD)
    assert found["Waits of partition main"] is found["Waits of partition long"] is Grade.NOT


def test_an_idle_cluster_says_nothing_about_the_order_of_jobs() -> None:
    found = grades([0.0] * N, [0.0] * N)
    assert found[TITLES[Use.WAITS]] is Grade.GOOD
    assert found[TITLES[Use.MEANS]] is found[TITLES[Use.PURCHASES]] is Grade.NOT_JUDGED


def test_jobs_that_run_at_other_hours_are_told_by_the_utilisation() -> None:
    """Half of the jobs, with 2 of 4 processors for 600 s on average, run an hour later."""
    found = of([0.0] * N, [0.0 if k % 2 else HOUR_S for k in range(N)])
    (agreement,) = found.judged(Use.UTILISATION).agreements
    assert agreement.found is not None
    assert agreement.found.mean == pytest.approx(600 / 3_600 * 2 / 4, rel=0.05), "one too few, one too many"
    assert found.judged(Use.UTILISATION).grade is Grade.NOT


def test_jobs_that_never_start_are_told_though_the_others_start_when_they_did() -> None:
    for missing, grade in ((4, Grade.THIS_PERIOD), (5, Grade.NOT)):
        found = of([HOUR_S] * N, [HOUR_S] * (N - missing))
        assert found.judged(Use.WAITS).grade is grade, missing
        assert f"{missing} jobs did not start" in found.judged(Use.WAITS).why
