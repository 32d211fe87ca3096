"""Run-time estimates of rigid jobs: from their users, or from their users' recent runs."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

from scheduler.model import ANYONE, Job, JobId

LONGEST_S = 365.0 * 86_400.0
"""The estimate of a job without a user's estimate, in seconds: a year."""

LAST_RUNS = 2
MORE_S = tuple(60.0 * minutes for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))
"""Seconds added at the first correction, the second, and so on; the last one repeatedly."""


class UserEstimates:
    """Estimates a job by its user's estimate, or by LONGEST_S without one."""

    def estimate_s(self, job: Job) -> float:
        return LONGEST_S if job.estimate_s is None else job.estimate_s

    def outlived_s(self, job: Job, ran_s: float) -> float:
        """Double the time that it has run."""
        return 2.0 * ran_s

    def learn(self, job: Job, ran_s: float) -> None: ...


class RecentRuns:
    """Estimates a job by the mean run time of its user's last two jobs, limited by the user's estimate.

    Without two completed runs, or a known user, it is the user's estimate. The estimate of a run that exceeds
    it is raised by 1 min, then 5, 15, 30 min, 1, 2, 5, 10, 20, 50 and 100 hours, limited by the user's
    estimate. Source: Tsafrir, Etsion and Feitelson, "Backfilling Using System-Generated Predictions Rather
    than User Runtime Estimates", TPDS 18 (2007)."""

    def __init__(self) -> None:
        self._users = UserEstimates()
        self._last_s: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=LAST_RUNS))
        self._corrections: Counter[JobId] = Counter()

    def estimate_s(self, job: Job) -> float:
        self._corrections.pop(job.id, None)  # from a run that failed
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
