"""The jobs that run and wait at a moment, run forward under the policy many times."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from scheduler.core.arrays import Flags, Floats, Floats2, Ints
from scheduler.free_nodes.runtime_estimates import LONGEST_S
from sil.forecast.experience import RunTimes, drawn_arrivals
from sil.runs.compiled import CompiledReplay
from sil.runs.on_log import Replay
from sil.runs.under_test import InProcess, UnderTest
from sil.settings.events_file import EventsReader
from sil.settings.log_events import Events, NodeEvent, NodesUpdated, jobs_in, with_names
from sil.settings.replays import OfAccounting, ReplaySettings
from sil.trace.facts import Fact
from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import JobLog


def up_to(events: Events, now_s: float) -> Events:
    """Without what is not known yet: later events, except for the ends of what has begun."""
    past = [each for each in events.on_nodes if each.at_s <= now_s]
    begun = {each.nodes for each in past if isinstance(each, NodesUpdated)}
    ends = (x for x in events.on_nodes[len(past) :] if isinstance(x, NodesUpdated) and x.state == "RESUME")
    on_jobs = tuple(each for each in events.on_jobs if each.at_s <= now_s)
    return replace(events, on_nodes=(*past, *(x for x in ends if x.nodes in begun)), on_jobs=on_jobs)


def going_on(
    events: Events, begin_s: float, now_s: float, closed_s: float | None, number_of: Mapping[int, int]
) -> Events:
    """The events in seconds since `begin_s`, when what runs now starts, if no job starts from `closed_s`
    until now, unless that is None. Jobs have other numbers."""
    names, options = {job: str(number) for job, number in number_of.items()}, dict[int, dict[str, Any]]()
    for job in events.options.keys() & number_of.keys():
        options[number_of[job]] = given = dict(events.options[job])
        on = given.pop("dependency", "")
        given |= {"dependency": with_names(on, names)} if on and jobs_in(on) <= names.keys() else {}
        given |= {"begin": given["begin"] - begin_s} if "begin" in given else {}
    on_nodes, events = _on_nodes(events, begin_s, now_s, closed_s), events.of_places(number_of)
    return replace(
        events,
        on_nodes=tuple(
            each._replace(
                **{name: getattr(each, name) - begin_s for name in each._fields if name[-2:] == "_s"}
            )
            for each in on_nodes
        ),
        on_jobs=tuple(
            each._replace(at_s=max(each.at_s, now_s) - begin_s)
            for each in events.on_jobs
            if each.at_s > now_s or each.act in ("hold", "release")
        ),
        options=options,
        conditions={job: x._replace(begin_s=x.begin_s - begin_s) for job, x in events.conditions.items()},
    )


def _on_nodes(events: Events, begin_s: float, now_s: float, closed_s: float | None) -> Iterator[NodeEvent]:
    """No job runs on nodes that are down now, and none starts on those that are drained."""
    down = {x.nodes for x in events.on_nodes if isinstance(x, NodesUpdated) and x.state == "DOWN"}
    past = [
        each._replace(state="DRAIN" if each.state == "DOWN" else each.state)
        for each in events.on_nodes
        if isinstance(each, NodesUpdated) and each.at_s <= now_s
    ]
    yield from (each._replace(at_s=begin_s) for each in past if each.nodes in down)
    if closed_s is not None:
        yield from (NodesUpdated(closed_s, "ALL", "DRAIN"), NodesUpdated(now_s, "ALL", "RESUME"))
    yield from (each._replace(at_s=now_s) for each in past)
    for each in events.on_nodes:
        if not isinstance(each, NodesUpdated) and each.at_s <= now_s < each.end_s:
            yield each._replace(at_s=now_s, start_s=max(each.start_s, now_s))
    yield from (each for each in events.on_nodes if each.at_s > now_s)


LEAD_S = 120.0
"""The seconds before the present at which jobs that run start again, on nodes."""


@dataclass(frozen=True)
class PolicyOfLog:
    """A scheduler that serves the jobs of a log, and what is known of events."""

    log: JobLog
    scheduler: UnderTest
    events: Events = field(default_factory=Events)

    def under(self, more: Events) -> PolicyOfLog:
        """Under these events, and how jobs were submitted according to its own."""
        options, arrays = {**self.events.options, **more.options}, (*self.events.arrays, *more.arrays)
        conditions = EventsReader(self.log).conditions(options, arrays)
        events = replace(more, options=options, arrays=arrays, conditions=conditions)
        return replace(self, events=events)

    def replay(self, jobs: pl.DataFrame, events: Events) -> Replay:
        of = ReplaySettings if isinstance(self.scheduler, InProcess) else OfAccounting
        log, step_s = replace(self.log, jobs=jobs), of.slurm_step_s
        return Replay(log, few_jobs=0, events=events, slurm_step_s=step_s)

    @property
    def samples(self) -> int:
        """How many runs take seconds, or a few minutes."""
        is_compiled = self.replay(self.log.jobs, Events()).compiled(self.scheduler) is not None
        return 200 if is_compiled else 20 if isinstance(self.scheduler, InProcess) else 3

    @property
    def counts_age_s(self) -> float:
        """How long the age of a job raises its priority."""
        policy = None if self.log.cluster is None else self.log.cluster.policy
        how = None if policy is None else policy.multifactor
        return how.max_age_s if how is not None and how.weights.age else 0.0

    def times(self, replay: Replay, compiled: CompiledReplay | None, wanted: Flags) -> tuple[Floats, Floats]:
        """When each job of a replay starts first and ends, at least those that are `wanted`; not a number if
        it never does."""
        jobs = replay.log.jobs
        if compiled is not None and not compiled.may_interrupt:
            start_s = compiled.starts(jobs, wanted)
            return start_s, start_s + jobs["run_s"].to_numpy()
        facts = replay.facts(self.scheduler, Path(os.devnull)).select("event", "job", "time_s")
        started, ended = (
            dict(facts.filter(pl.col("event") == fact).drop("event")[::-1].iter_rows())
            for fact in (Fact.RUN_STARTED, Fact.RUN_ENDED)
        )
        start_s, end_s = np.array([[of.get(job, nan) for job in jobs["job"]] for of in (started, ended)])
        return start_s, end_s


@dataclass(frozen=True)
class KnownJobs:
    """Jobs of a log, with the times at which each started and ended: as recorded up to a moment, or under the
    policy. Infinite if that has not happened, not a number if it never does."""

    policy: PolicyOfLog
    start_s: Floats
    end_s: Floats
    now_s: float

    @classmethod
    def under(cls, policy: PolicyOfLog) -> KnownJobs:
        """Up to the last submission."""
        jobs = policy.log.jobs
        replay = policy.replay(jobs, policy.events)
        times = policy.times(replay, replay.compiled(policy.scheduler), np.ones(len(jobs), np.bool_))
        return cls(policy, *times, float(jobs["submit_s"][-1]))

    @cached_property
    def submit_s(self) -> Floats:
        return self.policy.log.jobs["submit_s"].to_numpy()


class Samples(NamedTuple):
    """Runs forward: starts and ends of the open jobs, with a row for each run; and by run, which jobs of the
    past arrive again within the horizon, and how long they wait."""

    start_s: Floats2
    end_s: Floats2
    again: list[Ints]
    waits_s: list[Floats]


@dataclass(frozen=True)
class Present:
    """What is known at a moment: the jobs that have been submitted, in which places of them `ended` (in order
    of their ends), run (in order of their starts, `began_s`), or wait.

    Jobs that start at this very moment wait, and are started by the first decision of a run forward.
    """

    policy: PolicyOfLog
    now_s: float
    jobs: pl.DataFrame
    ended: Ints
    running: Ints
    began_s: Floats
    waiting: Ints

    @classmethod
    def of(cls, known: KnownJobs, now_s: float, n_known: int | None = None) -> Present:
        """At a moment of a log, of which the first `n_known` jobs have been submitted: by default, those up
        to this moment. If it is in the past, later events are not known."""
        n = int(np.searchsorted(known.submit_s, now_s, side="right")) if n_known is None else n_known
        start_s, end_s, policy = known.start_s[:n], known.end_s[:n], known.policy
        running, ended = np.flatnonzero((start_s < now_s) & (end_s > now_s)), np.flatnonzero(end_s <= now_s)
        running = running[np.argsort(start_s[running], kind="stable")]
        ended = ended[np.argsort(end_s[ended], kind="stable")]
        if now_s < known.now_s:
            policy = replace(policy, events=up_to(policy.events, now_s))
        waiting = np.flatnonzero(start_s >= now_s)
        return cls(policy, now_s, policy.log.jobs[:n], ended, running, start_s[running], waiting)

    @cached_property
    def open(self) -> Ints:
        """The jobs that have not ended: running ones first."""
        return np.concatenate([self.running, self.waiting])

    @cached_property
    def partitions(self) -> list[str]:
        """Those that each job requests."""
        names = [",".join(sorted(each.partitions)) for each in self.policy.log.requests]
        return [names[k] for k in self.jobs["request"]] if names else [""] * len(self.jobs)

    @cached_property
    def _run_times(self) -> list[Floats]:
        """The run times that each open job may have."""
        known, ran_s = RunTimes(self.jobs, self.ended), np.zeros(len(self.open))
        ran_s[: len(self.running)] = self.now_s - self.began_s
        return [known.of(job, float(s)) for job, s in zip(self.open.tolist(), ran_s, strict=True)]

    def sampled(
        self, n: int, seed: int, horizon_s: float = 0.0, track: Callable[[range], Iterable[int]] = iter
    ) -> Samples:
        """The open jobs in `n` runs forward, each with run times and arrivals of its own. With equal seeds,
        those of variants are the same as far as possible.

        In a run, all jobs of a user are at the same quantile of their run times: they end early together, or
        run long together. Drawn one by one, they would make intervals too narrow.
        """
        submit_s, last_s, until_s = self.jobs["submit_s"].to_numpy(), self.now_s + horizon_s, inf
        if self._beginning[-1] is None:  # such runs do not end with the last start that matters
            until_s = np.nanmax(self.planned, initial=last_s)
        user = self.jobs["user"].to_numpy()
        users = np.unique(user[user >= 0])
        whose, is_known = np.searchsorted(users, user[self.open]), user[self.open] >= 0
        found = Samples(np.zeros((n, len(self.open))), np.zeros((n, len(self.open))), [], [])
        for k in track(range(n)):
            rng = np.random.default_rng([seed, k])
            again, at_s = drawn_arrivals(submit_s, self.now_s, rng)
            again, at_s = again[at_s <= until_s], at_s[at_s <= until_s]
            of_user, share = rng.random(len(users)), rng.random(len(self.open))
            share[is_known] = of_user[whose[is_known]]
            run_s = np.array([x[int(at * len(x))] for x, at in zip(self._run_times, share, strict=True)])
            in_time = int(np.searchsorted(at_s, last_s))
            found.start_s[k], found.end_s[k], later_s = self._times(run_s, again, at_s, in_time)
            found.again.append(again[:in_time])
            found.waits_s.append(later_s - at_s[:in_time])
        return found

    @cached_property
    def planned(self) -> Floats:
        """The starts of the open jobs if all ran up to their limits, and no further job came: what the policy
        itself plans. Those that run start before now, unless the model has no room for them."""
        limit_s = self.jobs["estimate_s"].fill_null(LONGEST_S).to_numpy()[self.open]
        return self._times(limit_s, np.zeros(0, np.int64), np.zeros(0), 0)[0]

    @cached_property
    def _beginning(self) -> tuple[float, Floats, Floats, Replay, CompiledReplay | None]:
        """When runs forward begin, when the open jobs arrive, how much longer their runs are, and the replay.
        Where jobs are only numbers of processors, those that run arrive when they began; on nodes
        they start together, on nodes that may be others, and those that wait arrive after them, as long ago
        as their age counts for their priority, if the policy is compiled."""
        n, submit_s = len(self.running), self.jobs["submit_s"].to_numpy()[self.waiting]
        numbers = self.jobs["job"].to_numpy()[self.open].tolist()
        number_of = {number: k for k, number in enumerate(numbers, start=1)}
        for age_s in (self.policy.counts_age_s, 0.0):
            begin_s, began_s, ready_s = 0.0, self.began_s, self.now_s
            if self.policy.log.cluster is not None:
                begin_s = max(self.now_s - age_s - LEAD_S, 0.0)
                began_s = np.full(n, begin_s)
                ready_s = min(begin_s + LEAD_S, self.now_s) if age_s else self.now_s
            arrive_s = np.concatenate([began_s, np.maximum(submit_s, ready_s)])
            closed_s = (begin_s + ready_s) / 2 if age_s else None
            events = going_on(self.policy.events, begin_s, self.now_s, closed_s, number_of)
            jobs = self.jobs[self.open].with_columns(job=np.arange(1, len(numbers) + 1), submit_s=arrive_s)
            replay, more_s = self.policy.replay(jobs, events), np.zeros(len(numbers))
            more_s[:n] = self.began_s - began_s
            compiled = replay.compiled(self.policy.scheduler)
            if compiled is not None:
                break
        return begin_s, arrive_s - begin_s, more_s, replay, compiled

    def _times(self, run_s: Floats, again: Ints, at_s: Floats, n_more: int) -> tuple[Floats, Floats, Floats]:
        """The starts and ends of the open jobs with these run times, and the starts of the first `n_more` of
        the jobs that arrive `again`."""
        begin_s, arrive_s, more_s, replay, compiled = self._beginning
        n, places = len(arrive_s), np.concatenate([self.open, again])
        arrive_s = np.concatenate([arrive_s, at_s - begin_s])
        order = np.argsort(arrive_s, kind="stable")  # some of the open jobs may arrive later
        limit_s = self.jobs["estimate_s"].fill_null(LONGEST_S).to_numpy()[places]
        run_s = np.concatenate([run_s + more_s, self.jobs["run_s"].to_numpy()[again]])
        # The harness refuses longer limits than partitions have.
        limit_s[:n] += more_s if compiled is not None else np.minimum(more_s, 0.0)
        jobs = self.jobs[places[order]].drop(LOG_ID, strict=False)
        jobs = jobs.with_columns(
            job=order + 1, submit_s=arrive_s[order], run_s=run_s[order], admitted_s="estimate_s",
            estimate_s=limit_s[order],
        )  # fmt: skip
        replay, back = replace(replay, log=replace(replay.log, jobs=jobs)), np.argsort(order)
        start_s, end_s = self.policy.times(replay, compiled, order < n + n_more)
        start_s, end_s = start_s[back] + begin_s, end_s[back] + begin_s
        late = np.flatnonzero(~(start_s[: len(self.running)] <= self.now_s))
        end_s[late] = self.began_s[late] + run_s[late] - more_s[late]
        return start_s[:n], end_s[:n], start_s[n : n + n_more]

    def with_submitted(self, log: JobLog, job: pl.DataFrame) -> Present:
        """The same with one more job, submitted now, in a log that knows what it requests."""
        jobs, waiting = pl.concat([self.jobs, job]), np.append(self.waiting, len(self.jobs))
        log = replace(log, jobs=pl.concat([log.jobs, job]))
        return replace(self, policy=replace(self.policy, log=log), jobs=jobs, waiting=waiting)
