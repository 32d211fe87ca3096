"""Prints which invariant each fault in the kernels breaks, as JSON. Needs NUMBA_DISABLE_JIT=1."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from scheduler.free_nodes.kernels.free_set import LAST
from scheduler.free_nodes.kernels.queue_tree import set_leaf
from sil.world.compiled_replay import loop
from sil.world.compiled_replay.engine import Stuck

from scheduler.free_nodes.kernels import identical, ledger, reservations
from scheduler.free_nodes.kernels import on_nodes as nodes_in_use
from scheduler.node_request import Gpus, Node, Request
from scheduler.node_resources.core.codes import CHUNKS, CORES, MEMORY, NODE, WHOLE
from scheduler.node_resources.kernels import backfilling
from scheduler.node_resources.kernels import reserving as reserving_on_nodes
from sil.outcome.invariants.checker import Capacity, first_breach
from sil.runs import compiled as compiled_replay
from sil.runs.compiled import CompiledReplay
from sil.runs.under_test import resolve
from sil.settings.replays import Estimates
from sil.trace.facts import as_frame
from sil.workload.job_log import SCHEMA, JobLog
from sil.world.events import ORDERS
from site_db.site_file.cluster import Cluster

PROCESSORS = 16
N_JOBS = 120


def _rows() -> list[tuple[float, ...]]:
    rng = np.random.default_rng(3)
    return [
        (k, float(5 * k), float(rng.integers(1, 90)), int(rng.integers(1, 9)), float(rng.integers(1, 120)), 1)
        for k in range(N_JOBS)
    ]


def on_processors() -> JobLog:
    return JobLog("random.swf", pl.DataFrame(_rows(), schema=SCHEMA, orient="row"), PROCESSORS)


def on_nodes() -> JobLog:
    """Of each three jobs, one uses most of the cores, one of the memory, and one of the GPUs."""
    cluster = Cluster({f"n{k}": Node(4, 4_000, ("a", "a")) for k in range(4)}, {}, {})
    with_request = [(*row, k) for k, row in enumerate(_rows())]
    jobs = pl.DataFrame(with_request, schema={**SCHEMA, "request": pl.Int64}, orient="row")
    kinds = Request(1, 1, 100), Request(1, 1, 2_000), Request(1, 1, 100, Gpus(1))
    requests = tuple(replace(kinds[k % 3], chunks=size) for k, size in enumerate(jobs["processors"]))
    return JobLog("random.txt", jobs, 16, cluster=cluster, requests=requests)


def handed_out_again(free: Any) -> None:
    """The last node of a pass is not taken."""
    free.node[0] -= 1
    _take_before(free)


def with_one_more(free: Any, n_nodes: int, intervals: Any, n: int) -> int:
    """A job holds the node behind its last one, too."""
    found = _lowest(free, n_nodes, intervals, n)
    intervals[found - 1, LAST] += 1
    return found


def given_back_when_overdue(site: Any, q: Any, now_s: float) -> None:
    releases = q.ledger.releases
    while releases.n[0] and releases.end_s[0] <= now_s:
        ledger.give_back(q, int(releases.slot[0]))


def started_and_still_there(q: Any, n_started: int, now_s: float) -> None:
    _start(q, n_started, now_s)
    for slot in q.ledger.started[:n_started]:
        set_leaf(q.tree, q.place[slot], 1.0, float(q.size[slot]), q.ledger.end_s[slot] - now_s)
        q.ledger.n_waiting[0] += 1


def cores_are_not_taken(nodes: Any, requests: Any, k: int, rows: Any, row: int, gpu: int) -> None:
    _take_row(nodes, requests, k, rows, row, gpu)
    nodes.free[rows[row, NODE], CORES] += rows[row, CHUNKS] * requests.need[k, CORES]


def gpus_are_not_taken(nodes: Any, requests: Any, k: int, rows: Any, row: int, gpu: int) -> None:
    _take_row(nodes, requests, k, rows, row, gpu)
    nodes.gpu_free[rows[row, NODE]] = WHOLE


def memory_is_given_back_twice(nodes: Any, requests: Any, k: int, rows: Any, row: int) -> None:
    _give_back_row(nodes, requests, k, rows, row)
    nodes.free[rows[row, NODE], MEMORY] += rows[row, CHUNKS] * requests.need[k, MEMORY]


def ends_a_second_early(profile: Any, start_s: float, end_s: float, nodes: int) -> None:
    _add(profile, start_s, end_s - 1.0, nodes)


def a_node_is_always_free(profile: Any, from_s: float, size: int, takes_s: float, own_s: float) -> float:
    return _earliest_s(profile, from_s, size - 1, takes_s, own_s)


def takes_no_cores(timeline: Any, nodes: Any, requests: Any, *of_use: Any) -> None:
    before = requests.need.copy()
    requests.need[:, CORES] = 0
    _put_in(timeline, nodes, requests, *of_use)
    requests.need[:] = before


_add, _earliest_s, _put_in = reservations.add, reservations.earliest_s, reserving_on_nodes.put_in
_take_before, _lowest = identical.take_before, identical.lowest
_start = loop.start
_take_row, _give_back_row = backfilling.take_row, nodes_in_use.give_back_row

Faults = dict[str, tuple[object, str, Callable[..., Any]]]
"""Of each fault, the module and the name of the function that it replaces."""

FAULTS: Faults = {
    "none": (identical, "lowest", _lowest),
    "a node is handed out twice": (identical, "take_before", handed_out_again),
    "a job holds a node too many": (identical, "lowest", with_one_more),
    "the nodes of overdue runs are given back": (loop, "estimate_overdue", given_back_when_overdue),
    "a release is lost": (ledger, "give_back", lambda q, slot: None),
    "a job that started stays in the queue": (loop, "start", started_and_still_there),
}
FAULTS_ON_NODES: Faults = {
    "none": (backfilling, "take_row", _take_row),
    "cores are not taken": (backfilling, "take_row", cores_are_not_taken),
    "GPUs are not taken": (backfilling, "take_row", gpus_are_not_taken),
    "memory is given back twice": (nodes_in_use, "give_back_row", memory_is_given_back_twice),
    "nothing is given back": (nodes_in_use, "give_back_row", lambda *_: None),
}


RESERVATION_FAULTS: Faults = {
    "none": (reservations, "add", _add),
    "a reservation ends a second early": (reservations, "add", ends_a_second_early),
    "a reservation is for a node too few": (reservations, "earliest_s", a_node_is_always_free),
    "the profile stays whatever runs end": (reservations, "goes_on_as", lambda _, last: last.n[0] > 0),
}
RESERVATION_FAULTS_ON_NODES: Faults = {
    "none": (reserving_on_nodes, "put_in", _put_in),
    "a reservation takes no cores": (reserving_on_nodes, "put_in", takes_no_cores),
}


def _broken(log: JobLog, scheduler: str, module: object, name: str, faulty: Callable[..., Any]) -> str | None:
    replay = CompiledReplay.of(log, resolve(scheduler), Estimates.USER, ORDERS["default"])
    assert not isinstance(replay, str), replay
    facts: list[pl.DataFrame] = []
    with patch.object(module, name, faulty), suppress(Stuck, IndexError):
        facts.extend(as_frame([chunk.facts]) for chunk in replay.chunks(log.jobs, (0, 0, scheduler)))
    nodes = () if log.cluster is None else tuple(log.cluster.nodes.values())
    breach = first_breach(pl.concat(facts), Capacity(len(nodes) or PROCESSORS, nodes=nodes))
    return None if breach is None else breach.rule


def _broken_by(faults: Faults, log: JobLog, scheduler: str = "easy") -> dict[str, str | None]:
    return {fault: _broken(log, scheduler, *where) for fault, where in faults.items()}


if __name__ == "__main__":
    compiled_replay.CHUNK = 1  # facts up to an exception are seen
    found = {
        "processors": _broken_by(FAULTS, on_processors()),
        "nodes": _broken_by(FAULTS_ON_NODES, on_nodes()),
        "reservations on processors": _broken_by(RESERVATION_FAULTS, on_processors(), "conservative"),
        "reservations on nodes": _broken_by(RESERVATION_FAULTS_ON_NODES, on_nodes(), "conservative"),
    }
    print(json.dumps(found))
