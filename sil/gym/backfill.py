"""`sil/Backfill-v0`: which of the waiting jobs starts next?"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from scheduler.compiled import handle
from scheduler.free_nodes.kernels.backfilling import FCFS, NO_BACKFILLING
from scheduler.free_nodes.kernels.observation import N_OF_JOB, N_OF_MACHINE
from scheduler.free_nodes.kernels.queues import RigidQueue
from scheduler.free_nodes.queues.arrays import QueuePolicy
from scheduler.free_nodes.queues.identical import larger_rigid_queue, new_rigid_queue
from scheduler.free_nodes.queues.views import new_views, observation_of
from sil.api.settings import choice
from sil.gym.environments import Observation, Options, Single, Vector
from sil.gym.episodes import Episodes
from sil.gym.rewards import REWARDS, Reward, Steps
from sil.gym.settings import positive, reward_of
from sil.settings.estimates import Estimates
from sil.workload.job_log import JobLog
from sil.world.compiled_replay.asking import (
    ASKS,
    GOES_ON,
    NO_ANSWER,
    NO_JOB,
    answer_all,
)
from sil.world.compiled_replay.engine import EmptyQueue, Jobs, Running
from sil.world.compiled_replay.loop import ALL_ENDED
from sil.world.events import ORDERS

_FACTS = 64
"""Room for facts at first: those of one step."""


class Backfill(Single):
    """Rigid jobs of a log on identical processors. In each step, one of the first waiting jobs starts, or
    all wait for the next arrival or end of a job (docs/how-to/reinforcement-learning.md)."""

    def __init__(self, log: JobLog, **settings: Any) -> None:
        """For the settings and errors see `BackfillBatch`."""
        super().__init__(BackfillBatch(1, log, **settings))


class BackfillVector(Vector):
    """Many of `Backfill`, which go on in one compiled call."""

    def __init__(self, num_envs: int, log: JobLog, **settings: Any) -> None:
        """For the settings and errors see `BackfillBatch`."""
        super().__init__(BackfillBatch(num_envs, log, **settings))


class BackfillBatch:
    """So many episodes with jobs of a log.

    * `window`: how many waiting jobs, the first to arrive, are seen.
    * `reward`: a name in `rewards.REWARDS`, or a function of `rewards.Steps`.
    * `jobs`: the number of consecutive jobs in an episode, which begins with an idle machine.
    * `held_out`: the share of the log, its last jobs, of which episodes have none, unless
      `reset(options={"held_out": True})` asks for it.
    * `estimates`: "user", "actual" or "history", as in `sil.replay`.

    Raises UserError for a log or settings that do not fit.
    """

    def __init__(
        self,
        n: int,
        log: JobLog,
        *,
        window: int = 128,
        reward: str | Reward = "bounded_slowdown",
        jobs: int = 256,
        held_out: float = 0.2,
        estimates: str = "user",
    ) -> None:
        self.n, self.window = positive(n, "num_envs"), positive(window, "window")
        self.episodes = Episodes.of(log, positive(jobs, "jobs"), held_out)
        self._reward = reward_of(reward, REWARDS, "Steps")
        by = list(Estimates).index(choice(Estimates, estimates, "estimates"))
        self._policy = QueuePolicy(FCFS, NO_BACKFILLING, by, always_called=False)
        self.observation_space = spaces.Dict(
            {
                "jobs": spaces.Box(0.0, 1.0, (window, N_OF_JOB), np.float32),
                "machine": spaces.Box(0.0, 1.0, (N_OF_MACHINE,), np.float32),
                "action_mask": spaces.MultiBinary(window + 1),
            }
        )
        self.action_space = spaces.Discrete(window + 1)
        self._jobs = Jobs.of(log.jobs)
        self._log_jobs = log.jobs["job"].to_numpy()
        self._work_s = np.concatenate([[0.0], np.cumsum(self._jobs.size * self._jobs.run_s)])
        self._running: list[Running[RigidQueue] | None] = [None] * n
        self._views = new_views(n, window, log.processors)
        self._handles = np.zeros((n, 3), np.int64)
        self._kept: list[Any] = [None] * n
        """The handles, which are also addresses."""
        self._states = np.full(n, ALL_ENDED)
        self._begin, self._started = np.zeros(n, np.int64), np.full(n, NO_JOB)
        self._now_s, self._is_invalid = np.zeros(n), np.zeros(n, np.bool_)

    @property
    def seen(self) -> Observation:
        return observation_of(self._views)

    @property
    def over(self) -> NDArray[np.bool_]:
        return np.asarray(self._states == ALL_ENDED)

    @property
    def info(self) -> Observation:
        """When an episode is; its jobs, `log[begin:end]`; the number of the job that the action started, or
        -1; and whether the mask excluded the action."""
        has_started = self._started != NO_JOB
        numbers = np.where(has_started, self._log_jobs[self._begin + self._started], NO_JOB)
        begin, end = self._begin.copy(), self._begin + self.episodes.jobs
        times = {"time_s": self._now_s.copy(), "begin": begin, "end": end}
        return {**times, "job": numbers, "invalid": self._is_invalid.copy()}

    def begin(self, at: int, rng: np.random.Generator, options: Options) -> None:
        begin = self.episodes.drawn(rng, options)
        jobs = self._jobs.between(begin, begin + self.episodes.jobs)
        n_nodes = self.episodes.log.processors
        queue = new_rigid_queue(n_nodes, self._policy, self._jobs.n_users)
        empty = EmptyQueue(queue, n_nodes, larger_rigid_queue)
        self._running[at] = Running(jobs, empty, ORDERS["default"], _FACTS)
        self._begin[at], self._started[at], self._is_invalid[at] = begin, NO_JOB, False
        self._states[at] = GOES_ON
        self._describe(at)
        self._go_on(np.full(self.n, NO_ANSWER))

    def act(self, actions: NDArray[np.int64], acting: NDArray[np.bool_]) -> NDArray[np.float64]:
        inside = (actions >= 0) & (actions <= self.window)
        known = np.where(inside, actions, self.window)
        self._is_invalid = acting & ~(inside & self._views.mask[np.arange(self.n), known])
        asked_s = self._now_s.copy()
        self._started[:] = NO_JOB
        self._go_on(np.where(acting, known, NO_ANSWER))
        return np.where(acting, self._reward(self._steps(asked_s)), 0.0)

    def _steps(self, asked_s: NDArray[np.float64]) -> Steps:
        has_started, size = self._started != NO_JOB, self.episodes.jobs
        jobs, begin = self._begin + self._started, self._begin
        wait_s = asked_s - self._jobs.submit_s[jobs]
        return Steps(
            has_started,
            np.where(has_started, wait_s, 0.0),
            np.where(has_started, self._jobs.run_s[jobs], 0.0),
            np.where(has_started, self._jobs.size[jobs], 0),
            asked_s,
            self._now_s.copy(),
            self.over,
            np.full(self.n, size),
            self._work_s[begin + size] - self._work_s[begin],
            self._jobs.submit_s[begin],
            self.episodes.log.processors,
        )

    def _go_on(self, actions: NDArray[np.int64]) -> None:
        """With these answers, until all episodes ask or are over."""
        while True:
            answer_all(self._handles, self._views, actions, self._states, self._started, self._now_s)
            interrupted = np.flatnonzero((self._states != ASKS) & (self._states != ALL_ENDED))
            if not len(interrupted):
                return
            for at in interrupted.tolist():
                running = self._running[at]
                assert running is not None
                if not running.make_room(int(self._states[at])):
                    raise AssertionError("jobs remain that fit on an idle machine, and nothing can happen")
                self._describe(at)

    def _describe(self, at: int) -> None:
        """The records of an episode are new, or larger ones."""
        running = self._running[at]
        assert running is not None
        self._kept[at] = [handle(running.site), handle(running.queue), handle(running.facts)]
        self._handles[at] = self._kept[at]
