"""The steps in which a job gets its nodes, for callers in Python: one call for each. A module of its own,
since passes in compiled code do without these functions."""

from __future__ import annotations

from scheduler.compiled import Floats, Floats2, Ints, called_from_python, compiled, direct
from scheduler.node_resources.kernels.allocation import choose, most_rows, takes_parts_of_gpus
from scheduler.node_resources.kernels.scores import score
from scheduler.node_resources.kernels.tables import NEWEST, NONE, OLDER, NodeTable, RequestTable

uses_parts_of_gpus = called_from_python(takes_parts_of_gpus)
rows_at_most = called_from_python(most_rows)
choose_nodes = called_from_python(choose)


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
