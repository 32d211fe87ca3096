"""What runs use in the timeline, brought up to date as a pass with reservations begins."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Ints, inlined, part
from scheduler.node_resources.kernels.releases import Releases
from scheduler.node_resources.kernels.reservations import (
    KEEP,
    Reservations,
    add_freed,
    forget_freed,
    give_up,
    note_freed,
    note_freed_between,
)
from scheduler.node_resources.kernels.segments import end_at, new_use, put_in, take_out, use_of_site
from scheduler.node_resources.kernels.tables import CHUNKS, GPUS, NODE, NONE, Held
from scheduler.node_resources.kernels.workspace import OnNodes


@part
def holds_the_same(r: Reservations, held: Held, first: int, row: int, end_s: float) -> bool:
    """Whether a run holds what a job that started was to use."""
    t, use = r.timeline, first
    if t.kind[use] != held.kind[row] or t.end_s[use] != end_s:
        return False
    while row != NONE:
        if use == NONE or t.row[use, NODE] != held.row[row, NODE]:
            return False
        if t.row[use, CHUNKS] != held.row[row, CHUNKS] or t.row[use, GPUS] != held.row[row, GPUS]:
            return False
        use, row = t.next_of_job[use], held.next[row]
    return bool(use == NONE or t.row[use, NODE] == len(t.first_on_node) - 1)


@part
def note_run(r: Reservations, row: int, run: int, first: int) -> None:
    r.run_of[row], r.use_of[row], r.seen[row] = run, first, r.passes[0]
    r.runs[r.n_runs[0]] = row
    r.n_runs[0] += 1


@part
def uses_of_run(r: Reservations, held: Held, row: int) -> int:
    """New uses of what a run holds, in some order."""
    kind = held.kind[row]
    use = use_of_site(r.timeline, r.nodes, r.requests, kind)
    while row != NONE:
        use = new_use(r.timeline, held.row[row, NODE], held.row[row, CHUNKS], held.row[row, GPUS], kind, use)
        row = held.next[row]
    return use


@inlined
def expected_end_s(releases: Releases, x: int, now_s: float) -> float:
    """An overdue run is expected to end right after now."""
    return float(max(releases.end_s[x], np.nextafter(now_s, np.inf)))


@part
def follow_runs(r: Reservations, releases: Releases, held: Held, now_s: float) -> None:
    """Bring the uses of runs up to date. O(runs), and O(segments) for each use that changes."""
    t, nodes, requests, n_running = r.timeline, r.nodes, r.requests, releases.n[0]
    r.passes[0] += 1
    for x in range(n_running):
        row = releases.released[x]
        if r.run_of[row] == releases.run[x]:
            r.seen[row] = r.passes[0]
            first, end_s = r.use_of[row], expected_end_s(releases, x, now_s)
            before_s = t.end_s[first]
            if end_s < before_s:
                note_freed_between(r, first, max(now_s, end_s), before_s)
            if end_s != before_s and not end_at(t, nodes, requests, first, end_s):
                r.all_stay[0] = 0
    n = 0
    for x in range(r.n_runs[0]):
        row = r.runs[x]
        if r.seen[row] == r.passes[0]:
            r.runs[n] = row
            n += 1
        else:
            note_freed(r, r.use_of[row], now_s)
            give_up(r, r.use_of[row])
            r.run_of[row] = NONE
    r.n_runs[0] = n
    for x in range(n_running):
        row = releases.released[x]
        if r.run_of[row] == NONE:
            for y in range(r.n_started[0]):
                first = r.started[y]
                if first != NONE and holds_the_same(r, held, first, row, releases.end_s[x]):
                    note_run(r, row, releases.run[x], first)
                    r.started[y] = NONE
                    break
    for y in range(r.n_started[0]):  # it did not start
        if r.started[y] != NONE:
            note_freed(r, r.started[y], now_s)
            give_up(r, r.started[y])
    r.n_started[0] = 0
    for x in range(n_running):
        row = releases.released[x]
        if r.run_of[row] == NONE:
            first = uses_of_run(r, held, row)
            put_in(t, nodes, requests, first, -np.inf, expected_end_s(releases, x, now_s))
            note_run(r, row, releases.run[x], first)
            r.all_stay[0] = 0


@part
def begin(
    r: Reservations, on: OnNodes, order: Ints, ends: Ints, toggled: Ints, releases: Releases, now_s: float
) -> None:
    forget_freed(r.freed)
    for x in range(r.moved.n[0]):
        n = r.moved.which[x]
        add_freed(r.freed, n, max(now_s, r.moved.from_s[n]), r.moved.until_s[n])
    forget_freed(r.moved)
    r.all_stay[0], r.n_alike[0] = len(toggled) == 0, 0
    for x in range(len(toggled)):
        add_freed(r.freed, toggled[x], -np.inf, np.inf)
    follow_runs(r, releases, on.held, now_s)
    for x in range(len(order)):
        r.waits[order[x]] = True
    for x in range(r.n_reserved[0]):
        slot = r.reserved[x]
        if not r.waits[slot] or r.ticket[slot] != on.ticket[slot]:
            note_freed(r, r.first_use[slot], now_s)
            give_up(r, r.first_use[slot])
            r.start_s[slot] = np.inf
        elif r.start_s[slot] < now_s:
            r.all_stay[0] = 0
    for x in range(len(order)):
        r.waits[order[x]] = False
    for x in range(ends[0], len(order)):
        if r.start_s[order[x]] < np.inf:
            take_out(r.timeline, r.nodes, r.requests, r.first_use[order[x]])
    r.part[0], r.queue[0], r.at[0] = KEEP, 0, 0
