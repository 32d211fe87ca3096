"""How facts state the nodes of jobs on identical nodes."""

from __future__ import annotations

from scheduler.compiled import Flags, implements
from scheduler.free_nodes.kernels.free_set import FIRST, LAST
from scheduler.free_nodes.kernels.queues import N_BOUNDS, RigidQueue
from scheduler.free_nodes.kernels.transitions import STARTED, most_starts
from sil.world.compiled_replay import loop
from sil.world.compiled_replay.facts import MOST_DIGITS, Facts, write_interval


@implements(loop.most_text)
def most_text(q: RigidQueue) -> int:
    return int(MOST_DIGITS * (q.counts[N_BOUNDS] // 2 + most_starts(q) + 1))


@implements(loop.write_use)
def write_use(q: RigidQueue, x: int, f: Facts, fact: int, marks: Flags) -> None:
    """The nodes."""
    slot, at = int(q.started[x, STARTED]), f.text_end[fact]
    first = q.first_interval[slot]
    for y in range(first, first + q.n_intervals[slot]):
        at = write_interval(f.text, at, y == first, q.intervals[y, FIRST], q.intervals[y, LAST])
    f.text_end[fact + 1] = at
