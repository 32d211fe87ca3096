"""The arrays of passes over a queue, of what runs hold, and of reservations: new ones, and larger ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.compiled import Flags, Ints2, allocate
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.kernels.reservations import ROWS_NEEDED, Freed, Reservations
from scheduler.node_resources.kernels.segments import Segments, Timeline, clear
from scheduler.node_resources.kernels.tables import NONE, Held, NodeTable
from scheduler.node_resources.kernels.window import Search
from scheduler.node_resources.kernels.workspace import Pass, Shadow

MOST_DELAYING = 256
"""So many different requests are remembered, in one pass, to delay the first job."""


def new_pass(n_jobs: int, n_rows: int) -> Pass:
    """With room for `n_jobs` jobs that start, and for so many rows of what they use."""
    return allocate(Pass, 8, 1, (n_jobs, 2), (n_rows, 3), n_jobs, n_jobs, (MOST_DELAYING, 2))


def with_rows(p: Pass, n_rows: int) -> Pass:
    """The same pass with room for so many rows."""
    rows: Ints2 = np.zeros((n_rows, 3), dtype=np.int64)
    rows[: len(p.rows)] = p.rows
    return p._replace(rows=rows)


def empty_shadow(nodes: DescribedNodes) -> Shadow:
    """Room for the state at a reserved time."""
    table, n_nodes = nodes.table, len(nodes.all)
    then = table._replace(
        free=table.free.copy(),
        gpu_free=table.gpu_free.copy(),
        n_chunks=table.n_chunks.copy(),
        site=table.site.copy(),
    )
    is_copied: Flags = np.zeros(n_nodes, dtype=np.bool_)
    copied, fit = np.zeros(n_nodes, dtype=np.int64), np.zeros(n_nodes, dtype=np.int64)
    return Shadow(then, is_copied, copied, fit, np.zeros(4, dtype=np.int64))


def new_held(n_rows: int) -> Held:
    """So many spare rows."""
    held = allocate(Held, (n_rows, 3), n_rows, n_rows, n_rows, 1)
    held.spare[:] = np.arange(n_rows)[::-1]
    held.n_spare[0] = n_rows
    return held


def with_spare_rows(held: Held, more: int) -> Held:
    """The same with at least so many more spare rows."""
    n, n_spare = len(held.kind), int(held.n_spare[0])
    larger = new_held(2 * (n + more))
    added = len(larger.kind) - n
    for name in ("row", "kind", "next", "spare"):
        getattr(larger, name)[:n] = getattr(held, name)
    larger.spare[n_spare : n_spare + added] = np.arange(n + added)[: -added - 1 : -1]
    larger.n_spare[0] = n_spare + added
    return larger


MOST_KNOWN, MOST_OF_NODES = 251, 2**20
"""Rows of what a search knows of nodes (a prime: run times have common factors), and about their size."""
MOST_ALIKE = 64
"""So many different jobs are remembered, in one pass, to have reserved for the first time."""


def new_reservations(nodes: NodeTable, n_jobs: int, n_uses: int, n_held: int) -> Reservations:
    """Nothing is reserved. With room for so many jobs, rows of what they and runs use, and rows held."""
    n = len(nodes.n_chunks)
    n_known = min(MOST_KNOWN, MOST_OF_NODES // (n + 1) + 1)
    known = (1, n_known, n_known, (n_known, n), (n_known, n))
    r = Reservations(
        counts=np.zeros(11, dtype=np.int64),
        times_s=np.full(2, np.inf),
        timeline=_new_timeline(nodes, n_uses),
        search=allocate(Search, 2, n, n, n, n, n, n + 1, n, *known),
        freed=_nothing_freed(n + 1),
        moved=_nothing_freed(n + 1),
        **{name: _new(name, n_jobs) for name in _OF_JOBS},
        alike=np.zeros((MOST_ALIKE, 4)),
        **{name: _new(name, n_held) for name in _OF_HELD},
    )
    clear(r.timeline, nodes)
    r.search.kind[:] = NONE
    return r


def with_jobs(r: Reservations, n_jobs: int) -> Reservations:
    """The same reservations with room for so many jobs."""
    return r._replace(**{name: _longer(getattr(r, name), _new(name, n_jobs)) for name in _OF_JOBS})


def with_held(r: Reservations, n_held: int) -> Reservations:
    """The same reservations with room for so many rows that runs hold."""
    if n_held <= len(r.run_of):
        return r
    return r._replace(**{name: _longer(getattr(r, name), _new(name, n_held)) for name in _OF_HELD})


def with_enough_uses(r: Reservations, nodes: NodeTable) -> Reservations:
    """The same reservations with the rows that a pass needs of what they and runs use."""
    n = int(r.counts[ROWS_NEEDED])
    if n <= r.timeline.n_spare[0]:
        return r
    larger = _new_timeline(nodes, 2 * (len(r.timeline.kind) + n))
    clear(larger, nodes)
    _copy_rows(r.timeline.segments, larger.segments)
    _copy_rows(r.timeline, larger)
    return r._replace(timeline=larger)


_OF_JOBS = ("start_s", "first_use", "most", "waits", "reserved", "started", "heap", "key_s")
_OF_HELD = ("run_of", "use_of", "seen", "runs")
_TYPES: dict[str, Any] = {"start_s": np.float64, "key_s": np.float64, "waits": np.bool_}
_INITIAL: dict[str, Any] = {"start_s": np.inf, "run_of": NONE}


def _new(name: str, n: int) -> Any:
    return np.full(n, _INITIAL.get(name, 0), dtype=_TYPES.get(name, np.int64))


def _longer(old: Any, new: Any) -> Any:
    new[: len(old)] = old
    return new


def _nothing_freed(n: int) -> Freed:
    freed = allocate(Freed, 1, n, n, n)
    freed.from_s[:], freed.until_s[:] = np.inf, -np.inf
    return freed


def _new_timeline(nodes: NodeTable, n_uses: int) -> Timeline:
    """A use begins a segment, and its end another."""
    n = len(nodes.n_chunks) + 1
    n_rows, width = n + 2 * n_uses + 2, max(nodes.free.shape[1], nodes.site.shape[1])
    segments = allocate(
        Segments, n, n_rows, n_rows, (n_rows, width), (n_rows, nodes.gpu_free.shape[1]), n_rows, n_rows, 1
    )
    return Timeline(
        segments=segments,
        row=np.zeros((n_uses, 3), dtype=np.int64),
        kind=np.zeros(n_uses, dtype=np.int64),
        start_s=np.zeros(n_uses),
        end_s=np.zeros(n_uses),
        next_of_job=np.zeros(n_uses, dtype=np.int64),
        next_on_node=np.zeros(n_uses, dtype=np.int64),
        first_on_node=np.zeros(n, dtype=np.int64),
        version=np.zeros(n, dtype=np.int64),
        clock=np.zeros(1, dtype=np.int64),
        spare=np.zeros(n_uses, dtype=np.int64),
        n_spare=np.zeros(1, dtype=np.int64),
    )


def _copy_rows(old: Any, new: Any) -> None:
    """The rows of one table come first in a larger one; the others are spare."""
    n, n_spare, n_rows = len(old.spare), int(old.n_spare[0]), len(new.spare)
    for name, column in old._asdict().items():
        if name not in {"segments", "n_spare", "spare"}:
            getattr(new, name)[: len(column)] = column
    new.spare[: n_rows - n] = np.arange(n_rows - 1, n - 1, -1)
    new.spare[n_rows - n : n_rows - n + n_spare] = old.spare[:n_spare]
    new.n_spare[0] = n_rows - n + n_spare
