"""The reservations of jobs that wait for consumable nodes, and where some were given up."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Flags, Floats, Floats2, Initially, Ints, Ints2, inlined, part
from scheduler.node_resources.kernels.segments import Timeline, drop, leaves_room, take_out
from scheduler.node_resources.kernels.tables import NODE, NONE, NodeTable, RequestTable, times
from scheduler.node_resources.kernels.window import (
    Search,
    begin_search,
    first_look_at,
    look_again_at,
    next_node,
    offers_none,
)
from scheduler.node_resources.kernels.workspace import BySlot

BEGIN, KEEP, KEEP_EACH, MOVE_UP = range(4)
"""Parts of a pass."""

MOST_ALIKE = 64
"""So many different jobs are remembered, in one pass, to have reserved for the first time."""


class Freed(NamedTuple):
    """Where and when something was given back."""

    n: Ints
    """How many nodes: `which`."""
    which: Annotated[Ints, "places"]
    from_s: Annotated[Floats, "places", Initially(np.inf)]
    until_s: Annotated[Floats, "places", Initially(-np.inf)]
    """Before `from_s` for all other nodes."""


class Reservations(NamedTuple):
    """The reservations of jobs, by slot, beside what runs hold, by its first row in `Held`."""

    nodes: NodeTable
    """Work space of a search: another state of the nodes, as are `fit`, `total` and `seen` of `requests`."""
    requests: RequestTable
    timeline: Timeline
    search: Search
    freed: Freed
    moved: Freed
    """By reservations that left their place in this pass."""
    first_reserved_s: Annotated[Floats, Initially(np.inf)]
    start_s: Annotated[Floats, "slots", Initially(np.inf)]
    """Infinite if there is none."""
    first_use: BySlot
    most: BySlot
    """How many chunks of the job fit at any earlier time, at most."""
    waits: Annotated[Flags, "slots"]
    n_reserved: Ints
    reserved: BySlot
    """The slots of the reservations after the last pass."""
    ticket: BySlot
    """Of the job that has the reservation in this slot."""
    n_started: Ints
    started: BySlot
    """The first uses of the jobs that started in the last pass."""
    part: Ints
    """Which part of a pass is next, on which queue, and at which job."""
    queue: Ints
    at: Ints
    all_stay: Ints
    """Whether there is room for all reservations."""
    found_s: Floats
    """When the job that is taking nodes will start."""
    n_kept: Ints
    kept: BySlot
    """A heap of slots by `start_s`, then `place`."""
    place: BySlot
    """In order of service."""
    n_alike: Ints
    alike_request: Annotated[Ints2, MOST_ALIKE, 2]
    """Kind and chunks of jobs that reserved in this pass for the first time; with run time and start."""
    alike_s: Annotated[Floats2, MOST_ALIKE, 2]
    passes: Ints
    """The number of passes."""
    n_runs: Ints
    runs: Annotated[Ints, "held"]
    """First rows of the runs in the timeline."""
    run_of: Annotated[Ints, "held", Initially(NONE)]
    """The run in the timeline, or NONE; its first use; and the last pass in which it ran."""
    use_of: Annotated[Ints, "held"]
    seen: Annotated[Ints, "held"]


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
    r: Reservations,
    k: int,
    lacking: int,
    now_s: float,
    takes_s: float,
    before_s: float,
) -> tuple[float, float]:
    """From which time on, and until when, so many more chunks may fit as were `lacking`, since something was
    given back; infinite if not before another time.

    `most` is how many more may fit at an earlier time. O(segments of the nodes on which something was).
    """
    timeline, nodes, requests, search, freed = r.timeline, r.nodes, r.requests, r.search, r.freed
    gained, latest_s = 0, -np.inf
    search.n_heap[0] = 0
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
    while search.n_heap[0] > 0:
        n = next_node(search)
        more = most_on(nodes, requests, k, n, lacking)
        if gained + more >= lacking:
            search.most[0] = gained
            return float(search.at_s[n]), float(latest_s)
        gained += more
    search.most[0] = gained
    return np.inf, np.inf


@part
def give_up(r: Reservations, first: int) -> None:
    """The uses of a job are no longer in the timeline."""
    take_out(r.timeline, r.nodes, r.requests, first)
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
    r.n_alike[0] = 0
    add_uses(r.moved, r.timeline, first, now_s)


@inlined
def has_room(r: Reservations, first: int) -> bool:
    """Whether a reservation that is in the timeline may be there."""
    t, nodes, requests, use, found = r.timeline, r.nodes, r.requests, first, True
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
    for x in range(r.n_alike[0]):
        if r.alike_request[x, 0] == k and r.alike_request[x, 1] <= chunks and r.alike_s[x, 0] <= takes_s:
            found_s = max(found_s, r.alike_s[x, 1])
    return found_s


@inlined
def note_alike(r: Reservations, k: int, chunks: int, takes_s: float, start_s: float) -> None:
    for x in range(r.n_alike[0]):
        if r.alike_request[x, 0] == k and r.alike_request[x, 1] == chunks and r.alike_s[x, 0] == takes_s:
            r.alike_s[x, 1] = start_s
            return
    x = r.n_alike[0]
    if x < MOST_ALIKE:
        r.alike_request[x, 0], r.alike_request[x, 1] = k, chunks
        r.alike_s[x, 0], r.alike_s[x, 1] = takes_s, start_s
        r.n_alike[0] = x + 1
