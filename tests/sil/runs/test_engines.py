"""The two replay engines produce identical traces."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bare_easy import easy_starts
from scheduler import UserError
from scheduler.free_nodes.consumable_problem import Placer
from scheduler.free_nodes.problem import FreeNodesProblem
from scheduler.free_nodes.rigid import Backfilling
from scheduler.model import NodeSchedule
from sil.runs.on_log import FEW_JOBS, Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine, Estimates
from sil.trace.facts import METADATA_KEY, TIMINGS, TRACE, Fact
from sil.trace.reading import read_facts
from sil.workload.job_log import DUE_IN_S, SCHEMA, JobLog
from sil.workload.swf import read_swf
from tests.examples import up_to
from tests.oracles import oracle
from tests.scheduler.free_nodes.replaying import Row
from tests.scheduler.free_nodes.test_whole_replays import InTheArchivesOrder
from tests.scheduler.free_nodes.test_whole_replays import logs as logs_within_estimates

pytestmark = pytest.mark.usefixtures("in_this_process")

POLICIES = (
    "fcfs",
    "sjf",
    "easy",
    "easy_sjbf",
    "conservative",
    "rigid(ordering=sjf, backfilling=easy)",
    "rigid(ordering=sjf, backfilling=easy_sjbf)",
    "edf",
    "edf_easy",
    "least_laxity",
    "rigid(ordering=least_laxity, backfilling=easy_sjbf)",
)
ORDERS = ("default", "archive", "batsim")


def log_of(rows: list[tuple[int, float, float, int, float | None, int]], processors: int) -> JobLog:
    jobs = pl.DataFrame(rows, schema=SCHEMA, orient="row").sort("submit_s", "job")
    return JobLog("random.swf", jobs, processors)


@st.composite
def logs(draw: st.DrawFn) -> JobLog:
    """With many simultaneous events, runs that exceed their estimates, jobs without one, and jobs that are
    larger than the machine."""
    processors = draw(st.integers(1, 12))
    times_s = st.integers(0, 30).map(float)
    rows = draw(
        st.lists(
            st.tuples(
                times_s,
                st.integers(1, 20).map(float),
                st.integers(1, processors + 1),
                st.none() | st.integers(1, 30).map(float),
                st.integers(-1, 2),
            ),
            min_size=1,
            max_size=40,
        )
    )
    log = log_of([(number, *row) for number, row in enumerate(rows, start=1)], processors)
    return with_deadlines(log, draw)


def with_deadlines(log: JobLog, draw: st.DrawFn) -> JobLog:
    """Perhaps with deadlines of some jobs."""
    limits_s = draw(st.none() | st.lists(st.sampled_from([inf, 5.0, 20.0, 40.0]), min_size=1, max_size=4))
    if limits_s is None:
        return log
    due_in_s = pl.Series(DUE_IN_S, np.resize(limits_s, len(log)))
    return replace(log, jobs=log.jobs.with_columns(due_in_s))


def facts_by(engine: Engine, replay: Replay, scheduler: str) -> pl.DataFrame:
    return replace(replay, engine=engine).facts(resolve(scheduler), Path(os.devnull))


def facts_of_both(replay: Replay, scheduler: str) -> pl.DataFrame:
    """The facts of a replay, which are the same in both engines."""
    harness, compiled = (facts_by(e, replay, scheduler) for e in (Engine.HARNESS, Engine.COMPILED))
    assert compiled.equals(harness)
    return harness


def assert_equal(replay: Replay, scheduler: str) -> None:
    facts_of_both(replay, scheduler)


@given(logs(), st.sampled_from(POLICIES), st.sampled_from(Estimates), st.sampled_from(ORDERS))
def test_both_engines_note_the_same_facts_in_the_same_order(
    log: JobLog, scheduler: str, estimates: Estimates, order: str
) -> None:
    assert_equal(Replay(log, estimates=estimates, order=order), scheduler)


@pytest.mark.parametrize(("scheduler", "n"), [("easy", 3_000), ("conservative", 700)])
def test_all_arrays_of_the_compiled_engine_grow(scheduler: str, n: int) -> None:
    """More jobs wait, and more run, than there is room for at first, on nodes in many pieces."""
    rng = np.random.default_rng(1)
    rows = [
        (
            number,
            float(rng.integers(0, 200)),
            float(rng.integers(1, 900)),
            int(rng.integers(1, 4)) if number % 50 else 600,
            float(rng.integers(1, 2_000)),
            int(rng.integers(0, 9)),
        )
        for number in range(n)
    ]
    assert_equal(Replay(log_of(rows, 900), order="archive"), scheduler)


@pytest.mark.long
@pytest.mark.parametrize("scheduler", POLICIES)
@pytest.mark.parametrize("name", ["KTH-SP2", "CTC-SP2"])
@pytest.mark.parametrize("estimates", Estimates)
def test_both_engines_write_the_same_trace_of_a_real_log(
    name: str, scheduler: str, estimates: Estimates, tmp_path: Path
) -> None:
    log = read_swf(oracle(f"swf/{name}.swf.gz"))
    for engine in (Engine.HARNESS, Engine.COMPILED):
        (tmp_path / engine.value).mkdir()
        Replay(log, estimates=estimates, order="archive", engine=engine).run(
            resolve(scheduler), tmp_path / engine.value
        )
    harness, compiled = (
        read_facts(tmp_path / engine.value / TRACE) for engine in (Engine.HARNESS, Engine.COMPILED)
    )
    assert compiled.equals(harness)


def starts_of_the_compiled_engine(
    rows: list[Row], processors: int, order: str, backfilling: str
) -> dict[int, float]:
    jobs = [(*row, 1) for row in rows]
    scheduler = f"rigid(backfilling={backfilling})"
    facts = facts_by(Engine.COMPILED, Replay(log_of(jobs, processors), order=order), scheduler)
    return dict(facts.filter(pl.col("event") == Fact.RUN_STARTED).select("job", "time_s").iter_rows())


@pytest.mark.parametrize("backfilling", Backfilling)
@given(log=logs_within_estimates())
@settings(max_examples=up_to(200))
def test_in_archive_order_every_start_equals_that_of_a_plain_simulator(
    backfilling: str, log: tuple[int, list[Row]]
) -> None:
    processors, rows = log
    expected = InTheArchivesOrder(rows, processors, backfilling).starts()
    assert starts_of_the_compiled_engine(rows, processors, "archive", backfilling) == expected


@given(log=logs_within_estimates())
@settings(max_examples=up_to(200))
def test_in_default_order_every_start_equals_that_of_a_plain_easy(log: tuple[int, list[Row]]) -> None:
    processors, rows = log
    numbers, submit_s, run_s, sizes, estimates_s = (list(column) for column in zip(*rows, strict=True))
    expected = easy_starts(submit_s, run_s, sizes, estimates_s, processors)
    started = starts_of_the_compiled_engine(rows, processors, "default", Backfilling.EASY)
    assert started == dict(zip(numbers, expected, strict=True))


class OneAtATime:
    """A scheduler that is not built in."""

    def schedule(self, problem: FreeNodesProblem) -> NodeSchedule:
        placer = Placer(problem)
        if placer.fits(0):
            placer.start(0)
        return placer.schedule("another job is first")


# -- the choice of an engine -------------------------------------------------------------------------------

SOME = log_of([(k, float(k), 3.0, 1, 5.0, 1) for k in range(FEW_JOBS)], 4)


def engine_of(replay: Replay, scheduler: str, folder: Path) -> str:
    replay.run(resolve(scheduler), folder)
    metadata = pl.read_parquet_metadata(folder / TRACE)[METADATA_KEY]
    return str(json.loads(metadata)["engine"])


def test_the_trace_names_the_engine_and_short_logs_are_replayed_in_the_harness(tmp_path: Path) -> None:
    assert engine_of(Replay(SOME), "easy", tmp_path) == "compiled"
    assert engine_of(Replay(SOME.slice(0, 10)), "easy", tmp_path) == "harness"
    assert engine_of(Replay(SOME.slice(0, 10), engine=Engine.COMPILED), "easy", tmp_path) == "compiled"


def test_what_cannot_be_compiled_is_replayed_in_the_harness(tmp_path: Path) -> None:
    assert engine_of(Replay(SOME, decision_cost="fixed(seconds=1)"), "easy", tmp_path) == "harness"
    assert engine_of(Replay(SOME, reasons=True), "easy", tmp_path) == "harness"
    assert engine_of(Replay(SOME), "tests.sil.runs.test_engines:OneAtATime", tmp_path) == "harness"


@pytest.mark.parametrize(
    ("replay", "why"),
    [
        (Replay(SOME, decision_cost="fixed(seconds=1)"), "decisions that cost simulated time"),
        (Replay(SOME, reasons=True), "reasons for waiting"),
        (
            Replay(replace(SOME, jobs=SOME.jobs.with_columns(run_s=pl.lit(1e15)))),
            "its jobs may take 2e.18 s, in which seconds are not exact",
        ),
    ],
)
def test_who_asks_for_the_compiled_engine_where_it_cannot_run_is_told_why(replay: Replay, why: str) -> None:
    with pytest.raises(UserError, match=f"scheduler 'easy': {why}.*engine=.harness."):
        replace(replay, engine=Engine.COMPILED).check([resolve("easy")])


def test_a_decision_takes_the_mean_of_its_chunk(tmp_path: Path) -> None:
    Replay(SOME).run(resolve("easy"), tmp_path)
    timings = pl.read_parquet(tmp_path / TIMINGS)
    assert pl.read_parquet_metadata(tmp_path / TIMINGS)["wall_s"].startswith("mean")
    assert timings["wall_s"].n_unique() == 1
    assert timings["n_decisions"].sum() == len(SOME.jobs)
