"""Conservative backfilling on nodes: a reservation of nodes for every job that waits, and which jobs start.

A reservation that was the earliest possible one still is, unless something was given back since: runs ended
early, nodes came up, or other reservations left their place. So the timeline stays from pass to pass, and a
search begins where what was given back may suffice for the chunks that were lacking. Between two ends of
uses, a later start has at most as much.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats2, Ints, part
from scheduler.node_resources.kernels.allocation import choose, take_row, takes_parts_of_gpus
from scheduler.node_resources.kernels.heap import pop, push
from scheduler.node_resources.kernels.reservations import (
    ALL_STAY,
    AT,
    BEGIN,
    FIRST_RESERVED_S,
    FOUND_S,
    KEEP,
    KEEP_EACH,
    MOVE_UP,
    N_KEPT,
    N_RESERVED,
    N_STARTED,
    PHASE,
    QUEUE,
    Reservations,
    gains_s,
    give_up,
    has_room,
    is_where_freed,
    leave,
    not_before_others_s,
    note_alike,
)
from scheduler.node_resources.kernels.run_uses import begin, lacks_rows, rows_of
from scheduler.node_resources.kernels.scores import IN_PYTHON, are_current
from scheduler.node_resources.kernels.segments import (
    drop,
    lift,
    new_use,
    put_in,
    stay_out,
    take_out,
    use_of_site,
)
from scheduler.node_resources.kernels.tables import CHUNKS, GPUS, NODE, NONE, Held, NodeTable, RequestTable
from scheduler.node_resources.kernels.window import (
    MOST,
    earliest_s,
    prepare_scores,
    requests_of_site,
)
from scheduler.node_resources.kernels.workspace import (
    AFTER,
    DONE,
    GPU,
    JOB,
    MORE_ROWS,
    N_PLACED,
    N_ROWS,
    NOT_ASKED,
    ROW,
    TAKING,
    WHICH_GPU,
    WHICH_SCORES,
    Jobs,
    Pass,
    Ranking,
)


@part
def next_to_place(
    r: Reservations,
    nodes: NodeTable,
    requests: RequestTable,
    jobs: Jobs,
    order: Ints,
    ends: Ints,
    now_s: float,
) -> int:
    """The next job for which nodes are to be chosen, to start at FOUND_S; NONE if there is no other."""
    counts, t = r.counts, r.timeline
    while counts[QUEUE] < len(ends):
        begins = ends[counts[QUEUE] - 1] if counts[QUEUE] > 0 else 0
        after = ends[counts[QUEUE]]
        if counts[PHASE] == KEEP:
            counts[N_KEPT], counts[AT] = 0, begins
            if counts[QUEUE] == 0 and counts[ALL_STAY]:
                counts[PHASE] = MOVE_UP
                continue
            for x in range(begins, after):
                slot = order[x]
                if r.start_s[slot] < np.inf:
                    if counts[QUEUE] == 0:
                        take_out(t, nodes, requests, r.first_use[slot])
                    r.key_s[x] = r.start_s[slot]
                    push(r.heap, counts[N_KEPT], r.key_s, x)
                    counts[N_KEPT] += 1
            counts[PHASE] = KEEP_EACH
        while counts[PHASE] == KEEP_EACH:
            if counts[N_KEPT] == 0:
                counts[PHASE] = MOVE_UP
                break
            slot = order[pop(r.heap, counts[N_KEPT], r.key_s)]
            counts[N_KEPT] -= 1
            k, chunks, takes_s = jobs.kinds[slot], jobs.chunks[slot], jobs.estimates_s[slot]
            from_s, first = max(r.start_s[slot], now_s), r.first_use[slot]
            put_in(t, nodes, requests, first, from_s, from_s + takes_s)
            if has_room(r, nodes, requests, first):
                r.start_s[slot] = from_s
                continue
            leave(r, first, now_s)
            give_up(r, nodes, requests, first)
            start_s = earliest_s(t, nodes, requests, r.search, k, chunks, from_s, takes_s, np.inf, now_s)
            r.most[slot] = max(r.most[slot], min(r.search.counts[MOST], chunks - 1))
            r.start_s[slot] = start_s
            if start_s < np.inf:
                r.times_s[FOUND_S] = start_s
                return int(slot)
        while counts[AT] < after:
            slot = order[counts[AT]]
            counts[AT] += 1
            if moves_up(r, nodes, requests, jobs, slot, now_s):
                return int(slot)
        counts[QUEUE] += 1
        counts[PHASE] = KEEP
    return NONE


@part
def moves_up(
    r: Reservations, nodes: NodeTable, requests: RequestTable, jobs: Jobs, slot: int, now_s: float
) -> bool:
    """Whether a job has its first reservation now, or an earlier one, at FOUND_S. Its former place is free
    then."""
    t, before_s, first = r.timeline, r.start_s[slot], r.first_use[slot]
    k, chunks, takes_s = jobs.kinds[slot], jobs.chunks[slot], jobs.estimates_s[slot]
    if before_s == np.inf:
        from_s = not_before_others_s(r, k, chunks, takes_s, now_s)
        start_s = np.inf
        if from_s < np.inf:
            start_s = earliest_s(t, nodes, requests, r.search, k, chunks, from_s, takes_s, np.inf, now_s)
            note_alike(r, k, chunks, takes_s, start_s)
        r.most[slot] = chunks - 1 if from_s > now_s else min(r.search.counts[MOST], chunks - 1)
        r.times_s[FOUND_S] = start_s
        return bool(start_s < np.inf)
    if before_s == now_s or r.freed.n[0] == 0:
        return False
    is_out, from_s, until_s, more = False, now_s, before_s, 0
    if is_where_freed(r, first):  # elsewhere it delays no other job
        lift(t, nodes, requests, first)
        is_out = True
    if not requests_of_site(nodes, requests, k):
        lacking = chunks - r.most[slot]
        from_s, until_s = gains_s(t, nodes, requests, r.search, r.freed, k, lacking, now_s, takes_s, before_s)
        more = r.search.counts[MOST]
        r.most[slot] += more
    start_s = np.inf
    if from_s < before_s:
        if not is_out:
            lift(t, nodes, requests, first)
            is_out = True
        start_s = earliest_s(t, nodes, requests, r.search, k, chunks, from_s, takes_s, until_s, now_s)
        r.most[slot] = max(r.most[slot], min(r.search.counts[MOST], chunks - 1))
    if start_s < before_s:
        leave(r, first, now_s)
        stay_out(t, first)
        drop(t, first)
        r.times_s[FOUND_S] = start_s
        return True
    if is_out:
        put_in(t, nodes, requests, first, before_s, before_s + takes_s)
    return False


@part
def reserve_rows(
    r: Reservations,
    nodes: NodeTable,
    requests: RequestTable,
    slot: int,
    kind: int,
    takes_s: float,
    p: Pass,
) -> None:
    """The job reserves what the rows of `p` state, from FOUND_S on."""
    use, start_s = use_of_site(r.timeline, nodes, requests, kind), r.times_s[FOUND_S]
    for row in range(p.counts[N_ROWS] - 1, -1, -1):
        use = new_use(r.timeline, p.rows[row, NODE], p.rows[row, CHUNKS], p.rows[row, GPUS], kind, use)
    put_in(r.timeline, nodes, requests, use, start_s, start_s + takes_s)
    r.start_s[slot], r.first_use[slot] = start_s, use


@part
def start_due(r: Reservations, nodes: NodeTable, order: Ints, p: Pass, now_s: float) -> None:
    """Write the jobs whose time has come to `p.placed`, and what they use to `p.rows`."""
    counts, n_rows = r.counts, 0
    counts[N_RESERVED] = 0
    r.times_s[FIRST_RESERVED_S] = np.inf
    for x in range(len(order)):
        slot = order[x]
        if r.start_s[slot] == now_s:
            use = r.first_use[slot]
            while use != NONE and r.timeline.row[use, NODE] < len(nodes.n_chunks):
                for column in range(3):
                    p.rows[n_rows, column] = r.timeline.row[use, column]
                n_rows += 1
                use = r.timeline.next_of_job[use]
            p.placed[p.counts[N_PLACED], JOB], p.placed[p.counts[N_PLACED], AFTER] = slot, n_rows
            p.counts[N_PLACED] += 1
            r.started[counts[N_STARTED]] = r.first_use[slot]
            counts[N_STARTED] += 1
            r.start_s[slot] = np.inf
        elif r.start_s[slot] < np.inf:
            r.reserved[counts[N_RESERVED]] = slot
            counts[N_RESERVED] += 1
            r.times_s[FIRST_RESERVED_S] = min(r.times_s[FIRST_RESERVED_S], r.start_s[slot])


@part
def reserve(
    r: Reservations,
    nodes: NodeTable,
    requests: RequestTable,
    ranking: Ranking,
    jobs: Jobs,
    order: Ints,
    ends: Ints,
    toggled: Ints,
    releases: Floats2,
    n_running: int,
    held: Held,
    now_s: float,
    p: Pass,
) -> int:
    """One pass over the jobs in `order` of service, by slot, of which each queue has those before one of
    `ends`: write those that start to `p.placed`, and what they use to `p.rows`. Nothing is taken.

    Each job keeps its reservation where it is still free, or moves to the earliest time after it, by start;
    then each, in order of service, moves to the earliest time that the others leave free. A queue's jobs are
    considered as if the queues served after it had no reservations. `toggled` are the nodes that came up or
    went down since the last pass. `nodes` and `requests` are another state of the nodes (work space).

    O(n + r) for n waiting jobs and r runs if nothing was given back; then, for each job, O(segments of the
    nodes where something was), and a search (see `earliest_s`) where that may suffice; returns early as
    `one_pass` does, and goes on when called again.
    """
    counts = p.counts
    if r.counts[PHASE] == BEGIN:
        if lacks_rows(r, rows_of(requests, jobs, order), len(order), held, n_running, p):
            return MORE_ROWS
        counts[TAKING], counts[GPU], counts[N_PLACED] = NONE, NOT_ASKED, 0
        begin(r, nodes, requests, order, ends, toggled, releases, n_running, held, now_s)
    while True:
        if counts[TAKING] == NONE:
            slot = next_to_place(r, nodes, requests, jobs, order, ends, now_s)
            if slot == NONE:
                r.counts[PHASE] = BEGIN
                start_due(r, nodes, order, p, now_s)
                return DONE
            counts[TAKING], counts[ROW], counts[N_ROWS] = slot, 0, 0
            kind = jobs.kinds[slot]
            prepare_scores(
                r.timeline,
                nodes,
                requests,
                ranking.selection[0],
                kind,
                r.times_s[FOUND_S],
                jobs.estimates_s[slot],
            )
        slot = counts[TAKING]
        kind, takes_s = jobs.kinds[slot], jobs.estimates_s[slot]
        if counts[N_ROWS] == 0:
            if not are_current(nodes, requests, ranking, kind):
                return WHICH_SCORES
            counts[N_ROWS] = choose(requests, ranking, kind, jobs.chunks[slot], p.rows, 0)
        asks = ranking.selection[0] == IN_PYTHON and takes_parts_of_gpus(requests, kind)
        while counts[ROW] < counts[N_ROWS]:
            if asks and counts[GPU] == NOT_ASKED:
                return WHICH_GPU
            take_row(nodes, requests, kind, p.rows, counts[ROW], counts[GPU] if asks else NONE)
            counts[GPU] = NOT_ASKED
            counts[ROW] += 1
        reserve_rows(r, nodes, requests, slot, kind, takes_s, p)
        counts[TAKING] = NONE
