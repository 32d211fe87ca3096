"""Jobs and runs in a CSV file: batches that could not be recorded yet, and history from other sources.

A row needs job_class, started_unix_s, run_time_s, and resource (a machine or a cluster) or machine_class; the
other columns are optional. Rows without a run time are jobs that did not end.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator
from sqlalchemy.orm import Session

from scheduler import UserError
from site_db.files import toml_file
from site_db.files.input_errors import MOST, InvalidFile, quoted
from site_db.files.plain_values import escaped, unescaped
from site_db.files.readers import read_text
from site_db.files.toml_file import Table
from site_db.jobs.records import (
    CLOCKS_AGREE_TO_S,
    Batch,
    JobRecord,
    JobState,
    PredictedTurnaround,
    Source,
    SourceKind,
)
from site_db.jobs.writer import BadRecord, JobWriter

_OF_SOURCE = tuple(f"source_{field.name}" for field in fields(Source))
_UNIX = {"submitted_s": "submitted_unix_s", "started_s": "started_unix_s"}
_OF_JOB = {field.name: _UNIX.get(field.name, field.name) for field in fields(JobRecord)}
"""Fields of a job, each with its column."""
EACH = 16.0
"""Bytes of memory that a byte of a row takes as a job, about."""
REQUIRED = ("job_class", "started_unix_s", "run_time_s")


def write(path: Path, batches: Iterable[Batch]) -> None:
    """Write batches, which `read` reads back unchanged."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*_OF_SOURCE, *_OF_JOB.values()))
        for source, jobs in batches:
            of_source = [getattr(source, field.name) for field in fields(Source)]
            for job in jobs:
                predicted = json.dumps([asdict(one) for one in job.predicted]) if job.predicted else ""
                values = {name: getattr(job, name) for name in _OF_JOB} | {"predicted": predicted}
                row = of_source + list(values.values())
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
            source, job = _parsed({name: unescaped(cell) for name, cell in row.items()}, itself, line)
            _check_end(job, now_unix_s)
            batches.setdefault(source.key, (source, []))[1].append(job)
    except csv.Error as error:
        raise InvalidFile(f"{path}, line {rows.line_num}: this is not valid CSV: {error}") from None
    except ValueError as error:
        raise InvalidFile(f"{path}, line {line}: {error}") from None
    return list(batches.values())


def _check_header(header: Sequence[str]) -> None:
    known = (*_OF_SOURCE, *_OF_JOB.values())
    for name in header:
        if name not in known:
            raise ValueError(f"unknown column '{name}'; known are {', '.join(_OF_JOB.values())}")
        if header.count(name) > 1:
            raise ValueError(f"the column '{name}' occurs twice")
    for name in REQUIRED:
        if name not in header:
            raise ValueError(f"the column '{name}' is missing; needed are {', '.join(REQUIRED)}")


def _check_end(job: JobRecord, now_unix_s: float) -> None:
    ended_s = job.ended_s
    if ended_s is not None and ended_s > now_unix_s + CLOCKS_AGREE_TO_S:
        ended = datetime.fromtimestamp(min(ended_s, 2e11), UTC)
        raise ValueError(
            f"the run ended at {ended_s:g} s ({ended:%Y-%m-%d}), which is in the future; times "
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


def _plain(text: object) -> object:
    """A number without the underscores and the digits of other scripts that Python allows."""
    if isinstance(text, str) and ("_" in text or not text.isascii()):
        raise ValueError(f"{quoted(text)} is not a number")
    return text


# Not strict: all values of a CSV file are text.
Plain = BeforeValidator(_plain)
Number = Annotated[int, Plain, Field(ge=0, lt=2**31)]
Time = Annotated[float, Plain, Field(ge=0, lt=MOST)]
Duration = Annotated[float, Plain, Field(gt=0, lt=MOST)]


class _Row(Table):
    """One row, with the defaults of missing columns."""

    source_kind: SourceKind = SourceKind.FILE
    source_key: str = ""
    source_name: str = ""
    source_scheduler: str | None = None
    source_point: Number | None = None
    source_replication: Number | None = None
    number: str = ""
    job_class: str = Field(min_length=1)
    user: str = "unknown"
    queue: str = "default"
    state: JobState | None = None
    submitted_unix_s: Time | None = None
    resource: str | None = None
    machine_class: str | None = None
    members: Annotated[int, Plain, Field(ge=1, lt=2**31)] | None = None
    started_unix_s: Time | None = None
    run_time_s: Duration | None = None
    size: Duration | None = None
    submitted_by: str | None = None
    expected_s: Time | None = None
    preemptions: Number = 0
    reason: str = ""
    time_limit_s: Duration | None = None
    account: str = ""
    qos: str = ""
    predicted: str = ""

    @property
    def has_run(self) -> bool:
        return None not in (self.run_time_s, self.started_unix_s, self.resource or self.machine_class)

    @property
    def submitted_s(self) -> float:
        return next((s for s in (self.submitted_unix_s, self.started_unix_s) if s is not None), 0.0)

    @model_validator(mode="after")
    def _is_a_job(self) -> _Row:
        if self.resource is not None and self.machine_class is not None:
            raise ValueError("either a resource or a machine_class, not both")
        if self.state is JobState.DONE and not self.has_run:
            raise ValueError(
                "a job that is done has a resource or a machine_class, started_unix_s and run_time_s"
            )
        if self.started_unix_s is not None and self.submitted_s > self.started_unix_s:
            raise ValueError(f"the job was submitted at {self.submitted_s:.15g} s, after it started")
        for one in self.predictions():
            in_order = one.low_s is None or one.high_s is None or one.low_s <= one.high_s
            if not (self.submitted_s <= one.end_s < MOST and in_order and one.jobs_there >= 0):
                raise ValueError(
                    f"a prediction of {one.end_s:.15g} s cannot be: jobs end after they were "
                    f"submitted, low is not above high, and no fewer than 0 jobs are there"
                )
        return self

    def predictions(self) -> tuple[PredictedTurnaround, ...]:
        try:
            return _PREDICTIONS.validate_json(self.predicted or "[]")
        except ValidationError:
            raise ValueError(
                "predicted is not what experiments write: a list of predictions in JSON"
            ) from None


_PREDICTIONS = TypeAdapter(tuple[PredictedTurnaround, ...])


def _parsed(data: dict[str, str], itself: Source, line: int) -> tuple[Source, JobRecord]:
    """The job of a row, and its source. Raises ValueError with a sentence."""
    data = {name: value for name, value in data.items() if value != ""}
    try:
        row = _Row.model_validate(data)
    except ValidationError as error:
        _, sentence = toml_file.mistakes(error, data, _Row)[0]
        raise ValueError(sentence) from None
    values = row.model_dump() | {
        "number": row.number or str(line),
        "state": row.state or (JobState.DONE if row.has_run else JobState.WAITING),
        "submitted_unix_s": row.submitted_s,
        "predicted": row.predictions(),
    }
    source = itself
    if row.source_key:
        source = Source(**{field.name: values[f"source_{field.name}"] for field in fields(Source)})
    return source, JobRecord(**{field: values[column] for field, column in _OF_JOB.items()})
