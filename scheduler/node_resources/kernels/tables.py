"""Tables of nodes and of requests, what runs hold, and how many chunks of a request fit on each node.

What fits is evaluated again only for nodes that changed.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from scheduler.compiled import Flags, Flags2, Floats, Ints, Ints2, inlined, part
from scheduler.node_resources.kernels.releases import give_row_back, next_row

NONE = -1
WHOLE = 1000
"""A core or a GPU, in thousandths."""

CORES, MEMORY = 0, 1
"""Columns of `NodeTable.capacity` and `free`; further columns are resources that the site names."""

HAS, FREE = 0, 1
"""Rows of `NodeTable.site`."""

NODE, CHUNKS, GPUS = range(3)
"""Columns of a table of what a job uses: a node, the number of chunks there, and the GPUs as bits."""

ByNode = Annotated[Ints, "nodes"]
ByKind = Annotated[Ints, "kinds"]


class NodeTable(NamedTuple):
    """Nodes, and resources of the whole site."""

    capacity: Annotated[Ints2, "nodes", "resources"]
    free: Annotated[Ints2, "nodes", "resources"]
    gpu_type: Annotated[Ints2, "nodes", "gpus"]
    """One bit for the type of each GPU; 0 where there is none."""
    gpu_free: Annotated[Ints2, "nodes", "gpus"]
    """In thousandths."""
    gpu_chunks: Annotated[Ints2, "nodes", "gpu_kinds"]
    """Running chunks by number of GPUs, part of one in column 0."""
    n_chunks: ByNode
    """Running on the node."""
    version: ByNode
    """The time of its last change."""
    newer: ByNode
    """The node changed next after it, or NONE."""
    older: ByNode
    """The node changed last before it, or NONE."""
    newest: Ints
    """The node changed last, at the time `clock`."""
    clock: Ints
    largest: Annotated[Floats, "weights"]
    """The largest capacity of a node; of GPUs, in thousandths, last."""
    site: Annotated[Ints2, 2, "site"]
    """HAS and FREE."""


class RequestTable(NamedTuple):
    """Kinds of chunk."""

    need: Annotated[Ints2, "kinds", "needs"]
    """Of a chunk; of resources of the site, of a job."""
    gpus: ByKind
    """The number of GPUs."""
    gpu_share: ByKind
    """Thousandths of each; less than a whole only of one GPU."""
    gpu_types: ByKind
    """Bits of the types that will do."""
    most_on_node: ByKind
    """Chunks of one job."""
    exclusive: Annotated[Flags, "kinds"]
    """It needs a node on which nothing runs, and takes all of it."""
    eligible: Annotated[Flags2, "kinds", "nodes"]
    """By partition, features and availability."""
    fit: Annotated[Ints2, "kinds", "nodes"]
    """How many chunks of one job fit, as of the time `seen`."""
    total: ByKind
    """The sum of `fit`."""
    seen: ByKind


class Held(NamedTuple):
    """What runs hold: a row for each node of a run, linked."""

    row: Annotated[Ints2, "held", 3]
    kind: Annotated[Ints, "held"]
    """Of request."""
    next: Annotated[Ints, "held"]
    """The run's next row, or NONE."""
    spare: Annotated[Ints, "held"]
    n_spare: Ints
    n_used: Ints


@inlined
def has_changed(nodes: NodeTable, n: int) -> None:
    """Put the node first in the order of changes."""
    nodes.clock[0] += 1
    nodes.version[n] = nodes.clock[0]
    first = nodes.newest[0]
    if first == n:
        return
    newer, older = nodes.newer[n], nodes.older[n]
    nodes.older[newer] = older
    if older != NONE:
        nodes.newer[older] = newer
    nodes.newer[n], nodes.older[n] = NONE, first
    nodes.newer[first] = n
    nodes.newest[0] = n


@inlined
def site_need(nodes: NodeTable, requests: RequestTable, k: int, s: int) -> int:
    """What a job of kind k requests of resource s of the site."""
    return int(requests.need[k, nodes.free.shape[1] + s])


@inlined
def give_of_site(nodes: NodeTable, requests: RequestTable, k: int, sign: int) -> None:
    """A job of kind k gives back (1) or takes (-1) what it has of the site's resources."""
    for s in range(nodes.site.shape[1]):
        nodes.site[FREE, s] += sign * site_need(nodes, requests, k, s)


@inlined
def site_suffices(nodes: NodeTable, requests: RequestTable, k: int) -> bool:
    """Whether what is free of the site's resources is enough for a job of kind k."""
    suffices = True
    for s in range(nodes.site.shape[1]):
        suffices = suffices and site_need(nodes, requests, k, s) <= nodes.site[FREE, s]
    return suffices


@inlined
def gpu_left(nodes: NodeTable, n: int) -> int:
    left = 0
    for d in range(nodes.gpu_free.shape[1]):
        left += nodes.gpu_free[n, d]
    return left


@inlined
def offers(nodes: NodeTable, requests: RequestTable, k: int, n: int, d: int) -> bool:
    """Whether GPU d of node n is of a requested type and has the requested share left."""
    return bool(
        nodes.gpu_type[n, d] & requests.gpu_types[k] and nodes.gpu_free[n, d] >= requests.gpu_share[k]
    )


@inlined
def tightest_gpu(nodes: NodeTable, requests: RequestTable, k: int, n: int) -> int:
    """The GPU with the least left that offers what is requested; the first of equals."""
    best = NONE
    for d in range(nodes.gpu_free.shape[1]):
        if offers(nodes, requests, k, n, d) and (
            best == NONE or nodes.gpu_free[n, d] < nodes.gpu_free[n, best]
        ):
            best = d
    return best


@inlined
def gpu_kind(requests: RequestTable, k: int) -> int:
    """Column of `NodeTable.gpu_chunks` for a request of GPUs."""
    return int(requests.gpus[k]) if requests.gpu_share[k] == WHOLE else 0


@part
def hold(held: Held, rows: Ints2, first: int, after: int, kind: int) -> int:
    """A run holds what these rows state. Returns its first row in `held`, which must have spare ones."""
    following = NONE
    for x in range(after - 1, first - 1, -1):
        row = next_row(held)
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
        give_row_back(held, row)
        row = held.next[row]


@inlined
def times(need: int, amount: int, most: int) -> int:
    """How many times an amount is enough for a need, at most `most`. Division takes longer than all else."""
    if amount < need:
        return 0
    if most <= 1 or amount < 2 * need:
        return min(most, 1)
    return min(most, amount // need)


@inlined
def gpu_chunks_that_fit(nodes: NodeTable, requests: RequestTable, k: int, n: int, most: int) -> int:
    """At most `most`. Of several GPUs each is a whole one, which is enough once."""
    n_fit = 0
    for d in range(nodes.gpu_free.shape[1]):
        if nodes.gpu_type[n, d] & requests.gpu_types[k]:
            n_fit += times(requests.gpu_share[k], nodes.gpu_free[n, d], most)
    return times(requests.gpus[k], n_fit, most)


@inlined
def chunks_that_fit(nodes: NodeTable, requests: RequestTable, k: int, n: int) -> int:
    """How many chunks of kind k one job may have on node n now."""
    if not requests.eligible[k, n] or (requests.exclusive[k] and nodes.n_chunks[n] > 0):
        return 0
    most = requests.most_on_node[k]
    for r in range(nodes.free.shape[1]):
        if requests.need[k, r] > 0:
            most = times(requests.need[k, r], nodes.free[n, r], most)
    if most > 0 and requests.gpus[k] > 0:
        most = gpu_chunks_that_fit(nodes, requests, k, n, most)
    return int(most)


@part
def refresh(nodes: NodeTable, requests: RequestTable, k: int) -> None:
    """Bring `fit` and `total` of kind k up to date."""
    n = nodes.newest[0]
    while n != NONE and nodes.version[n] > requests.seen[k]:
        fit = chunks_that_fit(nodes, requests, k, n)
        requests.total[k] += fit - requests.fit[k, n]
        requests.fit[k, n] = fit
        n = nodes.older[n]
    requests.seen[k] = nodes.clock[0]


@inlined
def fits_now(nodes: NodeTable, requests: RequestTable, k: int, chunks: int) -> bool:
    """Whether a job of that many chunks of kind k may start now; brings `fit` and `total` up to date."""
    if requests.seen[k] != nodes.clock[0]:  # otherwise the call would take longer than all else
        refresh(nodes, requests, k)
    return bool(requests.total[k] >= chunks and site_suffices(nodes, requests, k))
