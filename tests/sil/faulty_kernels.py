"""Prints which invariant each fault in the kernels breaks, as JSON. Needs NUMBA_DISABLE_JIT=1."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

from scheduler.free_nodes.kernels import rigid_queue, transitions
from scheduler.free_nodes.kernels.free_set import LAST, NODE
from scheduler.free_nodes.kernels.queue_tree import set_leaf
from scheduler.free_nodes.kernels.queues import N_RELEASES, N_WAITING
from scheduler.free_nodes.kernels.releases import END_S, SLOT
from scheduler.free_nodes.kernels.transitions import STARTED
from sil.outcome.invariants import Capacity, first_breach
from sil.runs import compiled_replay
from sil.runs.compiled_replay import CompiledReplay
from sil.runs.under_test import resolve
from sil.settings.estimates import Estimates
from sil.trace.facts import of_run
from sil.workload.job_log import SCHEMA, JobLog
from sil.world.compiled_replay import loop
from sil.world.compiled_replay.engine import Stuck
from sil.world.events import ORDERS

PROCESSORS = 16


def _log() -> JobLog:
    rng = np.random.default_rng(3)
    rows = [
        (k, float(5 * k), float(rng.integers(1, 90)), int(rng.integers(1, 9)), float(rng.integers(1, 120)), 1)
        for k in range(120)
    ]
    return JobLog("random.swf", pl.DataFrame(rows, schema=SCHEMA, orient="row"), PROCESSORS)


def handed_out_again(bounds: Any, n: int, cursor: Any) -> int:
    """The last node of a pass is not taken."""
    cursor[NODE] -= 1
    return _take_before(bounds, n, cursor)


def with_one_more(bounds: Any, cursor: Any, n_nodes: int, intervals: Any, n: int) -> int:
    """A job holds the node behind its last one, too."""
    found = _lowest(bounds, cursor, n_nodes, intervals, n)
    intervals[found - 1, LAST] += 1
    return found


def given_back_when_overdue(q: Any, now_s: float) -> None:
    while q.counts[N_RELEASES] and q.releases[0, END_S] <= now_s:
        transitions.give_back(q, int(q.releases[0, SLOT]))
    _time_passed(q, now_s)


def started_and_still_there(q: Any, n_started: int, now_s: float) -> None:
    _start(q, n_started, now_s)
    for x in range(n_started):
        slot = int(q.started[x, STARTED])
        set_leaf(q.tree, q.place[slot], 1.0, float(q.size[slot]), q.end_s[slot] - now_s)
        q.counts[N_WAITING] += 1


_take_before, _lowest = rigid_queue.take_before, rigid_queue.lowest
_time_passed, _start = loop.time_passed, loop.start

FAULTS: dict[str, tuple[object, str, Callable[..., Any]]] = {
    "none": (rigid_queue, "lowest", _lowest),
    "a node is handed out twice": (rigid_queue, "take_before", handed_out_again),
    "a job holds a node too many": (rigid_queue, "lowest", with_one_more),
    "the nodes of overdue runs are given back": (loop, "time_passed", given_back_when_overdue),
    "a release is lost": (transitions, "give_back", lambda q, slot: None),
    "a job that started stays in the queue": (loop, "start", started_and_still_there),
}


def _broken(module: object, name: str, faulty: Callable[..., Any]) -> str | None:
    log = _log()
    replay = CompiledReplay.of(log, resolve("easy"), Estimates.USER, ORDERS["default"])
    assert not isinstance(replay, str), replay
    facts: list[pl.DataFrame] = []
    with patch.object(module, name, faulty), suppress(Stuck, IndexError):
        facts.extend(of_run(chunk.facts, 0, 0, "easy") for chunk in replay.chunks(log.jobs))
    breach = first_breach(pl.concat(facts), Capacity(PROCESSORS))
    return None if breach is None else breach.rule


if __name__ == "__main__":
    compiled_replay.CHUNK = 1  # facts up to an exception are seen
    print(json.dumps({fault: _broken(*where) for fault, where in FAULTS.items()}))
