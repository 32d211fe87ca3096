"""The grammar of the Standard Workload Format (SWF) of the Parallel Workloads Archive, version 2.2.

<https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>

A line is a job of 18 numbers, where -1 is unknown, or a comment, which begins with a semicolon. A comment
`; Key: value` is a header field; the first of repeated fields counts.

A job that was swapped out or checkpointed has a line for each partial execution (status 2, 3 or 4). They
belong to the line of the whole job with the same number. If the log has such a line, it counts and the
partial executions are left out; otherwise `joined` makes it.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import isfinite
from pathlib import Path

from site_db.files.input_errors import InvalidFile, quoted
from site_db.jobs.records import MOST_PROCESSORS, LoggedJob, Refused, Tally

_FIELDS = """job submit wait run allocated cpu_time memory requested requested_time requested_memory status
    user group executable queue partition preceding think_time"""
FIELDS = tuple(_FIELDS.split())
UNKNOWN = -1.0
EXPECTED = (
    f"a job of the Standard Workload Format, which is {len(FIELDS)} numbers "
    "like '1 0 5 60 4 -1 -1 4 90 -1 1 7 1 3 1 1 -1 -1'"
)

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

HAS_WHOLE = "a partial execution of a job that has a line for the whole job, too"
WITHOUT_WHOLE = "partial executions of a job that has no line for the whole job"

_STATUS_OF_WHOLE = {
    float(Status.LAST_PART_COMPLETED): float(Status.COMPLETED),
    float(Status.LAST_PART_FAILED): float(Status.FAILED),
}


def joined(parts: Sequence[Sequence[float]]) -> list[float]:
    """The line of the whole job whose partial executions, of 18 numbers each, are `parts` in their order.

    The run time is the sum of those that are known, processors are the maximum, and all else is that of the
    first part. The last part decides whether the job completed; its status stays 2 if a last part is missing.
    """
    whole = list(parts[0])
    run, status = FIELDS.index("run"), FIELDS.index("status")
    known_s = [part[run] for part in parts if part[run] >= 0]
    whole[run] = sum(known_s) if known_s else UNKNOWN
    for name in ("allocated", "requested"):
        k = FIELDS.index(name)
        whole[k] = max(part[k] for part in parts)
    whole[status] = _STATUS_OF_WHOLE.get(parts[-1][status], float(Status.TO_BE_CONTINUED))
    return whole


def header_field(comment: str) -> tuple[str, str] | None:
    """The key of a header field, in small letters, and its value; None for any other comment."""
    match = re.match(r"[ \t]*;[; \t]*([A-Za-z]+)[ \t]*:(.*)", comment)
    return (match[1].lower(), match[2].strip()) if match else None


def unix_start_s(value: str) -> float | None:
    """The seconds of a header field UnixStartTime; None if it is no time before the year 10000."""
    match = re.match(r"\d{1,15}(\.\d*)?(?!\S)", value, re.ASCII)
    start_s = float(match[0]) if match else -1.0
    return start_s if 0 <= start_s <= LATEST_UNIX_S else None


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


N_FIELDS = len(FIELDS)
_AT = {name: k for k, name in enumerate(FIELDS)}

_REFUSED: dict[float, str] = {
    Status.FAILED: "the job failed",
    Status.CANCELLED: "the job was cancelled",
    Status.TO_BE_CONTINUED: "the last partial execution of the job is missing",
}
"""Why a job of this status is refused."""


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of 18 numbers; its times count from `origin_s` (None: no header gives it)."""

    line: int
    fields: list[str]
    origin_s: float | None
    repairs: tuple[str, ...] = ()

    @property
    def job(self) -> str:
        return self.name("", "job") or self.fields[0]

    def number(self, field: str) -> float:
        return float(self.fields[_AT[field]])

    def name(self, prefix: str, field: str) -> str:
        """A name for what a log has by number; empty if it is unknown."""
        text = self.fields[_AT[field]]
        if text.isdecimal():
            return prefix + text
        value = float(text)
        return f"{prefix}{int(value)}" if value >= 0 else ""


def read_swf(lines: Iterable[str], path: Path, tally: Tally) -> Iterator[LoggedJob]:
    """The completed runs of an SWF log, one by one; `tally` counts what happened to each row.

    Times are in seconds and count from the header field UnixStartTime; in a log concatenated from several,
    each row counts from the last such field before it. Whole numbers may be written as decimals, like 4.00.

    Refused are rows with fewer than 18 fields or with a field that is not a number; jobs that failed or were
    cancelled; partial executions of a job that has a line for the whole; jobs whose last partial execution
    is missing; unknown submit times, run times or processors; run times of zero; times beyond the year 9999.

    Repaired are rows with more than 18 fields (the rest is ignored), an unknown status (counts as completed)
    or an unknown wait (counts as none); partial executions without a line for the whole job, which are joined
    and come last; and, once, a log without UnixStartTime (0 is taken).

    Jobs that name a preceding one (field 17) are counted in the remarks.

    Users, executables, queues and partitions are numbers here, and become "user-7", "program-3" ("queue-1"
    if the executable is unknown) and "partition-1". The format names no nodes.

    Raises InvalidFile after the last line if no line was a row of 18 numbers; `path` is for its message.
    """
    reported, first = False, dict[float, float]()
    named: list[tuple[float, float, float]] = []
    for row, job in _jobs(_noted(_rows(lines, path, tally), first, named), tally):
        if row.origin_s is None and not reported:
            tally.repair("no UnixStartTime header: times count from 0", row.line)
            reported = True
        yield job
    for number in (number for number, _, _ in named):
        tally.remark(f"named {of_preceding(named, first)}", f"{number:.0f}")


def _noted(
    rows: Iterable[_Row], first: dict[float, float], named: list[tuple[float, float, float]]
) -> Iterator[_Row]:
    """The rows, of which those that name a preceding job are noted, and the first line of each job."""
    for row in rows:
        job, preceding = row.number("job"), row.number("preceding")
        first.setdefault(job, row.line)
        if preceding > 0:
            named.append((job, preceding, row.line))
        yield row


def _jobs(rows: Iterable[_Row], tally: Tally) -> Iterator[tuple[_Row, LoggedJob]]:
    """The completed runs, each with its row; those of joined partial executions come last."""
    whole: set[str] = set()
    parts: dict[str, list[_Row]] = {}
    for row in rows:
        if row.number("status") in PARTIAL:
            parts.setdefault(row.job, []).append(row)
            continue
        whole.add(row.job)
        if job := _job_of([row], row, tally):
            yield row, job
    for number, some in parts.items():
        if number in whole:
            for row in some:
                tally.refuse(HAS_WHOLE, row.line)
            continue
        numbers = joined([[float(text) for text in row.fields] for row in some])
        row = _Row(
            some[0].line, [repr(one) for one in numbers], some[0].origin_s, (f"{WITHOUT_WHOLE}, joined",)
        )
        if job := _job_of(some, row, tally):
            yield row, job


def _job_of(lines: list[_Row], row: _Row, tally: Tally) -> LoggedJob | None:
    """The job of a row that was made from some lines, counted in `tally`; None if it is refused."""
    try:
        job, repairs = _job(row)
    except Refused as refused:
        for line in lines:
            tally.refuse(refused.reason, line.line)
        return None
    for line in lines:
        tally.use()
        for rule in (*repairs, *row.repairs):
            tally.repair(rule, line.line)
    return job


def _rows(lines: Iterable[str], path: Path, tally: Tally) -> Iterator[_Row]:
    origin_s: float | None = None
    has_rows = False
    first: tuple[int, str] | None = None
    for number, line in enumerate(lines, start=1):
        fields = line.split(None, N_FIELDS)
        if not fields:
            continue
        if first is None:
            first = number, line
        if fields[0][0] == ";":
            key, value = header_field(line) or ("", "")
            start_s = unix_start_s(value) if key == "unixstarttime" else None
            origin_s = origin_s if start_s is None else start_s
            continue
        if len(fields) < N_FIELDS:
            tally.refuse(f"fewer than {N_FIELDS} fields", number)
            continue
        surplus = (f"more than {N_FIELDS} fields, the rest ignored",) if len(fields) > N_FIELDS else ()
        del fields[N_FIELDS:]
        # A number costs little to recognise and much to convert; most fields are only recognised.
        # There are other digits than those of ASCII.
        is_ascii = line.isascii() or all(map(str.isascii, fields))
        odd = [text for text in fields if not text.isdecimal() and text != "-1"]
        if not is_ascii or (odd and not all(map(_is_number, odd))):
            tally.refuse("a field is not a number", number)
            continue
        has_rows = True
        yield _Row(number, fields, origin_s, surplus)
    if not has_rows:
        if first is None:
            raise InvalidFile(f"{path}: the file is empty; expected {EXPECTED}")
        raise InvalidFile(
            f"{path}, line {first[0]}: found {quoted(first[1])}, and no line of the file is {EXPECTED}"
        )


def _job(row: _Row) -> tuple[LoggedJob, list[str]]:
    """The completed run of a row, and its repairs. Raises Refused."""
    status = row.number("status")
    submit_s, run_s, wait_s = (row.number(field) for field in ("submit", "run", "wait"))
    if status not in (Status.COMPLETED, Status.UNKNOWN):
        raise Refused(_REFUSED.get(status, "a status that the format does not have"))
    if submit_s < 0:
        raise Refused("the submit time is unknown")
    if run_s < 0:
        raise Refused("the run time is unknown")
    candidates = (row.number(field) for field in ("allocated", "requested"))
    processors = next((int(n) for n in candidates if 1 <= n <= MOST_PROCESSORS), None)
    if processors is None:
        raise Refused("the number of processors is unknown")
    submitted_s = submit_s + (row.origin_s or 0.0)
    started_s = submitted_s + wait_s if wait_s > 0 else submitted_s
    ended_s = started_s + run_s
    if ended_s > LATEST_UNIX_S:
        raise Refused("a time is beyond the year 9999")
    # Compared after the sum, in which a very short run time may be lost by rounding.
    if ended_s == started_s:
        raise Refused("the run time is zero")
    repairs = []
    if status == Status.UNKNOWN:
        repairs.append("status unknown, taken as completed")
    if wait_s < 0:
        repairs.append("wait unknown, taken as none")
    limit_s = row.number("requested_time")
    return LoggedJob(
        number=row.job,
        user=row.name("user-", "user") or "unknown",
        program=row.name("program-", "executable") or row.name("queue-", "queue") or "unknown",
        partition=row.name("partition-", "partition"),
        processors=processors,
        nodes=(),
        submitted_unix_s=submitted_s,
        started_unix_s=started_s,
        ended_unix_s=ended_s,
        time_limit_s=limit_s if 0 < limit_s <= LATEST_UNIX_S else None,
    ), repairs


def _is_number(text: str) -> bool:
    # To float(), nan, inf and 1_000 are numbers too.
    try:
        return isfinite(float(text)) and "_" not in text
    except ValueError:
        return False
