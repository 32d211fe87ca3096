"""Slurm's main and backfill schedulers, against a small simulator in plain Python and other policies."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import UserError
from scheduler.free_nodes.consumable_nodes import ConsumableNodes
from scheduler.free_nodes.consumable_problem import ConsumableNodesProblem
from scheduler.model import Job, JobId, RunId
from scheduler.node_request import Node, Partition, Request
from scheduler.priority.policy import (
    Association,
    Multifactor,
    PartitionPolicy,
    QualityOfService,
    ResourceLimits,
    SitePolicy,
    Weights,
)
from scheduler.registry import resolve as resolve_spec
from scheduler.rules import in_detail
from sil.outcome.trace_inspection import sentence
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine, Estimates, Replaying
from sil.trace.facts import Fact
from sil.workload.job_log import SCHEMA, JobLog, log_on_nodes
from site_db.jobs.logged import Charged
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to
from tests.scheduler.free_nodes.small_slurm import SlurmJob, SmallSlurm
from tests.sil.runs.test_engines_on_nodes import logs

pytestmark = pytest.mark.usefixtures("in_this_process")

PARTITIONS = ("p", "q", "r")
QUALITIES = {name: QualityOfService(name, priority) for name, priority in (("low", 0), ("high", 1000))}
CHARGED = tuple(Charged("a", name) for name in QUALITIES)
NODES = st.lists(
    st.tuples(st.integers(1, 4), st.frozensets(st.sampled_from(PARTITIONS), min_size=1)),
    min_size=1,
    max_size=5,
)
PARAMETERS = st.fixed_dictionaries(
    {
        "default_queue_depth": st.sampled_from([0, 1, 3, 100]),
        "sched_interval": st.sampled_from([0, 7, 60]),
        "bf_interval": st.sampled_from([0, 1, 5, 30]),
        "bf_window": st.sampled_from([0, 1, 1440]),
        "bf_resolution": st.sampled_from([0, 1, 7, 60]),
        "bf_max_job_test": st.sampled_from([0, 2, 500, 500]),
        "bf_max_job_start": st.sampled_from([0, 0, 1]),
        "bf_max_job_user": st.sampled_from([0, 0, 1, 2]),
        "bf_max_job_part": st.sampled_from([0, 0, 2]),
        "bf_max_job_assoc": st.sampled_from([0, 0, 2]),
        "bf_job_part_count_reserve": st.sampled_from([0, 0, 1, 2]),
        "bf_min_age_reserve": st.sampled_from([0, 0, 10]),
        "reserve": st.sampled_from(["nodes", "parts"]),
    }
)
Nodes = list[tuple[int, frozenset[str]]]


def jobs_on(nodes: Nodes, of_several: bool = False) -> st.SearchStrategy[list[SlurmJob]]:
    """Jobs that fit on the nodes while all are free."""

    def made(row: tuple[Any, ...]) -> SlurmJob:
        submit_s, run_s, more_s, n, cores, whole, (most, of), user, high, further = row
        partition, cores = min(of), min(cores, most)
        n_there = Counter(name for size, each in nodes if size >= cores for name in each)
        n = min(n, n_there[partition])
        others = frozenset(name for name in further if n_there[name] >= n)
        return SlurmJob(0, submit_s, run_s, run_s + more_s, n, cores, whole, partition, user, high, others)

    row = st.tuples(
        st.integers(0, 60),
        st.integers(1, 60),
        st.sampled_from([0, 0, 5, 50]),
        st.integers(1, 4),
        st.integers(1, 4),
        st.sampled_from([False, False, True]),
        st.sampled_from(nodes),
        st.integers(0, 2),
        st.sampled_from([0, 0, 1000]),
        st.frozensets(st.sampled_from(PARTITIONS)) if of_several else st.just(frozenset[str]()),
    )
    return st.lists(row.map(made), min_size=1, max_size=25).map(
        lambda jobs: [job._replace(number=k) for k, job in enumerate(jobs, start=1)]
    )


def log_of(
    nodes: Nodes,
    jobs: list[SlurmJob],
    most_running: int | None,
    tiers: Mapping[str, int] = MappingProxyType({}),
) -> JobLog:
    users = [Association("a", f"user-{user}", "a") for user in range(3)]
    account = Association("a", own=ResourceLimits(running=most_running))
    users = [replace(user, own=account.own) for user in users]
    how, of = (
        Multifactor(Weights(qos=1000.0), period_s=1e9),
        {k: PartitionPolicy(n) for k, n in tiers.items()},
    )
    policy = SitePolicy(how, (account, *users), QUALITIES, of, ("limits",))
    named = {f"n{n}": Node(cores, partitions=of) for n, (cores, of) in enumerate(nodes)}
    cluster = SiteNodes(named, {name: Partition(name) for name in PARTITIONS}, {}, policy=policy)
    requests = [
        Request(job.nodes, job.cores, exclusive=job.whole, partitions=job.others | {job.partition})
        for job in jobs
    ]
    rows = [
        (job.number, job.submit_s, job.run_s, job.nodes, float(job.limit_s), job.user, k, job.priority > 0)
        for k, job in enumerate(jobs)
    ]
    return log_on_nodes("small", rows, cluster, requests, charged=CHARGED)


def facts(log: JobLog, scheduler: str, engine: Engine) -> pl.DataFrame:
    return Replay(log, engine=engine).facts(resolve(scheduler), Path(os.devnull))


def starts(found: pl.DataFrame) -> dict[int, tuple[int, list[int]]]:
    rows = found.filter(pl.col("event") == Fact.RUN_STARTED).select("job", "time_s", "shares").iter_rows()
    return {job: (round(time_s), [each["node"] for each in shares]) for job, time_s, shares in rows}


def named(how: dict[str, Any]) -> str:
    return f"slurm_backfill({', '.join(f'{name}={value}' for name, value in how.items())})"


@settings(max_examples=up_to(2000, part=40), deadline=None)
@given(st.data())
def test_both_engines_start_each_job_when_and_where_a_small_simulator_of_slurm_does(
    data: st.DataObject,
) -> None:
    nodes, how = data.draw(NODES), data.draw(PARAMETERS)
    jobs = data.draw(st.booleans().flatmap(lambda of_several: jobs_on(nodes, of_several)))
    most_running = data.draw(st.sampled_from([None, None, 1, 2]))
    tiers = data.draw(st.dictionaries(st.sampled_from(PARTITIONS), st.integers(1, 3)))
    log = log_of(nodes, jobs, most_running, tiers)
    compiled, harness = (facts(log, named(how), engine) for engine in (Engine.COMPILED, Engine.HARNESS))
    assert compiled.equals(harness)
    assert starts(compiled) == SmallSlurm(nodes, how, most_running, tiers).replay(jobs)


@settings(max_examples=up_to(500, part=40), deadline=None)
@given(logs())
def test_exact_reservations_for_all_at_each_event_are_conservative_backfilling_if_estimates_are_exact(
    log: JobLog,
) -> None:
    """Otherwise conservative backfilling keeps reservations where later jobs were not in the way when they
    were made, while a new plan has none of them before those of earlier jobs. The first nodes and GPUs that
    are free then are the same in each plan; other selections, and the GPU on which there is a part for a job,
    depend on what else is there, and so on the time of the plan. Slurm reserves no licences."""
    assert log.cluster is not None
    requests = tuple(
        replace(each, site_resources={}, gpus=each.gpus and replace(each.gpus, share=1.0))
        for each in log.requests
    )
    log = replace(log, cluster=replace(log.cluster, site_resources={}), requests=requests)
    replay = Replay(log, engine=Engine.COMPILED, estimates=Estimates.ACTUAL)
    all_exact = {"bf_interval": 0, "bf_window": 10**9, "bf_resolution": 0, "bf_max_job_test": 10**9}
    names = (
        "conservative(selection=first_fit)",
        f"{named({**all_exact, 'reserve': 'parts'})[:-1]}, selection=first_fit)",
    )
    first, second = (replay.facts(resolve(name).named("same"), Path(os.devnull)) for name in names)
    assert first.equals(second)


@settings(max_examples=up_to(500, part=40), deadline=None)
@given(st.integers(2, 8), st.data())
def test_one_exact_reservation_at_each_event_is_easy_backfilling_on_one_node(
    cores: int, data: st.DataObject
) -> None:
    """Of several nodes, EASY does not say which the first job will have, and a reservation does."""
    nodes = [(cores, frozenset({"p"}))]
    log = log_of(nodes, data.draw(jobs_on(nodes)), None)
    how = {"bf_interval": 0, "bf_window": 10**9, "bf_resolution": 0, "bf_job_part_count_reserve": 1}
    names = "easy", named({**how, "reserve": "parts"})
    first, second = (
        Replay(log, engine=Engine.COMPILED).facts(resolve(name).named("same"), Path(os.devnull))
        for name in names
    )
    assert first.equals(second)


def test_a_job_of_several_partitions_starts_in_the_first_that_is_free_and_its_trace_says_in_which() -> None:
    """EASY binds it to p, the first by name with most room."""
    nodes = [(1, frozenset({name})) for name in ("p", "p", "q", "q")]
    first = SlurmJob(1, 0, 100, 100, 2, 1, False, "p", 0, 0)
    jobs = [first, first._replace(number=2, submit_s=1, user=1, others=frozenset({"q"}))]
    log, told = log_of(nodes, jobs, None), dict[str, list[str]]()
    for engine in (Engine.COMPILED, Engine.HARNESS):
        for name in ("slurm_backfill", "easy"):
            found = facts(log, name, engine).filter(pl.col("event") == Fact.RUN_STARTED)
            told.setdefault(name, []).append(sentence(found.row(1, named=True) | {"machines": "there"}))
    where = {name: {text.split(",")[0] for text in texts} for name, texts in told.items()}
    assert where == {
        "slurm_backfill": {"job 2 starts on there in partition q"},
        "easy": {"job 2 starts on there in partition p"},
    }


def test_the_parameters_are_those_of_slurm_conf_unless_the_name_of_the_scheduler_has_them() -> None:
    nodes = [(2, frozenset({"p"}))]
    first = SlurmJob(1, 0, 100, 100, 1, 1, False, "p", 0, 0)
    large = first._replace(number=2, submit_s=1, cores=2)
    jobs = [first, large, first._replace(number=3, submit_s=2, run_s=30, limit_s=30)]
    log = log_of(nodes, jobs, None)
    assert log.cluster is not None
    assert log.cluster.policy is not None
    policy = replace(log.cluster.policy, scheduling={"bf_interval": 20})
    log = replace(log, cluster=replace(log.cluster, policy=policy))
    for engine in (Engine.COMPILED, Engine.HARNESS):
        found = [
            starts(facts(log, name, engine))[3][0]
            for name in ("slurm_backfill", "slurm_backfill(bf_interval=9)")
        ]
        assert found == [20, 9]


def test_a_job_waits_for_its_reservation_or_since_no_cycle_has_planned_it() -> None:
    state = ConsumableNodes([Node(2)])
    scheduler = resolve_spec("slurm_backfill(bf_max_job_test=1)").make()
    for number, cores, arrival_s in ((1, 1, 0.0), (2, 2, 1.0), (3, 2, 2.0)):
        request = Request(1, cores)
        job = Job(JobId(number), "rigid", arrival_s, estimate_s=100.0, n_tasks=1, request=request)
        state.wait(job, request, 100.0)
        if number == 1:
            (start,) = scheduler.schedule(ConsumableNodesProblem(0.0, state)).starts
            state.start(RunId(0), job.id, start, 0.0)
    reasons = scheduler.schedule(ConsumableNodesProblem(60.0, state)).wait_reasons
    assert in_detail(reasons, 0) == "reserved for 100 s"
    assert in_detail(reasons, 1).startswith("it does not fit on the nodes, or would delay jobs that were")


def test_identical_processors_are_refused_with_what_to_do() -> None:
    log = JobLog("log", pl.DataFrame([(1, 0.0, 1.0, 1, 1.0, 1)], SCHEMA, orient="row"), 1)
    with pytest.raises(UserError, match=r"is for nodes with CPUs; name them with nodes=.slurm\.conf"):
        Replay.checked(log, Replaying(), [resolve("slurm_backfill")])
