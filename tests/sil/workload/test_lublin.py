from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from sil.workload.job_log import JobLog
from sil.workload.lublin import Gamma, Lublin
from tests.sil.workload.swf_files import assert_sound

N = 200_000
PROCESSORS = 128


LOG = Lublin().jobs(N, PROCESSORS, np.random.default_rng(1))


def of_gamma(shape: float, scale: float, below: float) -> tuple[float, float]:
    """The probability that a gamma is below, and its mean where it is."""
    gamma = stats.gamma(shape, scale=scale)
    share = gamma.cdf(below)
    return share, integrate.quad(lambda x: x * gamma.pdf(x), 0, below)[0] / share


def test_jobs_are_repeatable_by_seed_and_differ_between_seeds() -> None:
    first, again, other = (Lublin().jobs(500, 64, np.random.default_rng(seed)).jobs for seed in (7, 7, 8))
    assert first.equals(again)
    assert not first["run_s"].equals(other["run_s"])


@settings(deadline=None)
@given(n=st.integers(1, 200), processors=st.integers(2, 5000), seed=st.integers(0, 2**32 - 1))
def test_jobs_are_valid_for_every_machine_size_and_in_whole_seconds(
    n: int, processors: int, seed: int
) -> None:
    log = Lublin().jobs(n, processors, np.random.default_rng(seed))
    assert_sound(log)
    assert len(log.jobs) == n
    assert log.jobs["job"].to_list() == list(range(1, n + 1))
    for name in ("submit_s", "run_s"):
        assert (log.jobs[name] == log.jobs[name].round()).all()
    assert log.jobs["estimate_s"].equals(log.jobs["run_s"].alias("estimate_s"))
    assert (log.jobs["user"] == -1).all()


def test_the_share_of_serial_jobs_equals_the_model() -> None:
    sizes = LOG.jobs["processors"].to_numpy()
    assert np.mean(sizes == 1) == pytest.approx(0.244, abs=0.005)


def test_the_shares_of_powers_of_two_follow_a_two_stage_uniform_distribution() -> None:
    sizes = LOG.jobs["processors"].to_numpy()

    def below(size_log2: float) -> float:
        """The two-stage uniform's distribution on 128 processors: 0.8 to 4.5, then to 7."""
        lower, upper = (size_log2 - 0.8) / 3.7, (size_log2 - 4.5) / 2.5
        return 0.86 * min(max(lower, 0.0), 1.0) + 0.14 * min(max(upper, 0.0), 1.0)

    for k in range(1, 8):
        rounded = below(k + 0.5) - below(k - 0.5)
        by_chance = below(np.log2(2**k + 0.5)) - below(np.log2(2**k - 0.5))
        expected = 0.576 * rounded + (1 - 0.244 - 0.576) * by_chance
        assert np.mean(sizes == 2**k) == pytest.approx(expected, abs=0.005), 2**k


def test_on_a_machine_of_8_the_medium_size_follows_the_authors_advice() -> None:
    sizes = Lublin(serial=0.0, power_of_two=1.0).jobs(N, 8, np.random.default_rng(2)).jobs["processors"]
    assert (sizes == 2).mean() == pytest.approx(0.86, abs=0.005)
    assert (sizes == 4).mean() == pytest.approx(0.14 * 1.0 / 1.5, abs=0.005)


def test_the_mean_log_run_time_equals_the_hyper_gamma_mean_at_each_size() -> None:
    (short_share, short_mean), (long_share, long_mean) = of_gamma(4.2, 0.94, 12), of_gamma(312, 0.03, 12)
    for size in (1, 2, 16, 64, 128):
        short = min(max(-0.0054 * size + 0.78, 0.0), 1.0)
        weights = np.array([short * short_share, (1 - short) * long_share])
        expected = float(weights @ [short_mean, long_mean] / weights.sum())
        logs = np.log(LOG.jobs.filter(LOG.jobs["processors"] == size)["run_s"].to_numpy() + 0.5)
        assert logs.mean() == pytest.approx(expected, abs=4 * logs.std() / np.sqrt(len(logs)) + 0.03), size


def test_no_run_exceeds_the_model_maximum() -> None:
    assert LOG.jobs["run_s"].max() <= np.exp(12)


def test_the_mean_interarrival_time_equals_the_model() -> None:
    shape, scale = 10.2303 * 1.0225, 0.4871
    gamma = stats.gamma(shape, scale=scale)
    share = gamma.cdf(13)
    mean_s = integrate.quad(lambda x: np.exp(x) * gamma.pdf(x), 0, 13)[0] / share
    square = integrate.quad(lambda x: np.exp(2 * x) * gamma.pdf(x), 0, 13)[0] / share
    tolerance_s = 4 * np.sqrt((square - mean_s**2) / N)
    assert LOG.span_s / (N - 1) == pytest.approx(mean_s, abs=tolerance_s)


def test_arrivals_follow_the_daily_cycle() -> None:
    cycle = stats.gamma(8.1737, scale=3.9631)
    weights = np.empty(48)
    for i in range(11, 59):
        weights[(i - 1) % 48] = cycle.cdf(i + 0.5) - cycle.cdf(i - 0.5)
    seen = np.bincount((LOG.jobs["submit_s"].to_numpy() % 86400 // 1800).astype(int), minlength=48)
    np.testing.assert_allclose(seen / N, weights / weights.sum(), atol=0.004)
    assert int(np.argmin(seen)) in range(6, 12)  # at night
    assert int(np.argmax(seen)) in range(24, 32)  # after noon


def test_with_a_constant_gap_arrivals_follow_the_cycle_weights() -> None:
    """Each job costs one point, which is what half an hour weighs on average: 48 of them come a day."""
    constant = Gamma(1e12, np.log(1800.0) / 1e12)
    arrivals_s = (
        replace(Lublin(), gap=constant).jobs(480, 16, np.random.default_rng(0)).jobs["submit_s"].to_numpy()
    )
    cycle = stats.gamma(8.1737, scale=3.9631)
    weights = np.roll([cycle.cdf(i + 0.5) - cycle.cdf(i - 0.5) for i in range(11, 59)], 10)
    weights *= 48 / weights.sum()
    expected_s, left, bucket = [], 0.0, 0
    for _ in range(480):
        left += 1.0
        while left > weights[bucket % 48]:
            left -= weights[bucket % 48]
            bucket += 1
        expected_s.append(1800 * (bucket + left / weights[bucket % 48]))
    np.testing.assert_allclose(arrivals_s, expected_s, atol=1.5)


@pytest.mark.parametrize("load", [0.1, 0.7, 1.3])
def test_a_target_load_is_met_within_1_percent_with_the_same_jobs(load: float) -> None:
    log = Lublin().jobs(2000, PROCESSORS, np.random.default_rng(3), load)
    assert log.load == pytest.approx(load, rel=0.01)
    unscaled = Lublin().jobs(2000, PROCESSORS, np.random.default_rng(3))
    assert log.jobs.drop("submit_s").equals(unscaled.jobs.drop("submit_s"))


def of_a_day(log: JobLog) -> float:
    """The strength of the cycle of 24 h: 1 if all arrive at one time of day, near 0 without a day."""
    return float(abs(np.exp(2j * np.pi * log.jobs["submit_s"].to_numpy() / 86_400.0).mean()))


@pytest.mark.parametrize("load", [0.3, 0.55, 0.9, 1.2])
def test_with_a_target_load_a_day_still_has_24_hours(load: float) -> None:
    """Without a target, the modulus is 0.41 on average."""
    seeds = range(10)
    logs = [Lublin().jobs(5_000, PROCESSORS, np.random.default_rng(seed), load) for seed in seeds]
    assert np.mean([of_a_day(log) for log in logs]) == pytest.approx(0.41, abs=0.05)
    scaled = [Lublin().jobs(5_000, PROCESSORS, np.random.default_rng(seed)).at_load(load) for seed in seeds]
    assert np.mean([of_a_day(log) for log in scaled]) < 0.2  # which is why the model has its own way


@pytest.mark.parametrize("load", [0.0, -0.5, float("nan"), float("inf"), 1e9])
def test_an_impossible_load_is_refused(load: float) -> None:
    with pytest.raises(ValueError, match="load of"):
        Lublin().jobs(50, PROCESSORS, np.random.default_rng(0), load)


def test_a_million_jobs_are_generated_in_a_few_seconds() -> None:
    before_s = time.process_time()
    assert len(Lublin().jobs(1_000_000, 1024, np.random.default_rng(4)).jobs) == 1_000_000
    assert time.process_time() - before_s < 5.0


@pytest.mark.parametrize(
    ("n", "processors", "reason"),
    [
        (0, 8, "asked for 0 jobs; at least 1 is needed"),
        (-3, 8, "asked for -3 jobs"),
        (5, 1, "a machine of 1 processor; it takes from 2 to 100,000,000"),
        (5, 100_000_001, "a machine of 100,000,001 processors"),
    ],
)
def test_an_impossible_request_is_rejected(n: int, processors: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Lublin().jobs(n, processors, np.random.default_rng(0))


def test_parameters_without_a_valid_workload_are_rejected() -> None:
    with pytest.raises(ValueError, match="do not rise"):
        Lublin(smallest_log2=3.0).jobs(5, 4, np.random.default_rng(0))
    with pytest.raises(ValueError, match="values above 12 nearly always"):
        Lublin(long=Gamma(1000.0, 1.0), short_share=0.0).jobs(5, 8, np.random.default_rng(0))
