"""Batches of jobs and runs: recorded into a database that may be unreachable for a while, or in CSV files,
which have those that could not be recorded yet, and history from other sources.

A row needs job_class, started_unix_s, run_time_s, and resource (a machine or a cluster) or machine_class; the
other columns are optional. Rows without a run time are jobs that did not end.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db import store
from site_db.files.access import read_text
from site_db.files.formats import escaped, unescaped
from site_db.files.input_errors import MAX_VALUE, InvalidFile
from site_db.files.toml_file import Table, mistakes
from site_db.jobs.logged import CLOCKS_AGREE_TO_S
from site_db.jobs.records import COLUMNS, Batch, JobRecord, JobState, PredictedTurnaround, Source, SourceKind
from site_db.jobs.writer import BadRecord, JobWriter
from site_db.store import Rejected, Unreachable

_OF_SOURCE = tuple(f"source_{field.name}" for field in fields(Source))
_OF_JOB = tuple(COLUMNS.get(field.name, field.name) for field in fields(JobRecord))
_SOURCE, _JOB = TypeAdapter(Source), TypeAdapter(JobRecord)
_PREDICTIONS = TypeAdapter(tuple[PredictedTurnaround, ...])
EACH = 16.0
"""The memory, in bytes, that a byte of a row takes as a job, about."""
REQUIRED = ("job_class", "started_unix_s", "run_time_s")


def write(path: Path, batches: Iterable[Batch]) -> None:
    """Write batches, which `read` reads back unchanged."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*_OF_SOURCE, *_OF_JOB))
        for source, jobs in batches:
            for job in jobs:
                values = {**asdict(source), **asdict(job)}
                values["predicted"] = json.dumps(values["predicted"]) if job.predicted else ""
                row = values.values()
                writer.writerow(escaped(cell) if isinstance(cell, str) else cell for cell in row)


def read(path: Path, now_unix_s: float) -> list[Batch]:
    """The batches in a file, which is itself the source of rows that name none.

    Raises InvalidFile with file and line for rows that are no jobs, and for runs that ended after
    `now_unix_s`.
    """
    text = read_text(path, EACH)
    rows = csv.DictReader(io.StringIO(text, newline=""), restkey="")
    batches: dict[str, tuple[Source, list[JobRecord]]] = {}
    line = 1
    try:
        _check_header(rows.fieldnames or [])
        itself = Source(SourceKind.FILE, hashlib.sha256(text.encode()).hexdigest(), path.name)
        for row in rows:
            line = rows.line_num
            if "" in row or None in row.values():
                raise ValueError(f"expected {len(rows.fieldnames or [])} values, one for each column")
            given = {name: value for name, cell in row.items() if (value := unescaped(cell)) != ""}
            source = (
                _valid(_SOURCE, given, {"source_kind": SourceKind.FILE}) if "source_key" in given else itself
            )
            job = _job(given, line)
            _check(job, now_unix_s)
            batches.setdefault(source.key, (source, []))[1].append(job)
    except csv.Error as error:
        raise InvalidFile(f"{path}, line {rows.line_num}: this is not valid CSV: {error}") from None
    except ValueError as error:
        raise InvalidFile(f"{path}, line {line}: {error}") from None
    return list(batches.values())


def _check_header(header: Sequence[str]) -> None:
    for name in header:
        if name not in (*_OF_SOURCE, *_OF_JOB):
            raise ValueError(f"unknown column '{name}'; known are {', '.join(_OF_JOB)}")
        if header.count(name) > 1:
            raise ValueError(f"the column '{name}' occurs twice")
    for name in REQUIRED:
        if name not in header:
            raise ValueError(f"the column '{name}' is missing; needed are {', '.join(REQUIRED)}")


def _job(given: Mapping[str, str], line: int) -> JobRecord:
    has_run = {"started_unix_s", "run_time_s"} <= given.keys() and not given.keys().isdisjoint(_PLACES)
    try:
        predicted = _PREDICTIONS.validate_json(given.get("predicted", "[]"))
    except ValidationError:
        raise ValueError("predicted is not what experiments write: a list of predictions in JSON") from None
    defaults = {
        "number": str(line),
        "user": "unknown",
        "queue": "default",
        "state": JobState.DONE if has_run else JobState.WAITING,
        "submitted_unix_s": given.get("started_unix_s", 0.0),
    }
    job = _valid(_JOB, {**given, "predicted": predicted}, defaults)
    if job.state is JobState.DONE and not has_run:
        raise ValueError(
            "a job that is done has a resource or a machine_class, started_unix_s and run_time_s"
        )
    return job


_PLACES = ("resource", "machine_class")

_Kind = TypeVar("_Kind")


def _valid(kind: TypeAdapter[_Kind], given: Mapping[str, object], defaults: Mapping[str, object]) -> _Kind:
    """The value of a field. Raises ValueError with a sentence on the first wrong value that is given."""
    data = {**defaults, **given}
    try:
        return kind.validate_python(data)
    except ValidationError as error:
        found = mistakes(error, data, Table)
        sentences = [sentence for (name, *_), sentence in found if name in given or name not in defaults]
        raise ValueError(sentences[0]) from None


def _check(job: JobRecord, now_unix_s: float) -> None:
    """Raise ValueError for values that contradict one another, and for a run that ended later than now."""
    if job.resource is not None and job.machine_class is not None:
        raise ValueError("either a resource or a machine_class, not both")
    if job.started_s is not None and job.submitted_s > job.started_s:
        raise ValueError(f"the job was submitted at {job.submitted_s:.15g} s, after it started")
    for one in job.predicted:
        in_order = one.low_s is None or one.high_s is None or one.low_s <= one.high_s
        if not (job.submitted_s <= one.end_s < MAX_VALUE and in_order and one.jobs_there >= 0):
            raise ValueError(
                f"a prediction of {one.end_s:.15g} s cannot be: jobs end after they were "
                f"submitted, low is not above high, and no fewer than 0 jobs are there"
            )
    if job.ended_s is not None and job.ended_s > now_unix_s + CLOCKS_AGREE_TO_S:
        ended = datetime.fromtimestamp(min(job.ended_s, 2e11), UTC)
        raise ValueError(
            f"the run ended at {job.ended_s:g} s ({ended:%Y-%m-%d}), which is in the future; times "
            f"are Unix seconds, not milliseconds"
        )


def import_file(session: Session, site: str, path: Path, now_unix_s: float) -> tuple[int, int]:
    """Record the jobs of a file at a site. Returns how many are new, and how many the site had already.

    Raises as `read`, InvalidFile for a file without jobs and for jobs that do not fit the site, and
    UserError if the site has them all.
    """
    n, skipped = 0, 0
    writer = JobWriter(session, site)
    writer.lock(session)
    for source, jobs in read(path, now_unix_s):
        if writer.has(session, source):
            skipped += len(jobs)
            continue
        try:
            writer.add(session, source, jobs)
        except BadRecord as error:
            raise InvalidFile(f"{path}: {error}") from None
        n += len(jobs)
    if not n and not skipped:
        raise InvalidFile(f"{path}: the file has a header, but no jobs")
    if not n:
        raise UserError(f"{path}: the site '{site}' has the jobs of this file already")
    return n, skipped


class Recorder:
    """Records batches of one site in order, each in its own transaction.

    While the database is unreachable, batches wait and are written before the next one; `notify` is called
    with one sentence when that begins and one when it ends. The live source has many batches; any other
    source is one batch, which is skipped if it was recorded before.

    With each batch its number is written, which tells a later attempt whether a commit with a lost answer
    happened. The site is locked before the number is read, so a commit still under way has happened, too.
    """

    def __init__(self, engine: Engine, site: str, notify: Callable[[str], None]) -> None:
        """Raises UserError, and DatabaseTrouble if the database cannot be reached."""
        self._engine = engine
        self._notify = notify
        self._numbers = count(1)
        self._waiting: deque[tuple[int, Batch, Source | None]] = deque()
        """Each batch, its number, and what it is the last one of."""
        self._name = uuid4().hex
        self._is_late = False
        """Whether a message has said that batches wait."""
        with store.reading(engine) as session:
            self._writer = JobWriter(session, site)

    @property
    def waiting(self) -> Sequence[Batch]:
        """The batches that are not written yet."""
        return tuple(batch for _, batch, _ in self._waiting)

    def record(self, source: Source, jobs: Sequence[JobRecord], completes: Source | None = None) -> None:
        """Record a batch now or, if the database is unreachable, later. The last one of several `completes`
        a source that stands for all of them, which is added in the same transaction.

        Raises BadRecord and Rejected, with nothing of the batch recorded, and DatabaseTrouble for a database
        that cannot be written: then the batch waits.
        """
        self._waiting.append((next(self._numbers), (source, jobs), completes))
        self.write()

    def write(self) -> None:
        """Write the waiting batches if the database is reachable. Raises as `record` does."""
        while self._waiting:
            try:
                self._write_once(*self._waiting[0])
            except Unreachable as trouble:
                if not self._is_late:
                    self._is_late = True
                    self._notify(f"{trouble}; records are kept until they can be written")
                return
            except (BadRecord, Rejected):
                self._waiting.popleft()
                raise
            self._waiting.popleft()
        if self._is_late:
            self._is_late = False
            self._notify(
                f"{store.address_of(self._engine)}: the database can be reached again, and has everything"
            )

    def _write_once(self, number: int, batch: Batch, completes: Source | None) -> None:
        source, jobs = batch
        try:
            with store.changing(self._engine) as session:
                self._writer.lock(session)
                if not self._writer.begin_batch(session, self._name, number):
                    return
                if source.kind is SourceKind.LIVE or not self._writer.has(session, source):
                    self._writer.add(session, source, jobs)
                if completes is not None:
                    self._writer.put(session, [completes])
        except BaseException:
            self._writer.reset()
            raise
