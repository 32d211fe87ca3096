"""What runs hold, as linked rows."""

from __future__ import annotations

from scheduler.compiled import Ints2, part
from scheduler.node_resources.kernels.tables import CHUNKS, GPUS, NODE, NONE, Held


@part
def hold(held: Held, rows: Ints2, first: int, after: int, kind: int) -> int:
    """A run holds what these rows state. Returns its first row in `held`, which must have spare ones."""
    following = NONE
    for x in range(after - 1, first - 1, -1):
        held.n_spare[0] -= 1
        row = held.spare[held.n_spare[0]]
        held.row[row, NODE], held.row[row, CHUNKS] = rows[x, NODE], rows[x, CHUNKS]
        held.row[row, GPUS] = rows[x, GPUS]
        held.kind[row], held.next[row] = kind, following
        following = row
    return following


@part
def let_go(held: Held, first: int) -> None:
    """The rows of a run are spare."""
    row = first
    while row != NONE:
        held.spare[held.n_spare[0]] = row
        held.n_spare[0] += 1
        row = held.next[row]
