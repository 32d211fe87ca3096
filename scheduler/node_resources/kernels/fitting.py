"""How many chunks of a request fit on each node, evaluated again only for nodes that changed."""

from __future__ import annotations

from scheduler.compiled import inlined, part
from scheduler.node_resources.kernels.tables import (
    CLOCK,
    NEWEST,
    NONE,
    OLDER,
    NodeTable,
    RequestTable,
    site_suffices,
)


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
