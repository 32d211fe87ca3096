"""When a request fits throughout a run time, beside the uses of a timeline.

A node offers some chunks from a time on if it has them in every segment until the run time is over.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, Initially, Ints, Ints2, inlined, part
from scheduler.node_resources.kernels.heap import pop, push
from scheduler.node_resources.kernels.scores import FIRST_FIT, GPU_CLUSTERING, IN_PYTHON
from scheduler.node_resources.kernels.segments import (
    Segments,
    Timeline,
    forget_past,
    gpu_chunks_between,
    segment_at,
)
from scheduler.node_resources.kernels.tables import (
    NONE,
    ByNode,
    NodeTable,
    RequestTable,
    chunks_that_fit,
    has_changed,
    site_need,
)

MOST_KNOWN = 251
"""Rows of what a search knows of nodes (a prime: run times have common factors)."""


class Search(NamedTuple):
    """Work space of a search: which nodes will offer something when."""

    most: Ints
    """The most chunks that fit at a time that was looked at."""
    n_heap: Ints
    heap: ByNode
    """By `at_s`, then `number`."""
    number: ByNode
    at_s: Annotated[Floats, "nodes"]
    """When the node is looked at next."""
    offers_s: Annotated[Floats, "nodes"]
    """When the node offers something, as of the last look."""
    offer: ByNode
    """Chunks at that time."""
    beyond_s: Annotated[Floats, "nodes"]
    """If a run goes on beyond this time, the offer may be less."""
    at: Annotated[Ints, "places"]
    """The segment of the last look."""
    offering: ByNode
    """The nodes that offer something now."""
    known: Ints
    """The row of this search in what is known: for a kind and a run time, until when each node of a version
    offers nothing."""
    kind: Annotated[Ints, "known", Initially(NONE)]
    takes_s: Annotated[Floats, "known"]
    version: Annotated[Ints2, "known", "nodes"]
    busy_until_s: Annotated[Floats2, "known", "nodes"]


@inlined
def has_a_chunk(segments: Segments, nodes: NodeTable, requests: RequestTable, k: int, n: int, x: int) -> bool:
    """Whether a chunk may fit on node n in segment x: otherwise it does not."""
    if requests.exclusive[k] and segments.n_chunks[x] > 0:
        return False
    for r in range(nodes.free.shape[1]):
        if requests.need[k, r] > 0 and segments.free[x, r] < requests.need[k, r]:
            return False
    wanted = requests.gpus[k]
    if wanted > 0:
        for d in range(nodes.gpu_free.shape[1]):
            if (
                nodes.gpu_type[n, d] & requests.gpu_types[k]
                and segments.gpu_free[x, d] >= requests.gpu_share[k]
            ):
                wanted -= 1
    return bool(wanted <= 0)


@inlined
def begin_window(segments: Segments, nodes: NodeTable, n: int, x: int) -> None:
    for r in range(nodes.free.shape[1]):
        nodes.free[n, r] = segments.free[x, r]
    for d in range(nodes.gpu_free.shape[1]):
        nodes.gpu_free[n, d] = segments.gpu_free[x, d]
    nodes.n_chunks[n] = segments.n_chunks[x]


@inlined
def widen_window(segments: Segments, nodes: NodeTable, n: int, x: int) -> None:
    for r in range(nodes.free.shape[1]):
        nodes.free[n, r] = min(nodes.free[n, r], segments.free[x, r])
    for d in range(nodes.gpu_free.shape[1]):
        nodes.gpu_free[n, d] = min(nodes.gpu_free[n, d], segments.gpu_free[x, d])
    nodes.n_chunks[n] = max(nodes.n_chunks[n], segments.n_chunks[x])


@part
def look_at(
    timeline: Timeline,
    nodes: NodeTable,
    requests: RequestTable,
    search: Search,
    k: int,
    n: int,
    from_s: float,
    takes_s: float,
    before_s: float,
) -> float:
    """Find the earliest time from `from_s` on at which node n offers a chunk; infinite if not before another.
    Returns until when none fits.

    What is free then throughout the run time is in `nodes`. It continues from the segment of the last look.
    O(segments that pass) in all looks of a search, and O(segments of a run time) in each.
    """
    segments, x, start_s = timeline.segments, search.at[n], from_s
    while segments.next[x] != NONE and segments.start_s[segments.next[x]] <= start_s:
        x = segments.next[x]
    first, begins, offer = x, True, 0
    while start_s < before_s:
        if has_a_chunk(segments, nodes, requests, k, n, x):
            if begins:
                begin_window(segments, nodes, n, x)
                first, begins = x, False
            else:
                widen_window(segments, nodes, n, x)
            following = segments.next[x]
            ends_s = segments.start_s[following] if following != NONE else np.inf
            if ends_s < start_s + takes_s:
                x = following
                continue
            offer = chunks_that_fit(nodes, requests, k, n)
            if offer > 0:
                search.beyond_s[n] = ends_s
                break
            x = first  # no GPU is free all the time
        x, begins = segments.next[x], True
        start_s = segments.start_s[x] if x != NONE else np.inf
    search.at[n], search.offer[n] = first, offer
    search.offers_s[n] = start_s if offer > 0 else np.inf
    return float(start_s)


@inlined
def site_offers_s(
    timeline: Timeline, nodes: NodeTable, requests: RequestTable, k: int, from_s: float, takes_s: float
) -> float:
    """The earliest time from `from_s` on from which the site has what a job requests of it. O(segments)."""
    segments, n, start_s = timeline.segments, len(nodes.n_chunks), from_s
    x = segment_at(segments, n, from_s)
    while x != NONE and segments.start_s[x] < start_s + takes_s:
        suffices = True
        for s in range(nodes.site.shape[1]):
            need = site_need(nodes, requests, k, s)
            suffices = suffices and (need == 0 or need <= segments.free[x, s])
        x = segments.next[x]
        if not suffices:
            start_s = segments.start_s[x] if x != NONE else np.inf
    return float(start_s)


@inlined
def requests_of_site(nodes: NodeTable, requests: RequestTable, k: int) -> bool:
    found = False
    for s in range(nodes.site.shape[1]):
        found = found or site_need(nodes, requests, k, s) > 0
    return found


@part
def begin_search(search: Search, k: int, takes_s: float) -> None:
    """Choose the row of what is known; if it was another kind's, or for another run time, nothing is."""
    row = (k + 7 * int(takes_s)) % len(search.kind)
    search.known[0] = row
    if search.kind[row] != k or search.takes_s[row] != takes_s:
        search.kind[row], search.takes_s[row] = k, takes_s
        for n in range(search.version.shape[1]):
            search.version[row, n] = 0


@inlined
def offers_none(timeline: Timeline, search: Search, n: int, before_s: float) -> bool:
    """Whether node n is known to offer no chunk before a time, since it has gained nothing."""
    row = search.known[0]
    return bool(search.busy_until_s[row, n] >= before_s and search.version[row, n] == timeline.version[n])


@part
def first_look_at(
    timeline: Timeline,
    nodes: NodeTable,
    requests: RequestTable,
    search: Search,
    k: int,
    n: int,
    from_s: float,
    takes_s: float,
    before_s: float,
    now_s: float,
) -> None:
    """As `look_at`, in a new search: begins where the node may offer something, and keeps where that is."""
    row, version, until_s = search.known[0], timeline.version[n], now_s
    is_known = search.version[row, n] == version
    if is_known:
        until_s = search.busy_until_s[row, n]
    forget_past(timeline.segments, n, now_s)
    search.at[n] = timeline.segments.first[n]
    if until_s >= from_s or not is_known:
        until_s = look_at(timeline, nodes, requests, search, k, n, until_s, takes_s, np.inf)
        if version > 0:  # else it will have less, when what is lifted returns
            search.version[row, n], search.busy_until_s[row, n] = version, until_s
    if until_s < from_s:
        look_at(timeline, nodes, requests, search, k, n, from_s, takes_s, before_s)
    elif until_s >= before_s:
        search.offer[n] = 0


@inlined
def look_again_at(search: Search, n: int, at_s: float) -> None:
    search.at_s[n] = at_s
    push(search.heap, search.n_heap, search.at_s, search.number, n)


@inlined
def next_node(search: Search) -> int:
    return pop(search.heap, search.n_heap, search.at_s, search.number)


@part
def earliest_s(
    timeline: Timeline,
    nodes: NodeTable,
    requests: RequestTable,
    search: Search,
    k: int,
    chunks: int,
    from_s: float,
    takes_s: float,
    before_s: float,
    now_s: float,
) -> float:
    """The earliest time from `from_s` on, and before another, from which so many chunks of kind k fit for
    `takes_s`; infinite if there is none.

    What is free throughout that time is in `nodes` and `requests.fit`, where any chunk fits. Only times are
    tried at which a node offers more than before. For N nodes with u segments each: O(N u) until nodes offer
    something, then O(u + log N) for each end of a use on a node that does, with O(all uses) for each such
    time if the job requests resources of the site.
    """
    segments, fit = timeline.segments, requests.fit
    of_site = requests_of_site(nodes, requests, k)
    n_nodes, total, n_offering = len(nodes.n_chunks), 0, 0
    search.most[0] = search.n_heap[0] = 0
    begin_search(search, k, takes_s)
    for n in range(n_nodes):
        fit[k, n] = 0
        if requests.eligible[k, n] and not offers_none(timeline, search, n, before_s):
            first_look_at(timeline, nodes, requests, search, k, n, from_s, takes_s, before_s, now_s)
            if search.offer[n] > 0:
                look_again_at(search, n, search.offers_s[n])
    start_s = from_s
    while search.n_heap[0] > 0:
        start_s = max(start_s, search.at_s[search.heap[0]])
        if of_site:
            start_s = site_offers_s(timeline, nodes, requests, k, start_s, takes_s)
        if start_s >= before_s:
            break
        kept = 0
        for x in range(n_offering):
            n = search.offering[x]
            if fit[k, n] > 0 and search.at_s[n] > start_s and search.beyond_s[n] < start_s + takes_s:
                look_at(timeline, nodes, requests, search, k, n, start_s, takes_s, before_s)
                now_fit = search.offer[n] if search.offers_s[n] == start_s else 0
                total += now_fit - fit[k, n]
                fit[k, n] = now_fit
            if fit[k, n] > 0:
                search.offering[kept] = n
                kept += 1
        n_offering = kept
        while search.n_heap[0] > 0 and search.at_s[search.heap[0]] <= start_s:
            n = next_node(search)
            if search.offers_s[n] < start_s or fit[k, n] > 0:
                look_at(timeline, nodes, requests, search, k, n, start_s, takes_s, before_s)
            now_fit = search.offer[n] if search.offers_s[n] == start_s else 0
            if fit[k, n] == 0 and now_fit > 0:
                search.offering[n_offering] = n
                n_offering += 1
            total += now_fit - fit[k, n]
            fit[k, n] = now_fit
            if now_fit > 0:  # it may offer more from the next segment on
                following = segments.next[search.at[n]]
                if following != NONE:
                    look_again_at(search, n, segments.start_s[following])
            elif search.offer[n] > 0:
                look_again_at(search, n, search.offers_s[n])
        search.most[0] = max(search.most[0], total)
        if total >= chunks:
            return float(start_s)
    return np.inf


@part
def prepare_scores(
    timeline: Timeline,
    nodes: NodeTable,
    requests: RequestTable,
    selection: int,
    k: int,
    start_s: float,
    takes_s: float,
) -> None:
    """Where a chunk fits, the scores of nodes are to be computed again, after `earliest_s`."""
    if selection == FIRST_FIT:
        return
    for n in range(len(nodes.n_chunks)):
        if requests.fit[k, n] > 0:
            if selection in (GPU_CLUSTERING, IN_PYTHON):
                gpu_chunks_between(timeline, requests, nodes, n, start_s, start_s + takes_s)
            has_changed(nodes, n)
    requests.seen[k] = nodes.clock[0]
