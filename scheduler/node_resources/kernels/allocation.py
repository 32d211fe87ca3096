"""Choosing the nodes of a job by score, and taking and giving back what it uses."""

from __future__ import annotations

from scheduler.compiled import Floats2, Ints, Ints2, inlined, part
from scheduler.node_resources.kernels.scores import FIRST_FIT
from scheduler.node_resources.kernels.tables import (
    CHUNKS,
    GPUS,
    NODE,
    NONE,
    WHOLE,
    NodeTable,
    RequestTable,
    gpu_kind,
    has_changed,
    offers,
    tightest_gpu,
)
from scheduler.node_resources.kernels.workspace import Ranking


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


@inlined
def takes_parts_of_gpus(requests: RequestTable, k: int) -> bool:
    return bool(requests.gpu_share[k] < WHOLE and not requests.exclusive[k])


@inlined
def most_rows(requests: RequestTable, k: int, chunks: int) -> int:
    """Of what a job uses, at most: one for each node, or for each chunk with a part of a GPU."""
    return chunks if takes_parts_of_gpus(requests, k) else min(chunks, requests.fit.shape[1])


@inlined
def write_row(requests: RequestTable, k: int, n: int, chunks: int, rows: Ints2, row: int) -> int:
    """Chunks on a node. Returns the row after it, or after those of each chunk."""
    n_rows = chunks if takes_parts_of_gpus(requests, k) else 1
    for x in range(row, row + n_rows):
        rows[x, NODE], rows[x, CHUNKS], rows[x, GPUS] = n, chunks // n_rows, 0
    return row + n_rows


@part
def choose(requests: RequestTable, ranking: Ranking, k: int, chunks: int, rows: Ints2, first: int) -> int:
    """Write the best nodes for `chunks` chunks to `rows` from `first` on, best first, with as many chunks on
    each as fit. There must be room for all of them, and scores must be current.

    Returns the row after the last one. Ties: the lowest node. O(N + chosen log N). A part of a GPU has a row
    of its own, since each may be of another one.
    """
    scores, heap, fit, row = ranking.scores, ranking.heap, requests.fit, first
    n_nodes = fit.shape[1]
    if ranking.selection[0] == FIRST_FIT:
        n = 0
        while chunks > 0:
            if fit[k, n] > 0:
                here = min(chunks, fit[k, n])
                row = write_row(requests, k, n, here, rows, row)
                chunks -= here
            n += 1
        return row
    size, best = 0, NONE
    for n in range(n_nodes):
        if fit[k, n] > 0:
            heap[size] = n
            size += 1
            if best == NONE or scores[k, n] > scores[k, best]:
                best = n
    if fit[k, best] >= chunks:  # as for most jobs
        return write_row(requests, k, best, chunks, rows, row)
    for x in range(size // 2 - 1, -1, -1):
        sift_down(scores, k, heap, size, x)
    while chunks > 0:
        n = heap[0]
        size -= 1
        heap[0] = heap[size]
        sift_down(scores, k, heap, size, 0)
        here = min(chunks, fit[k, n])
        row = write_row(requests, k, n, here, rows, row)
        chunks -= here
    return row


@inlined
def choose_gpus(nodes: NodeTable, requests: RequestTable, k: int, n: int, wanted: int, gpu: int) -> int:
    """The bits of the first whole GPUs; or of the GPU of which to take a part: `gpu`, else the tightest."""
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


@part
def take_row(nodes: NodeTable, requests: RequestTable, k: int, rows: Ints2, row: int, gpu: int) -> None:
    """Take what a row states, chunks of kind k on a node: its GPUs or, if it names none, others.

    These are the first whole ones, or for a part of one, `gpu` or, if that is NONE, the one with the least
    left; the row must have one chunk then. They are written to the row.
    """
    n, chunks = rows[row, NODE], rows[row, CHUNKS]
    if requests.exclusive[k]:
        rows[row, GPUS] = take_all(nodes, n)
    else:
        for r in range(nodes.free.shape[1]):
            nodes.free[n, r] -= chunks * requests.need[k, r]
        if requests.gpus[k] > 0 and rows[row, GPUS] == 0:
            rows[row, GPUS] = choose_gpus(nodes, requests, k, n, chunks * requests.gpus[k], gpu)
        for d in range(nodes.gpu_free.shape[1]):
            if rows[row, GPUS] & (1 << d):
                nodes.gpu_free[n, d] -= requests.gpu_share[k]
    if requests.gpus[k] > 0:
        nodes.gpu_chunks[n, gpu_kind(requests, k)] += chunks
    nodes.n_chunks[n] += chunks
    has_changed(nodes, n)


@part
def give_back_row(nodes: NodeTable, requests: RequestTable, k: int, rows: Ints2, row: int) -> None:
    """Give back what `take_row` took."""
    n, chunks = rows[row, NODE], rows[row, CHUNKS]
    whole = requests.exclusive[k] or requests.gpu_share[k] == WHOLE
    for r in range(nodes.free.shape[1]):
        if requests.exclusive[k]:
            nodes.free[n, r] = nodes.capacity[n, r]
        else:
            nodes.free[n, r] += chunks * requests.need[k, r]
    for d in range(nodes.gpu_free.shape[1]):
        if rows[row, GPUS] & (1 << d):
            nodes.gpu_free[n, d] += WHOLE if whole else requests.gpu_share[k]
    if requests.gpus[k] > 0:
        nodes.gpu_chunks[n, gpu_kind(requests, k)] -= chunks
    nodes.n_chunks[n] -= chunks
    has_changed(nodes, n)
