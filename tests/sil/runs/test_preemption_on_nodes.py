"""Preemption by QOS and by partition tier: which runs are stopped, and what happens to their jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.node_request import Node, Partition, Request
from scheduler.ports import Act
from scheduler.priority.policy import (
    Multifactor,
    PartitionPolicy,
    Preempted,
    Preemption,
    PreemptMode,
    QualityOfService,
    SitePolicy,
    Weights,
)
from sil.runs.on_log import Replay
from sil.settings.log_events import Events, JobEvent
from sil.trace.facts import Fact
from sil.workload.job_log import log_on_nodes
from site_db.jobs.logged import Charged
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to
from tests.sil.runs.test_engines import facts_of_both

QOS = ("low", "mid", "high")
CHARGED = tuple(Charged("", name) for name in QOS)
REQUESTS = [Request(chunks=n, cores=cores) for n in (1, 2) for cores in (2, 4)]
FOUR_CORES, TWO_NODES = 1, 3
"""Places in REQUESTS: one node, and two nodes, with 4 cores."""
REQUEUE = Preemption(False, PreemptMode.REQUEUE)
ROW = tuple[float, float, float, int, int]
"""Arrival, run time, time limit, place in REQUESTS, place in QOS."""


def site(preemption: Preemption, **low: object) -> SitePolicy:
    qualities = {
        "low": replace(QualityOfService("low"), **low),
        "mid": QualityOfService("mid", 5, preempts=("low",)),
        "high": QualityOfService("high", 10, preempts=("low", "mid")),
    }
    return SitePolicy(Multifactor(Weights(qos=1_000)), qualities=qualities, preemption=preemption)


def facts_of(
    policy: SitePolicy,
    rows: list[ROW],
    folder: Path,
    n_nodes: int = 1,
    requests: list[Request] = REQUESTS,
    scheduler: str = "easy",
    events: Events | None = None,
) -> pl.DataFrame:
    nodes = {f"n{n}": Node(4, partitions=frozenset({"p", "q"})) for n in range(n_nodes)}
    cluster = SiteNodes(nodes, {"p": Partition("p"), "q": Partition("q")}, {}, policy=policy)
    numbered = [
        (number, at_s, run_s, requests[which].cpus, limit_s, 0, which, whom)
        for number, (at_s, run_s, limit_s, which, whom) in enumerate(rows, start=1)
    ]
    log = log_on_nodes("x", numbered, cluster, requests, charged=CHARGED)
    return facts_of_both(Replay(log, events=events or Events()), scheduler)


def events(facts: pl.DataFrame, job: int) -> list[tuple[str, float]]:
    of_job = facts.filter(pl.col("job") == job, pl.col("event") != Fact.JOB_ARRIVED)
    return [(Fact(event).value, time_s) for event, time_s in of_job.select("event", "time_s").iter_rows()]


def test_a_job_stops_one_of_a_lower_qos_which_is_queued_again_after_two_minutes(tmp_path: Path) -> None:
    facts = facts_of(site(REQUEUE), [(0, 100, 100, 1, 0), (30, 50, 50, 1, 2)], tmp_path)
    assert events(facts, 2) == [("run_started", 30), ("run_ended", 80)]
    assert events(facts, 1) == [
        ("run_started", 0),
        ("run_preempted", 30),
        ("run_started", 151),
        ("run_ended", 251),
    ]


def test_what_is_freed_for_a_job_goes_to_it_even_if_others_have_a_higher_priority(tmp_path: Path) -> None:
    rows: list[ROW] = [(0, 100, 100, 1, 0), (10, 100, 100, 1, 0), (30, 50, 50, 1, 2)]
    facts = facts_of(site(REQUEUE, priority=50), rows, tmp_path)
    assert events(facts, 3) == [("run_started", 30), ("run_ended", 80)]
    assert events(facts, 2)[0] == ("run_started", 80)


@pytest.mark.parametrize("act", ["cancel", "hold"])
def test_a_stopped_job_that_is_cancelled_or_held_before_it_waits_again_does_not_start(
    act: Act, tmp_path: Path
) -> None:
    rows: list[ROW] = [(0, 100, 100, 1, 0), (30, 50, 50, 1, 2)]
    then = Events(on_jobs=(JobEvent(60.0, 1, act),))
    found = events(facts_of(site(REQUEUE), rows, tmp_path, events=then), 1)
    assert [name for name, _ in found if name.startswith("run")] == ["run_started", "run_preempted"]
    assert found[-1][0] == "job_refused"


def test_no_job_stops_one_of_its_own_or_a_higher_qos(tmp_path: Path) -> None:
    facts = facts_of(site(REQUEUE), [(0, 100, 100, 1, 1), (30, 50, 50, 1, 1), (40, 10, 10, 1, 0)], tmp_path)
    assert not len(facts.filter(pl.col("event") == Fact.RUN_PREEMPTED))


def test_a_cancelled_job_is_not_run_again_and_all_others_end(tmp_path: Path) -> None:
    cancelling = replace(REQUEUE, mode=PreemptMode.CANCEL)
    facts = facts_of(site(cancelling), [(0, 100, 100, 1, 0), (30, 50, 50, 1, 2)], tmp_path)
    assert events(facts, 1) == [("run_started", 0), ("run_preempted", 30), ("job_refused", 30)]
    assert events(facts, 2) == [("run_started", 30), ("run_ended", 80)]


@pytest.mark.parametrize(("run_s", "starts_s"), [(100, 50), (40, 40)])
def test_a_run_may_end_within_its_grace_time(run_s: float, starts_s: float, tmp_path: Path) -> None:
    policy = site(REQUEUE, preempted=Preempted(grace_s=20))
    facts = facts_of(policy, [(0, run_s, 100, 1, 0), (30, 50, 50, 1, 2)], tmp_path)
    assert events(facts, 2)[0] == ("run_started", starts_s)
    assert ("run_ended", 40) in events(facts, 1) or ("run_preempted", 50) in events(facts, 1)


def test_no_run_is_stopped_before_it_has_run_as_long_as_it_is_exempt(tmp_path: Path) -> None:
    rows: list[ROW] = [(0, 100, 100, 1, 0), (30, 50, 50, 1, 2)]
    for policy in (site(replace(REQUEUE, exempt_s=60)), site(REQUEUE, preempted=Preempted(exempt_s=60))):
        assert events(facts_of(policy, rows, tmp_path), 2)[0] == ("run_started", 60)


def test_jobs_of_the_lowest_qos_are_stopped_first_then_those_on_few_nodes(tmp_path: Path) -> None:
    rows: list[ROW] = [(0, 100, 100, 1, 0), (1, 100, 100, 1, 1), (30, 50, 50, 1, 2)]
    assert ("run_preempted", 30) in events(facts_of(site(REQUEUE), rows, tmp_path, 2), 1)
    youngest = replace(REQUEUE, youngest_first=True)
    assert ("run_preempted", 30) in events(facts_of(site(youngest), rows, tmp_path, 2), 2)
    of_nodes: list[ROW] = [(0, 100, 100, 1, 0), (1, 100, 100, TWO_NODES, 0), (30, 50, 50, 1, 2)]
    assert ("run_preempted", 30) in events(facts_of(site(REQUEUE), of_nodes, tmp_path, 3), 1)


@pytest.mark.parametrize(("mode", "starts_s"), [(None, 30), (PreemptMode.OFF, 100)])
def test_jobs_of_a_higher_tier_stop_those_of_partitions_that_allow_it(
    mode: PreemptMode | None, starts_s: float, tmp_path: Path
) -> None:
    partitions = {"p": PartitionPolicy(1, preempted=Preempted(mode)), "q": PartitionPolicy(2)}
    policy = SitePolicy(Multifactor(), partitions=partitions, preemption=replace(REQUEUE, by_partition=True))
    requests = [Request(cores=4, partitions=frozenset({name})) for name in "pq"]
    facts = facts_of(policy, [(0, 100, 100, 0, 0), (30, 50, 50, 1, 0)], tmp_path, 1, requests)
    assert events(facts, 2)[0] == ("run_started", starts_s)


@settings(max_examples=up_to(300, part=20), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 40), st.integers(1, 60), st.integers(0, 30), st.integers(0, 3), st.integers(0, 2)
        ),
        min_size=1,
        max_size=25,
    ),
    scheduler=st.sampled_from(["fcfs", "easy", "conservative", "slurm_backfill"]),
    mode=st.sampled_from([PreemptMode.REQUEUE, PreemptMode.CANCEL]),
    exempt_s=st.sampled_from([0.0, 20.0]),
    grace_s=st.sampled_from([0.0, 10.0]),
)
def test_stopped_runs_are_those_that_others_may_stop_and_every_job_ends_or_is_cancelled(
    rows: list[tuple[int, int, int, int, int]],
    scheduler: str,
    mode: PreemptMode,
    exempt_s: float,
    grace_s: float,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    policy = site(Preemption(False, mode, exempt_s), preempted=Preempted(grace_s=grace_s))
    at_s, jobs = 0.0, list[ROW]()
    for later_s, run_s, more_s, which, whom in rows:
        at_s += later_s
        jobs.append((at_s, float(run_s), float(run_s + more_s), which, whom))
    facts = facts_of(policy, jobs, tmp_path_factory.getbasetemp(), 2, scheduler=scheduler)
    waiting, began_s, over = set[int](), dict[int, float](), set[int]()
    waited_until_s = dict[int, float]()
    for event, job, time_s in facts.select("event", "job", "time_s").iter_rows():
        whom = jobs[job - 1][4] if job is not None else 0
        match Fact(event):
            case Fact.JOB_ARRIVED:
                waiting.add(job)
            case Fact.RUN_STARTED:
                waiting.remove(job)
                began_s[job] = waited_until_s[job] = time_s
            case Fact.RUN_PREEMPTED:
                told_s = time_s - (grace_s if not whom else 0)
                waited = (at for at, until_s in waited_until_s.items() if until_s >= told_s)
                # Who waited when it was told may have started elsewhere within its grace time.
                assert any(jobs[other - 1][4] > whom for other in (*waiting, *waited)), "no job may stop it"
                assert told_s >= began_s.pop(job) + exempt_s
                waiting.add(job)
            case Fact.JOB_REFUSED:
                assert mode is PreemptMode.CANCEL
                waiting.remove(job)
                over.add(job)
            case Fact.RUN_ENDED:
                over.add(job)
    assert len(over) == len(jobs)
