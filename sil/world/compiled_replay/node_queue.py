"""Queues of nodes of which jobs use parts: their columns, their arrays, and what `transitions` do on them.

With a reservation for each job, see also `reserving`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np

from scheduler.compiled import Flags, Floats, Floats2, Ints, allocate, implements, part
from scheduler.free_nodes.arrays import FEWEST, QueuePolicy, columns_of_all, doubled, more_slots
from scheduler.free_nodes.kernels import transitions
from scheduler.free_nodes.kernels.backfilling import NO_BACKFILLING, SHORTEST_FIRST, SJF
from scheduler.free_nodes.kernels.free_over_time import ReleaseTable
from scheduler.free_nodes.kernels.queues import (
    BACKFILLING,
    ENOUGH,
    MORE_ROWS,
    MORE_SLOTS,
    N_RELEASES,
    N_WAITING,
    ORDERING,
    ROWS_WAITING,
)
from scheduler.free_nodes.kernels.transitions import STARTED, begin
from scheduler.node_resources.arrays import empty_shadow, new_held, new_pass, with_rows, with_spare_rows
from scheduler.node_resources.described import DescribedNodes
from scheduler.node_resources.kernels.allocation import give_back_row, most_rows
from scheduler.node_resources.kernels.backfilling import begin_pass, one_pass
from scheduler.node_resources.kernels.reservations import Reservations
from scheduler.node_resources.kernels.tables import (
    NONE,
    Held,
    NodeTable,
    RequestTable,
    fits_now,
    give_of_site,
    hold,
    let_go,
)
from scheduler.node_resources.kernels.workspace import AFTER, JOB, N_PLACED, Jobs, Pass, Ranking, Shadow
from scheduler.node_resources.selection import NodeSelection, new_ranking


class NodeQueue(NamedTuple):
    """For nodes of which jobs use parts; all kinds of requests are known. Its owner replaces arrays that are
    too small."""

    policy: Ints
    counts: Ints
    times_s: Floats
    releases: ReleaseTable  # RELEASED is the first row in `held`
    started: Floats2  # of a pass
    # by slot
    job: Ints  # the number of its owner
    run: Ints
    began_s: Floats
    end_s: Floats  # as expected
    holds: Flags
    free_slots: Ints

    nodes: NodeTable
    requests: RequestTable
    ranking: Ranking
    shadow: Shadow
    held: Held
    decided: Pass
    jobs: Jobs  # by slot
    first_row: Ints  # by slot, in `held`
    # the slots of waiting jobs
    in_order: Ints
    by_estimate: Ints


class ReservingQueue(NamedTuple):
    """As `NodeQueue`, with conservative backfilling."""

    policy: Ints
    counts: Ints
    times_s: Floats
    releases: ReleaseTable  # RELEASED is the first row in `held`
    started: Floats2  # of a pass
    # by slot
    job: Ints  # the number of its owner
    run: Ints
    began_s: Floats
    end_s: Floats  # as expected
    holds: Flags
    free_slots: Ints

    nodes: NodeTable  # work space of a search, as are `fit`, `total` and `seen` of `requests`
    requests: RequestTable
    ranking: Ranking
    reservations: Reservations
    held: Held
    decided: Pass
    jobs: Jobs  # by slot
    first_row: Ints  # by slot, in `held`
    in_order: Ints  # the slots of waiting jobs
    end_of_queue: Ints  # (1,): work space


N = TypeVar("N", NodeQueue, ReservingQueue)


def new_node_queue(nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy) -> NodeQueue:
    """An empty queue of idle nodes, which know the kinds of all requests to come. The selection must be a
    compiled one."""
    return NodeQueue(
        **columns_on_nodes(nodes, selection, policy),
        shadow=empty_shadow(nodes),
        by_estimate=np.zeros(FEWEST, dtype=np.int64),
    )


def columns_on_nodes(nodes: DescribedNodes, selection: NodeSelection, policy: QueuePolicy) -> dict[str, Any]:
    """Of an empty queue of either kind."""
    n = FEWEST
    return {
        **columns_of_all(policy),
        "nodes": nodes.table,
        "requests": nodes.requests,
        "ranking": new_ranking(nodes, selection),
        "held": new_held(n),
        "decided": new_pass(n, n),
        "jobs": allocate(Jobs, n, n, n),
        "first_row": np.zeros(n, dtype=np.int64),
        "in_order": np.zeros(n, dtype=np.int64),
    }


def larger_node_queue(q: NodeQueue, lack: int) -> NodeQueue:
    """The queue with more of what it lacks (`kernels.transitions.lack`)."""
    return _LARGER[lack](q)


def with_more_slots_on_nodes(q: N, own: Iterable[str] = ()) -> N:
    """See `more_slots`."""
    q = q._replace(**more_slots(q, ("first_row", "in_order", *own)))
    return q._replace(jobs=Jobs(*map(doubled, q.jobs)), decided=new_pass(len(q.run), len(q.decided.rows)))


def with_more_rows(q: N) -> N:
    """With rows for what all waiting jobs would use."""
    n = int(q.counts[ROWS_WAITING])
    if n > len(q.decided.rows):
        q = q._replace(decided=with_rows(q.decided, 2 * n))
    return q if n <= q.held.n_spare[0] else q._replace(held=with_spare_rows(q.held, n))


def _with_slots(q: NodeQueue) -> NodeQueue:
    return with_more_slots_on_nodes(q, ("by_estimate",))


_LARGER: Mapping[int, Callable[[NodeQueue], NodeQueue]] = {
    MORE_SLOTS: _with_slots,
    MORE_ROWS: with_more_rows,
}


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
