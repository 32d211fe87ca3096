"""An events file: what operators and users did to a log's cluster and jobs, besides submitting them.

Times are seconds of the log, or dates if the log has a header UnixStartTime; jobs are those of the log, by
number. Times and numbers become those of the replay here; who carries the events out does not see the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, get_args

import polars as pl
from pydantic import Field, field_validator, model_validator

from scheduler import UserError
from scheduler.managers.eligibility import Conditions, Dependency, DependencyKind, JobArray
from scheduler.messages import counted
from scheduler.ports import Act
from sil.report.origin import sha256_sums
from sil.settings.log_events import Events, JobEvent, NodeEvent, NodesReserved, NodesUpdated, jobs_in
from sil.settings.reservations_file import is_of_scontrol, reservations_in, with_reservations
from sil.trace.log_ids import LOG_ID
from sil.workload.job_log import JobLog
from site_db.files.formats import is_whole
from site_db.files.toml_file import Count, Location, NotNegative, Table, invalid, read
from site_db.jobs.swf import unix_start_s

Moment = NotNegative | Annotated[datetime, Field(strict=True)]
Text = Annotated[str, Field(min_length=1, strict=True, pattern=r"^[^\n]*$")]
_OF_A_DEPENDENCY = re.compile(r"(?<=:)[^:,?]+")
_MINUTES = re.compile(r"\+\d+$", re.ASCII)
"""The minutes after a job in a dependency."""
_DEPENDENCY = re.compile(
    rf"{DependencyKind.SINGLETON}|({'|'.join(set(DependencyKind) - {DependencyKind.SINGLETON})})(:[^:]+)+"
)
MAX_OF_A_RANGE = 1_000_000


class OfJobs(Table):
    jobs: tuple[Annotated[int, Field(strict=True, ge=0)] | Text, ...]
    """Numbers, or ids of the log: 17, [17, '100_1'] or '17-20,100_1'"""

    @field_validator("jobs", mode="before")
    @classmethod
    def _as_jobs(cls, given: Any) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            return (given,)
        return tuple(given.split(",")) if isinstance(given, str) else given


class AtATime(OfJobs):
    at: Moment


class Submission(OfJobs):
    """How jobs are submitted, as with the options of sbatch. `name` is for the dependency `singleton`."""

    dependency: Text | None = None
    begin: Moment | None = None
    name: Text | None = None
    partition: Text | None = None
    qos: Text | None = None
    account: Text | None = None
    reservation: Text | None = None
    held: bool = False


class Array(OfJobs):
    """Jobs that are one array, of which at most `at_once` run at a time."""

    at_once: Count | None = None


class OfNodes(Table):
    at: Moment
    nodes: Text


class Drain(OfNodes):
    """From `at` on, no job starts on the nodes, until `until` if that is given."""

    until: Moment | None = None
    reason: Text = "maintenance"


class Downtime(Drain):
    """From `at` on, the nodes are down: their runs end, and their jobs wait again."""

    reason: Text = "outage"


class Reservation(Table):
    """Nodes for some users or accounts, known to the controller from `at` on."""

    start: Moment
    end: Moment
    at: Moment = 0.0
    name: Text | None = None
    nodes: Text | None = None
    n_nodes: Count | None = None
    users: tuple[Text, ...] = ()
    accounts: tuple[Text, ...] = ()
    flags: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> Reservation:
        if (self.nodes is None) == (self.n_nodes is None):
            raise ValueError("give either nodes, like 'n[1-4]', or n_nodes")
        return self


class EventsFile(Table):
    submission: tuple[Submission, ...] = ()
    array: tuple[Array, ...] = ()
    drain: tuple[Drain, ...] = ()
    outage: tuple[Downtime, ...] = ()
    resume: tuple[OfNodes, ...] = ()
    reservation: tuple[Reservation, ...] = ()
    cancel: tuple[AtATime, ...] = ()
    hold: tuple[AtATime, ...] = ()
    release: tuple[AtATime, ...] = ()
    requeue: tuple[AtATime, ...] = ()


def read_events(path: Path, log: JobLog) -> Events:
    """The events of a file in TOML, for a log. Raises InvalidFile with file and line."""
    return events_of(read(path, EventsFile), log, path)


def events_in(files: Sequence[Path], log: JobLog) -> tuple[JobLog, Events]:
    """The events of a file in TOML, and reservations of others, as `scontrol` prints them; and the log, of
    which jobs request these. Raises InvalidFile with file and line, and UserError for events on nodes that
    are none."""
    in_toml = [path for path in files if not is_of_scontrol(path)]
    if len(in_toml) > 1:
        raise UserError(f"{in_toml[1]}: {in_toml[0]} has events, too; write them all into one file")
    found, notes = read_events(in_toml[0], log) if in_toml else Events(), list[str]()
    origin_s, on_nodes = unix_start_s(log.header.get("unixstarttime", "")), list(found.on_nodes)
    for path in dict.fromkeys(each for each in files if each not in in_toml):
        on_nodes += reservations_in(path, origin_s, log.zone, notes)
    on_nodes.sort(key=lambda event: event.at_s)
    found = replace(found, on_nodes=tuple(on_nodes), notes=tuple(notes))
    log = replace(log, sources={**log.sources, **sha256_sums(*files)})
    return (with_reservations(log, found, files[0]) if files else log), found


def _other_than_a_dependency(text: str) -> str | None:
    return next((part for part in re.split("[,?]", text) if _DEPENDENCY.fullmatch(part) is None), None)


def events_of(file: EventsFile, log: JobLog, path: Path) -> Events:
    """As `read_events`; `path` is for the message."""
    reader = EventsReader(log)
    on_jobs = sorted(reader.on_jobs(file), key=lambda event: event.at_s)
    on_nodes = sorted(reader.on_nodes(file), key=lambda event: event.at_s)
    arrays, options = tuple(reader.arrays(file.array)), reader.options(file.submission)
    conditions = reader.conditions(options, arrays)
    found = Events(tuple(on_nodes), tuple(on_jobs), arrays, options, conditions)
    if reader.mistakes:
        raise invalid(path, reader.mistakes)
    return found


class EventsReader:
    def __init__(self, log: JobLog) -> None:
        self._log = log
        self._origin_s = unix_start_s(log.header.get("unixstarttime", ""))
        self._rows = {row["job"]: row for row in log.jobs.iter_rows(named=True)} if len(log.jobs) else {}
        self.mistakes: list[tuple[Location, str]] = []

    def on_jobs(self, file: EventsFile) -> Iterator[JobEvent]:
        for act in get_args(Act):
            for k, event in enumerate(getattr(file, act, ())):
                at_s = self._second(event.at, (act, k, "at"))
                for row in self._known(event.jobs, (act, k, "jobs")):
                    if at_s < row["submit_s"]:
                        job = self._log.ids.text(row["job"])
                        sentence = f"job {job} is submitted later, at {row['submit_s']:g} s"
                        self.mistakes.append(((act, k, "at"), sentence))
                    yield JobEvent(at_s, row["job"], act)

    def on_nodes(self, file: EventsFile) -> Iterator[NodeEvent]:
        states = (("drain", file.drain, "DRAIN"), ("outage", file.outage, "DOWN"))
        for key, table, state in states:
            for k, given in enumerate(table):
                at_s = self._second(given.at, (key, k, "at"))
                yield NodesUpdated(at_s, given.nodes, state, given.reason)
                if given.until is not None:
                    until_s = self._second(given.until, (key, k, "until"))
                    if until_s <= at_s:
                        self.mistakes.append(((key, k, "until"), "until is not after at"))
                    yield NodesUpdated(until_s, given.nodes, "RESUME")
        for k, resume in enumerate(file.resume):
            yield NodesUpdated(self._second(resume.at, ("resume", k, "at")), resume.nodes, "RESUME")
        for k, reservation in enumerate(file.reservation):
            yield self._reservation(reservation, k)

    def _reservation(self, given: Reservation, k: int) -> NodesReserved:
        start_s = self._second(given.start, ("reservation", k, "start"))
        end_s = self._second(given.end, ("reservation", k, "end"))
        if end_s <= start_s:
            self.mistakes.append((("reservation", k, "end"), "end is not after start"))
        at_s = self._second(given.at, ("reservation", k, "at"))
        if at_s > start_s:
            self.mistakes.append((("reservation", k, "at"), "at is after start: it would begin in the past"))
        name, nodes = given.name or f"reservation{k + 1}", given.nodes or given.n_nodes or 0
        return NodesReserved(at_s, name, start_s, end_s, nodes, given.users, given.accounts, given.flags)

    def arrays(self, arrays: Iterable[Array]) -> Iterator[JobArray]:
        of_arrays: set[int] = set()
        for k, array in enumerate(arrays):
            place = ("array", k, "jobs")
            rows = self._known(array.jobs, place)
            numbers = {row["job"] for row in rows}
            if twice := sorted(of_arrays.intersection(numbers)):
                self.mistakes.append((place, f"job {self._log.ids.text(twice[0])} is of two arrays"))
            of_arrays.update(numbers)
            like = pl.DataFrame(rows, schema=self._log.jobs.schema)
            like = like.drop("job", "run_s", "estimate_s", LOG_ID, strict=False)
            for name, column in zip(like.columns, like.get_columns(), strict=True):
                if column.n_unique() > 1:
                    what = {"submit_s": "are not submitted at one time", "user": "are of different users"}
                    sentence = f"its jobs {what.get(name, 'do not request the same')}"
                    self.mistakes.append((place, f"{sentence}, and an array is submitted as one"))
                    break
            yield JobArray(tuple(sorted(numbers)), array.at_once)

    def options(self, submissions: Iterable[Submission]) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        for k, submission in enumerate(submissions):
            given = submission.model_dump(exclude={"jobs", "held", "begin"}, exclude_none=True)
            if submission.begin is not None:
                given["begin"] = self._second(submission.begin, ("submission", k, "begin"))
            if submission.dependency is not None:
                place = ("submission", k, "dependency")
                given["dependency"] = self._with_numbers(submission.dependency, place)
            if submission.held:
                given["hold"] = True
            for row in self._known(submission.jobs, ("submission", k, "jobs")):
                found.setdefault(row["job"], {}).update(given)
                for number in sorted(jobs_in(given.get("dependency", ""))):
                    self._check_dependency(row, number, ("submission", k, "dependency"))
        return found

    def conditions(
        self, options: Mapping[int, Mapping[str, Any]], arrays: Iterable[JobArray]
    ) -> dict[int, Conditions]:
        """What options of submissions mean for when jobs may run."""
        array_of = {job: array for array in arrays for job in array.jobs}
        named: dict[object, list[int]] = {}
        """Jobs in order of submission, by user and name."""
        for row in sorted(
            map(self._rows.__getitem__, options), key=lambda row: (row["submit_s"], row["job"])
        ):
            if (name := options[row["job"]].get("name")) is not None:
                named.setdefault((row["user"], name), []).append(row["job"])
        earlier = {job: jobs[:k] for jobs in named.values() for k, job in enumerate(jobs)}

        def dependency(job: int, part: str) -> Iterator[Dependency]:
            kind, *others = part.split(":")
            if kind == DependencyKind.SINGLETON:
                yield Dependency(DependencyKind.SINGLETON, tuple(earlier.get(job, ())))
            for other in others:
                number, _, minutes = other.partition("+")
                on, mine, theirs = int(number), array_of.get(job), array_of.get(int(number))
                if kind == DependencyKind.AFTER_CORRESPONDING and mine is not None and theirs is not None:
                    index = mine.jobs.index(job)
                    on = theirs.jobs[index] if index < len(theirs.jobs) else on
                yield Dependency(DependencyKind(kind), (on,), 60.0 * float(minutes or 0))

        found = {}
        for job, given in options.items():
            text = given.get("dependency", "")
            parts = [each for part in re.split("[,?]", text) if part for each in dependency(job, part)]
            begin_s = given.get("begin", Conditions().begin_s)
            found[job] = Conditions(tuple(parts), "?" in text, begin_s, given.get("hold", False))
        return {job: each for job, each in found.items() if each != Conditions()}

    def _with_numbers(self, dependency: str, place: Location) -> str:
        """A dependency with the numbers of its jobs in place of their ids; empty if it is none."""
        if (part := _other_than_a_dependency(dependency)) is not None:
            kinds = ", ".join(kind.value for kind in DependencyKind)
            self.mistakes.append(
                (place, f"'{part}' is no dependency; expected one like afterok:17 or singleton, of {kinds}")
            )
            return ""

        def number(found: re.Match[str]) -> str:
            # Of "2+1", the 1 is a component of a job, or the minutes after its start.
            job, minutes = found[0], ""
            if not self._log.ids.has(job) and (after := _MINUTES.search(job)):
                job, minutes = job[: after.start()], after[0]
            numbers = self._numbers([job], place)
            return f"{numbers[0] if numbers else 0}{minutes}"

        return _OF_A_DEPENDENCY.sub(number, dependency)

    def _check_dependency(self, row: Mapping[str, Any], on: int, place: Location) -> None:
        other = self._rows.get(on)
        if other is not None and (other["submit_s"], on) >= (row["submit_s"], row["job"]):
            name, waiting = map(self._log.ids.text, (on, row["job"]))
            self.mistakes.append(
                (place, f"job {name} is submitted after job {waiting}, which is to wait for it")
            )

    def _known(self, jobs: Iterable[int | str], place: Location) -> list[dict[str, Any]]:
        return [self._rows[number] for number in self._numbers(jobs, place)]

    def _numbers(self, jobs: Iterable[int | str], place: Location) -> list[int]:
        found = dict[int, None]()
        for job in jobs:
            numbers: Iterable[int | str] = [job]
            first, _, last = str(job).partition("-")
            if is_whole(first) and is_whole(last) and not self._log.ids.has(str(job)):
                if int(last) - int(first) >= MAX_OF_A_RANGE:
                    self.mistakes.append((place, f"'{job}' are more than {MAX_OF_A_RANGE:,} jobs"))
                    continue
                numbers = range(int(first), int(last) + 1)
            missing = []
            for one in numbers:
                try:
                    found[self._log.ids.number(one)] = None
                except UserError as error:
                    missing.append(str(error))
            if missing:
                more = "" if len(missing) == 1 else f", nor {counted(len(missing) - 1, 'other')} of these"
                self.mistakes.append((place, f"{missing[0]}{more}"))
        return list(found)

    def _second(self, moment: float | datetime, place: Location) -> float:
        if not isinstance(moment, datetime):
            return float(moment)
        if self._origin_s is None:
            sentence = f"{self._log.name} has no header UnixStartTime; give seconds of the log"
            self.mistakes.append((place, sentence))
            return 0.0
        zone = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return zone.timestamp() - self._origin_s
