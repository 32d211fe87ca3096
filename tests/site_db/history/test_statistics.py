"""Statistics that can be merged, held to numpy; quantiles, held to the truth and to the reference library."""

from __future__ import annotations

from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from ddsketch import DDSketch
from hypothesis import example, given
from hypothesis import strategies as st

from site_db.history.statistics import ACCURACY, QuantileSketch, RunStatistics, merged

TIMES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=30)
SIZED = st.lists(
    st.tuples(st.floats(1.0, 1e5), st.one_of(st.none(), st.integers(1, 1000).map(float))),
    min_size=1,
    max_size=30,
)


def in_parts(runs: list[tuple[float, float | None]], cuts: list[int]) -> RunStatistics:
    bounds = sorted({0, len(runs), *(cut % (len(runs) + 1) for cut in cuts)})
    parts = [runs[a:b] for a, b in pairwise(bounds)]
    return merged([RunStatistics.of([t for t, _ in part], [x for _, x in part]) for part in parts])


@given(runs=SIZED, cuts=st.lists(st.integers(0, 100), max_size=4))
@example(runs=[(1e9, 1.0), (1e9 + 1, 2.0), (1e9 + 2, 3.0)], cuts=[1, 2])
def test_count_mean_and_variance_equal_numpy_for_any_partition_of_the_runs(
    runs: list[tuple[float, float | None]], cuts: list[int]
) -> None:
    times_s = np.array([t for t, _ in runs])
    seen = in_parts(runs, cuts)
    assert seen.count == len(runs)
    assert seen.mean_s == pytest.approx(times_s.mean(), rel=1e-9)
    assert seen.squares_s2 == pytest.approx(times_s.var() * len(runs), rel=1e-6, abs=1e-9 * seen.mean_s**2)
    assert seen.least_s == times_s.min()


@given(runs=SIZED, cuts=st.lists(st.integers(0, 100), max_size=4))
def test_the_line_equals_least_squares_for_any_partition_of_the_runs(
    runs: list[tuple[float, float | None]], cuts: list[int]
) -> None:
    seen = in_parts(runs, cuts)
    sized = [(t, x) for t, x in runs if x is not None]
    if not seen.has_line:
        assert len(sized) < 3 or len({x for _, x in sized}) == 1
        return
    slope, intercept = np.polyfit([x for _, x in sized], [t for t, _ in sized], 1)
    expected_s = max(slope * 123.0 + intercept, min(t for t, _ in runs))
    assert seen.expected_s(123.0) == pytest.approx(expected_s, rel=1e-5, abs=1e-5 * seen.mean_s)


def test_a_line_equals_a_hand_computed_example() -> None:
    seen = RunStatistics.of([10.0, 20.0, 30.0], [1.0, 2.0, 3.0])
    assert seen.expected_s(5.0) == pytest.approx(50.0)
    assert seen.expected_s() == 20.0


def test_a_line_never_predicts_less_than_the_shortest_run() -> None:
    assert RunStatistics.of([10.0, 20.0, 30.0], [1.0, 2.0, 3.0]).expected_s(0.1) == 10.0


@pytest.mark.parametrize(
    ("times_s", "sizes"),
    [
        ([10.0, 20.0], [1.0, 2.0]),
        ([10.0, 20.0, 30.0], [2.0, 2.0, 2.0]),
        ([10.0, 20.0, 30.0], [1.0, None, 2.0]),
    ],
)
def test_with_too_few_sizes_the_mean_is_used_instead_of_a_line(
    times_s: list[float], sizes: list[float | None]
) -> None:
    seen = RunStatistics.of(times_s, sizes)
    assert not seen.has_line
    assert seen.expected_s(7.0) == seen.mean_s


@given(runs=SIZED, factor=st.floats(0.01, 100))
def test_scaled_statistics_equal_those_of_scaled_runs(
    runs: list[tuple[float, float | None]], factor: float
) -> None:
    sizes = [x for _, x in runs]
    scaled = RunStatistics.of([t for t, _ in runs], sizes).scaled(factor)
    slower = RunStatistics.of([t * factor for t, _ in runs], sizes)
    assert scaled.mean_s == pytest.approx(slower.mean_s, rel=1e-9)
    assert scaled.expected_s(9.0) == pytest.approx(slower.expected_s(9.0), rel=1e-6)


def test_the_deviation_of_one_run_is_unknown() -> None:
    assert RunStatistics.of([5.0]).deviation_s is None
    assert RunStatistics.of([5.0, 7.0]).deviation_s == pytest.approx(2**0.5)


# -- quantiles ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0.1, 1 / 3, 1e9 + 0.1, 7.0])
@pytest.mark.parametrize("n", [3, 7, 50])
def test_runs_of_one_size_have_no_line(size: float, n: int) -> None:
    """The mean of equal numbers may differ from them by its rounding, which is no spread."""
    runs = RunStatistics.of([90.0 + k for k in range(n)], [size] * n)
    for k in range(n):
        runs = runs.merged(RunStatistics.of([100.0 + k], [size]))
    assert not runs.has_line
    assert runs.expected_s(2 * size) == runs.mean_s


@given(times_s=TIMES, q=st.floats(0, 1))
def test_a_quantile_is_within_the_stated_error(times_s: list[float], q: float) -> None:
    exact_s = float(np.quantile(times_s, q, method="inverted_cdf"))
    assert QuantileSketch(times_s).quantile(q) == pytest.approx(exact_s, rel=ACCURACY * (1 + 1e-6))


@given(times_s=TIMES, q=st.floats(0, 1))
def test_a_quantile_equals_the_reference_library(times_s: list[float], q: float) -> None:
    reference = DDSketch(ACCURACY)
    for time_s in times_s:
        reference.add(time_s)
    n = len(times_s)
    rank = min(
        max(ceil(q * n * (1 - 1e-12)) - 1, 0), n - 1
    )  # to the library, the quantile q has rank q (n - 1)
    estimated = QuantileSketch(times_s).quantile(q)
    asked = min(1.0, (rank + 1e-6) / max(n - 1, 1))  # or rounding would make it the rank before
    assert estimated == pytest.approx(reference.get_quantile_value(asked), rel=2.1 * ACCURACY)


def test_the_95th_percentile_of_ten_runs_is_the_longest() -> None:
    times_s = [10.0 * k for k in range(1, 10)] + [1000.0]
    sketch = QuantileSketch(times_s)
    estimated = [sketch.quantile(q) for q in (0.0, 0.1, 0.5, 0.9, 0.95, 1.0)]
    assert estimated == pytest.approx([10.0, 10.0, 50.0, 90.0, 1000.0, 1000.0], rel=ACCURACY * (1 + 1e-6))


@given(times_s=TIMES, cut=st.integers(0, 30))
def test_merging_is_exact_and_survives_serialisation(times_s: list[float], cut: int) -> None:
    whole = QuantileSketch(times_s)
    for one, other in ((times_s[:cut], times_s[cut:]), (times_s[cut:], times_s[:cut])):
        sketch = QuantileSketch.from_bytes(QuantileSketch(one).to_bytes())
        sketch.merge(QuantileSketch.from_bytes(QuantileSketch(other).to_bytes()))
        assert sketch.bins() == whole.bins()


def test_an_empty_sketch_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="no values"):
        QuantileSketch().quantile(0.5)
