"""Arrays, dependencies, begin times, holds and cancellations in replays: recounted from the facts alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import get_args

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import UserError
from scheduler.managers.eligibility import Conditions, Dependency, DependencyKind, JobArray
from scheduler.ports import Act
from sil.outcome.finished_jobs import jobs_in
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.log_events import Events, JobEvent
from sil.settings.replays import Engine, Estimates
from sil.trace.facts import Fact
from sil.workload.job_log import JobLog
from sil.workload.settings import Rules
from sil.workload.swf import read_swf
from tests.examples import up_to
from tests.sil.runs.test_engines import facts_by
from tests.sil.runs.test_engines_on_nodes import logs as logs_on_nodes

Kind = DependencyKind
COLUMNS = ["job", "submit_s", "run_s", "processors", "estimate_s", "user"]
POLICIES = ["fcfs", "sjf", "easy", "conservative"]
ORDERS = ["default", "archive", "batsim"]


def log_of(
    rows: Sequence[tuple[float, float, int]], processors: int, failed: frozenset[int] = frozenset()
) -> JobLog:
    """Jobs 1, 2 and so on: submission, run time and processors; estimates are right."""
    jobs = [(k, submit_s, run_s, size, run_s, -1) for k, (submit_s, run_s, size) in enumerate(rows, 1)]
    return JobLog("log", pl.DataFrame(jobs, COLUMNS, orient="row"), processors, unsuccessful=failed)


def after(kind: Kind, *on: int, delay_s: float = 0.0) -> Conditions:
    return Conditions((Dependency(kind, on, delay_s),))


def either(*parts: Dependency) -> Conditions:
    return Conditions(parts, any_suffices=True)


def facts_of(log: JobLog, events: Events, scheduler: str = "easy", order: str = "default") -> pl.DataFrame:
    replay = Replay(log, events=events, order=order, engine=Engine.HARNESS)
    return replay.facts(resolve(scheduler), Path(os.devnull))


def times(facts: pl.DataFrame, fact: Fact) -> dict[int, float]:
    """The first time of this fact of each job."""
    found = facts.filter(pl.col("event") == fact).unique("job", keep="first")
    return dict(found.select("job", "time_s").iter_rows())


def details(facts: pl.DataFrame, fact: Fact) -> dict[int, str]:
    return dict(facts.filter(pl.col("event") == fact).select("job", "detail").iter_rows())


FREE = [(0.0, 100.0, 1), (0.0, 50.0, 1), (10.0, 20.0, 1)]
"""Of three jobs on four processors, none waits for processors."""


@pytest.mark.parametrize(
    ("conditions", "starts_s", "waited_for"),
    [
        (Conditions(), 10.0, None),
        (Conditions(begin_s=5.0), 10.0, None),
        (Conditions(begin_s=30.0), 30.0, "BeginTime"),
        (after(Kind.AFTER_OK, 1), 100.0, "Dependency"),
        (after(Kind.AFTER_NOT_OK, 2), 50.0, "Dependency"),
        (after(Kind.AFTER_ANY, 1, 2), 100.0, "Dependency"),
        (after(Kind.AFTER_ANY, 2, delay_s=7.0), 57.0, "Dependency"),
        (after(Kind.AFTER, 1), 10.0, None),
        (after(Kind.AFTER, 1, delay_s=60.0), 60.0, "Dependency"),
        (after(Kind.SINGLETON, 1, 2), 100.0, "Dependency"),
        (either(Dependency(Kind.AFTER_ANY, (1,)), Dependency(Kind.AFTER_ANY, (2,))), 50.0, "Dependency"),
        (either(Dependency(Kind.AFTER_OK, (2,)), Dependency(Kind.AFTER_ANY, (1,))), 100.0, "Dependency"),
        (Conditions(after(Kind.AFTER_ANY, 2).dependencies, begin_s=70.0), 70.0, "Dependency, BeginTime"),
        (after(Kind.AFTER_OK, 1, 2), None, None),
        (after(Kind.AFTER_NOT_OK, 1), None, None),
    ],
)  # fmt: skip
def test_a_job_starts_when_its_conditions_are_met_and_the_job_table_says_for_what_it_waited(
    conditions: Conditions, starts_s: float | None, waited_for: str | None
) -> None:
    """Job 2 fails."""
    log = log_of(FREE, 4, frozenset({2}))
    facts = facts_of(log, Events(conditions={3: conditions}))
    assert times(facts, Fact.RUN_STARTED).get(3) == starts_s
    assert details(facts, Fact.JOB_ELIGIBLE).get(3) == waited_for
    refused = "it never became eligible to run: DependencyNeverSatisfied"
    assert details(facts, Fact.JOB_REFUSED) == ({3: refused} if starts_s is None else {})
    if starts_s is not None:
        row = jobs_in(facts, log.jobs).row(2, named=True)
        assert (row["submission_time"], row["waiting_time"]) == (starts_s, 0.0)
        assert row["metadata"] == ("" if waited_for is None else f"waited for {waited_for}")


def test_a_job_waits_from_when_it_is_eligible_and_then_comes_last() -> None:
    rows = [(0.0, 100.0, 2), (1.0, 10.0, 2), (2.0, 10.0, 2)]
    facts = facts_of(log_of(rows, 2), Events(conditions={2: Conditions(begin_s=50.0)}), "fcfs")
    assert times(facts, Fact.RUN_STARTED) == {1: 0.0, 3: 100.0, 2: 110.0}
    table = jobs_in(facts, log_of(rows, 2).jobs)
    assert table["waiting_time"].to_list() == [0.0, 60.0, 98.0]


def test_at_most_so_many_jobs_of_an_array_run_at_a_time_in_order() -> None:
    rows = [(0.0, 10.0 * k, 1) for k in (3, 1, 1, 1)]
    facts = facts_of(log_of(rows, 4), Events(arrays=(JobArray((1, 2, 3, 4), 2),)))
    assert times(facts, Fact.RUN_STARTED) == {1: 0.0, 2: 0.0, 3: 10.0, 4: 20.0}
    assert details(facts, Fact.JOB_ELIGIBLE) == {3: "JobArrayTaskLimit", 4: "JobArrayTaskLimit"}


@pytest.mark.parametrize("scheduler", POLICIES)
def test_a_job_that_is_held_leaves_the_queue_and_comes_last_after_its_release(scheduler: str) -> None:
    rows = [(0.0, 100.0, 2), (1.0, 10.0, 2), (2.0, 10.0, 2)]
    acts = (JobEvent(20.0, 2, "hold"), JobEvent(30.0, 1, "hold"), JobEvent(60.0, 2, "release"))
    facts = facts_of(log_of(rows, 2), Events(on_jobs=acts), scheduler)
    assert times(facts, Fact.RUN_STARTED) == {1: 0.0, 3: 100.0, 2: 110.0}
    assert details(facts, Fact.JOB_INELIGIBLE) == {2: "JobHeldUser"}


def test_jobs_are_cancelled_while_they_wait_for_others_in_the_queue_and_while_they_run() -> None:
    rows = [(0.0, 100.0, 2), (1.0, 10.0, 2), (2.0, 10.0, 2), (3.0, 10.0, 1), (4.0, 10.0, 1)]
    conditions = {3: after(Kind.AFTER_OK, 1), 4: after(Kind.AFTER_NOT_OK, 1), 5: after(Kind.AFTER_ANY, 2)}
    acts = tuple(JobEvent(at_s, job, "cancel") for at_s, job in ((19.0, 2), (20.0, 3), (21.0, 1)))
    facts = facts_of(log_of(rows, 2), Events(conditions=conditions, on_jobs=acts))
    assert times(facts, Fact.RUN_PREEMPTED) == {1: 21.0}
    assert times(facts, Fact.RUN_STARTED) == {1: 0.0, 4: 21.0, 5: 21.0}
    assert times(facts, Fact.JOB_ELIGIBLE) == {4: 21.0, 5: 19.0}
    assert details(facts, Fact.JOB_REFUSED) == {
        1: "it was cancelled while it ran",
        2: "it was cancelled while it waited",
        3: "it was cancelled while it waited (Dependency)",
    }


def test_a_requeued_job_runs_again_from_the_beginning() -> None:
    facts = facts_of(log_of([(0.0, 100.0, 2)], 2), Events(on_jobs=(JobEvent(30.0, 1, "requeue"),)))
    assert times(facts, Fact.RUN_ENDED) == {1: 130.0}


def test_time_until_a_job_is_eligible_is_no_lost_capacity_and_no_start_before_it_backfilling(
    tmp_path: Path,
) -> None:
    conditions = {1: Conditions(begin_s=500.0), 2: Conditions(held=True)}
    events = Events(conditions=conditions, on_jobs=(JobEvent(700.0, 2, "release"),))
    replay = Replay(log_of(FREE, 1), events=events, engine=Engine.HARNESS)
    found = replay.run(resolve("easy"), tmp_path).statistics
    assert found["loss_of_capacity"] == found["backfilled_share"] == 0.0


def test_in_a_closed_loop_a_job_is_submitted_its_think_time_after_the_end_of_the_preceding_one(
    tmp_path: Path,
) -> None:
    """Jobs 2 and 3 of a user follow one another; 4 is of another one, and 5 names a job that is not there."""
    rows = [(1, 0, 50, 2, -1, -1), (2, 500, 10, 2, 1, 7), (3, 900, 10, 2, 2, -1), (4, 20, 30, 2, -1, -1)]
    path, unknown = tmp_path / "a.swf", (5, 950, 10, 1, 99, 3)
    lines = [
        f"{job} {submit_s} -1 {run_s} {n} -1 -1 {n} 60 -1 1 1 1 -1 -1 -1 {preceding} {think_s}"
        for job, submit_s, run_s, n, preceding, think_s in sorted([*rows, unknown], key=lambda row: row[1])
    ]
    path.write_text("\n".join(["; MaxProcs: 2", *lines]) + "\n")
    log = read_swf(path, Rules(closed_loop=True))
    facts = facts_of(log, Events(), "fcfs")
    assert times(facts, Fact.RUN_STARTED) == {1: 0.0, 4: 50.0, 2: 80.0, 3: 90.0, 5: 950.0}
    found = jobs_in(facts, log.jobs).select("job_id", "submission_time").iter_rows()
    assert dict(found) == {1: 0.0, 2: 57.0, 3: 90.0, 4: 20.0, 5: 950.0}
    assert log.notes == (
        "2 jobs submitted after the end of preceding ones, in a closed loop",
        "1 job with a preceding job on no earlier line: at their times",
    )
    with pytest.raises(UserError, match="no closed loop"):
        Replay(log).check([resolve("slurm")])


@pytest.mark.parametrize("engine", [Engine.COMPILED, Engine.HARNESS])
@pytest.mark.parametrize("act", ["cancel", "requeue"])
def test_it_is_too_late_to_stop_a_run_that_has_released_its_nodes(act: Act, engine: Engine) -> None:
    events = Events(on_jobs=(JobEvent(50.0, 1, act), JobEvent(50.0, 2, "cancel"), JobEvent(50.0, 2, act)))
    log = log_of([(0.0, 50.0, 1), (0.0, 60.0, 1)], 2)
    facts = facts_by(engine, Replay(log, events=events, order="archive"), "easy")
    assert times(facts, Fact.RUN_ENDED) == {1: 50.0}
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED)
    assert refused.select("time_s", "job", "detail").rows() == [(50.0, 2, "it was cancelled while it ran")]


# -- random logs --------------------------------------------------------------------------------------------


@st.composite
def logs(draw: st.DrawFn) -> JobLog:
    n, processors = draw(st.integers(2, 14)), draw(st.integers(1, 4))
    times_s = st.integers(0, 30).map(float)
    rows = [(draw(times_s), draw(times_s) + 1.0, draw(st.integers(1, processors + 1))) for _ in range(n)]
    return log_of(sorted(rows), processors)


@st.composite
def cases(
    draw: st.DrawFn, acts: Sequence[Act] = get_args(Act), any_logs: st.SearchStrategy[JobLog] | None = None
) -> tuple[JobLog, Events]:
    """Logs in which most jobs have conditions, some fail, and anything may happen to some."""
    log = draw(logs() if any_logs is None else any_logs)
    jobs = log.jobs["job"].to_list()
    log, times_s = replace(log, unsuccessful=draw(st.frozensets(st.sampled_from(jobs)))), st.integers(0, 30)
    conditions = {}
    for k, job in enumerate(jobs):
        on = st.lists(st.sampled_from(jobs[:k]), min_size=1, max_size=2).map(tuple) if k else st.just(())
        parts = st.builds(Dependency, st.sampled_from([*Kind]), on, st.sampled_from([0.0, 5.0]))
        conditions[job] = Conditions(
            tuple(draw(st.lists(parts, max_size=2))),
            draw(st.booleans()),
            draw(st.sampled_from([-inf, 10.0, 40.0])),
            draw(st.integers(0, 7)) == 0,
        )
    tasks = draw(st.lists(st.sampled_from(jobs), unique=True))
    arrays = (JobArray(tuple(sorted(tasks)), draw(st.integers(1, 2))),) if tasks else ()
    submitted_s = dict(log.jobs.select("job", "submit_s").iter_rows())
    made = [
        JobEvent(submitted_s[job] + draw(times_s), job, draw(st.sampled_from([*acts])))
        for job in draw(st.lists(st.sampled_from(jobs), max_size=6))
    ]
    made.sort(key=lambda event: event.at_s)
    return log, Events(on_jobs=tuple(made), arrays=arrays, conditions=conditions)


def recount(log: JobLog, events: Events, facts: pl.DataFrame, later_s: float) -> None:
    """Follow the facts in order, and see that no job starts that must not."""
    began: dict[int, float] = {}
    over: dict[int, tuple[float, bool]] = {}
    running: set[int] = set()
    held = {job for job, each in events.conditions.items() if each.held}
    acts = [event._replace(at_s=event.at_s + later_s) for event in events.on_jobs]
    released = {(act.at_s, act.job) for act in acts if act.act == "release"}
    for time_s, event, job in facts.select("time_s", "event", "job").iter_rows():
        while acts and acts[0].at_s < time_s:
            act = acts.pop(0)
            if act.act == "hold" and act.job not in running:
                held.add(act.job)
            elif act.act == "release":
                held.discard(act.job)
        if event == Fact.RUN_STARTED:
            conditions = events.conditions.get(job, Conditions())
            assert time_s >= conditions.begin_s
            met = [is_met(part, time_s, began, over) for part in conditions.dependencies]
            assert not met or (any(met) if conditions.any_suffices else all(met)), (job, time_s)
            assert job not in held or (time_s, job) in released
            assert job not in over
            began.setdefault(job, time_s)
            running.add(job)
            for array in events.arrays:
                assert len(running.intersection(array.jobs)) <= (array.at_once or inf)
        elif event in (Fact.RUN_ENDED, Fact.RUN_PREEMPTED):
            running.discard(job)
        if event in (Fact.RUN_ENDED, Fact.JOB_REFUSED):
            over[job] = time_s, event == Fact.RUN_ENDED and job not in log.unsuccessful
            began.setdefault(job, time_s)
    assert len(over) == len(log)


def is_met(
    part: Dependency, now_s: float, began: dict[int, float], over: dict[int, tuple[float, bool]]
) -> bool:
    wanted = {Kind.AFTER_OK: True, Kind.AFTER_CORRESPONDING: True, Kind.AFTER_NOT_OK: False}.get(part.kind)
    for job in part.on:
        if part.kind is Kind.AFTER:
            since_s = began.get(job, inf)
        else:
            since_s, completed = over.get(job, (inf, False))
            if wanted is not None and completed is not wanted:
                return False
        if since_s + part.delay_s > now_s:
            return False
    return True


@settings(max_examples=up_to(300))
@given(cases(), st.sampled_from(POLICIES), st.sampled_from(ORDERS))
def test_no_job_starts_before_its_conditions_are_met_nor_more_of_an_array_than_may(
    case: tuple[JobLog, Events], scheduler: str, order: str
) -> None:
    log, events = case
    facts = facts_of(log, events, scheduler, order)
    assert not len(facts.filter(pl.col("event") == Fact.FAULT)), facts["message"].drop_nulls().to_list()
    recount(log, events, facts, 10.0 if order == "batsim" else 0.0)


def in_order_of_number(log: JobLog) -> JobLog:
    return replace(log, jobs=log.jobs.with_columns(job=pl.int_range(1, pl.len() + 1)))


@settings(max_examples=up_to(500, part=10))
@given(
    cases() | cases(any_logs=logs_on_nodes().map(in_order_of_number)),
    st.sampled_from(POLICIES),
    st.sampled_from(ORDERS),
    st.sampled_from(Estimates),
    st.sampled_from([None, 3.0]),
)
def test_both_engines_keep_the_same_jobs_from_the_queue_and_stop_the_same_runs(
    case: tuple[JobLog, Events], scheduler: str, order: str, estimates: Estimates, every_s: float | None
) -> None:
    log, events = case
    replay = Replay(log, events=events, order=order, estimates=estimates, checkpoint_interval_s=every_s)
    compiled, harness = (
        facts_by(engine, replay, scheduler) for engine in Engine if engine is not Engine.AUTO
    )
    assert compiled.equals(harness)
