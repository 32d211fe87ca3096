"""What runs use in the timeline, brought up to date as a pass with reservations begins."""

from __future__ import annotations

import numpy as np

from scheduler.compiled import Floats2, Ints, inlined, part
from scheduler.node_resources.kernels.allocation import most_rows
from scheduler.node_resources.kernels.reservations import (
    ALL_STAY,
    AT,
    KEEP,
    N_ALIKE,
    N_RESERVED,
    N_RUNS,
    N_STARTED,
    PASSES,
    PHASE,
    QUEUE,
    ROWS_NEEDED,
    RUN,
    Reservations,
    add_freed,
    forget_freed,
    give_up,
    note_freed,
    note_freed_between,
)
from scheduler.node_resources.kernels.segments import end_at, new_use, put_in, take_out, use_of_site
from scheduler.node_resources.kernels.shadow import END_S, FIRST
from scheduler.node_resources.kernels.tables import CHUNKS, GPUS, NODE, NONE, Held, NodeTable, RequestTable
from scheduler.node_resources.kernels.workspace import Jobs, Pass


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
    r.run_of[row], r.use_of[row], r.seen[row] = run, first, r.counts[PASSES]
    r.runs[r.counts[N_RUNS]] = row
    r.counts[N_RUNS] += 1


@part
def uses_of_run(r: Reservations, nodes: NodeTable, requests: RequestTable, held: Held, row: int) -> int:
    """New uses of what a run holds, in some order."""
    kind = held.kind[row]
    use = use_of_site(r.timeline, nodes, requests, kind)
    while row != NONE:
        use = new_use(r.timeline, held.row[row, NODE], held.row[row, CHUNKS], held.row[row, GPUS], kind, use)
        row = held.next[row]
    return int(use)


@inlined
def expected_end_s(releases: Floats2, x: int, now_s: float) -> float:
    """An overdue run is expected to end right after now."""
    return float(max(releases[x, END_S], np.nextafter(now_s, np.inf)))


@part
def follow_runs(
    r: Reservations,
    nodes: NodeTable,
    requests: RequestTable,
    releases: Floats2,
    n_running: int,
    held: Held,
    now_s: float,
) -> None:
    """Bring the uses of runs up to date. O(runs), and O(segments) for each use that changes."""
    counts, t = r.counts, r.timeline
    counts[PASSES] += 1
    for x in range(n_running):
        row = int(releases[x, FIRST])
        if r.run_of[row] == int(releases[x, RUN]):
            r.seen[row] = counts[PASSES]
            first, end_s = r.use_of[row], expected_end_s(releases, x, now_s)
            before_s = t.end_s[first]
            if end_s < before_s:
                note_freed_between(r, first, max(now_s, end_s), before_s)
            if end_s != before_s and not end_at(t, nodes, requests, first, end_s):
                counts[ALL_STAY] = 0
    n = 0
    for x in range(counts[N_RUNS]):
        row = r.runs[x]
        if r.seen[row] == counts[PASSES]:
            r.runs[n] = row
            n += 1
        else:
            note_freed(r, r.use_of[row], now_s)
            give_up(r, nodes, requests, r.use_of[row])
            r.run_of[row] = NONE
    counts[N_RUNS] = n
    for x in range(n_running):
        row = int(releases[x, FIRST])
        if r.run_of[row] == NONE:
            for y in range(counts[N_STARTED]):
                first = r.started[y]
                if first != NONE and holds_the_same(r, held, first, row, releases[x, END_S]):
                    note_run(r, row, int(releases[x, RUN]), first)
                    r.started[y] = NONE
                    break
    for y in range(counts[N_STARTED]):  # it did not start
        if r.started[y] != NONE:
            note_freed(r, r.started[y], now_s)
            give_up(r, nodes, requests, r.started[y])
    counts[N_STARTED] = 0
    for x in range(n_running):
        row = int(releases[x, FIRST])
        if r.run_of[row] == NONE:
            first = uses_of_run(r, nodes, requests, held, row)
            put_in(t, nodes, requests, first, -np.inf, expected_end_s(releases, x, now_s))
            note_run(r, row, int(releases[x, RUN]), first)
            counts[ALL_STAY] = 0


@inlined
def lacks_rows(
    r: Reservations, rows_waiting: int, n_waiting: int, held: Held, n_running: int, p: Pass
) -> bool:
    """Whether there may be too few rows for what waiting jobs, with so many rows at most, and runs use."""
    held_rows = len(held.kind) - held.n_spare[0]
    r.counts[ROWS_NEEDED] = rows_waiting + n_waiting + held_rows + n_running
    return bool(rows_waiting > len(p.rows) or r.counts[ROWS_NEEDED] > r.timeline.n_spare[0])


@part
def rows_of(requests: RequestTable, jobs: Jobs, order: Ints) -> int:
    """What these jobs use has so many rows at most."""
    n = 0
    for x in range(len(order)):
        n += most_rows(requests, jobs.kinds[order[x]], jobs.chunks[order[x]])
    return n


@part
def begin(
    r: Reservations,
    nodes: NodeTable,
    requests: RequestTable,
    order: Ints,
    ends: Ints,
    toggled: Ints,
    releases: Floats2,
    n_running: int,
    held: Held,
    now_s: float,
) -> None:
    counts = r.counts
    forget_freed(r.freed)
    for x in range(r.moved.n[0]):
        n = r.moved.which[x]
        add_freed(r.freed, n, max(now_s, r.moved.from_s[n]), r.moved.until_s[n])
    forget_freed(r.moved)
    counts[ALL_STAY], counts[N_ALIKE] = len(toggled) == 0, 0
    for x in range(len(toggled)):
        add_freed(r.freed, toggled[x], -np.inf, np.inf)
    follow_runs(r, nodes, requests, releases, n_running, held, now_s)
    for x in range(len(order)):
        r.waits[order[x]] = True
    for x in range(counts[N_RESERVED]):
        slot = r.reserved[x]
        if not r.waits[slot]:
            note_freed(r, r.first_use[slot], now_s)
            give_up(r, nodes, requests, r.first_use[slot])
            r.start_s[slot] = np.inf
        elif r.start_s[slot] < now_s:
            counts[ALL_STAY] = 0
    for x in range(len(order)):
        r.waits[order[x]] = False
    for x in range(ends[0], len(order)):
        if r.start_s[order[x]] < np.inf:
            take_out(r.timeline, nodes, requests, r.first_use[order[x]])
    counts[PHASE], counts[QUEUE], counts[AT] = KEEP, 0, 0
