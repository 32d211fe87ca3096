"""What accounting says about jobs that built-in schedulers do not know."""

from __future__ import annotations

import re
from collections.abc import Iterator

from site_db.files.plain_numbers import whole
from site_db.jobs.logs.logged_job import LoggedJob
from site_db.jobs.sacct.rows import Fields
from site_db.jobs.sacct.states import RUNNING
from site_db.slurm.times import duration_s

ELIGIBLE = (
    "could only start some time after the submission (Eligible: dependencies, begin times, holds): the "
    "arrival is then, and waits are counted from it, as in Slurm's reports"
)
RESERVED = "ran in a reservation, which is not modelled: nodes are not kept free for the job"
SUSPENDED = "spent time suspended, which is not modelled: the run takes the elapsed time, without a break"
RESTARTED = (
    "ran again after a requeue (Restarts): an earlier run counts if the log has its row, as with sacct -D"
)
DEPENDENT = (
    "had a dependency or a begin time (SubmitLine), which is not modelled; print the log with the column "
    "Eligible, and such jobs do not start before they were eligible"
)
THROTTLED = "limited how many tasks of the array run at a time (%), which is not modelled"
NAMED_NODES = "requested or excluded nodes by name (SubmitLine), which is not modelled"
OLD_GRES = "had generic resources in ReqGRES or AllocGRES, which are not read; print the log with ReqTRES"
UNFINISHED = "still ran when the log was printed: the nodes are in use until then, and the end is not known"
QUALITY = (
    "ran under a quality of service (QOS), whose limits and priority built-in schedulers do not know; they "
    "count under Slurm's controller (the scheduler 'slurm: slurm.conf')"
)
HETEROGENEOUS = (
    "requested several components (a heterogeneous job), which Slurm starts together; built-in schedulers "
    "start each component by itself"
)

_COMPONENT = re.compile(r"(\d+)\+\d+")
_DEPENDENT = re.compile(r"\s(--dependency[= ]|-d ?(after|singleton|expand)|--begin[= ]|-b ?(now|\d))")
_THROTTLED = re.compile(r"\s(--array[= ]|-a ?)[\d,:-]+%\d")
_NAMED_NODES = re.compile(r"\s--(nodelist|exclude|nodefile)[= ]")


def heterogeneous(number: str) -> str | None:
    """The number of the heterogeneous job of which `number`, like 7+1, is a component; else None."""
    component = _COMPONENT.match(number) if "+" in number else None
    return None if component is None else component[1]


def remarks(row: Fields, job: LoggedJob) -> Iterator[tuple[str, str]]:
    """Each with the number of the job that it is about; a heterogeneous job has one."""
    number, command, eligible = job.number, row["submitline"], row["eligible"]
    if "+" in number and (whole_job := heterogeneous(number)) is not None:
        yield HETEROGENEOUS, whole_job
    # Of one form, times are in the order of their texts.
    if eligible > row["submit"] > "" and eligible[0].isdigit():
        yield ELIGIBLE, number
    if (row["reqgres"] or row["allocgres"]) and not (row["reqtres"] or row["alloctres"]):
        yield OLD_GRES, number
    if job.state == RUNNING:
        yield UNFINISHED, number
    if job.qos not in ("", "normal"):
        yield QUALITY, number
    if row["reservation"]:
        yield RESERVED, number
    if duration_s(row["suspended"], 1):
        yield SUSPENDED, number
    if (restarts := row["restarts"]) and whole(restarts):
        yield RESTARTED, number
    if ((throttle := row["arraytaskthrottle"]) and whole(throttle)) or (
        command and _THROTTLED.search(command)
    ):
        yield THROTTLED, number
    if command and _NAMED_NODES.search(command):
        yield NAMED_NODES, number
    if command and not eligible and _DEPENDENT.search(command):
        yield DEPENDENT, number
