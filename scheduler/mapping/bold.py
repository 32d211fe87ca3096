"""BOLD: batches of jobs for machines that are idle, the smaller the fewer are left."""

from __future__ import annotations

from math import ceil, inf, log, pi, sqrt

import numpy as np

from scheduler.core.arrays import Flags
from scheduler.mapping.placer import MappingPlacer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule

WAITS = "all machines that can run it have a batch; it is for one that asks for the next"


class Bold:
    """BOLD: each idle machine gets a batch of jobs, a smaller one the fewer are left.

    A large batch saves delays of dispatch, a small one evens out run times that differ. A machine asks for
    its next batch when it has completed one, so that actual times count; the others wait, in queue order.
    Mean and deviation of times are those of the expected ones on available machines, the deviation with
    `variation` (actual times around them, relative) added; `delay_s` is that of a dispatch. O(n m). Ties go
    to the lowest machine index. Source: Hagerup 1997, named by Collins and George 2001, section 2.2.
    """

    def __init__(self, delay_s: float = 1.0, variation: float = 0.0) -> None:
        if not (0 <= delay_s < inf and 0 <= variation < inf):
            raise ValueError(f"delay_s ({delay_s:g}) and variation ({variation:g}) are zero or more")
        self._delay_s, self._variation = delay_s, variation
        self._batches: dict[int, tuple[int, float]] = {}
        """The size of each machine's batch, and when it got it."""

    def schedule(self, problem: MappingProblem) -> Schedule:
        placer, now_s, delay_s = MappingPlacer(problem), problem.now_s, self._delay_s
        mean_s, deviation_s = self._times(problem)
        able = np.isfinite(problem.machine_etc_s)
        available = np.isfinite(placer.machine_s)
        is_left: Flags = np.logical_or.reduce(able[:, available], axis=1)
        busy = set(np.flatnonzero(available & (placer.machine_s > now_s)).tolist())
        self._batches = {j: batch for j, batch in self._batches.items() if j in busy}
        for j in np.flatnonzero(placer.machine_s <= now_s).tolist():
            n_left, batches = int(is_left.sum()), self._batches.values()
            n_out = sum(size for size, _ in batches)
            n_done = sum(size * (now_s - from_s) / (size * mean_s + delay_s) for size, from_s in batches)
            left = n_left, n_left + n_out, n_left + n_out - n_done
            size = batch_size(left, int(available.sum()), mean_s, deviation_s, delay_s)
            batch = np.flatnonzero(is_left & able[:, j])[:size].tolist()
            for i in batch:
                placer.place(i, j)
                is_left[i] = False
            if batch:
                self._batches[j] = len(batch), now_s
        for i in np.flatnonzero(is_left).tolist():
            placer.leave(i, WAITS)
        return placer.schedule()

    def _times(self, problem: MappingProblem) -> tuple[float, float]:
        """Mean and deviation of the times of the jobs on the machines that are available."""
        ready = problem.ready_times
        classes = problem.etc.resource_class_of[: ready.n_machines][np.isfinite(ready.machine_s)]
        times_s = problem.etc.by_class_s
        counts = (
            np.bincount(of, minlength=n)
            for of, n in zip((problem.etc.job_class_of, classes), times_s.shape, strict=True)
        )
        weights = np.where(np.isfinite(times_s), np.outer(*counts), 0)
        if not weights.any():
            return 0.0, 0.0
        known_s = np.where(weights > 0, times_s, 0.0)
        mean_s = float(np.average(known_s, weights=weights))
        spread_s = float(np.average((known_s - mean_s) ** 2, weights=weights))
        return mean_s, sqrt(spread_s + (self._variation * mean_s) ** 2)


def batch_size(
    left: tuple[int, int, float], n_machines: int, mean_s: float, deviation_s: float, delay_s: float
) -> int:
    """How many jobs a machine gets. `left` are the jobs that are not assigned, those in no complete batch,
    and the estimate of those that have not ended."""
    n_left, n_unfinished, n_estimated = left
    of_each = n_left / n_machines
    if of_each <= 1.0 or mean_s <= 0.0:
        return 1
    most_left = max(n_left, n_estimated)
    most = most_left / n_machines
    a = 2.0 * (deviation_s / mean_s) ** 2
    b = 8.0 * a * log(8.0 * a) if a > 0.0 else 0.0
    delay = delay_s / (mean_s * log(2.0))
    share = of_each / (b + of_each)
    later = n_left / (1.0 + 1.0 / log(of_each) - share)
    if later <= sqrt(2.0 * pi) * delay:
        return ceil(most)
    steps = log(share * log(of_each)) + log(b) if b > 0.0 else log(log(of_each))
    s = 0.0
    if a > 0.0:
        s = inf
        if delay > 0.0:
            s = a * log(later / (sqrt(2.0 * pi) * delay)) * (1.0 + n_unfinished / (most_left * n_machines))
    # Equal to most + s / 2 - sqrt(s (most + s / 4)), without its cancellation.
    even = most**2 / (most + s / 2.0 + sqrt(s * (most + s / 4.0)))
    return max(1, ceil(min(most, max(0.0, delay * steps) + even)))
