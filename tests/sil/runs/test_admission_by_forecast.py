"""Admission of jobs with deadlines by forecasts, against a small simulator and cases worked by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import UserError
from scheduler.managers.queues import Unkept
from scheduler.node_request import Node, Partition, Request
from scheduler.priority.policy import Association, Multifactor, SitePolicy, Weights
from sil.outcome.trace_inspection import timeline
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.log_events import NodesUpdated
from sil.settings.replays import Engine, Estimates
from sil.trace.facts import Fact
from sil.workload.job_log import DUE_IN_S, JobLog, log_on_nodes
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to
from tests.sil.runs import test_reservations as reservations
from tests.sil.runs.test_engines import log_of
from tests.sil.runs.test_policies_on_nodes import WEIGHTS, Case, cases

POLICIES = ("fcfs", "easy", "conservative", "edf", "edf_easy", "least_laxity", "sjf")


class SmallJob(NamedTuple):
    submit_s: float
    run_s: float
    size: int
    estimate_s: float
    due_in_s: float

    @property
    def due_s(self) -> float:
        return self.submit_s + self.due_in_s


def log_with(jobs: list[SmallJob], processors: int) -> JobLog:
    log = log_of([(k, *job[:4], 1) for k, job in enumerate(jobs)], processors)
    due_in_s = [jobs[k].due_in_s for k in log.jobs["job"]]
    return replace(log, jobs=log.jobs.with_columns(pl.Series(DUE_IN_S, due_in_s)))


def facts_of(log: JobLog, scheduler: str, unkept: Unkept = Unkept.REFUSED, **more: object) -> pl.DataFrame:
    return Replay(log, unkept=unkept, **more).facts(resolve(scheduler), Path("/dev/null"))  # type: ignore[arg-type]


def times(facts: pl.DataFrame, event: Fact) -> dict[int, float]:
    return dict(facts.filter(pl.col("event") == event).select("job", "time_s").iter_rows())


def said_of(facts: pl.DataFrame, job: int) -> str:
    found = timeline(facts, job)
    assert found is not None
    return found.events[1][1]


def passes(
    jobs: list[SmallJob], queue: list[int], free: int, ends: list[tuple[float, int]], now_s: float, easy: bool
) -> Iterator[int]:
    """The jobs that start by FCFS or EASY."""
    ends, left = list(ends), list(queue)
    while left and jobs[left[0]].size <= free:
        job = left.pop(0)
        free -= jobs[job].size
        ends.append((now_s + jobs[job].estimate_s, jobs[job].size))
        yield job
    if not left or not easy:
        return
    shadow_s, then_free = now_s, free
    for end_s, size in sorted(ends):
        if then_free >= jobs[left[0]].size and end_s > shadow_s:
            break
        shadow_s, then_free = end_s, then_free + size
    extra = then_free - jobs[left[0]].size
    for job in left[1:]:
        size, late = jobs[job].size, now_s + jobs[job].estimate_s > shadow_s
        if size <= free and (not late or size <= extra):
            free -= size
            extra -= size if late else 0
            yield job


class Small:
    """A machine with FCFS or EASY, whose jobs are admitted by running it forward."""

    def __init__(self, jobs: list[SmallJob], processors: int, easy: bool) -> None:
        self.jobs, self.processors, self.easy = jobs, processors, easy

    def ahead(self, queue: list[int], ends: list[tuple[float, int, int]], now_s: float) -> dict[int, float]:
        """When each job ends, by the estimates."""
        found = {job: end_s for end_s, job, _ in ends}
        ends, queue = sorted(ends), list(queue)
        while True:
            while ends and ends[0][0] <= now_s:
                heappop(ends)
            free = self.processors - sum(size for *_, size in ends)
            expected = [(end_s, size) for end_s, _, size in ends]
            for job in passes(self.jobs, queue, free, expected, now_s, self.easy):
                found[job] = now_s + self.jobs[job].estimate_s
                heappush(ends, (found[job], job, self.jobs[job].size))
            queue = [job for job in queue if job not in found]
            if not queue:
                return found
            now_s = ends[0][0]

    def run(self) -> tuple[dict[int, float], set[int]]:
        """When each job starts, and which are refused."""
        arriving = sorted(range(len(self.jobs)), key=lambda k: (self.jobs[k].submit_s, k), reverse=True)
        queue, running = list[int](), dict[int, float]()
        starts_s, refused = dict[int, float](), set[int]()
        while arriving or running:
            next_s = min([*(self.jobs[k].submit_s for k in arriving[-1:]), *running.values()])
            running = {k: end_s for k, end_s in running.items() if end_s > next_s}
            while arriving and self.jobs[arriving[-1]].submit_s <= next_s:
                job = arriving.pop()
                ends = [(starts_s[k] + self.jobs[k].estimate_s, k, self.jobs[k].size) for k in running]
                if self.jobs[job].due_in_s < inf:
                    late = [
                        {
                            k
                            for k, end_s in self.ahead(waiting, ends, next_s).items()
                            if end_s > self.jobs[k].due_s
                        }
                        for waiting in (queue, [*queue, job])
                    ]
                    if late[1] - late[0]:
                        refused.add(job)
                        continue
                queue.append(job)
            free = self.processors - sum(self.jobs[k].size for k in running)
            expected = [(starts_s[k] + self.jobs[k].estimate_s, self.jobs[k].size) for k in running]
            for job in list(passes(self.jobs, queue, free, expected, next_s, self.easy)):
                starts_s[job], running[job] = next_s, next_s + self.jobs[job].run_s
                queue.remove(job)
        return starts_s, refused


@st.composite
def small_jobs(draw: st.DrawFn, deadlines: st.SearchStrategy[float]) -> tuple[list[SmallJob], int]:
    processors = draw(st.integers(1, 4))
    job = st.builds(
        lambda submit, run, size, more, due: SmallJob(submit, run, size, run + more, due),
        st.integers(0, 20).map(float),
        st.integers(1, 9).map(float),
        st.integers(1, processors),
        st.integers(0, 5).map(float),
        deadlines,
    )
    return draw(st.lists(job, min_size=1, max_size=12)), processors


SOME = st.just(inf) | st.integers(1, 40).map(float)


@pytest.mark.parametrize("scheduler", ["fcfs", "easy"])
@given(case=small_jobs(SOME))
@settings(max_examples=up_to(60))
def test_a_small_simulator_admits_and_starts_the_same_jobs(
    case: tuple[list[SmallJob], int], scheduler: str
) -> None:
    facts = facts_of(log_with(*case), scheduler)
    starts_s, refused = Small(*case, scheduler == "easy").run()
    assert times(facts, Fact.JOB_REFUSED).keys() == refused
    assert times(facts, Fact.RUN_STARTED) == starts_s


@pytest.mark.parametrize("scheduler", POLICIES)
@given(case=small_jobs(st.integers(1, 40).map(float)))
@settings(max_examples=up_to(30))
def test_who_is_admitted_keeps_the_deadline_if_estimates_are_right_and_all_jobs_have_one(
    case: tuple[list[SmallJob], int], scheduler: str
) -> None:
    jobs, processors = case
    facts = facts_of(log_with(jobs, processors), scheduler, estimates=Estimates.ACTUAL)
    ends_s = times(facts, Fact.RUN_ENDED)
    assert [k for k, end_s in ends_s.items() if end_s > jobs[k].due_s] == []
    assert ends_s.keys() == set(range(len(jobs))) - times(facts, Fact.JOB_REFUSED).keys()


@pytest.mark.parametrize("scheduler", POLICIES)
@given(case=small_jobs(SOME))
@settings(max_examples=up_to(30))
def test_the_others_run_as_if_refused_jobs_had_never_come(
    case: tuple[list[SmallJob], int], scheduler: str
) -> None:
    log = log_with(*case)
    facts = facts_of(log, scheduler)
    refused = times(facts, Fact.JOB_REFUSED).keys()
    without = replace(log, jobs=log.jobs.filter(~pl.col("job").is_in([*refused])))
    if len(without.jobs):
        alone = facts_of(without, scheduler, Unkept.ACCEPTED)
        assert times(facts, Fact.RUN_STARTED) == times(alone, Fact.RUN_STARTED)


@pytest.mark.parametrize("scheduler", ["easy", "conservative", "edf_easy", "slurm_backfill(bf_interval=3)"])
@given(case=cases(WEIGHTS, 20), due=st.lists(st.integers(10, 1500).map(float), min_size=20, max_size=20))
@settings(max_examples=up_to(25), deadline=None)
def test_forecasts_include_fair_share_ages_and_limits_so_every_promise_is_kept(
    case: Case, due: list[float], scheduler: str
) -> None:
    """Under random policies of a site, with estimates that are right."""
    log = case.log
    run_s = log.jobs["run_s"]
    log = replace(log, jobs=log.jobs.with_columns(pl.Series(DUE_IN_S, due[: len(run_s)]), estimate_s=run_s))
    facts = facts_of(log, scheduler)
    due_s = {job: at_s + in_s for job, at_s, in_s in log.jobs.select("job", "submit_s", DUE_IN_S).iter_rows()}
    ends_s = times(facts, Fact.RUN_ENDED)
    assert {k: end_s - due_s[k] for k, end_s in ends_s.items() if end_s > due_s[k] + 1e-6} == {}


BY_HAND = [
    SmallJob(0.0, 10.0, 1, 10.0, inf),
    SmallJob(0.0, 10.0, 2, 10.0, 25.0),
    SmallJob(1.0, 5.0, 1, 5.0, 30.0),
    SmallJob(2.0, 3.0, 1, 3.0, 9.0),
    SmallJob(3.0, 4.0, 2, 4.0, 15.0),
]


def test_the_answer_names_the_jobs_that_are_delayed_and_by_how_much() -> None:
    # By deadline on two processors: job 1 goes before job 0; job 3 would have to wait for it until 10 s, and
    # end at 13 s, due at 11; job 4 starts at 10 s, and jobs 2 and 0 after it, at 14 s.
    facts = facts_of(log_with(BY_HAND, 2), "edf")
    promised = "job {} is promised a turnaround of at most {} s"
    assert said_of(facts, 1) == f"{promised.format(1, 25)}; it delays job 0 by 10 s"
    assert said_of(facts, 2) == promised.format(2, 30)
    assert said_of(facts, 3) == "refused: job 3 would miss its deadline by 2 s, as predicted"
    assert said_of(facts, 4) == f"{promised.format(4, 15)}; it delays job 2 by 4 s, job 0 by 4 s"
    assert times(facts, Fact.RUN_STARTED) == {1: 0.0, 4: 10.0, 2: 14.0, 0: 14.0}


def test_a_job_is_refused_for_whom_others_would_miss_the_deadlines_promised_to_them() -> None:
    # The shortest first: job 2 would go before job 1, which is due at 8 s, and keep its own deadline.
    jobs = [SmallJob(0.0, 4.0, 1, 4.0, inf), SmallJob(0.0, 4.0, 1, 4.0, 8.0), SmallJob(1.0, 3.0, 1, 3.0, 9.0)]
    facts = facts_of(log_with(jobs, 1), "sjf")
    assert said_of(facts, 2) == "refused: job 1 would miss its deadline by 3 s, as predicted"
    assert times(facts, Fact.RUN_ENDED) == {0: 4.0, 1: 8.0}


def test_with_best_effort_a_job_that_cannot_keep_its_deadline_waits_without_it() -> None:
    # Job 1 is due too early; without its deadline, it comes after job 2, which arrives later.
    jobs = [SmallJob(0.0, 4.0, 1, 4.0, inf), SmallJob(1.0, 4.0, 1, 4.0, 4.0), SmallJob(2.0, 4.0, 1, 4.0, 8.0)]
    facts = facts_of(log_with(jobs, 1), "edf", Unkept.BEST_EFFORT)
    assert times(facts, Fact.RUN_ENDED) == {0: 4.0, 2: 8.0, 1: 12.0}


@pytest.mark.parametrize(
    ("scheduler", "engine", "due_in_s", "sentence"),
    [
        ("easy", Engine.COMPILED, 9.0, "admission by forecast is not compiled; replay it with engine="),
        ("easy", Engine.AUTO, None, "unkept=.refused. has no effect.* have no deadlines; draw some with"),
        ("batsim: true", Engine.AUTO, 9.0, "has its own queue, and no admission by forecast"),
    ],
)
def test_admission_that_cannot_be_is_refused_with_what_to_do(
    scheduler: str, engine: Engine, due_in_s: float | None, sentence: str
) -> None:
    log = log_with([SmallJob(0.0, 1.0, 1, 1.0, due_in_s or inf)], 1)
    if due_in_s is None:
        log = replace(log, jobs=log.jobs.drop(DUE_IN_S))
    with pytest.raises(UserError, match=sentence):
        Replay(log, engine=engine, unkept=Unkept.REFUSED).check([resolve(scheduler)])


def test_a_forecast_knows_what_each_user_has_used_before() -> None:
    """On one node, user 0 has used 3,000 s by 3,000 s, and user 1, who runs until 3,600 s, less."""
    users = [Association("a"), *(Association("a", f"user-{n}") for n in range(2))]
    policy = SitePolicy(
        Multifactor(Weights(fair_share=10_000.0), 36_000.0, period_s=60.0), (*users,), {}, {}, ()
    )
    cluster = SiteNodes(
        {"n0": Node(8, 1, partitions=frozenset({"p"}))}, {"p": Partition("p")}, {}, policy=policy
    )
    rows = [
        (1, 0.0, 3000.0, 8, 3000.0, 0, 0),
        (2, 1.0, 600.0, 8, 600.0, 1, 0),
        (3, 3100.0, 600.0, 8, 600.0, 1, 0),  # goes first at 3,600 s
        (4, 3110.0, 100.0, 8, 100.0, 0, 0),  # ends at 4,300 s, due at 3,750 s
    ]
    log = log_on_nodes("shares", rows, cluster, [Request(cores=8)])
    log = replace(log, jobs=log.jobs.with_columns(pl.Series(DUE_IN_S, [inf, inf, inf, 640.0])))
    for scheduler in ("fcfs", "easy", "conservative"):
        assert (
            said_of(facts_of(log, scheduler), 4)
            == "refused: job 4 would miss its deadline by 550 s, as predicted"
        )


def test_a_forecast_knows_reservations_and_which_nodes_are_drained() -> None:
    """Job 1 runs on one of two nodes until 50 s; the other is drained; maintenance is from 100 to 200 s."""
    replay = reservations.replay_of(
        [
            reservations.Job(1, 50),
            reservations.Job(10, 60),
            reservations.Job(11, 40),
            reservations.Job(12, 5),
        ],
        NodesUpdated(0.0, "n2", "DRAIN"),
        reservations.MAINT,
        engine=Engine.HARNESS,
    )
    due_in_s = [inf, 120.0, 85.0, 40.0]
    log = replace(replay.log, jobs=replay.log.jobs.with_columns(pl.Series(DUE_IN_S, due_in_s)))
    facts = replace(replay, log=log, unkept=Unkept.REFUSED).facts(resolve("easy"), Path("/dev/null"))
    assert (
        said_of(facts, 2) == "refused: job 2 would miss its deadline by 130 s, as predicted"
    )  # from 200 s on
    assert "promised" in said_of(facts, 3), "from 51 to 91 s"
    assert said_of(facts, 4) == "refused: job 4 would miss its deadline by 44 s, as predicted"  # from 91 s on
