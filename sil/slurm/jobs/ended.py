"""Jobs that have ended, from the file in which the controller notes them (JobCompType=jobcomp/filetxt)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_ENTRY = re.compile(
    rb"^JobId=(\d+) .*? JobState=(\w+) (?:.* ArrayJobId=(\d+) ArrayTaskId=(\d+) |.*)", re.MULTILINE
)

CANCELLED, COMPLETED, COMPLETING = "CANCELLED", "COMPLETED", "COMPLETING"
MEANINGS = {
    "TIMEOUT": "its time limit has passed",
    CANCELLED: "it was cancelled",
    "NODE_FAIL": "a node failed",
    "PREEMPTED": "another job needed its nodes",
    "DEADLINE": "it could not end before its deadline",
    "BOOT_FAIL": "a node did not boot",
    "OUT_OF_MEMORY": "it used more memory than it had requested",
    "FAILED": "it failed",
}
"""What the states mean in which a job has ended early."""
ALIVE = {"PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", COMPLETING, "REQUEUED", "RESIZING", "STOPPED"}
"""The states of jobs that are not over."""


class EndedJob(NamedTuple):
    """`name` is what Slurm's commands call it."""

    name: str
    state: str


class EndedJobs:
    """Reads what has been added to the file since it was last read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    def new(self) -> Iterator[EndedJob]:
        """A job has a state in which it has ended also if it is to run again."""
        try:
            if self._path.stat().st_size == self._read:
                return
        except FileNotFoundError:
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for number, state, array, index in _ENTRY.findall(whole):
            name = b"_".join((array, index)) if array else number
            yield EndedJob(name.decode(), state.decode())
