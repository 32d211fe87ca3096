"""Slurm's accounting as `sacct --json` prints it, in the columns of `sacct -P`.

Values changed their form from one version to the next: a number may be in a table (`set`, `infinite`,
`number`), a state in a list. <https://slurm.schedmd.com/rest_api.html>
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from json.decoder import WHITESPACE  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

from site_db.files.given import InvalidFile
from site_db.files.opened import read_text
from site_db.jobs.sacct.lines import printable
from site_db.jobs.sacct.rows import Fields

_KEY_OF_A_JOB = re.compile(r'"(allocation_nodes|association|derived_exit_code|submit_line)"\s*:')
_PLUGIN = re.compile(
    r'"(Slurm OpenAPI DB|data_parser|openapi\\?/dbv|slurm_version|accounting_storage)', re.IGNORECASE
)
EXPECTED = "expected the output of: sacct --json -a -D -X -S 2026-01-01 -E now"
BYTES_OF_TEXT = 6.0
"""Of memory, for a byte of the file and its text; jobs are read one by one."""


def is_json_of_jobs(head: str) -> bool:
    """Whether a file that begins like this is JSON of `sacct`."""
    return head.lstrip().startswith("{") and bool(_KEY_OF_A_JOB.search(head) or _PLUGIN.search(head))


def rows_of_json(path: Path) -> Iterator[Fields]:
    """The jobs of a file. Raises InvalidFile."""
    text = read_text(path, BYTES_OF_TEXT)
    line, counted_to = 1, 0
    for at, job in _jobs(text, path):
        line += text.count("\n", counted_to, at)
        counted_to = at
        if not isinstance(job, Mapping):
            raise InvalidFile(f"{path}, line {line}: a job is not a table of values; {EXPECTED}")
        yield Fields(line, ((name, _in_a_line(value)) for name, value in _columns(job)))


def _in_a_line(text: str) -> str:
    return printable(text.replace("\n", " ")).strip()


def _jobs(text: str, path: Path) -> Iterator[tuple[int, Any]]:
    """The elements of the list `jobs`, with their places."""
    decoder = json.JSONDecoder()
    try:
        at, found = _after(text, 0, "{"), False
        while text[at] != "}":
            key, at = decoder.raw_decode(text, at)
            at = _after(text, at, ":")
            if key == "jobs" and text[at] == "[":
                found, at = True, _after(text, at, "[")
                while text[at] != "]":
                    begin = at
                    job, at = decoder.raw_decode(text, at)
                    yield begin, job
                    at = _after(text, at, "," if text[_skip(text, at)] == "," else "")
                at += 1
            else:
                _, at = decoder.raw_decode(text, at)
            at = _after(text, at, "," if text[_skip(text, at)] == "," else "")
    except (json.JSONDecodeError, RecursionError, IndexError) as error:
        place = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
        line = text.count("\n", 0, place) + 1
        raise InvalidFile(
            f"{path}, line {line}: this is not valid JSON, or the end is missing; {EXPECTED}"
        ) from None
    if not found:
        raise InvalidFile(f"{path}: the file has no list of jobs; {EXPECTED}")


def _skip(text: str, at: int) -> int:
    return int(WHITESPACE.match(text, at).end())


def _after(text: str, at: int, sign: str) -> int:
    """The place of what follows a sign."""
    at = _skip(text, at)
    if not text.startswith(sign, at):
        raise json.JSONDecodeError(f"expected {sign}", text, at)
    return _skip(text, at + len(sign))


def _columns(job: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The values of a job by column."""
    time, state = _table(job, "time"), _table(job, "state")
    tres, required = _table(job, "tres"), _table(job, "required")
    limits = _table(_table(_table(_table(job, "array"), "limits"), "max"), "running")
    current = state.get("current", job.get("state"))
    yield "jobid", _job_id(job)
    yield "state", _text(current[0] if isinstance(current, list) and current else current)
    yield "user", _text(job.get("user")) or _text(_table(job, "association").get("user"))
    yield "jobname", _text(job.get("name"))
    for column in ("account", "qos", "partition", "constraints"):
        yield column, _text(job.get(column))
    yield "nodelist", _text(job.get("nodes"))
    yield "submitline", _text(job.get("submit_line"))
    yield "reservation", _text(_table(job, "reservation").get("name"))
    yield "restarts", _number(job.get("restart_cnt"))
    yield "arraytaskthrottle", _number(limits.get("tasks"))
    for column, key in (
        ("submit", "submission"),
        ("eligible", "eligible"),
        ("start", "start"),
        ("end", "end"),
    ):
        yield column, _number(time.get(key))
    yield "elapsedraw", _number(time.get("elapsed"))
    yield "suspended", _number(time.get("suspended"))
    yield "timelimitraw", _number(time.get("limit"))
    yield "reqtres", _tres(tres.get("requested"))
    yield "alloctres", _tres(tres.get("allocated"))
    yield "reqcpus", _number(required.get("CPUs"))
    yield "allocnodes", _number(job.get("allocation_nodes"))
    yield "reqmem", _memory(required)


def _table(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = values.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> str:
    """Empty if there is none, and UNLIMITED for an infinite one."""
    if isinstance(value, Mapping):
        if value.get("infinite"):
            return "UNLIMITED"
        value = value.get("number") if value.get("set", True) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**32 - 2:
        return ""
    return f"{value:.0f}"


def _job_id(job: Mapping[str, Any]) -> str:
    """As `sacct -P` prints it: 7, 7_1 for a task of an array, or 7+1 for a component."""
    array, het = _table(job, "array"), _table(job, "het")
    task, offset = _number(array.get("task_id")), _number(het.get("job_offset"))
    of_array, of_het = _number(array.get("job_id")), _number(het.get("job_id"))
    if of_array.strip("0") and task:
        return f"{of_array}_{task}"
    if of_het.strip("0") and offset:
        return f"{of_het}+{offset}"
    return _number(job.get("job_id"))


def _tres(resources: object) -> str:
    """A list of resources as `cpu=4,mem=500M`; memory is in MiB."""
    if not isinstance(resources, Sequence) or isinstance(resources, str):
        return _text(resources)
    found = []
    for each in resources:
        kind, name = (
            (_text(each.get(key)) for key in ("type", "name")) if isinstance(each, Mapping) else ("", "")
        )
        count = _number(each.get("count")) if kind else ""
        if count:
            found.append(f"{kind}{'/' if name else ''}{name}={count}{'M' if kind == 'mem' else ''}")
    return ",".join(found)


def _memory(required: Mapping[str, Any]) -> str:
    """As ReqMem before Slurm 21.08: of each CPU (c) or of each node (n)."""
    for key, each in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        if (amount := _number(required.get(key))) not in ("", "0", "UNLIMITED"):
            return f"{amount}M{each}"
    return ""
