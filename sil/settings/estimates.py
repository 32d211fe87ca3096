"""What a scheduler believes of run times when a log is replayed."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import Job
    from scheduler.ports import RuntimeEstimator


class Estimates(StrEnum):
    USER = "user"  # what users asked for
    ACTUAL = "actual"  # the truth
    HISTORY = "history"  # the mean of the user's last two run times


class Clairvoyant:
    """Believes the truth, which `run_s` tells, and leaves all else to who believed before."""

    def __init__(self, believed: RuntimeEstimator, run_s: Callable[[Job], float]) -> None:
        self._believed = believed
        self._run_s = run_s

    def estimate_s(self, job: Job) -> float:
        return self._run_s(job)

    def outlived_s(self, job: Job, ran_s: float) -> float:
        return self._believed.outlived_s(job, ran_s)

    def learn(self, job: Job, ran_s: float) -> None:
        self._believed.learn(job, ran_s)


def run_times(estimates: Estimates, run_s: Callable[[Job], float]) -> RuntimeEstimator:
    """The beliefs of that name; `run_s` is the truth."""
    from scheduler.free_nodes.runtime_estimates import (  # `sil --help` needs the names alone
        RecentRuns,
        UserEstimates,
    )

    match estimates:
        case Estimates.USER:
            return UserEstimates()
        case Estimates.HISTORY:
            return RecentRuns()
        case Estimates.ACTUAL:
            return Clairvoyant(UserEstimates(), run_s)
