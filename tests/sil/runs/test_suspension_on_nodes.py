"""Preemption by suspension: what a suspended job keeps, and when it continues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.node_request import Gpus, Node, Partition, Request
from scheduler.priority.policy import (
    Multifactor,
    PartitionPolicy,
    Preempted,
    Preemption,
    PreemptMode,
    SitePolicy,
)
from sil.outcome.finished_jobs import jobs_in
from sil.outcome.invariants.checker import Capacity, first_violation
from sil.outcome.jobs import run_table
from sil.outcome.run_parts import run_parts
from sil.runs.on_log import Replay
from sil.settings.log_events import Events, JobEvent
from sil.trace.facts import Fact
from sil.workload.job_log import log_on_nodes
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to
from tests.sil.runs.test_engines import facts_of_both

TIERS = ("low", "med", "high")
ROW = tuple[float, float, float, int]
"""Arrival, run time, time limit, place among the requests."""
SUSPEND = Preempted(PreemptMode.SUSPEND)
RUN_FACTS = (Fact.RUN_STARTED, Fact.RUN_STOPPED, Fact.RUN_CONTINUED, Fact.RUN_PREEMPTED, Fact.RUN_ENDED)


def policy(*preempted: Preempted) -> SitePolicy:
    """Partitions of rising tiers, whose jobs are preempted like this; those of others are suspended."""
    how = dict(zip(TIERS, preempted, strict=False))
    partitions = {
        name: PartitionPolicy(k + 1, preempted=how.get(name, SUSPEND)) for k, name in enumerate(TIERS)
    }
    return SitePolicy(Multifactor(), partitions=partitions, preemption=Preemption(True, PreemptMode.SUSPEND))


def within(tier: str, **request: Any) -> Request:
    return replace(Request(partitions=frozenset({tier})), **request)


def facts_of(
    rows: Sequence[ROW],
    requests: list[Request],
    folder: Path,
    nodes: int | list[Node] = 1,
    site: SitePolicy | None = None,
    scheduler: str = "easy",
    events: Events | None = None,
) -> pl.DataFrame:
    found = [Node(4)] * nodes if isinstance(nodes, int) else nodes
    named = {f"n{n}": replace(node, partitions=frozenset(TIERS)) for n, node in enumerate(found)}
    cluster = SiteNodes(named, {name: Partition(name) for name in TIERS}, {}, policy=site or policy())
    numbered = [
        (number, at_s, run_s, requests[which].cpus, limit_s, 0, which)
        for number, (at_s, run_s, limit_s, which) in enumerate(rows, start=1)
    ]
    log = log_on_nodes("x", numbered, cluster, requests)
    facts = facts_of_both(Replay(log, events=events or Events()), scheduler)
    capacity = Capacity(len(named), nodes=tuple(named.values()))
    assert first_violation(facts, capacity) is None
    assert not len(facts.filter(pl.col("event") == Fact.FAULT)), facts["message"][-1]
    return facts


def of_job(facts: pl.DataFrame, job: int) -> list[tuple[str, float]]:
    found = facts.filter(pl.col("job") == job, pl.col("event").is_in(RUN_FACTS))
    return [(Fact(event).value, time_s) for event, time_s in found.select("event", "time_s").iter_rows()]


def stopped_and_continued(at_s: float, until_s: float, end_s: float) -> list[tuple[str, float]]:
    return [("run_started", 0), ("run_stopped", at_s), ("run_continued", until_s), ("run_ended", end_s)]


@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative", "slurm_backfill"])
@pytest.mark.parametrize("exclusive", [True, False])
def test_the_simple_example_of_slurms_documentation(scheduler: str, exclusive: bool, tmp_path: Path) -> None:
    """preempt.html: five jobs of the partition active have a node each; one of hipri takes n[12-14] for 30 s,
    and the jobs there continue when it completes."""
    requests = [
        within("low", cores=4, exclusive=exclusive),
        within("high", chunks=3, cores=4, exclusive=exclusive),
    ]
    rows: Sequence[ROW] = [(0, 300, 300, 0)] * 5 + [(23, 30, 30, 1)]
    facts = facts_of(rows, requests, tmp_path, 5, scheduler=scheduler)
    assert of_job(facts, 6) == [("run_started", 23), ("run_ended", 53)]
    for job in (1, 2, 3):
        assert of_job(facts, job) == stopped_and_continued(23, 53, 330)
    for job in (4, 5):
        assert of_job(facts, job) == [("run_started", 0), ("run_ended", 300)]


def test_the_example_with_three_mechanisms_of_slurms_documentation(tmp_path: Path) -> None:
    """preempt.html: low is requeued, med is suspended, hi is not preempted."""
    site = policy(Preempted(PreemptMode.REQUEUE), SUSPEND, Preempted(PreemptMode.OFF))
    requests = [within(tier, cores=4) for tier in TIERS]
    facts = facts_of([(0, 60, 60, 0), (2, 30, 30, 1), (4, 20, 20, 2)], requests, tmp_path, site=site)
    assert of_job(facts, 3) == [("run_started", 4), ("run_ended", 24)]
    assert of_job(facts, 2) == [
        ("run_started", 2),
        ("run_stopped", 4),
        ("run_continued", 24),
        ("run_ended", 52),
    ]
    assert of_job(facts, 1)[:2] == [("run_started", 0), ("run_preempted", 2)]
    assert of_job(facts, 1)[-1] == ("run_ended", 183)  # it may start 121 s after it was stopped


@pytest.mark.parametrize(("memory_mib", "starts_s"), [(400, 10), (401, 100)])
def test_memory_has_to_hold_both(memory_mib: int, starts_s: float, tmp_path: Path) -> None:
    requests = [within("low", cores=4, memory_mib=600), within("high", memory_mib=memory_mib)]
    facts = facts_of([(0, 100, 100, 0), (10, 50, 50, 1)], requests, tmp_path, [Node(4, 1_000)])
    assert of_job(facts, 2)[0] == ("run_started", starts_s)


def test_gpus_are_kept(tmp_path: Path) -> None:
    requests = [within("low", cores=4, gpus=Gpus(1)), within("high", gpus=Gpus(1)), within("high")]
    rows: list[ROW] = [(0, 100, 100, 0), (10, 50, 50, 1), (10, 50, 50, 2)]
    facts = facts_of(rows, requests, tmp_path, [Node(4, gpus=("a",))], scheduler="fcfs")
    assert of_job(facts, 1) == stopped_and_continued(10, 60, 150)
    assert of_job(facts, 2)[0] == ("run_started", 150)


@pytest.mark.parametrize("scheduler", ["fcfs", "easy", "conservative", "slurm_backfill"])
def test_cpus_that_a_suspended_job_does_not_need_are_for_those_only_that_may_suspend_it(
    scheduler: str, tmp_path: Path
) -> None:
    """Job 2 needs one of the four CPUs of job 1. Job 3, which waits before, gets none of the others; job 4
    does."""
    requests = [within("low", cores=4), within("high"), within("low")]
    rows: list[ROW] = [(0, 100, 100, 0), (10, 50, 50, 1), (5, 200, 200, 2), (20, 60, 60, 1)]
    facts = facts_of(sorted(rows), requests, tmp_path, scheduler=scheduler)
    assert of_job(facts, 1) == stopped_and_continued(10, 80, 170)
    assert of_job(facts, 2)[0] == ("run_started", 170)
    assert of_job(facts, 4) == [("run_started", 20), ("run_ended", 80)]


def test_a_job_that_is_cancelled_while_it_is_suspended_gives_back_what_it_kept(tmp_path: Path) -> None:
    requests = [within("low", cores=4, memory_mib=600), within("high", memory_mib=100)]
    requests.append(within("high", memory_mib=900))
    rows: list[ROW] = [(0, 100, 100, 0), (10, 50, 50, 1), (20, 50, 50, 2)]
    cancelled = Events(on_jobs=(JobEvent(30.0, 1, "cancel"),))
    facts = facts_of(rows, requests, tmp_path, [Node(4, 1_000)], events=cancelled)
    assert of_job(facts, 1)[-1] == ("run_preempted", 30)
    assert of_job(facts, 3) == [("run_started", 30), ("run_ended", 80)]


def test_the_time_in_which_it_was_suspended_is_neither_execution_nor_waiting_time(tmp_path: Path) -> None:
    requests = [within("low", cores=4), within("high", cores=4)]
    facts = facts_of([(0, 100, 100, 0), (30, 50, 50, 1)], requests, tmp_path)
    table = jobs_in(facts, pl.DataFrame({"job": [1, 2], "estimate_s": [100.0, 50.0]}))
    assert table["execution_time"].to_list() == [100, 50]
    assert table["waiting_time"].to_list() == [0, 0]
    assert table["turnaround_time"].to_list() == [150, 50]


REQUESTS = [
    within(tier, chunks=chunks, cores=cores, memory_mib=memory, exclusive=exclusive)
    for tier in TIERS
    for chunks, cores, memory, exclusive in (
        (1, 1, 100, False),
        (1, 4, 300, False),
        (2, 2, 0, False),
        (2, 4, 200, True),
        (1, 3, 600, False),
    )
]
MODES = (PreemptMode.SUSPEND, PreemptMode.SUSPEND, PreemptMode.REQUEUE, PreemptMode.CANCEL)


@settings(max_examples=up_to(400, part=20), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 40), st.integers(1, 60), st.integers(0, 30), st.integers(0, len(REQUESTS) - 1)
        ),
        min_size=1,
        max_size=25,
    ),
    scheduler=st.sampled_from(["fcfs", "sjf", "easy", "conservative", "slurm_backfill"]),
    modes=st.tuples(st.sampled_from(MODES), st.sampled_from(MODES)),
    grace_s=st.sampled_from([0.0, 10.0]),
)
def test_work_is_done_once_cpus_are_never_shared_and_a_job_continues_as_soon_as_it_can(
    rows: list[tuple[int, int, int, int]],
    scheduler: str,
    modes: tuple[PreemptMode, PreemptMode],
    grace_s: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    at_s, jobs = 0.0, list[ROW]()
    for later_s, run_s, more_s, which in rows:
        at_s += later_s
        jobs.append((at_s, float(run_s), float(run_s + more_s), which))
    site = policy(*(Preempted(mode, grace_s) for mode in modes))
    folder = tmp_path_factory.getbasetemp()
    facts = facts_of(jobs, REQUESTS, folder, [Node(4, 1_000)] * 2, site, scheduler)
    check_gang(facts, jobs, modes, waits_for_nobody=not grace_s)
    check_parts(facts)


def check_parts(facts: pl.DataFrame) -> None:
    """In a chart, no two parts of runs have a CPU at a time, and all have the CPUs that were in use."""
    parts = run_parts(facts, [4, 4])
    rows = parts.select("from_s", "until_s", "low", "high").rows()
    for k, (from_s, until_s, low, high) in enumerate(rows):
        for others_s, others_end_s, bottom, top in rows[:k]:
            assert until_s <= others_s or others_end_s <= from_s or high <= bottom or top <= low
    used_s = (pl.col("until_s") - pl.col("from_s")) * (pl.col("high") - pl.col("low"))
    ran_s = (pl.col("until_s") - pl.col("from_s") - pl.col("suspended_s")) * pl.col("tasks")
    assert parts.select(used_s.sum()).item() == pytest.approx(run_table(facts).select(ran_s.sum()).item())


def check_gang(
    facts: pl.DataFrame,
    jobs: list[ROW],
    modes: tuple[PreemptMode, PreemptMode],
    waits_for_nobody: bool = True,
) -> None:
    """Follow a trace, and count what is in use on each node anew after each instant."""
    done, since, where, suspended = (
        dict[int, float](),
        dict[int, float](),
        dict[int, dict[int, int]](),
        set[int](),
    )
    over, kept = set[int](), [fact.value for fact in (*RUN_FACTS, Fact.JOB_REFUSED)]
    waiting = set(range(1, len(jobs) + 1))

    def tier(job: int) -> int:
        return TIERS.index(next(iter(REQUESTS[jobs[job - 1][3]].partitions)))

    def cpus(job: int, n: int) -> float:
        request = REQUESTS[jobs[job - 1][3]]
        return 4 if request.exclusive and n in where[job] else where[job].get(n, 0) * request.cores

    def check(now_s: float) -> None:
        for n in range(2):
            active = {job for job in where if job not in suspended}
            assert sum(cpus(job, n) for job in active) <= 4
            memory = [where[job].get(n, 0) * REQUESTS[jobs[job - 1][3]].memory_mib for job in where]
            assert sum(memory) <= 1_000
        for job in suspended if waits_for_nobody else ():  # others have its CPUs
            rivals = [other for other in where if other != job and tier(other) > tier(job)]
            claims = [
                cpus(job, n) + sum(cpus(other, n) for other in active | set(rivals) if other != job) > 4
                for n in where[job]
            ]
            assert any(claims), f"job {job} could continue at {now_s}"

    last_s = 0.0
    for event, job, time_s, shares in (
        facts.filter(pl.col("event").is_in(kept)).select("event", "job", "time_s", "shares").iter_rows()
    ):
        if time_s > last_s:
            check(last_s)
        last_s = time_s
        match Fact(event):
            case Fact.RUN_STARTED:
                waiting.remove(job)
                done[job], since[job], where[job] = 0.0, time_s, {}
                for share in shares:
                    where[job][share["node"]] = where[job].get(share["node"], 0) + share["chunks"]
            case Fact.RUN_STOPPED:
                assert modes[tier(job)] is PreemptMode.SUSPEND
                done[job] += time_s - since.pop(job)
                suspended.add(job)
            case Fact.RUN_CONTINUED:
                since[job] = time_s
                suspended.remove(job)
            case Fact.RUN_PREEMPTED:
                assert modes[tier(job)] is not PreemptMode.SUSPEND
                del since[job], where[job]
                waiting.add(job)
            case Fact.RUN_ENDED:
                assert done[job] + time_s - since.pop(job) == pytest.approx(jobs[job - 1][1], abs=1e-9)
                del where[job]
                over.add(job)
            case Fact.JOB_REFUSED:
                over.add(job)
    assert len(over) == len(jobs)
