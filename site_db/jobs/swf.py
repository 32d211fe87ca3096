"""The Standard Workload Format (SWF) of the Parallel Workloads Archive, version 2.2: its lines, and their import.

<https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>

A line is a job of 18 numbers, where -1 is unknown, or a comment, which begins with a semicolon. A comment
`; Key: value` is a header field; the first of repeated fields counts.

A job that was swapped out or checkpointed has a line for each partial execution (status 2, 3 or 4). They
belong to the line of the whole job with the same number. If the log has such a line, it counts and the
partial executions are left out; otherwise `joined` makes it.
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from site_db.files.input_errors import InvalidFile, quoted
from site_db.jobs.logged import MAX_PROCESSORS, LoggedJob, Tally

UNKNOWN = -1.0


class SwfRow(NamedTuple):
    """A line of a log that is no comment: its 18 numbers after what is known about the line."""

    line: int
    id: str = ""
    """The text of the first field."""
    wrong: str = ""
    """FEW_FIELDS or NO_NUMBER, without numbers; or MORE_FIELDS."""
    origin_s: float | None = None
    """The UnixStartTime from which its times count: the last one before it, as in concatenated logs."""
    job: float = UNKNOWN
    submit: float = UNKNOWN
    wait: float = UNKNOWN
    run: float = UNKNOWN
    allocated: float = UNKNOWN
    cpu_time: float = UNKNOWN
    memory: float = UNKNOWN
    requested: float = UNKNOWN
    requested_time: float = UNKNOWN
    requested_memory: float = UNKNOWN
    status: float = UNKNOWN
    user: float = UNKNOWN
    group: float = UNKNOWN
    executable: float = UNKNOWN
    queue: float = UNKNOWN
    partition: float = UNKNOWN
    preceding: float = UNKNOWN
    think_time: float = UNKNOWN


FIELDS = SwfRow._fields[4:]
N_FIELDS = len(FIELDS)
FEW_FIELDS, MORE_FIELDS = f"fewer than {N_FIELDS} fields", f"more than {N_FIELDS} fields"
NO_NUMBER = "a field is not a number"
LATEST_UNIX_S = 253_402_300_799
"""The last second of the year 9999, the latest time of calendars."""


class Status(IntEnum):
    """How a job, or a partial execution of one, ended."""

    UNKNOWN = -1
    FAILED = 0
    COMPLETED = 1
    TO_BE_CONTINUED = 2
    LAST_PART_COMPLETED = 3
    LAST_PART_FAILED = 4
    CANCELLED = 5


PARTIAL = (Status.TO_BE_CONTINUED, Status.LAST_PART_COMPLETED, Status.LAST_PART_FAILED)
_STATUS_OF_WHOLE: dict[float, float] = {
    Status.LAST_PART_COMPLETED: Status.COMPLETED,
    Status.LAST_PART_FAILED: Status.FAILED,
}
HAS_WHOLE = "a partial execution of a job that has a line for the whole job, too"
WITHOUT_WHOLE = "partial executions of a job that has no line for the whole job"


def rows_of(lines: Iterable[str], path: Path) -> Iterator[SwfRow]:
    """The lines of a log except comments, one by one. Raises InvalidFile, with `path`, after the last line if
    no line was a row of 18 numbers."""
    origin_s: float | None = None
    first: tuple[int, str] | None = None
    has_comments = has_jobs = False
    for number, line in enumerate(lines, start=1):
        fields = line.split(None, N_FIELDS)
        if not fields:
            continue
        if fields[0][0] == ";":
            has_comments = True
            key, value = header_field(line) or ("", "")
            if key == "unixstarttime" and (start_s := unix_start_s(value)) is not None:
                origin_s = start_s
            continue
        first = first or (number, line)
        row = _row(number, fields, origin_s)
        has_jobs |= row.wrong in ("", MORE_FIELDS)
        yield row
    if has_jobs:
        return
    if first is not None:
        at, text = first
        raise InvalidFile(f"{path}, line {at}: found {quoted(text)}, and no line of the file is {_EXPECTED}")
    is_empty = f"the file is empty; expected {_EXPECTED}"
    raise InvalidFile(f"{path}: {'the file has a header, but no jobs' if has_comments else is_empty}")


_EXPECTED = (
    f"a job of the Standard Workload Format, which is {N_FIELDS} numbers "
    "like '1 0 5 60 4 -1 -1 4 90 -1 1 7 1 3 1 1 -1 -1'"
)


def _row(number: int, fields: list[str], origin_s: float | None) -> SwfRow:
    if len(fields) < N_FIELDS:
        return SwfRow(number, fields[0], FEW_FIELDS)
    wrong = MORE_FIELDS if len(fields) > N_FIELDS else ""
    del fields[N_FIELDS:]
    text = "".join(fields)
    try:
        if "_" in text or not text.isascii():  # which float() accepts
            raise ValueError
        return SwfRow(number, fields[0], wrong, origin_s, *map(float, fields))
    except ValueError:
        return SwfRow(number, fields[0], NO_NUMBER)


def joined(parts: Sequence[SwfRow]) -> SwfRow:
    """The row of the whole job whose partial executions are `parts` in their order.

    The run time is the sum of those that are known, processors are the maximum, and all else is that of the
    first part. The last part decides whether the job completed; its status stays 2 if a last part is missing.
    """
    known_s = [part.run for part in parts if part.run >= 0]
    return parts[0]._replace(
        run=sum(known_s) if known_s else UNKNOWN,
        allocated=max(part.allocated for part in parts),
        requested=max(part.requested for part in parts),
        status=_STATUS_OF_WHOLE.get(parts[-1].status, float(Status.TO_BE_CONTINUED)),
    )


def header_field(comment: str) -> tuple[str, str] | None:
    """The key of a header field, in small letters, and its value; None for any other comment."""
    match = re.match(r"[ \t]*;[; \t]*([A-Za-z]+)[ \t]*:(.*)", comment)
    return (match[1].lower(), match[2].strip()) if match else None


def unix_start_s(value: str) -> float | None:
    """The seconds of a header field UnixStartTime; None if it is no time before the year 10000."""
    match = re.match(r"\d{1,15}(\.\d*)?(?!\S)", value, re.ASCII)
    return start_s if match and (start_s := float(match[0])) <= LATEST_UNIX_S else None


Named = Sequence[tuple[float, float, float]]
"""Jobs, the preceding jobs that they name, and their places in the log."""


def of_preceding(named: Named, first: Mapping[float, float], kept: Container[float] | None = None) -> str:
    """The jobs that others name in field 17, which is counted, not modelled, for the end of a sentence.
    `first` are the first places of the jobs that they name; `kept` are the jobs that are used, if that are
    not all."""
    there = [(preceding, place) for job, preceding, place in named if preceding != job and preceding in first]
    to_itself = sum(job == preceding for job, preceding, _ in named)
    kinds = {
        "itself": to_itself,
        "a job that is not in the log": len(named) - to_itself - len(there),
        "a job on a later line": sum(first[preceding] > place for preceding, place in there),
        "a job that is left out": sum(kept is not None and preceding not in kept for preceding, _ in there),
    }
    some = [f"{n:,} {'names' if n == 1 else 'name'} {what}" for what, n in kinds.items() if n]
    if len(named) > 1 and len({preceding for _, preceding, _ in named}) == 1:
        some.append(f"all name job {named[0][1]:.0f}, which is probably no dependency")
    of_these = f" (of these, {', '.join(some)})" if some else ""
    return (
        f"a preceding job in field 17, after whose end the job may start{of_these}; not modelled: jobs do "
        f"not wait for preceding jobs and think times (field 18)"
    )


def read_swf(lines: Iterable[str], path: Path, tally: Tally) -> Iterator[LoggedJob]:
    """The completed runs of a log, one by one; `tally` counts what happened to each row.

    Times are in seconds and count from the header field UnixStartTime. Whole numbers may be written as
    decimals, like 4.00. Refused are rows with fewer than 18 fields or with a field that is not a number; jobs
    that failed or were cancelled; partial executions of a job that has a line for the whole; jobs whose last
    partial execution is missing; unknown submit times, run times or processors; run times of zero; times
    beyond the year 9999.

    Repaired are rows with more than 18 fields (the rest is ignored), an unknown status (counts as completed)
    or an unknown wait (counts as none); partial executions without a line for the whole job, which are joined
    and come last; and, once, a log without UnixStartTime (0 is taken). Jobs that name a preceding one (field
    17) are counted in the remarks.

    Users, executables, queues and partitions are numbers here, and become "user-7", "program-3" ("queue-1"
    if the executable is unknown) and "partition-1". The format names no nodes. Raises InvalidFile as
    `rows_of`.
    """
    first, named = dict[float, float](), list[tuple[float, float, float]]()
    whole, parts = set[float](), dict[float, list[SwfRow]]()
    is_dated = True

    def job_of(row: SwfRow, some: Sequence[SwfRow], *repairs: str) -> Iterator[LoggedJob]:
        nonlocal is_dated
        if reason := _refusal(row):
            for each in some:
                tally.refuse(reason, each.line)
            return
        found = [
            *(["status unknown, taken as completed"] if row.status == Status.UNKNOWN else ()),
            *(["wait unknown, taken as none"] if row.wait < 0 else ()),
            *repairs,
        ]
        for each in some:
            tally.used += 1
            for rule in found:
                tally.repair(rule, each.line)
        if row.origin_s is None and is_dated:
            tally.repair("no UnixStartTime header: times count from 0", row.line)
            is_dated = False
        yield _job(row)

    for row in rows_of(lines, path):
        if row.wrong in (FEW_FIELDS, NO_NUMBER) or not all(map(isfinite, row[4:])):
            tally.refuse(FEW_FIELDS if row.wrong == FEW_FIELDS else NO_NUMBER, row.line)
            continue
        first.setdefault(row.job, row.line)
        if row.preceding > 0:
            named.append((row.job, row.preceding, row.line))
        if row.status in PARTIAL:
            parts.setdefault(row.job, []).append(row)
            continue
        whole.add(row.job)
        yield from job_of(row, [row], *([f"{row.wrong}, the rest ignored"] if row.wrong else ()))
    for number, some in parts.items():
        if number not in whole:
            yield from job_of(joined(some), some, f"{WITHOUT_WHOLE}, joined")
            continue
        for row in some:
            tally.refuse(HAS_WHOLE, row.line)
    for number, _, _ in named:
        tally.remark(f"named {of_preceding(named, first)}", f"{number:.0f}")


_REFUSED: dict[float, str] = {
    Status.FAILED: "the job failed",
    Status.CANCELLED: "the job was cancelled",
    Status.TO_BE_CONTINUED: "the last partial execution of the job is missing",
    **dict.fromkeys((Status.COMPLETED, Status.UNKNOWN), ""),
}
"""Why a job of this status is refused."""


def _refusal(row: SwfRow) -> str:
    started_s, ended_s = _run_of(row)
    rules = (
        (row.status not in _REFUSED, "a status that the format does not have"),
        (True, _REFUSED.get(row.status, "")),
        (row.submit < 0, "the submit time is unknown"),
        (row.run < 0, "the run time is unknown"),
        (not _processors(row), "the number of processors is unknown"),
        (ended_s > LATEST_UNIX_S, "a time is beyond the year 9999"),
        # Compared after the sum, in which a very short run time may be lost by rounding.
        (ended_s == started_s, "the run time is zero"),
    )
    return next((reason for applies, reason in rules if applies and reason), "")


def _run_of(row: SwfRow) -> tuple[float, float]:
    started_s = row.submit + (row.origin_s or 0.0) + max(row.wait, 0.0)
    return started_s, started_s + row.run


def _processors(row: SwfRow) -> int:
    return next((int(n) for n in (row.allocated, row.requested) if 1 <= n <= MAX_PROCESSORS), 0)


def _job(row: SwfRow) -> LoggedJob:
    started_s, ended_s = _run_of(row)
    return LoggedJob(
        number=row.id if row.id.isdecimal() else _name("", row.job) or row.id,
        user=_name("user-", row.user) or "unknown",
        program=_name("program-", row.executable) or _name("queue-", row.queue) or "unknown",
        partition=_name("partition-", row.partition),
        processors=_processors(row),
        nodes=(),
        submitted_unix_s=row.submit + (row.origin_s or 0.0),
        started_unix_s=started_s,
        ended_unix_s=ended_s,
        time_limit_s=row.requested_time if 0 < row.requested_time <= LATEST_UNIX_S else None,
    )


def _name(prefix: str, number: float) -> str:
    """A name for what a log has by number; empty if it is unknown."""
    return f"{prefix}{int(number)}" if number >= 0 else ""
