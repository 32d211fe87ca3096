"""The order in which waiting jobs are served, and which of them wait whatever is free."""

from __future__ import annotations

from math import inf

from scheduler.core.arrays import MIN_SIZE, floats, integers, larger
from scheduler.core.codes import NONE, SUBMITTED
from scheduler.priority.core.fair_share import FairShare
from scheduler.priority.core.limits import LimitUse

HIGHEST = 2.0**32 - 1
"""The highest priority of a job, in Slurm."""
FIRST = 2**60
"""Is above all tiers with their priorities."""


class Service:
    """Jobs are served in order of arrival, without `limits`."""

    def __init__(self) -> None:
        self.next_claim, self.limits = 0, LimitUse()

    def arrives(self, slot: int, now_s: float) -> None:
        """Note that a job with the `next_claim` waits in a slot."""

    def calculate(self, now_s: float) -> bool:
        """Calculate priorities again, if that is due. Returns whether it was."""
        return False

    def next_s(self) -> float:
        """When priorities are calculated next."""
        return inf

    def order(self, slot: int) -> int:
        """A number by which jobs are served: larger ones first."""
        return 0

    def charged(self, slot: int) -> int:
        """The association to which a waiting job is charged, or NONE."""
        return NONE

    def refusing(self) -> int:
        """The first limit of submitted jobs that refuses a job with the `next_claim`, or NONE."""
        return NONE

    def reached(self, slot: int) -> int:
        """The first limit for which a job has to wait wherever it would run, or NONE."""
        return NONE

    def is_held(self, slot: int) -> bool:
        """Whether a job has to wait for a limit until another one ends or leaves."""
        return False

    def take(self, slot: int, sign: int) -> None:
        """Count a job that starts (1), or is over or does not start after all (-1), for its limits."""

    def begins(self, slot: int, now_s: float) -> None:
        """A run begins."""

    def ends(self, slot: int, now_s: float) -> None:
        """A run ends."""

    def leaves(self, slot: int) -> None:
        """A job no longer counts as submitted."""


class ByPolicy(Service):
    """Jobs are served by priority, and wait while they would exceed a limit.

    Jobs with equal claims have the same association, the same `fixed` part of their priorities, the same
    `tier`, whose jobs are served before those of lower ones, the same usage by second (`rate`), and count
    for the same `limits`. By slot, `is_first`: whether the job is served before all others, since runs were
    stopped for it.
    """

    def __init__(self, fair: FairShare, age: float, max_age_s: float, fair_share: float) -> None:
        """`age` and `fair_share` are the weights of these factors."""
        Service.__init__(self)
        self.fair, self.age, self.max_age_s, self.fair_share = fair, age, max_age_s, fair_share
        self.limits = fair.limits
        self.association, self.fixed, self.rate = integers(MIN_SIZE), floats(MIN_SIZE), floats(MIN_SIZE)
        self.tier, self.since_s, self.is_first = integers(MIN_SIZE), floats(MIN_SIZE), integers(MIN_SIZE)
        self.calculated_s = -inf

    def describe(self, claim: int, association: int, fixed: float, rate: float, tier: int) -> None:
        """Note what jobs with the newest claim have."""
        if claim >= self.fixed.shape[0]:
            n = 2 * claim
            self.association, self.fixed = larger(self.association, n), larger(self.fixed, n)
            self.tier, self.rate = larger(self.tier, n), larger(self.rate, n)
        self.association[claim], self.fixed[claim], self.rate[claim] = association, fixed, rate
        self.tier[claim] = tier

    def arrives(self, slot: int, now_s: float) -> None:
        if slot >= self.since_s.shape[0]:
            n = max(2 * self.since_s.shape[0], slot + 1)
            self.since_s, self.is_first = larger(self.since_s, n), larger(self.is_first, n)
        self.since_s[slot], self.is_first[slot] = now_s, False
        self.limits.arrives(slot, self.next_claim)

    def calculate(self, now_s: float) -> bool:
        self.fair.calculate(now_s)
        if self.fair.last_s == self.calculated_s:
            return False
        self.calculated_s = self.fair.last_s
        return True

    def next_s(self) -> float:
        return self.fair.next_s()

    def age_factor(self, slot: int) -> float:
        """The factor of age, when priorities were calculated last."""
        return min(max(self.fair.last_s - self.since_s[slot], 0.0) / self.max_age_s, 1.0)

    def serve_first(self, slot: int) -> None:
        """Serve a waiting job before all others, when the order is made again."""
        self.is_first[slot], self.calculated_s = True, -inf

    def order(self, slot: int) -> int:
        return self.is_first[slot] * FIRST + (self.tier[self.limits.claim[slot]] << 32) + self.priority(slot)

    def charged(self, slot: int) -> int:
        return self.association[self.limits.claim[slot]]

    def priority(self, slot: int) -> int:
        """The priority of a waiting job, in Slurm's numbers."""
        claim, found = self.limits.claim[slot], 0.0
        if self.age != 0:
            found += self.age * self.age_factor(slot)
        if self.fair_share != 0:
            found += self.fair_share * self.fair.factor_of(self.association[claim])
        return int(min(max(found + self.fixed[claim], 1.0), HIGHEST))

    def refusing(self) -> int:
        return self.limits.first_exceeded(self.next_claim, True)

    def reached(self, slot: int) -> int:
        return self.limits.first_exceeded(self.limits.claim[slot], False)

    def is_held(self, slot: int) -> bool:
        limit = self.reached(slot)
        if limit == NONE:
            return False
        if self.limits.bounds[limit] <= SUBMITTED:
            return True
        return self.fair.decay >= 1.0 and self.fair.n_running == 0 and self.fair.never_resets()

    def take(self, slot: int, sign: int) -> None:
        self.limits.count(slot, False, sign)

    def begins(self, slot: int, now_s: float) -> None:
        claim = self.limits.claim[slot]
        self.fair.begins(slot, self.association[claim], self.rate[claim], now_s)

    def ends(self, slot: int, now_s: float) -> None:
        self.fair.ends(slot, now_s)
        self.leaves(slot)

    def leaves(self, slot: int) -> None:
        self.limits.count(slot, True, -1)
