"""A policy that maps jobs to machines one by one, as a scheduler for machines."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduler.mapping.placer import Placer
from scheduler.mapping.problem import MappingProblem
from scheduler.model import Schedule
from scheduler.rules import Kind
from sil.policy.asking import Policy

Floats = NDArray[np.float64]


class MappingPass:
    """Maps the jobs of a problem one by one, each to a machine.

    The policy sees the first jobs of the `window` that can run somewhere and are not mapped yet. Times are
    shown as t / (t + mean), by the mean of all finite expected times: 0 for no time, 1 for infinite.
    """

    def __init__(self, problem: MappingProblem, window: int) -> None:
        self.placer = Placer(problem)
        self.etc_s, self._window = problem.machine_etc_s, window
        self._can_run = np.isfinite(self.etc_s) & np.isfinite(self.placer.machine_s)
        self._left = np.flatnonzero(self._can_run.any(axis=1))
        finite = self.etc_s[np.isfinite(self.etc_s)]
        self._mean_s = float(finite.mean()) if len(finite) else 1.0

    @property
    def is_over(self) -> bool:
        return not len(self._left)

    @property
    def seen(self) -> dict[str, NDArray[Any]]:
        """The observation: arrays with one row."""
        window, ready_s = self._window, self.placer.machine_s
        rows, m = self._left[:window], len(ready_s)
        jobs, mask = np.zeros((window, m), np.float32), np.zeros((window, m), np.int8)
        jobs[: len(rows)], mask[: len(rows)] = self._scaled(self.etc_s[rows]), self._can_run[rows]
        if not len(rows):
            mask[0] = 1  # nothing happens, whatever is done
        left = len(self._left) / (len(self._left) + window)
        machine = np.append(self._scaled(ready_s - ready_s.min(initial=np.inf)), left).astype(np.float32)
        return {"jobs": jobs[None], "machine": machine[None], "action_mask": mask.reshape(1, -1)}

    def is_valid(self, action: int) -> bool:
        """Whether the mask includes it."""
        row, j = divmod(action, len(self.placer.machine_s))
        return 0 <= row < min(len(self._left), self._window) and bool(self._can_run[self._left[row], j])

    def act(self, action: int) -> tuple[int, int]:
        """Map a job: the job and its machine. An action that the mask excludes maps the first job, to the
        machine that completes it first."""
        row, j = divmod(action, len(self.placer.machine_s))
        if not self.is_valid(action):
            row, j = 0, int((self.placer.machine_s + self.etc_s[self._left[0]]).argmin())
        i = int(self._left[row])
        self.placer.place(i, j)
        self._left = np.delete(self._left, row)
        return i, j

    def _scaled(self, times_s: Floats) -> Floats:
        finite_s = np.where(np.isfinite(times_s), times_s, 0.0)
        return np.where(np.isfinite(times_s), finite_s / (finite_s + self._mean_s), 1.0)


class MappingPolicy:
    """Asks a policy job by job: which job is mapped next, and to which machine, until all are.

    It sees what `sil/Mapping-v0` shows, and an action that the mask excludes means the same as there. Jobs
    that can run nowhere now wait; none is mapped to a cluster.
    """

    kind = Kind.MAPPING

    def __init__(self, policy: Policy, window: int) -> None:
        self._policy, self._window = policy, window

    def schedule(self, problem: MappingProblem) -> Schedule:
        going = MappingPass(problem, self._window)
        while not going.is_over:
            going.act(self._policy.action(going.seen))
        return going.placer.schedule()
