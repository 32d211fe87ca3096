"""BOLD against a second reading of its source, worked values, and what its limits are known to be."""

from __future__ import annotations

from math import ceil, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.mapping.bold import Bold, batch_size
from scheduler.mapping.etc import EtcMatrix, ReadyTimes, read_only
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Job, JobId, Schedule
from tests.builders import problem
from tests.examples import up_to


class Incremental:
    """The same algorithm as its source states it: counters that each request brings up to date."""

    def __init__(
        self, n_jobs: int, n_machines: int, mean_s: float, deviation_s: float, delay_s: float
    ) -> None:
        self.left = self.unfinished = n_jobs
        self.estimate, self.speed, self.last_s = float(n_jobs), 0.0, 0.0
        self.p, self.mu, self.sigma, self.h = n_machines, mean_s, deviation_s, delay_s
        self.batch = dict.fromkeys(range(n_machines), (0, 0.0))

    def complete(self, j: int, now_s: float) -> None:
        k, since_s = self.batch[j]
        self.estimate -= (now_s - self.last_s) * self.speed
        self.last_s = now_s
        if k:
            own = k / (k * self.mu + self.h)
            self.estimate -= k - (now_s - since_s) * own
            self.unfinished -= k
            self.speed -= own
        self.batch[j] = 0, now_s

    def request(self) -> set[int]:
        """The sizes that the source allows: two where rounding decides, since sums differ by their order."""
        return {min(self.left, max(1, ceil(self.size() + rounding))) for rounding in (-1e-9, 1e-9)}

    def give(self, j: int, k: int, now_s: float) -> None:
        self.left -= k
        self.batch[j] = k, now_s
        self.speed += k / (k * self.mu + self.h)

    def size(self) -> float:
        """Before it is rounded up to one or more."""
        p, a = self.p, 2 * (self.sigma / self.mu) ** 2
        q, c1 = self.left / p, self.h / (self.mu * log(2))
        if q <= 1:
            return 0.0
        b, c2 = 8 * a * log(8 * a), sqrt(2 * pi) * c1
        r = max(self.left, self.estimate)
        t, v = r / p, q / (b + q)
        d = self.left / (1 + 1 / log(q) - v)
        if d <= c2:
            return t
        s = a * (log(d) - log(c2)) * (1 + self.unfinished / (r * p))
        w = log(v * log(q)) + log(b) if b > 0 else log(log(q))
        return min(t, max(0, c1 * w) + t + s / 2 - sqrt(s * (t + s / 4)))


def asked(n_jobs: int, ready_s: list[float], now_s: float, job_s: float = 1.0) -> MappingProblem:
    """A problem of equal jobs."""
    etc = EtcMatrix(np.array([[job_s]]), np.zeros(n_jobs, int), np.zeros(len(ready_s), int))
    jobs = tuple(Job(JobId(i), "any", 0.0) for i in range(n_jobs))
    return MappingProblem(now_s, jobs, etc, lambda _: ReadyTimes(read_only(ready_s)))


def sizes(made: Schedule) -> dict[int, int]:
    """How many jobs each machine gets."""
    machines, counts = np.unique(made.assignments.resources, return_counts=True)
    return dict(zip(machines.tolist(), counts.tolist(), strict=True))


def test_a_batch_has_the_size_worked_out_by_hand() -> None:
    # mu = sigma = h = 1, R = M = 100 on 4 machines: q = t = 25, a = 2, b = 16 ln 16 = 44.3614,
    # v = 25 / 69.3614 = 0.36043, d = 100 / (1 + 1 / ln 25 - v) = 105.237, c1 = 1.442695, c2 = 3.616300,
    # s = 2 (ln d - ln c2) (1 + 100 / 400) = 8.42691, w = ln(v ln 25) + ln b = 3.94095, c1 w = 5.68559,
    # K = 5.68559 + 25 + 4.21345 - sqrt(8.42691 x 27.10673) = 19.7853.
    assert batch_size((100, 100, 100.0), 4, 1.0, 1.0, 1.0) == 20


@pytest.mark.parametrize(
    ("deviation_s", "delay_s", "expected"),
    [(0.0, 0.0, [4, 4, 4]), (1.0, 0.0, [1, 1, 1]), (0.0, 1e6, [4, 4, 4])],
    ids=["neither deviation nor delay", "no delay: one at a time", "a delay beyond all else"],
)
def test_without_deviation_or_delay_batches_are_equal_or_single(
    deviation_s: float, delay_s: float, expected: list[int]
) -> None:
    made = Bold(delay_s, deviation_s).schedule(asked(12, [0.0] * 3, 0.0))
    assert list(sizes(made).values()) == expected


def test_a_larger_deviation_makes_batches_smaller_and_a_longer_delay_makes_them_larger() -> None:
    state = (1000, 1000, 1000.0)
    by_deviation = [batch_size(state, 8, 1.0, sigma, 0.5) for sigma in (0.1, 0.3, 0.6, 1.0)]
    by_delay = [batch_size(state, 8, 1.0, 0.5, delay_s) for delay_s in (0.01, 0.1, 1.0, 10.0)]
    assert by_deviation == sorted(by_deviation, reverse=True)
    assert by_deviation[0] > by_deviation[-1]
    assert by_delay == sorted(by_delay)
    assert by_delay[0] < by_delay[-1]


def test_only_idle_machines_get_a_batch_and_other_jobs_wait_with_a_reason() -> None:
    made = Bold().schedule(problem([[1, 1, 1]] * 40, ready_s=[0, 7, np.inf]))
    assert set(made.assignments.resources) == {0}
    assert len(made.wait_reasons) == 40 - len(made.assignments) > 0
    assert "batch" in made.wait_reasons[39]


def test_expected_times_that_differ_count_as_deviation() -> None:
    equal, mixed = (
        EtcMatrix.from_dense(np.resize(times, (60, 1)) * np.ones((1, 3))) for times in ([5.0], [1.0, 9.0])
    )
    one, other = (Bold(0.1).schedule(MappingProblem.from_etc(etc)) for etc in (equal, mixed))
    assert sizes(one)[0] == 20 > sizes(other)[0]


@given(
    st.integers(1, 120),
    st.integers(1, 6),
    st.floats(0.2, 2.0),
    st.floats(0.01, 3.0),
    st.randoms(use_true_random=False),
)
@settings(max_examples=up_to(200))
def test_batches_equal_those_of_the_counters_of_its_source(
    n_jobs: int, n_machines: int, variation: float, delay_s: float, random: object
) -> None:
    scheduler, counters = Bold(delay_s, variation), Incremental(n_jobs, n_machines, 1.0, variation, delay_s)
    ready_s, left, given_out = [0.0] * n_machines, n_jobs, 0
    while left:
        now_s = min(ready_s)
        made = sizes(scheduler.schedule(asked(left, ready_s, now_s)))
        idle = [j for j in range(n_machines) if ready_s[j] <= now_s]
        for j in idle:
            counters.complete(j, now_s)  # All that end at one instant have ended before the first request.
        for j in idle:
            size = made.get(j, 0)
            assert size in counters.request()
            counters.give(j, size, now_s)
            given_out += size
            ready_s[j] = now_s + size * random.uniform(0.5, 1.5) if size else np.inf  # type: ignore[attr-defined]
        left = counters.left
    assert given_out == n_jobs
