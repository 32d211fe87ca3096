"""The jobs that wait and run, and how notices and decisions change that, given the estimates.

A job that waits or runs has a slot. What depends on the nodes is left to each kind of them: identical nodes,
each for one job, and nodes of which jobs use parts.
"""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import MIN_SIZE, Floats, floats, integers, larger
from scheduler.core.codes import EDF, NONE, SHORTEST_S, QueueCodes
from scheduler.core.releases import Releases


class Queue:
    """The waiting and the running jobs by slot. By its deadline a job is `due_s`, and to keep that, it has to
    start by `latest_s`; both are infinite without one. `next_due_s` is of the next job which arrives."""

    def __init__(self, policy: QueueCodes) -> None:
        self.ordering, self.backfilling, self.always_called = policy
        self.n_waiting, self.next_run = 0, 0
        self.wants_round, self.asks_again_s = False, inf
        self.releases = Releases()
        self.n_slots = MIN_SIZE
        self.started, self.job, self.run, self.spare = (integers(MIN_SIZE) for _ in range(4))
        self.began_s, self.end_s = floats(MIN_SIZE), floats(MIN_SIZE)
        self.holds = np.zeros(MIN_SIZE, np.uint8)
        self.due_s, self.latest_s, self.next_due_s = floats(MIN_SIZE), floats(MIN_SIZE), inf
        self.n_spare, self.n_used = 0, 0

    def make_room(self, n_slots: int) -> None:
        self.started, self.job = larger(self.started, n_slots), larger(self.job, n_slots)
        self.run, self.spare = larger(self.run, n_slots), larger(self.spare, n_slots)
        self.began_s, self.end_s = larger(self.began_s, n_slots), larger(self.end_s, n_slots)
        self.holds, self.n_slots = larger(self.holds, n_slots), n_slots
        self.due_s, self.latest_s = larger(self.due_s, n_slots), larger(self.latest_s, n_slots)

    def urgency(self, ordering: int) -> Floats:
        """By slot, the key of an ordering by deadlines: the laxities of all waiting jobs fall alike."""
        return self.due_s if ordering == EDF else self.latest_s

    def nothing_fits(self) -> bool:
        """Whether no waiting job fits now."""
        return True

    def wait(self, slot: int, size: int, kind: int, estimate_s: float) -> None:
        """Append the job in a slot to the queue."""

    def leave(self, slot: int) -> None:
        """Remove a job that starts or is withdrawn from the queue."""

    def give_nodes_back(self, slot: int) -> None:
        """Free what a run uses of nodes."""

    def decide(self, now_s: float) -> int:
        """Decide which of the waiting jobs start, in order. Returns their number."""
        return 0

    def start(self, n_started: int, now_s: float) -> None:
        """Start the jobs of the last decision, as consecutive runs."""

    def something_changed(self) -> None:
        """Ask for a round if a waiting job may start."""
        if self.n_waiting > 0 and (self.always_called or not self.nothing_fits()):
            self.wants_round = True

    def wakes_at_s(self) -> float:
        """When `time_passed` is due: a run exceeds its estimate, or the scheduler asked for it; infinite =
        never."""
        return min(self.releases.end_s[0] if self.releases.n > 0 else inf, self.asks_again_s)

    def arrived(self, job: int, size: int, kind: int, estimate_s: float, since_s: float) -> int:
        """Queue a job that requests nodes, or chunks of a kind of request. Returns its slot."""
        if self.n_spare > 0:
            self.n_spare -= 1
            slot = self.spare[self.n_spare]
        else:
            if self.n_used == self.n_slots:
                self.make_room(2 * self.n_slots)
            slot = self.n_used
            self.n_used += 1
        self.job[slot], self.began_s[slot] = job, since_s
        estimate_s = max(estimate_s, SHORTEST_S)
        self.due_s[slot], self.latest_s[slot] = self.next_due_s, self.next_due_s - estimate_s
        self.wait(slot, size, kind, estimate_s)
        self.n_waiting += 1
        self.something_changed()
        return slot

    def begin(self, slot: int, released: int, now_s: float, end_s: float) -> None:
        """Start a job as the next run, whose release is noted."""
        run = self.next_run
        self.next_run = run + 1
        self.releases.insert(end_s, released, run, slot)
        self.run[slot], self.began_s[slot], self.end_s[slot], self.holds[slot] = run, now_s, end_s, True

    def give_back(self, slot: int) -> None:
        """Free what a run uses, unless it was given back before."""
        if self.holds[slot]:
            self.holds[slot] = False
            self.releases.remove(self.end_s[slot], self.run[slot])
            self.give_nodes_back(slot)

    def ended(self, slot: int, now_s: float) -> None:
        """Free the slot of a run that has ended."""
        self.give_back(slot)
        self.free_slot(slot)

    def withdraw(self, slot: int) -> None:
        """Free the slot of a job that no longer waits."""
        self.leave(slot)
        self.free_slot(slot)

    def free_slot(self, slot: int) -> None:
        self.spare[self.n_spare] = slot
        self.n_spare += 1
        self.something_changed()

    def released(self, slot: int, now_s: float) -> None:
        """Free the nodes of a run that is about to end; if that was expected, they are free already."""
        if self.holds[slot] and self.end_s[slot] == now_s:
            self.give_back(slot)

    def overdue(self, now_s: float) -> int:
        """The slot of the first run that should have ended by now, or NONE."""
        r = self.releases
        return r.slot[0] if r.n > 0 and r.end_s[0] <= now_s else NONE

    def extend_estimate(self, takes_s: float, now_s: float) -> None:
        """Expect the overdue run to take `takes_s`."""
        r = self.releases
        run, released, slot = r.run[0], r.released[0], r.slot[0]
        later_s = max(self.began_s[slot] + takes_s, now_s + 1.0)  # or time would not advance
        r.remove(r.end_s[0], run)
        r.insert(later_s, released, run, slot)
        self.end_s[slot] = later_s

    def expect_end(self, slot: int, released: int, end_s: float) -> None:
        """Expect a run to end at another time, and to release this then."""
        self.releases.remove(self.end_s[slot], self.run[slot])
        self.releases.insert(end_s, released, self.run[slot], slot)
        self.end_s[slot] = end_s

    def pause(self, slot: int, for_s: float) -> None:
        """A run has done nothing for some time, as if it had begun that much later."""
        self.began_s[slot] += for_s

    def is_holding(self, slot: int) -> bool:
        """Whether a run holds nodes."""
        return self.holds[slot] == 1

    def is_due(self, slot: int, now_s: float) -> bool:
        """Whether a run holds nodes and is expected to end now."""
        return self.is_holding(slot) and self.end_s[slot] == now_s

    def began_at_s(self, slot: int) -> float:
        """When a wait began, or a run once there is one."""
        return self.began_s[slot]

    def run_of(self, slot: int) -> int:
        return self.run[slot]

    def time_passed(self, now_s: float) -> None:
        """Ask for a round at a time that the scheduler has asked for; no run is overdue any more."""
        if self.asks_again_s <= now_s:
            self.asks_again_s = inf
        self.something_changed()
