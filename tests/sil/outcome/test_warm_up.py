"""Warm-ups are held against the time for which a queue shows that it began empty."""

from __future__ import annotations

from math import inf, sqrt

import pytest

from sil.outcome.warm_up import WarmUp


@pytest.mark.parametrize("utilisation", [0.5, 0.9])
def test_that_of_a_queue_with_exponential_times_is_four_time_constants_of_odoni_and_roth(
    utilisation: float,
) -> None:
    wait_s = utilisation / (1 - utilisation)  # of M/M/1, in mean run times
    constant_s = 2 / (2.8 * (1 - sqrt(utilisation)) ** 2)
    assert WarmUp(1, 0.0, wait_s, utilisation).needed_s == pytest.approx(4 * constant_s)


@pytest.mark.parametrize(
    ("wait_s", "utilisation", "needed_s"),
    [(0.0, 0.5, 0.0), (0.0, 1.0, 0.0), (1.0, 1.0, inf), (1.0, 0.0, 0.0)],
)
def test_without_waits_none_is_needed_and_beyond_the_capacity_none_is_enough(
    wait_s: float, utilisation: float, needed_s: float
) -> None:
    assert WarmUp(1, 0.0, wait_s, utilisation).needed_s == needed_s


def test_a_sentence_says_how_many_jobs_would_do_and_there_is_none_where_it_lasts_long_enough() -> None:
    short = WarmUp(100, 3600.0, 600.0, 0.8)
    assert short.needed_s == pytest.approx(38_450, abs=10)
    assert short.too_short("give {}").endswith("wrong sign; give 1100")
    assert short.too_short("give {}", most=1000).endswith("give 1000")
    assert short._replace(lasts_s=39_000.0).too_short("give {}") == ""
    assert short._replace(utilisation=1.0).too_short("give {}").endswith("give more")
