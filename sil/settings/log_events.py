"""What operators and users did to a log's cluster and jobs, besides submitting them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_OF_A_DEPENDENCY = re.compile(r"(?<=:)\d+", re.ASCII)


class OfJob(NamedTuple):
    """A placeholder in a command: the job, as its program names it."""

    number: int


class AtSecond(NamedTuple):
    """A placeholder in a command: a key, and a second of the log in its program's form."""

    key: str
    second: float


class Command(NamedTuple):
    """A command of Slurm. If it is about a job, it is left out if the job is over or not there."""

    at_s: float
    words: tuple[str | OfJob | AtSecond, ...]

    @property
    def job(self) -> int | None:
        return next((word.number for word in self.words if isinstance(word, OfJob)), None)


class NodesUpdated(NamedTuple):
    """Nodes, as a host list, get a state: DRAIN (no job starts there), DOWN (their runs end, too, and their
    jobs wait again) or RESUME."""

    at_s: float
    nodes: str
    state: str
    reason: str = ""


class NodesReserved(NamedTuple):
    """A reservation, known from `at_s` on. `nodes` are a host list, or how many."""

    at_s: float
    name: str
    start_s: float
    end_s: float
    nodes: str | int
    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


NodeEvent = NodesUpdated | NodesReserved


class JobArray(NamedTuple):
    jobs: tuple[int, ...]
    at_once: int | None


@dataclass(frozen=True)
class Events:
    """`on_nodes` and `commands` in order of time; `options` of the submissions of jobs, by number. In a
    dependency, jobs have the numbers of the log."""

    on_nodes: tuple[NodeEvent, ...] = ()
    commands: tuple[Command, ...] = ()
    arrays: tuple[JobArray, ...] = ()
    options: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


def jobs_in(dependency: str) -> set[int]:
    """The numbers of the jobs that a dependency names."""
    return set(map(int, _OF_A_DEPENDENCY.findall(dependency)))


def with_names(dependency: str, name_of: Mapping[int, str]) -> str:
    """A dependency with the names of jobs in place of their numbers."""
    return _OF_A_DEPENDENCY.sub(lambda number: name_of[int(number[0])], dependency)
