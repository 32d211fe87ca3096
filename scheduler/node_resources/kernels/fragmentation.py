"""Fragmentation of the GPUs of a node: the part that typical jobs cannot use (Weng et al. 2023)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler.compiled import Floats, Floats2, Ints, compiled, direct, inlined, part
from scheduler.node_resources.kernels.tables import (
    CORES,
    NONE,
    WHOLE,
    NodeTable,
    RequestTable,
    gpu_left,
    offers,
)


class Typical(NamedTuple):
    """The typical chunks, one per row, and their shares of all."""

    cores: Ints
    gpus: Ints
    gpu_share: Ints
    gpu_types: Ints
    weight: Floats


LACKS_BOTH, LACKS_GPUS, LACKS_CORES, NO_GPU_REQUESTED, NEITHER, NO_ACCESS = range(6)
"""Why a typical chunk cannot use what is left. Sums are kept apart and added in this order, because
differences of fragmentation are compared with zero, where rounding decides."""


@inlined
def usable_gpus(nodes: NodeTable, typical: Typical, t: int, n: int) -> tuple[int, int, bool]:
    """The number of GPUs that will do, what is left of the others, and whether one is of a requested type."""
    count, partial, has_type = 0, 0, False
    for d in range(nodes.gpu_free.shape[1]):
        is_allowed = nodes.gpu_type[n, d] & typical.gpu_types[t] != 0
        has_type = has_type or is_allowed
        if is_allowed and nodes.gpu_free[n, d] >= typical.gpu_share[t]:
            count += 1
        else:
            partial += nodes.gpu_free[n, d]
    return count, partial, has_type


@part
def fragmentation(nodes: NodeTable, typical: Typical, cores_left: int, n: int) -> float:
    """The expected unusable part, in thousandths of a GPU, if `cores_left` cores (thousandths) are left."""
    left = gpu_left(nodes, n)
    a = b = c = d = e = f = 0.0
    for t in range(len(typical.weight)):
        weight = typical.weight[t]
        has_cores = cores_left >= typical.cores[t]
        if typical.gpus[t] == 0:
            if has_cores:
                d += weight * left
            else:
                e += weight * left
            continue
        count, partial, has_type = usable_gpus(nodes, typical, t, n)
        if not has_type:
            f += weight * left
        elif count >= typical.gpus[t]:
            if has_cores:
                b += weight * partial
            else:
                c += weight * left
        elif has_cores:
            b += weight * left
        else:
            a += weight * left
    return a + b + c + d + e + f


@inlined
def descent(before: float, after: float, in_steps: bool) -> float:
    """0 to 100, and 50 if nothing changes; whole numbers if `in_steps`."""
    score = 100.0 / (1.0 + np.exp((after - before) / WHOLE))
    return float(np.floor(score)) if in_steps else float(score)


@inlined
def has_twin(nodes: NodeTable, n: int, d: int) -> bool:
    """Whether a GPU of the node before GPU d is of the same type and has the same left."""
    for earlier in range(d):
        if (
            nodes.gpu_type[n, earlier] == nodes.gpu_type[n, d]
            and nodes.gpu_free[n, earlier] == nodes.gpu_free[n, d]
        ):
            return True
    return False


@part
def after_whole_gpus(
    nodes: NodeTable, requests: RequestTable, typical: Typical, k: int, n: int, cores_left: int
) -> float:
    """The fragmentation after the first free GPUs are taken."""
    wanted, d, taken = requests.gpus[k], 0, 0
    while wanted > 0:
        if offers(nodes, requests, k, n, d):
            nodes.gpu_free[n, d] = 0
            taken |= 1 << d
            wanted -= 1
        d += 1
    after = fragmentation(nodes, typical, cores_left, n)
    for d in range(nodes.gpu_free.shape[1]):
        if taken & (1 << d):
            nodes.gpu_free[n, d] = WHOLE
    return after


@part
def best_descent(
    nodes: NodeTable, requests: RequestTable, typical: Typical, k: int, n: int, in_steps: bool
) -> tuple[float, int]:
    """The score of the node, and the GPU of which to take a part, or NONE."""
    before = fragmentation(nodes, typical, nodes.free[n, CORES], n)
    cores_left = nodes.free[n, CORES] - requests.need[k, CORES]
    if requests.gpus[k] == 0:
        return descent(before, fragmentation(nodes, typical, cores_left, n), in_steps), NONE
    if requests.gpu_share[k] == WHOLE:
        after = after_whole_gpus(nodes, requests, typical, k, n, cores_left)
        return descent(before, after, in_steps), NONE
    best_score, best = -1.0, NONE
    for d in range(nodes.gpu_free.shape[1]):
        if offers(nodes, requests, k, n, d) and not has_twin(nodes, n, d):
            nodes.gpu_free[n, d] -= requests.gpu_share[k]
            score = descent(before, fragmentation(nodes, typical, cores_left, n), in_steps)
            nodes.gpu_free[n, d] += requests.gpu_share[k]
            if score > best_score:
                best_score, best = score, d
    return best_score, best


@direct
@compiled
def descents(
    nodes: NodeTable,
    requests: RequestTable,
    typical: Typical,
    in_steps: bool,
    k: int,
    which: Ints,
    scores: Floats2,
) -> None:
    """Write the scores of the nodes in `which` to row k of `scores`."""
    for x in range(len(which)):
        n = which[x]
        if requests.fit[k, n]:
            scores[k, n] = best_descent(nodes, requests, typical, k, n, in_steps)[0]


@direct
@compiled
def gpu_of_best_descent(
    nodes: NodeTable, requests: RequestTable, typical: Typical, in_steps: bool, k: int, n: int
) -> int:
    """The GPU of which to take a part on node n, or NONE."""
    return int(best_descent(nodes, requests, typical, k, n, in_steps)[1])


@direct
@compiled
def fragmentations(nodes: NodeTable, typical: Typical, which: Ints, found: Floats) -> None:
    """Write what is fragmented on the nodes in `which`, in thousandths of a GPU."""
    for x in range(len(which)):
        n = which[x]
        found[n] = fragmentation(nodes, typical, nodes.free[n, CORES], n)
