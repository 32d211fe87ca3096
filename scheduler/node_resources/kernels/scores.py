"""Scores of nodes for one chunk of a request, 0 to 100; the best node has the highest score.

Where no chunk fits, the score has no meaning.
"""

from __future__ import annotations

from scheduler.compiled import Floats, inlined, part
from scheduler.node_resources.kernels.tables import (
    NONE,
    WHOLE,
    NodeTable,
    RequestTable,
    gpu_kind,
    gpu_left,
    tightest_gpu,
)
from scheduler.node_resources.kernels.workspace import Ranking

FIRST_FIT, BEST_FIT, WORST_FIT, DOT_PRODUCT, GPU_PACKING, GPU_CLUSTERING, IN_PYTHON = range(7)
"""Codes of node selections."""


@inlined
def gpu_need(requests: RequestTable, k: int) -> int:
    """In thousandths."""
    return int(requests.gpus[k] * requests.gpu_share[k])


@inlined
def dot_product(nodes: NodeTable, requests: RequestTable, k: int, n: int, weights: Floats) -> float:
    """The smaller the dot product of what is left and what is requested, the better."""
    n_resources = int(nodes.free.shape[1])
    product = 0.0
    for r in range(n_resources):
        most = nodes.largest[r]
        if most > 0.0:
            product += float(weights[r]) * ((nodes.free[n, r] / most) * (requests.need[k, r] / most))
    most = nodes.largest[n_resources]
    if most > 0.0:
        of_gpus = (gpu_left(nodes, n) / most) * (gpu_need(requests, k) / most)
        product += float(weights[n_resources]) * of_gpus
    return 100.0 * (1.0 - product)


@inlined
def tightness(nodes: NodeTable, requests: RequestTable, k: int, n: int, weights: Floats) -> float:
    """The less is left afterwards, the better."""
    n_resources = int(nodes.free.shape[1])
    left = 0.0
    for r in range(n_resources):
        most = nodes.largest[r]
        if most > 0.0:
            left += float(weights[r]) * (nodes.free[n, r] - requests.need[k, r]) / most
    most = nodes.largest[n_resources]
    if most > 0.0:
        left += float(weights[n_resources]) * (gpu_left(nodes, n) - gpu_need(requests, k)) / most
    return 100.0 * (1.0 - left)


@inlined
def packing(nodes: NodeTable, requests: RequestTable, k: int, n: int) -> float:
    """GPUs in use before untouched ones, and nodes with GPUs in use before idle nodes."""
    if requests.gpus[k] == 0 or requests.fit[k, n] == 0:
        return 0.0
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


@inlined
def clustering(nodes: NodeTable, requests: RequestTable, k: int, n: int) -> float:
    """Nodes with only jobs of the same number of GPUs, then also with others, then idle ones, then others."""
    if requests.gpus[k] == 0:
        return 0.0
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


@part
def score(nodes: NodeTable, requests: RequestTable, selection: int, weights: Floats, k: int, n: int) -> float:
    if selection == BEST_FIT:
        return tightness(nodes, requests, k, n, weights)
    if selection == WORST_FIT:
        return -tightness(nodes, requests, k, n, weights)
    if selection == DOT_PRODUCT:
        return dot_product(nodes, requests, k, n, weights)
    if selection == GPU_PACKING:
        return packing(nodes, requests, k, n)
    return clustering(nodes, requests, k, n)


@inlined
def are_current(nodes: NodeTable, requests: RequestTable, ranking: Ranking, k: int) -> bool:
    """Bring the scores for a kind of request up to date, as `fit` must be; False if only Python can."""
    selection = ranking.selection[0]
    if selection == FIRST_FIT or ranking.seen[k] == nodes.clock[0]:
        return True
    if selection == IN_PYTHON:
        return False
    n = nodes.newest[0]
    while n != NONE and nodes.version[n] > ranking.seen[k]:
        ranking.scores[k, n] = score(nodes, requests, selection, ranking.weights, k, n)
        n = nodes.older[n]
    ranking.seen[k] = nodes.clock[0]
    return True
