"""Job logs of Slurm: what `sacct -P -X` prints, with whichever columns its user asked for.

<https://slurm.schedmd.com/sacct.html>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from site_db.jobs.logs.log_file import BadLog, shown
from site_db.jobs.logs.logged_job import MOST_PROCESSORS, LoggedJob, Tally
from site_db.jobs.logs.swf_format import LATEST_UNIX_S
from site_db.site_file import hostlist

COMMAND = (
    "sacct -a -P -X -S 2026-01-01 -E now "
    "-o JobID,User,JobName,Partition,AllocCPUS,NodeList,Submit,Start,End,Elapsed,TimelimitRaw,State"
)
EXPECTED = f"a header with User, Start, End, State and JobID or JobIDRaw, as printed by: {COMMAND}"

_NOT_ENDED = "the job has not ended"
_REFUSED = {
    "BOOT_FAIL": "a node of the job did not boot",
    "CANCELLED": "the job was cancelled",
    "COMPLETED": "",
    "COMPLETING": _NOT_ENDED,
    "CONFIGURING": _NOT_ENDED,
    "DEADLINE": "the job would have missed its deadline",
    "FAILED": "the job failed",
    "NODE_FAIL": "a node of the job failed",
    "OUT_OF_MEMORY": "the job ran out of memory",
    "PENDING": _NOT_ENDED,
    "PREEMPTED": "the job was preempted",
    "REQUEUED": _NOT_ENDED,
    "REQUEUE_FED": _NOT_ENDED,
    "REQUEUE_HOLD": _NOT_ENDED,
    "RESIZING": _NOT_ENDED,
    "REVOKED": "the job ran on another cluster",
    "RUNNING": _NOT_ENDED,
    "SIGNALING": _NOT_ENDED,
    "SPECIAL_EXIT": _NOT_ENDED,
    "STAGE_OUT": _NOT_ENDED,
    "STOPPED": _NOT_ENDED,
    "SUSPENDED": _NOT_ENDED,
    "TIMEOUT": "the job ran into its time limit",
}
"""Why a job in this state is refused; one that completed is not."""

_EPOCH = datetime(1970, 1, 1)
"""Without a zone, as the times of the log are: both are UTC."""

_NO_TIME = ("", "0", "unknown", "none", "n/a")
_NO_LIMIT = ("", "unlimited", "partition_limit", "infinite", "unknown", "none", "n/a")
_NO_NODES = ("", "none assigned", "none", "unknown", "n/a")

_SLACK_S = 2
"""By so much may the elapsed time differ from end minus start: each of them is rounded on its own."""


def read_sacct(lines: Iterable[str], path: Path, tally: Tally) -> Iterator[LoggedJob]:
    """The completed runs of a log that `sacct -P -X` printed; `tally` is told what became of each row.

    The first line that is not blank is the header; its names may be in any order and in either case. User,
    Start, End, State and JobID (or JobIDRaw) must be there; Submit, Eligible, Elapsed, ElapsedRaw, JobName,
    Partition, AllocCPUS, NCPUS, ReqCPUS, TimelimitRaw (minutes), Timelimit and NodeList are used where they
    are; others are passed over. Each further line is a row, but for blank ones and repetitions of the header
    (in logs that were put together).

    Times are without a zone and taken as UTC (a zone that is given counts), or are seconds since 1970-01-01
    UTC. Submitted is Submit, else Eligible, else Start. The run time is the elapsed time, where there is one,
    and then the start is the end less the elapsed time; it is else End less Start. Processors are AllocCPUS,
    else NCPUS, else ReqCPUS. The program is the job's name without its folder, else the partition. Characters
    that cannot be printed are left out.

    Refused is a row with too few fields or too many, one without a job id, a step of a job, a job in any
    state but COMPLETED, times that are unknown or cannot be read, and a run time of zero or less. A job that
    was requeued may have several rows; those that completed count.

    Repaired is a row with a | inside the job name; with an elapsed time that cannot be read, or that End and
    Start belie by more than 2 s (they do over a change to or from daylight saving time, or if the job was
    suspended); with a submit time after the start; without processors (it counts as 1); with a list of nodes
    or a time limit that cannot be read (it counts as none).

    Raises BadLog for a file without such a header; `path` is for its message.
    """
    header, columns = "", None
    for number, raw in enumerate(lines, start=1):
        line = _printable(raw).strip()
        if not line or line == header:
            continue
        if columns is None:
            header, columns = line, _columns(line, number, path)
            continue
        repairs: list[str] = []
        try:
            job = _job(_fields(line, columns, repairs), columns, repairs)
        except _Refused as refused:
            tally.refuse(refused.reason, number)
            continue
        tally.use()
        for rule in repairs:
            tally.repair(rule, number)
        yield job
    if columns is None:
        raise BadLog(f"{path}: the file is empty; expected {EXPECTED}")


class _Refused(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where in a row the columns are; one that the log lacks is at -1, where `_fields` puts an empty one."""

    count: int
    number: int
    user: int
    state: int
    start: int
    end: int
    elapsed: tuple[int, ...]
    submitted: tuple[int, ...]
    processors: tuple[int, ...]
    limit_minutes: int
    limit: int
    job_name: int
    partition: int
    nodes: int


def _columns(header: str, line: int, path: Path) -> _Columns:
    at: dict[str, int] = {}
    names = header.split("|")
    for index, name in enumerate(names):
        at.setdefault(name.strip().lower(), index)
    missing = [name for name in ("User", "Start", "End", "State") if name.lower() not in at]
    if "jobid" not in at and "jobidraw" not in at:
        missing.append("JobID")
    if missing:
        no_header = not set(at).intersection(("user", "start", "end", "state", "jobid", "jobidraw"))
        lack = "is no header" if no_header else f"has no column {' and no column '.join(missing)}"
        raise BadLog(f"{path}, line {line}: {shown(header)} {lack}; expected {EXPECTED}")

    def place(*names: str) -> tuple[int, ...]:
        return tuple(at[name] for name in names if name in at)

    return _Columns(
        count=len(names),
        number=place("jobid", "jobidraw")[0],
        user=at["user"],
        state=at["state"],
        start=at["start"],
        end=at["end"],
        elapsed=place("elapsedraw", "elapsed"),
        submitted=place("submit", "eligible"),
        processors=place("alloccpus", "ncpus", "reqcpus"),
        limit_minutes=at.get("timelimitraw", -1),
        limit=at.get("timelimit", -1),
        job_name=at.get("jobname", -1),
        partition=at.get("partition", -1),
        nodes=at.get("nodelist", -1),
    )


def _fields(line: str, columns: _Columns, repairs: list[str]) -> list[str]:
    """The fields of a row and an empty one behind them. Raises _Refused where there are too few or many."""
    fields = line.split("|")
    surplus = len(fields) - columns.count
    if surplus < 0:
        raise _Refused("fewer fields than the header")
    if surplus > 0:
        if columns.job_name < 0:
            raise _Refused("more fields than the header")
        name = slice(columns.job_name, columns.job_name + surplus + 1)
        fields[name] = ["|".join(fields[name])]
        repairs.append("a | inside the job name")
    fields.append("")
    return fields


def _job(fields: list[str], columns: _Columns, repairs: list[str]) -> LoggedJob:
    number = fields[columns.number].strip()
    if not number:
        raise _Refused("there is no job id")
    if "." in number:
        raise _Refused("a step of a job, not a job (use sacct -X)")
    if reason := _refusal(fields[columns.state].strip().upper()):
        raise _Refused(reason)
    started_s, ended_s = _run(fields, columns, repairs)
    times = (_unix_s(fields[at].strip()) for at in columns.submitted)
    submitted_s = next((time_s for time_s in times if time_s is not None), started_s)
    if submitted_s > started_s:
        repairs.append("submitted after the start, taken as submitted at the start")
        submitted_s = started_s
    partition = fields[columns.partition].strip()
    program = fields[columns.job_name].strip().rstrip("/").rpartition("/")[2].strip()
    return LoggedJob(
        number=number,
        user=fields[columns.user].strip() or "unknown",
        program=program or partition or "unknown",
        partition=partition,
        processors=_processors(fields, columns, repairs),
        nodes=_nodes(fields[columns.nodes].strip(), repairs),
        submitted_unix_s=submitted_s,
        started_unix_s=started_s,
        ended_unix_s=ended_s,
        time_limit_s=_time_limit_s(fields, columns, repairs),
    )


def _refusal(state: str) -> str:
    """Why a job in that state is refused; empty if it is not."""
    # Slurm says who cancelled: "CANCELLED by 1234".
    state = "CANCELLED" if state.startswith("CANCELLED ") else state
    if state in _REFUSED:
        return _REFUSED[state]
    if state.endswith("+"):
        # What is too wide for its column ends in +. It counts where all states that it may be are alike.
        reasons = {reason for whole, reason in _REFUSED.items() if whole.startswith(state[:-1])}
        if len(reasons) == 1:
            return reasons.pop()
    return "the state is not known"


def _run(fields: list[str], columns: _Columns, repairs: list[str]) -> tuple[float, float]:
    """When the job started and ended."""
    started_s = _known_unix_s(fields[columns.start].strip())
    ended_s = _known_unix_s(fields[columns.end].strip())
    elapsed = [text for at in columns.elapsed if (text := fields[at].strip())]
    elapsed_s = next((s for text in elapsed if (s := _elapsed_s(text)) is not None), None)
    if elapsed_s is not None:
        if abs(ended_s - started_s - elapsed_s) > _SLACK_S:
            repairs.append("the elapsed time is not end minus start, start moved to end minus elapsed")
        started_s = ended_s - elapsed_s
    elif elapsed:
        repairs.append("the elapsed time cannot be read, end minus start taken")
    if started_s == ended_s:
        raise _Refused("the run time is zero")
    if started_s > ended_s:
        raise _Refused("the job ends before it starts")
    if started_s < 0:
        raise _Refused("the elapsed time reaches back before 1970")
    return started_s, ended_s


def _known_unix_s(text: str) -> float:
    time_s = _unix_s(text)
    if time_s is None:
        unknown = text.lower() in _NO_TIME
        raise _Refused("the start or the end is unknown" if unknown else "a time cannot be read")
    return time_s


def _unix_s(text: str) -> float | None:
    """A time in seconds since 1970-01-01 UTC; None where it is unknown or cannot be read."""
    if (whole := _whole(text)) is not None:
        # Slurm's own mark for "no time" is 0.
        return float(whole) if 0 < whole <= LATEST_UNIX_S else None
    # A date alone is a time too for Python, but one that is wrong by up to a day.
    if len(text) < len("2024-01-01T00:00"):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    time_s = time.timestamp() if time.tzinfo else (time - _EPOCH).total_seconds()
    return time_s if 0 < time_s <= LATEST_UNIX_S else None


def _elapsed_s(text: str) -> int | None:
    """The seconds of a text like 3600, 60:00, 01:00:00 or 0-01:00:00; None for other texts."""
    days, dash, clock = text.rpartition("-")
    parts = [_whole(part) for part in clock.split(":")]
    if len(parts) > 3 or (dash and len(parts) != 3):
        return None
    seconds = _whole(days) if dash else 0
    for part, base in zip(parts, (24, 60, 60)[-len(parts) :], strict=True):
        if seconds is None or part is None:
            return None
        seconds = seconds * base + part
    return seconds


def _processors(fields: list[str], columns: _Columns, repairs: list[str]) -> int:
    for at in columns.processors:
        processors = _whole(fields[at].strip())
        if processors is not None and 1 <= processors <= MOST_PROCESSORS:
            return processors
    repairs.append("the number of processors is unknown, taken as 1")
    return 1


def _time_limit_s(fields: list[str], columns: _Columns, repairs: list[str]) -> float | None:
    texts = [fields[at].strip() for at in (columns.limit_minutes, columns.limit)]
    if all(text.lower() in _NO_LIMIT for text in texts):
        return None
    minutes = _whole(texts[0])
    limit_s = _elapsed_s(texts[1]) if minutes is None else 60 * minutes
    if not limit_s or limit_s > LATEST_UNIX_S:
        repairs.append("the time limit cannot be read, taken as none")
        return None
    return float(limit_s)


def _nodes(text: str, repairs: list[str]) -> tuple[str, ...]:
    if text.lower() in _NO_NODES:
        return ()
    try:
        return tuple(hostlist.expand(pattern for pattern in _patterns(text) if pattern))
    except ValueError:
        repairs.append("the list of nodes cannot be read, taken as none")
        return ()


def _patterns(text: str) -> Iterator[str]:
    """The patterns of a list like n[01-03,07],x7: they end at the commas outside brackets."""
    parts: list[str] = []
    inside = False
    for part in text.split(","):
        parts.append(part)
        if "[" in part or "]" in part:
            inside = part.rfind("[") > part.rfind("]")
        if not inside:
            yield ",".join(parts).strip()
            parts = []
    if parts:
        yield ",".join(parts)


def _whole(text: str) -> int | None:
    """A whole number of up to 18 digits; None for other texts."""
    return int(text) if text.isdecimal() and len(text) <= 18 else None


def _printable(text: str) -> str:
    text = text.rstrip("\r\n")
    # Nearly every line is; to ask first is ten times as fast as to look at each character.
    return text if text.isprintable() else "".join(filter(str.isprintable, text))
