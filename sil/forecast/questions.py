"""What is asked of the present: forecasts of its jobs, of a job that might be submitted, and of waits; and
how good forecasts are: coverage of intervals, and errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, floor, inf, isfinite
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from scheduler import UserError
from scheduler.core.arrays import Floats, Ints
from scheduler.free_nodes.runtime_estimates import LONGEST_S
from scheduler.messages import counted
from scheduler.model import ANYONE
from sil.forecast.forward import KnownJobs, Present, Samples
from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import DUE_IN_S, JobLog, user_names
from site_db.jobs.logged import Charged, LoggedJob
from site_db.jobs.requests import LoggedRequests
from site_db.slurm.output import Tres

Levels = tuple[float, float]
LEVELS: Levels = (0.1, 0.9)
"""The quantiles between which 80 % of jobs should start, and end."""


class ForecastTime(NamedTuple):
    """A forecast time, and its 80 % interval, whose ends are times of samples; infinite if it never comes."""

    low_s: float
    median_s: float
    high_s: float

    def as_dict(self) -> dict[str, float | None]:
        """A JSON object."""
        return {name: x if isfinite(x) else None for name, x in self._asdict().items()}

    @classmethod
    def of(cls, times_s: Floats, levels: Levels = LEVELS) -> ForecastTime:
        """Of equally likely times."""
        in_order, last = np.sort(np.nan_to_num(times_s, nan=inf)), len(times_s) - 1
        low_s, high_s = in_order[floor(last * levels[0])], in_order[ceil(last * levels[1])]
        return cls(float(low_s), float(np.median(in_order)), float(high_s))


class PastForecast(NamedTuple):
    """Of the start or the end (`of`) of a job in a place, when it was submitted: equally likely times, what
    the scheduler planned by the time limits, and when it came."""

    job: int
    of: str
    times_s: Floats
    planned_s: float
    true_s: float


def waited(known: KnownJobs) -> Ints:
    """The jobs that waited and ended: forecasts know the others with certainty."""
    found: Ints = np.flatnonzero((known.start_s > known.submit_s) & np.isfinite(known.end_s))
    return found


def past_forecasts(known: KnownJobs, n: int, samples_of_each: int, seed: int) -> Iterator[PastForecast]:
    """Of the starts and ends of jobs that waited, evenly spaced over the last three quarters of a log:
    nothing that a forecast knows comes from their future. Raises UserError if too few did."""
    jobs, log = waited(known), known.policy.log
    jobs = jobs[jobs >= len(log) // 4]
    if len(jobs) < n:
        raise UserError(
            f"{log.name}: {counted(len(jobs), 'job')} of its last three quarters waited; expected {n:,} to "
            f"score forecasts"
        )
    limit_s = log.jobs["estimate_s"].fill_null(LONGEST_S).to_numpy()
    for job in jobs[np.linspace(0, len(jobs) - 1, n).astype(np.int64)].tolist():
        present = Present.of(known, float(known.submit_s[job]), job + 1)
        samples, x = present.sampled(samples_of_each, seed), int(np.flatnonzero(present.open == job)[0])
        plan_s, true_s = float(present.planned[x]), (float(known.start_s[job]), float(known.end_s[job]))
        yield PastForecast(job, "start", samples.start_s[:, x], plan_s, true_s[0])
        yield PastForecast(job, "end", samples.end_s[:, x], plan_s + float(limit_s[job]), true_s[1])


class ForecastErrors(NamedTuple):
    """The mean absolute error of forecasts; of intervals, the share that has the truth, and the mean
    width."""

    error_s: float
    coverage: float
    width_s: float

    @classmethod
    def of(cls, forecasts: Sequence[ForecastTime], true_s: Sequence[float]) -> ForecastErrors:
        low_s, middle_s, high_s = np.array(forecasts).T
        within, errors_s = (low_s <= true_s) & (true_s <= high_s), np.abs(middle_s - true_s)
        return cls(float(errors_s.mean()), float(within.mean()), float((high_s - low_s).mean()))


@dataclass(frozen=True)
class JobForecast:
    """Start (None if it runs) and end of a job, in seconds from now; `planned_start_s` is what the scheduler
    plans, by the time limits of all jobs. None in JSON = never."""

    job: str
    partition: str
    processors: int
    start: ForecastTime | None
    end: ForecastTime
    planned_start_s: float | None

    def as_dict(self) -> dict[str, Any]:
        """A JSON object."""
        times = {"start": self.start, "end": self.end}
        return asdict(self) | {k: None if x is None else x.as_dict() for k, x in times.items()}


def forecasts(present: Present, samples: Samples) -> list[JobForecast]:
    """Of all open jobs: those that run, and those that wait."""
    planned_s, found, jobs = present.planned - present.now_s, [], present.jobs
    names = [pl.col(name).cast(pl.String) for name in (LOG_ID, "job") if name in jobs.columns]
    name_of = jobs.select(pl.coalesce(names)).to_series()
    start_s, end_s = samples.start_s.T - present.now_s, samples.end_s.T - present.now_s
    for x, place in enumerate(present.open.tolist()):
        start = planned = None
        if x >= len(present.running):
            start, planned = ForecastTime.of(start_s[x]), float(planned_s[x])
            planned = None if np.isnan(planned) else planned
        whose = name_of[place], present.partitions[place], jobs["processors"][place]
        found.append(JobForecast(*whose, start, ForecastTime.of(end_s[x]), planned))
    return found


def waits_ahead(present: Present, samples: Samples) -> dict[str, dict[str, ForecastTime]]:
    """Of all jobs that arrive within the horizon, and of those of each partition: statistics of their waits,
    each with its interval over the samples. Samples without arrivals do not count."""
    partition, found = np.array(present.partitions), dict[str, dict[str, ForecastTime]]()
    each = [(partition[again], x) for again, x in zip(samples.again, samples.waits_s, strict=True)]
    names = sorted(set().union(*(of.tolist() for of, _ in each)))
    for name in ("all", *(names if len(names) > 1 else ())):
        waits = [waits_s[(of == name) | (name == "all")] for of, waits_s in each]
        waits = [np.nan_to_num(x, nan=np.inf) for x in waits if len(x)]
        of_each = {
            "jobs": [len(x) for x in waits],
            "mean wait": [x.mean() for x in waits],
            "median wait": [np.median(x) for x in waits],
            "90th percentile of wait": [np.sort(x)[int(0.9 * (len(x) - 1))] for x in waits],
            "start at once (%)": [100.0 * (x == 0).mean() for x in waits],
        }
        if waits:
            found[name] = {what: ForecastTime.of(np.array(values, float)) for what, values in of_each.items()}
    return found


class HypotheticalJob(NamedTuple):
    """A job that might be submitted: CPUs, in equal parts on a number of nodes, and its time limit."""

    nodes: int
    cpus: int
    limit_s: float

    def variants(self) -> Iterator[HypotheticalJob]:
        """It, then half of it: nodes (of one node, CPUs), time limit, and both."""
        nodes = max(self.nodes // 2, 1)
        half = self._replace(nodes=nodes, cpus=max(self.cpus * nodes // max(self.nodes, 2), 1))
        both = (self, half, *(x._replace(limit_s=x.limit_s / 2) for x in (self, half)))
        yield from dict.fromkeys(both)


def with_submission(
    present: Present, job: HypotheticalJob, user: str | None, partition: str, by_s: float | None = None
) -> Present:
    """The present, with a job that is submitted now by a user, by default to the partition with Default=YES,
    and due in `by_s`. Raises UserError."""
    log = present.policy.log
    number = int(log.jobs["job"].max() or 0) + 1  # type: ignore[arg-type]
    row: dict[str, Any] = {
        "job": number,
        "submit_s": present.now_s,
        "run_s": job.limit_s,
        "processors": job.cpus,
        "estimate_s": job.limit_s,
        "user": _user(log, user),
        LOG_ID: str(number),
        DUE_IN_S: inf if by_s is None else by_s,
    }
    if log.cluster is None:
        if job.cpus > log.processors or job.nodes > 1 or partition:
            raise UserError(
                f"{log.name}: the submitted job cannot run; the machine has {log.processors:,} processors, "
                f"without nodes and partitions"
            )
    else:
        default = (name for name, each in log.cluster.partitions.items() if each.is_default)
        partition = partition or next(default, "")
        tres, at = Tres(job.cpus, job.nodes), present.now_s
        logged = LoggedJob("", user or "", "", partition, job.cpus, (), at, at, at, job.limit_s, tres)
        requests = LoggedRequests(log.cluster)
        request = requests.all[requests.count(logged)]
        if (why := log.cluster.unsatisfied(request, job.limit_s)) is not None:
            raise UserError(f"{log.name}: the submitted job requests {why}")
        row |= {"request": len(log.requests), "charged": len(log.charged)}
        classes = (*log.job_classes, log.job_classes[0]) if log.job_classes else ()
        charged = (*log.charged, Charged("", "")) if log.charged else ()
        log = replace(log, requests=(*log.requests, request), job_classes=classes, charged=charged)
    table = pl.DataFrame({name: row.get(name) for name in present.jobs.columns}, present.jobs.schema)
    return present.with_submitted(log, table)


def _user(log: JobLog, name: str | None) -> int:
    """The number of a user; -1 for anyone. Raises UserError for one that the log does not have."""
    if name is None:
        return -1
    names = user_names(log.jobs["user"].unique().sort(), log.users)
    found = [number for number, text in names.items() if name in (str(number), text) and name != ANYONE]
    if not found:
        raise UserError(f"{log.name}: there is no user '{name}'; leave --user out for a job of anyone")
    return int(found[0])
