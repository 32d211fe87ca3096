"""What is believed of run times of rigid jobs: what their users say, or what their users' last jobs took."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

from scheduler.model import ANYONE

if TYPE_CHECKING:
    from scheduler.model import Job, JobId

LONGEST_S = 365.0 * 86_400.0
"""Believed of a job of which nobody says anything."""


class UserEstimates:
    """A job runs as long as its user says, who asks for so much; the longest where nothing is said."""

    def estimate_s(self, job: Job) -> float:
        return LONGEST_S if job.estimate_s is None else job.estimate_s

    def outlived_s(self, job: Job, ran_s: float) -> float:
        """It should be over by now; twice as long is believed."""
        return 2.0 * ran_s

    def learn(self, job: Job, ran_s: float) -> None:
        """Users do not change their minds."""


LAST_RUNS = 2
MORE_S = tuple(60.0 * minutes for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))
"""What is added at the first correction, the second, and so on; the last, again and again."""


class RecentRuns:
    """A job runs as long as its user's last two jobs did on average, and never longer than the user says.

    Where the user has no two runs that ended, or is not known, what the user says is believed. A run that
    outlives this is believed to go on for another minute, then 5, 15, 30 min, 1, 2, 5, 10, 20, 50 and 100
    hours, never longer than the user says. Source: Tsafrir, Etsion and Feitelson, "Backfilling Using
    System-Generated Predictions Rather than User Runtime Estimates", TPDS 18 (2007).
    """

    def __init__(self) -> None:
        self._users = UserEstimates()
        self._last_s: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=LAST_RUNS))
        self._corrections: Counter[JobId] = Counter()

    def estimate_s(self, job: Job) -> float:
        self._corrections.pop(job.id, None)  # of a run that was lost
        last_s, limit_s = self._last_s[job.user], self._users.estimate_s(job)
        return min(sum(last_s) / LAST_RUNS, limit_s) if len(last_s) == LAST_RUNS else limit_s

    def outlived_s(self, job: Job, ran_s: float) -> float:
        limit_s = self._users.estimate_s(job)
        if ran_s >= limit_s:
            return self._users.outlived_s(job, ran_s)
        more_s = MORE_S[min(self._corrections[job.id], len(MORE_S) - 1)]
        self._corrections[job.id] += 1
        return min(ran_s + more_s, limit_s)

    def learn(self, job: Job, ran_s: float) -> None:
        if job.user != ANYONE:
            self._last_s[job.user].append(ran_s)
        del self._corrections[job.id]
