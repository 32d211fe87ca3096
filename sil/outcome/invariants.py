"""Checkers that watch from outside: what must hold in every trace, whoever wrote it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from scheduler.model import JobId, Site
from scheduler.node_set import NodeSet
from sil.trace.facts import Fact

NO_JOB_LOST = "no-job-lost"
NO_JOB_RUN_TWICE = "no-job-run-twice"
NO_MACHINE_DOUBLE_BOOKED = "no-machine-double-booked"
NO_CLUSTER_WHILE_MEMBER_BUSY = "no-cluster-while-member-busy"
NOTHING_ON_A_MACHINE_THAT_IS_DOWN = "nothing-on-a-machine-that-is-down"
WHAT_IS_OVER_IS_OVER = "what-is-over-is-over"
TIME_NEVER_GOES_BACK = "time-never-goes-back"


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken invariant: its name, the job concerned, and one sentence."""

    rule: str
    job: JobId | None
    message: str


@dataclass(frozen=True, slots=True)
class _Row:
    time_s: float
    fact: Fact
    job: int
    run: int
    resource: int
    machines: str | None


def first_breach(facts: pl.DataFrame, site: Site) -> Breach | None:
    """The first invariant that the facts of one run break, or None. One pass over the trace.

    A run that ended in a fault may leave jobs unfinished; all else must hold up to there.
    """
    return next(_Watcher(site).breaches(facts), None)


class _Watcher:
    """Follows the facts of one run, knowing nothing but what they say."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._now_s = 0.0
        self._holder: dict[int, int] = {}
        """The job on each machine that is in use."""
        self._running: dict[int, tuple[int, ...]] = {}
        """The machines of each run."""
        self._down: set[int] = set()
        self._unfinished: dict[int, int | None] = {}
        self._faulted = False

    def breaches(self, facts: pl.DataFrame) -> Iterator[Breach]:
        columns = facts.select("time_s", "event", "job", "run", "resource", "machines")
        for time_s, event, *rest in columns.iter_rows():
            row = _Row(time_s, Fact(event), *rest)
            if row.fact is Fact.FAULT:
                self._faulted = True
                continue
            if row.time_s < self._now_s:
                yield Breach(
                    TIME_NEVER_GOES_BACK, None, f"{row.fact} at {time_s:.12g} s, after {self._now_s:.12g} s"
                )
            self._now_s = row.time_s
            yield from self._follow(row)
        if not self._faulted:
            for job in sorted(self._unfinished):
                message = f"job {job} arrived, was not refused and never ended"
                yield Breach(NO_JOB_LOST, JobId(job), message)

    def _follow(self, row: _Row) -> Iterator[Breach]:
        match row.fact:
            case Fact.JOB_ARRIVED:
                self._unfinished[row.job] = None
            case Fact.JOB_REFUSED:
                del self._unfinished[row.job]
            case Fact.MACHINE_DOWN:
                self._down.add(row.resource)
            case Fact.MACHINE_UP:
                self._down.discard(row.resource)
            case Fact.RUN_STARTED:
                yield from self._started(row)
            case Fact.RUN_ENDED | Fact.RUN_PREEMPTED | Fact.RUN_LOST:
                yield from self._over(row)

    def _started(self, row: _Row) -> Iterator[Breach]:
        job = JobId(row.job)
        if self._unfinished.get(job, row.run) is not None:
            yield Breach(
                NO_JOB_RUN_TWICE, job, f"job {job} starts at {row.time_s:.12g} s, but runs or has ended"
            )
        machines = tuple(NodeSet.parse(row.machines or ""))
        for j in machines:
            if j in self._holder or j in self._down:
                yield from self._cannot_be_there(row, j)
            self._holder[j] = row.job
        self._running[row.run] = machines
        self._unfinished[job] = row.run

    def _cannot_be_there(self, row: _Row, j: int) -> Iterator[Breach]:
        job = JobId(row.job)
        where = f"job {job} starts at {row.time_s:.12g} s on {self._site.resource_names[j]}"
        if j in self._holder:
            on_cluster = row.resource >= self._site.n_machines
            rule = NO_CLUSTER_WHILE_MEMBER_BUSY if on_cluster else NO_MACHINE_DOUBLE_BOOKED
            yield Breach(rule, job, f"{where}, where job {self._holder[j]} is")
        if j in self._down:
            yield Breach(NOTHING_ON_A_MACHINE_THAT_IS_DOWN, job, f"{where}, which is down")

    def _over(self, row: _Row) -> Iterator[Breach]:
        machines = self._running.pop(row.run, None)
        if machines is None:
            message = f"run {row.run} of job {row.job} is over at {row.time_s:.12g} s, but was not running"
            yield Breach(WHAT_IS_OVER_IS_OVER, JobId(row.job), message)
            return
        for j in machines:
            self._holder.pop(j, None)
        if row.fact is Fact.RUN_ENDED:
            self._unfinished.pop(row.job, None)
        else:
            self._unfinished[row.job] = None
