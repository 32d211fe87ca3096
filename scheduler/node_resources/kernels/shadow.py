"""The reservation of the first job that waits, and whether another job would delay it (EASY backfilling).

The state of the nodes at the reserved time differs from now only where runs end until then. So rows of the
state `then` are valid only where `is_copied`; elsewhere it equals the state now. What is free of the site's
resources is always valid in `then`.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Ints2, inlined, part
from scheduler.node_resources.kernels.releases import Releases
from scheduler.node_resources.kernels.tables import (
    CHUNKS,
    FREE,
    GPUS,
    NODE,
    NONE,
    WHOLE,
    Held,
    NodeTable,
    RequestTable,
    chunks_that_fit,
    give_of_site,
    refresh,
    site_suffices,
)
from scheduler.node_resources.kernels.workspace import OnNodes, Shadow


@inlined
def copy_row(nodes: NodeTable, requests: RequestTable, shadow: Shadow, n: int) -> None:
    """Make the row of node n valid. The node must not have changed since the reservation was made."""
    if shadow.is_copied[n]:
        return
    shadow.is_copied[n] = True
    shadow.copied[shadow.n_copied[0]] = n
    shadow.n_copied[0] += 1
    for r in range(nodes.free.shape[1]):
        shadow.then.free[n, r] = nodes.free[n, r]
    for d in range(nodes.gpu_free.shape[1]):
        shadow.then.gpu_free[n, d] = nodes.gpu_free[n, d]
    shadow.then.n_chunks[n] = nodes.n_chunks[n]
    shadow.fit[n] = requests.fit[shadow.kind[0], n]


@inlined
def shift(requests: RequestTable, shadow: Shadow, kind: int, rows: Ints2, row: int, sign: int) -> None:
    """Give back (1) or take (-1) what a row holds, in the state at the reserved time."""
    n, chunks, then = rows[row, NODE], rows[row, CHUNKS], shadow.then
    if requests.exclusive[kind]:
        for r in range(then.free.shape[1]):
            then.free[n, r] = then.capacity[n, r] if sign > 0 else 0
    else:
        for r in range(then.free.shape[1]):
            then.free[n, r] += sign * chunks * requests.need[kind, r]
    share = WHOLE if requests.exclusive[kind] else requests.gpu_share[kind]
    for d in range(then.gpu_free.shape[1]):
        if rows[row, GPUS] & (1 << d):
            then.gpu_free[n, d] += sign * share
    then.n_chunks[n] -= sign * chunks
    fit = chunks_that_fit(then, requests, shadow.kind[0], n)
    shadow.total[0] += fit - shadow.fit[n]
    shadow.fit[n] = fit


@inlined
def first_fits(requests: RequestTable, shadow: Shadow) -> bool:
    """Whether the first job fits at the reserved time."""
    return bool(shadow.total[0] >= shadow.chunks[0] and site_suffices(shadow.then, requests, shadow.kind[0]))


@inlined
def look_at(nodes: NodeTable, requests: RequestTable, shadow: Shadow, kind: int, chunks: int) -> None:
    """Make the shadow equal to the state now, to be shifted until a job fits."""
    for x in range(shadow.n_copied[0]):
        shadow.is_copied[shadow.copied[x]] = False
    refresh(nodes, requests, kind)
    shadow.n_copied[0], shadow.total[0] = 0, requests.total[kind]
    shadow.kind[0], shadow.chunks[0] = kind, chunks
    for s in range(nodes.site.shape[1]):
        shadow.then.site[FREE, s] = nodes.site[FREE, s]


@part
def shift_run(
    nodes: NodeTable, requests: RequestTable, shadow: Shadow, held: Held, first: int, sign: int
) -> None:
    """A run, by its first row, gives back (1) or takes (-1) what it holds."""
    give_of_site(shadow.then, requests, held.kind[first], sign)
    row = first
    while row != NONE:
        copy_row(nodes, requests, shadow, held.row[row, NODE])
        shift(requests, shadow, held.kind[row], held.row, row, sign)
        row = held.next[row]


@part
def placed_ends(on: OnNodes, shadow: Shadow, x: int) -> None:
    """A job that starts in this pass, by its place in `placed`, gives back what it uses."""
    p, kind = on.decided, on.kind[on.decided.placed[x]]
    give_of_site(shadow.then, on.requests, kind, 1)
    for row in range(p.after[x - 1] if x else 0, p.after[x]):
        copy_row(on.nodes, on.requests, shadow, p.rows[row, NODE])
        shift(on.requests, shadow, kind, p.rows, row, 1)


@part
def reserve(on: OnNodes, shadow: Shadow, releases: Releases, job: int, now_s: float) -> float:
    """The earliest time at which a job that does not fit now is expected to fit; infinite if never.

    Jobs that start in this pass count as running. All runs that are expected to end at that time count as
    ended. O(releases up to then).
    """
    nodes, requests, p = on.nodes, on.requests, on.decided
    look_at(nodes, requests, shadow, on.kind[job], on.chunks[job])
    then_s, x, y, n_running, n_placed = now_s, 0, 0, releases.n[0], p.n_placed[0]
    while x < n_running or y < n_placed:
        run_ends_s = releases.end_s[x] if x < n_running else np.inf
        placed_ends_s = now_s + on.estimate_s[p.placed[p.by_end[y]]] if y < n_placed else np.inf
        next_s = min(run_ends_s, placed_ends_s)
        if first_fits(requests, shadow) and next_s > then_s:
            break
        then_s = max(then_s, next_s)
        if x < n_running and run_ends_s == next_s:
            shift_run(nodes, requests, shadow, on.held, releases.released[x], 1)
            x += 1
        else:
            placed_ends(on, shadow, p.by_end[y])
            y += 1
    return then_s if first_fits(requests, shadow) else np.inf


@inlined
def would_delay(
    requests: RequestTable, shadow: Shadow, kind: int, rows: Ints2, begin: int, after: int
) -> bool:
    """Whether the first job no longer fits at the reserved time if a job still uses these rows then.

    If it still fits, the state at that time is updated.
    """
    for row in range(begin, after):
        shift(requests, shadow, kind, rows, row, -1)
    give_of_site(shadow.then, requests, kind, -1)
    if first_fits(requests, shadow):
        return False
    for row in range(begin, after):
        shift(requests, shadow, kind, rows, row, 1)
    give_of_site(shadow.then, requests, kind, 1)
    return True
