"""Which of the waiting jobs start now, and on what: one pass over the queue."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Ints, inlined, part
from scheduler.node_resources.kernels.allocation import choose, give_back_row, take_row, takes_parts_of_gpus
from scheduler.node_resources.kernels.releases import Releases
from scheduler.node_resources.kernels.scores import IN_PYTHON, are_current
from scheduler.node_resources.kernels.shadow import copy_row, reserve, would_delay
from scheduler.node_resources.kernels.tables import (
    NODE,
    NONE,
    NodeTable,
    RequestTable,
    fits_now,
    give_of_site,
)
from scheduler.node_resources.kernels.workspace import (
    DONE,
    NOT_ASKED,
    WHICH_GPU,
    WHICH_SCORES,
    OnNodes,
    Pass,
    Ranking,
    Shadow,
)


@part
def begin_pass(p: Pass) -> None:
    p.at[0] = p.n_rows[0] = p.row[0] = p.n_placed[0] = p.n_delaying[0] = 0
    p.first[0] = p.taking[0] = NONE
    p.gpu[0], p.reserved_s[0] = NOT_ASKED, np.inf


@part
def take_rows(nodes: NodeTable, requests: RequestTable, ranking: Ranking, kind: int, p: Pass) -> bool:
    """Take the rows from `row` on; False if Python has to choose a GPU before."""
    asks = ranking.selection[0] == IN_PYTHON and takes_parts_of_gpus(requests, kind)
    while p.row[0] < p.n_rows[0]:
        if asks and p.gpu[0] == NOT_ASKED:
            return False
        take_row(nodes, requests, kind, p.rows, p.row[0], p.gpu[0] if asks else NONE)
        p.gpu[0] = NOT_ASKED
        p.row[0] += 1
    return True


@part
def give_rows_back(on: OnNodes, kind: int, begin: int, after: int) -> None:
    """A job of this kind gives back what it took in a pass."""
    for row in range(begin, after):
        give_back_row(on.nodes, on.requests, kind, on.decided.rows, row)
    give_of_site(on.nodes, on.requests, kind, 1)


@part
def undo_pass(on: OnNodes) -> None:
    """What jobs took in a pass is free."""
    p = on.decided
    for x in range(p.n_placed[0] - 1, -1, -1):
        give_rows_back(on, on.kind[p.placed[x]], p.after[x - 1] if x else 0, p.after[x])


@inlined
def is_known_to_delay(p: Pass, kind: int, chunks: int) -> bool:
    found = False
    for d in range(p.n_delaying[0]):
        found = found or (p.delaying[d, 0] == kind and p.delaying[d, 1] == chunks)
    return found


@part
def next_to_backfill(on: OnNodes, order: Ints, n_jobs: int, now_s: float) -> int:
    """The next job that fits now, or NONE. One whose request would delay the first job counts only if it is
    expected to end by the reserved time."""
    p = on.decided
    x = p.at[0]
    while x < n_jobs:
        job = order[x]
        if not p.is_out[job]:
            kind, chunks = on.kind[job], on.chunks[job]
            if fits_now(on.nodes, on.requests, kind, chunks) and (
                now_s + on.estimate_s[job] <= p.reserved_s[0] or not is_known_to_delay(p, kind, chunks)
            ):
                p.at[0] = x
                return int(job)
        x += 1
    p.at[0] = x
    return NONE


@part
def place(on: OnNodes, job: int) -> None:
    """A job starts on what it has taken."""
    p = on.decided
    x = p.n_placed[0]
    p.placed[x], p.after[x], p.is_out[job] = job, p.row[0], True
    y = x  # in order of ends, among those before the first that does not fit
    while y > 0 and on.estimate_s[p.placed[p.by_end[y - 1]]] > on.estimate_s[job]:
        p.by_end[y] = p.by_end[y - 1]
        y -= 1
    p.by_end[y] = x
    p.n_placed[0] = x + 1


@part
def end_pass(p: Pass) -> None:
    for x in range(p.n_placed[0]):
        p.is_out[p.placed[x]] = False
    if p.first[0] != NONE:
        p.is_out[p.first[0]] = False


@part
def one_pass(
    on: OnNodes,
    ranking: Ranking,
    shadow: Shadow,
    releases: Releases,
    n_jobs: int,
    order: Ints,
    later: Ints,
    backfills: bool,
    now_s: float,
) -> int:
    """Write the jobs that start to `decided.placed`, and what each uses to `decided.rows`, which is taken.
    There must be rows for what all jobs would use.

    Jobs start in `order` until one does not fit. If the pass `backfills`, EASY backfilling follows in the
    order `later`: the first job that does not fit has a reservation at the earliest time at which it is
    expected to fit, counting all runs that are expected to end at that time. Another job that fits starts if
    it is expected to end by then, or if the first one still fits at that time.
    """
    nodes, requests, p = on.nodes, on.requests, on.decided
    is_backfilling = p.first[0] != NONE
    while True:
        if p.taking[0] == NONE:
            if is_backfilling:
                job = next_to_backfill(on, later, n_jobs, now_s)
            else:
                job = order[p.at[0]] if p.at[0] < n_jobs else NONE
                if job != NONE and not fits_now(nodes, requests, on.kind[job], on.chunks[job]):
                    p.first[0], p.at[0], p.is_out[job] = job, 0, True
                    if backfills:
                        is_backfilling = True
                        p.reserved_s[0] = reserve(on, shadow, releases, job, now_s)
                        continue
                    job = NONE
            if job == NONE:
                end_pass(p)
                return DONE
            p.taking[0] = job
            p.at[0] += 1
        job = p.taking[0]
        kind, chunks = on.kind[job], on.chunks[job]
        begin = p.after[p.n_placed[0] - 1] if p.n_placed[0] else 0
        if p.n_rows[0] == begin:
            if not are_current(nodes, requests, ranking, kind):
                return WHICH_SCORES
            p.n_rows[0] = choose(requests, ranking, kind, chunks, p.rows, begin)
            if is_backfilling:
                for row in range(begin, p.n_rows[0]):
                    copy_row(nodes, requests, shadow, p.rows[row, NODE])
        if not take_rows(nodes, requests, ranking, kind, p):
            return WHICH_GPU
        give_of_site(nodes, requests, kind, -1)
        p.taking[0] = NONE
        if (
            is_backfilling
            and now_s + on.estimate_s[job] > p.reserved_s[0]
            and would_delay(requests, shadow, kind, p.rows, begin, p.n_rows[0])
        ):
            give_rows_back(on, kind, begin, p.n_rows[0])
            p.row[0] = p.n_rows[0] = begin
            if p.n_delaying[0] < len(p.delaying):  # otherwise it is tried again
                p.delaying[p.n_delaying[0], 0], p.delaying[p.n_delaying[0], 1] = kind, chunks
                p.n_delaying[0] += 1
        else:
            place(on, job)
            p.n_delaying[0] = 0
