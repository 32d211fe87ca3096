"""Scores of nodes for one chunk of a request, 0 to 100; the best node has the highest score.

Each function writes the scores of the nodes in `which` to row k of `scores`. Where no chunk fits, the score
has no meaning.
"""

from __future__ import annotations

from scheduler.compiled import Floats, Floats2, Ints, compiled, direct, inlined
from scheduler.node_resources.kernels.tables import (
    WHOLE,
    NodeTable,
    RequestTable,
    gpu_kind,
    gpu_left,
    tightest_gpu,
)


@inlined
def gpu_need(requests: RequestTable, k: int) -> int:
    """In thousandths."""
    return int(requests.gpus[k] * requests.gpu_share[k])


@direct
@compiled
def dot_products(
    nodes: NodeTable, requests: RequestTable, k: int, which: Ints, weights: Floats, scores: Floats2
) -> None:
    """The smaller the dot product of what is left and what is requested, the better."""
    n_resources = int(nodes.free.shape[1])
    for x in range(len(which)):
        n = which[x]
        product = 0.0
        for r in range(n_resources):
            most = nodes.largest[r]
            if most > 0.0:
                product += float(weights[r]) * ((nodes.free[n, r] / most) * (requests.need[k, r] / most))
        most = nodes.largest[n_resources]
        if most > 0.0:
            of_gpus = (gpu_left(nodes, n) / most) * (gpu_need(requests, k) / most)
            product += float(weights[n_resources]) * of_gpus
        scores[k, n] = 100.0 * (1.0 - product)


@direct
@compiled
def tightness(
    nodes: NodeTable, requests: RequestTable, k: int, which: Ints, weights: Floats, scores: Floats2
) -> None:
    """The less is left afterwards, the better."""
    n_resources = int(nodes.free.shape[1])
    for x in range(len(which)):
        n = which[x]
        left = 0.0
        for r in range(n_resources):
            most = nodes.largest[r]
            if most > 0.0:
                left += float(weights[r]) * (nodes.free[n, r] - requests.need[k, r]) / most
        most = nodes.largest[n_resources]
        if most > 0.0:
            left += float(weights[n_resources]) * (gpu_left(nodes, n) - gpu_need(requests, k)) / most
        scores[k, n] = 100.0 * (1.0 - left)


@inlined
def packing(nodes: NodeTable, requests: RequestTable, k: int, n: int) -> float:
    n_gpus, n_untouched = 0, 0
    for d in range(nodes.gpu_free.shape[1]):
        n_gpus += nodes.gpu_type[n, d] != 0
        n_untouched += nodes.gpu_free[n, d] == WHOLE
    if n_untouched == n_gpus:
        return 33.0 - n_gpus
    if requests.gpu_share[k] == WHOLE:
        return float(50.0 - requests.gpus[k])
    left = nodes.gpu_free[n, tightest_gpu(nodes, requests, k, n)]
    return float(100.0 - left / 100.0) if left < WHOLE else 49.0


@direct
@compiled
def gpu_packing(nodes: NodeTable, requests: RequestTable, k: int, which: Ints, scores: Floats2) -> None:
    """GPUs in use before untouched ones, and nodes with GPUs in use before idle nodes."""
    for x in range(len(which)):
        n = which[x]
        scores[k, n] = packing(nodes, requests, k, n) if requests.gpus[k] and requests.fit[k, n] else 0.0


@inlined
def clustering(nodes: NodeTable, requests: RequestTable, k: int, n: int) -> float:
    of_its_kind, others = False, False
    for column in range(nodes.gpu_chunks.shape[1]):
        if nodes.gpu_chunks[n, column] > 0:
            if column == gpu_kind(requests, k):
                of_its_kind = True
            else:
                others = True
    base = 25.0 + 50.0 * of_its_kind - 25.0 * others
    most = nodes.largest[nodes.free.shape[1]]
    return float(base + 25.0 * (most - gpu_left(nodes, n)) / most)


@direct
@compiled
def gpu_clustering(nodes: NodeTable, requests: RequestTable, k: int, which: Ints, scores: Floats2) -> None:
    """Nodes with only jobs of the same number of GPUs, then also with others, then idle ones, then others."""
    for x in range(len(which)):
        n = which[x]
        scores[k, n] = clustering(nodes, requests, k, n) if requests.gpus[k] else 0.0
