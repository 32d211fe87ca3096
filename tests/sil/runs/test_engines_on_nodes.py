"""The compiled engine and the harness write equal traces on nodes with cores, memory and GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import UserError
from scheduler.node_request import Gpus, Node, Partition, Request
from scheduler.node_resources.topology import Topology
from sil.runs.on_log import Replay
from sil.runs.under_test import resolve
from sil.settings.replays import Engine, Estimates
from sil.trace.facts import Fact
from sil.workload.job_log import SCHEMA, JobLog
from site_db.site_file.cluster import SiteNodes
from tests.examples import up_to
from tests.scheduler.free_nodes.small_consumable import SmallJob
from tests.scheduler.free_nodes.test_consumable_backfilling import (
    PARTITIONS,
    request_of,
    small_jobs,
    small_nodes,
    state_of,
)
from tests.scheduler.topologies import topology_of, trees
from tests.sil.runs.test_engines import ORDERS, POLICIES, assert_equal, facts_by, log_of, with_deadlines

pytestmark = pytest.mark.usefixtures("in_this_process")

SCHEDULERS = (
    "conservative(",
    "slurm_backfill(bf_interval=3, bf_resolution=2, default_queue_depth=1, ",
    "slurm_backfill(sched_interval=2, bf_max_job_test=3, reserve=parts, ",
    *(
        f"rigid(ordering={ordering}, backfilling={backfilling}, "
        for ordering in ("fcfs", "sjf", "edf", "least_laxity")
        for backfilling in ("none", "easy", "easy_sjbf")
    ),
)
SELECTIONS = (
    "first_fit",
    "consecutive",
    "best_fit",
    "worst_fit",
    "dot_product",
    "gpu_packing",
    "gpu_clustering",
)

T = TypeVar("T")
Row = tuple[float, float, float | None, int]
"""Submission, run time, estimate, user."""


def log_on_nodes(cluster: SiteNodes, requests: list[Request], rows: list[Row]) -> JobLog:
    """Jobs with a request each."""
    table = [
        (k, submit_s, run_s, request.chunks, estimate_s, user, k)
        for k, ((submit_s, run_s, estimate_s, user), request) in enumerate(zip(rows, requests, strict=True))
    ]
    jobs = pl.DataFrame(table, {**SCHEMA, "request": pl.Int64}, orient="row").sort("submit_s", "job")
    classes = tuple(f"class {k % 2}" for k in range(len(requests)))
    return JobLog(
        "random", jobs, len(cluster.nodes), cluster=cluster, requests=tuple(requests), job_classes=classes
    )


def partitions_called(name: str) -> st.SearchStrategy[Partition]:
    return st.builds(
        Partition,
        st.just(name),
        max_time_s=st.sampled_from([None, 25.0]),
        max_nodes=st.sampled_from([None, None, 2]),
        is_exclusive=st.sampled_from([False, False, False, True]),
        default_time_s=st.sampled_from([None, 4.0]),
    )


@st.composite
def logs(draw: st.DrawFn) -> JobLog:
    """On a few nodes of any kind, with licences, partitions with limits, whole nodes, parts of GPUs,
    simultaneous events, runs that exceed their estimates, and jobs that fit nowhere; some on switches or
    blocks."""
    small = draw(small_nodes())
    state = state_of(small).nodes
    named = {f"n{n}": node for n, node in enumerate(state.all)}
    partitions = {name: draw(partitions_called(name)) for name in PARTITIONS}
    cluster = SiteNodes(named, partitions, {}, site_resources=state.site_resources)
    times_s = st.integers(0, 30).map(float)
    row = st.tuples(
        times_s, st.integers(1, 20).map(float), st.none() | st.integers(1, 30).map(float), st.integers(-1, 2)
    )
    drawn: list[tuple[SmallJob, Row]] = draw(st.lists(st.tuples(small_jobs(), row), min_size=1, max_size=25))
    requests = [request_of(job) for job, _ in drawn]
    if draw(st.integers(0, 2)) == 0:
        cluster = connected(cluster, draw)
        limits = st.sampled_from([(0, 0.0), (1, 7.0), (1, 1e3), (2, 20.0)])
        requests = [
            replace(request, switches=most, switch_wait_s=wait_s)
            for request, (most, wait_s) in zip(requests, draw(lists_of(limits, len(drawn))), strict=True)
        ]
    return with_deadlines(log_on_nodes(cluster, requests, [row for _, row in drawn]), draw)


def lists_of(each: st.SearchStrategy[T], n: int) -> st.SearchStrategy[list[T]]:
    return st.lists(each, min_size=n, max_size=n)


def connected(cluster: SiteNodes, draw: st.DrawFn) -> SiteNodes:
    """The nodes on leaf switches, of which some are below no other one and some nodes are on none; or in
    blocks."""
    if draw(st.booleans()):
        topology = Topology.of_blocks(["s0", "s1", "s2"], draw(st.sampled_from([(1,), (2,), (1, 2), (1, 4)])))
    else:
        optional = draw(st.booleans())
        topology = replace(topology_of(draw(trees(1)))[0], is_optional=optional)
    names = st.sampled_from([*topology.leaves, *topology.leaves, "none"])
    leaves = draw(lists_of(names, len(cluster.nodes)))
    nodes = {
        name: replace(node, switch=leaf)
        for (name, node), leaf in zip(cluster.nodes.items(), leaves, strict=True)
    }
    return replace(cluster, nodes=nodes, topology=topology)


@settings(max_examples=up_to(1000, part=40), deadline=None)
@given(
    logs(),
    st.sampled_from(SCHEDULERS),
    st.sampled_from(SELECTIONS),
    st.sampled_from(Estimates),
    st.sampled_from(ORDERS),
)
def test_both_engines_note_the_same_facts_in_the_same_order(
    log: JobLog, scheduler: str, selection: str, estimates: Estimates, order: str
) -> None:
    assert_equal(Replay(log, estimates=estimates, order=order), f"{scheduler}selection={selection})")


def as_nodes_of_one_core(log: JobLog) -> JobLog:
    """The same jobs on nodes that are like processors."""
    cluster = SiteNodes({f"n{n}": Node(1, 0) for n in range(log.processors)}, {}, {})
    sizes = sorted(set(log.jobs["processors"].to_list()))
    request = log.jobs["processors"].replace_strict(sizes, range(len(sizes)), return_dtype=pl.Int64)
    return JobLog(
        log.name,
        log.jobs.with_columns(request=request),
        log.processors,
        cluster=cluster,
        requests=tuple(Request(size, 1, 0) for size in sizes),
    )


def starts_s(log: JobLog, scheduler: str, order: str) -> dict[int, float]:
    facts = facts_by(Engine.HARNESS, Replay(log, order=order), scheduler)
    return dict(
        facts.filter(pl.col("event") == Fact.RUN_STARTED).select("job", "time_s").sort("job").iter_rows()
    )


@st.composite
def logs_with_estimates_of_nothing(draw: st.DrawFn, most_processors: int) -> JobLog:
    """Some runs are to end as they start."""
    processors = draw(st.integers(1, most_processors))
    seconds = st.integers(1, 20).map(float)
    row = st.tuples(seconds, seconds, st.integers(1, processors), st.just(0.0) | seconds, st.just(1))
    rows = draw(st.lists(row, min_size=1, max_size=20))
    return log_of([(number, *row) for number, row in enumerate(rows, start=1)], processors)


@given(logs_with_estimates_of_nothing(1), st.sampled_from(POLICIES), st.sampled_from(ORDERS))
def test_a_node_of_one_core_is_a_processor(log: JobLog, scheduler: str, order: str) -> None:
    """Of several, reservations name some on nodes, and only state how many for processors."""
    on_node = starts_s(as_nodes_of_one_core(log), scheduler, order)
    assert on_node == starts_s(log, scheduler, order)
    assert len(on_node) == len(log)


@given(logs_with_estimates_of_nothing(5), st.sampled_from(POLICIES), st.sampled_from(ORDERS))
def test_an_estimate_of_nothing_counts_as_a_millisecond(log: JobLog, scheduler: str, order: str) -> None:
    """Else such a job would use nothing, and be beside others on their nodes."""
    same = replace(log, jobs=log.jobs.with_columns(pl.col("estimate_s").clip(lower_bound=1e-3)))
    for made in (lambda log: log, as_nodes_of_one_core):
        assert starts_s(made(log), scheduler, order) == starts_s(made(same), scheduler, order)


def site_with_a_queue(n_jobs: int, n_nodes: int = 90) -> JobLog:
    """Of many jobs on the cores of nodes, every tenth job on parts of GPUs."""
    rng = np.random.default_rng(1)
    nodes = {f"n{n}": Node(64, 256_000, ("a",) * 4 if n % 3 == 0 else ()) for n in range(n_nodes)}
    kinds = [
        Request(int(rng.integers(1, 9)), float(rng.integers(1, 9)), 4_000, most_on_node=4) for _ in range(40)
    ]
    kinds += [Request(chunks, 1, 1_000, Gpus(1, 0.4)) for chunks in range(1, 9)]
    requests = [kinds[k] for k in rng.integers(0, len(kinds), n_jobs)]
    rows: list[Row] = [
        (float(rng.integers(0, 200)), float(rng.integers(1, 900)), float(rng.integers(1, 2_000)), k % 9)
        for k in range(n_jobs)
    ]
    return log_on_nodes(SiteNodes(nodes, {}, {}), requests, rows)


@pytest.mark.parametrize(
    ("scheduler", "n_jobs"),
    [("easy", 1_500), ("easy_sjbf(selection=best_fit)", 1_500), ("conservative", 600)],
)
def test_all_arrays_of_the_compiled_engine_grow(scheduler: str, n_jobs: int) -> None:
    """More jobs wait, more run, and they use more rows, than there is room for at first. A reservation for
    each of many jobs takes long."""
    assert_equal(Replay(site_with_a_queue(n_jobs), order="archive"), scheduler)


def test_a_job_that_fits_nowhere_is_refused_in_the_compiled_engine_too() -> None:
    cluster = SiteNodes({"n0": Node(4, 1_000)}, {}, {})
    requests = [Request(1, 1, 1_000), Request(1, 5, 1_000), Request(2, 4, 1_000)]
    log = log_on_nodes(cluster, requests, [(0.0, 1.0, 1.0, 1)] * 3)
    assert_equal(Replay(log), "easy")
    facts = facts_by(Engine.COMPILED, Replay(log), "easy")
    refused = facts.filter(pl.col("event") == Fact.JOB_REFUSED)
    assert refused["job"].to_list() == [1, 2]
    assert refused["detail"][0] == "job 1 requests 1 node with 5 CPUs, 1,000 MiB; no node has room for it"


@pytest.mark.parametrize(
    ("scheduler", "why"),
    [
        ("easy(selection=fgd)", "node selection 'fgd' is not compiled"),
        ("conservative(selection=fgd)", "node selection 'fgd' is not compiled"),
    ],
)
def test_what_is_not_compiled_for_nodes_says_so(scheduler: str, why: str) -> None:
    replay = Replay(site_with_a_queue(10), engine=Engine.COMPILED)
    with pytest.raises(UserError, match=f": {why}; replay it with engine=.harness."):
        replay.check([resolve(scheduler)])
