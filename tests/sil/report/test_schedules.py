"""Schedules that a reader of the report zooms into: levels of detail, and their size."""

from __future__ import annotations

import gzip
from base64 import b64decode
from math import ceil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sil.experiment.replay import replay_all
from sil.experiment.replay_folder import read
from sil.report import schedule_chart
from sil.report.analysis import ALL_JOBS
from sil.report.figures import WAITS
from sil.report.schedule_chart import (
    FULL,
    MAX_BINS,
    MIN_BINS,
    DrawnRuns,
    bins_needed,
    levels,
    packed,
    schedules,
    users_by_work,
)
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.workers.executor import Inline, Listener
from sil.workload.lublin import Lublin
from tests.examples import up_to

PROCESSORS, SPAN_S = 6, 40.0


def jobs(rows: list[tuple[float, float, float, str]], users: list[str] | None = None) -> pl.DataFrame:
    """Jobs from their submission, start, end and processors."""
    submitted, started, ended, held = zip(*rows, strict=True)
    sizes = [len(processors_of(each)) for each in held]
    table = pl.DataFrame(
        {
            "job_id": range(1, len(rows) + 1),
            "submission_time": submitted,
            "requested_number_of_resources": sizes,
            "requested_time": [e - s for s, e in zip(started, ended, strict=True)],
            "starting_time": started,
            "finish_time": ended,
            "allocated_resources": held,
        }
    )
    return table if users is None else table.with_columns(user=pl.Series(users))


def processors_of(held: str) -> list[int]:
    ends = [list(map(int, part.split("-"))) for part in held.split(" ")]
    return [processor for end in ends for processor in range(end[0], end[-1] + 1)]


@st.composite
def schedules_of_six(draw: st.DrawFn) -> list[tuple[float, float, float, str]]:
    """Runs that follow each other on each of two groups of processors."""
    rows = []
    for held in ("0-1 4", "2-3 5"):
        edges = sorted(draw(st.lists(st.integers(0, 40), min_size=2, max_size=8, unique=True)))
        for start, end in zip(edges[::2], edges[1::2], strict=False):
            wait = draw(st.integers(0, start))
            rows.append((float(start - wait), float(start), float(end), held))
    return rows


@given(schedules_of_six())
@settings(max_examples=up_to(50), deadline=None)
def test_cells_have_the_means_over_their_processors_and_their_time(
    rows: list[tuple[float, float, float, str]],
) -> None:
    bins, bands = MIN_BINS, 3  # two processors in each band
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schedule_chart, "BANDS", bands)
        ((n, cells),) = levels(DrawnRuns.of(jobs(rows), 0.0, []), SPAN_S, PROCESSORS, bins, 7)
    assert n == bins
    width_s = SPAN_S / bins
    for band, bin_ in ((band, bin_) for band in range(bands) for bin_ in range(0, bins, 97)):
        from_s, until_s = bin_ * width_s, (bin_ + 1) * width_s
        areas = [
            max(0.0, min(end, until_s) - max(start, from_s))
            * sum(p // 2 == band for p in processors_of(held))
            for _, start, end, held in rows
        ]
        cell = band * bins + bin_
        assert cells["busy"][cell] == ceil(round(FULL * sum(areas) / (2 * width_s), 3))
        if sum(areas):
            mean_s = np.average([start - submitted for submitted, start, *_ in rows], weights=areas)
            assert cells["wait"][cell] == sum(round(mean_s, 3) >= begin for begin in WAITS.begins)


def test_a_coarser_level_has_the_means_of_the_finer_one_and_cells_the_user_who_has_most() -> None:
    table = jobs([(0, 0, 10, "0-5"), (0, 10, 40, "0-3"), (0, 10, 40, "4-5")], ["ann", "ben", "ann"])
    users = users_by_work([table])
    assert users == ["ann", "ben"], "60 + 60 and 120 processor-seconds, hence by name"
    fine, coarse = levels(DrawnRuns.of(table, 0.0, users), SPAN_S, PROCESSORS, 4 * MIN_BINS, 7)
    assert (fine[0], coarse[0]) == (4 * MIN_BINS, MIN_BINS)
    for bins, cells in (fine, coarse):
        by_user = cells["user"].reshape(PROCESSORS, bins)
        assert [users[k] for k in by_user[:, bins // 8]] == ["ann"] * 6
        assert [users[k] for k in by_user[:, bins // 2]] == ["ben"] * 4 + ["ann"] * 2
        assert (cells["busy"] == FULL).all()


def test_levels_are_as_fine_as_the_number_of_rectangles_needs() -> None:
    assert bins_needed(8_000, 8_000, 128) == 0, "all runs are drawn one by one"
    assert bins_needed(8_001, 8_000, 128) == MIN_BINS
    assert bins_needed(100_000, 8_000, 128) == 4 * MIN_BINS
    assert bins_needed(10**9, 8_000, 128) == MAX_BINS


@given(st.lists(st.integers(-(2**40), 2**40), max_size=50), st.booleans())
@settings(max_examples=up_to(100))
def test_packed_numbers_can_be_unpacked(numbers: list[int], rise: bool) -> None:
    """As the page does it."""
    given_numbers = np.array(sorted(numbers) if rise else numbers, dtype=np.int64)
    found = packed({"x": given_numbers})
    (column,) = found.columns
    planes = np.frombuffer(gzip.decompress(b64decode(found.text)), np.uint8).reshape(column["width"], -1)
    values = sum(plane.astype(np.int64) << 8 * k for k, plane in enumerate(planes)) + column["base"]
    if column["first"] is not None:
        values[0] = column["first"]
        values = np.cumsum(values)
    assert np.array_equal(values, given_numbers)


def test_a_schedule_takes_less_than_thirteen_bytes_per_job(tmp_path: Path) -> None:
    log = Lublin().jobs(20_000, 128, np.random.default_rng(1)).at_load(0.9)
    replay_all(Replay(log), [resolve("easy")], tmp_path, Inline(), ALL_JOBS, Listener())
    found = schedules(read(tmp_path).jobs, 128)
    of_jobs = len(found.texts["schedule-jobs-0"])
    assert of_jobs < 11 * 20_000
    assert sum(map(len, found.texts.values())) < of_jobs + 2 * 200_000, "two levels"
