"""Which jobs are eligible to run: the conditions of their submission, and what is done with them meanwhile.

The terms, and the reasons for which a job waits, are Slurm's. A job that is not eligible is not in the queue
that a scheduler sees. Whoever follows jobs reports what happens to them, and asks which have become eligible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from scheduler.ports import Act


class DependencyKind(StrEnum):
    AFTER = "after"
    AFTER_ANY = "afterany"
    AFTER_OK = "afterok"
    AFTER_NOT_OK = "afternotok"
    AFTER_CORRESPONDING = "aftercorr"
    """After the task of another array with the same index has completed."""
    SINGLETON = "singleton"
    """After all earlier jobs of its user and name, however they end."""


class Dependency(NamedTuple):
    """Some jobs must have begun (`AFTER`) or ended, `delay_s` ago or earlier: successfully, not so, or
    anyhow."""

    kind: DependencyKind
    on: tuple[int, ...]
    delay_s: float = 0.0


class Conditions(NamedTuple):
    """When a job may run: not before `begin_s`, once all dependencies are met, or one if `any_suffices`, and
    not while it is held."""

    dependencies: tuple[Dependency, ...] = ()
    any_suffices: bool = False
    begin_s: float = -inf
    held: bool = False


class JobArray(NamedTuple):
    """Jobs that are submitted as one, of which at most `at_once` run at a time; None = all."""

    jobs: tuple[int, ...]
    at_once: int | None


HELD, DEPENDENCY, NEVER = "JobHeldUser", "Dependency", "DependencyNeverSatisfied"
BEGIN_TIME, TASK_LIMIT = "BeginTime", "JobArrayTaskLimit"
_NONE = Conditions()


class Eligibility:
    """Follows jobs by number. O(log n) for each notice, and O(dependencies) for each job that it concerns."""

    def __init__(self, conditions: Mapping[int, Conditions], arrays: Iterable[JobArray] = ()) -> None:
        self._conditions = conditions
        self._array_of = {job: array for array in arrays if array.at_once is not None for job in array.jobs}
        self._n_of: dict[int, int] = {}
        """How many jobs of an array are eligible and not over, by its first job."""
        self._limited: dict[int, list[int]] = {}
        """The jobs of an array that wait for others of it only, as a heap."""
        self._reasons: dict[int, dict[str, None]] = {}
        """The jobs that have arrived and are not eligible, and for what they have waited so far."""
        self._queued: set[int] = set()
        """The jobs that are eligible and not over."""
        self._held: set[int] = set()
        self._began_s: dict[int, float] = {}
        self._over: dict[int, tuple[float, bool]] = {}
        """When jobs were over, and whether they completed."""
        self._followers: dict[int, list[int]] = {}
        """The jobs that depend on another, if that is not over."""
        self._due: list[tuple[float, int]] = []
        self._ready: list[tuple[int, str]] = []

    @property
    def next_s(self) -> float:
        """When time alone may make a job eligible next; infinite = never."""
        return self._due[0][0] if self._due else inf

    def arrive(self, job: int, now_s: float) -> str:
        """A job is submitted. Returns why it is not eligible; empty if it is."""
        conditions = self._conditions.get(job, _NONE)
        if conditions.held:
            self._held.add(job)
        self._reasons[job] = {}
        for dependency in conditions.dependencies:
            for other in dependency.on:
                if other not in self._over:
                    self._followers.setdefault(other, []).append(job)
        self._examine(job, now_s)
        if job not in self._reasons:
            self._ready.pop()
        return self.why_not(job)

    def begin(self, job: int, now_s: float) -> None:
        """A job starts for the first time, or again."""
        if self._began_s.setdefault(job, now_s) == now_s:
            for other in self._followers.get(job, ()):
                self._examine(other, now_s)

    def end(self, job: int, now_s: float, completed: bool) -> None:
        """A job is over: it ended, or it was refused or cancelled."""
        self._over[job] = now_s, completed
        self._began_s.setdefault(job, now_s)
        self._reasons.pop(job, None)
        self._leave(job, now_s)
        for other in self._followers.pop(job, ()):
            self._examine(other, now_s)

    def act(self, job: int, act: Act, now_s: float) -> bool:
        """Act on a job that does not run. Returns whether it was in the queue, and leaves it."""
        was_queued = job in self._queued
        if act == "release":
            self._held.discard(job)
            self._examine(job, now_s)
            return False
        if act in ("cancel", "expire"):
            self.end(job, now_s, completed=False)
        else:
            self._held.add(job)
            self._reasons.setdefault(job, {})
            self._leave(job, now_s)
            self._examine(job, now_s)
        return was_queued

    def time_passed(self, now_s: float) -> None:
        while self._due and self._due[0][0] <= now_s:
            self._examine(heappop(self._due)[1], now_s)

    def eligible(self) -> list[tuple[int, str]]:
        """The jobs that have become eligible since the last call, and for what they have waited."""
        ready, self._ready = self._ready, []
        return [(job, why) for job, why in ready if job in self._queued]

    def is_there(self, job: int) -> bool:
        """Whether a job has arrived and is not over."""
        return job in self._queued or job in self._reasons

    def why_not(self, job: int) -> str:
        """Why a job is not eligible; empty if it is, or is over."""
        return next(reversed(self._reasons.get(job, {})), "")

    def waiting(self) -> dict[int, str]:
        """The jobs that are not eligible, and why, in order of arrival."""
        return {job: self.why_not(job) for job in self._reasons}

    def dismiss(self) -> dict[int, str]:
        """Forget the jobs that are not eligible, and return why they are not."""
        waiting, self._reasons, self._due = self.waiting(), {}, []
        return waiting

    def _leave(self, job: int, now_s: float) -> None:
        """A job no longer counts for its array, of which others may run instead."""
        if job not in self._queued:
            return
        self._queued.discard(job)
        if (array := self._array_of.get(job)) is not None:
            self._n_of[array.jobs[0]] -= 1
            limited = self._limited.get(array.jobs[0])
            while limited and self._n_of[array.jobs[0]] < (array.at_once or 0):
                self._examine(heappop(limited), now_s)

    def _examine(self, job: int, now_s: float) -> None:
        """Find out whether a job has become eligible."""
        reasons = self._reasons.get(job)
        if reasons is None:
            return
        why, until_s = self._why_not(job, now_s)
        if why:
            reasons.pop(why, None)
            reasons[why] = None
            if until_s < inf:
                heappush(self._due, (until_s, job))
            return
        array = self._array_of.get(job)
        if array is not None:
            first, n = array.jobs[0], self._n_of.get(array.jobs[0], 0)
            if n >= (array.at_once or 0):
                reasons.pop(TASK_LIMIT, None)
                reasons[TASK_LIMIT] = None
                heappush(self._limited.setdefault(first, []), job)
                return
            self._n_of[first] = n + 1
        del self._reasons[job]
        self._queued.add(job)
        self._ready.append((job, ", ".join(reasons)))

    def _why_not(self, job: int, now_s: float) -> tuple[str, float]:
        """Why a job has to wait, whatever its array does, and until when, if that is known; empty if it has
        not."""
        if job in self._held:
            return HELD, inf
        dependencies, any_suffices, begin_s, _ = self._conditions.get(job, _NONE)
        if dependencies:
            found_s = [self._met_s(dependency) for dependency in dependencies]
            met_s = [time_s for time_s in found_s if time_s is not None]
            if not met_s or (len(met_s) < len(found_s) and not any_suffices):
                return NEVER, inf
            due_s = min(met_s) if any_suffices else max(met_s)
            if due_s > now_s:
                return DEPENDENCY, due_s
        return (BEGIN_TIME, begin_s) if begin_s > now_s else ("", now_s)

    def _met_s(self, dependency: Dependency) -> float | None:
        """From when on a dependency is met; infinite while that is open, None if it never is."""
        kind, latest_s = dependency.kind, -inf
        for job in dependency.on:
            if kind is DependencyKind.AFTER:
                time_s = self._began_s.get(job, inf)
            else:
                time_s, completed = self._over.get(job, (inf, kind is not DependencyKind.AFTER_NOT_OK))
                wants_success = kind in (DependencyKind.AFTER_OK, DependencyKind.AFTER_CORRESPONDING)
                if (wants_success and not completed) or (kind is DependencyKind.AFTER_NOT_OK and completed):
                    return None
            latest_s = max(latest_s, time_s + dependency.delay_s)
        return latest_s
