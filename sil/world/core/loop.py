"""The event loop of `sil.world.harness` for compiled queues."""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import inf, nan
from typing import Any

import numpy as np

from scheduler.core.arrays import floats, integers, larger
from scheduler.core.codes import CONSERVATIVE, NONE
from scheduler.core.heap import Heap
from scheduler.core.queue import Queue
from scheduler.free_nodes.runtime_estimates import LAST_RUNS, MORE_S
from scheduler.managers.eligibility import Eligibility
from scheduler.managers.eligible_jobs import CANCELLED, EXPIRED, cancelled, never
from scheduler.managers.preemptor import Preemptor
from scheduler.model import JobId
from scheduler.ports import JobActedOn
from sil.world.core.codes import (
    ACT,
    ACTUAL,
    ALL_ENDED,
    ARRIVAL,
    ARRIVED,
    CHANGE,
    CHUNK,
    ELIGIBLE,
    END,
    ENDED,
    GIVE_UP,
    HISTORY,
    INELIGIBLE,
    NEWS,
    PAUSE,
    PREEMPTED,
    REFUSED,
    RELEASE,
    ROUND,
    STARTED,
    STOP,
    STUCK,
    WAKE_UP,
)
from sil.world.core.facts import Facts
from sil.world.core.jobs import RigidJobs
from sil.world.failures import SavedWork, TimedChange
from sil.world.harness import MAX_IDLE_ROUNDS, MIN_STEP_S
from sil.world.machines.execution import MAX_STARTS_OF_A_JOB

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
    """The jobs that arrive, what waits and what runs. Times are infinite for what never happens. By slot,
    suspended runs have seconds `left`."""

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
        self.running, self.ended, self.n_begun = Heap(256), integers(256), 0
        self.next_change_s, self.eligible_s, self.next_change = inf, inf, CHANGE
        self.preemptor: Preemptor | None = None
        self.known_s, self.later_s, self.left = 0.0, inf, dict[int, float]()
        self.eligibility: Eligibility | None = None
        self.saved: SavedWork | None = None
        self.n_due, self.stopped = integers(GIVE_UP + 1), list[int]()
        self.since_s, self.n_requeued, self.is_hopeless = floats(self.n_jobs), dict[int, int](), False

    def will_change(self, changes: Sequence[TimedChange]) -> None:
        """What is done with nodes and jobs, in order of time."""
        self.changes, self.n_changed = tuple(changes), -1
        self.appoint_next_change()

    def keep_from_queue(self, eligibility: Eligibility, unsuccessful: Container[int]) -> None:
        """Jobs have to be eligible."""
        self.eligibility, self.unsuccessful = eligibility, unsuccessful
        self.slot_of: dict[int, int] = {}
        self.are_running, self.cancelled, self.too_late = set[int](), set[int](), set[int]()

    def appoint_next_change(self) -> None:
        self.n_changed, self.next_change_s = self.n_changed + 1, inf
        if self.n_changed < len(self.changes):
            self.next_change_s, change = self.changes[self.n_changed]
            self.next_change = ACT if isinstance(change, JobActedOn) else CHANGE

    def next_event(self) -> int:
        """The kind of the next event, whose time becomes now; infinite if there is none."""
        kind, first_s = ROUND, self.round_s
        for other in range(WAKE_UP, END + 1):
            time_s = inf
            if other == WAKE_UP:
                time_s = self.wake_up_s
            elif other == ARRIVAL:
                if self.next_job < self.n_jobs:
                    time_s = self.submit_s[self.next_job]
            elif other == CHANGE:
                time_s, other = self.next_change_s, self.next_change
            elif other == END and self.releases_first:
                if self.n_released > 0:
                    time_s = self.now_s
            elif (other == END or self.releases_first) and self.running.n > 0:
                time_s = self.running.first_key()
            if time_s < first_s or (time_s == first_s and self.rank[other] < self.rank[kind]):
                kind, first_s = other, time_s
        for other in range(NEWS, GIVE_UP + 1):
            time_s = self.now_s if self.n_due[other] > 0 else inf
            if time_s < first_s or (time_s == first_s and self.rank[other] < self.rank[kind]):
                kind, first_s = other, time_s
        self.now_s = first_s
        return kind

    def note_use(self, slot: int) -> None:
        """Add what a run uses to the newest fact."""

    def carry_out(self, n_started: int) -> None:
        """Start the jobs of a decision."""
        q, facts, now_s = self.queue, self.facts, self.now_s
        facts.decided(now_s, q.n_waiting, n_started)
        q.start(n_started, now_s)
        if q.n_slots > self.ended.shape[0]:
            self.running.make_room(q.n_slots)
            self.ended = np.roll(self.ended, -self.first_released)
            self.ended, self.first_released = larger(self.ended, q.n_slots), 0
        self.begin_runs(n_started)
        self.admit()

    def begin_runs(self, n_started: int) -> None:
        """The jobs of a decision begin, that have taken their nodes."""
        for x in range(n_started):
            self.begin_run(self.queue.started[x])

    def begin_run(self, slot: int) -> None:
        q, now_s, job = self.queue, self.now_s, self.queue.job[slot]
        self.note_run(slot, STARTED, q.end_s[slot] - now_s)
        run_s = self.run_s[job] if self.saved is None else self.left_s(slot)
        self.running.push(slot, now_s + run_s, self.n_begun)
        self.n_begun += 1
        if self.eligibility is not None:
            self.are_running.add(job)
            self.eligibility.begin(job, now_s)

    def note_run(self, slot: int, event: int, seconds: float) -> None:
        """Add a fact of a run."""
        self.facts.note(self.now_s, event, self.queue.job[slot], self.queue.run[slot], seconds)
        self.note_use(slot)

    def note_next(self, job: int) -> None:
        """Tell the queue whose job arrives next."""

    def refuses(self, job: int) -> bool:
        """Whether a job that arrives is refused for what has been submitted before."""
        return False

    def change(self, change: Any) -> None:
        """Nodes change."""

    def changes_now(self) -> None:
        """The next change takes place."""
        change = self.changes[self.n_changed][1]
        self.appoint_next_change()
        if isinstance(change, JobActedOn):
            self.act(change)
        else:
            self.change(change)

    def read_news(self) -> None:
        """Take in what monitors have seen of nodes."""

    def left_s(self, slot: int) -> float:
        """How long a run takes that begins with what its job has saved."""
        assert self.saved is not None
        job = self.queue.job[slot]
        saved_s = self.saved.saved_s(job, self.run_s[job])
        left_s: float = self.run_s[job] - saved_s
        self.saved.begin(self.queue.run[slot], left_s, 1.0, saved_s, self.run_s[job])
        return left_s

    def lost_s(self, slot: int, left_s: float) -> float:
        """The seconds since the last checkpoint of a run that is over; not a number without checkpoints."""
        if self.saved is None:
            return nan
        return self.saved.lost_s(self.queue.run[slot], self.queue.job[slot], left_s)

    def ends_no_more(self, slot: int) -> None:
        """A run does not end when it was to. It is known then that nothing can happen any more, as in the
        harness."""
        if self.running.keys[slot] < inf:
            self.known_s = max(self.known_s, self.running.keys[slot])
        self.running.remove(slot)

    def interrupt(self, slot: int, event: int) -> None:
        """A run is stopped or lost, as this fact."""
        self.ends_no_more(slot)
        lost_s = self.lost_s(slot, self.left.pop(slot, self.running.keys[slot] - self.now_s))
        self.note_run(slot, event, lost_s)

    def wait_again(self, slot: int) -> None:
        """The job of a run that was stopped or lost waits again."""
        job = self.queue.job[slot]
        self.free(slot)
        self.n_requeued[job] = n = self.n_requeued.get(job, 0) + 1
        self.is_hopeless = self.is_hopeless or n >= MAX_STARTS_OF_A_JOB
        self.estimates.n_corrections[job] = 0
        if self.eligibility is not None:
            self.are_running.discard(job)
        if self.preemptor is None or not self.preemptor.delays(job, job, self.now_s):
            self.wait(job)

    def expire(self, job: int) -> None:
        """Give a job up that waits again, if it is too late for it to begin anew."""
        if self.eligibility is not None and job in self.too_late:
            self.act(JobActedOn(JobId(job), "expire"))

    def let_go(self, slot: int) -> None:
        """A run is about to give back its nodes."""
        if self.preemptor is not None:
            self.preemptor.end(self.queue.run[slot], self.now_s)

    def free(self, slot: int) -> None:
        """Free the slot of a run that is over, and its nodes."""
        self.let_go(slot)
        self.queue.ended(slot, self.now_s)

    def over(self, slot: int, is_stopped: bool) -> None:
        """A run was stopped, and is to wait again; or it is over, and its slot is free."""
        if is_stopped:
            self.wait_again(slot)

    def next_job_arrives(self) -> None:
        job = self.next_job
        self.next_job = job + 1
        self.n_idle = 0
        self.facts.note(self.now_s, ARRIVED, job, 0, self.due_in_s[job])
        self.n_unfinished += 1
        if self.eligibility is None:
            self.n_unfinished -= self.join_queue(job)
        else:
            self.arrives_under_conditions(job)

    def arrives_under_conditions(self, job: int) -> None:
        """A job arrives that may have to wait until it is eligible."""
        assert self.eligibility is not None
        why = self.eligibility.arrive(job, self.now_s)
        if why:
            self.facts.say(self.now_s, INELIGIBLE, job, why)
        else:
            self.n_unfinished -= self.join_queue(job)
        self.admit()

    def join_queue(self, job: int) -> bool:
        """A job that is eligible joins the queue, or is refused. Returns whether it is refused."""
        if self.refused[job] or self.refuses(job):
            self.facts.note(self.now_s, REFUSED, job, 0, 0.0)
            if self.eligibility is not None:
                self.eligibility.end(job, self.now_s, False)
            return True
        self.since_s[job] = self.now_s
        self.wait(job)
        return False

    def wait(self, job: int) -> None:
        estimate_s = self.estimates.first_s(self.limit_s[job], self.run_s[job], self.user[job])
        self.queue.next_due_s = self.submit_s[job] + self.due_in_s[job]
        self.note_next(job)
        slot = self.queue.arrived(job, self.size[job], self.kind[job], estimate_s, self.since_s[job])
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
                self.n_due[GIVE_UP] += self.join_queue(job)
            eligible = self.eligibility.eligible()
        self.eligible_s = self.eligibility.next_s

    def act(self, acted: JobActedOn) -> None:
        """Something is done with a job, unless it is over."""
        (job, what), eligibility = acted, self.eligibility
        assert eligibility is not None
        if job in self.are_running:
            self.act_on_run(self.slot_of[job], what)
        elif what != "requeue" and eligibility.is_there(job):
            why = eligibility.why_not(job)
            if eligibility.act(job, what, self.now_s):
                self.withdraw(job)
            if what == "cancel":
                self.give_up(job, cancelled(why))
            elif what == "expire":
                self.give_up(job, EXPIRED)
            elif what == "hold" and not why:
                self.facts.say(self.now_s, INELIGIBLE, job, eligibility.why_not(job))
        self.admit()

    def withdraw(self, job: int) -> None:
        """A job no longer waits."""
        self.queue.withdraw(self.slot_of.pop(job))

    def stop(self, slot: int) -> None:
        """Stop a run, of which notice follows, unless it is about to end."""
        if slot not in self.stopped and self.running.keys[slot] != -inf:
            self.interrupt(slot, PREEMPTED)
            self.stopped.append(slot)
            self.n_due[STOP] += 1

    def act_on_run(self, slot: int, what: str) -> None:
        """A run is cancelled or requeued: it is stopped, of which notice follows."""
        job, is_ending = self.queue.job[slot], self.running.keys[slot] == -inf
        if what == "expire":
            self.too_late.add(job)
        if what not in ("cancel", "requeue") or is_ending or job in self.cancelled:
            return
        self.stop(slot)
        if what == "cancel":
            self.cancelled.add(job)
            self.give_up(job, CANCELLED)

    def has_stopped(self) -> None:
        """Notice of a run that was stopped: its job waits again, unless it is cancelled."""
        slot = self.stopped.pop(0)
        self.n_due[STOP] -= 1
        job, eligibility = self.queue.job[slot], self.eligibility
        if eligibility is not None:
            self.are_running.discard(job)
        if eligibility is not None and job in self.cancelled:
            self.free(slot)
            self.over(slot, False)
            eligibility.end(job, self.now_s, False)
        else:
            self.over(slot, True)
            self.expire(job)
        self.admit()

    def give_up(self, job: int, why: str) -> None:
        self.facts.say(self.now_s, REFUSED, job, why)
        self.n_due[GIVE_UP] += 1

    def dismiss(self) -> bool:
        """Give up the jobs that will never be eligible. Returns whether there are any."""
        dismissed = {} if self.eligibility is None else self.eligibility.dismiss()
        for job, why in dismissed.items():
            self.give_up(job, never(why))
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
        if n < MAX_IDLE_ROUNDS and not self.is_hopeless:
            return False
        may_go_on = self.next_job < self.n_jobs or self.running.n > 0
        if may_go_on and not self.is_hopeless and self.now_s - self.idle_since_s >= n * MIN_STEP_S:
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
            self.next_job_arrives()
        elif kind in (CHANGE, ACT):
            self.changes_now()
        elif kind == NEWS:
            self.read_news()
        elif kind == STOP:
            self.has_stopped()
        elif kind == GIVE_UP:
            self.n_due[GIVE_UP] -= 1
            self.n_unfinished -= 1
            self.n_idle = 0
        elif kind == RELEASE:
            slot = self.running.pop()
            self.ended[(self.first_released + self.n_released) % self.ended.shape[0]] = slot
            self.n_released += 1
            self.running.keys[slot] = -inf  # it is too late to stop it
            if q.is_due(slot, now_s):
                self.let_go(slot)
            q.released(slot, now_s)
            self.admit()
        else:
            if self.releases_first:
                slot = self.ended[self.first_released]
                self.first_released = (self.first_released + 1) % self.ended.shape[0]
                self.n_released -= 1
            else:
                slot = self.running.pop()
            job = q.job[slot]
            self.facts.note(now_s, ENDED, job, q.run[slot], self.lost_s(slot, 0.0))
            self.n_unfinished -= 1
            self.n_idle = 0
            self.estimates.learn(self.user[job], now_s - q.began_s[slot])
            self.free(slot)
            self.over(slot, False)
            if self.eligibility is not None:
                self.are_running.discard(job)
                self.eligibility.end(job, now_s, job not in self.unsuccessful)
            self.admit()

    def note_what_is_due(self) -> None:
        """After an event, note whether a round is due, and when the queue is to be woken up."""
        if not self.round_is_due and self.queue.wants_round:
            self.round_is_due, self.round_s = True, self.now_s
        wakes_s = min(self.queue.wakes_at_s(), self.eligible_s, self.later_s)
        if wakes_s != self.wakes_s:
            self.wakes_s, self.wake_up_s = wakes_s, max(wakes_s, self.now_s)

    def begin_round(self) -> None:
        if self.n_due[NEWS] > 0:
            self.read_news()
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
                self.now_s = max(last_s, self.known_s)
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
                elif self.preemptor is not None and self.preemptor.suspension.lending:
                    self.begin_runs(0)
                    self.admit()
            else:
                self.happens(kind)
            self.note_what_is_due()
            if kind == END and self.facts.n >= chunk:
                return CHUNK
        return ALL_ENDED
