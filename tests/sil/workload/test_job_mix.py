from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from scheduler.model import JobClass
from sil.workload.arrivals import JobMix, Order, Poisson, QueueOrder
from sil.world.actual_runtimes import RandomStreams

CLASSES = [JobClass("a", ("any",), preferred=("any",)), JobClass("b", ("any",)), JobClass("c", ("any",))]


def mix(order: Order = Order.RANDOM, **classes: float) -> JobMix:
    return JobMix(classes or {"a": 1.0, "b": 1.0, "c": 1.0}, {"default": 1.0}, {"anyone": 1.0}, order)


def test_in_cyclic_order_class_is_index_mod_number_of_classes() -> None:
    jobs = mix(Order.CYCLIC).jobs(5, None, CLASSES, np.random.default_rng(0))
    assert [job.job_class for job in jobs] == ["a", "b", "c", "a", "b"]


def test_a_shuffled_mix_has_exact_shares_in_random_order() -> None:
    first, second = (
        mix(Order.SHUFFLED, a=3, b=1).jobs(40, None, CLASSES, np.random.default_rng(seed)) for seed in (1, 2)
    )
    assert Counter(job.job_class for job in first) == {"a": 30, "b": 10}
    assert [job.job_class for job in first] != [job.job_class for job in second]


def test_a_random_mix_has_the_given_shares_on_average() -> None:
    jobs = mix(a=1, b=3).jobs(20_000, None, CLASSES, np.random.default_rng(3))
    assert Counter(job.job_class for job in jobs)["b"] / 20_000 == pytest.approx(0.75, abs=0.02)


def test_queues_and_users_are_drawn_by_their_shares() -> None:
    drawn = JobMix({"a": 1}, {"high": 1, "low": 4}, {"ann": 1, "bob": 1}).jobs(
        10_000, None, CLASSES, np.random.default_rng(4)
    )
    assert Counter(job.queue for job in drawn)["high"] / 10_000 == pytest.approx(0.2, abs=0.02)
    assert Counter(job.user for job in drawn)["ann"] / 10_000 == pytest.approx(0.5, abs=0.02)


def test_a_job_knows_the_preferred_machine_classes_of_its_class() -> None:
    jobs = mix(Order.CYCLIC).jobs(2, None, CLASSES, np.random.default_rng(0))
    assert [job.preferred for job in jobs] == [("any",), ()]


def test_poisson_arrivals_have_the_given_rate_per_quantum() -> None:
    times_s = Poisson(4.0, 10.0).times_s(40_000, np.random.default_rng(5))
    gaps_s = np.diff(times_s)
    assert times_s[-1] / 40_000 == pytest.approx(2.5, rel=0.02)
    assert gaps_s.std() == pytest.approx(gaps_s.mean(), rel=0.03)  # exponential: deviation = mean


def test_random_streams_depend_only_on_seed_replication_and_name() -> None:
    keys = [(1, 0, "a"), (2, 0, "a"), (1, 1, "a"), (1, 0, "b")]
    draws = {key: RandomStreams(*key[:2]).of(key[2]).random() for key in keys}
    assert len(set(draws.values())) == 4
    assert RandomStreams(1, 0).of("a").random() == draws[1, 0, "a"]


@pytest.mark.parametrize(
    ("n", "expected"), [(10, (1, 1, 8)), (5, (0, 0, 5)), (25, (2, 2, 21)), (15, (2, 2, 11)), (1, (0, 0, 1))]
)
def test_queues_in_blocks_round_half_to_even_and_the_last_gets_the_rest(
    n: int, expected: tuple[int, int, int]
) -> None:
    shares = {"high": 0.1, "medium": 0.1, "low": 0.8}
    drawn = JobMix({"a": 1.0}, shares, {"anyone": 1.0}, Order.CYCLIC, QueueOrder.BLOCKS)
    queues = [job.queue for job in drawn.jobs(n, None, CLASSES, np.random.default_rng(0))]
    high, medium, low = expected
    assert queues == ["high"] * high + ["medium"] * medium + ["low"] * low
