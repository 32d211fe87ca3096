"""The reservation of the first job that waits, and whether another job would delay it (EASY backfilling).

The state of the nodes at the reserved time differs from now only where runs end until then. So rows of the
state `then` are valid only where `is_copied`; elsewhere it equals the state now. What is free of the site's
resources is always valid in `then`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Flags, Floats, Floats2, Ints, Ints2, compiled, direct, inlined
from scheduler.node_resources.kernels.allocation import CHUNKS, GPUS, NODE
from scheduler.node_resources.kernels.fitting import chunks_that_fit, fits_now, refresh
from scheduler.node_resources.kernels.tables import (
    FREE,
    NONE,
    WHOLE,
    NodeTable,
    RequestTable,
    site_need,
    site_suffices,
)

END_S, FIRST, RUN = range(3)
"""Columns of a table of releases: expected end, first row of `Held`, run."""


class Held(NamedTuple):
    """What runs hold: a row for each node of a run, linked."""

    row: Ints2  # NODE, CHUNKS, GPUS
    kind: Ints  # of request
    next: Ints  # the run's next row, or NONE


class Shadow(NamedTuple):
    """The state at the reserved time."""

    then: NodeTable
    is_copied: Flags  # (N,)
    copied: Ints  # (N,): the nodes of which rows are copied
    fit: Ints  # (N,): chunks of the first job that fit then, where copied
    found: Ints  # (4,): COPIED, KIND, NEEDED, TOTAL


COPIED, KIND, NEEDED, TOTAL = range(4)
"""Places in `Shadow.found`: number of copied rows; kind and chunks of the first job; how many fit then."""


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
def shift(requests: RequestTable, shadow: Shadow, kind: int, row: Ints, sign: int) -> None:
    """Give back (1) or take (-1) what a row holds, in the state at the reserved time."""
    n, chunks, then = row[NODE], row[CHUNKS], shadow.then
    if requests.exclusive[kind]:
        for r in range(then.free.shape[1]):
            then.free[n, r] = then.capacity[n, r] if sign > 0 else 0
    else:
        for r in range(then.free.shape[1]):
            then.free[n, r] += sign * chunks * requests.need[kind, r]
    share = WHOLE if requests.exclusive[kind] else requests.gpu_share[kind]
    for d in range(then.gpu_free.shape[1]):
        if row[GPUS] & (1 << d):
            then.gpu_free[n, d] += sign * share
    then.n_chunks[n] -= sign * chunks
    fit = chunks_that_fit(then, requests, shadow.found[KIND], n)
    shadow.found[TOTAL] += fit - shadow.fit[n]
    shadow.fit[n] = fit


@inlined
def shift_site(requests: RequestTable, shadow: Shadow, kind: int, sign: int) -> None:
    """Give back (1) or take (-1) what a job has of the site's resources, at the reserved time."""
    for s in range(shadow.then.site.shape[1]):
        shadow.then.site[FREE, s] += sign * site_need(shadow.then, requests, kind, s)


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


@direct
@compiled
def reserve(
    nodes: NodeTable,
    requests: RequestTable,
    shadow: Shadow,
    releases: Floats2,
    n_running: int,
    held: Held,
    kind: int,
    chunks: int,
    now_s: float,
) -> float:
    """The earliest time at which a job that does not fit now is expected to fit; infinite if never.

    All runs that are expected to end at that time count as ended. O(releases up to then).
    """
    look_at(nodes, requests, shadow, kind, chunks)
    then_s, x = now_s, 0
    while x < n_running and (not first_fits(requests, shadow) or releases[x, END_S] <= then_s):
        then_s = max(then_s, releases[x, END_S])
        row = int(releases[x, FIRST])
        shift_site(requests, shadow, held.kind[row], 1)
        while row != NONE:
            copy_row(nodes, requests, shadow, held.row[row, NODE])
            shift(requests, shadow, held.kind[row], held.row[row], 1)
            row = held.next[row]
        x += 1
    return then_s if first_fits(requests, shadow) else np.inf


@direct
@compiled
def copy_rows(nodes: NodeTable, requests: RequestTable, shadow: Shadow, used: Ints2) -> None:
    """To be called before a job takes what it uses."""
    for row in range(len(used)):
        copy_row(nodes, requests, shadow, used[row, NODE])


@direct
@compiled
def would_delay(requests: RequestTable, shadow: Shadow, kind: int, used: Ints2) -> bool:
    """Whether the first job no longer fits at the reserved time if a job still uses `used` then.

    If it still fits, the state at that time is updated.
    """
    for row in range(len(used)):
        shift(requests, shadow, kind, used[row], -1)
    shift_site(requests, shadow, kind, -1)
    if first_fits(requests, shadow):
        return False
    for row in range(len(used)):
        shift(requests, shadow, kind, used[row], 1)
    shift_site(requests, shadow, kind, 1)
    return True


@direct
@compiled
def next_that_fits(
    nodes: NodeTable, requests: RequestTable, kinds: Ints, chunks: Ints, order: Ints, x: int
) -> int:
    """The first place from x on in `order` (positions in the queue) of a job that fits now, or its length."""
    while x < len(order):
        i = order[x]
        if fits_now(nodes, requests, kinds[i], chunks[i]):
            return x
        x += 1
    return x


class Candidates(NamedTuple):
    """Jobs to be backfilled: columns of the queue, the order in which to try them, those (by position in the
    queue) to be skipped, and requests (kind, chunks) that would delay the first job."""

    kinds: Ints
    chunks: Ints
    estimates_s: Floats
    order: Ints
    skipped: Flags
    delaying: Ints2


@direct
@compiled
def next_candidate(
    nodes: NodeTable,
    requests: RequestTable,
    jobs: Candidates,
    x: int,
    n_delaying: int,
    now_s: float,
    reserved_s: float,
) -> int:
    """The first place from x on in the order of a job that fits now, or the length of the order.

    A job whose request would delay the first job counts only if it is expected to end by `reserved_s`.
    """
    while x < len(jobs.order):
        i = jobs.order[x]
        if not jobs.skipped[i]:
            kind, chunks = jobs.kinds[i], jobs.chunks[i]
            if fits_now(nodes, requests, kind, chunks):
                delays = False
                if now_s + jobs.estimates_s[i] > reserved_s:
                    for d in range(n_delaying):
                        if jobs.delaying[d, 0] == kind and jobs.delaying[d, 1] == chunks:
                            delays = True
                if not delays:
                    return x
        x += 1
    return x
