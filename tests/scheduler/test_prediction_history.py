"""Intervals and corrections that follow from the errors of the past."""

from __future__ import annotations

import pytest

from scheduler.model import Job, JobId
from scheduler.time_shared.loras import Loras
from scheduler.time_shared.prediction.by_name import PredictorName, make, read
from scheduler.time_shared.prediction.forecast import (
    FEWEST,
    Circumstances,
    Error,
    ErrorHistory,
    Hybrid,
    WithInterval,
)
from scheduler.time_shared.prediction.policy_aware import PolicyAware
from scheduler.time_shared.social_contract import Requirement, SocialContract
from scheduler.time_shared.system import SystemState

WAITS = Circumstances(100.0, 1, True, 1)


def errors(circumstances: Circumstances, *ratios: float) -> list[Error]:
    return [Error(circumstances, ratio) for ratio in ratios]


def one_job_waits() -> SystemState:
    state = SystemState([512.0], SocialContract())
    state.add(Job(JobId(7), "any", 0.0), Requirement(1, 0.5, 10.0, 100.0))
    return state


def test_quantiles_come_from_the_closest_circumstances_with_enough_errors() -> None:
    here = errors(WAITS, *[1.5] * FEWEST)
    same_kind = errors(WAITS._replace(load=4), *[2.0] * (2 * FEWEST))
    history = ErrorHistory(here + same_kind)
    assert history.quantiles(WAITS, 0.5) == (1.5,)
    assert history.quantiles(WAITS._replace(load=9), 0.5) == (2.0,)
    assert history.quantiles(Circumstances(7.0, 8, True, 1), 0.5) == (2.0,)
    assert history.quantiles(WAITS._replace(waits=False), 0.5) is None


def test_too_few_errors_give_no_quantile() -> None:
    assert ErrorHistory(errors(WAITS, *[2.0] * (FEWEST - 1))).quantiles(WAITS, 0.5) is None


def test_a_hybrid_forecast_is_corrected_by_the_median_past_error() -> None:
    history = ErrorHistory(errors(WAITS, *[1.2] * FEWEST))
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
    assert (forecast.low_s, forecast.high_s) == (pytest.approx(50.0 + 55.0), pytest.approx(50.0 + 95.0))
    assert set(asked) == {"aware cpu-cpu"}


def test_a_hybrid_forecast_never_ends_before_it_starts() -> None:
    state = one_job_waits()
    for number in (8, 9):
        state.add(Job(JobId(number), "any", 0.0), Requirement(1, 0.9, 300.0, 100.0))
    history = ErrorHistory(errors(WAITS, *[0.2] * FEWEST))
    forecasts = Hybrid(PolicyAware(Loras()), history).predict(50.0, state.view())
    starts_s = [forecast.start_s for forecast in forecasts if forecast.start_s is not None]
    assert max(starts_s) > 50.0
    assert all(f.start_s is None or f.start_s <= f.end_s for f in forecasts)


def test_an_interval_covers_the_middle_80_percent_of_the_errors() -> None:
    ratios = [0.5 + k / 100 for k in range(101)]
    with_interval = WithInterval(PolicyAware(Loras()), ErrorHistory(errors(WAITS, *ratios)))
    (forecast,) = with_interval.predict(50.0, one_job_waits().view())
    assert forecast.end_s == 150.0
    assert (forecast.low_s, forecast.high_s) == (pytest.approx(50.0 + 60.0), pytest.approx(50.0 + 140.0))
