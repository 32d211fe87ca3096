"""The Standard Workload Format of the Parallel Workloads Archive, version 2.2.

<https://www.cs.huji.ac.il/labs/parallel/workload/swf.html>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path

from site_db.jobs.logs.logged_job import LATEST_UNIX_S, MOST_PROCESSORS, LoggedJob, Tally, shown
from site_db.toml_file import InvalidFile

FIELDS = 18
EXPECTED = (
    f"a job of the Standard Workload Format, which is {FIELDS} numbers "
    "like '1 0 5 60 4 -1 -1 4 90 -1 1 7 1 3 1 1 -1 -1'"
)

_COMPLETED, _UNKNOWN = 1, -1
_SWAPPED_OUT = "a part of a job that was swapped out"
_REFUSED: dict[float, str] = {
    0: "the job failed",
    2: _SWAPPED_OUT,
    3: _SWAPPED_OUT,
    4: _SWAPPED_OUT,
    5: "the job was cancelled",
}
"""Why a row of this status is refused. Nothing is lost with the parts: the whole job has a row of its own."""


def read_swf(lines: Iterable[str], path: Path, tally: Tally) -> Iterator[LoggedJob]:
    """The completed runs of an SWF log, one by one; `tally` is told what became of each row.

    A row is a line that is neither blank nor a comment, which begins with a semicolon. -1 is unknown. Times
    are in seconds and count from the header UnixStartTime; where a log is put together from several, each row
    counts from the last such header before it. Whole numbers may be written as decimals, like 4.00.

    Refused is a row with fewer than 18 fields or one that is no number; a job that failed, was cancelled, or
    is only a part of a job that was swapped out; one whose submit time, run time or processors are unknown;
    a run time of zero; times beyond the year 9999.

    Repaired is a row with more than 18 fields (the rest is ignored), with an unknown status (it counts as
    completed) or an unknown wait (it counts as none), and, once, a log without UnixStartTime (0 is taken).

    Users, executables, queues and partitions are numbers here, and become "user-7", "program-3" ("queue-1"
    where the executable is unknown) and "partition-1". The format does not tell nodes.

    Raises InvalidFile after the last line where no line was a row of 18 numbers; `path` is for its message.
    """
    origin_s: float | None = None
    origin_is_told = False
    has_rows = False
    first: tuple[int, str] | None = None
    for number, line in enumerate(lines, start=1):
        fields = line.split(None, FIELDS)
        if not fields:
            continue
        if first is None:
            first = number, line
        if fields[0][0] == ";":
            start_s = _unix_start_s(line)
            origin_s = origin_s if start_s is None else start_s
            continue
        if len(fields) < FIELDS:
            tally.refuse(f"fewer than {FIELDS} fields", number)
            continue
        more_fields = len(fields) > FIELDS
        if more_fields:
            del fields[FIELDS:]
        # A number costs little to recognise and much to convert; most fields are only recognised.
        odd = [text for text in fields if not text.isdecimal() and text != "-1"]
        if odd and not all(map(_is_number, odd)):
            tally.refuse("a field is not a number", number)
            continue
        has_rows = True

        status, submit_s, run_s = float(fields[10]), float(fields[1]), float(fields[3])
        if status != _COMPLETED and status != _UNKNOWN:
            tally.refuse(_REFUSED.get(status, "a status that the format does not have"), number)
            continue
        if submit_s < 0:
            tally.refuse("the submit time is unknown", number)
            continue
        if run_s < 0:
            tally.refuse("the run time is unknown", number)
            continue
        processors = float(fields[4])
        if not 1 <= processors <= MOST_PROCESSORS:
            processors = float(fields[7])
            if not 1 <= processors <= MOST_PROCESSORS:
                tally.refuse("the number of processors is unknown", number)
                continue
        wait_s = float(fields[2])
        submitted_s = submit_s if origin_s is None else origin_s + submit_s
        started_s = submitted_s + wait_s if wait_s > 0 else submitted_s
        ended_s = started_s + run_s
        if ended_s > LATEST_UNIX_S:
            tally.refuse("a time is beyond the year 9999", number)
            continue
        # Compared after the sum: a run time may be too small to be seen beside a time of today.
        if ended_s == started_s:
            tally.refuse("the run time is zero", number)
            continue

        tally.use()
        if status == _UNKNOWN:
            tally.repair("status unknown, taken as completed", number)
        if wait_s < 0:
            tally.repair("wait unknown, taken as none", number)
        if more_fields:
            tally.repair(f"more than {FIELDS} fields, the rest ignored", number)
        if origin_s is None and not origin_is_told:
            tally.repair("no UnixStartTime header: times count from 0", number)
            origin_is_told = True

        yield LoggedJob(
            number=_named("", fields[0]) or fields[0],
            user=_named("user-", fields[11]) or "unknown",
            program=_named("program-", fields[13]) or _named("queue-", fields[14]) or "unknown",
            partition=_named("partition-", fields[15]),
            processors=int(processors),
            nodes=(),
            submitted_unix_s=submitted_s,
            started_unix_s=started_s,
            ended_unix_s=ended_s,
            time_limit_s=limit_s if 0 < (limit_s := float(fields[8])) <= LATEST_UNIX_S else None,
        )
    if not has_rows:
        if first is None:
            raise InvalidFile(f"{path}: the file is empty; expected {EXPECTED}")
        raise InvalidFile(
            f"{path}, line {first[0]}: found {shown(first[1])}, and no line of the file is {EXPECTED}"
        )


def _is_number(text: str) -> bool:
    # To float(), nan, inf and 1_000 are numbers too.
    try:
        return isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def _unix_start_s(comment: str) -> float | None:
    """The UnixStartTime of a comment that is this header and has one."""
    key, _, value = comment.strip().lstrip("; ").partition(":")
    if key.strip().lower() != "unixstarttime":
        return None
    try:
        start_s = float(value.split(None, 1)[0])
    except (ValueError, IndexError):
        return None
    return start_s if 0 <= start_s <= LATEST_UNIX_S else None


def _named(kind: str, text: str) -> str:
    """The name of what a log has by number; empty where it is unknown."""
    if text.isdecimal():
        return kind + text
    value = float(text)
    return f"{kind}{int(value)}" if value >= 0 else ""
