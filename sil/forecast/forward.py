"""The jobs that run and wait at a moment, run forward under the policy many times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from scheduler.core.arrays import Floats, Floats2, Ints
from scheduler.core.codes import CONSERVATIVE
from scheduler.free_nodes.runtime_estimates import LONGEST_S
from sil.forecast.experience import RunTimes, drawn_arrivals
from sil.runs.compiled import CompiledReplay


@dataclass(frozen=True)
class KnownReplay:
    """A log under a policy: when each job starts and ends; not a number if it is refused."""

    replay: CompiledReplay
    start_s: Floats

    @classmethod
    def under(cls, replay: CompiledReplay) -> KnownReplay:
        jobs = replay.log.jobs
        return cls(replay, replay.starts(jobs, np.ones(len(jobs), np.bool_)))

    @cached_property
    def submit_s(self) -> Floats:
        return self.replay.log.jobs["submit_s"].to_numpy()

    @cached_property
    def run_s(self) -> Floats:
        return self.replay.log.jobs["run_s"].to_numpy()

    @cached_property
    def end_s(self) -> Floats:
        return self.start_s + self.run_s


class Samples(NamedTuple):
    """Runs forward: starts and run times of jobs in these places, with a row for each run; and the waits of
    those that arrive within the horizon, by run."""

    job: Ints
    start_s: Floats2
    run_s: Floats2
    waits_s: Sequence[Floats]


@dataclass(frozen=True)
class Present:
    """What is known at a moment: the jobs that have been submitted, in which places of them `ended` (in order
    of their ends), run (in order of their starts, `began_s`), or wait.

    Jobs that start at this very moment wait, and are started by the first decision of a run forward.
    """

    replay: CompiledReplay
    now_s: float
    jobs: pl.DataFrame
    ended: Ints
    running: Ints
    began_s: Floats
    waiting: Ints

    @classmethod
    def of(cls, replayed: KnownReplay, now_s: float, n_known: int | None = None) -> Present:
        """At a moment of a log, of which the first `n_known` jobs have been submitted: by default, those up
        to this moment."""
        n = int(np.searchsorted(replayed.submit_s, now_s, side="right")) if n_known is None else n_known
        start_s, end_s = replayed.start_s[:n], replayed.end_s[:n]
        running, ended = np.flatnonzero((start_s < now_s) & (end_s > now_s)), np.flatnonzero(end_s <= now_s)
        running = running[np.argsort(start_s[running], kind="stable")]
        ended = ended[np.argsort(end_s[ended], kind="stable")]
        jobs, waiting = replayed.replay.log.jobs[:n], np.flatnonzero(start_s >= now_s)
        return cls(replayed.replay, now_s, jobs, ended, running, start_s[running], waiting)

    @cached_property
    def open(self) -> Ints:
        """The jobs that have not ended: running ones first."""
        return np.concatenate([self.running, self.waiting])

    @cached_property
    def _run_times(self) -> list[Floats]:
        """The run times that each open job may have."""
        known, ran_s = RunTimes(self.jobs, self.ended), np.zeros(len(self.open))
        ran_s[: len(self.running)] = self.now_s - self.began_s
        return [known.of(job, float(s)) for job, s in zip(self.open.tolist(), ran_s, strict=True)]

    def sampled(self, n: int, seed: int, horizon_s: float = 0.0) -> Samples:
        """The open jobs in `n` runs forward, each with run times and arrivals of its own. With equal seeds,
        those of variants are the same as far as possible.

        In a run, all jobs of a user are at the same quantile of their run times: they end early together, or
        run long together. Drawn one by one, they would make intervals too narrow.
        """
        submit_s, last_s = self.jobs["submit_s"].to_numpy(), self.now_s + horizon_s
        user = self.jobs["user"].to_numpy()
        users = np.unique(user[user >= 0])
        whose, is_known = np.searchsorted(users, user[self.open]), user[self.open] >= 0
        start_s, run_s = np.zeros((n, len(self.open))), np.zeros((n, len(self.open)))
        all_run_s, waits_s = self.jobs["run_s"].to_numpy().copy(), []
        for k in range(n):
            rng = np.random.default_rng([seed, k])
            again, at_s = drawn_arrivals(submit_s, self.now_s, rng)
            of_user, share = rng.random(len(users)), rng.random(len(self.open))
            share[is_known] = of_user[whose[is_known]]
            for x, times_s in enumerate(self._run_times):
                run_s[k, x] = times_s[int(share[x] * len(times_s))]
            all_run_s[self.open] = run_s[k]
            in_time = int(np.searchsorted(at_s, last_s))
            start_s[k], later_s = self._starts(all_run_s, again, at_s, in_time)
            waits_s.append(later_s - at_s[:in_time])
        return Samples(self.open, start_s, run_s, waits_s)

    def planned(self) -> Floats:
        """The starts of the open jobs if all ran up to their limits, and no further job came: what the policy
        itself plans."""
        limit_s, run_s = self.jobs["estimate_s"].fill_null(LONGEST_S), self.jobs["run_s"].to_numpy().copy()
        run_s[self.open] = limit_s.to_numpy()[self.open]
        return self._starts(run_s, np.zeros(0, np.int64), np.zeros(0), 0)[0]

    def _starts(self, run_s: Floats, again: Ints, at_s: Floats, n_more: int) -> tuple[Floats, Floats]:
        """The starts of the open jobs, and of the first `n_more` of the jobs that arrive `again`.

        Where what a policy decides depends only on the jobs that run and wait, and these hold numbers of
        processors, the past need not be run again: running jobs arrive when they began, waiting ones now.
        """
        if self.replay.log.cluster is None and self.replay.policy.backfilling != CONSERVATIVE:
            known, where = self.open, np.arange(len(self.open))
            arrive_s = np.concatenate([self.began_s, np.full(len(self.waiting), self.now_s)])
        else:
            known, where = np.arange(len(self.jobs)), self.open
            arrive_s = self.jobs["submit_s"].to_numpy()
        places, wanted = np.concatenate([known, again]), np.zeros(len(known) + len(again), np.bool_)
        wanted[where] = True
        wanted[len(known) : len(known) + n_more] = True
        arriving = self.jobs[places].with_columns(
            submit_s=np.concatenate([arrive_s, at_s]), run_s=run_s[places]
        )
        start_s = self.replay.starts(arriving, wanted)
        return start_s[where], start_s[len(known) :][:n_more]

    def with_submitted(self, replay: CompiledReplay, job: pl.DataFrame) -> Present:
        """The same with one more job, submitted now, in a replay that knows what it requests."""
        jobs, waiting = pl.concat([self.jobs, job]), np.append(self.waiting, len(self.jobs))
        return replace(self, replay=replay, jobs=jobs, waiting=waiting)
