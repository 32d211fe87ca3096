"""The rigid jobs of a log, selections of them, and scaling of their load."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import polars as pl

from scheduler.messages import abbreviated, counted
from scheduler.model import ANYONE
from scheduler.node_request import Request
from scheduler.priority.claims import Claimant, Claims
from scheduler.priority.policy import PartitionPolicy
from sil.trace.log_clock import LogClock, moment_of
from sil.trace.log_ids import LOG_ID, LogIds, column_of
from sil.workload.mapped_columns import Pages
from site_db.files.formats import is_whole
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import Charged
from site_db.jobs.swf import unix_start_s
from site_db.site_file.cluster import SiteNodes

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "job": pl.Int64,
    "submit_s": pl.Float64,
    "run_s": pl.Float64,
    "processors": pl.Int64,
    "estimate_s": pl.Float64,
    "user": pl.Int64,
}
"""One row per job, in order of submission, then of job number. An unknown user is -1. Where the log's ids are
not these numbers, there is the column LOG_ID, too, and where jobs have deadlines, DUE_IN_S."""

YEAR_S = 366 * 86_400.0
DUE_IN_S = "due_in_s"
"""The seconds from the submission of a job to its deadline; infinite without one."""

MAX_PROCESSORS = 100_000_000
PART = 2**18
"""The number of jobs of a long log that are processed at a time."""
MIN_S = 1.0
"""The shortest run, and the shortest estimate, in seconds."""
LARGEST = 1e15
"""The largest number; larger ones are errors: floating-point seconds would not be exact."""
LOAD_TOLERANCE = 0.01

JOB_CLASS = "rigid"
QUEUE = "default"


def span_text(span_s: float) -> str:
    """A span in days or, where it is shorter, in hours, minutes or seconds."""
    for unit_s, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if span_s >= unit_s:
            return f"{span_s / unit_s:,.1f} {unit}"
    return counted(round(span_s), "second")


def possible_size(processors: int, path: Path | str) -> int:
    """The size itself, if a machine can have it. Raises InvalidFile."""
    if not 1 <= processors <= MAX_PROCESSORS:
        raise InvalidFile(
            f"{path}: a machine cannot have {processors:,} processors; from 1 to {MAX_PROCESSORS:,} are "
            "possible"
        )
    return processors


class Kept(Protocol):
    """What a format of logs has beyond the columns of jobs."""

    def others(self, log: JobLog) -> dict[str, int]:
        """What no other format holds of the jobs of a log, with the number of jobs that have it."""


def losses(lost: Mapping[str, int], format: str) -> list[str]:
    """A sentence on what a format cannot hold, if there is anything."""
    some = [f"{what} ({n:,})" for what, n in lost.items() if n]
    return [f"not in the file, since {format} has no place for it: {', '.join(some)}"] if some else []


@dataclass(frozen=True, repr=False)
class JobLog:
    """The jobs of a log (columns of SCHEMA), and the size of its machine. `log[:3000]` are its first jobs.

    `notes` has a sentence for each repair; `part` describes the selection and the load; `cut` has the numbers
    of the jobs whose runs were cut at their estimates.
    """

    name: str
    jobs: pl.DataFrame
    processors: int
    header: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    part: tuple[str, ...] = ()
    cut: frozenset[int] = frozenset()
    unsuccessful: Iterable[int] = ()
    """The numbers of the jobs that failed or were cancelled while they ran, as far as the log says so."""
    after: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    """In a closed loop, the job after whose end a job is submitted, by number, and how many seconds later. It
    is there from the arrival of the first one on, and not eligible to run."""
    measured: frozenset[int] = frozenset()
    """The numbers of the jobs that count in statistics; all do if it is empty."""
    bound_s: float = 10.0  # of bounded slowdowns
    cluster: SiteNodes | None = None
    """Its nodes, if they have cores, memory and GPUs. Then `processors` are all cores, and the column
    `request` of `jobs` is the position in `requests` of what a job requests."""
    requests: tuple[Request, ...] = ()
    job_classes: tuple[str, ...] = ()
    """The job class of each of `requests`, if the log has classes."""
    users: Mapping[int, str] = field(default_factory=dict)
    """The names of users, if the log has names."""
    charged: tuple[Charged, ...] = ()
    """If the log has accounts or QOS, the column `charged` of `jobs` is the position in these."""
    zone: tzinfo = UTC
    """The time zone of dates without one."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 sums of the files that it was read from, by name."""
    kept: Kept | None = None
    """What its format has beyond that, if it is to be written again."""
    pages: Pages = field(default_factory=Pages)
    """What of a long log is in memory."""

    def __len__(self) -> int:
        return len(self.jobs)

    def __getitem__(self, places: slice) -> JobLog:
        """Jobs by their index in order of submission. Raises InvalidFile if none is left."""
        if not isinstance(places, slice) or places.step not in (None, 1):
            raise InvalidFile(f"{self.name}: log[{places!r}] is no range of jobs, like log[:3000]")
        return self.slice(places.start, places.stop)

    def __repr__(self) -> str:
        return f"<{self.summary}>"

    def parts(self) -> Iterator[pl.DataFrame]:
        """The jobs, of which few are in memory at a time."""
        for part in self.jobs.iter_slices(PART):
            yield part
            self.pages.forget()

    @property
    def span_s(self) -> float:
        """The seconds from the first submission to the last."""
        return float(self.jobs["submit_s"][-1]) - float(self.jobs["submit_s"][0])

    @property
    def load(self) -> float | None:
        """Processor-seconds of all jobs, as a share of the machine's from the first submission to the last;
        None if all jobs arrive at once."""
        work = sum(float((part["processors"] * part["run_s"]).sum()) for part in self.parts())
        return work / (self.processors * self.span_s) if self.span_s else None

    @cached_property
    def requested(self) -> pl.DataFrame:
        """The columns job and requested_time; of jobs with requests also partition (those that they name,
        joined by commas), and requested_gpus: all of them, null with whole nodes, whose GPUs count; and
        LOG_ID, if there is one."""
        due_in_s = [DUE_IN_S] if DUE_IN_S in self.jobs.columns else []
        asked = self.jobs.select("job", *due_in_s, requested_time="estimate_s", **self._log_id)
        if not self.requests:
            return asked
        request = self.jobs["request"]
        partitions = [",".join(sorted(each.partitions)) for each in self.requests]
        gpus = [None if each.exclusive else each.n_gpus for each in self.requests]
        return asked.with_columns(
            partition=pl.Series(partitions, dtype=pl.String).gather(request),
            requested_gpus=pl.Series(gpus, dtype=pl.Float64, strict=False).gather(request),
        )

    @property
    def _log_id(self) -> dict[str, pl.Expr]:
        return {LOG_ID: pl.col(LOG_ID)} if LOG_ID in self.jobs.columns else {}

    @cached_property
    def ids(self) -> LogIds:
        """The jobs by the log's own ids."""
        return LogIds(self.jobs.select("job", **self._log_id), self.name)

    @cached_property
    def clock(self) -> LogClock:
        """When the first job was submitted, and dates, if they are known."""
        began_s = unix_start_s(self.header.get("unixstarttime", ""))
        return LogClock(float(self.jobs["submit_s"][0]) if len(self.jobs) else 0.0, began_s, self.zone)

    @cached_property
    def numbers_rise(self) -> bool:
        """Whether jobs arrive in order of number."""
        last = -1
        for part in self.parts():
            numbers = part["job"].to_numpy()
            if numbers[0] <= last or not (np.diff(numbers) > 0).all():
                return False
            last = int(numbers[-1])
        return True

    @property
    def not_associated(self) -> list[str]:
        """Sentences on jobs of users, accounts and QOS that its policy does not have, if there are any, and
        of several partitions that differ under it."""
        if self.cluster is None or (policy := self.cluster.policy) is None:
            return []
        claims, found = Claims(policy, tuple(self.cluster.nodes.values())), dict[str, Counter[str]]()
        counts = self.jobs.group_by(["user", *(["charged"] if self.charged else [])], maintain_order=True)
        names = user_names(self.jobs["user"].unique(), self.users)
        for user, *charged, n in counts.len().iter_rows():
            for each in claims.unknown(Claimant(names[user], *(self.charged[charged[0]] if charged else ()))):
                are = "refused" if each.enforced_by in policy.enforces else "without its shares and limits"
                found.setdefault(f"whose {each.what}, {are}", Counter())[each.whom] += n
        best = (
            "of several partitions, with tier, job factor and QOS of the best one (slurm_backfill tries each)"
        )
        for k, n in self.jobs["request"].value_counts(sort=True).iter_rows():
            within = sorted(self.requests[k].partitions)
            under = [policy.partitions.get(name, PartitionPolicy()) for name in within]
            if any(each != under[0] for each in under):
                found.setdefault(best, Counter())[",".join(within)] += n
        return [f"{counted(of.total(), 'job')} {whose}: {abbreviated([*of])}" for whose, of in found.items()]

    @property
    def summary(self) -> str:
        """The name, number of jobs, span, machine and load, in a line."""
        load = self.load
        machine = counted(self.processors, "processor") if self.cluster is None else str(self.cluster)
        of_load = "" if load is None else f", load {100 * load:.1f} %"
        if load is not None and load > 1:
            of_load += " while jobs arrive"  # of a few jobs, most run after the last arrival
        return (
            f"{self.name}: {counted(len(self.jobs), 'job')} in {span_text(self.span_s)} on {machine}{of_load}"
        )

    def digest(self) -> str:
        """A digest that is equal for equal jobs."""
        content = hashlib.sha256()
        for part in self.parts():
            for column in part:
                texts = column.dtype == pl.String
                content.update("\0".join(column).encode() if texts else column.to_numpy().tobytes())
        requests = [
            (str(request), request.cores, sorted(request.partitions), sorted(request.features))
            for request in self.requests
        ]
        content.update(repr([requests, sorted(self.users.items()), *self.charged]).encode())
        if self.after:
            content.update(repr(sorted(self.after.items())).encode())
        return content.hexdigest()

    def slice(self, first: int | None, last: int | None) -> JobLog:
        """Jobs by their index, as Python slices. Raises InvalidFile if none is left."""
        named = ":".join("" if place is None else str(place) for place in (first, last))
        begin, end, _ = slice(first, last).indices(len(self.jobs))
        return self._with(self.jobs[begin:end], f"jobs {named}")

    def within(self, span_s: float) -> JobLog:
        """The jobs of the first `span_s` seconds from the first submission on. Raises InvalidFile if none."""
        if not span_s > 0:
            raise InvalidFile(f"{self.name}: there are no jobs in {span_s:g} seconds; give a span above 0")
        return replace(self, jobs=self.jobs.filter(pl.col("submit_s") < pl.col("submit_s").first() + span_s))

    def between(self, begin: datetime | str | None = None, end: datetime | str | None = None) -> JobLog:
        """Jobs submitted from `begin` on, and before `end`, which may be in ISO format. A time without a
        zone is of the log's `zone`. Raises UserError for another text, and InvalidFile if no job is left,
        or if the log has no UnixStartTime."""
        if self.clock.began_unix_s is None:
            raise InvalidFile(
                f"{self.name}: jobs cannot be chosen by date: the log has no header UnixStartTime"
            )
        chosen = self.jobs
        for given, keep in ((begin, pl.Expr.ge), (end, pl.Expr.lt)):
            if given is not None:
                second = self.clock.second_of(moment_of(given) if isinstance(given, str) else given)
                chosen = chosen.filter(keep(pl.col("submit_s"), pl.lit(second)))
        return self._with(chosen, f"jobs between {begin or 'the beginning'} and {end or 'the end'}")

    def with_load(self, factor: float) -> JobLog:
        """The same jobs under `factor` times the load: the times between arrivals are divided by it, and the
        arrivals rounded to whole seconds; with 1, nothing changes. Days are shorter then (`on_scaled_days`).
        Raises InvalidFile for a factor of 0 or
        less, or one that is too small."""
        if factor == 1.0:
            return self
        if not 0 < factor < float("inf"):
            raise InvalidFile(
                f"{self.name}: the load cannot be multiplied by {factor:g}; a factor above 0 is needed"
            )
        first_s = float(self.jobs["submit_s"][0])
        if self.span_s > (LARGEST - first_s) * factor:
            raise InvalidFile(
                f"{self.name}: with {factor:g} times the load, the last job would arrive after "
                f"{LARGEST:g} s; a larger factor is needed"
            )
        scaled = (first_s + (pl.col("submit_s") - first_s) / factor).round()
        jobs = self.jobs.with_columns(submit_s=scaled).sort("submit_s", "job")
        return replace(self, jobs=jobs, part=(*self.part, f"{factor:.10g} times the load"))

    def with_resets(self) -> JobLog:
        """With the times at which usage is set to 0, as the policy of its nodes says, until a year after the
        last submission, if dates are known."""
        cluster = self.cluster
        how = None if cluster is None or cluster.policy is None else cluster.policy.multifactor
        if cluster is None or cluster.policy is None or how is None or how.reset_period in ("", "now"):
            return self
        until_s = float(self.jobs["submit_s"][-1]) + YEAR_S
        how = replace(how, resets_s=tuple(self.clock.begins_of(how.reset_period, until_s)))
        return replace(self, cluster=replace(cluster, policy=replace(cluster.policy, multifactor=how)))

    def with_deadlines(self, low: float, high: float, seed: int = 1) -> JobLog:
        """The same jobs, each with a deadline: its submission, plus its estimate times a factor between `low`
        and `high`, all equally likely. Jobs without an estimate have none. Raises InvalidFile."""
        if not 0 < low <= high < float("inf"):
            raise InvalidFile(
                f"{self.name}: deadlines of {low:g} to {high:g} times the estimates; expected factors above "
                f"0, the lower one first"
            )
        factors = np.random.default_rng(seed).uniform(low, high, len(self.jobs))
        due_in_s = (pl.col("estimate_s") * pl.lit(pl.Series(factors))).fill_nan(None)
        jobs = self.jobs.with_columns(due_in_s.fill_null(float("inf")).alias(DUE_IN_S))
        text = f"deadlines {low:g} to {high:g} times the estimate after submission (seed {seed})"
        return replace(self, jobs=jobs, part=(*self.part, text))

    def on(self, processors: int) -> JobLog:
        """The same jobs on a machine of another size, which refuses larger ones; under a policy, it is one
        node. Raises InvalidFile."""
        size, cluster = possible_size(processors, self.name), self.cluster
        cluster = None if cluster is None else replace(cluster, nodes={}).or_one_node(size)
        return replace(self, processors=size, cluster=cluster)

    def at_load(self, load: float) -> JobLog:
        """The same jobs, with the times between arrivals scaled so that `load` is offered, within 1 %. Days
        are longer or shorter then (`on_scaled_days`).

        Raises InvalidFile where all jobs arrive at once, or the load is 0 or less or too high for arrivals at
        whole seconds."""
        if not self.load:
            raise InvalidFile(f"{self.name}: all jobs arrive at once, so their load cannot be changed")
        if not 0 < load < float("inf"):
            raise InvalidFile(f"{self.name}: a load of {load:g} is impossible; give one above 0, like 0.7")
        scaled = self.with_load(load / self.load)
        if scaled.load is None or abs(scaled.load / load - 1) > LOAD_TOLERANCE:
            raise InvalidFile(
                f"{self.name}: {len(self.jobs):,} jobs that arrive at whole seconds cannot make a load of "
                f"{load:g}; ask for a lower one, or for more jobs"
            )
        return scaled

    def _with(self, jobs: pl.DataFrame, what: str) -> JobLog:
        if not len(jobs):
            raise InvalidFile(f"{self.name}: there are no {what}; the log has {len(self.jobs):,} jobs")
        return replace(self, jobs=jobs, part=(*self.part, what))


def log_on_nodes(
    name: str,
    rows: Sequence[Sequence[float]],
    cluster: SiteNodes,
    requests: Sequence[Request],
    log_ids: Iterable[str] = (),
    **more: Any,
) -> JobLog:
    """The log of some rows: the columns of SCHEMA, the position of what a job requests and, if `charged` is
    given, of whom Slurm charges; with the log's own ids, if it has other ones."""
    positions = ("request", "charged") if "charged" in more else ("request",)
    table = pl.DataFrame(rows, {**SCHEMA, **dict.fromkeys(positions, pl.Int64)}, orient="row")
    if ids := list(log_ids):
        table = table.with_columns(column_of(ids, table["job"].to_list()))
    table = table.sort("submit_s", "job")
    return JobLog(name, table, cluster.cores, cluster=cluster, requests=tuple(requests), **more)


def on_scaled_days(factors: Iterable[float]) -> list[str]:
    """A sentence on what other loads do to the days of a log, if there are any."""
    hours = [f"{24 / factor:.3g} h" for factor in factors if factor != 1.0]
    if not hours:
        return []
    return [
        f"--load divides the times between arrivals, so that a day of the log lasts {' or '.join(hours)}: "
        f"what depends on times of day and days of the week is no longer as in the log (Frachtenberg and "
        f"Feitelson, 2005)"
    ]


def user_names(numbers: Iterable[int], users: Mapping[int, str]) -> dict[int, str]:
    """The name of each user, of which some are known."""
    return {user: f"user-{user}" if user >= 0 else ANYONE for user in numbers} | dict(users)


def queue_of(request: Request, served: Sequence[str] = ()) -> str:
    """The queue of a job that names none: of the queues `served`, in order of service, the first that is
    named like one of its partitions, as Slurm takes the best of their priorities.

    Without any, a queue of its own, named for its partitions.
    """
    of_partition = (name for name in served if name in request.partitions)
    return next(of_partition, ",".join(sorted(request.partitions)) or QUEUE)


def places(text: str) -> tuple[int | None, int | None]:
    """The places `A:B` in the order of submission; each may be missing. Raises InvalidFile."""
    first, colon, last = text.partition(":")
    if colon and all(not place or is_whole(place.removeprefix("-")) for place in (first, last)):
        return int(first) if first else None, int(last) if last else None
    raise InvalidFile(
        f"jobs '{text}' cannot be read; give a range of jobs in order of submission, like 0:1000"
    )
