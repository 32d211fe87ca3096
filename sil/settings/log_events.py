"""What operators and users did to a log's cluster and jobs, besides submitting them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import floor, inf
from typing import TYPE_CHECKING, Any, NamedTuple

from scheduler.managers.eligibility import Conditions, Dependency, DependencyKind, JobArray
from scheduler.messages import counted
from scheduler.model import JobId
from scheduler.ports import Act, JobActedOn

if TYPE_CHECKING:
    from sil.workload.job_log import JobLog

_OF_ALL = {"dependency", "begin", "hold", "name", "reservation"}
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


class JobEvent(NamedTuple):
    """Somebody does something with a job, unless it is over."""

    at_s: float
    job: int
    act: Act


@dataclass(frozen=True)
class Events:
    """What happens to nodes and jobs, in order of time; what is submitted as one; the `options` of sbatch
    with which jobs are submitted, by number, and what these mean for when they may run. In a dependency, jobs
    have the numbers of the log. `commands` are further ones of Slurm."""

    on_nodes: tuple[NodeEvent, ...] = ()
    on_jobs: tuple[JobEvent, ...] = ()
    arrays: tuple[JobArray, ...] = ()
    options: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    conditions: Mapping[int, Conditions] = field(default_factory=dict)
    commands: tuple[Command, ...] = ()
    notes: tuple[str, ...] = ()
    """What of the files is not modelled, a sentence each."""

    def __bool__(self) -> bool:
        return self != Events(notes=self.notes)

    def with_expiry(self, jobs: Iterable[tuple[int, float, float, float]]) -> Events:
        """The same, and jobs expire in the first second from which on their time limits would end after their
        deadlines; `jobs` are numbers, submissions, deadlines from then on, and limits. Slurm's controller is
        told the deadlines. Source: deadline_ok in its job_scheduler.c, and job_mgr.c at submission."""
        expired, options = [], dict(self.options)
        for job, submit_s, due_in_s, limit_s in jobs:
            if due_in_s - limit_s < inf:  # a limit that is not known is none
                due_s = submit_s + due_in_s
                expired.append(JobEvent(max(submit_s, floor(due_s - limit_s) + 1.0), job, "expire"))
                options[job] = {**options.get(job, {}), "deadline": due_s}
        on_jobs = tuple(sorted((*self.on_jobs, *expired), key=lambda each: each.at_s))
        return replace(self, on_jobs=on_jobs, options=options)

    def of_eligibility(self, log: JobLog, later_s: float = 0.0) -> Events | None:
        """What makes jobs of a log ineligible at times, a closed loop included: in it, jobs depend on the
        ends of preceding ones that are in the log, too. None without any. Acts are `later_s` later."""
        numbers, found = frozenset(log.jobs["job"]) if log.after else frozenset[int](), dict(self.conditions)
        for job, (preceding, think_s) in log.after.items():
            if job in numbers and preceding in numbers:
                before = found.get(job, Conditions())
                after = Dependency(DependencyKind.AFTER_ANY, (preceding,), think_s)
                found[job] = before._replace(dependencies=(*before.dependencies, after))
        if not (found or self.on_jobs or any(array.at_once for array in self.arrays)):
            return None
        on_jobs = tuple(event._replace(at_s=event.at_s + later_s) for event in self.on_jobs)
        return replace(self, conditions=found, on_jobs=on_jobs)

    @property
    def acts(self) -> Iterator[tuple[float, JobActedOn]]:
        """What is done with jobs, as notices."""
        return ((at_s, JobActedOn(JobId(job), act)) for at_s, job, act in self.on_jobs)

    def of_places(self, place_of: Mapping[int, int]) -> Events:
        """What happens to jobs, and their conditions, with other numbers. Jobs without one have ended, and
        what depends on them is met."""

        def places(jobs: Iterable[int]) -> tuple[int, ...]:
            return tuple(place_of[job] for job in jobs if job in place_of)

        def of_place(conditions: Conditions) -> Conditions:
            parts = [part._replace(on=on) for part in conditions.dependencies if (on := places(part.on))]
            is_met = conditions.any_suffices and len(parts) < len(conditions.dependencies)
            return conditions._replace(dependencies=() if is_met else tuple(parts))

        return Events(
            on_jobs=tuple(
                event._replace(job=place_of[event.job]) for event in self.on_jobs if event.job in place_of
            ),
            arrays=tuple(JobArray(places(each.jobs), each.at_once) for each in self.arrays),
            conditions={place_of[job]: of_place(x) for job, x in self.conditions.items() if job in place_of},
        )

    @property
    def only_of_slurm(self) -> list[str]:
        """Sentences on the options of submissions that only Slurm's controller reads."""
        n = Counter(name for given in self.options.values() for name in given if name not in _OF_ALL)
        return [
            f"{counted(k, 'job')} submitted with a {name}, which only Slurm reads" for name, k in n.items()
        ]


def jobs_in(dependency: str) -> set[int]:
    """The numbers of the jobs that a dependency names."""
    return set(map(int, _OF_A_DEPENDENCY.findall(dependency)))


def with_names(dependency: str, name_of: Mapping[int, str]) -> str:
    """A dependency with the names of jobs in place of their numbers."""
    return _OF_A_DEPENDENCY.sub(lambda number: name_of[int(number[0])], dependency)
