"""Orderings by deadlines on one machine, against what is known of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from math import inf
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.log_events import Events, JobEvent
from sil.settings.replays import Engine, Expiry
from sil.workload.job_log import DUE_IN_S, JobLog
from tests.examples import up_to
from tests.sil.runs.test_engines import log_of

ENGINES = (Engine.HARNESS, Engine.COMPILED)
Work = list[tuple[float, float]]
"""The run time and the deadline of jobs that arrive together, in seconds."""


def log_with(work: Work, processors: int = 1) -> JobLog:
    rows = [(k, 0.0, run_s, 1, run_s, 1) for k, (run_s, _) in enumerate(work)]
    log = log_of(rows, processors)
    return replace(log, jobs=log.jobs.with_columns(pl.Series(DUE_IN_S, [due_s for _, due_s in work])))


def ends(work: Work, scheduler: str, engine: Engine = Engine.COMPILED) -> list[float]:
    """When each job ends."""
    facts = Replay(log_with(work), engine=engine).facts(resolve(scheduler), Path("/dev/null"))
    over = facts.filter(pl.col("event") == "run_ended").sort("job")
    return over["time_s"].to_list()


def lateness(work: Work, ends_s: list[float]) -> list[float]:
    return [end_s - due_s for end_s, (_, due_s) in zip(ends_s, work, strict=True)]


def in_this_order(work: Work, order: tuple[int, ...]) -> list[float]:
    now_s, ends_s = 0.0, [0.0] * len(work)
    for k in order:
        now_s += work[k][0]
        ends_s[k] = now_s
    return ends_s


def fewest_late(work: Work) -> int:
    """Moore and Hodgson 1968: by deadline; whenever a job would be late, the longest so far is left out."""
    kept, now_s, n_late = list[float](), 0.0, 0
    for run_s, due_s in sorted(work, key=lambda job: job[1]):
        kept.append(run_s)
        now_s += run_s
        if now_s > due_s:
            now_s -= max(kept)
            kept.remove(max(kept))
            n_late += 1
    return n_late


works = st.lists(
    st.tuples(st.integers(1, 9).map(float), st.integers(1, 30).map(float)), min_size=1, max_size=5
)


@pytest.mark.parametrize("engine", ENGINES)
@given(work=works)
@settings(max_examples=up_to(60))
def test_no_order_has_a_smaller_maximum_lateness_than_edf(work: Work, engine: Engine) -> None:
    """Jackson 1955; and none has fewer late jobs than Moore and Hodgson's."""
    everyone = [lateness(work, in_this_order(work, order)) for order in permutations(range(len(work)))]
    found = lateness(work, ends(work, "edf", engine))
    assert max(found) == min(map(max, everyone))
    n_late = [sum(late_s > 0 for late_s in each) for each in everyone]
    assert min(n_late) == fewest_late(work) <= sum(late_s > 0 for late_s in found)
    if max(found) <= 0:
        assert fewest_late(work) == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_edf_and_least_laxity_differ_as_worked_out_by_hand(engine: Engine) -> None:
    # By deadline: jobs 1 (1 s, by 5), 0 (6 s, by 8), 2. Laxities are 2, 4 and infinite: job 0, then job 1.
    work = [(6.0, 8.0), (1.0, 5.0), (1.0, float("inf"))]
    assert ends(work, "edf", engine) == [7.0, 1.0, 8.0]
    assert ends(work, "least_laxity", engine) == [6.0, 7.0, 8.0]
    assert ends(work, "fcfs", engine) == [6.0, 7.0, 8.0]


@pytest.mark.parametrize("engine", ENGINES)
def test_missed_deadlines_and_tardiness_are_those_of_the_jobs_that_have_one(
    engine: Engine, tmp_path: Path
) -> None:
    work = [(6.0, 8.0), (1.0, 5.0), (1.0, float("inf"))]
    replay = Replay(log_with(work), engine=engine)
    late, in_time = (
        replay.results(resolve(name), tmp_path / "printed").statistics for name in ("fcfs", "edf")
    )
    # Under FCFS job 1 ends at 7 instead of 5.
    keys = "missed_share", "mean_tardiness", "max_tardiness"
    assert [late[key] for key in keys] == [50.0, 1.0, 2.0]
    assert [in_time[key] for key in keys] == [0.0, 0.0, 0.0]
    replay.run(resolve("fcfs"), tmp_path)
    jobs = pl.read_csv(tmp_path / "jobs.csv").sort("job_id")
    assert jobs["deadline"].to_list() == [8.0, 5.0, None]
    assert jobs["tardiness"].to_list() == [0.0, 2.0, None]


def test_deadlines_of_a_log_are_factors_of_estimates_drawn_with_a_seed() -> None:
    log = log_of([(k, 10.0 * k, 5.0, 1, 100.0 if k else None, 1) for k in range(50)], 4)
    one, again, other = (log.with_deadlines(1.5, 4.0, seed) for seed in (7, 7, 8))
    due_in_s = one.jobs[DUE_IN_S]
    assert due_in_s[0] == float("inf")
    assert due_in_s[1:].is_between(150.0, 400.0).all()
    assert due_in_s.equals(again.jobs[DUE_IN_S])
    assert not due_in_s.equals(other.jobs[DUE_IN_S])
    assert one.slice(10, 20).jobs[DUE_IN_S].equals(due_in_s[10:20])
    assert one.part == ("deadlines 1.5 to 4 times the estimate after submission (seed 7)",)


# -- jobs that expire --------------------------------------------------------------------------------------


def expiring(
    work: Work, engine: Engine, scheduler: str = "fcfs", requeued_s: dict[int, float] | None = None
) -> tuple[dict[int, float], dict[int, float]]:
    """When jobs start (for the last time), and when they are removed."""
    on_jobs = tuple(JobEvent(at_s, job, "requeue") for job, at_s in (requeued_s or {}).items())
    replay = Replay(log_with(work), engine=engine, expiry=Expiry.DEADLINE, events=Events(on_jobs=on_jobs))
    facts = replay.facts(resolve(scheduler), Path("/dev/null"))
    removed = facts.filter(event="job_refused")
    assert set(removed["detail"]) <= {"it could not end before its deadline any more (DEADLINE)"}
    started = facts.filter(event="run_started")
    return dict(started.select("job", "time_s").iter_rows()), dict(
        removed.select("job", "time_s").iter_rows()
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_is_removed_a_second_after_the_last_in_which_it_could_start(engine: Engine) -> None:
    """Job 1 may start until 100 s, when job 0 ends; job 2 until 109 s, which is too early; job 3 never."""
    work = [(100.0, 1e6), (10.0, 110.0), (30.0, 139.0), (5.0, 4.0), (5.0, inf)]
    started, removed = expiring(work, engine)
    assert started == {0: 0.0, 1: 100.0, 4: 110.0}
    assert removed == {2: 110.0, 3: 0.0}


@pytest.mark.parametrize("engine", ENGINES)
def test_what_runs_is_not_removed(engine: Engine) -> None:
    assert expiring([(100.0, 100.0)], engine) == ({0: 0.0}, {})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_job_whose_run_is_stopped_is_removed_if_it_could_not_end_in_time_any_more(engine: Engine) -> None:
    """Job 0 could begin again until 10 s, job 1 until 200 s."""
    work = [(100.0, 110.0), (100.0, 300.0)]
    started, removed = expiring(work, engine, requeued_s={0: 50.0, 1: 60.0})
    assert removed == {0: 50.0}
    assert started == {0: 0.0, 1: 60.0}


@given(works)
@settings(max_examples=up_to(40), deadline=None)
def test_both_engines_remove_the_same_jobs_and_no_deadline_is_missed(work: Work) -> None:
    for scheduler in ("fcfs", "edf_easy", "conservative"):
        started, removed = expiring(work, Engine.HARNESS, scheduler)
        assert expiring(work, Engine.COMPILED, scheduler) == (started, removed)
        assert len(started) + len(removed) == len(work)
        for job, time_s in started.items():
            assert time_s + work[job][0] <= work[job][1], "limits are right, so it ends in time"
