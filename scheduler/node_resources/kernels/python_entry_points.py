"""What callers in Python do with the state of nodes: whether a request fits, its nodes, which runs to stop.

Callers in compiled code do without this module, which would be compiled for nothing.
"""

from __future__ import annotations

from scheduler.compiled import (
    Flags,
    Floats,
    Floats2,
    Ints,
    Ints2,
    called_from_python,
    compiled,
    direct,
)
from scheduler.node_resources.kernels.allocation import (
    choose,
    give_back_row,
    most_rows,
    take_row,
    takes_parts_of_gpus,
)
from scheduler.node_resources.kernels.scores import score
from scheduler.node_resources.kernels.shadow import first_fits, look_at, shift_run
from scheduler.node_resources.kernels.tables import (
    NONE,
    Held,
    NodeTable,
    RequestTable,
    fits_now,
    has_changed,
)
from scheduler.node_resources.kernels.workspace import Shadow

take = called_from_python(take_row)


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


uses_parts_of_gpus = called_from_python(takes_parts_of_gpus)
rows_at_most = called_from_python(most_rows)
choose_nodes = called_from_python(choose)


@direct
@compiled
def changed_since(nodes: NodeTable, since: int, changed: Ints) -> int:
    """Write the nodes that changed after `since` to `changed`, the last one first; returns their number."""
    n, count = nodes.newest[0], 0
    while n != NONE and nodes.version[n] > since:
        changed[count] = n
        count += 1
        n = nodes.older[n]
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


@direct
@compiled
def next_that_may_fit(
    nodes: NodeTable,
    requests: RequestTable,
    without: NodeTable,
    requests_without: RequestTable,
    kinds: Ints,
    chunks: Ints,
    i: int,
    end: int,
) -> int:
    """The first position in the queue, from i on, of a job that does not fit on `nodes`, but would `without`
    some runs; or `end`."""
    while i < end:
        kind, n = kinds[i], chunks[i]
        if not fits_now(nodes, requests, kind, n) and fits_now(without, requests_without, kind, n):
            return i
        i += 1
    return i


@direct
@compiled
def runs_to_stop(
    nodes: NodeTable,
    requests: RequestTable,
    shadow: Shadow,
    held: Held,
    firsts: Ints,
    kind: int,
    chunks: int,
    stopped: Flags,
) -> bool:
    """Mark the runs that have to stop so that a job fits: the first ones until it does, less those that are
    not needed then, of which the last are tried first. Returns whether it fits.

    `firsts` has the first row of each run in `held`. The nodes stay as they are.
    """
    look_at(nodes, requests, shadow, kind, chunks)
    x = 0
    while x < len(firsts) and not first_fits(requests, shadow):
        shift_run(nodes, requests, shadow, held, firsts[x], 1)
        stopped[x] = True
        x += 1
    if not first_fits(requests, shadow):
        return False
    for y in range(x - 2, -1, -1):  # it does not fit without the last one
        shift_run(nodes, requests, shadow, held, firsts[y], -1)
        if first_fits(requests, shadow):
            stopped[y] = False
        else:
            shift_run(nodes, requests, shadow, held, firsts[y], 1)
    return True
