"""Rewards of `sil/Backfill-v0`: what a step pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sil.outcome.jobs import BOUND_S

Numbers = NDArray[np.float64]


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
    """In the last step, the utilisation of the episode in percent."""
    capacity_s = steps.machine * np.maximum(steps.now_s - steps.begin_s, np.finfo(np.float64).tiny)
    return np.where(steps.is_last, 100.0 * steps.work_s / capacity_s, 0.0)


REWARDS: Mapping[str, Reward] = {
    reward.__name__: reward for reward in (bounded_slowdown, waiting_time, utilisation)
}
