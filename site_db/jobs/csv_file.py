"""Jobs and runs in a CSV file: what could not be recorded yet, and history from anywhere else.

A row needs job_class, started_unix_s, run_time_s, and resource (a machine or a cluster) or machine_class;
every other column may be left out. Rows without a run time are jobs that did not end.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from site_db import toml_file
from site_db.jobs.records import (
    CLOCKS_AGREE_TO_S,
    JobRecord,
    JobState,
    PredictedTurnaround,
    Source,
    SourceKind,
)
from site_db.jobs.writer import BadRecord, JobWriter, TakenInBefore
from site_db.toml_file import MOST, InvalidFile, Table

Batch = tuple[Source, Sequence[JobRecord]]

_OF_SOURCE = tuple(f"source_{field.name}" for field in fields(Source))
_UNIX = {"submitted_s": "submitted_unix_s", "started_s": "started_unix_s"}
_OF_JOB = {field.name: _UNIX.get(field.name, field.name) for field in fields(JobRecord)}
"""Fields of a job, each with its column."""
NEEDED = ("job_class", "started_unix_s", "run_time_s")


def write(path: Path, batches: Iterable[Batch]) -> None:
    """Write batches so that reading the file gives them again."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*_OF_SOURCE, *_OF_JOB.values()))
        for source, jobs in batches:
            of_source = [getattr(source, field.name) for field in fields(Source)]
            for job in jobs:
                predicted = json.dumps([asdict(said) for said in job.predicted]) if job.predicted else ""
                values = {name: getattr(job, name) for name in _OF_JOB} | {"predicted": predicted}
                writer.writerow(of_source + list(values.values()))


def read(path: Path, now_unix_s: float) -> list[Batch]:
    """The batches in a file; rows that name no source have the file itself as theirs.

    Raises InvalidFile with file and line for what is no job, and for a run that ended after `now_unix_s`.
    """
    text = toml_file.read_text(path)
    rows = csv.DictReader(io.StringIO(text, newline=""), restkey="")
    header = rows.fieldnames or []
    known = (*_OF_SOURCE, *_OF_JOB.values())
    for name in header:
        if name not in known:
            raise InvalidFile(
                f"{path}, line 1: unknown column '{name}'; known are {', '.join(_OF_JOB.values())}"
            )
        if header.count(name) > 1:
            raise InvalidFile(f"{path}, line 1: the column '{name}' is there twice")
    for name in NEEDED:
        if name not in header:
            raise InvalidFile(
                f"{path}, line 1: the column '{name}' is missing; needed are {', '.join(NEEDED)}"
            )
    itself = Source(SourceKind.FILE, hashlib.sha256(text.encode()).hexdigest(), path.name)
    batches: dict[str, tuple[Source, list[JobRecord]]] = {}
    for row in _rows(rows, path):
        where = f"{path}, line {rows.line_num}"
        if "" in row or None in row.values():
            raise InvalidFile(f"{where}: expected {len(header)} values, one for each column")
        source, job = _understood(row, itself, where, rows.line_num)
        ended_s = job.ended_s
        if ended_s is not None and ended_s > now_unix_s + CLOCKS_AGREE_TO_S:
            ended = datetime.fromtimestamp(min(ended_s, 2e11), UTC)
            raise InvalidFile(
                f"{where}: the run ended at {ended_s:g} s ({ended:%Y-%m-%d}), which is in the future; times "
                f"are Unix seconds, not milliseconds"
            )
        batches.setdefault(source.key, (source, []))[1].append(job)
    return list(batches.values())


def import_file(session: Session, site: str, path: Path, now_unix_s: float) -> tuple[int, int]:
    """Record the jobs of a file at a site. Returns how many, and how many the site had already.

    Raises as `read`, InvalidFile for a file without jobs and for jobs that do not fit the site, and
    TakenInBefore if it had them all.
    """
    n, left_out = 0, 0
    writer = JobWriter(session, site)
    writer.lock(session)
    for source, jobs in read(path, now_unix_s):
        if writer.knows(session, source):
            left_out += len(jobs)
            continue
        try:
            writer.add(session, source, jobs)
        except BadRecord as mistake:
            raise InvalidFile(f"{path}: {mistake}") from None
        n += len(jobs)
    if not n and not left_out:
        raise InvalidFile(f"{path}: the file has a header, but no jobs")
    if not n:
        raise TakenInBefore(f"{path}: the site '{site}' has the jobs of this file already")
    return n, left_out


# The text of a number will do: all that a CSV file has is text.
Number = Annotated[int, Field(ge=0, lt=2**31)]


class _Row(Table):
    """One row, with the values that a missing column stands for."""

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
    submitted_unix_s: float | None = Field(default=None, ge=0)
    resource: str | None = None
    machine_class: str | None = None
    members: int | None = Field(default=None, ge=1, lt=2**31)
    started_unix_s: float | None = Field(default=None, ge=0)
    run_time_s: float | None = Field(default=None, gt=0, lt=MOST)
    size: float | None = Field(default=None, gt=0, lt=MOST)
    submitted_by: str | None = None
    expected_s: float | None = Field(default=None, ge=0, lt=MOST)
    preemptions: Number = 0
    reason: str = ""
    time_limit_s: float | None = Field(default=None, gt=0, lt=MOST)
    predicted: str = ""


def _understood(row: dict[str, str], itself: Source, where: str, line: int) -> tuple[Source, JobRecord]:
    """The job of a row, and its source. Raises InvalidFile."""
    data: dict[str, Any] = {name: value for name, value in row.items() if value != ""}
    try:
        told = _Row.model_validate(data)
    except ValidationError as error:
        _, sentence = toml_file.mistakes(error, data, _Row)[0]
        raise InvalidFile(f"{where}: {sentence}") from None
    values = told.model_dump() | {"predicted": _predicted(told, where)}
    source = itself
    if told.source_key:
        source = Source(**{field.name: values[f"source_{field.name}"] for field in fields(Source)})
    if told.resource is not None and told.machine_class is not None:
        raise InvalidFile(f"{where}: either a resource or a machine_class, not both")
    somewhere = told.resource is not None or told.machine_class is not None
    whole = told.run_time_s is not None and told.started_unix_s is not None and somewhere
    values["state"] = told.state or (JobState.DONE if whole else JobState.WAITING)
    if values["state"] is JobState.DONE and not whole:
        raise InvalidFile(
            f"{where}: a job that is done has a resource or a machine_class, started_unix_s and run_time_s"
        )
    started_s, submitted_s = told.started_unix_s, told.submitted_unix_s
    if started_s is not None and submitted_s is not None and submitted_s > started_s:
        raise InvalidFile(f"{where}: the job was submitted at {submitted_s:.15g} s, after it started")
    if told.submitted_unix_s is None:
        values["submitted_unix_s"] = told.started_unix_s or 0.0
    values["number"] = told.number or str(line)
    return source, JobRecord(**{field: values[column] for field, column in _OF_JOB.items()})


_PREDICTED = TypeAdapter(tuple[PredictedTurnaround, ...])


def _predicted(told: _Row, where: str) -> tuple[PredictedTurnaround, ...]:
    if not told.predicted:
        return ()
    try:
        predicted = _PREDICTED.validate_json(told.predicted)
    except ValidationError:
        raise InvalidFile(
            f"{where}: predicted is not what experiments write: a list of predictions in JSON"
        ) from None
    submitted_s = told.submitted_unix_s or told.started_unix_s or 0.0
    for said in predicted:
        low_s, high_s = said.low_s, said.high_s
        in_order = low_s is None or high_s is None or low_s <= high_s
        if not (submitted_s <= said.end_s < MOST and in_order and said.jobs_there >= 0):
            raise InvalidFile(
                f"{where}: a prediction of {said.end_s:.15g} s cannot be: jobs end after they were "
                f"submitted, low is not above high, and no fewer than 0 jobs are there"
            )
    return predicted


def _rows(rows: csv.DictReader[str], path: Path) -> Iterator[dict[str, str]]:
    try:
        yield from rows
    except csv.Error as error:
        raise InvalidFile(f"{path}, line {rows.line_num}: this is not valid CSV: {error}") from None
