"""The arrays of a pass over the queue and of what runs hold: new ones, and larger ones."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Flags, Ints2, allocate
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.kernels.tables import Held
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
