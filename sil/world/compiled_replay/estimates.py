"""Compiled run-time estimators, which return the same values as those in Python.

They are users, a clairvoyant that knows the run times, and `RecentRuns` of `scheduler.free_nodes`.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

from scheduler.compiled import Floats2, Ints, part
from scheduler.free_nodes.runtime_estimates import LAST_RUNS, MORE_S

USER, ACTUAL, HISTORY = range(3)
"""Who estimates."""

_LAST_MORE = len(MORE_S) - 1


class EstimateTable(NamedTuple):
    """What the estimators remember."""

    by: Ints
    """Who estimates."""
    n_corrections: Annotated[Ints, "jobs"]
    last_s: Annotated[Floats2, "users", LAST_RUNS]
    """Run times, the earlier one first."""
    n_last: Annotated[Ints, "users"]
    """How many of these there are."""


@part
def first_estimate_s(e: EstimateTable, limit_s: float, run_s: float, user: int) -> float:
    """Of a job that arrives, with the user's estimate `limit_s`; the user is -1 if unknown."""
    if e.by[0] == ACTUAL:
        return run_s
    if e.by[0] == HISTORY and user >= 0 and e.n_last[user] == LAST_RUNS:
        return float(min((e.last_s[user, 0] + e.last_s[user, 1]) / LAST_RUNS, limit_s))
    return limit_s


@part
def outlived_s(e: EstimateTable, job: int, limit_s: float, ran_s: float) -> float:
    """A new estimate for a run that exceeds its last one."""
    if e.by[0] != HISTORY or ran_s >= limit_s:
        return 2.0 * ran_s
    more_s = MORE_S[min(e.n_corrections[job], _LAST_MORE)]
    e.n_corrections[job] += 1
    return float(min(ran_s + more_s, limit_s))


@part
def learn(e: EstimateTable, user: int, ran_s: float) -> None:
    """Add a completed run."""
    if e.by[0] != HISTORY or user < 0:
        return
    if e.n_last[user] < LAST_RUNS:
        e.last_s[user, e.n_last[user]] = ran_s
        e.n_last[user] += 1
    else:
        e.last_s[user, 0] = e.last_s[user, 1]
        e.last_s[user, 1] = ran_s
