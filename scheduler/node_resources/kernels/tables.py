"""Tables of nodes and of requests, what runs hold, and how many chunks of a request fit on each node.

What fits is evaluated again only for nodes that changed.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Flags, Flags2, Floats, Ints, Ints2, inlined, part

NONE = -1
WHOLE = 1000
"""A core or a GPU, in thousandths."""

CORES, MEMORY = 0, 1
"""Columns of `NodeTable.capacity` and `free`; further columns are resources that the site names."""

NEWEST, CLOCK = 0, 1
"""Places in `NodeTable.changes`."""

NEWER, OLDER = 0, 1
"""Columns of `NodeTable.beside`."""

HAS, FREE = 0, 1
"""Rows of `NodeTable.site`."""


NODE, CHUNKS, GPUS = range(3)
"""Columns of a table of what a job uses: a node, the number of chunks there, and the GPUs as bits."""


class NodeTable(NamedTuple):
    """One row for each of N nodes, with R resources and places for D GPUs; S resources of the whole site."""

    capacity: Ints2  # (N, R)
    free: Ints2  # (N, R)
    gpu_type: Ints2  # (N, D): one bit for the type of each GPU; 0 where there is none
    gpu_free: Ints2  # (N, D): thousandths
    gpu_chunks: Ints2  # (N, D + 1): running chunks by number of GPUs, part of one in column 0
    n_chunks: Ints  # running on the node
    version: Ints  # the time of its last change
    beside: Ints2  # (N, 2): NEWER and OLDER, the nodes changed next after it and last before it
    changes: Ints  # (2,): the node changed last, and the time of that
    largest: Floats  # (R + 1,): the largest capacity of a node; of GPUs, in thousandths, last
    site: Ints2  # (2, S): HAS and FREE


class RequestTable(NamedTuple):
    """One row for each of K kinds of chunk."""

    need: Ints2  # (K, R + S): of a chunk; of resources of the site, of a job
    gpus: Ints  # number of GPUs
    gpu_share: Ints  # thousandths of each; less than a whole only of one GPU
    gpu_types: Ints  # bits of the types that will do
    most_on_node: Ints  # chunks of one job
    exclusive: Flags  # needs a node on which nothing runs, and takes all of it
    eligible: Flags2  # (K, N): by partition, features and availability
    fit: Ints2  # (K, N): how many chunks of one job fit, as of `seen`
    total: Ints  # the sum of `fit`
    seen: Ints  # time of `fit`


class Held(NamedTuple):
    """What runs hold: a row for each node of a run, linked."""

    row: Ints2  # NODE, CHUNKS, GPUS
    kind: Ints  # of request
    next: Ints  # the run's next row, or NONE
    spare: Ints  # rows that are not in use, the next one last
    n_spare: Ints  # (1,)


@inlined
def has_changed(nodes: NodeTable, n: int) -> None:
    """Put the node first in the order of changes."""
    nodes.changes[CLOCK] += 1
    nodes.version[n] = nodes.changes[CLOCK]
    first = nodes.changes[NEWEST]
    if first == n:
        return
    newer, older = nodes.beside[n, NEWER], nodes.beside[n, OLDER]
    nodes.beside[newer, OLDER] = older
    if older != NONE:
        nodes.beside[older, NEWER] = newer
    nodes.beside[n, NEWER], nodes.beside[n, OLDER] = NONE, first
    nodes.beside[first, NEWER] = n
    nodes.changes[NEWEST] = n


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
    n = nodes.changes[NEWEST]
    while n != NONE and nodes.version[n] > requests.seen[k]:
        fit = chunks_that_fit(nodes, requests, k, n)
        requests.total[k] += fit - requests.fit[k, n]
        requests.fit[k, n] = fit
        n = nodes.beside[n, OLDER]
    requests.seen[k] = nodes.changes[CLOCK]


@inlined
def fits_now(nodes: NodeTable, requests: RequestTable, k: int, chunks: int) -> bool:
    """Whether a job of that many chunks of kind k may start now; brings `fit` and `total` up to date."""
    if requests.seen[k] != nodes.changes[CLOCK]:  # otherwise the call would take longer than all else
        refresh(nodes, requests, k)
    return bool(requests.total[k] >= chunks and site_suffices(nodes, requests, k))
