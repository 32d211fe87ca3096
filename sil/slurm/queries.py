"""What the controller says of jobs and of itself, when Slurm's own commands ask it, since that is rare; ends
of jobs are in a file that it writes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from sil.slurm.controller import Controller
from sil.slurm.daemons import CommandFailed
from sil.slurm.settings.selection import OF_CLUSTER, kept

_WAITING = "-t", "PD"
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
_ENTRY = re.compile(
    rb"^JobId=(\d+) .*? JobState=(\w+) (?:.* ArrayJobId=(\d+) ArrayTaskId=(\d+) |.*)", re.MULTILINE
)


def _squeue(controller: Controller, column: str, *chosen: str) -> dict[str, str]:
    """A column of `squeue`, by name of the job. If a job is not of an array, its index is N/A."""
    listed = controller.slurm("squeue", "-h", "-a", "-r", "-o", f"%F_%K {column}", *chosen)
    rows = (line.partition(" ") for line in listed.splitlines())
    return {name.removesuffix("_N/A"): value for name, _, value in rows}


def reasons_of(controller: Controller) -> dict[str, str]:
    """Why jobs wait, by name."""
    return _squeue(controller, "%r", *_WAITING)


def times_to_come(controller: Controller, expects: bool = True) -> Iterator[float]:
    """When it will begin or end a reservation, or `expects` to start jobs, as far as it knows: seconds since
    the epoch."""
    starts = _squeue(controller, "%S", *_WAITING).values() if expects else ()
    reserved = controller.slurm("scontrol", "show", "reservation", "-o")
    for text in (*starts, *re.findall(r"(?:Start|End)Time=(\S+)", reserved)):
        with suppress(ValueError):  # N/A
            at_s = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
            if at_s > controller.clock.now_s:
                yield at_s


class UnconfirmedEnds:
    """The state in which runs have ended early, by name of the job; only the controller knows whether it runs
    again."""

    def __init__(self, controller: Controller, is_known: Callable[[str], bool]) -> None:
        self._controller, self._is_known = controller, is_known
        self._path, self._read = controller.folder / "jobcomp.txt", 0
        self._states: dict[str, str] = {}

    def add(self, name: str, state: str) -> None:
        self._states[name] = state

    def over(self) -> Iterator[tuple[str, str]]:
        """The names of the jobs that are over since the last call, each with the reason as a clause."""
        for name, state in self._ended():
            if state != COMPLETED and self._is_known(name):
                self._states[name] = state
        if not self._states:
            return
        numbers = ",".join(sorted({name.partition("_")[0] for name in self._states}))
        now: dict[str, str] = {}
        with suppress(CommandFailed):  # all are forgotten
            now = _squeue(self._controller, "%T", "-t", "all", "-j", numbers)
        for name, state in [*self._states.items()]:
            if now.get(name) == COMPLETING:
                continue
            del self._states[name]
            if self._is_known(name) and now.get(name) not in ALIVE:
                yield name, f"{MEANINGS.get(state, 'it is over')} ({state})"

    def _ended(self) -> Iterator[tuple[str, str]]:
        """Names and states that have been added to the file since it was last read. A job has a state in
        which it has ended also if it is to run again."""
        if not self._path.exists() or self._path.stat().st_size == self._read:
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self._read += len(whole)
        for number, state, array, index in _ENTRY.findall(whole):
            yield (b"_".join((array, index)) if array else number).decode(), state.decode()


STATEMENTS = "controller.json"
"""The file, in the folder of a run, with what a controller has said of itself."""
EVERY_S = 3_600.0
DAY_S = 86_400.0
FIRST_S = 3_540.0
"""The second at which statements are first collected, and then each hour: the last time in a day is just
before midnight, when sdiag begins to count anew."""
FACTORS = {
    "Priority": "%Y", "Age": "%A", "Association": "%B", "Fair share": "%F", "Job size": "%J", "Nice": "%N",
    "Partition": "%P", "QOS": "%Q", "TRES": "%T",
}  # fmt: skip
"""The weighted factors, and how `sprio` calls them."""
_SECTIONS = ("Main schedule", "Backfilling")


class ControllerReport(BaseModel):
    """What a controller has said of itself, and of the jobs of a log, by their numbers in it."""

    views: dict[str, dict[str, str]] = {}
    """Settings that decide where and when jobs run, partitions and QOS, as the daemons have read them: by
    name, with values as Slurm prints them."""
    days: dict[int, dict[str, int]] = {}
    """What `sdiag` counted on each day of the log; the last minute of a day is missing."""
    factors: dict[int, dict[str, int]] = {}
    """The weighted factors of each job that waited, when it was last asked."""
    reasons: dict[int, str] = {}
    """Why each job waited, when it was last asked."""


def _factor(text: str) -> int:
    """A factor as `sprio` prints it: of TRES, those of each, like "cpu=250,mem=12", or nothing without
    weights."""
    return sum(int(part.rpartition("=")[2]) for part in text.split(",") if part)


@dataclass
class Statements:
    """What a controller says of itself, collected once an hour of simulated time, while there are jobs."""

    controller: Controller
    has_accounting: bool
    said: ControllerReport = field(default_factory=ControllerReport)
    has_priorities: bool = True

    def hear(self, numbers: Mapping[str, int], now_s: float) -> None:
        """Ask at a second of the log; `numbers` of jobs by the controller's names, none if none waits."""
        if numbers:
            reasons = reasons_of(self.controller)
            self.said.reasons |= {numbers[name]: reasons[name] for name in reasons if name in numbers}
            if self.has_priorities:
                self._hear_priorities(numbers)
        self.said.days[int(now_s // DAY_S)] = dict(_counters(self.controller.slurm("sdiag")))

    def _hear_priorities(self, numbers: Mapping[str, int]) -> None:
        try:
            listed = self.controller.slurm("sprio", "-h", "-o", "|".join(("%i", *FACTORS.values())))
        except CommandFailed:  # there are no factors without priority/multifactor
            self.has_priorities = False
            return
        for line in listed.splitlines():
            name, *values = map(str.strip, line.split("|"))
            if name in numbers and len(values) == len(FACTORS):
                with suppress(ValueError):
                    self.said.factors[numbers[name]] = dict(zip(FACTORS, map(_factor, values), strict=True))

    def write(self, path: Path) -> None:
        """Write the statements, with views of all settings."""
        ask = self.controller.slurm
        decide = kept(self.controller.installation.release)[OF_CLUSTER] - {"clustername"} | {"slurm_version"}
        settings = _pairs(ask("scontrol", "show", "config").splitlines())
        shown = ask("scontrol", "show", "partition", "--oneliner").splitlines()
        partitions = [line.split() for line in shown if line]
        self.said.views = {
            "settings": {key: value for key, value in settings if key.lower() in decide},
            "partitions": {
                f"{words[0].partition('=')[2]}: {key}": value
                for words in partitions
                for key, value in _pairs(words[1:])
            },
        }
        if self.has_accounting:
            self.said.views["qos"] = dict(_pairs(ask(*_QOS).splitlines(), "|"))
        path.write_text(self.said.model_dump_json(), encoding="utf-8")


_QOS = ("sacctmgr", "--parsable2", "--noheader", "show", "qos")


def _pairs(texts: Iterable[str], sign: str = "=") -> Iterator[tuple[str, str]]:
    """The keys and values of the texts that have the sign."""
    for key, is_pair, value in (text.partition(sign) for text in texts):
        if is_pair:
            yield key.strip(), value.strip()


def _counters(text: str) -> Iterator[tuple[str, int]]:
    """The numbers of the main scheduler and of backfilling, each with its name."""
    section = ""
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.rpartition(":"))
        if not line[:1].isspace():
            section = next((title for title in _SECTIONS if line.startswith(title)), "")
        elif section and value.isdecimal():
            yield f"{section}: {name}", int(value)
