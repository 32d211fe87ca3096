"""The reservation of the first job that waits, and whether another job would delay it (EASY backfilling).

The state of the nodes at the reserved time differs from now only where runs end until then. So rows of the
state `then` are valid only where `is_copied`; elsewhere it equals the state now. What is free of the site's
resources is always valid in `then`.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats2, Ints2, inlined, part
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
from scheduler.node_resources.kernels.workspace import (
    AFTER,
    COPIED,
    JOB,
    KIND,
    N_PLACED,
    NEEDED,
    TOTAL,
    Jobs,
    Pass,
    Shadow,
)

END_S, FIRST = range(2)
"""The first columns of a table of releases: expected end, first row of `Held`. `free_nodes.kernels.releases`
has all of them, but imports this package."""


@inlined
def copy_row(nodes: NodeTable, requests: RequestTable, shadow: Shadow, n: int) -> None:
    """Make the row of node n valid. The node must not have changed since the reservation was made."""
    if shadow.is_copied[n]:
        return
    shadow.is_copied[n] = True
    shadow.copied[shadow.found[COPIED]] = n
    shadow.found[COPIED] += 1
    for r in range(nodes.free.shape[1]):
        shadow.then.free[n, r] = nodes.free[n, r]
    for d in range(nodes.gpu_free.shape[1]):
        shadow.then.gpu_free[n, d] = nodes.gpu_free[n, d]
    shadow.then.n_chunks[n] = nodes.n_chunks[n]
    shadow.fit[n] = requests.fit[shadow.found[KIND], n]


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
    fit = chunks_that_fit(then, requests, shadow.found[KIND], n)
    shadow.found[TOTAL] += fit - shadow.fit[n]
    shadow.fit[n] = fit


@inlined
def first_fits(requests: RequestTable, shadow: Shadow) -> bool:
    """Whether the first job fits at the reserved time."""
    return bool(
        shadow.found[TOTAL] >= shadow.found[NEEDED]
        and site_suffices(shadow.then, requests, shadow.found[KIND])
    )


@inlined
def look_at(nodes: NodeTable, requests: RequestTable, shadow: Shadow, kind: int, chunks: int) -> None:
    """Make the shadow equal to the state now, to be shifted until a job fits."""
    for x in range(shadow.found[COPIED]):
        shadow.is_copied[shadow.copied[x]] = False
    refresh(nodes, requests, kind)
    shadow.found[COPIED], shadow.found[KIND] = 0, kind
    shadow.found[NEEDED], shadow.found[TOTAL] = chunks, requests.total[kind]
    for s in range(nodes.site.shape[1]):
        shadow.then.site[FREE, s] = nodes.site[FREE, s]


@part
def run_ends(nodes: NodeTable, requests: RequestTable, shadow: Shadow, held: Held, first: int) -> None:
    """A run, by its first row, gives back what it holds."""
    give_of_site(shadow.then, requests, held.kind[first], 1)
    row = first
    while row != NONE:
        copy_row(nodes, requests, shadow, held.row[row, NODE])
        shift(requests, shadow, held.kind[row], held.row, row, 1)
        row = held.next[row]


@part
def placed_ends(
    nodes: NodeTable, requests: RequestTable, shadow: Shadow, jobs: Jobs, p: Pass, x: int
) -> None:
    """A job that starts in this pass, by its row of `placed`, gives back what it uses."""
    kind = jobs.kinds[p.placed[x, JOB]]
    give_of_site(shadow.then, requests, kind, 1)
    for row in range(p.placed[x - 1, AFTER] if x else 0, p.placed[x, AFTER]):
        copy_row(nodes, requests, shadow, p.rows[row, NODE])
        shift(requests, shadow, kind, p.rows, row, 1)


@part
def reserve(
    nodes: NodeTable,
    requests: RequestTable,
    shadow: Shadow,
    releases: Floats2,
    n_running: int,
    held: Held,
    jobs: Jobs,
    p: Pass,
    job: int,
    now_s: float,
) -> float:
    """The earliest time at which a job that does not fit now is expected to fit; infinite if never.

    Jobs that start in this pass count as running. All runs that are expected to end at that time count as
    ended. O(releases up to then).
    """
    look_at(nodes, requests, shadow, jobs.kinds[job], jobs.chunks[job])
    then_s, x, y, n_placed = now_s, 0, 0, p.counts[N_PLACED]
    while x < n_running or y < n_placed:
        run_ends_s = releases[x, END_S] if x < n_running else np.inf
        placed_ends_s = now_s + jobs.estimates_s[p.placed[p.by_end[y], JOB]] if y < n_placed else np.inf
        next_s = min(run_ends_s, placed_ends_s)
        if first_fits(requests, shadow) and next_s > then_s:
            break
        then_s = max(then_s, next_s)
        if x < n_running and run_ends_s == next_s:
            run_ends(nodes, requests, shadow, held, int(releases[x, FIRST]))
            x += 1
        else:
            placed_ends(nodes, requests, shadow, jobs, p, p.by_end[y])
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
