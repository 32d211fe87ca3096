"""The usage of associations, which decays, and their factors of fair share, as Slurm calculates both.

Sources: `priority_multifactor.c` and `fair_tree.c` of Slurm; <https://slurm.schedmd.com/fair_tree.html>,
<https://slurm.schedmd.com/classic_fair_share.html>.
"""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Floats, Ints, floats, integers, larger
from scheduler.core.codes import NONE
from scheduler.priority.core.limits import LimitUse

MIN_SCALE = 1e-200
"""Usage is multiplied out before the common factor of decay is smaller."""
DECAY = 0.693
"""Slurm's ln 2."""


class FairShare:
    """Associations are numbered so that accounts come before what is below them; 0 is the root.

    * `parent` of an association, `above` the nearest account above it that has shares of its own, whose share
      `norm` it divides with others (as a share of that account's, and of the root's: `of_all`).
    * `usage` of an association and all below it; times `scale`, which stands for all decay so far.
    * By slot of a run: its association, usage by second, and until when that was added, as rows `running`.
    * `resets_s`: when usage is set to 0, of which the first `n_reset` are over.
    * Of runs that have ended since the last calculation: `used_by` associations, how much they `used_last`.
    * `limits`: what runs use counts for these, too.
    """

    def __init__(self, tree: Ints, norm: Floats, of_all: Floats, usage: Floats, half_life_s: float) -> None:
        """`tree` has columns: parent, above, whether it is a user, whether its shares are its account's."""
        columns = np.ascontiguousarray(tree.T)
        self.parent, self.above, self.is_user, self.uses_parent = columns
        self.norm, self.of_all, self.usage = norm, of_all, usage
        self.n, self.scale, self.decay = len(norm), 1.0, 1.0 - DECAY / half_life_s
        self.n_users = int(columns[2].sum())
        self.dampening, self.is_tree = 1.0, True
        self.last_s, self.origin_s, self.period_s = -inf, 0.0, inf
        self.factor, self.level = floats(self.n), floats(self.n)
        self.effective = floats(self.n)
        self.effective[0] = 1.0
        self.n_running, self.running, self.place = 0, integers(MIN_SIZE), integers(MIN_SIZE)
        self.association, self.rate, self.since_s = integers(MIN_SIZE), floats(MIN_SIZE), floats(MIN_SIZE)
        self.first_below, self.below = integers(self.n + 1), integers(self.n)
        self.rank, self.untied_rank, self.is_ranked = 0, 0, False
        self.n_ended, self.used_by, self.used_last = 0, integers(MIN_SIZE), floats(MIN_SIZE)
        self.limits, self.resets_s, self.n_reset = LimitUse(), floats(0), 0
        self.order_below()

    def order_below(self) -> None:
        """Note what is below each association: accounts with Fairshare=parent pass what is below them to
        the account above."""
        for a in range(1, self.n):
            if self.is_user[a] or not self.uses_parent[a]:
                self.first_below[self.above[a]] += 1
        for a in range(self.n):
            self.first_below[a + 1] += self.first_below[a]
        for a in range(self.n - 1, 0, -1):
            if self.is_user[a] or not self.uses_parent[a]:
                self.first_below[self.above[a]] -= 1
                self.below[self.first_below[self.above[a]]] = a

    def resume(self, other: FairShare) -> None:
        """Go on from the usage of runs that have ended, and of others up to the last calculation."""
        self.usage, self.scale, self.effective = other.usage.copy(), other.scale, other.effective.copy()
        self.last_s, self.n_reset, self.n_ended = other.last_s, other.n_reset, other.n_ended
        self.used_by, self.used_last = other.used_by.copy(), other.used_last.copy()

    def next_s(self) -> float:
        """When priorities are calculated next."""
        return self.origin_s if self.last_s == -inf else self.last_s + self.period_s

    def used_since(self, slot: int, now_s: float) -> float:
        """Count for limits what a run used since the last calculation. Returns its usage."""
        took_s = max(now_s - max(self.since_s[slot], self.last_s), 0.0)
        decayed_s = took_s * self.decay**took_s
        self.limits.runs(slot, took_s, decayed_s)
        return self.rate[slot] * decayed_s

    def add(self, a: int, used: float) -> None:
        """Add usage to an association and all above it."""
        while a != NONE:
            self.usage[a] += used / self.scale
            a = self.parent[a]

    def begins(self, slot: int, association: int, rate: float, now_s: float) -> None:
        """A run begins, which uses `rate` in a second."""
        if slot >= self.place.shape[0]:
            n = max(2 * self.place.shape[0], slot + 1)
            self.running, self.place = larger(self.running, n), larger(self.place, n)
            self.association, self.rate = larger(self.association, n), larger(self.rate, n)
            self.since_s = larger(self.since_s, n)
        self.association[slot], self.rate[slot], self.since_s[slot] = association, rate, now_s
        self.running[self.n_running], self.place[slot] = slot, self.n_running
        self.n_running += 1

    def ends(self, slot: int, now_s: float) -> None:
        """A run ends: what it used since the last calculation counts from the next one on."""
        self.calculate(now_s)
        n = self.n_ended
        if n == self.used_by.shape[0]:
            self.used_by, self.used_last = larger(self.used_by, 2 * n), larger(self.used_last, 2 * n)
        self.used_by[n], self.used_last[n] = self.association[slot], self.used_since(slot, now_s)
        self.n_ended = n + 1
        self.n_running -= 1
        last = self.running[self.n_running]
        self.running[self.place[slot]], self.place[last] = last, self.place[slot]

    def calculate(self, now_s: float) -> None:
        """Do the calculations that are due by now."""
        if self.next_s() > now_s:
            return
        for x in range(self.n_ended):  # as Slurm does, before the decay
            self.add(self.used_by[x], self.used_last[x])
        self.n_ended = 0
        if self.last_s == -inf:
            self.last_s = self.origin_s
            self.note_effective()
        if self.n_running == 0 and self.last_s + self.period_s <= now_s:
            n: float = (now_s - self.last_s) // self.period_s - 1.0
            self.pass_time(self.last_s + n * self.period_s)
        while self.last_s + self.period_s <= now_s:
            self.reset(self.last_s + self.period_s)
            if self.last_s + 2.0 * self.period_s > now_s:
                self.note_effective()
            self.pass_time(self.last_s + self.period_s)

    def reset(self, now_s: float) -> None:
        """Set usage to 0, if that is due."""
        if self.never_resets() or self.resets_s[self.n_reset] > now_s:
            return
        self.is_ranked = False
        self.limits.decay(0.0)
        for a in range(self.n):
            self.usage[a] = 0.0
        while not self.never_resets() and self.resets_s[self.n_reset] <= now_s:
            self.n_reset += 1

    def never_resets(self) -> bool:
        """Whether usage is not set to 0 any more."""
        return self.n_reset == self.resets_s.shape[0]

    def pass_time(self, now_s: float) -> None:
        """Let usage decay until now, and add that of runs since the last calculation."""
        if now_s <= self.last_s:
            return
        self.is_ranked = False
        self.scale *= self.decay ** (now_s - self.last_s)
        self.limits.decay(self.decay ** (now_s - self.last_s))
        if self.scale < MIN_SCALE:
            for a in range(self.n):
                self.usage[a] *= self.scale
            self.scale = 1.0
        for x in range(self.n_running):
            slot = self.running[x]
            self.add(self.association[slot], self.used_since(slot, now_s))
        self.last_s = now_s

    def of_root(self, a: int) -> float:
        """The usage of an association as a share of all usage."""
        return self.usage[a] / self.usage[0] if self.usage[0] > 0 else 0.0

    def note_effective(self) -> None:
        """The effective usage of accounts counts as it is before a calculation, in the classic algorithm."""
        if self.is_tree:
            return
        for a in range(1, self.n):
            if not self.is_user[a]:
                self.effective[a] = self.effective_usage(a)

    def effective_usage(self, a: int) -> float:
        used, above = self.of_root(a), self.above[a]
        return used + (self.effective[above] - used) * self.norm[a] if above > 0 else used

    def rank_below(self, account: int, is_tied: bool) -> None:
        """Give the users below an account their factors, in order of `level`: users with equal ones share a
        `rank`, the first of what they would have without ties. Of a user and an account, the user comes
        first."""
        begin, after, before = self.first_below[account], self.first_below[account + 1], -1.0
        for x in range(begin, after):
            a = self.below[x]
            used = self.usage[a] / self.usage[account] if self.usage[account] > 0 else 0.0
            if self.uses_parent[a]:
                self.level[a] = inf
            elif self.norm[a] == 0:
                self.level[a] = 0.0
            else:
                self.level[a] = self.norm[a] / used if used > 0 else inf
        for x in range(begin + 1, after):  # nearly sorted since the last time
            a, y = self.below[x], x
            while y > begin and self.comes_first(a, self.below[y - 1]):
                self.below[y] = self.below[y - 1]
                y -= 1
            self.below[y] = a
        for x in range(begin, after):
            a = self.below[x]
            tied = is_tied if x == begin and is_tied else self.level[a] == before
            if self.is_user[a]:
                if not tied:
                    self.rank = self.untied_rank
                self.factor[a] = float(self.rank) / self.n_users
                self.untied_rank -= 1
            else:
                self.rank_below(a, tied)
            before = self.level[a]

    def comes_first(self, a: int, b: int) -> bool:
        """Whether a comes before b: by level, a user before an account, then as they were numbered."""
        if self.level[a] != self.level[b]:
            return self.level[a] > self.level[b]
        if self.is_user[a] != self.is_user[b]:
            return self.is_user[a] > self.is_user[b]
        return a < b

    def factor_of(self, a: int) -> float:
        """The factor of a user, since the last calculation."""
        if a <= 0:
            return 0.0
        if self.is_tree:
            if not self.is_ranked:
                self.rank = self.untied_rank = self.n_users
                self.rank_below(0, False)
                self.is_ranked = True
            return self.factor[a]
        b = self.above[a] if self.uses_parent[a] else a
        effective = self.effective_usage(b) if self.is_user[b] else self.effective[b]
        if self.of_all[b] <= 0:
            return 0.0
        return 2.0 ** (-(effective / self.of_all[b]) / self.dampening)
