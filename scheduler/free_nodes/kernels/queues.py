"""A queue, what runs, and what is free: the state that notices and decisions change.

There are three: of identical nodes, each for one job; and in `node_queues`, which others need not load, of
nodes of which jobs use parts, and of such nodes if each job has a reservation. All have the columns of
`Queue`, for which `transitions` are written once. A job that waits or runs has a slot; jobs arrive in order
of service, unless their owner sorts them.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, TypeVar

from scheduler.compiled import Flags, Floats, Floats2, Ints, Ints2
from scheduler.free_nodes.kernels.free_over_time import ReleaseTable
from scheduler.free_nodes.kernels.queue_tree import Tree
from scheduler.free_nodes.kernels.reservations import Reservations

ORDERING, BACKFILLING, ALWAYS_CALLED = range(3)
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


class Queue(Protocol):
    """What all queues have; named tuples cannot inherit it."""

    @property
    def policy(self) -> Ints: ...
    @property
    def counts(self) -> Ints: ...
    @property
    def times_s(self) -> Floats: ...
    @property
    def releases(self) -> ReleaseTable:
        """SLOT is that of the job."""
        ...

    @property
    def started(self) -> Floats2:
        """Of a pass."""
        ...

    @property
    def job(self) -> Ints:
        """By slot: the number of its owner."""
        ...

    @property
    def run(self) -> Ints:
        """By slot, as those that follow."""
        ...

    @property
    def began_s(self) -> Floats:
        """Of the wait, or of the run once there is one."""
        ...

    @property
    def end_s(self) -> Floats:
        """As expected."""
        ...

    @property
    def holds(self) -> Flags: ...
    @property
    def free_slots(self) -> Ints: ...


class RigidQueue(NamedTuple):
    """For identical nodes. Its owner replaces arrays that are too small."""

    policy: Ints
    counts: Ints
    times_s: Floats
    releases: ReleaseTable  # SLOT is that of the job
    started: Floats2  # of a pass
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


Q = TypeVar("Q", bound=Queue)
