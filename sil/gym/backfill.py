"""`sil/Backfill-v0`: which of the waiting jobs starts next?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from scheduler import UserError
from scheduler.core.identical import IdenticalNodes
from sil.api.logs import given_log
from sil.declared import choice, whole_number
from sil.gym.environments import Numbers, Observation, Options, Single, Vector, reward_of
from sil.outcome.jobs import BOUND_S
from sil.runs.compiled import CODES, keep_ineligible
from sil.settings.log_events import Events
from sil.settings.replays import Estimates
from sil.workload.job_log import JobLog
from sil.world.core.asking import PolicyAnswers, PolicyLoop
from sil.world.core.codes import ALL_ENDED, GOES_ON, N_OF_JOB, N_OF_MACHINE, NO_JOB, STUCK
from sil.world.core.engine import ranks
from sil.world.core.jobs import RigidJobs
from sil.world.core.observation import Views
from sil.world.events import ORDERS

HELD_OUT, BEGIN = "held_out", "begin"
"""Options of a reset."""


class Episodes:
    """Each has `jobs` consecutive jobs of a log of rigid jobs on identical processors. A share of the log,
    its jobs from `n_training` on, is held out. Raises UserError for a log or numbers that do not fit."""

    def __init__(self, log: object, jobs: int, held_out: float) -> None:
        self.log, self.jobs = given_log(log), jobs
        name, n = self.log.name, len(self.log)
        if self.log.cluster is not None:
            raise UserError(
                f"{name}: its jobs request parts of nodes, but the environment has identical processors, "
                "on which the agent decides who is served; give a log without nodes and policy"
            )
        if not 0 <= held_out < 1:
            raise UserError(f"held_out is {held_out!r}; expected a share of the log from 0 to less than 1")
        sizes, most = self.log.jobs["processors"].to_numpy(), self.log.processors
        if len(unfit := np.flatnonzero((sizes < 1) | (sizes > most))):
            number, size = self.log.jobs["job"][int(unfit[0])], sizes[unfit[0]]
            raise UserError(
                f"{name}: job {number} requests {size:,} processors, but the machine has {most:,}; "
                "leave such jobs out"
            )
        self.n_training = n - round(held_out * n)
        for part, size in (("training", self.n_training), ("held-out", n - self.n_training)):
            if size < jobs and (part == "training" or size):
                raise UserError(
                    f"{name}: its {part} part has {size:,} jobs, and an episode {jobs:,}; expected "
                    "fewer jobs in an episode, a longer log, or another held_out"
                )

    def drawn(self, rng: np.random.Generator, options: Mapping[str, Any]) -> int:
        """The place of the first job of an episode. Raises UserError for unknown options, and for a part of
        the log that does not exist."""
        n, last = len(self.log), self.n_training - self.jobs
        if unknown := options.keys() - {HELD_OUT, BEGIN}:
            raise UserError(f"option {min(unknown)!r} of reset is unknown; expected {HELD_OUT} or {BEGIN}")
        if BEGIN in options:
            if not 0 <= options[BEGIN] <= n - self.jobs:
                raise UserError(
                    f"an episode of {self.jobs:,} jobs cannot begin at job {options[BEGIN]} of {n:,}; "
                    f"expected a place from 0 to {n - self.jobs:,}"
                )
            return int(options[BEGIN])
        if not options.get(HELD_OUT):
            return int(rng.integers(last + 1))
        if self.n_training == n:
            raise UserError("no job is held out; make the environment with held_out=0.2, for example")
        return int(rng.integers(self.n_training, n - self.jobs + 1))


@dataclass(frozen=True)
class Steps:
    """A step of each environment, in columns, which the next step overwrites; times are seconds of the log.

    * `started`: whether its action started a job; if so, `wait_s`, `run_s` and `processors` are those of the
      job, otherwise 0.
    * `asked_s`, `now_s`: the times of its action, and of the next one or the end of the episode.
    * `is_last`: whether the episode has ended, and all its jobs.
    * `jobs`, `work_s`, `begin_s`: of the episode: its number of jobs, their processor-seconds, and when the
      first is submitted. `machine` is the number of processors.
    """

    started: NDArray[np.bool_]
    wait_s: Numbers
    run_s: Numbers
    processors: NDArray[np.int64]
    asked_s: Numbers
    now_s: Numbers
    is_last: NDArray[np.bool_]
    jobs: NDArray[np.int64]
    work_s: Numbers
    begin_s: Numbers
    machine: int


Reward = Callable[[Steps], Numbers]
"""The reward of a step of each environment."""


def bounded_slowdown(steps: Steps) -> Numbers:
    """When a job starts, minus its bounded slowdown / jobs of the episode: in all, minus the mean."""
    slowdown = (steps.wait_s + steps.run_s) / np.maximum(steps.run_s, BOUND_S)
    return np.where(steps.started, -np.maximum(slowdown, 1.0) / steps.jobs, 0.0)


def waiting_time(steps: Steps) -> Numbers:
    """When a job starts, minus its waiting time in seconds / jobs of the episode: in all, minus the mean."""
    return -steps.wait_s / steps.jobs


def utilisation(steps: Steps) -> Numbers:
    """The utilisation of the episode in percent, in its last step."""
    capacity_s = steps.machine * np.maximum(steps.now_s - steps.begin_s, np.finfo(np.float64).tiny)
    return np.where(steps.is_last, 100.0 * steps.work_s / capacity_s, 0.0)


REWARDS: Mapping[str, Reward] = {
    reward.__name__: reward for reward in (bounded_slowdown, waiting_time, utilisation)
}


_FACTS = 64
"""The capacity for facts at first: those of one step."""


@dataclass(frozen=True)
class BackfillSettings:
    """
    * `log`: of rigid jobs, for identical processors.
    * `window`: how many waiting jobs, the first to arrive, are seen.
    * `reward`: a name in `REWARDS`, or a function of `Steps`.
    * `jobs`: the number of consecutive jobs in an episode, which begins with an idle machine.
    * `held_out`: the share of the log, its last jobs, of which episodes have none, unless
      `reset(options={"held_out": True})` asks for it.
    * `estimates`: "user", "actual" or "history", as in `sil.replay`.
    """

    log: JobLog
    window: int = 128
    reward: str | Reward = "bounded_slowdown"
    jobs: int = 256
    held_out: float = 0.2
    estimates: str = "user"


class Backfill(Single):
    """Rigid jobs of a log on identical processors. In each step, one of the first waiting jobs starts, or
    all wait for the next arrival or end of a job (docs/how-to/reinforcement-learning.md)."""

    def __init__(self, log: JobLog, *, render_mode: str | None = None, **settings: Any) -> None:
        """For the settings see `BackfillSettings`. Raises UserError for a log or settings that do not fit."""
        super().__init__(BackfillBatch(1, BackfillSettings(log, **settings)), render_mode)


class BackfillVector(Vector):
    """Many of `Backfill`, which go on in one compiled call."""

    def __init__(self, num_envs: int, log: JobLog, **settings: Any) -> None:
        """See `Backfill`."""
        super().__init__(BackfillBatch(num_envs, BackfillSettings(log, **settings)))


class BackfillBatch:
    """`n` episodes with jobs of a log."""

    def __init__(self, n: int, settings: BackfillSettings) -> None:
        """Raises UserError for settings that do not fit."""
        log, window = settings.log, whole_number(settings.window, "window")
        self.n, self.window = whole_number(n, "num_envs"), window
        self.episodes = Episodes(log, whole_number(settings.jobs, "jobs"), settings.held_out)
        self._reward = reward_of(settings.reward, REWARDS, "Steps", n)
        self._by = CODES[choice(Estimates, settings.estimates, "estimates")]
        self.observation_space = spaces.Dict(
            {
                "jobs": spaces.Box(0.0, 1.0, (window, N_OF_JOB), np.float32),
                "machine": spaces.Box(0.0, 1.0, (N_OF_MACHINE,), np.float32),
                "action_mask": spaces.MultiBinary(window + 1),
            }
        )
        self.action_space = spaces.Discrete(window + 1)
        self._jobs = RigidJobs.of(log.jobs)
        self._log_jobs = log.jobs["job"].to_numpy()
        self._work_s = np.concatenate([[0.0], np.cumsum(self._jobs.size * self._jobs.run_s)])
        self._replays: list[PolicyLoop | None] = [None] * n
        self._views = Views(n, window, log.processors)
        self._answers = PolicyAnswers(n)
        self._numbers = a = self._answers.numbers
        self._begin = np.zeros(n, np.int64)
        self._steps = Steps(
            np.zeros(n, np.bool_),
            a["wait_s"],
            a["run_s"],
            a["size"],
            a["asked_s"],
            a["now_s"],
            np.zeros(n, np.bool_),
            np.full(n, self.episodes.jobs),
            np.zeros(n),
            np.zeros(n),
            log.processors,
        )

    @property
    def seen(self) -> Observation:
        return self._views.seen

    @property
    def over(self) -> NDArray[np.bool_]:
        return np.asarray(self._numbers["state"] == ALL_ENDED)

    @property
    def info(self) -> Observation:
        """When an episode is; its jobs, `log[begin:end]`; the number of the job that the action started, or
        -1; and whether the mask excluded the action."""
        a, begin = self._numbers, self._begin.copy()
        job = np.where(a["job"] != NO_JOB, self._log_jobs[begin + a["job"]], NO_JOB)
        span = {"begin": begin, "end": begin + self.episodes.jobs}
        return {"time_s": a["now_s"].copy(), **span, "job": job, "invalid": a["is_excluded"].copy()}

    def begin(self, at: int, rng: np.random.Generator, options: Options) -> None:
        a, n_nodes = self._numbers, self.episodes.log.processors
        begin = self.episodes.drawn(rng, options)
        end = begin + self.episodes.jobs
        jobs, log = self._jobs.between(begin, end), self.episodes.log
        self._replays[at] = replay = PolicyLoop(
            jobs, IdenticalNodes(n_nodes), ranks(ORDERS["default"]), self._by, _FACTS
        )
        closed_loop = Events().of_eligibility(log[begin:end]) if log.after else None
        keep_ineligible(replay, closed_loop, self._log_jobs[begin:end], ())
        self._begin[at], self._steps.begin_s[at] = begin, self._jobs.submit_s[begin]
        self._steps.work_s[at] = self._work_s[end] - self._work_s[begin]
        a["job"][at], a["is_excluded"][at], a["state"][at] = NO_JOB, False, GOES_ON
        self._go_on()

    def act(self, actions: NDArray[np.int64], acting: NDArray[np.bool_]) -> Numbers:
        a, steps = self._numbers, self._steps
        np.copyto(a["action"], actions, where=acting)
        self._go_on()
        np.not_equal(a["job"], NO_JOB, out=steps.started)
        np.equal(a["state"], ALL_ENDED, out=steps.is_last)
        rewards = self._reward(steps)
        return rewards if acting.all() else np.where(acting, rewards, 0.0)

    def _go_on(self) -> None:
        """Go on until all episodes ask or are over."""
        self._answers.give(self._replays, self._views)
        if (self._numbers["state"] == STUCK).any():
            raise AssertionError("jobs remain that fit on an idle machine, and nothing can happen")
