"""Which of the waiting jobs start now, and on what: one pass over the queue."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats2, Ints, inlined, part
from scheduler.node_resources.kernels.allocation import (
    choose,
    give_back_row,
    most_rows,
    take_row,
    takes_parts_of_gpus,
)
from scheduler.node_resources.kernels.scores import IN_PYTHON, are_current
from scheduler.node_resources.kernels.shadow import copy_row, reserve, would_delay
from scheduler.node_resources.kernels.tables import (
    NODE,
    NONE,
    Held,
    NodeTable,
    RequestTable,
    fits_now,
    give_of_site,
)
from scheduler.node_resources.kernels.workspace import (
    AFTER,
    AT,
    DONE,
    FIRST,
    GPU,
    JOB,
    MORE_ROWS,
    N_DELAYING,
    N_PLACED,
    N_ROWS,
    NOT_ASKED,
    RESERVED_S,
    ROW,
    TAKING,
    WHICH_GPU,
    WHICH_SCORES,
    Jobs,
    Pass,
    Ranking,
    Shadow,
)


@part
def begin_pass(p: Pass) -> None:
    p.counts[:] = 0
    p.counts[FIRST] = p.counts[TAKING] = NONE
    p.counts[GPU] = NOT_ASKED
    p.times_s[RESERVED_S] = np.inf


@inlined
def is_known_to_delay(p: Pass, kind: int, chunks: int) -> bool:
    found = False
    for d in range(p.counts[N_DELAYING]):
        found = found or (p.delaying[d, 0] == kind and p.delaying[d, 1] == chunks)
    return found


@part
def next_to_backfill(
    nodes: NodeTable, requests: RequestTable, jobs: Jobs, order: Ints, n_jobs: int, p: Pass, now_s: float
) -> int:
    """The next job that fits now, or NONE. One whose request would delay the first job counts only if it is
    expected to end by the reserved time."""
    x = p.counts[AT]
    while x < n_jobs:
        job = order[x]
        if not p.is_out[job]:
            kind, chunks = jobs.kinds[job], jobs.chunks[job]
            if fits_now(nodes, requests, kind, chunks) and (
                now_s + jobs.estimates_s[job] <= p.times_s[RESERVED_S]
                or not is_known_to_delay(p, kind, chunks)
            ):
                p.counts[AT] = x
                return int(job)
        x += 1
    p.counts[AT] = x
    return NONE


@part
def place(p: Pass, jobs: Jobs, job: int) -> None:
    """A job starts on what it has taken."""
    x = p.counts[N_PLACED]
    p.placed[x, JOB], p.placed[x, AFTER] = job, p.counts[ROW]
    p.is_out[job] = True
    y = x  # in order of ends, among those before the first that does not fit
    while y > 0 and jobs.estimates_s[p.placed[p.by_end[y - 1], JOB]] > jobs.estimates_s[job]:
        p.by_end[y] = p.by_end[y - 1]
        y -= 1
    p.by_end[y] = x
    p.counts[N_PLACED] = x + 1


@part
def end_pass(p: Pass) -> None:
    for x in range(p.counts[N_PLACED]):
        p.is_out[p.placed[x, JOB]] = False
    if p.counts[FIRST] != NONE:
        p.is_out[p.counts[FIRST]] = False


@part
def one_pass(
    nodes: NodeTable,
    requests: RequestTable,
    ranking: Ranking,
    shadow: Shadow,
    jobs: Jobs,
    n_jobs: int,
    order: Ints,
    later: Ints,
    backfills: bool,
    releases: Floats2,
    n_running: int,
    held: Held,
    now_s: float,
    p: Pass,
) -> int:
    """Write the jobs that start to `p.placed`, and what each uses to `p.rows`, which is taken.

    Jobs start in `order` until one does not fit. If the pass `backfills`, EASY backfilling follows in the
    order `later`: the first job that does not fit has a reservation at the earliest time at which it is
    expected to fit, counting all runs that are expected to end at that time. Another job that fits starts if
    it is expected to end by then, or if the first one still fits at that time.
    """
    counts, is_backfilling = p.counts, p.counts[FIRST] != NONE
    while True:
        if counts[TAKING] == NONE:
            if is_backfilling:
                job = next_to_backfill(nodes, requests, jobs, later, n_jobs, p, now_s)
            else:
                job = order[counts[AT]] if counts[AT] < n_jobs else NONE
                if job != NONE and not fits_now(nodes, requests, jobs.kinds[job], jobs.chunks[job]):
                    counts[FIRST], counts[AT] = job, 0
                    p.is_out[job] = True
                    if backfills:
                        is_backfilling = True
                        p.times_s[RESERVED_S] = reserve(
                            nodes, requests, shadow, releases, n_running, held, jobs, p, job, now_s
                        )
                        continue
                    job = NONE
            if job == NONE:
                end_pass(p)
                return DONE
            kind, chunks = jobs.kinds[job], jobs.chunks[job]
            if counts[N_ROWS] + most_rows(requests, kind, chunks) > len(p.rows):
                return MORE_ROWS
            if not are_current(nodes, requests, ranking, kind):
                return WHICH_SCORES
            counts[N_ROWS] = choose(requests, ranking, kind, chunks, p.rows, counts[N_ROWS])
            counts[TAKING] = job
            counts[AT] += 1
            if is_backfilling:
                for row in range(counts[ROW], counts[N_ROWS]):
                    copy_row(nodes, requests, shadow, p.rows[row, NODE])
        job = counts[TAKING]
        kind, chunks = jobs.kinds[job], jobs.chunks[job]
        asks = ranking.selection[0] == IN_PYTHON and takes_parts_of_gpus(requests, kind)
        while counts[ROW] < counts[N_ROWS]:
            if asks and counts[GPU] == NOT_ASKED:
                return WHICH_GPU
            gpu = counts[GPU] if asks else NONE
            take_row(nodes, requests, kind, p.rows, counts[ROW], gpu)
            counts[GPU] = NOT_ASKED
            counts[ROW] += 1
        give_of_site(nodes, requests, kind, -1)
        counts[TAKING] = NONE
        begin = p.placed[counts[N_PLACED] - 1, AFTER] if counts[N_PLACED] else 0
        if (
            is_backfilling
            and now_s + jobs.estimates_s[job] > p.times_s[RESERVED_S]
            and would_delay(requests, shadow, kind, p.rows, begin, counts[N_ROWS])
        ):
            for row in range(begin, counts[N_ROWS]):
                give_back_row(nodes, requests, kind, p.rows, row)
            give_of_site(nodes, requests, kind, 1)
            counts[ROW] = counts[N_ROWS] = begin
            if counts[N_DELAYING] < len(p.delaying):  # otherwise it is tried again
                p.delaying[counts[N_DELAYING], 0] = kind
                p.delaying[counts[N_DELAYING], 1] = chunks
                counts[N_DELAYING] += 1
        else:
            place(p, jobs, job)
            counts[N_DELAYING] = 0
