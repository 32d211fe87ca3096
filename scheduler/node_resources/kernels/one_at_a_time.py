"""Where requests fit, scores, and what changes the state of nodes, for callers in Python: one call for each.
A module of its own, since callers in compiled code do without these functions."""

from __future__ import annotations

from scheduler.compiled import Floats, Floats2, Ints, Ints2, called_from_python, compiled, direct
from scheduler.node_resources.kernels.allocation import (
    choose,
    give_back_row,
    most_rows,
    take_row,
    takes_parts_of_gpus,
)
from scheduler.node_resources.kernels.fitting import fits_now
from scheduler.node_resources.kernels.holding import hold, let_go
from scheduler.node_resources.kernels.scores import score
from scheduler.node_resources.kernels.tables import NEWEST, NONE, OLDER, NodeTable, RequestTable, has_changed

uses_parts_of_gpus = called_from_python(takes_parts_of_gpus)
rows_at_most = called_from_python(most_rows)
choose_nodes = called_from_python(choose)
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
def changed_since(nodes: NodeTable, since: int, changed: Ints) -> int:
    """Write the nodes that changed after `since` to `changed`, the last one first; returns their number."""
    n, count = nodes.changes[NEWEST], 0
    while n != NONE and nodes.version[n] > since:
        changed[count] = n
        count += 1
        n = nodes.beside[n, OLDER]
    return count


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


@direct
@compiled
def write_scores(
    nodes: NodeTable,
    requests: RequestTable,
    selection: int,
    weights: Floats,
    k: int,
    which: Ints,
    scores: Floats2,
) -> None:
    """Write the scores of the nodes in `which` to row k of `scores`."""
    for x in range(len(which)):
        scores[k, which[x]] = score(nodes, requests, selection, weights, k, which[x])
