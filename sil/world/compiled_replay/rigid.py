"""The compiled loop on identical nodes, and how facts state the nodes of jobs."""

from __future__ import annotations

from scheduler.compiled import implements, long_running
from scheduler.free_nodes.kernels.free_set import FIRST, LAST
from scheduler.free_nodes.kernels.identical import RigidQueue
from scheduler.free_nodes.kernels.ledger import Q, most_starts
from sil.world.compiled_replay import loop
from sil.world.compiled_replay.facts import Facts


@implements(loop.most_held)
def most_held(q: RigidQueue) -> int:
    return int(q.free.n[0] // 2 + most_starts(q) + 1)


@implements(loop.note_held)
def note_held(q: RigidQueue, x: int, f: Facts, fact: int) -> None:
    """Intervals of nodes."""
    slot, at = q.ledger.started[x], f.held_end[fact]
    first = q.first_interval[slot]
    for y in range(first, first + q.n_intervals[slot]):
        f.held[at, 0], f.held[at, 1] = q.intervals[y, FIRST], q.intervals[y, LAST]
        at += 1
    f.held_end[fact + 1] = at


advance = long_running(loop.advance, {Q: RigidQueue})
