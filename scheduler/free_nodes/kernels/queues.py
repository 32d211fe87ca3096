"""A queue, what runs, and what is free: the state that notices and decisions change.

There are three: of identical nodes, each for one job; of nodes of which jobs use parts; and of such nodes if
each job has a reservation. All have the same columns of jobs and runs, for which `transitions` are written
once; named tuples cannot inherit them. A job that waits or runs has a slot; jobs arrive in order of service,
unless their owner sorts them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from scheduler.compiled import Flags, Floats, Floats2, Ints, Ints2
from scheduler.free_nodes.kernels.estimates import EstimateTable
from scheduler.free_nodes.kernels.queue_tree import Tree
from scheduler.free_nodes.kernels.releases import ReleaseTable
from scheduler.free_nodes.kernels.reservations import Reservations
from scheduler.node_resources.kernels.tables import Held, NodeTable, RequestTable
from scheduler.node_resources.kernels.timeline.reserved import Reservations as NodeReservations
from scheduler.node_resources.kernels.workspace import Jobs, Pass, Ranking, Shadow

ORDERING, BACKFILLING, ESTIMATES_BY, ALWAYS_CALLED = range(4)
"""Places in `policy`."""

CONSERVATIVE = 3
"""In the place of a code of `Backfilling`: a reservation for each job."""

N_WAITING, N_RELEASES, N_RUNS, N_FREE_SLOTS, WANTS_ROUND = range(5)
"""Places in `counts` of all. N_RUNS is also the number of the next run."""

N_FREE, N_BOUNDS, N_PLACES, N_INTERVALS, N_DOWN = range(5, 10)
"""Further places, for identical nodes."""

ROWS_WAITING = 5
"""A further place, for others: the most rows that state what the waiting jobs would use."""

ASKS_AGAIN_S = 0
"""Place in `times_s`: when the scheduler asked to be called again; infinite = never."""

ENOUGH, MORE_PLACES, MORE_INTERVALS, MORE_SLOTS, MORE_ROWS = range(5)
"""What must grow before the next notice."""

DOWN, IS_TAKEN = range(2)
"""Columns of `down`: the number of a node, and whether it was free and is taken for that; otherwise a
run holds it."""


class RigidQueue(NamedTuple):
    """For identical nodes. Its owner replaces arrays that are too small."""

    policy: Ints
    counts: Ints
    times_s: Floats
    releases: ReleaseTable  # SLOT is that of the job
    started: Floats2  # of a pass
    estimates: EstimateTable
    # by slot
    job: Ints  # the number of its owner
    run: Ints
    began_s: Floats
    end_s: Floats  # as expected
    holds: Flags
    free_slots: Ints

    tree: Tree
    slot: Ints  # of the job in each place of the tree
    bounds: Ints  # twice as many as `intervals`, and 4: each interval held, and node down, splits one
    cursor: Ints
    down: Ints2
    reservations: Reservations
    # by slot
    size: Ints
    place: Ints
    first_interval: Ints
    n_intervals: Ints
    # the nodes of runs
    intervals: Ints2


class NodeQueue(NamedTuple):
    """For nodes of which jobs use parts; all kinds of requests are known. Its owner replaces arrays that are
    too small."""

    policy: Ints
    counts: Ints
    times_s: Floats
    releases: ReleaseTable  # RELEASED is the first row in `held`
    started: Floats2  # of a pass
    estimates: EstimateTable
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
    estimates: EstimateTable
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
    reservations: NodeReservations
    held: Held
    decided: Pass
    jobs: Jobs  # by slot
    first_row: Ints  # by slot, in `held`
    in_order: Ints  # the slots of waiting jobs
    end_of_queue: Ints  # (1,): work space


Q = TypeVar("Q", RigidQueue, NodeQueue, ReservingQueue)
N = TypeVar("N", NodeQueue, ReservingQueue)
