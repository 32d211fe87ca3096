"""The reservations of jobs that wait for consumable nodes, and where some were given up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Flags, Floats, Floats2, Ints, inlined, part
from scheduler.node_resources.kernels.segments import Timeline, drop, leaves_room, take_out
from scheduler.node_resources.kernels.tables import NODE, NONE, NodeTable, RequestTable, times
from scheduler.node_resources.kernels.window import (
    MOST,
    N_HEAP,
    Search,
    begin_search,
    first_look_at,
    look_again_at,
    next_node,
    offers_none,
)

RUN = 2
"""Column of a table of releases, as END_S and FIRST."""

PHASE, QUEUE, AT, N_KEPT, ROWS_NEEDED, N_RESERVED, N_STARTED, N_RUNS, PASSES, N_ALIKE, ALL_STAY = range(11)
"""Places in `Reservations.counts`: which part of a pass is next, on which queue, and at which job; jobs in
the heap; rows of uses that a pass needs; reservations, jobs that started and runs as of the last pass; the
number of passes; rows of `alike`; whether there is room for all reservations."""

BEGIN, KEEP, KEEP_EACH, MOVE_UP = range(4)
"""Parts of a pass."""

FOUND_S, FIRST_RESERVED_S = 0, 1
"""Places in `Reservations.times_s`: where the job that is TAKING nodes will start; the first reservation."""

KIND, N_CHUNKS, TAKES_S, START_S = range(4)
"""Columns of `Reservations.alike`."""


class Freed(NamedTuple):
    """Where and when something was given back."""

    n: Ints  # (1,): how many nodes
    which: Ints  # (N + 1,): these nodes
    from_s: Floats  # (N + 1,)
    until_s: Floats  # (N + 1,): before `from_s` for all other nodes


class Reservations(NamedTuple):
    """The reservations of J jobs, by slot, beside what runs hold, by its first row in a `Held` of H rows."""

    counts: Ints
    times_s: Floats
    timeline: Timeline
    search: Search
    freed: Freed
    moved: Freed  # by reservations that left their place in this pass
    start_s: Floats  # (J,): infinite if there is none
    first_use: Ints  # (J,)
    most: Ints  # (J,): so many chunks of the job fit at any earlier time, at most
    waits: Flags  # (J,)
    reserved: Ints  # (J,): the slots of the reservations after the last pass
    started: Ints  # (J,): the first uses of the jobs that started in the last pass
    heap: Ints  # (J,): work space
    key_s: Floats  # (J,): work space
    alike: Floats2  # (64, 4): of jobs that reserved in this pass for the first time
    run_of: Ints  # (H,): the run in the timeline, or NONE
    use_of: Ints  # (H,): its first use
    seen: Ints  # (H,): the last pass in which it ran
    runs: Ints  # (H,): first rows of the runs in the timeline


@inlined
def has_been_freed(freed: Freed, n: int) -> bool:
    return bool(freed.until_s[n] > freed.from_s[n])


@inlined
def add_freed(freed: Freed, n: int, from_s: float, until_s: float) -> None:
    if has_been_freed(freed, n):
        freed.from_s[n] = min(freed.from_s[n], from_s)
        freed.until_s[n] = max(freed.until_s[n], until_s)
    elif until_s > from_s:
        freed.from_s[n], freed.until_s[n] = from_s, until_s
        freed.which[freed.n[0]] = n
        freed.n[0] += 1


@inlined
def forget_freed(freed: Freed) -> None:
    for x in range(freed.n[0]):
        freed.from_s[freed.which[x]], freed.until_s[freed.which[x]] = np.inf, -np.inf
    freed.n[0] = 0


@inlined
def most_on(nodes: NodeTable, requests: RequestTable, k: int, n: int, most: int) -> int:
    """So many chunks of kind k fit on node n at any time, at most."""
    most = min(most, requests.most_on_node[k])
    for r in range(nodes.free.shape[1]):
        if requests.need[k, r] > 0:
            most = times(requests.need[k, r], nodes.capacity[n, r], most)
    return most


@part
def gains_s(
    timeline: Timeline,
    nodes: NodeTable,
    requests: RequestTable,
    search: Search,
    freed: Freed,
    k: int,
    lacking: int,
    now_s: float,
    takes_s: float,
    before_s: float,
) -> tuple[float, float]:
    """From which time on, and until when, so many more chunks may fit as were `lacking`, since something was
    given back; infinite if not before another time.

    MOST is how many more may fit at an earlier time. O(segments of the nodes on which something was).
    """
    counts, gained, latest_s = search.counts, 0, -np.inf
    counts[N_HEAP] = 0
    begin_search(search, k, takes_s)
    for x in range(freed.n[0]):
        n = freed.which[x]
        if n < len(nodes.n_chunks) and requests.eligible[k, n]:
            # A run that is over before something was given back gains nothing; a second is for rounding.
            from_s = max(now_s, freed.from_s[n] - takes_s - 1.0)
            until_s = min(before_s, freed.until_s[n])
            if from_s < until_s and not offers_none(timeline, search, n, until_s):
                first_look_at(timeline, nodes, requests, search, k, n, from_s, takes_s, until_s, now_s)
            else:
                search.offer[n] = 0
            if search.offer[n] > 0:
                look_again_at(search, n, search.offers_s[n])
                latest_s = max(latest_s, until_s)
    while counts[N_HEAP] > 0:
        n = next_node(search)
        more = most_on(nodes, requests, k, n, lacking)
        if gained + more >= lacking:
            counts[MOST] = gained
            return float(search.at_s[n]), float(latest_s)
        gained += more
    counts[MOST] = gained
    return np.inf, np.inf


@part
def give_up(r: Reservations, nodes: NodeTable, requests: RequestTable, first: int) -> None:
    """The uses of a job are no longer in the timeline."""
    take_out(r.timeline, nodes, requests, first)
    drop(r.timeline, first)


@part
def add_uses(freed: Freed, timeline: Timeline, first: int, now_s: float) -> None:
    """What the uses of a job have is free from now on."""
    use = first
    while use != NONE:
        add_freed(freed, timeline.row[use, NODE], max(now_s, timeline.start_s[use]), timeline.end_s[use])
        use = timeline.next_of_job[use]


@inlined
def note_freed(r: Reservations, first: int, now_s: float) -> None:
    """What the uses of a job had is free."""
    add_uses(r.freed, r.timeline, first, now_s)


@part
def note_freed_between(r: Reservations, first: int, from_s: float, until_s: float) -> None:
    use = first
    while use != NONE:
        add_freed(r.freed, r.timeline.row[use, NODE], from_s, until_s)
        use = r.timeline.next_of_job[use]


@part
def leave(r: Reservations, first: int, now_s: float) -> None:
    """Others may move up to the place of a reservation, in this pass or the next."""
    note_freed(r, first, now_s)
    r.counts[N_ALIKE] = 0
    add_uses(r.moved, r.timeline, first, now_s)


@inlined
def has_room(r: Reservations, nodes: NodeTable, requests: RequestTable, first: int) -> bool:
    """Whether a reservation that is in the timeline may be there."""
    t, use, found = r.timeline, first, True
    while use != NONE and found:
        n = t.row[use, NODE]
        found = n == len(nodes.n_chunks) or requests.eligible[t.kind[use], n]
        found = found and leaves_room(t, nodes, requests, use, t.start_s[use], t.end_s[use])
        use = t.next_of_job[use]
    return found


@inlined
def is_where_freed(r: Reservations, first: int) -> bool:
    found, use = False, first
    while use != NONE:
        found = found or has_been_freed(r.freed, r.timeline.row[use, NODE])
        use = r.timeline.next_of_job[use]
    return found


@inlined
def not_before_others_s(r: Reservations, k: int, chunks: int, takes_s: float, now_s: float) -> float:
    """A job without a reservation starts no earlier than one like it that reserved in this pass."""
    found_s = now_s
    for x in range(r.counts[N_ALIKE]):
        if r.alike[x, KIND] == k and r.alike[x, N_CHUNKS] <= chunks and r.alike[x, TAKES_S] <= takes_s:
            found_s = max(found_s, r.alike[x, START_S])
    return found_s


@inlined
def note_alike(r: Reservations, k: int, chunks: int, takes_s: float, start_s: float) -> None:
    for x in range(r.counts[N_ALIKE]):
        if r.alike[x, KIND] == k and r.alike[x, N_CHUNKS] == chunks and r.alike[x, TAKES_S] == takes_s:
            r.alike[x, START_S] = start_s
            return
    x = r.counts[N_ALIKE]
    if x < len(r.alike):
        r.alike[x, KIND], r.alike[x, N_CHUNKS] = k, chunks
        r.alike[x, TAKES_S], r.alike[x, START_S] = takes_s, start_s
        r.counts[N_ALIKE] = x + 1
