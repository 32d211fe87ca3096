"""Which runs have to stop so that a job fits."""

from __future__ import annotations

from scheduler.compiled import Flags, Ints, compiled, direct, inlined
from scheduler.node_resources.kernels.fitting import fits_now
from scheduler.node_resources.kernels.shadow import copy_row, first_fits, look_at, shift
from scheduler.node_resources.kernels.tables import (
    NODE,
    NONE,
    Held,
    NodeTable,
    RequestTable,
    give_of_site,
)
from scheduler.node_resources.kernels.workspace import Shadow


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


@inlined
def shift_run(
    nodes: NodeTable, requests: RequestTable, shadow: Shadow, held: Held, first: int, sign: int
) -> None:
    """A run gives back (1) or takes (-1) what it holds, in the shadow."""
    give_of_site(shadow.then, requests, held.kind[first], sign)
    row = first
    while row != NONE:
        copy_row(nodes, requests, shadow, held.row[row, NODE])
        shift(requests, shadow, held.kind[row], held.row, row, sign)
        row = held.next[row]


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
