"""Conservative backfilling on nodes: a reservation of nodes for every job that waits, and which jobs start.

A reservation that was the earliest possible one still is, unless something was given back since: runs ended
early, nodes came up, or other reservations left their place. So the timeline stays from pass to pass, and a
search begins where what was given back may suffice for the chunks that were lacking. Between two ends of
uses, a later start has at most as much.
"""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Ints, part
from scheduler.node_resources.kernels.allocation import choose
from scheduler.node_resources.kernels.backfilling import take_rows
from scheduler.node_resources.kernels.heap import pop, push
from scheduler.node_resources.kernels.releases import Releases
from scheduler.node_resources.kernels.reservations import (
    BEGIN,
    KEEP,
    KEEP_EACH,
    MOVE_UP,
    Reservations,
    gains_s,
    give_up,
    has_room,
    is_where_freed,
    leave,
    not_before_others_s,
    note_alike,
)
from scheduler.node_resources.kernels.run_uses import begin
from scheduler.node_resources.kernels.scores import are_current
from scheduler.node_resources.kernels.segments import (
    drop,
    lift,
    new_use,
    put_in,
    stay_out,
    take_out,
    use_of_site,
)
from scheduler.node_resources.kernels.tables import CHUNKS, GPUS, NODE, NONE
from scheduler.node_resources.kernels.window import earliest_s, prepare_scores, requests_of_site
from scheduler.node_resources.kernels.workspace import (
    DONE,
    NOT_ASKED,
    WHICH_GPU,
    WHICH_SCORES,
    OnNodes,
    Ranking,
)


@part
def look_for_start_s(
    r: Reservations, on: OnNodes, slot: int, from_s: float, before_s: float, now_s: float
) -> float:
    """See `earliest_s`; also notes how many chunks of the job fit earlier."""
    k, chunks, takes_s = on.kind[slot], on.chunks[slot], on.estimate_s[slot]
    start_s = earliest_s(
        r.timeline, r.nodes, r.requests, r.search, k, chunks, from_s, takes_s, before_s, now_s
    )
    r.most[slot] = max(r.most[slot], min(r.search.most[0], chunks - 1))
    return start_s


@part
def next_to_place(r: Reservations, on: OnNodes, order: Ints, ends: Ints, now_s: float) -> int:
    """The next job for which nodes are to be chosen, to start at `found_s`; NONE if there is no other."""
    t, nodes, requests = r.timeline, r.nodes, r.requests
    while r.queue[0] < len(ends):
        begins = ends[r.queue[0] - 1] if r.queue[0] > 0 else 0
        after = ends[r.queue[0]]
        if r.part[0] == KEEP:
            r.n_kept[0], r.at[0], r.part[0] = 0, begins, MOVE_UP
            if r.queue[0] > 0 or not r.all_stay[0]:
                for x in range(begins, after):
                    slot = order[x]
                    if r.start_s[slot] < np.inf:
                        if r.queue[0] == 0:
                            take_out(t, nodes, requests, r.first_use[slot])
                        r.place[slot] = x
                        push(r.kept, r.n_kept, r.start_s, r.place, slot)
                r.part[0] = KEEP_EACH
        while r.part[0] == KEEP_EACH:
            if r.n_kept[0] == 0:
                r.part[0] = MOVE_UP
                break
            slot = pop(r.kept, r.n_kept, r.start_s, r.place)
            from_s, first = max(r.start_s[slot], now_s), r.first_use[slot]
            put_in(t, nodes, requests, first, from_s, from_s + on.estimate_s[slot])
            if has_room(r, first):
                r.start_s[slot] = from_s
                continue
            leave(r, first, now_s)
            give_up(r, first)
            r.start_s[slot] = look_for_start_s(r, on, slot, from_s, np.inf, now_s)
            if r.start_s[slot] < np.inf:
                r.found_s[0] = r.start_s[slot]
                return int(slot)
        while r.at[0] < after:
            slot = order[r.at[0]]
            r.at[0] += 1
            if moves_up(r, on, slot, now_s):
                return int(slot)
        r.queue[0] += 1
        r.part[0] = KEEP
    return NONE


@part
def moves_up(r: Reservations, on: OnNodes, slot: int, now_s: float) -> bool:
    """Whether a job has its first reservation now, or an earlier one, at `found_s`. Its former place is free
    then."""
    t, nodes, requests, before_s, first = r.timeline, r.nodes, r.requests, r.start_s[slot], r.first_use[slot]
    k, chunks, takes_s = on.kind[slot], on.chunks[slot], on.estimate_s[slot]
    if before_s == np.inf:
        from_s = not_before_others_s(r, k, chunks, takes_s, now_s)
        start_s = np.inf
        r.most[slot] = chunks - 1 if from_s > now_s else 0
        if from_s < np.inf:
            start_s = look_for_start_s(r, on, slot, from_s, np.inf, now_s)
            note_alike(r, k, chunks, takes_s, start_s)
        r.found_s[0] = start_s
        return bool(start_s < np.inf)
    if before_s == now_s or r.freed.n[0] == 0:
        return False
    is_out, from_s, until_s = False, now_s, before_s
    if is_where_freed(r, first):  # elsewhere it delays no other job
        lift(t, nodes, requests, first)
        is_out = True
    if not requests_of_site(nodes, requests, k):
        from_s, until_s = gains_s(r, k, chunks - r.most[slot], now_s, takes_s, before_s)
        r.most[slot] += r.search.most[0]
    start_s = np.inf
    if from_s < before_s:
        if not is_out:
            lift(t, nodes, requests, first)
            is_out = True
        start_s = look_for_start_s(r, on, slot, from_s, until_s, now_s)
    if start_s < before_s:
        leave(r, first, now_s)
        stay_out(t, first)
        drop(t, first)
        r.found_s[0] = start_s
        return True
    if is_out:
        put_in(t, nodes, requests, first, before_s, before_s + takes_s)
    return False


@part
def reserve_rows(r: Reservations, on: OnNodes, slot: int) -> None:
    """The job reserves what the rows of `decided` state, from `found_s` on."""
    p, kind, start_s = on.decided, on.kind[slot], r.found_s[0]
    use = use_of_site(r.timeline, r.nodes, r.requests, kind)
    for row in range(p.n_rows[0] - 1, -1, -1):
        use = new_use(r.timeline, p.rows[row, NODE], p.rows[row, CHUNKS], p.rows[row, GPUS], kind, use)
    put_in(r.timeline, r.nodes, r.requests, use, start_s, start_s + on.estimate_s[slot])
    r.start_s[slot], r.first_use[slot] = start_s, use


@part
def start_due(r: Reservations, on: OnNodes, order: Ints, now_s: float) -> None:
    """Write the jobs whose time has come to `decided.placed`, and what they use to `decided.rows`."""
    p, n_nodes, n_rows, n_reserved, n_started = on.decided, len(r.nodes.n_chunks), 0, 0, 0
    r.first_reserved_s[0] = np.inf
    for x in range(len(order)):
        slot = order[x]
        if r.start_s[slot] == now_s:
            use = r.first_use[slot]
            while use != NONE and r.timeline.row[use, NODE] < n_nodes:
                for column in range(3):
                    p.rows[n_rows, column] = r.timeline.row[use, column]
                n_rows += 1
                use = r.timeline.next_of_job[use]
            p.placed[n_started], p.after[n_started] = slot, n_rows
            r.started[n_started], r.start_s[slot] = r.first_use[slot], np.inf
            n_started += 1
        elif r.start_s[slot] < np.inf:
            r.reserved[n_reserved], r.ticket[slot] = slot, on.ticket[slot]
            n_reserved += 1
            r.first_reserved_s[0] = min(r.first_reserved_s[0], r.start_s[slot])
    r.n_reserved[0], r.n_started[0], p.n_placed[0] = n_reserved, n_started, n_started


@part
def reserve(
    r: Reservations,
    on: OnNodes,
    ranking: Ranking,
    order: Ints,
    ends: Ints,
    toggled: Ints,
    releases: Releases,
    now_s: float,
) -> int:
    """One pass over the jobs in `order` of service, by slot, of which each queue has those before one of
    `ends`: write those that start to `decided.placed`, and what they use to `decided.rows`. Nothing is taken.
    There must be rows, and rows of uses, for what all jobs would use.

    Each job keeps its reservation where it is still free, or moves to the earliest time after it, by start;
    then each, in order of service, moves to the earliest time that the others leave free. A queue's jobs are
    considered as if the queues served after it had no reservations. `toggled` are the nodes that came up or
    went down since the last pass.

    O(n + r) for n waiting jobs and r runs if nothing was given back; then, for each job, O(segments of the
    nodes where something was), and a search (see `earliest_s`) where that may suffice; returns early as
    `one_pass` does, and goes on when called again.
    """
    p, nodes, requests = on.decided, r.nodes, r.requests
    if r.part[0] == BEGIN:
        p.taking[0], p.gpu[0], p.n_placed[0] = NONE, NOT_ASKED, 0
        begin(r, on, order, ends, toggled, releases, now_s)
    while True:
        if p.taking[0] == NONE:
            slot = next_to_place(r, on, order, ends, now_s)
            if slot == NONE:
                r.part[0] = BEGIN
                start_due(r, on, order, now_s)
                return DONE
            p.taking[0], p.row[0], p.n_rows[0] = slot, 0, 0
            selection, takes_s = ranking.selection[0], on.estimate_s[slot]
            prepare_scores(r.timeline, nodes, requests, selection, on.kind[slot], r.found_s[0], takes_s)
        slot = p.taking[0]
        kind = on.kind[slot]
        if p.n_rows[0] == 0:
            if not are_current(nodes, requests, ranking, kind):
                return WHICH_SCORES
            p.n_rows[0] = choose(requests, ranking, kind, on.chunks[slot], p.rows, 0)
        if not take_rows(nodes, requests, ranking, kind, p):
            return WHICH_GPU
        reserve_rows(r, on, slot)
        p.taking[0] = NONE
