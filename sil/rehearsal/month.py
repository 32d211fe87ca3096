"""A month of Slurm's accounting, as the controller meets it again, with what operators did in its time.

Accounting of a period has the jobs that ran or waited at its beginning, too: all that ran when the first job
of the file ended are in the file. So the replay begins then. What ran gets its nodes once more for the rest
of its time, two minutes before; what waited is submitted at the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl

from scheduler import UserError
from scheduler.messages import counted
from sil.rehearsal.submissions import REPLACED, Gap, HowSubmitted, gaps
from sil.runs.free_nodes import notes_on
from sil.settings.events_file import Drain, EventsFile, Reservation, events_of
from sil.settings.log_events import Events
from sil.settings.reservations_file import with_reservations
from sil.workload.accounting import RecordedJobs, job_numbers, log_of
from sil.workload.job_log import JobLog
from sil.workload.settings import Rules
from sil.workload.slices import DAY_S
from site_db.files.access import read_text
from site_db.files.formats import zone_named
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import LoggedJob, Tally
from site_db.jobs.requests import partitions_of
from site_db.jobs.sacct.reader import ELIGIBLE, RESERVED, heterogeneous
from site_db.jobs.sacct.times import unix_times
from site_db.site_file.cluster import SiteNodes
from site_db.site_file.machine_names import expand, fold, patterns

EVENTS, RESERVATIONS = "events.txt", "reservations.txt"
"""Files in the folder of slurm.conf."""
COMMANDS = {
    EVENTS: "sacctmgr --parsable2 show event start=2026-01-01 format=nodename,start,end,state,reason",
    RESERVATIONS: "sacctmgr --parsable2 show reservation start=2026-01-01 "
    "format=name,start,end,nodenames,flags",
}
OUT_OF_SERVICE = ("DOWN", "DRAIN", "FAIL", "MAINT", "POWER", "REBOOT")
"""How the states begin in which a node takes no jobs; REBOOT^ and MAINT are of operators."""


@dataclass(frozen=True)
class OperatorsActs:
    """Times that nodes were out of service, with their reasons, and reservations by name; seconds since 1970.
    Without an end, it is infinite."""

    drains: tuple[tuple[str, float, float | None, str], ...] = ()
    reservations: Mapping[str, tuple[float, float, str, tuple[str, ...]]] = field(default_factory=dict)
    folder: Path = Path()
    """The folder of the files."""

    @classmethod
    def beside(cls, conf: Path, zone: tzinfo) -> OperatorsActs:
        """What the files in the folder of a slurm.conf say, if they are there. Raises InvalidFile."""
        drains = tuple(
            (row["nodename"], begin_s, end_s, row["reason"] or "out of service")
            for row, begin_s, end_s in _rows(conf.parent / EVENTS, zone)
            if row["nodename"] and row["state"].upper().startswith(OUT_OF_SERVICE)
        )
        reservations = {
            row["name"]: (begin_s, end_s, row["nodenames"], tuple(filter(None, row["flags"].split(","))))
            for row, begin_s, end_s in _rows(conf.parent / RESERVATIONS, zone)
            if end_s is not None
        }
        return cls(drains, reservations, conf.parent)

    def on(self, nodes: Collection[str]) -> OperatorsActs:
        """Those on these nodes: others may be out of service for good."""
        drains = (each for each in self.drains if {*expand(patterns(each[0]))} <= {*nodes})
        reserved = {
            name: each for name, each in self.reservations.items() if {*expand(patterns(each[2]))} <= {*nodes}
        }
        return replace(self, drains=tuple(drains), reservations=reserved)

    def events(self, log: JobLog, users: Mapping[str, Iterable[str]]) -> Events:
        """The acts as commands in the time of a log. Reservations are for the `users` of its jobs in them,
        and known from the beginning on."""
        origin_s = float(log.header["unixstarttime"])
        last_s = float(log.jobs["submit_s"][-1])
        file = EventsFile(
            drain=tuple(
                Drain(at=max(at_s - origin_s, 0.0), nodes=nodes, until=until, reason=reason)
                for nodes, at_s, end_s, reason in self.drains
                for until in [None if end_s is None else end_s - origin_s]
                if at_s - origin_s < last_s and (until is None or until > 0.0)
            ),
            reservation=tuple(
                Reservation(
                    start=max(begin_s - origin_s, 0.0), end=end_s - origin_s, name=name, nodes=nodes,
                    users=(*users.get(name, ()),), flags=flags,
                )
                for name, (begin_s, end_s, nodes, flags) in self.reservations.items()
                if end_s > origin_s and begin_s - origin_s < last_s
            ),
        )  # fmt: skip
        return events_of(file, log, self.folder)


def _rows(path: Path, zone: tzinfo) -> Iterator[tuple[dict[str, str], float, float | None]]:
    """The rows of a file, with their times; none if it is not there. Raises InvalidFile."""
    if not path.is_file():
        return
    header, *rows = read_text(path).strip().splitlines() or [""]
    columns = [_NAMES.get(name, name) for name in header.lower().split("|")]
    needed = {"nodename", "state", "reason"} if path.name == EVENTS else {"name", "nodenames", "flags"}
    if missing := sorted({"start", "end", *needed} - {*columns}):
        raise InvalidFile(
            f"{path}, line 1: there is no column {missing[0]}; expected the output of: {COMMANDS[path.name]}"
        )
    for line, text in enumerate(rows, start=2):
        values = text.split("|")
        row = dict(zip(columns, values, strict=False))
        times = [unix_times(row.get(key, ""), zone) for key in ("start", "end")]
        if len(values) != len(columns) or not times[0]:
            raise InvalidFile(
                f"{path}, line {line}: '{text}' is not a row with a start; expected the output of: "
                f"{COMMANDS[path.name]}"
            )
        yield row, times[0][0], times[1][-1] if times[1] else None


_NAMES = {"node name": "nodename", "node names": "nodenames", "timestart": "start", "timeend": "end"}


EPSILON_DAYS = 1e-6
LEAD_S = 120.0
"""The seconds before the beginning at which jobs that ran then start again."""
WAITED = "waited at the beginning, and are submitted then: the scheduler does not know for how long they had"
COLUMNS: dict[str, type[pl.DataType]] = {
    "job": pl.Int64,
    **dict.fromkeys(("start_s", "end_s", "submit_s"), pl.Float64),
    "processors": pl.Int64,
    **dict.fromkeys(("log_id", "partition", "account", "qos", "user"), pl.String),
    **dict.fromkeys(("counts", "calibrates"), pl.Boolean),
}


@dataclass(frozen=True)
class Month:
    """The jobs, how they are submitted, and what accounting says of them.

    `runs` has a row (COLUMNS) for each job, with times in seconds of the log; `causes` are
    the jobs, by number, that may have started at other times because of what is not modelled.
    """

    log: JobLog
    events: Events
    runs: pl.DataFrame
    causes: Mapping[str, frozenset[int]]
    begun: frozenset[int]
    """Jobs that ran at the beginning."""
    warm_up_days: float
    """The days from the first submission to that of the first job that counts."""
    gaps: tuple[Gap, ...]


@dataclass(frozen=True)
class RehearsalPeriod:
    """When the replay of accounting begins, and from when on jobs count; seconds since 1970."""

    begin_s: float
    counts_from_s: float

    @classmethod
    def of(
        cls, jobs: list[LoggedJob], since: datetime | None, warm_up_days: float, where: object
    ) -> RehearsalPeriod:
        """`since` has a zone. Raises UserError for a time that the accounting does not reach."""
        known_s, last_s = min(job.ended_unix_s for job in jobs), jobs[-1].submitted_unix_s
        if since is None:
            return cls(known_s, known_s)
        if not known_s <= since.timestamp() <= last_s:
            first, last = (
                datetime.fromtimestamp(at_s, since.tzinfo).isoformat(" ", "minutes")
                for at_s in (known_s, last_s)
            )
            raise UserError(
                f"{where}: the jobs that ran or waited at a time are known from {first}, when the first job "
                f"of the file ended, and the last one arrived at {last}; give a time in between, not {since}"
            )
        return cls(max(known_s, since.timestamp() - 86_400 * warm_up_days), since.timestamp())


class Arrivals(StrEnum):
    """How jobs arrive."""

    AS_SUBMITTED = "as submitted"  # with the options of their submission, for Slurm's controller
    WHEN_ELIGIBLE = "when eligible"  # when they could start, for built-in schedulers


def month_of(
    recorded: RecordedJobs,
    cluster: SiteNodes,
    rules: Rules,
    done: OperatorsActs,
    since: datetime | None = None,
    warm_up_days: float = 0.0,
    arrivals: Arrivals = Arrivals.AS_SUBMITTED,
) -> Month:
    """The jobs that are recorded, of which those count that were submitted `since` a time, after a warm-up,
    and what operators have `done`. Raises UserError."""
    jobs, tally, name = [*recorded.jobs], recorded.tally, recorded.name
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=zone_named(rules.time_zone))
    period = RehearsalPeriod.of(jobs, since, warm_up_days, name)
    begun = {job.line for job in jobs if job.started_unix_s < period.begin_s}
    waited = {job.line for job in jobs if job.submitted_unix_s < period.begin_s} - begun
    order = "order of arrival" if cluster.policy is None else "computed by the policy"
    order = "computed by the controller" if arrivals is Arrivals.AS_SUBMITTED else order
    missing = tuple(gaps(jobs, period.begin_s, order, done.drains, done.reservations))
    jobs = [_from(job, period.begin_s, cluster) for job in jobs if job.ended_unix_s > period.begin_s]
    how = None
    if arrivals is Arrivals.AS_SUBMITTED:
        how = HowSubmitted(jobs, cluster.site_resources, cluster.nodes, done.reservations)
        jobs = [how.arriving(job) for job in jobs]
    jobs = sorted(jobs, key=lambda job: job.submitted_unix_s)
    numbered = dict(zip(job_numbers(jobs), jobs, strict=True))
    of_begun = {number for number, job in numbered.items() if job.line in begun}
    if how is None:
        events = _in_reservations(numbered, done.reservations, tally)
    else:
        events = as_submitted(how, numbered, of_begun, tally)
    tally.remarked = {remark: ids for remark, ids in tally.remarked.items() if ids}
    log = log_of(replace(recorded, jobs=jobs), cluster, rules)
    runs = _runs(numbered, lambda job: job.line not in begun and job.submitted_unix_s >= period.counts_from_s)
    if not runs["counts"].any():
        raise UserError(
            f"{name}: no job arrived after {since or 'the first one had ended'}; give a longer log"
        )
    causes = dict(_by_number(numbered, tally.remarked))
    if late := frozenset(number for number, job in numbered.items() if job.line in waited):
        causes[WAITED] = late
    log = replace(log, notes=(*log.notes, *log.not_associated, *_by_sbatch(numbered, events.options)))
    users: dict[str, dict[str, None]] = {}
    for job in jobs:
        users.setdefault(job.reservation, {})[job.user] = None
    events = replace(done.events(log, users), arrays=events.arrays, options=events.options)
    if how is None:
        log = with_reservations(log, events, Path(name))
        log = replace(log, notes=(*log.notes, *notes_on(events)))
    warm_up_days = (period.counts_from_s - jobs[0].submitted_unix_s) / DAY_S - EPSILON_DAYS
    return Month(log, events, runs, causes, frozenset(of_begun), max(warm_up_days, 0.0), missing)


def _in_reservations(jobs: Mapping[int, LoggedJob], names: Collection[str], tally: Tally) -> Events:
    """The jobs that ran in reservations of these names do so again, and are no longer remarked."""
    inside = {number: job for number, job in jobs.items() if job.reservation in names}
    for job in inside.values():
        tally.remarked.get(RESERVED, {}).pop(job.number, None)
    return Events(options={number: {"reservation": job.reservation} for number, job in inside.items()})


def as_submitted(
    how: HowSubmitted, jobs: Mapping[int, LoggedJob], begun: Iterable[int], tally: Tally
) -> Events:
    """The options and arrays of `jobs` by number; those that have `begun` get their nodes. The tally has what
    is not modelled of them instead of what the reader does not model."""
    options, arrays = how.options(jobs), (*how.arrays(jobs),)
    for number in begun:
        options[number] = {"nodes": ",".join(fold(jobs[number].nodes))} if jobs[number].nodes else {}
    for remark in REPLACED:
        tally.remarked.pop(remark, None)
    for job in jobs.values():
        if job.line in how.dependencies and (eligible := tally.remarked.get(ELIGIBLE)):
            eligible.pop(job.number, None)
    for what, ids in how.left_out.items():
        tally.remarked.setdefault(what, {}).update(ids)
    return Events(arrays=arrays, options=options)


def _from(job: LoggedJob, begin_s: float, cluster: SiteNodes) -> LoggedJob:
    """A job as it is replayed from this time on. Operators may have raised the limit of one that ran."""
    if job.started_unix_s < begin_s:
        again_s = begin_s - LEAD_S
        limit_s = None
        if job.time_limit_s is not None:
            limit_s = max(job.time_limit_s - (again_s - job.started_unix_s), job.ended_unix_s - again_s)
            limit_s = min(limit_s, cluster.longest_limit_s(partitions_of(job)))
        return replace(
            job,
            submitted_unix_s=again_s,
            started_unix_s=again_s,
            queued_unix_s=None,
            time_limit_s=limit_s,
            submit_line="",
            reservation="",
        )
    if job.submitted_unix_s < begin_s:
        return replace(job, submitted_unix_s=begin_s, queued_unix_s=None)
    if job.queued_unix_s is not None and job.queued_unix_s < begin_s:
        return replace(job, queued_unix_s=begin_s)
    return job


def _runs(jobs: Mapping[int, LoggedJob], counts: Callable[[LoggedJob], bool]) -> pl.DataFrame:
    origin_s = next(iter(jobs.values())).submitted_unix_s
    rows = [
        (
            number,
            *(at_s - origin_s for at_s in (job.started_unix_s, job.ended_unix_s, job.submitted_unix_s)),
            *(job.processors, job.number, job.partition, job.account, job.qos, job.user, counts(job), False),
        )
        for number, job in jobs.items()
    ]
    return pl.DataFrame(rows, COLUMNS, orient="row")


def _by_number(
    jobs: Mapping[int, LoggedJob], remarked: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, frozenset[int]]]:
    numbers: dict[str, list[int]] = {}
    for number, job in jobs.items():
        numbers.setdefault(job.number, []).append(number)
        if (whole := heterogeneous(job.number)) is not None:
            numbers.setdefault(whole, []).append(number)
    for remark, ids in remarked.items():
        yield remark, frozenset(number for name in ids for number in numbers.get(name, ()))


def _by_sbatch(jobs: Mapping[int, LoggedJob], options: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    names: dict[str, None] = {}
    numbers = [number for number in jobs if "others" in options.get(number, ())]
    for number in numbers:
        names |= dict.fromkeys(word.partition("=")[0] for word in options[number]["others"])
    if numbers:
        first = jobs[numbers[0]].number
        yield (
            f"Slurm's own `sbatch` submits {counted(len(numbers), 'job')} (first: {first}), because of "
            f"{', '.join(names)} in SubmitLine"
        )
