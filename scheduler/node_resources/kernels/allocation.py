"""Choosing the nodes of a job by score, and taking and giving back what it uses."""

from __future__ import annotations

from scheduler.compiled import Floats2, Ints, Ints2, compiled, direct, inlined, part
from scheduler.node_resources.kernels.tables import (
    NONE,
    WHOLE,
    NodeTable,
    RequestTable,
    gpu_kind,
    has_changed,
    offers,
    tightest_gpu,
)

NODE, CHUNKS, GPUS = range(3)
"""Columns of a table of what a job uses: a node, the number of chunks there, and the GPUs as bits."""


@inlined
def is_better(scores: Floats2, k: int, a: int, b: int) -> bool:
    """By score, then the lower number."""
    return bool(scores[k, a] > scores[k, b] or (scores[k, a] == scores[k, b] and a < b))


@part
def sift_down(scores: Floats2, k: int, heap: Ints, size: int, x: int) -> None:
    """Restore a heap, best node first, whose element x may be too good for its place."""
    while True:
        best = x
        for child in (2 * x + 1, 2 * x + 2):
            if child < size and is_better(scores, k, heap[child], heap[best]):
                best = child
        if best == x:
            return
        heap[x], heap[best] = heap[best], heap[x]
        x = best


@direct
@compiled
def choose(requests: RequestTable, k: int, chunks: int, scores: Floats2, heap: Ints, chosen: Ints2) -> int:
    """Write the best nodes for `chunks` chunks to `chosen`, best first, with as many chunks on each as fit.

    There must be room for all of them. Returns the number of nodes. Ties: the lowest node.
    O(N + chosen log N).
    """
    size, best = 0, NONE
    for n in range(requests.fit.shape[1]):
        if requests.fit[k, n] > 0:
            heap[size] = n
            size += 1
            if best == NONE or scores[k, n] > scores[k, best]:
                best = n
    if requests.fit[k, best] >= chunks:  # as for most jobs
        chosen[0, NODE], chosen[0, CHUNKS] = best, chunks
        return 1
    for x in range(size // 2 - 1, -1, -1):
        sift_down(scores, k, heap, size, x)
    count = 0
    while chunks > 0:
        n = heap[0]
        size -= 1
        heap[0] = heap[size]
        sift_down(scores, k, heap, size, 0)
        chosen[count, NODE], chosen[count, CHUNKS] = n, min(chunks, requests.fit[k, n])
        chunks -= chosen[count, CHUNKS]
        count += 1
    return count


@inlined
def choose_gpus(nodes: NodeTable, requests: RequestTable, k: int, n: int, wanted: int, gpu: int) -> int:
    """The bits of the first whole GPUs; or of the one of which to take a part: `gpu`, else the tightest."""
    if requests.gpu_share[k] < WHOLE:
        return 1 << (tightest_gpu(nodes, requests, k, n) if gpu == NONE else gpu)
    bits = 0
    for d in range(nodes.gpu_free.shape[1]):
        if wanted > 0 and offers(nodes, requests, k, n, d):
            bits |= 1 << d
            wanted -= 1
    return bits


@inlined
def take_all(nodes: NodeTable, n: int) -> int:
    """Take the whole node; returns the bits of its GPUs."""
    bits = 0
    for r in range(nodes.free.shape[1]):
        nodes.free[n, r] = 0
    for d in range(nodes.gpu_free.shape[1]):
        nodes.gpu_free[n, d] = 0
        if nodes.gpu_type[n, d]:
            bits |= 1 << d
    return bits


@direct
@compiled
def take(nodes: NodeTable, requests: RequestTable, k: int, used: Ints2, row: int, gpu: int) -> None:
    """Take what `used[row]` states, chunks of kind k on a node: its GPUs or, if it names none, others.

    These are the first whole ones, or for a part of one, `gpu` or, if that is NONE, the one with the least
    left; the row must have one chunk then. They are written to the row.
    """
    n, chunks = used[row, NODE], used[row, CHUNKS]
    if requests.exclusive[k]:
        used[row, GPUS] = take_all(nodes, n)
    else:
        for r in range(nodes.free.shape[1]):
            nodes.free[n, r] -= chunks * requests.need[k, r]
        if requests.gpus[k] > 0 and used[row, GPUS] == 0:
            used[row, GPUS] = choose_gpus(nodes, requests, k, n, chunks * requests.gpus[k], gpu)
        for d in range(nodes.gpu_free.shape[1]):
            if used[row, GPUS] & (1 << d):
                nodes.gpu_free[n, d] -= requests.gpu_share[k]
    if requests.gpus[k] > 0:
        nodes.gpu_chunks[n, gpu_kind(requests, k)] += chunks
    nodes.n_chunks[n] += chunks
    has_changed(nodes, n)


@direct
@compiled
def give_back(nodes: NodeTable, requests: RequestTable, k: int, used: Ints2) -> None:
    """Give back what `take` took."""
    for row in range(len(used)):
        n, chunks = used[row, NODE], used[row, CHUNKS]
        whole = requests.exclusive[k] or requests.gpu_share[k] == WHOLE
        for r in range(nodes.free.shape[1]):
            if requests.exclusive[k]:
                nodes.free[n, r] = nodes.capacity[n, r]
            else:
                nodes.free[n, r] += chunks * requests.need[k, r]
        for d in range(nodes.gpu_free.shape[1]):
            if used[row, GPUS] & (1 << d):
                nodes.gpu_free[n, d] += WHOLE if whole else requests.gpu_share[k]
        if requests.gpus[k] > 0:
            nodes.gpu_chunks[n, gpu_kind(requests, k)] -= chunks
        nodes.n_chunks[n] -= chunks
        has_changed(nodes, n)
