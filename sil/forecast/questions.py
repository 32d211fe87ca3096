"""What is asked of the present: forecasts of its jobs, of a job that might be submitted, and of waits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from scheduler import UserError
from scheduler.model import ANYONE
from sil.forecast.forward import Present, Samples
from sil.forecast.scoring import ForecastTime
from sil.runs.compiled import CompiledReplay
from sil.runs.under_test import UnderTest
from sil.settings.replays import Estimates
from sil.workload.job_log import JobLog, user_names
from sil.world.events import ORDERS
from site_db.jobs.records import Charged, LoggedJob
from site_db.jobs.requests import LoggedRequests
from site_db.slurm.output import Tres


def replay_under(log: JobLog, scheduler: UnderTest) -> CompiledReplay:
    """The replay of a log under a scheduler, with the users' estimates. Raises UserError."""
    replay = CompiledReplay.of(log, scheduler, Estimates.USER, ORDERS["default"])
    if isinstance(replay, str):
        raise UserError(f"scheduler '{scheduler.label}' makes no forecasts: {replay}; give a built-in one")
    return replay


@dataclass(frozen=True)
class JobForecast:
    """Start (None if it runs) and end of a job, in seconds from now; `planned_start_s` is what the scheduler
    plans, by the time limits of all jobs."""

    job: int
    processors: int
    start: ForecastTime | None
    end: ForecastTime
    planned_start_s: float | None

    def as_dict(self) -> dict[str, Any]:
        """A JSON object."""
        times = {"start": self.start, "end": self.end}
        return asdict(self) | {k: None if x is None else x._asdict() for k, x in times.items()}


def forecasts(present: Present, samples: Samples) -> list[JobForecast]:
    """Of all open jobs: those that run, and those that wait."""
    now_s, planned_s, found = present.now_s, present.planned() - present.now_s, []
    numbers, sizes = (present.jobs[name].to_list() for name in ("job", "processors"))
    for x, job in enumerate(samples.job.tolist()):
        start_s = samples.start_s[:, x] - now_s
        runs = x < len(present.running)
        start = None if runs else ForecastTime.of(start_s)
        end, planned = ForecastTime.of(start_s + samples.run_s[:, x]), None if runs else float(planned_s[x])
        found.append(JobForecast(numbers[job], sizes[job], start, end, planned))
    return found


def waits_ahead(samples: Samples) -> dict[str, ForecastTime]:
    """Of the jobs that arrive within the horizon: statistics of their waits, each with its interval over the
    samples. Samples without arrivals do not count."""
    waits = [waits_s for waits_s in samples.waits_s if len(waits_s)]
    if not waits:
        return {}
    of_each = {
        "jobs": [float(len(each)) for each in waits],
        "mean wait (s)": [float(each.mean()) for each in waits],
        "median wait (s)": [float(np.median(each)) for each in waits],
        "90th percentile of waits (s)": [float(np.quantile(each, 0.9)) for each in waits],
        "start at once (%)": [100.0 * float((each == 0).mean()) for each in waits],
    }
    return {name: ForecastTime.of(np.array(values)) for name, values in of_each.items()}


class HypotheticalJob(NamedTuple):
    """A job that might be submitted: CPUs, in equal parts on a number of nodes, and its time limit."""

    nodes: int
    cpus: int
    limit_s: float

    def variants(self) -> Iterator[HypotheticalJob]:
        """It, then half of it: CPUs and nodes, time limit, and both."""
        half = self._replace(nodes=max(self.nodes // 2, 1), cpus=max(self.cpus // 2, 1))
        both = (self, half, *(x._replace(limit_s=x.limit_s / 2) for x in (self, half)))
        yield from dict.fromkeys(both)


def with_submission(present: Present, job: HypotheticalJob, user: str | None, partition: str) -> Present:
    """The present, with a job that is submitted now by a user. Raises UserError."""
    replay, log = present.replay, present.replay.log
    number = int(log.jobs["job"].max() or 0) + 1  # type: ignore[arg-type]
    row: dict[str, Any] = {
        "job": number,
        "submit_s": present.now_s,
        "run_s": job.limit_s,
        "processors": job.cpus,
        "estimate_s": job.limit_s,
        "user": _user(log, user),
    }
    if log.cluster is None:
        if job.cpus > log.processors or job.nodes > 1 or partition:
            raise UserError(
                f"{log.name}: the submitted job cannot run; the machine has {log.processors:,} processors, "
                f"without nodes and partitions"
            )
    else:
        tres, at = Tres(job.cpus, job.nodes), present.now_s
        logged = LoggedJob("", user or "", "", partition, job.cpus, (), at, at, at, job.limit_s, tres)
        requests = LoggedRequests(log.cluster)
        request = requests.all[requests.count(logged)]
        if (why := log.cluster.unsatisfied(request)) is not None:
            raise UserError(f"{log.name}: the submitted job requests {why}")
        row |= {"request": len(log.requests), "charged": len(log.charged)}
        classes = (*log.job_classes, log.job_classes[0]) if log.job_classes else ()
        charged = (*log.charged, Charged("", "")) if log.charged else ()
        log = replace(log, requests=(*log.requests, request), job_classes=classes, charged=charged)
        replay = replace(replay, log=log)
    table = pl.DataFrame({name: row.get(name) for name in present.jobs.columns}, present.jobs.schema)
    return present.with_submitted(replay, table)


def _user(log: JobLog, name: str | None) -> int:
    """The number of a user; -1 for anyone. Raises UserError for one that the log does not have."""
    if name is None:
        return -1
    numbers = log.jobs["user"].unique().sort().to_list()
    names = user_names(numbers, log.users)
    found = [number for number in numbers if name in (str(number), names[number]) and name != ANYONE]
    if not found:
        raise UserError(f"{log.name}: there is no user '{name}'; leave --user out for a job of anyone")
    return int(found[0])


def chosen(found: Sequence[JobForecast], job: int, where: str) -> list[JobForecast]:
    """The forecast of one job. Raises UserError if it neither runs nor waits."""
    one = [each for each in found if each.job == job]
    if not one:
        raise UserError(f"{where}: job {job} neither runs nor waits then; see all that do without --job")
    return one
