"""The baseline of bench_gym, and the reference of its tests: `sil/Backfill-v0` in plain Python with NumPy.

As one would write it: lists of waiting and running jobs, and an observation of those in the window. Episodes,
observations and rewards (minus bounded slowdown) are the same.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Mapping
from heapq import heappop, heappush
from math import inf, log1p

import numpy as np
from numpy.typing import NDArray

from sil.workload.job_log import JobLog

LONGEST_S = 365 * 86_400.0
HORIZONS_S = (600.0, 3_600.0, 14_400.0, 86_400.0)

Seen = Mapping[str, NDArray[np.float32] | NDArray[np.int8]]


class PlainBackfill:
    """One environment, with the jobs of a log as an episode."""

    def __init__(self, log: JobLog, window: int) -> None:
        submit_s, run_s, size, estimate_s = log.jobs.select("submit_s", "run_s", "processors", "estimate_s")
        self._submit_s, self._run_s, self._size = submit_s.to_list(), run_s.to_list(), size.to_list()
        self._estimate_s = [max(time_s, 1e-3) for time_s in estimate_s.fill_null(LONGEST_S)]
        self._window, self._n_nodes = window, log.processors
        self._shown = [
            (size / log.processors, scaled(estimate_s))
            for size, estimate_s in zip(self._size, self._estimate_s, strict=True)
        ]

    def reset(self) -> Seen:
        self._now_s, self._free, self._next, self._n_runs = 0.0, self._n_nodes, 0, 0
        self._waiting: list[int] = []
        self._ends: list[tuple[float, int, int]] = []  # when it ends, run, job
        self._expected: list[tuple[float, int, int]] = []  # when it is expected to end, run, job
        self._of_run: dict[int, tuple[float, float]] = {}  # when it began, when it is expected to end
        self._until_asked()
        return self._observation()

    def step(self, action: int) -> tuple[Seen, float, bool]:
        """The observation, the reward, and whether the episode is over."""
        row, reward = self._chosen(action), 0.0
        if row is not None:
            job = self._waiting.pop(row)
            waited_s, run_s = self._now_s - self._submit_s[job], self._run_s[job]
            reward = -max((waited_s + run_s) / max(run_s, 10.0), 1.0) / len(self._submit_s)
            self._start(job)
        if row is None or not self._something_fits():
            self._until_asked()
        return self._observation(), reward, self._is_over

    @property
    def _is_over(self) -> bool:
        return self._next == len(self._submit_s) and not self._waiting and not self._ends

    def _something_fits(self) -> bool:
        return any(self._size[job] <= self._free for job in self._waiting[: self._window])

    def _chosen(self, action: int) -> int | None:
        seen = self._waiting[: self._window]
        if 0 <= action < len(seen) and self._size[seen[action]] <= self._free:
            return action
        if self._ends:
            return None
        return next(row for row, job in enumerate(seen) if self._size[job] <= self._free)

    def _start(self, job: int) -> None:
        run, end_s = self._n_runs, self._now_s + self._estimate_s[job]
        self._n_runs += 1
        self._free -= self._size[job]
        heappush(self._ends, (self._now_s + self._run_s[job], run, job))
        insort(self._expected, (end_s, run, job))
        self._of_run[run] = self._now_s, end_s

    def _until_asked(self) -> None:
        """At each instant, runs end, others exceed their estimates, and jobs arrive."""
        while not self._is_over:
            arrives_s = self._submit_s[self._next] if self._next < len(self._submit_s) else inf
            ends_s = self._ends[0][0] if self._ends else inf
            expected_s = self._expected[0][0] if self._expected else inf
            self._now_s = now_s = min(arrives_s, ends_s, expected_s)
            while self._ends and self._ends[0][0] == now_s:
                _, run, job = heappop(self._ends)
                _, end_s = self._of_run.pop(run)
                del self._expected[bisect(self._expected, (end_s, run, -1))]
                self._free += self._size[job]
            while self._expected and self._expected[0][0] <= now_s:
                _, run, job = self._expected.pop(0)
                began_s, _ = self._of_run[run]
                later_s = max(began_s + 2 * (now_s - began_s), now_s + 1.0)
                insort(self._expected, (later_s, run, job))
                self._of_run[run] = began_s, later_s
            while self._next < len(self._submit_s) and self._submit_s[self._next] == now_s:
                self._waiting.append(self._next)
                self._next += 1
            if self._something_fits():
                return

    def _observation(self) -> Seen:
        window, n = self._window, float(self._n_nodes)
        jobs, mask = np.zeros((window, 5), np.float32), np.zeros(window + 1, np.int8)
        machine = np.zeros(8, np.float32)
        if self._is_over:
            mask[window] = 1
            return {"jobs": jobs, "machine": machine, "action_mask": mask}
        reserved_s, spare = self._reservation()
        for row, job in enumerate(self._waiting[:window]):
            size, takes_s = self._size[job], self._estimate_s[job]
            fits = size <= self._free
            in_time = row == 0 or size <= spare or self._now_s + takes_s <= reserved_s
            waited_s = self._now_s - self._submit_s[job]
            jobs[row] = *self._shown[job], scaled(waited_s), fits, fits and in_time
            mask[row] = fits
        mask[window] = bool(self._ends)
        n_waiting = len(self._waiting)
        machine[:2] = self._free / n, n_waiting / (n_waiting + window)
        machine[2:4] = scaled(reserved_s - self._now_s), spare / n
        for k, horizon_s in enumerate(HORIZONS_S):
            released = (
                self._size[job] for end_s, _, job in self._expected if end_s <= self._now_s + horizon_s
            )
            machine[4 + k] = (self._free + sum(released)) / n
        return {"jobs": jobs, "machine": machine, "action_mask": mask}

    def _reservation(self) -> tuple[float, int]:
        """When the first waiting job fits by the estimates, and how many nodes are spare then."""
        then_s, free = self._now_s, self._free
        needed = self._size[self._waiting[0]] if self._waiting else 0
        for end_s, _, job in self._expected:
            if free >= needed and end_s > then_s:
                break
            then_s, free = max(then_s, end_s), free + self._size[job]
        return then_s, free - needed


def scaled(time_s: float) -> float:
    return min(log1p(max(time_s, 0.0)) / log1p(LONGEST_S), 1.0)
