"""The event loop of `sil.world.harness` for compiled queues."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import inf

import numpy as np

from scheduler.core.arrays import integers, larger
from scheduler.core.codes import CONSERVATIVE, NONE
from scheduler.core.heap import Heap
from scheduler.core.queue import Queue
from scheduler.free_nodes.runtime_estimates import LAST_RUNS, MORE_S
from scheduler.managers.eligibility import Eligibility
from scheduler.managers.eligible_jobs import never
from scheduler.ports import Act
from sil.world.core.codes import (
    ACTUAL,
    ALL_ENDED,
    ARRIVAL,
    ARRIVED,
    CHANGE,
    CHUNK,
    ELIGIBLE,
    END,
    ENDED,
    HISTORY,
    INELIGIBLE,
    PAUSE,
    REFUSED,
    RELEASE,
    ROUND,
    STARTED,
    STUCK,
    WAKE_UP,
)
from sil.world.core.facts import Facts
from sil.world.core.jobs import RigidJobs
from sil.world.harness import MAX_IDLE_ROUNDS, MIN_STEP_S

PAUSE_AFTER = 10_000_000
"""The number of steps, about one for each waiting job at each event, after which signals are handled: some
tenths of a second at most."""


class Estimators:
    """Run-time estimators, which return the same values as those in Python: users, a clairvoyant that knows
    the run times, and `RecentRuns` of `scheduler.free_nodes`."""

    def __init__(self, by: int, n_jobs: int, n_users: int) -> None:
        self.by = by
        self.n_corrections, self.n_last = integers(n_jobs), integers(n_users)
        self.last_s, self.more_s = np.zeros((n_users, LAST_RUNS)), np.array(MORE_S)

    def first_s(self, limit_s: float, run_s: float, user: int) -> float:
        """The estimate of a job that arrives, with the user's estimate `limit_s`; the user is -1 if
        unknown."""
        if self.by == ACTUAL:
            return run_s
        if self.by == HISTORY and user >= 0 and self.n_last[user] == LAST_RUNS:
            return min((self.last_s[user, 0] + self.last_s[user, 1]) / LAST_RUNS, limit_s)
        return limit_s

    def outlived_s(self, job: int, limit_s: float, ran_s: float) -> float:
        """A new estimate for a run that exceeds its last one."""
        if self.by != HISTORY or ran_s >= limit_s:
            return 2.0 * ran_s
        more_s = self.more_s[min(self.n_corrections[job], self.more_s.shape[0] - 1)]
        self.n_corrections[job] += 1
        return min(ran_s + more_s, limit_s)

    def learn(self, user: int, ran_s: float) -> None:
        """Add a completed run."""
        if self.by == HISTORY and user >= 0:
            if self.n_last[user] < LAST_RUNS:
                self.last_s[user, self.n_last[user]] = ran_s
                self.n_last[user] += 1
            else:
                self.last_s[user, 0], self.last_s[user, 1] = self.last_s[user, 1], ran_s


class Loop:
    """The jobs that arrive, what waits and what runs. Times are infinite for what never happens."""

    def __init__(self, jobs: RigidJobs, queue: Queue, ranks: Sequence[int], by: int, room: int) -> None:
        """`ranks` of kinds of simultaneous events; `by` is who estimates; `room` for facts at first."""
        self.queue, self.facts = queue, Facts(room)
        self.submit_s, self.run_s, self.limit_s = jobs.submit_s, jobs.run_s, jobs.limit_s
        self.size, self.kind, self.user = jobs.size, jobs.kind, jobs.user
        self.due_in_s = jobs.due_in_s
        self.refused = jobs.refused.view(np.uint8)
        self.n_jobs, self.next_job, self.n_unfinished = len(jobs.submit_s), 0, 0
        self.estimates = Estimators(by, self.n_jobs, jobs.n_users)
        self.now_s, self.round_s, self.wake_up_s, self.wakes_s = 0.0, inf, inf, inf
        self.idle_since_s, self.n_idle, self.round_is_due = 0.0, 0, False
        self.rank = ranks
        self.releases_first = ranks[RELEASE] < ranks[END]
        self.first_released, self.n_released = 0, 0
        self.running, self.ended = Heap(256), integers(256)
        self.next_change_s, self.eligible_s, self.act_s = inf, inf, inf
        self.eligibility: Eligibility | None = None

    def keep_from_queue(
        self,
        eligibility: Eligibility,
        acts: Sequence[tuple[float, int, Act]],
        unsuccessful: Container[int],
    ) -> None:
        """Jobs have to be eligible, and some are held or released: `acts` in order of time."""
        self.eligibility, self.acts, self.unsuccessful = eligibility, acts, unsuccessful
        self.n_acts, self.act_s = 0, acts[0][0] if acts else inf
        self.slot_of: dict[int, int] = {}
        self.are_running: set[int] = set()

    def next_event(self) -> int:
        """The kind of the next event, whose time becomes now; infinite if there is none."""
        kind, first_s = ROUND, self.round_s
        for other in range(WAKE_UP, END + 1):
            time_s = inf
            if other == WAKE_UP:
                time_s = self.wake_up_s
            elif other == ARRIVAL:
                time_s = self.act_s
                if self.next_job < self.n_jobs:
                    time_s = min(time_s, self.submit_s[self.next_job])
            elif other == CHANGE:
                time_s = self.next_change_s
            elif other == END and self.releases_first:
                if self.n_released > 0:
                    time_s = self.now_s
            elif (other == END or self.releases_first) and self.running.n > 0:
                time_s = self.running.first_key()
            if time_s < first_s or (time_s == first_s and self.rank[other] < self.rank[kind]):
                kind, first_s = other, time_s
        self.now_s = first_s
        return kind

    def note_use(self, x: int) -> None:
        """Add what the job in row x of `started` uses to the newest fact."""

    def carry_out(self, n_started: int) -> None:
        """Start the jobs of a decision."""
        q, facts, now_s = self.queue, self.facts, self.now_s
        facts.decided(now_s, q.n_waiting, n_started)
        q.start(n_started, now_s)
        if q.n_slots > self.ended.shape[0]:
            self.running.make_room(q.n_slots)
            self.ended = np.roll(self.ended, -self.first_released)
            self.ended, self.first_released = larger(self.ended, q.n_slots), 0
        for x in range(n_started):
            slot = q.started[x]
            job = q.job[slot]
            facts.note(now_s, STARTED, job, q.run[slot], q.end_s[slot] - now_s)
            self.note_use(x)
            self.running.push(slot, now_s + self.run_s[job], q.run[slot])
            if self.eligibility is not None:
                self.are_running.add(job)
                self.eligibility.begin(job, now_s)
        self.admit()

    def refuses(self, job: int) -> bool:
        """Whether a job that arrives is refused for what has been submitted before."""
        return False

    def change(self) -> None:
        """The next change of the nodes takes place."""

    def next_job_arrives(self) -> None:
        job = self.next_job
        self.next_job = job + 1
        self.n_idle = 0
        self.facts.note(self.now_s, ARRIVED, job, 0, self.due_in_s[job])
        self.n_unfinished += 1
        if self.eligibility is None:
            self.join_queue(job)
        else:
            self.arrives_under_conditions(job)

    def arrives_under_conditions(self, job: int) -> None:
        """A job arrives that may have to wait until it is eligible."""
        assert self.eligibility is not None
        why = self.eligibility.arrive(job, self.now_s)
        if why:
            self.facts.say(self.now_s, INELIGIBLE, job, why)
        else:
            self.join_queue(job)
        self.admit()

    def join_queue(self, job: int) -> None:
        """A job that is eligible joins the queue, or is refused."""
        if self.refused[job] or self.refuses(job):
            self.facts.note(self.now_s, REFUSED, job, 0, 0.0)
            self.n_unfinished -= 1
            if self.eligibility is not None:
                self.eligibility.end(job, self.now_s, False)
            return
        estimate_s = self.estimates.first_s(self.limit_s[job], self.run_s[job], self.user[job])
        self.queue.next_due_s = self.submit_s[job] + self.due_in_s[job]
        slot = self.queue.arrived(job, self.size[job], self.kind[job], estimate_s, self.now_s)
        if self.eligibility is not None:
            self.slot_of[job] = slot

    def admit(self) -> None:
        """Let jobs join the queue that have become eligible."""
        if self.eligibility is None:
            return
        eligible = self.eligibility.eligible()
        while eligible:
            for job, waited_for in eligible:
                self.facts.say(self.now_s, ELIGIBLE, job, waited_for)
                self.join_queue(job)
            eligible = self.eligibility.eligible()
        self.eligible_s = self.eligibility.next_s

    def act(self) -> None:
        """Hold or release a job, unless it runs or is over."""
        _, job, what = self.acts[self.n_acts]
        self.n_acts += 1
        self.act_s = self.acts[self.n_acts][0] if self.n_acts < len(self.acts) else inf
        eligibility = self.eligibility
        if eligibility is None or job in self.are_running or not eligibility.is_there(job):
            return
        was_eligible = not eligibility.why_not(job)
        if eligibility.act(job, what, self.now_s):
            self.queue.withdraw(self.slot_of.pop(job))
        if what == "hold" and was_eligible:
            self.facts.say(self.now_s, INELIGIBLE, job, eligibility.why_not(job))
        self.admit()

    def dismiss(self) -> bool:
        """Give up the jobs that will never be eligible. Returns whether there are any."""
        dismissed = {} if self.eligibility is None else self.eligibility.dismiss()
        for job, why in dismissed.items():
            self.facts.say(self.now_s, REFUSED, job, never(why))
        self.n_unfinished -= len(dismissed)
        self.eligible_s = inf
        return len(dismissed) > 0

    def estimate_overdue(self) -> None:
        """Estimate the runs again that should have ended by now."""
        q, now_s = self.queue, self.now_s
        slot = q.overdue(now_s)
        while slot != NONE:
            job, ran_s = q.job[slot], now_s - q.began_s[slot]
            q.extend_estimate(self.estimates.outlived_s(job, self.limit_s[job], ran_s), now_s)
            slot = q.overdue(now_s)

    def is_endless(self) -> bool:
        """Count an idle round. Returns whether there were too many, without the time passing that they may
        take."""
        n = self.n_idle
        if n == 0:
            self.idle_since_s = self.now_s
        self.n_idle = n + 1
        if n < MAX_IDLE_ROUNDS:
            return False
        may_go_on = self.next_job < self.n_jobs or self.running.n > 0
        if may_go_on and self.now_s - self.idle_since_s >= n * MIN_STEP_S:
            self.n_idle = 0
            return False
        return True

    def happens(self, kind: int) -> None:
        """Handle an event that is no round."""
        q, now_s = self.queue, self.now_s
        if kind == WAKE_UP:
            self.wake_up_s = inf
            if self.eligibility is not None:
                self.eligibility.time_passed(now_s)
            self.estimate_overdue()
            q.time_passed(now_s)
            self.admit()
        elif kind == ARRIVAL:
            if self.next_job < self.n_jobs and self.submit_s[self.next_job] <= self.act_s:
                self.next_job_arrives()
            else:
                self.act()
        elif kind == CHANGE:
            self.change()
        elif kind == RELEASE:
            slot = self.running.pop()
            self.ended[(self.first_released + self.n_released) % self.ended.shape[0]] = slot
            self.n_released += 1
            q.released(slot, now_s)
        else:
            if self.releases_first:
                slot = self.ended[self.first_released]
                self.first_released = (self.first_released + 1) % self.ended.shape[0]
                self.n_released -= 1
            else:
                slot = self.running.pop()
            job = q.job[slot]
            self.facts.note(now_s, ENDED, job, q.run[slot], 0.0)
            self.n_unfinished -= 1
            self.n_idle = 0
            self.estimates.learn(self.user[job], now_s - q.began_s[slot])
            q.ended(slot, now_s)
            if self.eligibility is not None:
                self.are_running.discard(job)
                self.eligibility.end(job, now_s, job not in self.unsuccessful)
                self.admit()

    def note_what_is_due(self) -> None:
        """After an event, note whether a round is due, and when the queue is to be woken up."""
        if not self.round_is_due and self.queue.wants_round:
            self.round_is_due, self.round_s = True, self.now_s
        wakes_s = min(self.queue.wakes_at_s(), self.eligible_s)
        if wakes_s != self.wakes_s:
            self.wakes_s, self.wake_up_s = wakes_s, max(wakes_s, self.now_s)

    def begin_round(self) -> None:
        self.round_s, self.round_is_due, self.queue.wants_round = inf, False, False

    def is_over(self) -> bool:
        return self.next_job == self.n_jobs and self.n_unfinished == 0 and not self.round_is_due

    def hand_over(self) -> Facts:
        """Return the facts so far, and begin new ones."""
        facts = self.facts
        self.facts = Facts(facts.room)
        return facts

    def advance(self, chunk: int) -> int:
        """Go on until all jobs have ended, or a run has ended and the facts are a `chunk`. Returns why, which
        may also be a pause. Nothing is half done."""
        q, left = self.queue, PAUSE_AFTER
        while not self.is_over():
            if left < 0:
                return PAUSE
            n_waiting, last_s = q.n_waiting, self.now_s
            left -= 10 + n_waiting
            kind = self.next_event()
            if self.now_s == inf:
                self.now_s = last_s
                if self.dismiss():
                    continue
                return STUCK
            if kind == ROUND:
                if q.backfilling == CONSERVATIVE:
                    left -= n_waiting * (n_waiting + q.releases.n)
                self.begin_round()
                if self.is_endless():
                    return STUCK
                if n_waiting > 0:
                    self.carry_out(q.decide(self.now_s))
            else:
                self.happens(kind)
            self.note_what_is_due()
            if kind == END and self.facts.n >= chunk:
                return CHUNK
        return ALL_ENDED
