"""Compiled run-time estimators, which return the same values as `scheduler.free_nodes.runtime_estimates`."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.compiled import Floats, Floats2, Ints, part

USER, ACTUAL, HISTORY = range(3)
"""Who estimates: users, a clairvoyant that knows the run times, or `RecentRuns`."""

LAST_RUNS = 2
MORE_S = tuple(60.0 * minutes for minutes in (1, 5, 15, 30, 60, 120, 300, 600, 1200, 3000, 6000))
"""Seconds added at the first correction, the second, and so on; the last one repeatedly."""
_LAST_MORE = len(MORE_S) - 1
SHORTEST_S = 1e-3
"""Shorter estimates count as this one: a run is expected to end after it starts."""


class EstimateTable(NamedTuple):
    """The inputs of the estimators: columns by slot of a job, then by user."""

    limit_s: Floats  # the user's estimate
    user: Ints  # -1 if unknown
    n_corrections: Ints
    last_s: Floats2  # (users, LAST_RUNS) run times, the earlier one first
    n_last: Ints  # how many of these there are


@part
def first_estimate_s(e: EstimateTable, by: int, limit_s: float, known_s: float, user: int) -> float:
    """Of a job that arrives; `known_s` is what a clairvoyant knows."""
    if by == ACTUAL:
        return known_s
    if by == HISTORY and user >= 0 and e.n_last[user] == LAST_RUNS:
        return float(min((e.last_s[user, 0] + e.last_s[user, 1]) / LAST_RUNS, limit_s))
    return limit_s


@part
def outlived_s(e: EstimateTable, by: int, slot: int, ran_s: float) -> float:
    """A new estimate for a run that exceeds its last one."""
    limit_s = float(e.limit_s[slot])
    if by != HISTORY or ran_s >= limit_s:
        return 2.0 * ran_s
    more_s = MORE_S[min(e.n_corrections[slot], _LAST_MORE)]
    e.n_corrections[slot] += 1
    return float(min(ran_s + more_s, limit_s))


@part
def learn(e: EstimateTable, by: int, slot: int, ran_s: float) -> None:
    """Add a completed run."""
    user = e.user[slot]
    if by != HISTORY or user < 0:
        return
    if e.n_last[user] < LAST_RUNS:
        e.last_s[user, e.n_last[user]] = ran_s
        e.n_last[user] += 1
    else:
        e.last_s[user, 0] = e.last_s[user, 1]
        e.last_s[user, 1] = ran_s
