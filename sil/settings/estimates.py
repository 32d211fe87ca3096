"""What replays choose from: engines, and run-time estimates."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.model import Job
    from scheduler.ports import RuntimeEstimator


class Engine(StrEnum):
    AUTO = "auto"  # compiled where it can, and the log is not short
    HARNESS = "harness"  # event by event, for all schedulers
    COMPILED = "compiled"  # built-in schedulers on identical processors


class Estimates(StrEnum):
    USER = "user"  # what users requested
    ACTUAL = "actual"  # actual run times
    HISTORY = "history"  # the mean of the user's last two run times


class Clairvoyant:
    """Estimates the actual run times, `run_s`, and leaves everything else to another estimator."""

    def __init__(self, other: RuntimeEstimator, run_s: Callable[[Job], float]) -> None:
        self._other = other
        self._run_s = run_s

    def estimate_s(self, job: Job) -> float:
        return self._run_s(job)

    def outlived_s(self, job: Job, ran_s: float) -> float:
        return self._other.outlived_s(job, ran_s)

    def learn(self, job: Job, ran_s: float) -> None:
        self._other.learn(job, ran_s)


def run_times_by(estimates: Estimates, run_s: Callable[[Job], float]) -> RuntimeEstimator:
    """The estimator of that name; `run_s` gives actual run times."""
    # Imported here, since `sil --help` needs only the names.
    from scheduler.free_nodes.runtime_estimates import RecentRuns, UserEstimates

    match estimates:
        case Estimates.USER:
            return UserEstimates()
        case Estimates.HISTORY:
            return RecentRuns()
        case Estimates.ACTUAL:
            return Clairvoyant(UserEstimates(), run_s)
