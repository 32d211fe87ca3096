"""Intervals and corrections that follow from the errors of the past."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from scheduler.model import Job, JobId
from scheduler.time_shared.forecast import (
    COVERAGE,
    MIN_ERRORS,
    Circumstances,
    Error,
    ErrorHistory,
    Hybrid,
    WithInterval,
    prediction_limits,
)
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.predictors import PolicyAware, PredictorName, make, read
from scheduler.time_shared.problem import SystemState
from scheduler.time_shared.social_contract import Requirement, SocialContract
from sil.studies.cisne.hybrid import MIN_RUNS, Historical, PastRun, RunHistory

WAITS = Circumstances(100.0, 1, True, 1)


def errors(circumstances: Circumstances, *ratios: float) -> list[Error]:
    return [Error(circumstances, ratio) for ratio in ratios]


def median(history: ErrorHistory, circumstances: Circumstances) -> float:
    ratios = history.ratios(circumstances)
    assert ratios is not None
    return float(np.median(ratios))


def one_job_waits() -> SystemState:
    state = SystemState([512.0], SocialContract())
    state.add(Job(JobId(7), "any", 0.0), Requirement(1, 0.5, 10.0, 100.0))
    return state


def test_quantiles_come_from_the_closest_circumstances_with_enough_errors() -> None:
    here = errors(WAITS, *[1.5] * MIN_ERRORS)
    same_kind = errors(WAITS._replace(load=4), *[2.0] * (2 * MIN_ERRORS))
    history = ErrorHistory(here + same_kind)
    assert median(history, WAITS) == 1.5
    assert median(history, WAITS._replace(load=9)) == 2.0
    assert median(history, Circumstances(7.0, 8, True, 1)) == 2.0
    assert history.ratios(WAITS._replace(waits=False)) is None


def test_too_few_errors_give_no_quantile() -> None:
    assert ErrorHistory(errors(WAITS, *[2.0] * (MIN_ERRORS - 1))).ratios(WAITS) is None


def test_a_hybrid_forecast_is_corrected_by_the_median_past_error() -> None:
    history = ErrorHistory(errors(WAITS, *[1.2] * MIN_ERRORS))
    plain = PolicyAware(Loras())
    (forecast,) = Hybrid(plain, history).predict(50.0, one_job_waits().view())
    assert forecast.end_s == pytest.approx(50.0 + 1.2 * 100.0)
    (unchanged,) = Hybrid(plain, ErrorHistory([])).predict(50.0, one_job_waits().view())
    assert unchanged.end_s == 150.0


def test_the_interval_of_a_hybrid_forecast_comes_from_the_same_errors_as_its_correction() -> None:
    ratios = [0.5 + k / 200 for k in range(101)]
    history = ErrorHistory(errors(WAITS, *ratios))
    asked: list[str] = []

    def errors_of(name: PredictorName) -> ErrorHistory:
        asked.append(str(name))
        return history

    hybrid = make(read("hybrid"), Loras(), errors_of)
    (forecast,) = hybrid.predict(50.0, one_job_waits().view())
    assert forecast.end_s == pytest.approx(50.0 + 75.0)
    assert (forecast.low_s, forecast.high_s) == (pytest.approx(50.0 + 54.5), pytest.approx(50.0 + 95.5))
    assert set(asked) == {"aware cpu-cpu"}


def test_a_hybrid_forecast_never_ends_before_it_starts() -> None:
    state = one_job_waits()
    for number in (8, 9):
        state.add(Job(JobId(number), "any", 0.0), Requirement(1, 0.9, 300.0, 100.0))
    history = ErrorHistory(errors(WAITS, *[0.2] * MIN_ERRORS))
    forecasts = Hybrid(PolicyAware(Loras()), history).predict(50.0, state.view())
    starts_s = [forecast.start_s for forecast in forecasts if forecast.start_s is not None]
    assert max(starts_s) > 50.0
    assert all(f.start_s is None or f.start_s <= f.end_s for f in forecasts)


def three_jobs() -> SystemState:
    """On two nodes without local users: two jobs run on both, a third waits."""
    state = SystemState([512.0] * 2, SocialContract(most_jobs=2))
    for number, (tasks, exe_s) in enumerate([(2, 100.0), (2, 60.0), (1, 40.0)]):
        state.add(Job(JobId(number), "any", 0.0, n_tasks=tasks), Requirement(tasks, 0.9, 10.0, exe_s))
    for job in list(state.waiting)[:2]:
        state.start(job, (0, 1), 0.0)
        state.measured(job.id, 9.0, 20.0)
    return state


def runs(exe_s: float, tasks: int, **slowdown_at: float) -> list[PastRun]:
    return [
        PastRun(exe_s, tasks, float(mpl.removeprefix("mpl")), slowdown)
        for mpl, slowdown in slowdown_at.items()
        for _ in range(MIN_RUNS)
    ]


def test_the_remaining_time_within_algorithm_1_is_that_of_past_runs() -> None:
    history = RunHistory(runs(100.0, 2, mpl1=3.0, mpl2=5.0) + runs(60.0, 2, mpl1=3.0, mpl2=4.0))
    of = {f.job: f for f in Historical(Loras(), history).predict(20.0, three_jobs().view())}
    # Of job 1, 50 s in isolation are left, at 4 times that. Then job 0 has used 0.5 CPU for 200 s: all.
    assert of[JobId(1)].end_s == pytest.approx(20.0 + 4.0 * 50.0)
    assert of[JobId(2)].start_s == of[JobId(1)].end_s


def test_past_runs_that_behave_like_equation_4_give_its_forecasts() -> None:
    known = [runs(exe_s, tasks, mpl1=1.0, mpl2=2.0) for tasks, exe_s in ((2, 100.0), (2, 60.0), (1, 40.0))]
    historical = Historical(Loras(), RunHistory(chain.from_iterable(known)), "cpu")
    by_equation = PolicyAware(Loras(), "mpl", "cpu")
    assert historical.predict(20.0, three_jobs().view()) == by_equation.predict(20.0, three_jobs().view())


def test_without_enough_past_runs_the_analytic_estimate_stays() -> None:
    history = RunHistory(runs(100.0, 2, mpl2=5.0)[: MIN_RUNS - 1])
    plain = PolicyAware(Loras(), "cpu", "cpu").predict(20.0, three_jobs().view())
    made = Historical(Loras(), history, "cpu").predict(20.0, three_jobs().view())
    assert [forecast.end_s for forecast in made] == pytest.approx([forecast.end_s for forecast in plain])


@pytest.mark.parametrize("n", [9, 19, 20, 30, 50, 99])
def test_an_interval_of_predictions_has_the_next_one_as_often_as_it_says(n: int) -> None:
    """Between quantiles of n errors there were 73 to 77 % of the next ones. Ranks of exchangeable errors are
    uniform: of n + 1, the next is one of the n + 1 - 2 k in the middle."""
    found = prediction_limits(list(range(1, n + 1)))
    assert found is not None
    share = (found[1] - found[0]) / (n + 1)
    assert COVERAGE <= share < COVERAGE + 2 / (n + 1)
    assert prediction_limits(list(range(8))) is None


def test_an_interval_covers_the_middle_80_percent_of_the_errors() -> None:
    ratios = [0.5 + k / 100 for k in range(101)]
    with_interval = WithInterval(PolicyAware(Loras()), ErrorHistory(errors(WAITS, *ratios)))
    (forecast,) = with_interval.predict(50.0, one_job_waits().view())
    assert forecast.end_s == 150.0
    assert (forecast.low_s, forecast.high_s) == (pytest.approx(50.0 + 59.0), pytest.approx(50.0 + 141.0))
