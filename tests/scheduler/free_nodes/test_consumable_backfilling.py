"""Backfilling on consumable nodes against an independent small version with exhaustive searches."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from math import inf

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.codes import EDF, FCFS, IN_ORDER, NO_BACKFILLING, SHORTEST_FIRST
from scheduler.free_nodes.consumable_nodes import ConsumableNodes, EasyPasses
from scheduler.model import Job, JobId, RunId
from scheduler.node_request import Gpus, Node, Request
from scheduler.node_resources.core.codes import CHUNKS, GPUS, NODE
from scheduler.node_resources.selection import FirstFit
from scheduler.node_resources.state import rows_of
from scheduler.testing.rigid import running_first
from tests.examples import up_to
from tests.scheduler.free_nodes.small_consumable import SmallJob, SmallNode, fits, one_pass, place

PARTITIONS = ("batch", "gpu")
NOW_S = 100.0


@st.composite
def small_nodes(draw: st.DrawFn) -> list[SmallNode]:
    node = st.builds(
        SmallNode,
        st.integers(1, 4),
        st.integers(0, 4),
        st.lists(st.sampled_from(["a", "b"]).map(lambda kind: (kind, 1000)), max_size=3),
        st.frozensets(st.sampled_from(PARTITIONS), min_size=1),
    )
    nodes = draw(st.lists(node, min_size=1, max_size=4))
    nodes[0].licences = draw(st.integers(0, 3))
    return nodes


@st.composite
def small_jobs(draw: st.DrawFn) -> SmallJob:
    gpus, memory = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    return SmallJob(
        chunks=draw(st.integers(1, 3)),
        cores=draw(st.integers(0 if gpus or memory else 1, 3)),
        memory=memory,
        estimate_s=float(draw(st.integers(1, 6))),
        gpus=gpus,
        share=draw(st.sampled_from([300, 500, 1000])) if gpus == 1 else 1000,
        gpu_type=draw(st.sampled_from([None, "a", "b"])) if gpus else None,
        most_on_node=draw(st.sampled_from([1, 1, 2, 99])),
        exclusive=draw(st.sampled_from([False, False, False, True])),
        partitions=draw(st.frozensets(st.sampled_from(PARTITIONS), max_size=1)),
        licences=draw(st.sampled_from([0, 0, 1, 2])),
    )


def state_of(nodes: list[SmallNode]) -> ConsumableNodes:
    return ConsumableNodes(
        [
            Node(node.cores, node.memory, tuple(kind for kind, _ in node.gpus), partitions=node.partitions)
            for node in nodes
        ],
        {"matlab": nodes[0].licences} if nodes[0].licences else {},
    )


def request_of(job: SmallJob) -> Request:
    types = frozenset([job.gpu_type] if job.gpu_type else [])
    gpus = Gpus(job.gpus, job.share / 1000, types) if job.gpus else None
    return Request(
        job.chunks,
        job.cores,
        job.memory,
        gpus,
        most_on_node=job.most_on_node,
        exclusive=job.exclusive,
        partitions=job.partitions,
        site_resources={"matlab": job.licences} if job.licences else {},
    )


def unchanging(state: ConsumableNodes) -> list[np.ndarray]:
    """Copies of what a pass leaves as it was."""
    table = state.nodes.table
    return [array.copy() for array in (*table[:6], table.site)]


def chunks_of(used: np.ndarray) -> dict[int, tuple[int, int]]:
    """By node: chunks, and bits of GPUs in any order of rows."""
    found: dict[int, tuple[int, int]] = {}
    for row in used.tolist():
        chunks, gpus = found.get(row[NODE], (0, 0))
        found[row[NODE]] = chunks + row[CHUNKS], gpus | row[GPUS]
    return found


def held_by(job: SmallJob, nodes: list[SmallNode]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for n, gpus in job.held:
        chunks, bits = found.get(n, (0, 0))
        all_gpus = range(len(nodes[n].gpus)) if job.exclusive else gpus
        found[n] = chunks + 1, bits | sum(1 << d for d in all_gpus if not bits & (1 << d))
    return found


@settings(max_examples=up_to(1000, part=20))
@given(
    small_nodes(),
    st.lists(st.tuples(small_jobs(), st.integers(-1, 6)), max_size=5),
    st.lists(small_jobs(), min_size=1, max_size=6),
    st.sampled_from([None, "in order", "shortest first"]),
    st.none() | st.lists(st.sampled_from([None, 3.0, 5.0, 9.0]), min_size=6, max_size=6),
)
def test_a_pass_starts_the_jobs_of_the_small_version_on_the_same_nodes(
    empty: list[SmallNode],
    running: list[tuple[SmallJob, int]],
    queue: list[SmallJob],
    backfilling: str | None,
    limits_s: list[float | None] | None,
) -> None:
    """First come, first served, or by deadline if there are limits."""
    nodes, state, runs = deepcopy(empty), state_of(empty), []
    for k, (job, ends_in_s) in enumerate(running):
        if place(nodes, job):
            runs.append((NOW_S + ends_in_s, job))
            of_run = Job(JobId(100 + k), "rigid", 0.0, request=request_of(job))
            assert running_first(state, RunId(k), of_run, NOW_S, NOW_S + ends_in_s)
    queue = [job for job in queue if fits(empty, job)]
    for i, job in enumerate(queue):
        limit_s = None if limits_s is None else limits_s[i]
        state.wait(Job(JobId(i), "rigid", float(i), limit_s=limit_s), request_of(job), job.estimate_s)
    due_s = [inf if limits_s is None else i + (limits_s[i] or inf) for i in range(len(queue))]
    by_deadline = sorted(range(len(queue)), key=due_s.__getitem__)
    before = unchanging(state)
    code = {None: NO_BACKFILLING, "in order": IN_ORDER, "shortest first": SHORTEST_FIRST}[backfilling]
    starts = EasyPasses(state, FirstFit()).starts(FCFS if limits_s is None else EDF, code, NOW_S)
    position = {id(job): i for i, job in enumerate(queue)}
    shortest = {"shortest first": lambda job: (job.estimate_s, position[id(job)])}
    keys = {None: None, "in order": lambda job: 0.0, **shortest}
    in_order = [queue[i] for i in by_deadline]
    starting = one_pass(nodes, empty, runs, in_order, NOW_S, keys[backfilling])
    expected = [by_deadline[place] for place in starting]
    assert [start.job for start in starts] == expected
    for start in starts:
        assert chunks_of(rows_of(start.shares)) == held_by(queue[start.job], empty)
    for array, was in zip(unchanging(state), before, strict=True):
        assert (array == was).all()


@given(small_nodes(), small_jobs(), st.sampled_from([1, 2, None]))
def test_as_many_chunks_fit_on_an_idle_node_as_a_request_says(
    empty: list[SmallNode], job: SmallJob, most_on_node: int | None
) -> None:
    nodes = state_of(empty).nodes
    request = replace(request_of(job), chunks=99, most_on_node=most_on_node, exclusive=False)
    kind = nodes.kind_of(request)
    nodes.fits(kind, 1)
    # Nothing but the amounts limits how many tasks fit.
    assert np.asarray(nodes.state.fit)[kind].tolist() == [request.chunks_on(node) for node in nodes.all]
