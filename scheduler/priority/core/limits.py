"""How far the limits of a policy are used.

Source: `_validate_tres_usage_limits` in Slurm's acct_policy.c, `_apply_new_usage` in priority_multifactor.c.
"""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Ints, floats, integers, larger
from scheduler.core.codes import NODES, NONE, SUBMITTED, TO_RUN, USED, WALL_SAFELY

ROUNDING, OF_A_MINUTE = 1e-9, 1e-6
"""Sums are compared with limits up to this share of them, and are full minutes up to this part of one."""


class LimitUse:
    """Jobs with equal claims count for the same limits: rows from `first_row` of the claim until that of the
    next one, each with a `limit`, an `amount`, and whether the limit `binds` the job. Minutes count times the
    `factor` of the claim, by its time limit `limit_s`.

    By number of a limit: what it `bounds`, how `most`, what is `used` of it now, and, where that decays, what
    was used in the `past`. By slot: the claim, and the share of its minutes that a run has `left`.

    A node counts once for a limit of nodes, whatever runs `on` it: by limit and node, in how many parts.
    Claims that count for such a limit are `of_nodes`.
    """

    def __init__(self) -> None:
        self.n_claims, self.n_rows, self.n_limits = 0, 0, 0
        self.first_row, self.limit, self.amount = integers(MIN_SIZE + 1), integers(MIN_SIZE), floats(MIN_SIZE)
        self.binds, self.factor, self.limit_s = integers(MIN_SIZE), floats(MIN_SIZE), floats(MIN_SIZE)
        self.most, self.used, self.past = floats(MIN_SIZE), floats(MIN_SIZE), floats(MIN_SIZE)
        self.bounds, self.claim, self.left = integers(MIN_SIZE), integers(MIN_SIZE), floats(MIN_SIZE)
        self.on, self.of_nodes = np.zeros((0, 0), np.int64), np.zeros(MIN_SIZE, np.uint8)

    def add(self, most: float, bounds: int, past: float) -> int:
        """A new limit. Returns its number."""
        n = self.n_limits
        if n == self.most.shape[0]:
            self.most, self.used = larger(self.most, 2 * n), larger(self.used, 2 * n)
            self.past, self.bounds = larger(self.past, 2 * n), larger(self.bounds, 2 * n)
        self.most[n], self.bounds[n], self.past[n] = most, bounds, past
        if bounds == NODES and n >= self.on.shape[0]:
            self.on = larger(self.on, 2 * n + 1)
        self.n_limits = n + 1
        return n

    def add_claim(self, factor: float, limit_s: float) -> int:
        """A new claim, to which `add_row` adds. Returns its number."""
        n = self.n_claims
        if n == self.factor.shape[0]:
            self.factor, self.limit_s = larger(self.factor, 2 * n), larger(self.limit_s, 2 * n)
            self.first_row, self.of_nodes = larger(self.first_row, 2 * n + 1), larger(self.of_nodes, 2 * n)
        self.factor[n], self.limit_s[n] = factor, limit_s
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
        if self.bounds[limit] == NODES:
            self.of_nodes[self.n_claims - 1] = True

    def arrives(self, slot: int, claim: int) -> None:
        if slot >= self.claim.shape[0]:
            n = max(2 * self.claim.shape[0], slot + 1)
            self.claim, self.left = larger(self.claim, n), larger(self.left, n)
        self.claim[slot] = claim
        self.count(slot, True, 1)

    def exceeds(self, limit: int, more: float) -> bool:
        """Whether a limit would be exceeded by `more`; minutes count when they are full, as in Slurm."""
        bounds = self.bounds[limit]
        if bounds <= SUBMITTED:
            return self.used[limit] + more > self.most[limit] * (1.0 + ROUNDING)
        past, used = int(self.past[limit] + OF_A_MINUTE), int(self.used[limit] + OF_A_MINUTE)
        if bounds != TO_RUN and past >= self.most[limit]:
            return True
        return bounds != USED and past + used + more > self.most[limit] * (1.0 + ROUNDING)

    def first_exceeded(self, claim: int, of_submitted: bool) -> int:
        """The first limit that a job has reached, but for those of nodes."""
        for x in range(self.first_row[claim], self.first_row[claim + 1]):
            limit = self.limit[x]
            bounds = self.bounds[limit]
            if not self.binds[x] or bounds == NODES or (bounds == SUBMITTED) != of_submitted:
                continue
            if self.exceeds(limit, self.amount[x]):
                return limit
        return NONE

    def first_exceeded_on(self, claim: int, nodes: Ints, begin: int, after: int) -> int:
        """The first limit of nodes that a job would exceed on these, which are together where they are equal;
        or, without any, on nodes of which none counts yet."""
        if not self.of_nodes[claim]:
            return NONE
        for x in range(self.first_row[claim], self.first_row[claim + 1]):
            limit, n_new = self.limit[x], 0
            if not self.binds[x] or self.bounds[limit] != NODES:
                continue
            for y in range(begin, after):
                n_new += self.on[limit, nodes[y]] == 0 and (y == begin or nodes[y] != nodes[y - 1])
            if self.exceeds(limit, n_new if begin < after else self.amount[x]):
                return limit
        return NONE

    def change(self, slot: int, claim: int) -> None:
        """A waiting job has another claim from now on."""
        if claim != self.claim_of(slot):
            self.count(slot, True, -1)
            self.claim[slot] = claim
            self.count(slot, True, 1)

    def claim_of(self, slot: int) -> int:
        """The claim of a job; 0 where there are none."""
        return self.claim[slot] if slot < self.claim.shape[0] else 0

    def counts_on(self, claim: int, node: int) -> bool:
        """Whether a node counts already for a limit of nodes that binds a job."""
        for x in range(self.first_row[claim], self.first_row[claim + 1]):
            if self.binds[x] and self.bounds[self.limit[x]] == NODES and self.on[self.limit[x], node] > 0:
                return True
        return False

    def count_on(self, claim: int, node: int, sign: int) -> None:
        """Count what a job has on a node (1), or no longer has there (-1)."""
        for x in range(self.first_row[claim], self.first_row[claim + 1]):
            limit = self.limit[x]
            if self.bounds[limit] == NODES:
                self.used[limit] -= self.on[limit, node] > 0
                self.on[limit, node] += sign
                self.used[limit] += self.on[limit, node] > 0

    def counted(self, x: int, claim: int) -> float:
        """How much a run counts for the limit of a row."""
        bounds = self.bounds[self.limit[x]]
        if bounds in (NODES, USED, WALL_SAFELY):
            return 0.0
        return self.amount[x] * (self.factor[claim] if bounds > SUBMITTED else 1.0)

    def count(self, slot: int, of_submitted: bool, sign: int) -> None:
        """Count a job that starts or arrives (1), or no longer counts (-1)."""
        claim = self.claim[slot]
        if sign > 0:
            self.left[slot] = 1.0
        for x in range(self.first_row[claim], self.first_row[claim + 1]):
            bounds = self.bounds[self.limit[x]]
            if (bounds == SUBMITTED) == of_submitted:
                part = self.left[slot] if bounds > SUBMITTED else 1.0
                self.used[self.limit[x]] += sign * self.counted(x, claim) * part

    def runs(self, slot: int, took_s: float, decayed_s: float) -> None:
        """A run goes on for some time, which counts as `decayed_s` in what was used."""
        if self.n_rows == 0:
            return
        claim = self.claim[slot]
        passed = min(took_s / self.limit_s[claim], self.left[slot])
        self.left[slot] -= passed
        for x in range(self.first_row[claim], self.first_row[claim + 1]):
            limit = self.limit[x]
            bounds = self.bounds[limit]
            if bounds > SUBMITTED:
                self.used[limit] -= passed * self.counted(x, claim)
            if bounds > TO_RUN:
                used = self.amount[x] * self.factor[claim] * decayed_s
                self.past[limit] += used / self.limit_s[claim]

    def decay(self, by: float) -> None:
        """What was used counts less."""
        for limit in range(self.n_limits):
            self.past[limit] *= by

    def table(self, claim: int) -> list[tuple[int, float, float, int]]:
        """The limits for which a claim counts once it runs, its amounts, what it counts for then, and whether
        they bind it."""
        rows = range(self.first_row[claim], self.first_row[claim + 1])
        return [
            (self.limit[x], self.amount[x], self.counted(x, claim), self.binds[x])
            for x in rows
            if self.bounds[self.limit[x]] != SUBMITTED
        ]
