"""What the facts of a replay say about its log: the jobs, their statistics, and what went wrong; and the
priority of each job when it started, with its factors, calculated anew."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from scheduler.messages import counted
from scheduler.node_request import Request
from scheduler.node_resources.described import DescribedNodes, RequestAdmission
from scheduler.priority.claims import Claimant, Claims
from sil.outcome import finished_jobs
from sil.outcome.backlog import Backlog
from sil.outcome.finished_jobs import FinishedJobs, JobsFor
from sil.outcome.invariants.checker import Capacity, Invariants
from sil.outcome.invariants.reservations import KeptFromNodes
from sil.outcome.jobs import ENDINGS, PRIORITY, batsim_jobs
from sil.outcome.metrics import INTERRUPTED, REFUSED
from sil.outcome.refused_and_failed import refusal_sentence
from sil.outcome.replay_statistics import MeasuredJobs, ReplayStatistics
from sil.trace.facts import CODES, Fact, FactColumns
from sil.workload.job_log import JobLog, user_names
from sil.world.guard.faults import fault_sentence

_WAITS, _STARTED = [CODES[fact] for fact in (Fact.JOB_ARRIVED, Fact.JOB_ELIGIBLE)], CODES[Fact.RUN_STARTED]
ENDED = CODES[Fact.RUN_ENDED]
_KNOWN = {*_WAITS, _STARTED, *(CODES[fact] for fact in ENDINGS)}
"""The facts that matter, of which a job waits from those on that `_WAITS` has."""


class PrioritiesAtStart:
    """Follows the facts of a replay of a log that has a policy."""

    def __init__(self, log: JobLog) -> None:
        assert log.cluster is not None
        assert log.cluster.policy is not None
        nodes = DescribedNodes(tuple(log.cluster.nodes.values()), log.cluster.site_resources)
        admission = RequestAdmission(nodes, log.cluster.partitions)
        admitted = cache(lambda k, limit_s: admission.admitted(log.requests[k], limit_s))
        self._claims, self._found = Claims(log.cluster.policy, nodes.all), dict[int, dict[str, float]]()
        self._asked: dict[int, tuple[int, Claimant, Request, float]] = {}
        names, charged = user_names(log.jobs["user"].unique(), log.users), log.charged or (("", ""),)
        of_jobs = "charged" if log.charged else pl.lit(0).alias("charged")
        rows = log.jobs.select("job", "user", of_jobs, "request", "estimate_s").iter_rows()
        for slot, (job, user, k, which, limit_s) in enumerate(rows):
            if isinstance(request := admitted(which, limit_s), Request):
                self._asked[job] = slot, Claimant(names[user], *charged[k]), request, limit_s

    def add(self, facts: FactColumns) -> None:
        """Follow the next facts."""
        columns = facts.time_s.tolist(), facts.event.tolist(), facts.job.tolist()
        for x, (time_s, event, job) in enumerate(zip(*columns, strict=True)):
            if event in _KNOWN and job in self._asked:
                if event == _STARTED:
                    self._choose(job, facts, x)
                self._follow(time_s, event, job)

    def _choose(self, job: int, facts: FactColumns, x: int) -> None:
        """A job starts in one of its partitions."""
        slot, who, request, limit_s = self._asked[job]
        if len(request.partitions | request.elsewhere) > 1 and (chosen := facts.detail(x)) is not None:
            self._asked[job] = slot, who, request.within(chosen), limit_s
            claim = self._claims.of(who, request.within(chosen), limit_s)
            assert isinstance(claim, int), "it has started"
            self._claims.service.limits.change(slot, claim)

    def _follow(self, time_s: float, event: int, job: int) -> None:
        claims, service = self._claims, self._claims.service
        slot, who, request, limit_s = self._asked[job]
        if event in _WAITS:
            if isinstance(claim := claims.of(who, request, limit_s), int):
                service.next_claim = claim
                service.arrives(slot, time_s)
        elif event == _STARTED:
            service.calculate(time_s)
            factors = claims.factors(slot, who, request, limit_s)
            named = {f"{PRIORITY}_{name}": value for name, value in factors.items()}
            self._found[job] = {PRIORITY: service.priority(slot), **named}
            service.begins(slot, time_s)
        else:
            service.ends(slot, time_s)

    def of(self, finished: pl.DataFrame) -> pl.DataFrame:
        """A table of jobs that have finished, with their priorities."""
        found = pl.DataFrame([self._found.pop(job) for job in finished["job_id"]])
        return finished.hstack(found.cast(pl.Float64))


class JobsMay(NamedTuple):
    """What may become of jobs: `be_late`, see JobsFor.TABLE_AT_THE_END; `restart` after interrupted runs."""

    be_late: bool = False
    restart: bool = False


OnJobs = Callable[[pl.DataFrame], None]
COLUMNS = (*finished_jobs.COLUMNS, "message")
"""The columns of facts that are read."""


@dataclass(frozen=True)
class Results:
    """The results of a replay: statistics (`sil.outcome.metrics.REPLAY_METRICS`; none after a fault, or
    without jobs), a sentence on its fault, and one on jobs that were refused or ended early, if any."""

    statistics: dict[str, float]
    fault: str | None = None
    refused: str | None = None


class ReplayedLog:
    """Follows the facts of a replay of a log under a scheduler.

    Finished jobs are passed to `on_jobs` as `batsim_jobs`, in order of number; without it, there are only
    statistics. For `is_long` see `Invariants`. What is too large for memory is kept in `folder`.
    """

    def __init__(
        self,
        log: JobLog,
        scheduler: str,
        jobs_may: JobsMay,
        is_long: bool,
        on_jobs: OnJobs | None = None,
        folder: Path | None = None,
        priorities: PrioritiesAtStart | None = None,
    ) -> None:
        self._log = log
        self._cut = log.cut
        self._measured = log.measured
        self._scheduler = scheduler
        self._on_jobs, self._priorities = on_jobs, priorities
        wanted = JobsFor.TABLE_AT_THE_END if jobs_may.be_late else JobsFor.TABLE
        wanted = JobsFor.STATISTICS if on_jobs is None else wanted
        self._jobs = FinishedJobs(log.requested, wanted, jobs_may.restart)
        self._invariants = Invariants(_capacity(log), is_long)
        self._nodes = KeptFromNodes(() if log.cluster is None else (*log.cluster.nodes,))
        self._rule_broken: str | None = None
        self._n_arrived = 0
        self._refused: dict[int, str] = {}
        """Why jobs were refused that have not run."""
        self._ended_early: dict[int, str] = {}
        """Why jobs were ended that have run."""
        gpus = 0 if log.cluster is None else log.cluster.gpus
        measured = _measured(log)
        self.statistics = ReplayStatistics(log.processors, gpus, folder, measured, log.bound_s)
        self._backlog = _backlog(log, measured)
        self._bound_s = log.bound_s

    def add(self, table: pl.DataFrame) -> None:
        """Add the next facts, with at least these COLUMNS."""
        facts = FactColumns(table)
        self._invariants.add(facts)
        self._nodes.add(facts)
        self._jobs.add(facts)
        self._backlog.add(facts)
        if self._priorities is not None:
            self._priorities.add(facts)
        if len(refused := facts.places(Fact.JOB_REFUSED)):
            self._refused.update(facts.frame(["job", "detail"], refused).iter_rows())
        if len(ready := self._jobs.ready()):
            self._take(ready)
        self._n_arrived += len(facts.places(Fact.JOB_ARRIVED))
        if len(faults := facts.places(Fact.FAULT)):
            time_s, job, rule, message = facts.frame(["time_s", "job", "detail", "message"], faults).row(0)
            self._rule_broken = self._rule_broken or fault_sentence(
                self._scheduler, rule, job, time_s, message
            )

    def end(self) -> None:
        """Note that there are no more facts."""
        if self._jobs.has_more or not self.statistics.n:  # a table without jobs has columns, too
            self._take(self._jobs.rest())

    def results(self, all_facts: Callable[[], pl.DataFrame]) -> Results:
        """The results, after the end. For `all_facts` see `Invariants`."""
        fault, refused = self._rule_broken, None
        violation = self._nodes.violation or self._invariants.first_violation(all_facts)
        if fault is None and violation is not None:
            fault = f"{self._scheduler}: the trace breaks the invariant {violation.rule}: {violation.message}"
        were_refused, were_ended = self._of_measured(self._refused), self._of_measured(self._ended_early)
        n_arrived = len(self._measured) or self._n_arrived
        if were_refused:
            first = next(iter(were_refused.values()))
            refused = refusal_sentence(self._scheduler, n_arrived, len(were_refused), first)
        if were_ended:
            first = were_ended[min(were_ended)]
            n, verb = len(were_ended), "was" if len(were_ended) == 1 else "were"
            early = f"{n:,} of {counted(n_arrived, 'job')} {verb} ended early; the first because {first}"
            refused = f"{self._scheduler}: {early}" if refused is None else f"{refused}; {early}"
        return Results({} if fault else self._metrics() | self._refusals(were_refused), fault, refused)

    def _metrics(self) -> dict[str, float]:
        found, of_jobs = self.statistics, self._jobs
        if not found.n:
            return {}
        values = (float(of_jobs.n_interrupted), of_jobs.lost_s / 3_600)
        interrupted = zip((m.key for m in INTERRUPTED), values, strict=True) if of_jobs.n_interrupted else ()
        return found.metrics | self._backlog.metrics(*found.span_s, found.computing_s) | dict(interrupted)

    def _refusals(self, refused: Collection[int]) -> dict[str, float]:
        """How many jobs were refused, and their processor-hours, if any."""
        of_them = self._log.jobs.filter(pl.col("job").is_in(list(refused)))
        held_s = float((of_them["processors"] * of_them["run_s"]).sum())
        values = (float(len(refused)), held_s / 3_600)
        return {m.key: value for m, value in zip(REFUSED, values, strict=True)} if refused else {}

    def _of_measured(self, whys: dict[int, str]) -> dict[int, str]:
        return {job: why for job, why in whys.items() if not self._measured or job in self._measured}

    def _take(self, finished: pl.DataFrame) -> None:
        if self._refused:
            ran = self._refused.keys() & set(finished["job_id"].to_list())
            self._ended_early.update((job, self._refused.pop(job)) for job in ran)
        if self._priorities is not None and len(finished):
            finished = self._priorities.of(finished)
        columns = self.statistics.columns if self._on_jobs is None else ()
        jobs = batsim_jobs(finished, self._cut, columns, self._bound_s)
        self.statistics.add(jobs)
        if self._on_jobs is not None:
            self._on_jobs(jobs)


def _measured(log: JobLog) -> MeasuredJobs | None:
    if not log.measured:
        return None
    numbers = list(log.measured)
    submitted_s = log.jobs.filter(pl.col("job").is_in(numbers))["submit_s"]
    return MeasuredJobs(numbers, float(submitted_s[0]), float(submitted_s[-1]))


def _backlog(log: JobLog, measured: MeasuredJobs | None) -> Backlog:
    capacities = np.ones(log.processors, np.int64)
    if log.cluster is not None:
        capacities = np.array([int(node.cores) for node in log.cluster.nodes.values()], np.int64)
    partitions = log.requested["job", "partition"] if log.requests else None
    if measured is None:
        return Backlog(capacities, partitions)
    return Backlog(capacities, partitions, np.array(measured.jobs), (measured.from_s, measured.until_s))


def _capacity(log: JobLog) -> Capacity:
    if log.cluster is None:
        return Capacity(log.processors)
    nodes = tuple(log.cluster.nodes.values())
    return Capacity(len(nodes), nodes=nodes, site_resources=log.cluster.site_resources)
