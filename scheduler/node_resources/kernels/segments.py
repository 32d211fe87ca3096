"""What is free on each node over time, beside what runs and reservations use.

The resources of the whole site are in the place behind the last node.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Floats, Ints, Ints2, inlined, part
from scheduler.node_resources.kernels.releases import give_row_back, next_row
from scheduler.node_resources.kernels.tables import (
    CHUNKS,
    GPUS,
    NODE,
    NONE,
    WHOLE,
    NodeTable,
    RequestTable,
    gpu_kind,
    site_need,
)


class Segments(NamedTuple):
    """One list for each node and one for the site: what is free from the start of a segment until that of the
    next one; the last has no end."""

    first: Annotated[Ints, "places"]
    start_s: Annotated[Floats, "segments"]
    next: Annotated[Ints, "segments"]
    free: Annotated[Ints2, "segments", "width"]
    """Less than 0 while uses overlap that exclude each other."""
    gpu_free: Annotated[Ints2, "segments", "gpus"]
    n_chunks: Annotated[Ints, "segments"]
    spare: Annotated[Ints, "segments"]
    n_spare: Ints
    n_used: Ints


class Timeline(NamedTuple):
    """Uses of nodes by runs and reservations, and what they leave."""

    segments: Segments
    row: Annotated[Ints2, "uses", 3]
    """NODE, CHUNKS, GPUS."""
    kind: Annotated[Ints, "uses"]
    """Of request."""
    start_s: Annotated[Floats, "uses"]
    end_s: Annotated[Floats, "uses"]
    next_of_job: Annotated[Ints, "uses"]
    next_on_node: Annotated[Ints, "uses"]
    first_on_node: Annotated[Ints, "places"]
    version: Annotated[Ints, "places"]
    """When the node last gained something; negative while a use is lifted."""
    clock: Ints
    """How often a node gained something."""
    spare: Annotated[Ints, "uses"]
    n_spare: Ints
    n_used: Ints


@inlined
def segment_at(segments: Segments, n: int, time_s: float) -> int:
    """The segment of a time, not before the first one."""
    x = segments.first[n]
    while segments.next[x] != NONE and segments.start_s[segments.next[x]] <= time_s:
        x = segments.next[x]
    return int(x)


@part
def forget_past(segments: Segments, n: int, now_s: float) -> None:
    """Remove what has ended."""
    x = segments.first[n]
    while segments.next[x] != NONE and segments.start_s[segments.next[x]] <= now_s:
        give_row_back(segments, x)
        x = segments.next[x]
    segments.first[n] = x


@part
def split(segments: Segments, x: int, time_s: float) -> int:
    """A new segment from a time within segment x until its end."""
    new = next_row(segments)
    for r in range(segments.free.shape[1]):
        segments.free[new, r] = segments.free[x, r]
    for d in range(segments.gpu_free.shape[1]):
        segments.gpu_free[new, d] = segments.gpu_free[x, d]
    segments.n_chunks[new], segments.start_s[new] = segments.n_chunks[x], time_s
    segments.next[new], segments.next[x] = segments.next[x], new
    return new


@part
def join(segments: Segments, x: int) -> None:
    """Make segment x and the next one a single one if they are equal."""
    y = segments.next[x]
    if y == NONE or segments.n_chunks[x] != segments.n_chunks[y]:
        return
    for r in range(segments.free.shape[1]):
        if segments.free[x, r] != segments.free[y, r]:
            return
    for d in range(segments.gpu_free.shape[1]):
        if segments.gpu_free[x, d] != segments.gpu_free[y, d]:
            return
    segments.next[x] = segments.next[y]
    give_row_back(segments, y)


@inlined
def take_of(
    segments: Segments, nodes: NodeTable, requests: RequestTable, x: int, row: Ints, k: int, sign: int
) -> None:
    """A use takes (1) or gives back (-1) what its row states, in segment x."""
    n, chunks = row[NODE], sign * row[CHUNKS]
    if n == len(nodes.n_chunks):
        for s in range(nodes.site.shape[1]):
            segments.free[x, s] -= chunks * site_need(nodes, requests, k, s)
        return
    whole = requests.exclusive[k]
    for r in range(nodes.free.shape[1]):
        segments.free[x, r] -= sign * nodes.capacity[n, r] if whole else chunks * requests.need[k, r]
    if row[GPUS] != 0:
        share = sign * (WHOLE if whole else requests.gpu_share[k])
        for d in range(nodes.gpu_free.shape[1]):
            if row[GPUS] & (1 << d):
                segments.gpu_free[x, d] -= share
    segments.n_chunks[x] += chunks


@part
def shift(
    timeline: Timeline,
    nodes: NodeTable,
    requests: RequestTable,
    use: int,
    from_s: float,
    until_s: float,
    sign: int,
) -> None:
    """A use takes (1) or gives back (-1) what its row states, from a time until another. O(segments)."""
    segments, row, k = timeline.segments, timeline.row[use], timeline.kind[use]
    before, x = NONE, segments.first[row[NODE]]
    while segments.next[x] != NONE and segments.start_s[segments.next[x]] <= from_s:
        before, x = x, segments.next[x]
    if segments.start_s[x] < from_s:
        before, x = x, split(segments, x, from_s)
    last = NONE
    while x != NONE and segments.start_s[x] < until_s:
        ends_s = segments.start_s[segments.next[x]] if segments.next[x] != NONE else np.inf
        if ends_s > until_s:
            split(segments, x, until_s)
        take_of(segments, nodes, requests, x, row, k, sign)
        last, x = x, segments.next[x]
    if last != NONE:
        join(segments, last)
    if before != NONE:
        join(segments, before)


@part
def leaves_room(
    timeline: Timeline, nodes: NodeTable, requests: RequestTable, use: int, from_s: float, until_s: float
) -> bool:
    """Whether the node of a use has what all its uses take, from a time until another; if the use is to have
    a whole node, whether nothing else uses it."""
    segments, n, k = timeline.segments, timeline.row[use, NODE], timeline.kind[use]
    alone = n < len(nodes.n_chunks) and requests.exclusive[k]
    x = segment_at(segments, n, from_s)
    while x != NONE and segments.start_s[x] < until_s:
        if alone and segments.n_chunks[x] != timeline.row[use, CHUNKS]:
            return False
        for r in range(segments.free.shape[1]):
            if segments.free[x, r] < 0:
                return False
        for d in range(segments.gpu_free.shape[1]):
            if segments.gpu_free[x, d] < 0:
                return False
        x = segments.next[x]
    return True


@inlined
def new_use(timeline: Timeline, n: int, chunks: int, gpus: int, kind: int, following: int) -> int:
    """Of which `following` is the job's next."""
    use = next_row(timeline)
    timeline.row[use, NODE], timeline.row[use, CHUNKS], timeline.row[use, GPUS] = n, chunks, gpus
    timeline.kind[use], timeline.next_of_job[use] = kind, following
    return use


@part
def use_of_site(timeline: Timeline, nodes: NodeTable, requests: RequestTable, kind: int) -> int:
    """A new use, or NONE if a job of a kind requests nothing of the site."""
    for s in range(nodes.site.shape[1]):
        if site_need(nodes, requests, kind, s) > 0:
            return int(new_use(timeline, len(nodes.n_chunks), 1, 0, kind, NONE))
    return NONE


@inlined
def has_gained(timeline: Timeline, n: int) -> None:
    """More may fit on node n."""
    timeline.clock[0] += 1
    timeline.version[n] = timeline.clock[0]


@part
def put_in(
    timeline: Timeline, nodes: NodeTable, requests: RequestTable, first: int, start_s: float, end_s: float
) -> None:
    """The uses of a job, by its first one, begin and end at these times."""
    use = first
    while use != NONE:
        timeline.start_s[use], timeline.end_s[use] = start_s, end_s
        shift(timeline, nodes, requests, use, start_s, end_s, 1)
        n = timeline.row[use, NODE]
        timeline.version[n] = abs(timeline.version[n])
        timeline.next_on_node[use] = timeline.first_on_node[n]
        timeline.first_on_node[n] = use
        use = timeline.next_of_job[use]


@part
def lift(timeline: Timeline, nodes: NodeTable, requests: RequestTable, first: int) -> None:
    """The opposite of `put_in`, for a trial: it or `stay_out` follows before another job is lifted."""
    use = first
    while use != NONE:
        shift(timeline, nodes, requests, use, timeline.start_s[use], timeline.end_s[use], -1)
        n = timeline.row[use, NODE]
        timeline.version[n] = -abs(timeline.version[n])
        if timeline.first_on_node[n] == use:
            timeline.first_on_node[n] = timeline.next_on_node[use]
        else:
            x = timeline.first_on_node[n]
            while timeline.next_on_node[x] != use:
                x = timeline.next_on_node[x]
            timeline.next_on_node[x] = timeline.next_on_node[use]
        use = timeline.next_of_job[use]


@part
def stay_out(timeline: Timeline, first: int) -> None:
    """The uses of a job that was lifted do not return."""
    use = first
    while use != NONE:
        has_gained(timeline, timeline.row[use, NODE])
        use = timeline.next_of_job[use]


@part
def take_out(timeline: Timeline, nodes: NodeTable, requests: RequestTable, first: int) -> None:
    """The opposite of `put_in`."""
    lift(timeline, nodes, requests, first)
    stay_out(timeline, first)


@part
def drop(timeline: Timeline, first: int) -> None:
    """The rows of the uses of a job are spare."""
    use = first
    while use != NONE:
        give_row_back(timeline, use)
        use = timeline.next_of_job[use]


@part
def end_at(timeline: Timeline, nodes: NodeTable, requests: RequestTable, first: int, end_s: float) -> bool:
    """The uses of a job end at another time. Returns whether there is room for them."""
    has_room, use = True, first
    while use != NONE:
        before_s = timeline.end_s[use]
        timeline.end_s[use] = end_s
        if end_s > before_s:
            shift(timeline, nodes, requests, use, before_s, end_s, 1)
            has_room = has_room and leaves_room(timeline, nodes, requests, use, before_s, end_s)
        else:
            shift(timeline, nodes, requests, use, end_s, before_s, -1)
            has_gained(timeline, timeline.row[use, NODE])
        use = timeline.next_of_job[use]
    return has_room


@part
def gpu_chunks_between(
    timeline: Timeline, requests: RequestTable, nodes: NodeTable, n: int, from_s: float, until_s: float
) -> None:
    """Write the chunks with GPUs of the uses of node n between two times."""
    nodes.gpu_chunks[n, :] = 0
    use = timeline.first_on_node[n]
    while use != NONE:
        k = timeline.kind[use]
        if requests.gpus[k] > 0 and timeline.start_s[use] < until_s and timeline.end_s[use] > from_s:
            nodes.gpu_chunks[n, gpu_kind(requests, k)] += timeline.row[use, CHUNKS]
        use = timeline.next_on_node[use]


def clear(timeline: Timeline, nodes: NodeTable) -> None:
    """Nothing is used."""
    segments, n_nodes, n_resources = timeline.segments, len(nodes.n_chunks), nodes.free.shape[1]
    n = n_nodes + 1
    segments.first[:] = np.arange(n)
    segments.start_s[:n], segments.next[:n] = -np.inf, NONE
    segments.free[:n_nodes, :n_resources] = nodes.capacity
    segments.free[n_nodes, : nodes.site.shape[1]] = nodes.site[0]
    segments.gpu_free[:n_nodes] = np.where(nodes.gpu_type != 0, WHOLE, 0)
    segments.n_used[0] = n
    timeline.first_on_node[:] = NONE
    timeline.version[:] = timeline.clock[:] = 1
