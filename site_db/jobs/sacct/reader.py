"""Job logs of Slurm, as `sacct` prints them, with any columns and separators, or as JSON.

<https://slurm.schedmd.com/sacct.html>
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from datetime import UTC, tzinfo
from pathlib import Path

from site_db.files.access import beginning, open_lines, read_text
from site_db.files.formats import whole
from site_db.files.input_errors import InvalidFile
from site_db.jobs.logged import LoggedJob, Refused, Tally
from site_db.jobs.sacct.columns import COMPLETED, RAN, REFUSED, RUNNING, is_accounting, is_unknown, state_of
from site_db.jobs.sacct.rows import NO_NUMBER, Fields, printable, rows_of
from site_db.jobs.sacct.sizes import nodes_of, processors_of, resources_of
from site_db.jobs.sacct.times import JobOrder, arrival_of, runs_of, time_limit_s
from site_db.slurm.output import Object, at, duration_s, objects_in, text_at

_KEY_OF_A_JOB = re.compile(r'"(allocation_nodes|association|derived_exit_code|submit_line)"\s*:')
_PLUGIN = re.compile(
    r'"(Slurm OpenAPI DB|data_parser|openapi\\?/dbv|slurm_version|accounting_storage)', re.IGNORECASE
)
EXPECTED = "expected the output of: sacct --json -a -D -X -S 2026-01-01 -E now"
BYTES_OF_TEXT = 6.0
"""The memory, in bytes, for a byte of the file and its text; jobs are read one by one."""
_COLUMNS = {
    "user": "user association/user",
    "jobname": "name",
    **{name: name for name in ("account", "qos", "partition", "constraints")},
    "nodelist": "nodes",
    "submitline": "submit_line",
    "reservation": "reservation/name",
    "restarts": "restart_cnt",
    "arraytaskthrottle": "array/limits/max/running/tasks",
    "submit": "time/submission",
    "eligible": "time/eligible",
    "start": "time/start",
    "end": "time/end",
    "elapsedraw": "time/elapsed",
    "suspended": "time/suspended",
    "timelimitraw": "time/limit",
    "reqcpus": "required/CPUs",
    "allocnodes": "allocation_nodes",
}
"""Where JSON has the values of columns: paths, of which the first with a value counts."""


def is_json_of_jobs(head: str) -> bool:
    """Whether a file that begins like this is JSON of `sacct`."""
    return head.lstrip().startswith("{") and bool(_KEY_OF_A_JOB.search(head) or _PLUGIN.search(head))


def rows_of_json(path: Path) -> Iterator[Fields]:
    """The jobs of a file. Raises InvalidFile."""
    text = read_text(path, BYTES_OF_TEXT)
    if '"jobs"' not in text:
        raise InvalidFile(f"{path}: the file has no list of jobs; {EXPECTED}")
    for _, line, job in objects_in(text, path, ("jobs",), EXPECTED):
        values = {name: text_at(job, *paths.split()) for name, paths in _COLUMNS.items()}
        values |= {
            "jobid": _job_id(job),
            # Further elements of the list are flags of the state.
            "state": text_at(job, "state/current", "state").partition(",")[0],
            "reqtres": _tres(job, "tres/requested"),
            "alloctres": _tres(job, "tres/allocated"),
            "reqmem": _memory(job),
        }
        yield Fields(line, ((name, printable(x.replace("\n", " ")).strip()) for name, x in values.items()))


def _job_id(job: Object) -> str:
    """The id of a job as `sacct -P` prints it: 7, 7_1 for a task of an array, or 7+1 for a component."""
    for sign, all_of_it, part in (
        ("_", "array/job_id", "array/task_id"),
        ("+", "het/job_id", "het/job_offset"),
    ):
        number, of_it = text_at(job, all_of_it), text_at(job, part)
        if number.strip("0") and of_it.isdecimal():
            return f"{number}{sign}{of_it}"
    return text_at(job, "job_id")


def _tres(job: Object, path: str) -> str:
    """A list of resources as `cpu=4,mem=500M`; memory is in MiB."""
    resources = at(job, path)
    if not isinstance(resources, list):
        return text_at(job, path)
    listed = []
    for each in resources:
        kind, name, count = (text_at(each, key) for key in ("type", "name", "count"))
        if kind and count.isdecimal():
            listed.append(f"{kind}{'/' if name else ''}{name}={count}{'M' if kind == 'mem' else ''}")
    return ",".join(listed)


def _memory(job: Object) -> str:
    """The memory as in ReqMem before Slurm 21.08: of each CPU (c) or of each node (n)."""
    for key, each in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        if (amount := text_at(job, f"required/{key}")).strip("0").isdecimal():
            return f"{amount}M{each}"
    return ""


ELIGIBLE = (
    "could only start some time after the submission (Eligible: dependencies, begin times, holds): the "
    "arrival is then, and waits are counted from it, as in Slurm's reports"
)
RESERVED = "ran in a reservation, which is not read: no nodes are kept free, unless --events states it"
SUSPENDED = "spent time suspended, which is not modelled: the run takes the elapsed time, without a break"
RESTARTED = (
    "ran again after a requeue (Restarts): an earlier run counts if the log has its row, as with sacct -D"
)
DEPENDENT = (
    "had a dependency or a begin time (SubmitLine), which is not read; print the log with the column "
    "Eligible, and such jobs do not start before they were eligible, or state it with --events"
)
THROTTLED = "limited how many tasks of the array run at a time (%), which is not read: --events can state it"
NAMED_NODES = "requested or excluded nodes by name (SubmitLine), which is not modelled"
OLD_GRES = "had generic resources in ReqGRES or AllocGRES, which are not read; print the log with ReqTRES"
UNFINISHED = "still ran when the log was printed: the nodes are in use until then, and the end is not known"
QUALITY = (
    "ran under a quality of service (QOS), whose limits and priority count only under a policy (--policy), "
    "or under Slurm's controller (the scheduler 'slurm: slurm.conf')"
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
    """Remarks, each with the number of the job that it is about; a heterogeneous job has one."""
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


STEP = "a step of a job, not a job (use sacct -X)"
HEAD = 2**16
"""The number of bytes that decide whether a file is accounting."""


def is_sacct(path: Path) -> bool:
    """Whether a file has the header of accounting, whatever separates its columns, or its JSON. Raises
    InvalidFile."""
    head = beginning(path, HEAD).decode("utf-8-sig", errors="replace")
    return is_json_of_jobs(head) or is_accounting(head.splitlines())


def read_file(
    path: Path, tally: Tally, states: Container[str] = RAN, zone: tzinfo = UTC
) -> Iterator[LoggedJob]:
    """As `read_sacct`, of a file, which may also be JSON (`sacct --json`). Raises InvalidFile."""
    if is_json_of_jobs(beginning(path, HEAD).decode("utf-8-sig", errors="replace")):
        yield from _jobs(rows_of_json(path), tally, states, zone)
        return
    with open_lines(path) as lines:
        yield from read_sacct(lines, path, tally, states, zone)


def read_sacct(
    lines: Iterable[str], path: Path, tally: Tally, states: Container[str] = COMPLETED, zone: tzinfo = UTC
) -> Iterator[LoggedJob]:
    """The runs of a log that `sacct -P -X` printed and that ended in one of `states`; `tally` counts what
    happened to each row.

    The first line that is not blank is the header; its names may be in any order and in either case, and
    separated by |, commas, semicolons, tabs or another text, or aligned above a line of dashes. Start, End,
    State and JobID (or JobIDRaw) are required; User, Submit, Eligible, Elapsed, ElapsedRaw, Suspended,
    JobName, Partition, AllocCPUS, NCPUS, ReqCPUS, TimelimitRaw (minutes), Timelimit, NodeList, ReqTRES,
    AllocTRES, ReqNodes, AllocNodes, NNodes, ReqMem, Constraints, Account and QOS are used if present;
    others are ignored. Texts of users may contain the separator and ends of lines, where only one reading
    of the row is possible (`readings`).

    Times are local ones of `zone` (a zone that is given counts), or are seconds since 1970-01-01 UTC. A job
    is submitted when it could start: at Eligible, else Submit, else Start. The run time is the elapsed
    time, if there is one, and then the start is the end less the elapsed time; it is else End less Start.
    Processors are AllocCPUS, else NCPUS, else those of AllocTRES, else ReqCPUS, else those of ReqTRES. The
    program is the job's name without its folder, else the partition. Characters that cannot be printed are
    removed.

    Refused are rows with too few fields or too many, without a job id, steps of a job, jobs in any other
    state, resources that cannot be read, unknown or unreadable times, and run times of zero or less. A job
    that was requeued may have several rows; those in one of `states` count.

    Repaired are rows with a separator inside a text; with an elapsed time that cannot be read, or that
    contradicts End and Start by more than 2 s (as over a change to or from daylight saving time); with a
    submit time after the start; without processors (1 is taken); with a list of nodes or a time limit that
    cannot be read (none is taken).

    Raises InvalidFile for a file without such a header; `path` is for its message.
    """
    return _jobs(rows_of(lines, path, tally), tally, states, zone)


def _jobs(rows: Iterable[Fields], tally: Tally, states: Container[str], zone: tzinfo) -> Iterator[LoggedJob]:
    order = JobOrder(tally, zone)
    for row in rows:
        try:
            job = _job(row, states, zone, order)
        except Refused as refused:
            tally.refuse(str(refused), row.line)
            continue
        tally.used += 1
        for rule in row.repairs:
            tally.repair(rule, row.line)
        for remark, number in remarks(row, job):
            tally.remark(remark, number)
        yield job
    order.end()


def _job(row: Fields, states: Container[str], zone: tzinfo, order: JobOrder) -> LoggedJob:
    number = order.number(row)
    if not number:
        raise Refused(NO_NUMBER)
    if "." in number:
        raise Refused(STEP)
    state = state_of(row["state"])
    if state not in states:
        raise Refused(REFUSED.get(state) or "the state is not known")
    if state == "CANCELLED" and is_unknown(row["start"]):
        raise Refused("the job was cancelled before it started")
    nodes = nodes_of(row)
    resources = resources_of(row, len(nodes))
    is_as_printed = not row.repairs
    submits = order.submits(row, number)
    (started_s, ended_s), *others = runs_of(row, zone, submits)
    if others:
        order.undecided.append(number)
    submitted_s, queued_s = arrival_of(row, started_s, zone, submits)
    partition = row["partition"]
    program = row["jobname"].rstrip("/").rpartition("/")[2].strip()
    return LoggedJob(
        number=number,
        user=row["user"] or "unknown",
        program=program or partition or "unknown",
        partition=partition,
        processors=processors_of(row),
        nodes=nodes,
        submitted_unix_s=submitted_s,
        started_unix_s=started_s,
        ended_unix_s=ended_s,
        time_limit_s=time_limit_s(row),
        resources=resources,
        state=state,
        account=row["account"],
        qos=row["qos"],
        constraints=row["constraints"],
        queued_unix_s=queued_s,
        reservation=row["reservation"],
        submit_line=row["submitline"] if is_as_printed else "",
        line=row.line,
    )
