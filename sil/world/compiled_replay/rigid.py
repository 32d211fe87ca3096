"""The compiled loop on identical nodes, and how facts state the nodes of jobs."""

from __future__ import annotations

from scheduler.compiled import Flags, implements, long_running
from scheduler.free_nodes.kernels.free_set import FIRST, LAST
from scheduler.free_nodes.kernels.identical import RigidQueue
from scheduler.free_nodes.kernels.ledger import Q, most_starts
from sil.world.compiled_replay import loop
from sil.world.compiled_replay.facts import MOST_DIGITS, Facts, write_interval


@implements(loop.most_text)
def most_text(q: RigidQueue) -> int:
    return int(MOST_DIGITS * (q.free.n[0] // 2 + most_starts(q) + 1))


@implements(loop.write_use)
def write_use(q: RigidQueue, x: int, f: Facts, fact: int, marks: Flags) -> None:
    """The nodes."""
    slot, at = q.ledger.started[x], f.text_end[fact]
    first = q.first_interval[slot]
    for y in range(first, first + q.n_intervals[slot]):
        at = write_interval(f.text, at, y == first, q.intervals[y, FIRST], q.intervals[y, LAST])
    f.text_end[fact + 1] = at


advance = long_running(loop.advance, {Q: RigidQueue})
