"""Queues of nodes of which jobs use parts (see `queues`)."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from scheduler.compiled import Flags, Floats, Floats2, Ints
from scheduler.free_nodes.kernels.estimates import EstimateTable
from scheduler.free_nodes.kernels.releases import ReleaseTable
from scheduler.node_resources.kernels.tables import Held, NodeTable, RequestTable
from scheduler.node_resources.kernels.timeline.reserved import Reservations
from scheduler.node_resources.kernels.workspace import Jobs, Pass, Ranking, Shadow


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
    reservations: Reservations
    held: Held
    decided: Pass
    jobs: Jobs  # by slot
    first_row: Ints  # by slot, in `held`
    in_order: Ints  # the slots of waiting jobs
    end_of_queue: Ints  # (1,): work space


N = TypeVar("N", NodeQueue, ReservingQueue)
