"""Fragmentation of the GPUs of a node: the part that typical jobs cannot use (Weng et al. 2023)."""

from __future__ import annotations

import math

from scheduler.core.arrays import Floats, Floats2, Ints
from scheduler.node_resources.core.codes import CORES, NONE, ONE, WHOLE
from scheduler.node_resources.core.state import NodeState


def descent(before: float, after: float, in_steps: bool) -> float:
    """0 to 100, and 50 if nothing changes; whole numbers if `in_steps`."""
    score = 100.0 / (1.0 + math.exp((after - before) / WHOLE))
    return math.floor(score) if in_steps else score


def has_twin(state: NodeState, n: int, d: int) -> bool:
    """Whether a GPU of the node before GPU d is of the same type and has the same left."""
    for earlier in range(d):
        if (
            state.gpu_type[n, earlier] == state.gpu_type[n, d]
            and state.gpu_free[n, earlier] == state.gpu_free[n, d]
        ):
            return True
    return False


class Typical:
    """The typical chunks and their shares of all."""

    def __init__(self, cores: Ints, gpus: Ints, gpu_share: Ints, gpu_types: Ints, weight: Floats) -> None:
        self.cores, self.gpus, self.gpu_share, self.gpu_types = cores, gpus, gpu_share, gpu_types
        self.weight = weight

    def fragmentation(self, state: NodeState, cores_left: int, n: int) -> float:
        """The expected unusable part, in thousandths of a GPU, if `cores_left` cores (thousandths) are left.

        Sums are kept apart by why a chunk cannot use what is left, and added in this order, because
        differences of fragmentation are compared with zero, where rounding decides.
        """
        left = state.gpu_left(n)
        lacks_both = lacks_gpus = lacks_cores = no_gpu_requested = neither = no_access = 0.0
        for t in range(self.weight.shape[0]):
            weight = self.weight[t]
            has_cores = cores_left >= self.cores[t]
            if self.gpus[t] == 0:
                if has_cores:
                    no_gpu_requested += weight * left
                else:
                    neither += weight * left
                continue
            count, unusable, has_type = 0, 0, False
            for d in range(state.n_gpus):
                is_allowed = (state.gpu_type[n, d] & self.gpu_types[t]) != 0
                has_type = has_type or is_allowed
                if is_allowed and state.gpu_free[n, d] >= self.gpu_share[t]:
                    count += 1
                else:
                    unusable += state.gpu_free[n, d]
            if not has_type:
                no_access += weight * left
            elif count >= self.gpus[t]:
                if has_cores:
                    lacks_gpus += weight * unusable
                else:
                    lacks_cores += weight * left
            elif has_cores:
                lacks_gpus += weight * left
            else:
                lacks_both += weight * left
        return lacks_both + lacks_gpus + lacks_cores + no_gpu_requested + neither + no_access

    def after_whole_gpus(self, state: NodeState, k: int, n: int, cores_left: int) -> float:
        """The fragmentation after the first free GPUs are taken."""
        wanted, d, taken = state.kinds.gpus[k], 0, 0
        while wanted > 0:
            if state.offers(k, n, d):
                state.gpu_free[n, d] = 0
                taken |= ONE << d
                wanted -= 1
            d += 1
        after = self.fragmentation(state, cores_left, n)
        for d in range(state.n_gpus):
            if (taken >> d) & ONE:
                state.gpu_free[n, d] = WHOLE
        return after

    def best_descent(self, state: NodeState, k: int, n: int, in_steps: bool) -> tuple[float, int]:
        """The score of the node, and the GPU of which to take a part, or NONE."""
        kinds = state.kinds
        before = self.fragmentation(state, state.free[n, CORES], n)
        cores_left = state.free[n, CORES] - kinds.need[k, CORES]
        if kinds.gpus[k] == 0:
            return descent(before, self.fragmentation(state, cores_left, n), in_steps), NONE
        if kinds.gpu_share[k] == WHOLE:
            after = self.after_whole_gpus(state, k, n, cores_left)
            return descent(before, after, in_steps), NONE
        best_score, best = -1.0, NONE
        for d in range(state.n_gpus):
            if state.offers(k, n, d) and not has_twin(state, n, d):
                state.gpu_free[n, d] -= kinds.gpu_share[k]
                score = descent(before, self.fragmentation(state, cores_left, n), in_steps)
                state.gpu_free[n, d] += kinds.gpu_share[k]
                if score > best_score:
                    best_score, best = score, d
        return best_score, best

    def write_descents(self, state: NodeState, in_steps: bool, k: int, which: Ints, scores: Floats2) -> None:
        """Write the scores of the nodes in `which` to row k of `scores`."""
        for x in range(which.shape[0]):
            n = which[x]
            if state.fit[k, n]:
                scores[k, n] = self.best_descent(state, k, n, in_steps)[0]

    def gpu(self, state: NodeState, in_steps: bool, k: int, n: int) -> int:
        """The GPU of which to take a part on node n, or NONE."""
        return self.best_descent(state, k, n, in_steps)[1]

    def write_fragmentation(self, state: NodeState, which: Ints, found: Floats) -> None:
        """Write what is fragmented on the nodes in `which`, in thousandths of a GPU."""
        for x in range(which.shape[0]):
            n = which[x]
            found[n] = self.fragmentation(state, state.free[n, CORES], n)
