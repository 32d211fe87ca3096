"""How facts state what jobs use of nodes with cores, memory and GPUs."""

from __future__ import annotations

from scheduler.compiled import implements, part
from scheduler.free_nodes.kernels.on_nodes import N
from scheduler.node_resources.kernels.tables import CORES, GPUS, NODE, WHOLE
from sil.world.compiled_replay import loop
from sil.world.compiled_replay.facts import Facts


@implements(loop.most_held)
def most_held(q: N) -> int:
    return int(q.on.rows_waiting[0])


@implements(loop.note_held)
def note_held(q: N, x: int, f: Facts, fact: int) -> None:
    """Shares of nodes, and the cores of whole nodes, if these were requested."""
    begin = q.on.decided.after[x - 1] if x > 0 else 0
    after, kind, at = q.on.decided.after[x], q.on.kind[q.on.decided.placed[x]], f.held_end[fact]
    for row in range(begin, after):
        for k in range(NODE, GPUS + 1):
            f.held[at, k] = q.on.decided.rows[row, k]
        at += 1
    f.held_end[fact + 1] = at
    if q.on.requests.exclusive[kind]:
        f.whole_cores[fact] = whole_cores(q, begin, after)


@part
def whole_cores(q: N, begin: int, after: int) -> int:
    """Of whole nodes, rounded half to even."""
    total = 0
    for row in range(begin, after):
        total += q.on.nodes.capacity[q.on.decided.rows[row, NODE], CORES]
    cores, rest = total // WHOLE, total % WHOLE
    return int(cores + (2 * rest > WHOLE or (2 * rest == WHOLE and cores % 2 == 1)))
