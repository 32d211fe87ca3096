"""What the jobs of the world request of the controller, and what it calls them, also in commands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from math import ceil, floor, inf
from typing import Any, NamedTuple

from scheduler.free_nodes.runtime_estimates import LONGEST_S
from scheduler.managers.eligibility import JobArray
from scheduler.managers.queues import Admission
from scheduler.model import Job
from sil.settings.log_events import (
    AtSecond,
    Command,
    Events,
    JobEvent,
    NodeEvent,
    NodesUpdated,
    OfJob,
    jobs_in,
    with_names,
)
from sil.slurm.layout import CannotRequest, Layout
from sil.slurm.protocol.records import ReturnCode, ReturnCodeWithText
from sil.slurm.protocol.releases import reason
from sil.slurm.protocol.submission import Submission

FIRST_OF_ARRAY = 1
"""The index of the first job of an array."""


class Components(NamedTuple):
    """The jobs that are the components of a heterogeneous one, in order."""

    jobs: tuple[int, ...]


Group = JobArray | Components


class Submissions:
    """What is submitted, and the jobs that are submitted and not over.

    A job's name is what Slurm's commands call it: its number, or that of its array with its index. A job of
    an array has a number of its own only from when it is started or changed alone; some job of the array has
    that of the array.

    `user_ids` by name; `estimate_s` is the estimate of a job of which its user gives none; `groups` are those
    that are submitted together. Jobs have the accounts and QOS that are `charged` for them, by number and if
    not empty, unless the options that `events` have for some say otherwise.
    """

    def __init__(
        self,
        layout: Layout,
        user_ids: Mapping[str, int],
        estimate_s: Callable[[Job], float],
        events: Events,
        groups: Iterable[Group],
        charged: Mapping[int, Mapping[str, str]],
        admission: Admission | None,
    ) -> None:
        self.layout, self.events, self.estimate_s = layout, events, estimate_s
        self._admission, self._user_ids, self._charged = admission, user_ids, charged
        self._unfinished_of: Counter[str] = Counter()
        """The number of unfinished jobs, by user."""
        self._group_of = {number: group for group in groups for number in group.jobs}
        self._arrived: dict[Group, list[Job]] = {}
        self.jobs: dict[str, Job] = {}
        """The jobs that the controller has accepted and that are not over, by name."""
        self.names: dict[int, str] = {}
        """The names of jobs by number in the world; also of jobs that are over."""
        self.starts_at_s = 0.0
        """Second 0 of the world, in seconds since the epoch."""
        self.others: dict[int, range] = {}
        """Slurm's numbers of the further components of heterogeneous jobs, by the first one."""

    def refusal(self, job: Job) -> str | None:
        """Why the site's own rules refuse an arriving job; None if they admit it."""
        if self._admission is not None:
            refused = self._admission.refusal(job, self._unfinished_of[job.user])
            if refused is not None:
                return refused
        self._unfinished_of[job.user] += 1
        return None

    def over(self, job: Job) -> None:
        """Note that an admitted job has ended or been given up."""
        self._unfinished_of[job.user] -= 1
        self.jobs.pop(self.names.get(job.id, ""), None)

    def with_its_group(self, job: Job) -> tuple[list[Job], Group | None]:
        """A job that arrives, with those of its array or heterogeneous job, if there is one; no jobs as long
        as others of these are to arrive."""
        group = self._group_of.get(job.id)
        if group is None:
            return [job], None
        jobs = self._arrived.setdefault(group, [])
        jobs.append(job)
        if len(jobs) < len(group.jobs):
            return [], group
        places = {number: place for place, number in enumerate(group.jobs)}
        return sorted(jobs, key=lambda one: places[one.id]), group

    def requested(self, jobs: Sequence[Job], group: Group | None) -> list[Any]:
        """The Submission of one job or an array, or of each component of a heterogeneous job. Raises
        CannotRequest."""
        if isinstance(group, Components):
            return [self._of([job], None) for job in jobs]
        return [self._of(jobs, None if group is None else group.at_once)]

    def _of(self, jobs: Sequence[Job], at_once: int | None) -> Any:
        """The Submission of one job, or of an array of several, of which `at_once` run at a time."""
        first, *others = jobs
        user, limit_s = self.user_id(first), max(map(self.limit_s, jobs))
        charged = {key: value for key, value in self._charged.get(first.id, {}).items() if value}
        options = {**self.layout.options(first), **charged, **self.events.options.get(first.id, {})}
        if "dependency" in options:
            missing = jobs_in(options["dependency"]) - self.names.keys()
            if missing:
                raise CannotRequest(f"a dependency on job {min(missing)}, which Slurm has not accepted")
            options["dependency"] = with_names(options["dependency"], self.names)
        if others:
            throttle = "" if at_once is None else f"%{at_once}"
            options["array"] = f"{FIRST_OF_ARRAY}-{FIRST_OF_ARRAY + len(others)}{throttle}"
        for name, whole in (("begin", ceil), ("deadline", floor)):
            if name in options:
                options[name] = whole(self.starts_at_s + options[name])
        limit_min = None if limit_s == inf else round(limit_s / 60)
        own = {"user": user, "group": user, "name": str(first.id), "time_limit_min": limit_min}
        return Submission(**{**own, **options})

    def accepted(self, number: int, jobs: Sequence[Job], group: Group | None) -> Iterable[str]:
        """Note that one job, those of an array, or the components of a heterogeneous job, which have
        consecutive numbers, are accepted. Returns their names."""
        is_array = isinstance(group, JobArray)
        if isinstance(group, Components):
            self.others[number] = range(number + 1, number + len(jobs))
        for k, job in enumerate(jobs):
            name = name_in(number, FIRST_OF_ARRAY + k) if is_array else str(number + k)
            self.jobs[name], self.names[job.id] = job, name
        return [self.names[job.id] for job in jobs]

    def words_of(self, command: Command) -> list[str] | None:
        """The words of a command; None if it is about a job that is over or was not accepted."""
        found: list[str] = []
        for word in command.words:
            match word:
                case OfJob(number=number):
                    if (name := self.names.get(number, "")) not in self.jobs:
                        return None
                    found.append(name)
                case AtSecond(key=key, second=second):
                    at = datetime.fromtimestamp(self.starts_at_s + second, UTC)
                    found.append(f"{key}={at:%Y-%m-%dT%H:%M:%S}")
                case _:
                    found.append(word)
        return found

    def limit_s(self, job: Job) -> float:
        """The time limit, in whole minutes; infinite if the partition's default applies."""
        estimate_s = job.estimate_s if job.estimate_s is not None else self.estimate_s(job)
        return 60.0 * ceil(estimate_s / 60) if estimate_s < LONGEST_S else inf

    def user_id(self, job: Job) -> int:
        return self._user_ids[job.user]


def commands_of(events: Events) -> list[Command]:
    """What Slurm is told at which time, in order of time; of one time, nodes come first."""
    acts = [event for event in events.on_jobs if event.act != "expire"]  # it has been told the deadlines
    told = (*map(_command, (*events.on_nodes, *acts)), *events.commands)
    return sorted(told, key=lambda command: command.at_s)


def _command(event: NodeEvent | JobEvent) -> Command:
    if isinstance(event, JobEvent):
        program = ("scancel",) if event.act == "cancel" else ("scontrol", event.act)
        return Command(event.at_s, (*program, OfJob(event.job)))
    if isinstance(event, NodesUpdated):
        why = [f"Reason={event.reason}"] if event.reason else []
        words = "scontrol", "update", f"NodeName={event.nodes}", f"State={event.state}", *why
        return Command(event.at_s, words)
    times = AtSecond("StartTime", event.start_s), AtSecond("EndTime", event.end_s)
    where = f"NodeCnt={event.nodes}" if isinstance(event.nodes, int) else f"Nodes={event.nodes}"
    users = event.users or (() if event.accounts else ("root",))
    lists = {"Accounts": event.accounts, "Users": users, "Flags": event.flags}
    who = [f"{key}={','.join(names)}" for key, names in lists.items() if names]
    named = f"ReservationName={event.name}"
    return Command(event.at_s, ("scontrol", "create", "reservation", named, *times, where, *who))


def name_in(number: int, index: int) -> str:
    """The name of the job of an array with this number."""
    return f"{number}_{index}"


def rejection(answer: Any) -> str | None:
    """Why the controller rejects a submission; None if it does not."""
    if isinstance(answer, ReturnCode | ReturnCodeWithText):
        return f"Slurm rejected it: {getattr(answer, 'text', None) or reason(answer.code)}"
    return None
