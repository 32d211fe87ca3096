"""`sil/Mapping-v0`: which job of a batch is mapped next, and to which machine?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from scheduler import UserError
from scheduler.mapping.problem import MappingProblem
from sil.declared import whole_number
from sil.gym.environments import Numbers, Observation, Options, Single, Vector, reward_of
from sil.runs.policies import MappingPass

MAX_WORK, MAX_SLOWNESS = 3_000.0, 1_000.0
"""The upper limits of the matrices that are drawn: Braun et al. 2001, of high heterogeneity, inconsistent."""


@dataclass(frozen=True)
class Placed:
    """A step of each environment, in columns: whether it mapped a job; when that is completed; the makespan
    of the batch before and after the step; and the number of jobs in the batch."""

    mapped: NDArray[np.bool_]
    completed_s: Numbers
    makespan_before_s: Numbers
    makespan_s: Numbers
    jobs: NDArray[np.int64]


Reward = Callable[[Placed], Numbers]


def turnaround_time(steps: Placed) -> Numbers:
    """Minus the completion of the job, in seconds, / jobs of the batch: in all, minus the mean."""
    return np.where(steps.mapped, -steps.completed_s / steps.jobs, 0.0)


def makespan(steps: Placed) -> Numbers:
    """Minus what the makespan grows by, in seconds: in all, minus the makespan."""
    return steps.makespan_before_s - steps.makespan_s


REWARDS = {reward.__name__: reward for reward in (turnaround_time, makespan)}


class Mapping(Single):
    """A batch of jobs with an ETC matrix. In each step, one of the first jobs is mapped to a machine
    (docs/how-to/reinforcement-learning.md)."""

    def __init__(self, *, render_mode: str | None = None, **settings: Any) -> None:
        """For the settings and errors see `MappingBatch`."""
        super().__init__(MappingBatch(1, **settings), render_mode)


class MappingVector(Vector):
    """Many of `Mapping`."""

    def __init__(self, num_envs: int, **settings: Any) -> None:
        """For the settings and errors see `MappingBatch`."""
        super().__init__(MappingBatch(num_envs, **settings))


class MappingBatch:
    """`n` batches of jobs, each for idle machines.

    * `etc`: expected seconds of jobs (rows) on machines (columns), infinite where a job cannot run: a matrix,
      several, of which each episode draws one, or a function that makes one with a random generator. By
      default one of `jobs` x `machines` is drawn, of high heterogeneity (Braun et al. 2001).
    * `window`: how many jobs, the first that are not mapped yet, are seen.
    * `reward`: a name in `REWARDS`, or a function of `Placed`.

    Raises UserError for settings that do not fit.
    """

    def __init__(
        self,
        n: int,
        *,
        etc: ArrayLike | Sequence[ArrayLike] | Callable[[np.random.Generator], ArrayLike] | None = None,
        jobs: int = 128,
        machines: int = 16,
        window: int = 16,
        reward: str | Reward = "turnaround_time",
    ) -> None:
        self.n, self.window = whole_number(n, "num_envs"), whole_number(window, "window")
        self._reward = reward_of(reward, REWARDS, "Placed", self.n)
        self._matrix = _matrices(etc, whole_number(jobs, "jobs"), whole_number(machines, "machines"))
        m = self._n_machines = self._matrix(np.random.default_rng(0)).shape[1]
        self.observation_space = spaces.Dict(
            {
                "jobs": spaces.Box(0.0, 1.0, (window, m), np.float32),
                "machine": spaces.Box(0.0, 1.0, (m + 1,), np.float32),
                "action_mask": spaces.MultiBinary(window * m),
            }
        )
        self.action_space = spaces.Discrete(window * m)
        nothing = MappingProblem.from_matrix(np.zeros((0, m)))
        self._passes = [MappingPass(nothing, window)] * n
        self._makespan_s, self._jobs = np.zeros(n), np.ones(n, np.int64)
        self._last, self._is_invalid = np.full((n, 2), -1), np.zeros(n, np.bool_)

    @property
    def seen(self) -> Observation:
        each = [going.seen for going in self._passes]
        return {name: np.concatenate([seen[name] for seen in each]) for name in each[0]}

    @property
    def over(self) -> NDArray[np.bool_]:
        return np.array([going.is_over for going in self._passes])

    @property
    def info(self) -> Observation:
        """The makespan so far; the job that was mapped, and its machine, or -1; and whether the mask excluded
        the action."""
        job, machine = self._last.T.copy()
        invalid = self._is_invalid.copy()
        return {"makespan_s": self._makespan_s.copy(), "job": job, "machine": machine, "invalid": invalid}

    def begin(self, at: int, rng: np.random.Generator, options: Options) -> None:
        if options:
            raise UserError(f"option {min(options)!r} of reset is unknown; there is none")
        etc_s = self._matrix(rng)
        if etc_s.shape[1] != self._n_machines:
            raise UserError(
                f"an ETC matrix has {etc_s.shape[1]} machines, and the first one {self._n_machines}; "
                "expected as many"
            )
        self._passes[at] = MappingPass(MappingProblem.from_matrix(etc_s), self.window)
        self._makespan_s[at], self._jobs[at] = 0.0, len(etc_s)
        self._last[at], self._is_invalid[at] = -1, False

    def act(self, actions: NDArray[np.int64], acting: NDArray[np.bool_]) -> Numbers:
        before_s, completed_s = self._makespan_s.copy(), np.zeros(self.n)
        self._last[:], self._is_invalid[:] = -1, False
        for at in np.flatnonzero(acting).tolist():
            going, action = self._passes[at], int(actions[at])
            self._is_invalid[at] = not going.is_valid(action)
            self._last[at] = _, j = going.act(action)
            completed_s[at] = going.placer.machine_s[j]
        self._makespan_s = np.maximum(before_s, completed_s)
        steps = Placed(acting, completed_s, before_s, self._makespan_s.copy(), self._jobs.copy())
        return np.where(acting, self._reward(steps), 0.0)


def _matrices(etc: Any, jobs: int, machines: int) -> Callable[[np.random.Generator], Numbers]:
    if etc is None:
        return lambda rng: (
            rng.uniform(1.0, MAX_WORK, (jobs, 1)) * rng.uniform(1.0, MAX_SLOWNESS, (jobs, machines))
        )
    if callable(etc):
        return lambda rng: _checked(etc(rng))
    several = [_checked(etc)] if np.ndim(etc[0]) == 1 else [_checked(each) for each in etc]
    return lambda rng: several[rng.integers(len(several))]


def _checked(etc: ArrayLike) -> Numbers:
    etc_s = np.array(etc, dtype=np.float64)
    if etc_s.ndim != 2 or not etc_s.size or np.isnan(etc_s).any() or (etc_s < 0).any():
        raise UserError("etc is no ETC matrix; expected a row for each job, with seconds >= 0 or infinite")
    if len(nowhere := np.flatnonzero(np.isinf(etc_s).all(axis=1))):
        raise UserError(
            f"job {nowhere[0]} of an ETC matrix can run nowhere; expected a finite number in each row"
        )
    return etc_s
