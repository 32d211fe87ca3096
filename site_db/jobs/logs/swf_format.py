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
from collections.abc import Sequence
from enum import IntEnum

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
