"""Slurm's accounting as `sacct --json` prints it, in the columns of `sacct -P`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from site_db.files.input_errors import InvalidFile
from site_db.files.readers import read_text
from site_db.jobs.sacct.lines import printable
from site_db.jobs.sacct.rows import Fields
from site_db.slurm.output import Object, at, objects_in, text_at

_KEY_OF_A_JOB = re.compile(r'"(allocation_nodes|association|derived_exit_code|submit_line)"\s*:')
_PLUGIN = re.compile(
    r'"(Slurm OpenAPI DB|data_parser|openapi\\?/dbv|slurm_version|accounting_storage)', re.IGNORECASE
)
EXPECTED = "expected the output of: sacct --json -a -D -X -S 2026-01-01 -E now"
BYTES_OF_TEXT = 6.0
"""Of memory, for a byte of the file and its text; jobs are read one by one."""
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
    """As `sacct -P` prints it: 7, 7_1 for a task of an array, or 7+1 for a component."""
    for sign, whole, part in (("_", "array/job_id", "array/task_id"), ("+", "het/job_id", "het/job_offset")):
        number, of_it = text_at(job, whole), text_at(job, part)
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
    """As ReqMem before Slurm 21.08: of each CPU (c) or of each node (n)."""
    for key, each in (("memory_per_cpu", "c"), ("memory_per_node", "n")):
        if (amount := text_at(job, f"required/{key}")).strip("0").isdecimal():
            return f"{amount}M{each}"
    return ""
