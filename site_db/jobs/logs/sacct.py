"""Job logs of Slurm, as `sacct -P -X` prints them, with any columns.

<https://slurm.schedmd.com/sacct.html>
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from site_db.files.given import MOST, InvalidFile, quoted
from site_db.jobs.logs.logged_job import MOST_PROCESSORS, LoggedJob, Refused, Tally
from site_db.jobs.logs.sacct_command import COMMAND
from site_db.jobs.logs.slurm_times import elapsed_s, unix_s, whole
from site_db.jobs.logs.swf_format import LATEST_UNIX_S
from site_db.jobs.logs.tres import BadTres, Tres, memory_mib, tres_of
from site_db.site_file import hostlist

EXPECTED = f"a header with User, Start, End, State and JobID or JobIDRaw, as printed by: {COMMAND}"

_UNFINISHED = """COMPLETING CONFIGURING PENDING REQUEUE_FED REQUEUE_HOLD RESIZING RUNNING SIGNALING
    SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED"""
_REFUSED = {
    **dict.fromkeys(_UNFINISHED.split(), "the job has not ended"),
    "BOOT_FAIL": "a node of the job did not boot",
    "CANCELLED": "the job was cancelled",
    "COMPLETED": "",
    "DEADLINE": "the job would have missed its deadline",
    "FAILED": "the job failed",
    "NODE_FAIL": "a node of the job failed",
    "OUT_OF_MEMORY": "the job ran out of memory",
    "PREEMPTED": "the job was preempted",
    "REQUEUED": "the job was requeued",
    "REVOKED": "the job ran on another cluster",
    "TIMEOUT": "the job ran into its time limit",
}
"""Why a job in this state is refused; one that completed is not."""

COMPLETED = frozenset({"COMPLETED"})
RAN = COMPLETED | {
    "CANCELLED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REQUEUED",
    "TIMEOUT",
}
"""The states of jobs that used their nodes, for whatever result."""

STEP = "a step of a job, not a job (use sacct -X)"

_NO_TIME = ("", "0", "unknown", "none", "n/a")
_NO_LIMIT = ("", "unlimited", "partition_limit", "infinite", "unknown", "none", "n/a")
_NO_NODES = ("", "none assigned", "none", "unknown", "n/a")

_SLACK_S = 2
"""Tolerated difference of the elapsed time from end minus start: each of them is rounded."""

_ABOUT_RESOURCES = (
    *("reqtres", "alloctres", "reqcpus", "alloccpus", "ncpus"),
    *("reqmem", "allocnodes", "nnodes", "reqnodes"),
)
"""The columns from which what a job requested is read."""

_Row = defaultdict[str, str]
"""Fields by column; one that the log lacks is empty."""


def read_sacct(
    lines: Iterable[str], path: Path, tally: Tally, states: Container[str] = COMPLETED
) -> Iterator[LoggedJob]:
    """The runs of a log that `sacct -P -X` printed and that ended in one of `states`; `tally` counts what
    happened to each row.

    The first line that is not blank is the header; its names may be in any order and in either case. User,
    Start, End, State and JobID (or JobIDRaw) are required; Submit, Eligible, Elapsed, ElapsedRaw, JobName,
    Partition, AllocCPUS, NCPUS, ReqCPUS, TimelimitRaw (minutes), Timelimit, NodeList, ReqTRES, AllocTRES,
    ReqNodes, AllocNodes, NNodes, ReqMem, Account and QOS are used if present; others are ignored. Each
    further line is a row, except blank ones and repetitions of the header (in concatenated logs).

    Times are without a zone and taken as UTC (a zone that is given counts), or are seconds since 1970-01-01
    UTC. Submitted is Submit, else Eligible, else Start. The run time is the elapsed time, if there is one,
    and then the start is the end less the elapsed time; it is else End less Start. Processors are AllocCPUS,
    else NCPUS, else those of AllocTRES, else ReqCPUS. The program is the job's name without its folder, else
    the partition. Characters that cannot be printed are removed.

    Refused are rows with too few fields or too many, without a job id, steps of a job, jobs in any other
    state, resources that cannot be read, unknown or unreadable times, and run times of zero or less. A job
    that was requeued may have several rows; those in one of `states` count.

    Repaired are rows with a | inside the job name; with an elapsed time that cannot be read, or that
    contradicts End and Start by more than 2 s (as over a change to or from daylight saving time, or if the
    job was suspended); with a submit time after the start; without processors (1 is taken); with a list of
    nodes or a time limit that cannot be read (none is taken).

    Raises InvalidFile for a file without such a header; `path` is for its message.
    """
    header, columns, at_id = "", None, 0
    for number, raw in enumerate(lines, start=1):
        line = _printable(raw).strip()
        if not line or line == header:
            continue
        if columns is None:
            header, columns = line, _columns(line, number, path)
            at_id = columns.index("jobid" if "jobid" in columns else "jobidraw")
            continue
        repairs: list[str] = []
        if line.count("|") == len(columns) - 1 and "." in line.split("|", at_id + 1)[at_id]:
            tally.refuse(STEP, number)  # like most rows, without -X
            continue
        try:
            job = _job(_row(line.split("|"), columns, repairs), number, states, repairs)
        except Refused as refused:
            tally.refuse(refused.reason, number)
            continue
        tally.use()
        for rule in repairs:
            tally.repair(rule, number)
        yield job
    if columns is None:
        raise InvalidFile(f"{path}: the file is empty; expected {EXPECTED}")


def _columns(header: str, line: int, path: Path) -> list[str]:
    """The names of the columns in small letters. Raises InvalidFile if one that is required is missing."""
    columns = [name.strip().lower() for name in header.split("|")]
    missing = [name for name in ("User", "Start", "End", "State") if name.lower() not in columns]
    if "jobid" not in columns and "jobidraw" not in columns:
        missing.append("JobID")
    if missing:
        no_header = set(columns).isdisjoint(("user", "start", "end", "state", "jobid", "jobidraw"))
        lack = "is not a header" if no_header else f"has no column {' and no column '.join(missing)}"
        raise InvalidFile(f"{path}, line {line}: {quoted(header)} {lack}; expected {EXPECTED}")
    return columns


def _row(fields: list[str], columns: list[str], repairs: list[str]) -> _Row:
    """The fields of a row by column. Raises Refused if there are too few or too many."""
    surplus = len(fields) - len(columns)
    if surplus < 0:
        raise Refused("fewer fields than the header")
    if surplus > 0:
        if "jobname" not in columns:
            raise Refused("more fields than the header")
        start = columns.index("jobname")
        fields[start : start + surplus + 1] = ["|".join(fields[start : start + surplus + 1])]
        repairs.append("a | inside the job name")
    # From the last to the first: of columns with the same name, the first counts.
    return defaultdict(str, zip(reversed(columns), map(str.strip, reversed(fields)), strict=True))


def _job(row: _Row, line: int, states: Container[str], repairs: list[str]) -> LoggedJob:
    number = row["jobid"] if "jobid" in row else row["jobidraw"]
    if not number:
        raise Refused("there is no job id")
    if "." in number:
        raise Refused(STEP)
    state = _state(row["state"].upper())
    if state not in states:
        raise Refused(_REFUSED.get(state) or "the state is not known")
    if state == "CANCELLED" and row["start"].lower() in _NO_TIME:
        raise Refused("the job was cancelled before it started")
    nodes = _nodes(row["nodelist"], repairs)
    resources = _resources(tuple([row[name] for name in _ABOUT_RESOURCES]), len(nodes))
    started_s, ended_s = _run(row, repairs)
    times = (unix_s(row[name]) for name in ("submit", "eligible"))
    submitted_s = next((time_s for time_s in times if time_s is not None), started_s)
    if submitted_s > started_s:
        repairs.append("submitted after the start, taken as submitted at the start")
        submitted_s = started_s
    partition = row["partition"]
    program = row["jobname"].rstrip("/").rpartition("/")[2].strip()
    return LoggedJob(
        number=number,
        user=row["user"] or "unknown",
        program=program or partition or "unknown",
        partition=partition,
        processors=_processors(row, repairs),
        nodes=nodes,
        submitted_unix_s=submitted_s,
        started_unix_s=started_s,
        ended_unix_s=ended_s,
        time_limit_s=_time_limit_s(row, repairs),
        resources=resources,
        state=state,
        account=row["account"],
        qos=row["qos"],
        line=line,
    )


def _state(text: str) -> str:
    """The state itself. A text too wide for its column is cut and ends in +: it counts as any of the possible
    states if all are alike."""
    if text.endswith("+"):
        possible = [state for state in _REFUSED if state.startswith(text[:-1])]
        if len({_REFUSED[state] for state in possible}) == 1:
            return possible[0]
    # Slurm appends the user who cancelled: "CANCELLED by 1234".
    return "CANCELLED" if text.startswith("CANCELLED ") else text


def _run(row: _Row, repairs: list[str]) -> tuple[float, float]:
    """When the job started and ended."""
    started_s = _known_unix_s(row["start"])
    ended_s = _known_unix_s(row["end"])
    elapsed = [text for name in ("elapsedraw", "elapsed") if (text := row[name])]
    ran_s = next((s for text in elapsed if (s := elapsed_s(text)) is not None), None)
    if ran_s is not None:
        if abs(ended_s - started_s - ran_s) > _SLACK_S:
            repairs.append("the elapsed time is not end minus start, start moved to end minus elapsed")
        started_s = ended_s - ran_s
    elif elapsed:
        repairs.append("the elapsed time cannot be read, end minus start taken")
    if started_s == ended_s:
        raise Refused("the run time is zero")
    if started_s > ended_s:
        raise Refused("the job ends before it starts")
    if started_s < 0:
        raise Refused("the elapsed time reaches back before 1970")
    return started_s, ended_s


def _known_unix_s(text: str) -> float:
    time_s = unix_s(text)
    if time_s is None:
        unknown = text.lower() in _NO_TIME
        raise Refused("the start or the end is unknown" if unknown else "a time cannot be read")
    return time_s


def _processors(row: _Row, repairs: list[str]) -> int:
    allocated = tres_of(row["alloctres"]).cpus if row["alloctres"] else 0
    for processors in (whole(row["alloccpus"]), whole(row["ncpus"]), allocated, whole(row["reqcpus"])):
        if processors is not None and 1 <= processors <= MOST_PROCESSORS:
            return processors
    repairs.append("the number of processors is unknown, taken as 1")
    return 1


@lru_cache(16_384)
def _resources(texts: tuple[str, ...], n_nodes: int) -> Tres:
    """What a job with these texts in the columns about resources requested; what it was allocated, where the
    log does not say. It ran on `n_nodes`, if that is known."""
    row = dict(zip(_ABOUT_RESOURCES, texts, strict=True))
    try:
        requested, allocated = tres_of(row["reqtres"]), tres_of(row["alloctres"])
        cpus = requested.cpus or _first(row, "reqcpus") or allocated.cpus or _first(row, "alloccpus", "ncpus")
        counted = _first(row, "allocnodes", "nnodes", "reqnodes")
        nodes = max(requested.nodes, allocated.nodes, counted, n_nodes, 1)
        found = Tres(
            cpus=max(cpus, 1),
            nodes=nodes,
            memory_mib=requested.memory_mib
            or _requested_mib(row["reqmem"], cpus, nodes)
            or allocated.memory_mib,
            gpus=requested.gpus or allocated.gpus,
            others=requested.others or allocated.others,
            site_resources=requested.site_resources or allocated.site_resources,
        )
    except BadTres as error:
        raise Refused(f"its resources cannot be read: {_printable(str(error))}") from None
    others = *found.others.values(), *found.site_resources.values(), found.memory_mib
    if max(found.cpus, found.nodes, found.n_gpus) > MOST_PROCESSORS or max(others) >= MOST:
        raise Refused("its resources cannot be read: more than any cluster has")
    return found


def _requested_mib(text: str, cpus: int, nodes: int) -> int:
    """Of all nodes: `4Gc` is per CPU and `16Gn` per node, as before Slurm 21.08."""
    if not text or text in ("0", "?"):
        return 0
    times = {"c": cpus, "n": nodes}.get(text[-1], 1)
    return times * memory_mib(text.rstrip("cn"))


def _first(row: Mapping[str, str], *names: str) -> int:
    """The first of these columns that has a whole number; 0 without any."""
    return next((n for name in names if (n := whole(row[name]))), 0)


def _time_limit_s(row: _Row, repairs: list[str]) -> float | None:
    texts = [row[name] for name in ("timelimitraw", "timelimit")]
    if all(text.lower() in _NO_LIMIT for text in texts):
        return None
    minutes = whole(texts[0])
    limit_s = elapsed_s(texts[1]) if minutes is None else 60 * minutes
    if not limit_s or limit_s > LATEST_UNIX_S:
        repairs.append("the time limit cannot be read, taken as none")
        return None
    return float(limit_s)


def _nodes(text: str, repairs: list[str]) -> tuple[str, ...]:
    if text.lower() in _NO_NODES:
        return ()
    try:
        # Longer lists are few; to remember many of them would take much memory.
        return _names(text) if len(text) <= 100 else _names.__wrapped__(text)
    except ValueError:
        repairs.append("the list of nodes cannot be read, taken as none")
        return ()


@lru_cache(1_024)
def _names(text: str) -> tuple[str, ...]:
    return tuple(hostlist.expand(hostlist.patterns(text)))


def _printable(text: str) -> str:
    text = text.rstrip("\r\n")
    # Nearly every line is: the check is ten times as fast as a filter of characters.
    return text if text.isprintable() else "".join(filter(str.isprintable, text))
