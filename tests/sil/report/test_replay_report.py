"""The statistics that the report of a replay has besides those of the summary, worked by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import UserError
from sil.outcome.paired import MAX_CORRELATION, MIN_BLOCKS, PairedDifferences, paired_differences
from sil.outcome.statistics import interval
from sil.report.analysis import Analysis
from sil.report.figures import SHADES, SLOWDOWNS, WAITS, sizes
from sil.report.origin import origin_terms, record_origin
from sil.report.replay.by_size import (
    by_user,
    fairness_table,
    jobs_by_size_and_run_time,
    waiting_by_week_and_size,
)
from sil.report.replay.measured import Replayed, measured
from sil.report.replay.over_time import small_multiples
from sil.report.tables import duration_text, replay_rows
from sil.report.vega_lite import specification
from sil.trace.log_clock import LogClock
from sil.workload.lublin import Lublin
from sil.workload.slices import DAY_S
from sil.workload.swf_writing import write_swf
from tests.commands import sil, succeeded
from tests.examples import up_to


def jobs(*columns: Sequence[Any], **more: Sequence[Any]) -> pl.DataFrame:
    """Jobs of two processors, from columns of submissions, starts and ends in days."""
    submitted, started, ended = (np.array(column, dtype=float) * DAY_S for column in columns)
    table = pl.DataFrame(
        {
            "job_id": range(len(submitted)),
            "submission_time": submitted,
            "starting_time": started,
            "finish_time": ended,
            "requested_number_of_resources": [2] * len(submitted),
        }
    )
    return table.with_columns(
        success=pl.lit(1),
        waiting_time=pl.col("starting_time") - pl.col("submission_time"),
        turnaround_time=pl.col("finish_time") - pl.col("submission_time"),
        execution_time=pl.col("finish_time") - pl.col("starting_time"),
        stretch=pl.lit(1.0),
        bounded_slowdown=(pl.col("finish_time") - pl.col("submission_time"))
        / (pl.col("finish_time") - pl.col("starting_time")),
        **{name: pl.Series(values) for name, values in more.items()},
    )


# -- paired differences ----------------------------------------------------------------------------------


def differences(
    submitted: Any, before: Any, after: Any, block_days: float | None = None
) -> PairedDifferences:
    """Of jobs that run for a day, from these days on before and after."""
    baseline, other = (jobs(submitted, starts, starts + 1) for starts in (before, after))
    found = paired_differences(other, baseline, "waiting_time", block_days)
    assert found is not None
    return found


def test_differences_are_job_by_job_and_their_means_by_block() -> None:
    """Job 2 is only in the baseline; blocks of two days begin at the first submission of both."""
    baseline = jobs([0, 1, 2, 3, 7], [2, 2, 2, 5, 7], [3, 3, 3, 6, 8])
    other = jobs([0, 1, 2, 3, 7], [1, 3, 9, 3, 7], [3, 4, 10, 6, 8]).filter(pl.col("job_id") != 2)
    found = paired_differences(other, baseline, "waiting_time", 2.0)
    assert found is not None
    assert found.difference.mean == DAY_S * (-1 + 1 - 2 + 0) / 4
    assert (found.less, found.more, found.jobs) == (0.5, 0.25, 4)
    assert found.by_block.rows() == [(0.0, 0.0), (2.0, -2.0 * DAY_S), (6.0, 0.0)]
    assert found.difference.half_width is None, "there are too few blocks"
    assert paired_differences(other.clear(), baseline, "waiting_time", 2.0) is None


def test_the_interval_of_equally_large_blocks_is_nearly_students_of_their_means() -> None:
    """Whole blocks differ, jobs in one do not; block effects are normal."""
    rng, n_blocks, in_block = np.random.default_rng(7), 40, 25
    submitted = np.repeat(np.arange(n_blocks), in_block) + np.tile(np.arange(in_block) / in_block, n_blocks)
    effects = rng.normal(0.3, 1.0, n_blocks).repeat(in_block)
    found, by_job = (
        differences(submitted, submitted + 5, submitted + 5 + effects, block) for block in (1.0, 0.01)
    )
    means = found.by_block["difference"].to_numpy()
    assert len(means) == n_blocks
    expected = interval(means)
    width = expected.high - expected.low
    limits = found.difference.low, found.difference.high
    assert limits == pytest.approx((expected.low, expected.high), abs=0.1 * width)
    assert by_job.difference.high - by_job.difference.low < width / 3, "as if jobs were independent"
    assert (found.correlation or 0.0) < MAX_CORRELATION < (by_job.correlation or 0.0)


def test_the_interval_has_the_mean_of_the_population_as_often_as_it_says() -> None:
    """Effects of blocks are skewed, with mean 1 day; of intervals between percentiles of means, 84 % did."""
    rng, n_blocks, hits = np.random.default_rng(3), 12, 0
    days = np.arange(n_blocks)
    for _ in range(60):
        later = days + rng.exponential(1.0, n_blocks)
        found = differences(days, days, later, 1)
        hits += found.difference.low <= DAY_S <= found.difference.high
    assert hits >= 0.88 * 60


@pytest.mark.parametrize(
    ("n", "later_days", "is_given"),
    [
        (MIN_BLOCKS, lambda days: days % 3, True),
        (MIN_BLOCKS - 1, lambda days: days % 3, False),
        (30, lambda days: days == 7, False),
        (30, lambda days: days % 10 == 7, False),
        (30, lambda days: 0 * days, False),
        (30, lambda days: 1 + 0 * days, False),
    ],
)
def test_an_interval_needs_eight_blocks_and_some_that_differ(n: int, later_days: Any, is_given: bool) -> None:
    days = np.arange(n)
    later, days = 1.08 * days + later_days(days), 1.08 * days  # the last block is no rest
    found = differences(days, days, later, 1)
    assert (found.difference.half_width is not None) == is_given
    assert found.difference.mean == pytest.approx(DAY_S * np.mean(later - days))
    assert is_given or not found.difference.excludes_zero


def test_blocks_that_differ_at_random_are_seldom_told_apart() -> None:
    """Of intervals by a bootstrap, 8 to 10 % excluded a true difference of 0, with 8 blocks of a week."""
    rng, false, days = np.random.default_rng(5), 0, np.arange(MIN_BLOCKS)
    for _ in range(tries := up_to(400)):
        later = days + 5 + rng.normal(0.0, 1.0, len(days))
        false += differences(days, days + 5, later, 1).difference.excludes_zero
    assert false <= 0.075 * tries


# -- warm-up and cool-down -------------------------------------------------------------------------------


def replayed(table: pl.DataFrame, days: float) -> Replayed:
    rows = {"easy": {"waiting_time_mean": 1.0, "makespan": 1.0, "fault": None, "refused": "a sentence"}}
    described = {"schedulers": rows, "processors": 4, "gpus": 0, "days": days}
    described["bounded_slowdown_threshold_s"] = 10.0
    return Replayed(described, {"easy": table})


def test_trimmed_jobs_do_not_count_but_use_the_machine() -> None:
    """From day 2 to day 8 the first job uses two of four processors for a day, the second and third for two
    each, and the last for one."""
    table = jobs([0, 3, 5, 10], [0, 3, 6, 7], [3, 5, 8, 12])
    found = measured(replayed(table, 10.0), Analysis(2, 2))
    assert found.jobs["easy"]["job_id"].to_list() == [1, 2]
    statistics = found.statistics["easy"]
    assert statistics["waiting_time_mean"] == DAY_S / 2
    assert statistics["utilisation"] == pytest.approx(100 * (1 + 2 + 2 + 1) / (6 * 2))
    assert "makespan" not in statistics
    assert list(found.refusals) == ["a sentence"]


def test_nothing_is_trimmed_without_a_warm_up_or_a_cool_down() -> None:
    all_jobs = replayed(jobs([0, 1], [0, 1], [1, 2]), 1.0)
    assert measured(all_jobs, Analysis(block_days=1)) is all_jobs


def test_a_warm_up_that_leaves_no_job_is_an_error() -> None:
    with pytest.raises(UserError, match=r"leave nothing of a log of 10\.0 days"):
        measured(replayed(jobs([0, 10], [0, 10], [1, 11]), 10.0), Analysis(6, 4))
    with pytest.raises(UserError, match="no job was submitted between"):
        measured(replayed(jobs([0, 10], [0, 10], [1, 11]), 10.0), Analysis(4, 4))


def test_the_commands_trim_and_say_so(here: Path) -> None:
    write_swf(here / "log.swf", Lublin().jobs(300, 32, np.random.default_rng(1)).at_load(0.8))
    trimmed = ("--warm-up-days", "1", "--cool-down-days", "0.5", "--block-days", "0.5")
    command = ("replay", "log.swf", "--scheduler", "fcfs", "--scheduler", "easy", "--out", "out", *trimmed)
    succeeded(*command)
    page = (here / "out" / "report.html").read_text()
    assert "without those submitted in the first 1 and the last 0.5 days" in page
    assert "blocks of 0.5 days" in page
    succeeded("report", "out", "--warm-up-days", "0", "--cool-down-days", "0")
    assert "without those submitted" not in (here / "out" / "report.html").read_text()
    succeeded("report", "out")
    assert (here / "out" / "report.html").read_text() == page
    (here / "out" / "report.html").unlink()
    succeeded(*command, "--no-report")
    succeeded("report", "out")
    assert "without those submitted" in (here / "out" / "report.html").read_text()
    for command in (("replay", "log.swf", "--out", "no"), ("report", "out")):
        result = sil(*command, "--warm-up-days", "1000", "--cool-down-days", "0")
        assert result.exit_code == 2
        assert "1000 days of warm-up and 0 of cool-down leave nothing of a log of" in result.stderr
    assert not (here / "no").exists()


# -- by user, by size, by week ---------------------------------------------------------------------------


def test_users_have_the_means_of_their_jobs_and_an_index_of_fairness() -> None:
    """Ann waits for as long as she runs, Ben three times as long: (2 + 4)^2 / (2 * (4 + 16)) = 0.9."""
    table = jobs([0, 0, 0], [1, 2, 3], [2, 4, 4], user=["ann", "ann", "ben"])
    users = by_user({"easy": table})
    assert users.select("user", "jobs", "processor-hours", "mean bounded slowdown").rows() == [
        ("ann", 2, 144.0, 2.0),
        ("ben", 1, 48.0, 4.0),
    ]
    assert [row[1:] for row in fairness_table(users, ["easy", "faulty"]).rows] == [
        ["0.900", "-"],
        ["3.00", "-"],
        ["3.90", "-"],
        ["4.00", "-"],
    ]
    assert by_user({"easy": jobs([0], [0], [1])}).is_empty()


@given(st.lists(st.floats(0, 1e9), max_size=50))
@settings(max_examples=up_to(50))
def test_classes_are_bounded_below(numbers: list[float]) -> None:
    for classes in (WAITS, SLOWDOWNS, sizes(80_640)):
        begins = [0.0, *classes.begins]
        expected = [classes.labels[sum(number >= begin for begin in begins) - 1] for number in numbers]
        found = pl.DataFrame({"x": numbers}, schema={"x": pl.Float64}).select(classes.label(pl.col("x")))
        assert found["x"].to_list() == expected
        assert len(classes.labels) == len(classes.shades) == len(set(classes.shades)) <= len(SHADES)


def test_classes_of_sizes_fit_the_machine() -> None:
    assert list(sizes(1).begins) == [2]
    assert list(sizes(100).begins) == [2, 4, 8, 16, 32, 64, 128]
    assert list(sizes(80_640).begins) == [8, 64, 512, 4_096, 32_768]


def test_jobs_are_counted_by_size_and_run_time() -> None:
    table = jobs([0, 0, 0], [0, 0, 0], [1, 1.5, 1 / 24]).with_columns(
        requested_number_of_resources=pl.Series([8, 5, 8])
    )
    cells = jobs_by_size_and_run_time(table).data
    assert cells is not None
    assert cells.select("processors", "run time", "jobs", "processor-hours").rows() == [
        ("5-8", "from 1 day", 2, 8 * 24 + 5 * 36),
        ("5-8", "from 1 h", 1, 8),
    ]


def test_waiting_is_by_week_of_submission_and_by_several_in_long_logs() -> None:
    submitted = np.array([0, 6.9, 7, 20])
    chart = waiting_by_week_and_size(
        {"easy": jobs(submitted, submitted + np.array([1, 3, 0, 8]), submitted + 10)}, ["easy"]
    )
    assert chart.data is not None
    assert chart.data.select("week", "end", "jobs", "mean (s)", "shade").rows() == [
        (0, 1, 2, pytest.approx(2 * DAY_S), "from 1 day"),
        (1, 2, 1, 0.0, "less than 1 s"),
        (2, 3, 1, pytest.approx(8 * DAY_S), "from 7 days"),
    ]
    years = np.arange(0, 20 * 365, 5)
    chart = waiting_by_week_and_size({"easy": jobs(years, years, years + 1)}, ["easy"])
    assert chart.data is not None
    assert chart.data["week"].n_unique() <= 104
    assert (chart.data["end"] - chart.data["week"]).unique().to_list() == [11]


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["/usr/bin/sil", "replay", "my log.swf"], "sil replay 'my log.swf'"),
        (["study.py", "3"], "python study.py 3"),
        (["-c"], "none: made in a session of Python"),
        ([""], "none: made in a session of Python"),
        (["/lib/ipykernel_launcher.py", "-f", "/tmp/kernel.json"], "none: made in a notebook"),
    ],
)
def test_the_origin_has_the_command_if_there_is_one(
    arguments: list[str], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", arguments)
    record_origin(tmp_path, {})
    assert dict(origin_terms(tmp_path))["Command"] == command


# -- the page --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("days", "block_days", "n_blocks"), [(60, 7, 9), (53, 7, 8), (50, 1, 50), (0, 1, 1)])
def test_blocks_are_weeks_or_in_shorter_logs_days_and_a_short_rest_is_none_of_its_own(
    days: int, block_days: float, n_blocks: int
) -> None:
    """A block of some minutes was drawn as a drop."""
    submitted = np.array([*range(days), days + 0.01])
    found = differences(submitted, submitted, submitted + 1)
    assert (found.block_days, len(found.by_block)) == (block_days, n_blocks)


@pytest.mark.reads_report
def test_the_page_begins_with_the_answer_relative_to_easy_and_has_units(tmp_path: Path) -> None:
    path, out = tmp_path / "log.swf", tmp_path / "out"
    write_swf(path, Lublin().jobs(400, 32, np.random.default_rng(1)).at_load(0.9))
    options = ("--out", str(out), "--workers", "1")
    succeeded("replay", str(path), *options)
    page = (out / "report.html").read_text()
    assert re.search(
        r'class="answer">easy: mean wait [\d.,]+ (h|min|d); fcfs [^;]* more.*; conservative ', page
    )
    for shown in ("Differences to easy", "<main>", '<th scope="row">Mean waiting time</th>', "@media print"):
        assert shown in page, shown
    assert not re.search(r"\d{3}\.0</td>", page)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (61.2, "1.02 min"),
        (6_840, "1.90 h"),
        (353_776, "4.09 d"),
        (29_370_000, "340 d"),
    ],
)
def test_durations_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_refused_jobs_and_their_hours_are_in_the_table() -> None:
    """Of a log in which a job of 2 processors ran for 2 hours, and was refused under one scheduler."""
    statistics = {"easy": {"refused_jobs": 1.0, "refused_hours": 4.0}, "fcfs": {}}
    assert replay_rows(statistics)[-2:] == [
        ("Refused jobs", ["1", "0"]),
        ("Processor-hours of refused jobs", ["4", "0"]),
    ]
    assert "Refused jobs" not in dict(replay_rows({"easy": {}}))


def test_charts_over_time_have_dates_where_the_log_has_them() -> None:
    """The second 0 of this log is 23:00 UTC, midnight in Berlin."""
    jobs = pl.DataFrame(
        {
            "submission_time": [3600.0, 90_000.0],
            "starting_time": [7200.0, 90_000.0],
            "finish_time": [9000.0, 180_000.0],
            "requested_number_of_resources": [1, 2],
        }
    )
    berlin = LogClock(3600.0, 1_767_567_600.0, ZoneInfo("Europe/Berlin"))
    figures = [small_multiples({"a": jobs}, ["a"], 4, 0, clock) for clock in (berlin, LogClock())]
    texts = [json.dumps(specification(figure)) for figure in figures]
    midnight_ms = datetime(2026, 1, 5, tzinfo=UTC).timestamp() * 1e3
    assert f"{midnight_ms + 3_600_000.0!r} + datum.day" in texts[0]
    assert '"field": "date", "type": "temporal"' in texts[0]
    assert "Days since the first submission" in texts[1]
    assert "temporal" not in texts[1]
