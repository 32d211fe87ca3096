"""What the controller says of jobs: states, reasons, when it will act, and which jobs have ended.

It is asked with Slurm's own commands, since that is rare; ends are in a file that it writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from sil.slurm.controller import Controller
from sil.slurm.daemons import CommandFailed
from sil.slurm.jobs.submissions import KnownJobs

_NAME = "%F_%K"
"""For squeue's option --format: if the job is not of an array, its index is N/A."""
_WAITING = "-t", "PD"


def states_of(controller: Controller, names: Iterable[str]) -> dict[str, str]:
    """By name; of jobs that are forgotten there is none."""
    numbers = ",".join(sorted({name.partition("_")[0] for name in names}))
    try:
        return dict(_named(_listed(controller, f"{_NAME} %T", "-t", "all", "-j", numbers)))
    except CommandFailed:
        return {}


def reasons_of(controller: Controller) -> dict[str, str]:
    """Why jobs wait, by name."""
    return dict(_named(_listed(controller, f"{_NAME} %r", *_WAITING)))


def times_to_come(controller: Controller, expects: bool = True) -> Iterator[float]:
    """When it will begin or end a reservation, or `expects` to start jobs, as far as it knows: seconds since
    the epoch."""
    starts = _listed(controller, "%S", *_WAITING) if expects else ""
    reserved = controller.slurm("scontrol", "show", "reservation", "-o")
    for text in (*starts.split(), *re.findall(r"(?:Start|End)Time=(\S+)", reserved)):
        with suppress(ValueError):  # N/A
            at_s = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
            if at_s > controller.clock.now_s:
                yield at_s


def _listed(controller: Controller, columns: str, *chosen: str) -> str:
    return controller.slurm("squeue", "-h", "-a", "-r", "-o", columns, *chosen)


def _named(listed: str) -> Iterator[tuple[str, str]]:
    """Names of jobs in lines that begin with them, and the rest."""
    for line in listed.splitlines():
        name, _, rest = line.partition(" ")
        yield name.removesuffix("_N/A"), rest


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


class JobsInDoubt:
    """The state in which a run has ended early, by name; only the controller knows whether it runs again."""

    def __init__(self, controller: Controller, jobs: KnownJobs) -> None:
        self._controller = controller
        self._jobs = jobs
        self._ended = EndedJobs(controller.folder / "jobcomp.txt")
        self._states: dict[str, str] = {}

    def add(self, name: str, state: str) -> None:
        self._states[name] = state

    def over(self) -> Iterator[tuple[str, str]]:
        """The names of those that are over since the last call, each with the reason as a clause."""
        for name, state in self._ended.new():
            if state != COMPLETED and self._jobs.get(name) is not None:
                self.add(name, state)
        if not self._states:
            return
        now = states_of(self._controller, self._states)
        for name, state in [*self._states.items()]:
            if now.get(name) == COMPLETING:
                continue
            del self._states[name]
            if self._jobs.get(name) is not None and now.get(name) not in ALIVE:
                yield name, f"{MEANINGS.get(state, 'it is over')} ({state})"
