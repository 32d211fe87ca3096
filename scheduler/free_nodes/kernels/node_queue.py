"""What `transitions` do on nodes of which jobs use parts; with a reservation for each job, see also
`reserving_queue`."""

from __future__ import annotations

from scheduler.compiled import Ints, implements, part
from scheduler.free_nodes.kernels import transitions
from scheduler.free_nodes.kernels.backfilling import NO_BACKFILLING, SHORTEST_FIRST, SJF
from scheduler.free_nodes.kernels.node_queues import N, NodeQueue
from scheduler.free_nodes.kernels.queues import (
    BACKFILLING,
    ENOUGH,
    MORE_ROWS,
    N_RELEASES,
    N_WAITING,
    ORDERING,
    ROWS_WAITING,
)
from scheduler.free_nodes.kernels.transitions import STARTED, begin
from scheduler.node_resources.kernels.allocation import give_back_row, most_rows
from scheduler.node_resources.kernels.backfilling import begin_pass, one_pass
from scheduler.node_resources.kernels.fitting import fits_now
from scheduler.node_resources.kernels.holding import hold, let_go
from scheduler.node_resources.kernels.tables import NONE, give_of_site
from scheduler.node_resources.kernels.workspace import AFTER, JOB, N_PLACED


@implements(transitions.most_starts)
def most_starts(q: N) -> int:
    return int(q.counts[N_WAITING])


@implements(transitions.lack_of_nodes)
def lack_of_nodes(q: NodeQueue) -> int:
    rows = q.counts[ROWS_WAITING]
    return MORE_ROWS if rows > len(q.decided.rows) or rows > q.held.n_spare[0] else ENOUGH


@implements(transitions.nothing_fits)
def nothing_fits(q: NodeQueue) -> bool:
    for x in range(q.counts[N_WAITING]):
        slot = q.in_order[x]
        if fits_now(q.nodes, q.requests, q.jobs.kinds[slot], q.jobs.chunks[slot]):
            return False
    return True


@implements(transitions.wait)
def wait(q: NodeQueue, slot: int, size: int, kind: int, estimate_s: float) -> None:
    q.jobs.kinds[slot], q.jobs.chunks[slot], q.jobs.estimates_s[slot] = kind, size, estimate_s
    n = x = q.counts[N_WAITING]
    q.in_order[n] = slot
    while x > 0 and q.jobs.estimates_s[q.by_estimate[x - 1]] > estimate_s:
        q.by_estimate[x] = q.by_estimate[x - 1]
        x -= 1
    q.by_estimate[x] = slot
    q.counts[ROWS_WAITING] += most_rows(q.requests, kind, size)


@implements(transitions.give_nodes_back)
def give_nodes_back(q: NodeQueue, slot: int) -> None:
    first, kind = q.first_row[slot], q.jobs.kinds[slot]
    row = first
    while row != NONE:
        give_back_row(q.nodes, q.requests, kind, q.held.row, row)
        row = q.held.next[row]
    give_of_site(q.nodes, q.requests, kind, 1)
    let_go(q.held, first)


@implements(transitions.decide)
def decide(q: NodeQueue, now_s: float) -> int:
    """What the jobs use is taken."""
    ordering, backfilling = q.policy[ORDERING], q.policy[BACKFILLING]
    begin_pass(q.decided)
    one_pass(
        q.nodes,
        q.requests,
        q.ranking,
        q.shadow,
        q.jobs,
        q.counts[N_WAITING],
        q.by_estimate if ordering == SJF else q.in_order,
        q.by_estimate if backfilling == SHORTEST_FIRST else q.in_order,
        backfilling != NO_BACKFILLING,
        q.releases,
        q.counts[N_RELEASES],
        q.held,
        now_s,
        q.decided,
    )
    return int(q.decided.counts[N_PLACED])


@implements(transitions.start)
def start(q: NodeQueue, n_started: int, now_s: float) -> None:
    begin_all(q, n_started, now_s)
    if n_started > 0:
        close_ranks(q, q.in_order)
        close_ranks(q, q.by_estimate)
        q.counts[N_WAITING] -= n_started


@part
def begin_all(q: N, n_started: int, now_s: float) -> None:
    """The jobs of the last decision are runs that hold what they use."""
    row = 0
    for x in range(n_started):
        slot, after = q.decided.placed[x, JOB], q.decided.placed[x, AFTER]
        kind = q.jobs.kinds[slot]
        q.first_row[slot] = hold(q.held, q.decided.rows, row, after, kind)
        begin(q, slot, q.first_row[slot], now_s, now_s + q.jobs.estimates_s[slot])
        q.counts[ROWS_WAITING] -= most_rows(q.requests, kind, q.jobs.chunks[slot])
        q.started[x, STARTED] = slot
        row = after


@part
def close_ranks(q: N, slots: Ints) -> None:
    """Jobs that run now are no longer among those that wait."""
    n = 0
    for x in range(q.counts[N_WAITING]):
        if not q.holds[slots[x]]:
            slots[n] = slots[x]
            n += 1
