"""Whether requests fit, and what changes the state of nodes, for callers in Python: one call for each.
A module of its own, since callers in compiled code do without these functions."""

from __future__ import annotations

from scheduler.compiled import Ints, Ints2, called_from_python, compiled, direct
from scheduler.node_resources.kernels.allocation import give_back_row, take_row
from scheduler.node_resources.kernels.fitting import fits_now
from scheduler.node_resources.kernels.holding import hold, let_go
from scheduler.node_resources.kernels.tables import NodeTable, RequestTable, has_changed

take = called_from_python(take_row)
hold_rows = called_from_python(hold)
let_go_rows = called_from_python(let_go)


@direct
@compiled
def give_back(nodes: NodeTable, requests: RequestTable, k: int, rows: Ints2) -> None:
    """Give back what was taken for all rows."""
    for row in range(len(rows)):
        give_back_row(nodes, requests, k, rows, row)


@direct
@compiled
def fits(nodes: NodeTable, requests: RequestTable, k: int, chunks: int) -> bool:
    return fits_now(nodes, requests, k, chunks)


@direct
@compiled
def touch(nodes: NodeTable, n: int) -> None:
    """Node n has changed."""
    has_changed(nodes, n)


@direct
@compiled
def next_that_fits(
    nodes: NodeTable, requests: RequestTable, kinds: Ints, chunks: Ints, i: int, end: int
) -> int:
    """The first position from i on of a job that fits now, or `end`."""
    while i < end and not fits_now(nodes, requests, kinds[i], chunks[i]):
        i += 1
    return i
