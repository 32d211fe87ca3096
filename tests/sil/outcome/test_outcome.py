"""What a trace amounts to, worked out by hand on a trace of three jobs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

from sil.outcome.invariants import checker
from sil.outcome.invariants.checker import Capacity, first_violation
from sil.outcome.jobs import failed_job_table, job_table, write_jobs_csv
from sil.outcome.metrics import DETAILS, METRICS, OF_PERIODS, run_metrics
from sil.outcome.paired import skewed_interval
from sil.outcome.statistics import Interval, Sample, interval, percent_changes, quantile
from sil.trace.facts import TIMINGS_SCHEMA, Fact, RunTables
from sil.trace.reading import NoTrace, read_trace
from tests.builders import description, site, trace
from tests.examples import up_to

SITE = site(3, [[0, 1]])
CAPACITY = Capacity(SITE.n_machines, names=SITE.resource_names)

Row = tuple[float, Fact, dict[str, Any]]


def arrived(time_s: float, job: int, due_in_s: float | None = None) -> Row:
    of_job = {"job": job, "job_class": "work", "queue": "default", "user": "ann"}
    return time_s, Fact.JOB_ARRIVED, {**of_job, "expected_s": due_in_s}


def started(time_s: float, job: int, run: int, resource: int, *machines: int) -> Row:
    held = machines or (resource,)
    return time_s, Fact.RUN_STARTED, {"job": job, "run": run, "resource": resource, "machines": held}


def over(time_s: float, fact: Fact, job: int, run: int, resource: int) -> Row:
    return time_s, fact, {"job": job, "run": run, "resource": resource}


# Job 0 in parallel on machines 0 and 1 from 0 to 20. Job 1 on machine 2 from 0, preempted at 10, again from
# 20 to 50. Job 2 arrives at 5 and runs on machine 0 from 20 to 24. Jobs 0 and 2 are due at 20 and 15.
GOOD = [
    arrived(0, 0, 20),
    arrived(0, 1),
    started(0, 0, 0, 3, 0, 1),
    started(0, 1, 1, 2),
    arrived(5, 2, 10),
    over(10, Fact.RUN_PREEMPTED, 1, 1, 2),
    over(20, Fact.RUN_ENDED, 0, 0, 3),
    started(20, 1, 2, 2),
    started(20, 2, 3, 0),
    over(24, Fact.RUN_ENDED, 2, 3, 0),
    over(50, Fact.RUN_ENDED, 1, 2, 2),
]


def test_the_job_table_has_the_times_of_the_completed_run() -> None:
    jobs = job_table(trace(*GOOD), SITE.n_machines)
    rows = jobs.select(
        "job_id", "starting_time", "execution_time", "waiting_time", "turnaround_time", "parallel", "attempts"
    ).rows()
    assert rows == [(0, 0, 20, 0, 20, True, 1), (1, 20, 30, 20, 50, False, 2), (2, 20, 4, 15, 19, False, 1)]


def test_bounded_slowdown_has_a_threshold_of_10_s_and_is_at_least_1() -> None:
    jobs = job_table(trace(*GOOD), SITE.n_machines)
    assert jobs["bounded_slowdown"].to_list() == [1.0, 50 / 30, 1.9]
    assert jobs["stretch"].to_list() == [1.0, 50 / 30, 19 / 4]


def test_every_metric_equals_the_hand_computed_trace() -> None:
    facts = trace(*GOOD)
    timings = pl.DataFrame(
        [
            (0, 0, "under-test", 0.0, 3, 4, 3, 0.25, 0.2, 0.0),
            (0, 0, "under-test", 20.0, 2, 4, 2, 0.5, 0.4, 0.1),
        ],
        schema=TIMINGS_SCHEMA,
        orient="row",
    )
    row = run_metrics(RunTables.of(facts=facts, timings=timings), job_table(facts, 3), description(3)).row(
        0, named=True
    )
    held_s = 2 * 20 + 10 + 30 + 4
    assert {m.key: row[m.key] for m in METRICS} == pytest.approx(
        {
            "sum_job_times": 20 + 50 + 19,
            "mean_turnaround": 89 / 3,
            "mean_waiting": 35 / 3,
            "mean_bounded_slowdown": (1 + 50 / 30 + 1.9) / 3,
            "makespan": 50,
            "utilisation": 100 * held_s / (3 * 50),
            "gpu_utilisation": None,
            "gpu_waiting": None,
            "mean_mpl": None,
            "parallel_share": 100 / 3,
            "stops": None,
            "local_slowdown": None,
            "tight_share": None,
            "response_time": None,
            "response_time_95": None,
            "late_share": None,
            "promised_share": None,
            "kept_share": None,
            "missed_share": 50.0,
            "mean_tardiness": 4.5,
            "max_tardiness": 9.0,
            **dict.fromkeys(metric.key for metric in OF_PERIODS),
            "refused_share": 0.0,
            "failed_share": None,
            "interrupted_runs": 1.0,
            "lost_hours": 10 / 3600,
            "decision_time": 750,
            **dict.fromkeys(metric.key for metric in DETAILS),
        }
    )


def test_jobs_csv_has_batsim_columns_and_machines_as_closed_intervals(tmp_path: Path) -> None:
    facts = trace(*GOOD)
    write_jobs_csv(tmp_path / "jobs.csv", job_table(facts, 3), failed_job_table(facts, 3))
    table = pl.read_csv(tmp_path / "jobs.csv", schema_overrides={"allocated_resources": pl.String})
    assert table["allocated_resources"].to_list() == ["0-1", "2", "0"]
    times = {f"{name}_time" for name in ("submission", "starting", "execution", "finish", "waiting")}
    assert {"job_id", *times, "turnaround_time", "stretch"} < set(table.columns)
    assert table["deadline"].to_list() == [20.0, None, 15.0]
    assert table["tardiness"].to_list() == [0.0, None, 9.0]


@pytest.mark.parametrize(
    ("rule", "job", "rows"),
    [
        (
            checker.NO_JOB_LOST,
            0,
            [arrived(0, 0), arrived(0, 1), started(0, 1, 0, 0), over(5, Fact.RUN_ENDED, 1, 0, 0)],
        ),
        (checker.NO_JOB_RUN_TWICE, 0, [arrived(0, 0), started(0, 0, 0, 0), started(1, 0, 1, 1)]),
        (
            checker.NO_JOB_RUN_TWICE,
            0,
            [arrived(0, 0), started(0, 0, 0, 0), over(5, Fact.RUN_ENDED, 0, 0, 0), started(6, 0, 1, 1)],
        ),
        (
            checker.NO_MACHINE_DOUBLE_BOOKED,
            1,
            [arrived(0, 0), arrived(0, 1), started(0, 0, 0, 2), started(1, 1, 1, 2)],
        ),
        (
            checker.NO_CLUSTER_WHILE_MEMBER_BUSY,
            1,
            [arrived(0, 0), arrived(0, 1), started(0, 0, 0, 1), started(1, 1, 1, 3, 0, 1)],
        ),
        (
            checker.NOTHING_ON_A_MACHINE_THAT_IS_DOWN,
            0,
            [arrived(0, 0), (1.0, Fact.MACHINE_DOWN, {"resource": 2}), started(2, 0, 0, 2)],
        ),
        (
            checker.WHAT_IS_OVER_IS_OVER,
            0,
            [
                arrived(0, 0),
                started(0, 0, 0, 0),
                over(1, Fact.RUN_PREEMPTED, 0, 0, 0),
                over(9, Fact.RUN_ENDED, 0, 0, 0),
            ],
        ),
        (checker.TIME_NEVER_GOES_BACK, None, [arrived(5, 0), arrived(4, 1)]),
        (checker.STARTS_AFTER_ARRIVAL, 0, [started(0, 0, 0, 0), arrived(0, 0)]),
        (checker.NO_MORE_NODES_THAN_THERE_ARE, 0, [arrived(0, 0), started(0, 0, 0, -1, 1, 2, 3)]),
    ],
)
def test_a_broken_invariant_is_reported_with_its_job(rule: str, job: int | None, rows: list[Row]) -> None:
    breach = first_violation(trace(*rows), CAPACITY)
    assert breach is not None
    assert (breach.rule, breach.job) == (rule, job)


PREEMPTED_ON_ONE_MACHINE = [
    *(arrived(0, job) for job in range(2)),
    started(0, 0, 0, 2),
    over(5, Fact.RUN_PREEMPTED, 0, 0, 2),
    started(5, 1, 1, 2),
    over(9, Fact.RUN_ENDED, 1, 1, 2),
    started(9, 0, 2, 2),
    over(20, Fact.RUN_ENDED, 0, 2, 2),
]
FAULTED = [arrived(0, 0), (1.0, Fact.FAULT, {"detail": "raises-nothing", "message": "it raised"})]
REFUSED = [arrived(0, 0), (1.0, Fact.JOB_REFUSED, {"job": 0, "detail": "too large"})]


@pytest.mark.parametrize("rows", [GOOD, PREEMPTED_ON_ONE_MACHINE, FAULTED, REFUSED])
def test_a_valid_trace_and_one_up_to_a_fault_break_no_invariant(rows: list[Row]) -> None:
    assert first_violation(trace(*rows), CAPACITY) is None


def test_time_shared_nodes_hold_as_many_runs_as_their_limit() -> None:
    """Two runs on node 1; the third is one too many, and not once a run of two nodes has ended."""
    rows = [
        *(arrived(0, job) for job in range(4)),
        started(0, 0, 0, -1, 0, 1),
        started(1, 1, 1, -1, 1, 2),
        over(2, Fact.RUN_ENDED, 0, 0, -1),
        started(2, 2, 2, -1, 0, 1, 2),
        over(3, Fact.RUN_LOST, 2, 2, -1),
        started(4, 2, 3, -1, 1),
        started(5, 3, 4, -1, 0, 1),
    ]
    assert first_violation(trace(*rows[:-1], (5, Fact.FAULT, {})), Capacity(3, 2)) is None
    breach = first_violation(trace(*rows), Capacity(3, 2))
    assert breach is not None
    assert (breach.rule, breach.job) == (checker.MPL_WITHIN_LIMIT, 3)
    assert breach.message == ("job 3 starts at 5 s on node 1, which then has 3 parallel tasks; 2 are allowed")


def test_a_confidence_interval_uses_students_t() -> None:
    values = np.array([3.0, 5.0, 10.0])
    half = stats.t.ppf(0.975, 2) * values.std(ddof=1) / math.sqrt(3)
    found = interval(values)
    assert (found.mean, found.half_width) == pytest.approx((6.0, half))
    alone = interval(values[:1])
    assert (alone.mean, alone.half_width, alone.excludes_zero) == (3.0, None, False)


def test_paired_differences_cancel_common_variation() -> None:
    baseline = np.array([10.0, 1000.0, 50.0])
    changes = percent_changes(0.1 * baseline, baseline)
    assert changes == pytest.approx([10.0] * 3)
    assert interval(changes).half_width is None, "no spread is no interval"


def test_a_percentage_change_is_the_difference_of_means_over_the_baseline_mean() -> None:
    """With the standard error of the delta method, here from means, variances and the covariance."""
    baseline, values = np.array([1.0, 2.0, 9.0, 4.0]), np.array([2.0, 3.0, 5.0, 4.0])
    found = interval(percent_changes(values - baseline, baseline))
    ratio = values.mean() / baseline.mean()
    (of_values, both), (_, of_baseline) = np.cov(values, baseline)
    variance = (of_values - 2 * ratio * both + ratio**2 * of_baseline) / 4 / baseline.mean() ** 2
    assert found.mean == pytest.approx(100 * (values.mean() - baseline.mean()) / baseline.mean())
    assert found.half_width == pytest.approx(100 * stats.t.ppf(0.975, 3) * math.sqrt(variance))
    assert found.mean < 0, "as the difference, although the mean of the ratios is above 1"


@pytest.mark.parametrize("n", [1, 2, 19, 20, 21, 40, 60, 100, 101])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.95, 1.0])
def test_a_quantile_is_the_smallest_value_with_that_cumulative_share(n: int, share: float) -> None:
    values = np.random.default_rng(n).permutation(n).astype(float)
    found = pl.DataFrame({"v": values}).select(quantile(pl.col("v"), share)).item()
    expected = min(v for v in values if np.mean(values <= v) >= share)
    assert found == expected == np.quantile(values, share, method="inverted_cdf")


@pytest.mark.parametrize("content", [None, b"", b"PAR1 and then nonsense"])
def test_a_file_that_is_not_a_trace_is_rejected_in_one_sentence(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "trace.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NoTrace, match=r"trace\.parquet: "):
        read_trace(path)


def test_a_foreign_parquet_file_and_a_trace_of_another_version_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "trace.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(path)
    with pytest.raises(NoTrace, match="not a trace written by"):
        read_trace(path)
    pl.DataFrame({"time_s": [0.0], "machines": [[1]]}).write_parquet(path, metadata={"sil": "{}"})
    with pytest.raises(NoTrace, match="written by another version"):
        read_trace(path)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(2.0, 0.5), "+2.0 ±0.5"),
        (Interval(2.0, 0.5, 0.02), "+2.0 ±0.5"),
        (Interval(2.0, 0.5, 0.1), "+2.0 [+1.6, +2.6]"),
        (Interval(2.0, 1.98, -0.04), "+2.0 [-0.0, +3.9]"),
        (Interval(-2.0, None), "-2.0"),
    ],
)
def test_an_interval_is_printed_with_its_limits_unless_it_is_nearly_symmetrical(
    found: Interval, text: str
) -> None:
    """Nor with its half-width where that would exclude 0, and the limits do not."""
    assert found.text(",.1f", "+") == text


@pytest.mark.parametrize("n", [5, 10, 20])
def test_intervals_of_skewed_gains_miss_less_often_than_students_t(n: int) -> None:
    """And those of symmetrical ones do not miss more often."""
    rng, tries = np.random.default_rng(n), up_to(2000)
    skewed, even = rng.lognormal(0.0, 1.0, (tries, n)), rng.normal(0.0, 1.0, (tries, n))

    def misses(how: Callable[[Sample], Interval], samples: Sample, mean: float) -> int:
        return sum(not each.low <= mean <= each.high for each in map(how, samples))

    mean = math.exp(0.5)
    assert misses(skewed_interval, skewed, mean) <= 0.85 * misses(interval, skewed, mean)
    assert misses(skewed_interval, even, 0.0) <= misses(interval, even, 0.0)
