"""The order in which waiting jobs are served, and which of them wait whatever is free."""

from __future__ import annotations

from math import inf

from scheduler.core.arrays import MIN_SIZE, floats, integers, larger
from scheduler.core.codes import NONE
from scheduler.priority.core.fair_share import FairShare

HIGHEST = 2.0**32 - 1
"""The highest priority of a job, in Slurm."""
FIRST = 2**60
"""Is above all tiers with their priorities."""
ROUNDING = 1e-9
"""Sums of parts of resources are compared with limits up to this share of them."""


class Service:
    """Jobs are served in order of arrival, without limits."""

    def __init__(self) -> None:
        self.next_claim = 0

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
        """The first limit for which a job has to wait, or NONE."""
        return NONE

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
    `tier`, whose jobs are served before those of lower ones, and the same usage by second (`rate`). They
    count for the same limits: rows from `first_row` of the claim until that of the next one, each with a
    `limit`, an `amount`, and whether the limit `binds` the job. `used` of a limit is at most its `most`, as
    far as it binds; `of_submitted` jobs, it refuses those that arrive, and otherwise lets jobs wait.
    """

    def __init__(self, fair: FairShare, age: float, max_age_s: float, fair_share: float) -> None:
        """`age` and `fair_share` are the weights of these factors."""
        Service.__init__(self)
        self.fair, self.age, self.max_age_s, self.fair_share = fair, age, max_age_s, fair_share
        self.n_claims, self.n_rows, self.n_limits = 0, 0, 0
        self.association, self.fixed, self.rate = integers(MIN_SIZE), floats(MIN_SIZE), floats(MIN_SIZE)
        self.tier = integers(MIN_SIZE)
        self.first_row, self.limit, self.amount = integers(MIN_SIZE + 1), integers(MIN_SIZE), floats(MIN_SIZE)
        self.binds = integers(MIN_SIZE)
        self.most, self.used, self.of_submitted = floats(MIN_SIZE), floats(MIN_SIZE), integers(MIN_SIZE)
        self.claim, self.since_s = integers(MIN_SIZE), floats(MIN_SIZE)
        self.is_first = integers(MIN_SIZE)
        """By slot: whether the job is served before all others, since runs were stopped for it."""
        self.calculated_s = -inf

    def add_limit(self, most: float, of_submitted: bool) -> int:
        """A new limit. Returns its number."""
        n = self.n_limits
        if n == self.most.shape[0]:
            self.most, self.used = larger(self.most, 2 * n), larger(self.used, 2 * n)
            self.of_submitted = larger(self.of_submitted, 2 * n)
        self.most[n], self.of_submitted[n] = most, of_submitted
        self.n_limits = n + 1
        return n

    def add_claim(self, association: int, fixed: float, rate: float, tier: int) -> int:
        """A new claim, to which `add_row` adds. Returns its number."""
        n = self.n_claims
        if n == self.fixed.shape[0]:
            self.association, self.fixed = larger(self.association, 2 * n), larger(self.fixed, 2 * n)
            self.tier = larger(self.tier, 2 * n)
            self.rate, self.first_row = larger(self.rate, 2 * n), larger(self.first_row, 2 * n + 1)
        self.association[n], self.fixed[n], self.rate[n] = association, fixed, rate
        self.tier[n] = tier
        self.n_claims = n + 1
        self.first_row[n + 1] = self.n_rows
        return n

    def add_row(self, limit: int, amount: float, binds: bool) -> None:
        """The newest claim counts for a limit, too."""
        n = self.n_rows
        if n == self.limit.shape[0]:
            self.limit, self.amount = larger(self.limit, 2 * n), larger(self.amount, 2 * n)
            self.binds = larger(self.binds, 2 * n)
        self.limit[n], self.amount[n], self.binds[n] = limit, amount, binds
        self.n_rows = n + 1
        self.first_row[self.n_claims] = n + 1

    def arrives(self, slot: int, now_s: float) -> None:
        if slot >= self.claim.shape[0]:
            n = max(2 * self.claim.shape[0], slot + 1)
            self.claim, self.since_s = larger(self.claim, n), larger(self.since_s, n)
            self.is_first = larger(self.is_first, n)
        self.claim[slot], self.since_s[slot], self.is_first[slot] = self.next_claim, now_s, False
        self.count(self.next_claim, True, 1)

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
        return self.is_first[slot] * FIRST + (self.tier[self.claim[slot]] << 32) + self.priority(slot)

    def charged(self, slot: int) -> int:
        return self.association[self.claim[slot]]

    def priority(self, slot: int) -> int:
        """The priority of a waiting job, in Slurm's numbers."""
        claim, found = self.claim[slot], 0.0
        if self.age != 0:
            found += self.age * self.age_factor(slot)
        if self.fair_share != 0:
            found += self.fair_share * self.fair.factor_of(self.association[claim])
        return int(min(max(found + self.fixed[claim], 1.0), HIGHEST))

    def exceeds(self, limit: int, more: float) -> bool:
        """Whether a limit would be exceeded by `more`."""
        return self.used[limit] + more > self.most[limit] * (1.0 + ROUNDING)

    def first_exceeded(self, claim: int, of_submitted: bool) -> int:
        for x in range(self.first_row[claim], self.first_row[claim + 1]):
            limit = self.limit[x]
            if not self.binds[x] or self.of_submitted[limit] != of_submitted:
                continue
            if self.exceeds(limit, self.amount[x]):
                return limit
        return NONE

    def count(self, claim: int, of_submitted: bool, sign: int) -> None:
        for x in range(self.first_row[claim], self.first_row[claim + 1]):
            if self.of_submitted[self.limit[x]] == of_submitted:
                self.used[self.limit[x]] += sign * self.amount[x]

    def refusing(self) -> int:
        return self.first_exceeded(self.next_claim, True)

    def reached(self, slot: int) -> int:
        return self.first_exceeded(self.claim[slot], False)

    def take(self, slot: int, sign: int) -> None:
        self.count(self.claim[slot], False, sign)

    def begins(self, slot: int, now_s: float) -> None:
        claim = self.claim[slot]
        self.fair.begins(slot, self.association[claim], self.rate[claim], now_s)

    def ends(self, slot: int, now_s: float) -> None:
        self.fair.ends(slot, now_s)
        self.leaves(slot)

    def leaves(self, slot: int) -> None:
        self.count(self.claim[slot], True, -1)

    def table(self, claim: int) -> list[tuple[int, float, int]]:
        """The limits for which a claim counts once it runs, its amounts, and whether they bind it."""
        rows = range(self.first_row[claim], self.first_row[claim + 1])
        return [
            (self.limit[x], self.amount[x], self.binds[x])
            for x in rows
            if not self.of_submitted[self.limit[x]]
        ]
