"""Logs that are replayed: published schedules to the second, small ones worked by hand, and the command."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import unescape
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import Result

from scheduler.rules import (
    DETERMINISTIC,
    MAKES_PROGRESS,
    NODES_FREE,
    PROBLEM_UNTOUCHED,
    RAISES_NOTHING,
    RETURNS_IN_TIME,
)
from sil.experiment.replay import FEW_IN_ALL
from sil.experiment.replay_folder import DESCRIBED, OPTIONAL, REPORT
from sil.outcome.invariants.checker import Capacity, first_violation
from sil.outcome.jobs import JOBS
from sil.outcome.replay_statistics import ReplayStatistics
from sil.outcome.replayed_log import JobsMay, ReplayedLog, Results
from sil.report.replay import over_time as charts
from sil.report.replay.over_time import BINS, GANTT_RECTANGLES, gantt, queue_length, utilisation
from sil.report.vega_lite import specification
from sil.runs.on_log import Replay
from sil.runs.under_test import UnderTest, resolve
from sil.settings.replays import Engine, Estimates
from sil.trace.facts import METADATA_KEY, TIMINGS, TRACE, Fact
from sil.trace.held import MACHINES_AS_TEXT, column
from sil.workers.executor import Inline, Interrupted, Item, Listener
from sil.workers.processes import Processes
from sil.workload.job_log import SCHEMA, JobLog
from sil.workload.lublin import Lublin
from sil.workload.slices import DAY_S
from sil.workload.swf import read_swf
from sil.workload.swf_writing import write_swf
from sil.world.guard.faults import PROCESS_SURVIVES
from tests import faulty_on_free_nodes
from tests.builders import trace
from tests.commands import sil, succeeded, the_sentence
from tests.oracles import oracle
from tests.sil.experiment.replaying import jobs_under, replay_all, replayed_jobs

pytestmark = pytest.mark.usefixtures("in_this_process")

Row = tuple[int, float, float, int, float, int]
"""Job, submission, run time, processors, estimate, user."""


def log_of(rows: Sequence[Row], processors: int) -> JobLog:
    return JobLog("small.swf", pl.DataFrame(rows, schema=SCHEMA, orient="row"), processors)


def facts_of(replay: Replay, scheduler: str, folder: Path) -> pl.DataFrame:
    replay.run(resolve(scheduler), folder)
    return pl.read_parquet(folder / TRACE)


def starts(facts: pl.DataFrame) -> dict[int, float]:
    return dict(facts.filter(pl.col("event") == Fact.RUN_STARTED).select("job", "time_s").iter_rows())


# -- published schedules ---------------------------------------------------------------------------------

LOGS = ("KTH-SP2", pytest.param("CTC-SP2", marks=pytest.mark.long))
PUBLISHED = {
    "easy": ("easy", Estimates.USER),
    "easy_clairvoyant": ("easy", Estimates.ACTUAL),
    "easy_sjbf_clairvoyant": ("easy_sjbf", Estimates.ACTUAL),
}
MEAN_SLOWDOWN_OF_EASY = {"KTH-SP2": 92.576539734, "CTC-SP2": 49.571290219}
FCFS = {"KTH-SP2": (353_776.4091, 6_814.9733), "CTC-SP2": (655_557.1192, 3_651.5662)}
"""Mean wait (s), mean bounded slowdown."""


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize(
    ("policy", "engine"),
    [
        *((policy, Engine.COMPILED) for policy in PUBLISHED),
        ("easy", Engine.HARNESS),
        *(
            pytest.param(policy, Engine.HARNESS, marks=pytest.mark.long)
            for policy in PUBLISHED
            if policy != "easy"
        ),
    ],
)
def test_every_start_equals_the_published_one(name: str, policy: str, engine: Engine, tmp_path: Path) -> None:
    published = pl.read_csv(gzip.decompress(oracle(f"swf/{name}.starts.csv.gz").read_bytes()))
    log = read_swf(oracle(f"swf/{name}.swf.gz"))
    scheduler, estimates = PUBLISHED[policy]
    replay = Replay(log, estimates=estimates, order="archive", engine=engine)
    statistics = replay.run(resolve(scheduler), tmp_path).statistics
    jobs = replayed_jobs(tmp_path / TRACE, log.jobs)
    both = published.join(jobs, left_on="job", right_on="job_id", how="full")
    other = both.filter(pl.col(policy).cast(pl.Float64).ne_missing(pl.col("starting_time")))
    assert other.height == 0, other.select("job", policy, "starting_time").head()
    assert first_violation(pl.read_parquet(tmp_path / TRACE), Capacity(log.processors)) is None
    if policy == "easy":
        expected = pytest.approx(MEAN_SLOWDOWN_OF_EASY[name], abs=5e-10)
        assert statistics["bounded_slowdown_mean"] == expected


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("order", ["default", "archive"])
def test_fcfs_waiting_times_equal_those_of_six_other_programs(name: str, order: str, tmp_path: Path) -> None:
    log = read_swf(oracle(f"swf/{name}.swf.gz"))
    found = Replay(log, order=order).run(resolve("fcfs"), tmp_path).statistics
    jobs = replayed_jobs(tmp_path / TRACE, log.jobs)
    wait_s, slowdown = FCFS[name]
    assert round(found["waiting_time_mean"], 4) == wait_s
    assert round(found["bounded_slowdown_mean"], 4) == slowdown
    in_order = jobs.sort("submission_time", "job_id")["starting_time"].to_numpy()
    assert (np.diff(in_order) >= 0).all(), "who comes first starts first"


# -- worked by hand --------------------------------------------------------------------------------------

# On two processors. Job 1 says 20 s, and ends as job 3 arrives, at 5 s.
#
# default: the end is reported first.        archive: job 3 arrives first, and a round follows.
# 1 |     22223333333333|                    1 |     333333333322223|
# 0 |111112222          |                    0 |11111          2222 |
#
THREE: list[Row] = [(1, 0.0, 5.0, 1, 20.0, 7), (2, 1.0, 4.0, 2, 10.0, 8), (3, 5.0, 10.0, 1, 10.0, 7)]
TRACE_COLUMNS = ("time_s", "event", "job", "run", MACHINES_AS_TEXT, "user", "tasks", "expected_s")
DEFAULT = """
0.0,job_arrived,1,,,user-7,1,
0.0,run_started,1,0,0,,1,20.0
1.0,job_arrived,2,,,user-8,2,
5.0,run_ended,1,0,,,,
5.0,job_arrived,3,,,user-7,1,
5.0,run_started,2,1,0-1,,2,10.0
9.0,run_ended,2,1,,,,
9.0,run_started,3,2,0,,1,10.0
19.0,run_ended,3,2,,,,
"""
ARCHIVE = """
0.0,job_arrived,1,,,user-7,1,
0.0,run_started,1,0,0,,1,20.0
1.0,job_arrived,2,,,user-8,2,
5.0,job_arrived,3,,,user-7,1,
5.0,run_started,3,1,1,,1,10.0
5.0,run_ended,1,0,,,,
15.0,run_ended,3,1,,,,
15.0,run_started,2,2,0-1,,2,10.0
19.0,run_ended,2,2,,,,
"""


@pytest.mark.parametrize(("order", "expected"), [("default", DEFAULT), ("archive", ARCHIVE)])
def test_golden_traces_of_a_small_log_in_both_event_orders(order: str, expected: str, tmp_path: Path) -> None:
    facts = facts_of(Replay(log_of(THREE, 2), order=order), "easy", tmp_path)
    assert facts.select(TRACE_COLUMNS).write_csv(include_header=False).strip() == expected.strip()
    shown = facts.select(TRACE_COLUMNS).columns
    others = facts.drop(*shown, "shares").unique(maintain_order=True).rows()
    arrival = (0, 0, "easy", None, "rigid", "default", None, None, None, None)
    assert others == [arrival, (0, 0, "easy", -1, *[None] * 6)]


def test_in_archive_order_a_round_follows_each_arrival(tmp_path: Path) -> None:
    """Of two jobs that come at once, the shorter one is first only where both are known."""
    log = log_of([(1, 0.0, 9.0, 1, 9.0, 1), (2, 0.0, 3.0, 1, 3.0, 1)], 1)
    assert starts(facts_of(Replay(log), "sjf", tmp_path)) == {1: 3.0, 2: 0.0}
    assert starts(facts_of(Replay(log, order="archive"), "sjf", tmp_path)) == {1: 0.0, 2: 9.0}


def test_in_archive_order_runs_that_end_as_estimated_free_their_nodes_before_arrivals(tmp_path: Path) -> None:
    """Both runs end at 5 s, one as was believed: job 4 starts on its processor, before job 3 on both."""
    log = log_of(
        [
            (1, 0.0, 5.0, 1, 5.0, 1),
            (2, 0.0, 5.0, 1, 9.0, 1),
            (3, 1.0, 5.0, 2, 5.0, 1),
            (4, 5.0, 4.0, 1, 4.0, 1),
        ],
        2,
    )
    assert starts(facts_of(Replay(log, order="archive"), "easy", tmp_path)) == {1: 0, 2: 0, 3: 9, 4: 5}
    assert starts(facts_of(Replay(log), "easy", tmp_path)) == {1: 0, 2: 0, 3: 5, 4: 10}


def test_a_run_that_ends_at_its_corrected_estimate_is_not_extended(tmp_path: Path) -> None:
    """Job 3 is believed to take 100 s, then 160, then the 400 that were asked for, which it does. Job 5 could
    start before job 4 only if that were reserved for a later time than 1400 s."""
    log = log_of(
        [
            (1, 0.0, 100.0, 1, 400.0, 1),
            (2, 0.0, 100.0, 1, 400.0, 1),
            (3, 1000.0, 400.0, 9, 400.0, 1),
            (4, 1010.0, 100.0, 10, 100.0, 2),
            (5, 1390.0, 300.0, 1, 300.0, 3),
        ],
        10,
    )
    for order in ("default", "archive"):
        replay = Replay(log, estimates=Estimates.HISTORY, order=order)
        assert starts(facts_of(replay, "easy", tmp_path)) == {1: 0, 2: 0, 3: 1000, 4: 1400, 5: 1500}


def expected_s(facts: pl.DataFrame) -> list[float]:
    """What was believed of each job, by number."""
    return facts.filter(pl.col("event") == Fact.RUN_STARTED).sort("job")["expected_s"].to_list()


OF_TWO_USERS: list[Row] = [
    (1, 0.0, 10.0, 1, 50.0, 1),
    (2, 0.0, 20.0, 1, 50.0, 1),
    (3, 30.0, 8.0, 1, 50.0, 1),
    (4, 30.0, 8.0, 1, 50.0, 2),
    (5, 40.0, 8.0, 1, 12.0, 1),
    (6, 50.0, 30.0, 1, 50.0, 1),
]
EXPECTED_RUN_TIMES_S = {
    Estimates.USER: [50.0, 50.0, 50.0, 50.0, 12.0, 50.0],
    Estimates.ACTUAL: [10.0, 20.0, 8.0, 8.0, 8.0, 30.0],
    Estimates.HISTORY: [50.0, 50.0, 15.0, 50.0, 12.0, 8.0],
}


def test_jobs_of_unknown_users_share_no_history(tmp_path: Path) -> None:
    unknown: list[Row] = [(*row[:5], -1) for row in OF_TWO_USERS]
    facts = facts_of(Replay(log_of(unknown, 9), estimates=Estimates.HISTORY), "fcfs", tmp_path)
    assert expected_s(facts) == EXPECTED_RUN_TIMES_S[Estimates.USER]


@pytest.mark.parametrize("estimates", EXPECTED_RUN_TIMES_S)
def test_estimates_change_expected_times_but_not_actual_run_times(
    estimates: Estimates, tmp_path: Path
) -> None:
    """The mean of the last two is 15 s, then (20 + 8) / 2 = 14 s where the user says 12, then 8 s."""
    log = log_of(OF_TWO_USERS, 8)
    facts = facts_of(Replay(log, estimates=estimates), "easy", tmp_path)
    assert expected_s(facts) == EXPECTED_RUN_TIMES_S[estimates]
    assert replayed_jobs(tmp_path / TRACE, log.jobs)["execution_time"].to_list() == [10, 20, 8, 8, 8, 30]
    assert (
        replayed_jobs(tmp_path / TRACE, log.jobs)["requested_time"].to_list()
        == EXPECTED_RUN_TIMES_S[Estimates.USER]
    )


# -- jobs.csv, schedule.csv and statistics ---------------------------------------------------------------


def test_jobs_csv_has_batsim_columns_and_one_row_per_job(tmp_path: Path) -> None:
    """Job 2 waits from 1 to 5 s and runs for 4 s: turnaround 8 s, stretch 2; bounded, 10 s count: 1."""
    replay_all(Replay(log_of(THREE, 2)), ["easy"], tmp_path, Inline(), False, Listener())
    with (tmp_path / "easy" / "jobs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["job_id"] for row in rows] == ["1", "2", "3"]
    assert rows[1] == {
        "job_id": "2",
        "workload_name": "w0",
        "profile": "run-2",
        "submission_time": "1.0",
        "requested_number_of_resources": "2",
        "requested_time": "10.0",
        "success": "1",
        "final_state": "COMPLETED_SUCCESSFULLY",
        "starting_time": "5.0",
        "execution_time": "4.0",
        "finish_time": "9.0",
        "waiting_time": "4.0",
        "turnaround_time": "8.0",
        "stretch": "2.0",
        "allocated_resources": "0-1",
        "consumed_energy": "-1",
        "metadata": "",
        "bounded_slowdown": "1.0",
    }
    assert rows[2]["bounded_slowdown"] == "1.4", "turnaround 14 s, of which it ran for 10"


def test_schedule_csv_summarises_the_replay(tmp_path: Path) -> None:
    replay_all(Replay(log_of(THREE, 2)), ["easy"], tmp_path, Inline(), False, Listener())
    (row,) = pl.read_csv(tmp_path / "easy" / "schedule.csv").to_dicts()
    expected = {
        "nb_jobs": 3,
        "nb_jobs_finished": 3,
        "nb_jobs_success": 3,
        "nb_jobs_killed": 0,
        "nb_computing_machines": 2,
        "makespan": 19.0,
        "max_waiting_time": 4.0,
        "mean_waiting_time": 8.0 / 3,
        "mean_turnaround_time": 27.0 / 3,
        "max_slowdown": 2.0,
        "success_rate": 1.0,
        "time_computing": 23.0,
        "time_idle": 15.0,
    }
    assert {key: row[key] for key in expected} == pytest.approx(expected)


def test_a_job_cut_at_its_estimate_is_not_counted_as_a_success(tmp_path: Path) -> None:
    log = log_of([(1, 0.0, 60.0, 4, 60.0, -1), (2, 0.0, 60.0, 4, 60.0, -1)], 8)
    Replay(log).run(resolve("fcfs"), tmp_path)
    jobs = replayed_jobs(tmp_path / TRACE, log.jobs, frozenset({2}))
    assert jobs.select("success", "final_state").rows() == [
        (1, "COMPLETED_SUCCESSFULLY"),
        (0, "COMPLETED_WALLTIME_REACHED"),
    ]


def test_a_killed_job_is_not_counted_as_a_success(tmp_path: Path) -> None:
    log = log_of(THREE, 2)
    Replay(log).run(resolve("easy"), tmp_path)
    jobs = replayed_jobs(tmp_path / TRACE, log.jobs).with_columns(success=pl.Series([1, 0, 0]))
    statistics = ReplayStatistics(log.processors)
    statistics.add(jobs)
    (row,) = statistics.schedule(4, 0.0).to_dicts()
    told = [row[f"nb_jobs{what}"] for what in ("", "_finished", "_success", "_killed")]
    assert (told, row["success_rate"]) == ([4, 3, 1, 2], 0.25)


def test_a_new_replay_removes_an_earlier_report(tmp_path: Path) -> None:
    (tmp_path / REPORT).touch()
    replay_all(Replay(log_of(THREE, 2)), ["fcfs"], tmp_path, Inline(), False, Listener())
    assert not (tmp_path / REPORT).exists()


# -- figures ---------------------------------------------------------------------------------------------

STRETCH_S = 2.0
"""Of a figure over 800 s."""
TWO_JOBS = pl.DataFrame(
    {
        "job_id": [1, 2],
        "submission_time": [50.0, 151.0],
        "starting_time": [50.0, 250.5],
        "finish_time": [250.5, 850.0],
        "requested_number_of_resources": [1, 2],
    }
)
"""From 50 s to 850 s. Job 2 waits from 151 s to 250.5 s, when job 1 ends."""


def shown_by(figure: Any) -> pl.DataFrame:
    """The rows that a figure is drawn from."""
    frame: pl.DataFrame = figure.data
    return frame


def over_time(figure: Any) -> tuple[list[float], list[float]]:
    """The middle of each stretch, in s, and what is shown there."""
    frame = shown_by(figure)
    assert frame.height == BINS
    return (frame["day"] * DAY_S).to_list(), frame["value"].to_list()


def test_the_queue_figure_shows_means_over_time_intervals() -> None:
    middle_s, waiting = over_time(queue_length({"any": TWO_JOBS}, ["any"]))
    assert middle_s[:2] == pytest.approx([1.0, 3.0])
    expected = np.zeros(BINS)
    expected[50] = 0.5  # from 100 to 102 s, since 101 s
    expected[51:100] = 1.0
    expected[100] = 0.25  # until 200.5 s
    assert waiting == pytest.approx(expected, abs=1e-9)


def test_the_utilisation_figure_shows_the_share_of_busy_processors() -> None:
    _, share = over_time(
        utilisation({"any": TWO_JOBS}, "Processors", "requested_number_of_resources", 4, ["any"])
    )
    expected = np.full(BINS, 25.0)
    expected[100] = 0.25 * 25.0 + 0.75 * 50.0
    expected[101:] = 50.0
    assert share == pytest.approx(expected, abs=1e-9)


def test_the_schedule_figure_shows_runs_that_started_before_its_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until job 3 starts, two jobs do, one of them the one that waited longest; job 1 goes on after that."""
    monkeypatch.setattr(charts, "GANTT_RUNS", 2)
    jobs = pl.DataFrame(
        {
            "job_id": [1, 2, 3, 4],
            "submission_time": [100.0, 100.0, 300.0, 500.0],
            "starting_time": [100.0, 200.0, 300.0, 500.0],
            "waiting_time": [0.0, 100.0, 0.0, 0.0],
            "finish_time": [900.0, 250.0, 350.0, 600.0],
            "allocated_resources": ["0", "1-2", "1", "3"],
        }
    )
    frame = shown_by(gantt(jobs, 4)).with_columns(pl.col("from", "until") * DAY_S)
    assert frame.select("job", "from", "until", "low", "high").rows() == [
        (1, 0.0, 200.0, 0, 1),
        (2, 100.0, 150.0, 1, 3),
    ]


def test_the_schedule_figure_is_not_empty_if_all_jobs_start_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "GANTT_RUNS", 1)
    at_once = TWO_JOBS.with_columns(
        starting_time=pl.lit(151.0), waiting_time=pl.lit(0.0), allocated_resources=pl.Series(["0", "1-2"])
    )
    frame = shown_by(gantt(at_once.with_columns(job_id=pl.Series([1, 2])), 4))
    assert frame["job"].to_list() == [1, 2]


def test_all_schedulers_of_a_figure_share_the_time_axis() -> None:
    shorter = TWO_JOBS.with_columns(finish_time=pl.lit(450.0))
    frame = shown_by(queue_length({"a": TWO_JOBS, "b": shorter}, ["a", "b"]))
    days = {name: frame.filter(pl.col("scheduler") == name)["day"].to_list() for name in ("a", "b")}
    assert days["a"] == days["b"]


# -- parts -----------------------------------------------------------------------------------------------


def arrives(time_s: float, job: int) -> tuple[float, Fact, dict[str, Any]]:
    return time_s, Fact.JOB_ARRIVED, {"job": job, "job_class": "rigid", "user": "ada"}


def begins(time_s: float, job: int, run: int, nodes: Sequence[int]) -> tuple[float, Fact, dict[str, Any]]:
    return time_s, Fact.RUN_STARTED, {"job": job, "run": run, "resource": -1, "machines": nodes}


def ends(time_s: float, job: int, run: int) -> tuple[float, Fact, dict[str, Any]]:
    return time_s, Fact.RUN_ENDED, {"job": job, "run": run, "resource": -1}


@pytest.mark.parametrize("engine", [Engine.COMPILED, Engine.HARNESS])
@pytest.mark.parametrize("order", ["rising", "falling"])
def test_tables_and_statistics_do_not_depend_on_the_size_of_parts(
    engine: Engine, order: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of parts of the trace, and of those in which numbers are sorted; with numbers of jobs that rise or fall
    in order of arrival."""
    log = Lublin().jobs(300, 16, np.random.default_rng(1))
    if order == "falling":
        log = replace(log, jobs=log.jobs.with_columns(job=1 + pl.col("job").reverse()))
    replay = Replay(log, engine=engine)
    whole = replay.run(resolve("easy"), tmp_path)
    in_one_part = (tmp_path / JOBS).read_bytes()
    monkeypatch.setattr("sil.trace.recorder.CHUNK", 50)
    monkeypatch.setattr("sil.runs.compiled.CHUNK", 50)
    monkeypatch.setattr("sil.outcome.statistics.IN_MEMORY", 160)
    monkeypatch.setattr("sil.outcome.statistics.MAX_SORTED", 2)
    assert replay.run(resolve("easy"), tmp_path) == whole
    assert (tmp_path / JOBS).read_bytes() == in_one_part
    jobs = replayed_jobs(tmp_path / TRACE, log.jobs)
    assert jobs["job_id"].is_sorted()
    assert jobs.write_csv().encode() == in_one_part
    assert whole.statistics["waiting_time_mean"] == mean(jobs["waiting_time"])
    assert whole.statistics["bounded_slowdown_mean"] == mean(jobs["bounded_slowdown"])
    for share, name in ((0.5, "median"), (0.95, "p95")):
        expected = jobs["bounded_slowdown"].quantile(share, "equiprobable")
        assert whole.statistics[f"bounded_slowdown_{name}"] == expected


def test_a_trace_written_in_parts_that_breaks_an_invariant_is_checked_as_a_whole(tmp_path: Path) -> None:
    log = log_of(THREE, 2)
    facts = facts_of(Replay(log), "easy", tmp_path)
    machines = [None if cell is None else [(0, 2)] for cell in facts["machines"]]
    broken = facts.with_columns(column("machines", machines))
    found = []
    for is_long, n in product([False, True], [1, 3, 100]):
        replayed = ReplayedLog(log, "easy", JobsMay(), is_long=is_long)
        for part in broken.iter_slices(n):
            replayed.add(part)
        replayed.end()
        found.append(replayed.results(lambda: broken))
    (results,) = {str(each) for each in found}
    assert "easy: the trace breaks the invariant no-more-nodes-than-there-are" in results
    assert found[0].statistics == {}


def test_what_is_said_of_jobs_is_the_same_in_parts_of_any_size_and_without_a_table() -> None:
    about = [{"job": job, "run": job, "resource": -1} for job in range(4)]
    facts = trace(
        *(arrives(0.0, job) for job in (1, 2, 3)),
        *(begins(0.0, job, job, [job]) for job in (1, 2)),
        (1.0, Fact.RUN_PREEMPTED, about[2]),
        (1.0, Fact.JOB_REFUSED, {"job": 2, "detail": "it is too large"}),
        begins(2.0, 3, 3, [0]),
        (3.0, Fact.RUN_STOPPED, about[3]),
        (5.0, Fact.RUN_PREEMPTED, about[1]),
        (5.0, Fact.JOB_REFUSED, {"job": 1, "detail": "it is too long"}),
        (6.0, Fact.RUN_CONTINUED, about[3]),
        ends(9.0, 3, 3),
    )
    found = set()
    for on_jobs, n in product([None, lambda jobs: None], [1, 3, 100]):
        replayed = ReplayedLog(log_of(THREE, 3), "easy", JobsMay(), is_long=False, on_jobs=on_jobs)
        for part in facts.iter_slices(n):
            replayed.add(part)
        replayed.end()
        found.add((str(replayed.statistics.metrics), replayed.results(lambda: facts).refused))
    ((_, refused),) = found
    assert refused == "easy: 2 of 3 jobs were ended early; the first because it is too long"


# -- schedulers that misbehave ---------------------------------------------------------------------------

ONLY_THE_CONTRACT_SEES = [
    kind for kind, rule in faulty_on_free_nodes.BROKEN_RULE.items() if rule == PROBLEM_UNTOUCHED
]
"""Only the contract suite compares a problem before and after."""
IN_A_REPLAY = [kind for kind in faulty_on_free_nodes.BROKEN_RULE if kind not in ONLY_THE_CONTRACT_SEES]
FIVE: list[Row] = [(n, float(n), 20.0, size, 30.0, 1) for n, size in enumerate((2, 1, 1, 3, 1), start=1)]


@pytest.mark.parametrize("order", ["default", "archive"])
@pytest.mark.parametrize("scheduler", ["easy", "tests.faulty_on_free_nodes:ForgetsAJob"])
def test_the_facts_of_a_replay_without_files_are_those_of_its_trace(
    scheduler: str, order: str, tmp_path: Path
) -> None:
    replay = Replay(log_of(FIVE, 3), order=order)
    (tmp_path / "written").mkdir()
    written = facts_of(replay, scheduler, tmp_path / "written")
    assert replay.facts(resolve(scheduler), tmp_path / "printed").equals(written)
    assert [path.name for path in tmp_path.iterdir()] == ["written"]


@pytest.mark.parametrize("kind", IN_A_REPLAY, ids=lambda kind: kind.__name__)
def test_a_fault_is_the_last_fact_of_a_replay(kind: type[Any], tmp_path: Path) -> None:
    """All jobs come at once; the first two fill the machine, and the others wait."""
    at_once = [(*row[:1], 0.0, *row[2:]) for row in FIVE]
    replay = Replay(log_of(at_once, 3), decision_limit_s=1.0)
    facts = facts_of(replay, f"tests.faulty_on_free_nodes:{kind.__name__}", tmp_path)
    last = facts.row(-1, named=True)
    assert (last["event"], last["detail"]) == (Fact.FAULT, faulty_on_free_nodes.BROKEN_RULE[kind])
    assert facts.filter(pl.col("event") == Fact.FAULT).height == 1


OWN = """
import os, time
from itertools import count
import numpy as np
from scheduler.model import Start, NodeSchedule
from scheduler.node_set import NodeSet
from scheduler.free_nodes.rigid import Rigid

class Good(Rigid):
    pass

class Late:
    '''Behaves well until 2 s.'''
    def __init__(self):
        self.good = Rigid()
    def schedule(self, problem):
        return self.misbehave(problem) if problem.now_s >= 2.0 else self.good.schedule(problem)

class Raises(Late):
    def misbehave(self, problem):
        raise LookupError("no such thing")

class LoopsForEver(Late):
    def misbehave(self, problem):
        for _ in count():
            pass

class Dies(Late):
    def misbehave(self, problem):
        os._exit(0)

class DoubleBooks(Late):
    def misbehave(self, problem):
        starts = [Start(0, NodeSet.of(range(problem.jobs[0].n_tasks)), problem.now_s + 1.0)]
        return NodeSchedule(starts, dict.fromkeys(range(1, problem.n_jobs), "later"))

class SaysNothing(Exception):
    def __str__(self):
        raise LookupError

class RaisesInRaising(Late):
    def misbehave(self, problem):
        raise SaysNothing

class GoesElsewhere(Rigid):
    def schedule(self, problem):
        os.chdir("/")
        return super().schedule(problem)

class GivesArrays(Rigid):
    def schedule(self, problem):
        good = super().schedule(problem)
        as_arrays = [p._replace(nodes=np.array(p.nodes)) for p in good.starts]
        return NodeSchedule(as_arrays, dict(good.wait_reasons))

class AsksAtOnce(Late):
    def misbehave(self, problem):
        return self.good.schedule(problem)._replace(ask_again_s=problem.now_s + 1e-6)

class AsksEverySecond(Rigid):
    def schedule(self, problem):
        return super().schedule(problem)._replace(ask_again_s=problem.now_s + 1.0)

class Changes(Late):
    made = count()
    def __init__(self):
        super().__init__()
        self.turn = next(self.made)
    def misbehave(self, problem):
        good = self.good.schedule(problem)
        return NodeSchedule([], dict.fromkeys(range(problem.n_jobs), "no")) if self.turn % 2 else good
"""
FAULT_MESSAGES = {
    "Raises": f"{RAISES_NOTHING} (at 2 s): Raises.schedule raised LookupError: no such thing (own_schedulers",
    "RaisesInRaising": f"{RAISES_NOTHING} (at 2 s): RaisesInRaising.schedule raised SaysNothing: (its text",
    "LoopsForEver": f"{RETURNS_IN_TIME} (at 2 s): LoopsForEver.schedule did not return within 1 s",
    "Dies": f"{PROCESS_SURVIVES} (at 2 s): its process ended with exit code 0",
    "DoubleBooks": f"{NODES_FREE} (job 2, at 2 s): job 2 is started on nodes 0, some of which are not free",
    "AsksAtOnce": f"{MAKES_PROGRESS} (job 3, at 3.01 s): ",
    "Changes": f"{DETERMINISTIC} (job 2, at 2 s): ",
}


def test_faulty_custom_schedulers_are_reported_and_the_others_have_results(
    importable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (importable / "own_schedulers.py").write_text(OWN)
    monkeypatch.chdir(importable)
    good = ("Good", "GoesElsewhere", "GivesArrays")
    names = ["easy", *(f"own_schedulers:{kind}" for kind in (*good, *FAULT_MESSAGES))]
    replay = Replay(log_of(FIVE, 3), decision_limit_s=1.0)
    outcomes = {o.scheduler: o for o in replay_all(replay, names, Path("out"), Inline(), True, Listener())}
    assert list(outcomes) == names
    for name, makespan_s in (("easy", 60.0), *((f"own_schedulers:{kind}", 80.0) for kind in good)):
        assert outcomes[name].fault is None
        assert outcomes[name].statistics["makespan"] == makespan_s
    for kind, told in FAULT_MESSAGES.items():
        fault = outcomes[f"own_schedulers:{kind}"].fault
        assert fault is not None
        assert told in fault
        assert outcomes[f"own_schedulers:{kind}"].statistics == {}
    summary = json.loads((importable / "out" / "summary.json").read_text())["schedulers"]
    assert [name for name, found in summary.items() if found["fault"]] == names[1 + len(good) :]
    report = (importable / "out" / "report.html").read_text()
    assert "LookupError" in report


def test_a_scheduler_may_request_a_round_every_second_for_hours(importable: Path) -> None:
    (importable / "patient_schedulers.py").write_text(OWN)
    log = log_of([(1, 0.0, 30_000.0, 2, 40_000.0, 1), (2, 1.0, 5.0, 2, 5.0, 1)], 3)
    name = "patient_schedulers:AsksEverySecond"
    (outcome,) = replay_all(Replay(log), [name], importable / "out", Inline(), False, Listener())
    assert outcome.fault is None
    assert outcome.statistics["makespan"] == 30_005.0


PEAK_KB = """
import sys
from pathlib import Path
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.workload.swf import read_swf

Replay(read_swf(Path(sys.argv[1]))).run(resolve("easy"), Path(sys.argv[2]))
(peak,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(peak.split()[1])
"""
"""Resource usage would count the memory of the process that starts this one."""


@pytest.mark.long
def test_the_memory_of_a_replay_does_not_grow_with_its_log(tmp_path: Path) -> None:
    peak_kb = []
    for n in (300_000, 300_000, 1_200_000):  # the first one may have to compile
        log = tmp_path / f"{n}.swf"
        jobs = (
            f"{k} {40 * k} -1 {10 + k % 90} -1 -1 -1 {1 + k % 3} 99 -1 1 {k % 50}" for k in range(1, n + 1)
        )
        log.write_text("; MaxProcs: 4\n" + "".join(f"{job} -1 -1 -1 -1 -1 -1\n" for job in jobs))
        command = [sys.executable, "-c", PEAK_KB, log, tmp_path]
        peak_kb.append(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    assert peak_kb[2] < 1.1 * peak_kb[1]


# -- the command -----------------------------------------------------------------------------------------

LOG = """; Version: 2.2
; UnixStartTime: 1000000000
; MaxProcs: 4
1 0 -1 50 2 -1 -1 2 60 -1 1 1 -1 -1 -1 -1 -1 -1
2 10 -1 50 4 -1 -1 4 60 -1 1 2 -1 -1 -1 -1 -1 -1
3 20 -1 20 2 -1 -1 2 30 -1 1 1 -1 -1 -1 -1 -1 -1
4 86400 -1 30 1 -1 -1 1 30 -1 1 2 -1 -1 -1 -1 -1 -1
"""
NEEDS_REPAIR = LOG + "5 86500 -1 30 9 -1 -1 9 30 -1 1 2 -1 -1 -1 -1 -1 -1\n"
"""It begins on 9 September 2001, at 01:46:40 UTC; job 5 asks for 9 of 4 processors."""


@pytest.fixture
def here(here: Path) -> Path:
    (here / "log.swf").write_text(LOG)
    (here / "odd.swf").write_text(NEEDS_REPAIR)
    return here


def replayed(*arguments: str | Path) -> Result:
    """With one built-in scheduler, in this process."""
    return sil("replay", *arguments, "--out", "out", "--workers", "1", "--no-report")


def jobs_of(folder: Path) -> pl.DataFrame:
    return pl.read_csv(folder / "jobs.csv")


def test_by_default_three_schedulers_are_compared_in_a_table(here: Path) -> None:
    result = succeeded("replay", "log.swf", "--workers", "1")
    names = {"fcfs", "easy", "conservative"}
    for shown in (*names, "Mean waiting time (s)", "Utilisation (%)", "Makespan (s)"):
        assert shown in result.stdout
    line = next(line for line in result.stdout.splitlines() if "aximum waiting time" in line)
    assert [cell.strip() for cell in line.split("│")[2:5]] == ["80.0", "40.0", "40.0"]
    of_all = {"report.html", "summary.json", "origin.json"}
    assert {path.name for path in (here / "sil-log").iterdir()} == names | of_all
    files = {path.name for path in (here / "sil-log" / "easy").iterdir()}
    assert files == {TRACE, TIMINGS, "jobs.csv", "schedule.csv"}
    assert "sil-log/report.html in a browser" in result.stdout


def test_a_report_of_many_schedulers_and_scattered_nodes_is_drawn(here: Path) -> None:
    many = {f"s{k}": pl.DataFrame(replayed_rows(400)) for k in range(15)}
    chart = specification(queue_length(many, list(many)))
    assert sum(map(len, chart["datasets"].values())) > 5000
    shown = specification(gantt(many["s0"], 256))
    assert 5000 < sum(map(len, shown["datasets"].values())) <= GANTT_RECTANGLES


def replayed_rows(n: int) -> dict[str, list[object]]:
    """Jobs that follow one another on every second of 100 nodes."""
    return {
        "job_id": list(range(n)),
        "submission_time": [0.0] * n,
        "starting_time": [float(k) for k in range(n)],
        "finish_time": [float(k + 1) for k in range(n)],
        "waiting_time": [float(k) for k in range(n)],
        "requested_number_of_resources": [50] * n,
        "allocated_resources": [" ".join(str(2 * node) for node in range(50))] * n,
    }


def test_results_of_an_earlier_replay_in_the_folder_are_reported(here: Path) -> None:
    assert "earlier" not in replayed("log.swf", "--scheduler", "fcfs", "--scheduler", "sjf").stderr
    assert (
        "out also has results of an earlier replay: sjf" in replayed("log.swf", "--scheduler", "fcfs").stderr
    )


def test_a_report_shows_its_command_versions_input_and_contents(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["sil", "replay", "log.swf", "--scheduler", "rigid(backfilling=easy)", "--out", "out"]
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/sil", *command[1:]])
    succeeded(*command[1:])
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/sil", "report", "out"])
    succeeded("report", "out")
    page = unescape((here / "out" / REPORT).read_text())
    digest = hashlib.sha256((here / "log.swf").read_bytes()).hexdigest()
    for shown in (
        "sil replay log.swf --scheduler 'rigid(backfilling=easy)' --out out",
        f"Python {platform.python_version()}",
        f"numpy {np.__version__}",
        f"log.swf, SHA-256 {digest}",
        platform.node(),
        '<a href="#comparison">',
        '<a href="#origin">',
    ):
        assert shown in page, shown


def test_the_report_is_rebuilt_from_replay_results_with_its_charts_as_files(here: Path) -> None:
    names = ("--scheduler", "fcfs", "--scheduler", "easy")
    succeeded("replay", "log.swf", *names, "--workers", "1", "--out", "out")
    page = (here / "out" / REPORT).read_text()
    (here / "out" / REPORT).unlink()
    result = succeeded("report", "out", "--figures", "svg")
    assert (here / "out" / REPORT).read_text() == page
    assert "Mean waiting time (s)" in result.stdout
    assert {path.name for path in (here / "out" / "figures").iterdir()} == {
        "over-time.svg",
        "waiting-time.svg",
        "waiting-time-by-week-and-size.svg",
        "run-time-by-size.svg",
        "slowdown-by-size-and-run-time.svg",
        "fairness.svg",
        "slowdown-by-size-of-job.svg",
        "schedule-of-fcfs.svg",
        "schedule-of-easy.svg",
    }


def test_damaged_replay_results_are_rejected_by_report(here: Path) -> None:
    """Among others, sentences that are numbers, numbers that are sentences, and impossible days."""
    assert replayed("log.swf", "--scheduler", "fcfs").exit_code == 0
    whole = (here / "out" / "summary.json").read_text()
    of_keys = ['"fault": 1', '"refused": 1e308', '"makespan": "x"']
    of_keys += [f'"block_days": {days}' for days in ('"x"', "0", "-1", "Infinity", "[]")]
    changed = [re.sub(f"{one.partition(':')[0]}: (null|[0-9.]+)", one, whole) for one in of_keys]
    cases = [("summary.json", text) for text in ("{", "{}", *changed)]
    for file, text in [*cases, ("fcfs/jobs.csv", "job_id\n1\n"), ("fcfs/jobs.csv", "")]:
        (here / "out" / "summary.json").write_text(whole)
        (here / "out" / file).write_text(text)
        sentence = the_sentence(sil("report", "out"))
        assert sentence.startswith(f"out/{file}: this was not written by `sil replay` ("), text
    (here / "out" / "fcfs" / "jobs.csv").unlink()
    assert "this was not written by" in the_sentence(sil("report", "out"))


def test_the_summary_has_all_fields_of_a_report(here: Path) -> None:
    assert replayed("log.swf", "--scheduler", "fcfs").exit_code == 0
    assert tuple(json.loads((here / "out" / "summary.json").read_text())) == (*DESCRIBED, *OPTIONAL)


def test_results_name_the_replayed_part_of_the_log(here: Path) -> None:
    part = ("--jobs=1:3", "--load", "2")
    succeeded("replay", "log.swf", "--scheduler", "fcfs", *part, "--out", "out")
    summary = json.loads((here / "out" / "summary.json").read_text())
    assert summary["part"] == ["jobs 1:3", "2 times the load"]
    told = pl.read_parquet_metadata(here / "out" / "fcfs" / TRACE)[METADATA_KEY]
    assert json.loads(told)["part"] == summary["part"]
    assert "jobs 1:3, 2 times the load" in (here / "out" / REPORT).read_text()


def test_repairs_are_reported_and_rejected_by_strict_reading(here: Path) -> None:
    result = replayed("odd.swf", "--scheduler", "fcfs")
    assert result.exit_code == 0
    assert "line 8: more than the 4 processors of the machine are asked for" in result.stderr
    assert jobs_of(here / "out" / "fcfs")["requested_number_of_resources"].to_list()[-1] == 4
    assert "odd.swf, line 8" in the_sentence(replayed("odd.swf", "--strict"))


@pytest.mark.parametrize(
    ("arguments", "column", "values"),
    [
        (["--jobs=1:3"], "job_id", [2, 3]),
        (["--jobs=:2"], "job_id", [1, 2]),
        (["--jobs=-1:"], "job_id", [4]),
        (["--from", "2001-09-10"], "job_id", [4]),
        # From is with that second, to without.
        (["--from", "2001-09-09T01:46:50", "--to", "2001-09-09T01:47:00"], "job_id", [2]),
        (["--load", "2"], "submission_time", [0.0, 5.0, 10.0, 43_200.0]),
        (["--processors", "8"], "waiting_time", [0.0] * 4),
    ],
)
def test_jobs_load_and_machine_are_chosen_by_options(
    arguments: list[str], column: str, values: list[float], here: Path
) -> None:
    assert replayed("log.swf", "--scheduler", "fcfs", *arguments).exit_code == 0
    assert jobs_of(here / "out" / "fcfs")[column].to_list() == values


def test_oversized_jobs_stop_the_replay_or_are_skipped_on_request(here: Path) -> None:
    told = the_sentence(replayed("odd.swf", "--too-large", "stop"))
    assert "line 8: job 5 asks for 9 processors, and the machine has 4" in told
    replayed("odd.swf", "--scheduler", "fcfs", "--too-large", "skip")
    assert jobs_of(here / "out" / "fcfs")["job_id"].to_list() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "told"),
    {
        "log.swf --order achive": "--order is 'achive'; expected one of default, archive",
        "log.swf --scheduler esay": "unknown scheduler 'esay'; did you mean 'easy'?",
        "log.swf --scheduler sjs": "scheduler 'sjs' maps jobs to machines (kind mapping), but the replay "
        "of a log needs one that",
        "log.swf --scheduler basic": "scheduler 'basic' starts jobs on time-shared nodes",
        "log.swf --scheduler 'rigid(backfilling=esay)'": "'esay'",
        "log.swf --scheduler nowhere:Mine": "importing module 'nowhere' failed",
        "missing.swf": "missing.swf",
        "log.swf --jobs 7": "jobs '7' cannot be read",
        "log.swf --jobs a:b": "jobs 'a:b' cannot be read",
        "log.swf --jobs 9:": "there are no jobs 9:; the log has 4 jobs",
        "log.swf --from 2030-01-01": "there are no jobs between 2030-01-01",
        "log.swf --load 0": "the load cannot be multiplied by 0",
    }.items(),
)
def test_an_invalid_replay_is_rejected_in_one_sentence(arguments: str, told: str, here: Path) -> None:
    assert told in the_sentence(replayed(*shlex.split(arguments)))


def test_an_unwritable_folder_is_reported(here: Path) -> None:
    (here / "out").write_text("in the way")
    assert "cannot be written" in the_sentence(replayed("log.swf", "--scheduler", "fcfs"))


class Counting(Processes):
    """Counts what runs in other processes."""

    count = 0

    def run(self, items: Iterable[Item], *callbacks: Any) -> None:
        items = list(items)
        self.count += len(items)
        super().run(items, *callbacks)


@pytest.mark.parametrize("reasons", [False, True])
def test_a_short_log_is_replayed_in_process_unless_reasons_are_recorded(
    tmp_path: Path, reasons: bool
) -> None:
    replay, executor = Replay(log_of(THREE, 2), reasons=reasons), Counting(2)
    outcomes = replay_all(replay, ["fcfs", "easy"], tmp_path, executor, False, Listener())
    assert executor.count == (2 if reasons else 0)
    assert all(outcome.fault is None for outcome in outcomes)


def test_a_decision_that_exceeds_the_limit_given_to_a_replay_is_a_fault(here: Path) -> None:
    done = replayed(
        "log.swf", "--scheduler", "tests.faulty_on_free_nodes:NeverReturns", "--decision-limit", "0.2"
    )
    assert done.exit_code == 1
    assert "broke the rule returns-in-time" in done.stderr
    assert "0.2 s" in done.stderr


def test_an_interrupted_replay_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, replay = ["fcfs", "easy", "sjf"], Replay(log_of(FIVE, 3))
    whole = replay_all(replay, names, tmp_path / "whole", Inline(), False, Listener())
    run, started_runs = Replay.run, list[str]()

    def interrupt(self: Replay, scheduler: UnderTest, *how: Any, **options: Any) -> Results:
        if len(started_runs) == 2:
            raise KeyboardInterrupt
        started_runs.append(scheduler.label)
        return run(self, scheduler, *how, **options)

    monkeypatch.setattr(Replay, "run", interrupt)
    with pytest.raises(Interrupted, match="2 of 3 runs are done"):
        replay_all(replay, names, tmp_path / "out", Inline(), False, Listener())
    started_runs.clear()
    resumed = replay_all(Replay(log_of(FIVE, 3)), names, tmp_path / "out", Inline(), False, Listener())
    assert started_runs == ["sjf"]
    assert [outcome.statistics for outcome in resumed] == [outcome.statistics for outcome in whole]
    assert all(jobs_under(a).equals(jobs_under(b)) for a, b in zip(whole, resumed, strict=True))
    started_runs.clear()
    with pytest.raises(Interrupted):
        replay_all(replay, names, tmp_path / "out", Inline(), False, Listener())
    started_runs.clear()
    replay_all(Replay(log_of(FIVE, 4)), ["easy"], tmp_path / "out", Inline(), False, Listener())
    assert started_runs == ["easy"], "what another replay left is not taken up"
    assert not (tmp_path / "out" / "unfinished.db").exists()


@pytest.mark.processes
@pytest.mark.parametrize(
    "schedulers",
    [
        pytest.param(("fcfs",), marks=pytest.mark.long, id="in-this-process"),
        pytest.param(("fcfs", "easy"), id="in-others"),
    ],
)
def test_a_full_disk_is_reported_and_no_scheduler_is_blamed(here: Path, schedulers: tuple[str, ...]) -> None:
    more_than_few = FEW_IN_ALL // 2 + 1
    write_swf(here / "long.swf", Lublin().jobs(more_than_few, 64, np.random.default_rng(1)))
    command = [
        sys.executable,
        "-c",
        "from sil.cli import main; main()",
        "replay",
        "long.swf",
        "--workers",
        "1",
    ]
    options = [option for name in schedulers for option in ("--scheduler", name)]
    limited = ["bash", "-c", 'ulimit -f 16 && exec "$@"', "bash", *command, *options]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "the results cannot be written: File too large; make room" in done.stderr
    assert "Traceback" not in done.stderr
    assert "broke the rule" not in done.stderr


def test_a_fault_exits_with_1_and_the_others_are_tabulated(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(here)
    (here / "own_schedulers.py").write_text(OWN)
    result = replayed("log.swf", "--scheduler", "fcfs", "--scheduler", "own_schedulers:Raises")
    assert result.exit_code == 1
    assert "Fault: own_schedulers:Raises broke the rule raises-nothing (at 10 s): " in result.stderr
    assert "Traceback" not in result.output
    line = next(line for line in result.stdout.splitlines() if "aximum waiting time" in line)
    assert [cell.strip() for cell in line.split("│")[2:4]] == ["80.0", "-"]


@pytest.mark.processes
def test_results_are_byte_identical_with_any_number_of_workers(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sil.experiment.replay.FEW_IN_ALL", 0)
    rng, n = np.random.default_rng(3), 400
    run_s = rng.integers(1, 5_000, n)
    table = {
        "job": range(1, n + 1),
        "submit_s": rng.integers(0, 200_000, n).cumsum().astype(float) / 100,
        "run_s": run_s.astype(float),
        "processors": rng.integers(1, 33, n),
        "estimate_s": (run_s + rng.integers(0, 5_000, n)).astype(float),
        "user": rng.integers(1, 9, n),
    }
    write_swf(here / "many.swf", JobLog("many.swf", pl.DataFrame(table, schema=SCHEMA), 64))
    names = ("easy", "easy_sjbf", "fcfs")
    options = [text for name in names for text in ("--scheduler", name)]
    of_run = {}
    for out, workers in (("one", "1"), ("two", "2")):
        succeeded("replay", "many.swf", *options, "--out", out, "--workers", workers, "--no-report")
        of_run[out] = {
            str(path.relative_to(out)): path.read_bytes()
            for path in sorted(Path(out).rglob("*"))
            if path.name in (TRACE, "jobs.csv", "summary.json")
        }
    assert len(of_run["one"]) == 7
    assert of_run["one"] == of_run["two"]


@pytest.mark.parametrize(
    "name",
    ["report.html", "origin.json", "summary.json", "unfinished.db", "fcfs/jobs.csv", "fcfs/schedule.csv"],
)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_a_pipe_in_a_results_folder_is_replaced_and_what_a_link_names_is_kept(
    kind: str, name: str, here: Path
) -> None:
    """A folder of somebody else may have links to files of the user who writes there."""
    assert replayed("log.swf", "--scheduler", "fcfs").exit_code == 0
    (here / "precious").write_text("precious")
    place = here / "out" / name
    place.unlink(missing_ok=True)
    if kind == "link":
        place.symlink_to(here / "precious")
    else:
        os.mkfifo(place)
    assert replayed("log.swf", "--scheduler", "fcfs").exit_code == 0
    if name == "report.html":
        succeeded("report", "out")
    assert (here / "precious").read_text() == "precious"
    assert place.is_file() or name == "unfinished.db"
    assert not place.is_symlink()


def test_a_link_to_a_folder_in_a_results_folder_is_replaced(here: Path) -> None:
    (here / "elsewhere").mkdir()
    (here / "out").mkdir()
    (here / "out/fcfs").symlink_to(here / "elsewhere")
    assert replayed("log.swf", "--scheduler", "fcfs").exit_code == 0
    assert not [*(here / "elsewhere").iterdir()]


@pytest.mark.parametrize("name", ["summary.json", "origin.json", "fcfs/jobs.csv", "fcfs/trace.parquet"])
def test_a_pipe_in_place_of_results_does_not_keep_a_report_waiting(name: str, here: Path) -> None:
    assert replayed("log.swf", "--scheduler", "fcfs").exit_code == 0
    (here / "out" / name).unlink()
    os.mkfifo(here / "out" / name)
    done = sil("report", "out")
    assert done.exit_code == (0 if name in ("origin.json", "fcfs/trace.parquet") else 2)
    assert done.exception is None or isinstance(done.exception, SystemExit)
