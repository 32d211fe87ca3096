"""The transitions that need estimates, for callers without an estimator: these are made of what the queue
keeps of jobs and users."""

from __future__ import annotations

from scheduler.compiled import part
from scheduler.free_nodes.kernels import transitions
from scheduler.free_nodes.kernels.estimates import first_estimate_s, learn, outlived_s
from scheduler.free_nodes.kernels.queues import ESTIMATES_BY, Q
from scheduler.free_nodes.kernels.transitions import NONE, overdue, takes_longer


@part
def arrived(
    q: Q, job: int, size: int, kind: int, limit_s: float, known_s: float, user: int, now_s: float
) -> int:
    """See `transitions.arrived`. The estimate is made of the user's limit, or is what a clairvoyant knows."""
    e = q.estimates
    estimate_s = first_estimate_s(e, q.policy[ESTIMATES_BY], limit_s, known_s, user)
    slot = transitions.arrived(q, job, size, kind, estimate_s, now_s)
    e.limit_s[slot], e.user[slot], e.n_corrections[slot] = limit_s, user, 0
    return int(slot)


@part
def ended(q: Q, slot: int, now_s: float) -> None:
    """See `transitions.ended`."""
    learn(q.estimates, q.policy[ESTIMATES_BY], slot, now_s - q.began_s[slot])
    transitions.ended(q, slot)


@part
def time_passed(q: Q, now_s: float) -> None:
    """Estimate the runs again that should have ended by now."""
    slot = overdue(q, now_s)
    while slot != NONE:
        ran_s = now_s - q.began_s[slot]
        takes_longer(q, slot, outlived_s(q.estimates, q.policy[ESTIMATES_BY], slot, ran_s), now_s)
        slot = overdue(q, now_s)
    transitions.time_passed(q, now_s)
