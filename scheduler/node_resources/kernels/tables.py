"""Tables of nodes and of requests, and what changed since a request was last considered."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Flags, Flags2, Floats, Ints, Ints2, inlined

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
