"""When a request fits throughout a run time, beside the uses of a timeline."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Ints, Ints2, compiled, direct, inlined, part
from scheduler.node_resources.kernels.fitting import chunks_that_fit, refresh
from scheduler.node_resources.kernels.tables import (
    CHUNKS,
    FREE,
    GPUS,
    HAS,
    NODE,
    NONE,
    WHOLE,
    NodeTable,
    RequestTable,
    gpu_kind,
    has_changed,
    site_need,
    site_suffices,
)
from scheduler.node_resources.kernels.timeline import N_STARTS, N_USES, Timeline, place_of


@inlined
def note_uses(uses: Timeline, requests: RequestTable, window: NodeTable, n: int, at_s: float) -> None:
    """Lower what is free on node n in the window to what is free at a time."""
    n_resources, n_gpus = window.free.shape[1], window.gpu_free.shape[1]
    uses.most[:] = 0
    chunks_at = n_resources + n_gpus
    use = uses.first[n]
    while use != NONE:
        if uses.start_s[use] <= at_s < uses.end_s[use]:
            k, chunks = uses.kind[use], uses.row[use, CHUNKS]
            uses.most[chunks_at] += chunks
            whole = requests.exclusive[k]
            for r in range(n_resources):
                uses.most[r] += window.capacity[n, r] if whole else chunks * requests.need[k, r]
            for d in range(n_gpus):
                if uses.row[use, GPUS] & (1 << d):
                    uses.most[n_resources + d] += WHOLE if whole else requests.gpu_share[k]
        use = uses.next_on_node[use]
    for r in range(n_resources):
        window.free[n, r] = min(window.free[n, r], window.capacity[n, r] - uses.most[r])
    for d in range(n_gpus):
        if window.gpu_type[n, d]:
            window.gpu_free[n, d] = min(window.gpu_free[n, d], WHOLE - uses.most[n_resources + d])
    window.n_chunks[n] = max(window.n_chunks[n], uses.most[chunks_at])


@part
def look_at(
    uses: Timeline, requests: RequestTable, window: NodeTable, n: int, from_s: float, until_s: float
) -> None:
    """Write what is free on node n throughout the window from a time until another.

    That is least at its beginning or where another use starts. O(u^2) for u uses of the node.
    """
    for r in range(window.free.shape[1]):
        window.free[n, r] = window.capacity[n, r]
    for d in range(window.gpu_free.shape[1]):
        window.gpu_free[n, d] = WHOLE if window.gpu_type[n, d] else 0
        window.gpu_chunks[n, d] = 0
    window.gpu_chunks[n, window.gpu_free.shape[1]] = 0
    window.n_chunks[n] = 0
    use, at_s, is_due = uses.first[n], from_s, True
    while is_due or use != NONE:  # one call, since its body replaces it
        if is_due:
            note_uses(uses, requests, window, n, at_s)
            is_due = False
        if use != NONE:
            if uses.start_s[use] < until_s and uses.end_s[use] > from_s:
                k = uses.kind[use]
                if requests.gpus[k] > 0:
                    window.gpu_chunks[n, gpu_kind(requests, k)] += uses.row[use, CHUNKS]
                if uses.start_s[use] > from_s:
                    at_s, is_due = uses.start_s[use], True
            use = uses.next_on_node[use]
    has_changed(window, n)


@part
def note_site(
    uses: Timeline, requests: RequestTable, window: NodeTable, s: int, from_s: float, until_s: float
) -> None:
    """Write how much of resource s of the site is free throughout the window. O(u) for u uses."""
    n_uses, n_starts, in_use = uses.sizes[N_USES], uses.sizes[N_STARTS], 0
    x = place_of(uses.by_end, n_uses, uses.end_s, from_s)
    for y in range(x, n_uses):
        use = uses.by_end[y]
        if uses.start_s[use] <= from_s and uses.next_of_job[use] == NONE:
            in_use += site_need(window, requests, uses.kind[use], s)
    most = in_use
    for y in range(place_of(uses.by_start, n_starts, uses.start_s, from_s), n_starts):
        start = uses.by_start[y]
        if uses.start_s[start] >= until_s:
            break
        while x < n_uses and uses.end_s[uses.by_end[x]] <= uses.start_s[start]:
            if uses.next_of_job[uses.by_end[x]] == NONE:
                in_use -= site_need(window, requests, uses.kind[uses.by_end[x]], s)
            x += 1
        if uses.next_of_job[start] == NONE:
            in_use += site_need(window, requests, uses.kind[start], s)
        most = max(most, in_use)
    window.site[FREE, s] = window.site[HAS, s] - most


@part
def site_fits(
    uses: Timeline, requests: RequestTable, window: NodeTable, kind: int, from_s: float, until_s: float
) -> bool:
    """Whether a job can have what it requests of the site throughout the window.

    What is free of these resources is written to `window`.
    """
    for s in range(window.site.shape[1]):
        if site_need(window, requests, kind, s) > 0:
            note_site(uses, requests, window, s, from_s, until_s)
    return bool(site_suffices(window, requests, kind))


@direct
@compiled
def earliest_s(
    uses: Timeline,
    window: NodeTable,
    requests: RequestTable,
    kind: int,
    chunks: int,
    from_s: float,
    takes_s: float,
) -> float:
    """The earliest time from `from_s` on from which a job fits for `takes_s`; infinite if never.

    What is free throughout that time is in `window`, of which `requests` has the state. Between two ends, a
    later start has at most as much, so only ends are tried. For u uses of a node: O(N u^2), and O(u^2) for
    each end until then, with resources of the site O(all uses) for each.
    """
    for n in range(len(uses.first)):
        if requests.eligible[kind, n]:
            look_at(uses, requests, window, n, from_s, from_s + takes_s)
        else:
            has_changed(window, n)
    refresh(window, requests, kind)
    start_s, n_uses = from_s, uses.sizes[N_USES]
    x = place_of(uses.by_end, n_uses, uses.end_s, start_s)
    y = 0
    while requests.total[kind] < chunks or not site_fits(
        uses, requests, window, kind, start_s, start_s + takes_s
    ):
        if x == n_uses:
            return np.inf
        start_s = uses.end_s[uses.by_end[x]]
        while x < n_uses and uses.end_s[uses.by_end[x]] <= start_s:
            n = uses.row[uses.by_end[x], NODE]
            if requests.eligible[kind, n]:
                look_at(uses, requests, window, n, start_s, start_s + takes_s)
            x += 1
        while y < uses.sizes[N_STARTS] and uses.start_s[uses.by_start[y]] < start_s + takes_s:
            n = uses.row[uses.by_start[y], NODE]
            if requests.eligible[kind, n]:
                look_at(uses, requests, window, n, start_s, start_s + takes_s)
            y += 1
        refresh(window, requests, kind)
    return start_s


@direct
@compiled
def first_chunk_s(
    uses: Timeline,
    window: NodeTable,
    requests: RequestTable,
    kind: int,
    which: Ints,
    from_s: float,
    takes_s: float,
    looked_until_s: float,
    before_s: float,
) -> float:
    """The earliest time from `from_s` on, and before another, from which a chunk fits on one of these nodes
    throughout a run time; infinite if there is none. It is known not to fit before `looked_until_s`.
    """
    first_s = before_s
    for n in which:
        if requests.eligible[kind, n]:
            start_s = from_s
            while start_s < first_s:
                if start_s >= looked_until_s:
                    look_at(uses, requests, window, n, start_s, start_s + takes_s)
                    if chunks_that_fit(window, requests, kind, n) > 0:
                        first_s = start_s
                        break
                end_s, use = np.inf, uses.first[n]
                while use != NONE:
                    if start_s < uses.end_s[use] < end_s:
                        end_s = uses.end_s[use]
                    use = uses.next_on_node[use]
                start_s = end_s
    return first_s if first_s < before_s else np.inf


@direct
@compiled
def is_free(
    uses: Timeline,
    window: NodeTable,
    requests: RequestTable,
    kind: int,
    used: Ints2,
    from_s: float,
    takes_s: float,
) -> bool:
    """Whether a job can have what the rows of `used` state throughout its run time."""
    for x in range(len(used)):
        if not requests.eligible[kind, used[x, NODE]]:
            return False
        look_at(uses, requests, window, used[x, NODE], from_s, from_s + takes_s)
    fits = site_fits(uses, requests, window, kind, from_s, from_s + takes_s)
    for x in range(len(used)):
        n, chunks = used[x, NODE], used[x, CHUNKS]
        if requests.exclusive[kind]:
            fits = fits and window.n_chunks[n] == 0
            continue
        for r in range(window.free.shape[1]):
            window.free[n, r] -= chunks * requests.need[kind, r]
            fits = fits and window.free[n, r] >= 0
        for d in range(window.gpu_free.shape[1]):
            if used[x, GPUS] & (1 << d):
                window.gpu_free[n, d] -= requests.gpu_share[kind]
                fits = fits and window.gpu_free[n, d] >= 0
    return fits
