"""What accounting says and does not say of how its jobs were submitted, besides what they requested of nodes:
options of SubmitLine that decide when and where they start, their dependencies, and limits of arrays; and
what a replay does instead of what is missing."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from scheduler.managers.eligibility import JobArray
from site_db.jobs.logged import LoggedJob
from site_db.jobs.sacct.reader import DEPENDENT, HETEROGENEOUS, NAMED_NODES, QUALITY, RESERVED, THROTTLED
from site_db.site_file.machine_names import expand, patterns
from site_db.slurm.output import limit_s

_OPTIONS = tomllib.loads(Path(__file__).with_name("sbatch.toml").read_text())
_SHORT, _MODELLED = _OPTIONS["short"], _OPTIONS["modelled"]
_WITHOUT_VALUE, BY_SBATCH, NOT_MODELLED = (
    frozenset(_OPTIONS[name]) for name in ("without_value", "by_sbatch", "not_modelled")
)


class Submitted(NamedTuple):
    """Options of `Submission` as the line has them, `at_once` of an array, and options not modelled. In
    `others`, options of `sbatch` are whole words."""

    options: dict[str, Any]
    at_once: int | None
    left_out: frozenset[str]


def submitted(line: str) -> Submitted:
    """What a line says; a line that is not one of these commands, or is cut, says what can be read of it."""
    options: dict[str, Any] = {}
    others: dict[str, str] = {}
    at_once, left_out = None, set[str]()
    for name, value in _given(line):
        if name in _MODELLED and value:
            options[_MODELLED[name]] = value
        elif name == "array":
            throttle = value.partition("%")[2]
            at_once = int(throttle) if throttle.isdecimal() and int(throttle) else None
        elif name == "nice":
            number = value.lstrip("-")
            options["nice"] = int(value) if number.isdecimal() else 0 if value else 100
        elif name == "time-min":
            with suppress(ValueError):
                options["least_time_min"] = round(limit_s(value) / 60)
        elif name == "exclusive" and value in ("", "exclusive"):
            options["exclusive"] = True
        elif name == "contiguous":
            options["contiguous"] = True
        elif name in ("requeue", "no-requeue"):
            options["requeue"] = name == "requeue"
        elif name in BY_SBATCH or name == "exclusive":
            others[name] = f"--{name}={value}" if value else f"--{name}"
        elif name in NOT_MODELLED:
            left_out.add(name)
    if others:
        options["others"] = (*others.values(),)
    return Submitted(options, at_once, frozenset(left_out))


def _given(line: str) -> Iterator[tuple[str, str]]:
    """Long names of options, and their values, up to the script or program."""
    words = iter(_words(line)[1:])
    for word in words:
        if word == "--" or not word.startswith("-"):
            return
        if word.startswith("--"):
            name, is_given, value = word[2:].partition("=")
            if not is_given and name not in _WITHOUT_VALUE:
                value = next(words, "")
            yield name, value
            continue
        rest = word[1:]
        while rest:
            name, rest = _SHORT.get(rest[0], ""), rest[1:]
            if name in _WITHOUT_VALUE:
                yield name, ""
                continue
            yield name, rest.removeprefix("=") or next(words, "")
            rest = ""


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote that is not closed
        return line.split()


_PART = re.compile(r"([a-z]+)(?::(.*))?")
_AFTER_THE_START = "after"
_AFTER_THE_END = "afterany"
"""A job that started had its condition fulfilled, whether the others succeeded or failed, and simulated jobs
succeed: so afterok, afternotok and afterburstbuffer become this."""
_OF_ARRAY = re.compile(r"(\d+)_\d+")
NO_LICENCE = "requested licences that slurm.conf does not have"
NO_NODE = "requested or excluded nodes by names that slurm.conf does not have"
OTHER_TASKS = "limited how many tasks of the array run at a time, but differ in what they request or when"


@dataclass(frozen=True)
class HowSubmitted:
    """Jobs of accounting by line, as they are submitted again.

    `licences` and `nodes` are the names that the controller knows, `reservations` those that it will have.
    """

    jobs: Sequence[LoggedJob]
    licences: Collection[str]
    nodes: Collection[str]
    reservations: Collection[str]
    left_out: dict[str, dict[str, None]] = field(default_factory=dict)
    """What is not modelled, with the log's ids of jobs."""

    @cached_property
    def said(self) -> Mapping[int, Submitted]:
        """The options of jobs, by line of the log."""
        return {job.line: submitted(job.submit_line) for job in self.jobs}

    @cached_property
    def _of_id(self) -> Mapping[str, Sequence[LoggedJob]]:
        """Jobs by their id, and all tasks of an array by the array's."""
        found: dict[str, list[LoggedJob]] = {}
        for job in self.jobs:
            found.setdefault(job.number, []).append(job)
            if (array := _OF_ARRAY.fullmatch(job.number)) is not None:
                found.setdefault(array[1], []).append(job)
        return found

    @cached_property
    def dependencies(self) -> Mapping[int, Sequence[tuple[str, Sequence[tuple[LoggedJob, str]]]]]:
        """The dependencies by line: parts with their condition, and the jobs on which they are, with what
        follows each. Jobs that are not among `jobs` had ended, and so had those of a job that waits for any
        of several."""
        return {
            job.line: parts
            for job in self.jobs
            if (text := self.said[job.line].options.get("dependency"))
            and (parts := list(self._parts(job, text)))
        }

    def _parts(self, job: LoggedJob, text: str) -> Iterator[tuple[str, list[tuple[LoggedJob, str]]]]:
        if "?" in text:
            self._leave_out(DEPENDENT, job)
            return
        for part in text.lower().split(","):
            matched = _PART.fullmatch(part.strip())
            kind, names = ("", "") if matched is None else (matched[1], matched[2] or "")
            if kind == "singleton":
                yield _AFTER_THE_END, [(other, "") for other in self._like(job)]
            elif kind.startswith("after"):
                condition = kind if kind == _AFTER_THE_START else _AFTER_THE_END
                on = [
                    (other, f"+{minutes}" if minutes and condition == kind else "")
                    for name, _, minutes in (name.partition("+") for name in names.split(":"))
                    for other in self._named(name, job, kind)
                ]
                if on:
                    yield condition, on
            else:
                self._leave_out(DEPENDENT, job)

    def _named(self, name: str, job: LoggedJob, kind: str) -> Iterator[LoggedJob]:
        task = job.number.partition("_")[2]
        if kind == "aftercorr" and task and f"{name}_{task}" in self._of_id:
            name = f"{name}_{task}"
        for other in self._of_id.get(name, ()):
            if other.line != job.line and other.submitted_unix_s <= _queued_s(job):
                yield other

    @cached_property
    def _by_name(self) -> Mapping[tuple[str, str], Sequence[LoggedJob]]:
        found: dict[tuple[str, str], list[LoggedJob]] = {}
        for job in self.jobs:
            found.setdefault((job.user, job.program), []).append(job)
        return found

    def _like(self, job: LoggedJob) -> Iterator[LoggedJob]:
        """The jobs of the same name and user that were submitted before a job and had not ended."""
        for other in self._by_name[job.user, job.program]:
            if (_queued_s(other), other.line) < (_queued_s(job), job.line) and (
                other.ended_unix_s > _queued_s(job)
            ):
                yield other

    def arriving(self, job: LoggedJob) -> LoggedJob:
        """The job as it is submitted: one that waits for others when it was submitted, not when it was
        eligible."""
        parts = self.dependencies.get(job.line)
        if not parts:
            return job
        others_s = max(other.submitted_unix_s for _, on in parts for other, _ in on)
        return replace(job, submitted_unix_s=max(_queued_s(job), others_s), queued_unix_s=None)

    def options(self, jobs: Mapping[int, LoggedJob]) -> dict[int, dict[str, Any]]:
        """Options of submissions, of `jobs` by number in order of their submission."""
        place = {job.line: number for number, job in jobs.items()}
        order = {line: k for k, line in enumerate(place)}
        found: dict[int, dict[str, Any]] = {}
        for number, job in jobs.items():
            options = {
                key: value
                for key, value in self.said[job.line].options.items()
                if self._is_known(key, value, job)
            }
            options.pop("dependency", None)
            parts = [
                ":".join((kind, *(f"{place[other.line]}{more}" for other, more in on)))
                for kind, on in self.dependencies.get(job.line, ())
                if all(order[other.line] < order[job.line] for other, _ in on)
            ]
            if parts:
                options["dependency"] = ",".join(parts)
            if job.reservation in self.reservations:
                options["reservation"] = job.reservation
            elif job.reservation:
                self._leave_out(RESERVED, job)
            for name in self.said[job.line].left_out:
                self._leave_out(f"requested --{name} (SubmitLine), which is not modelled", job)
            if options:
                found[number] = options
        return found

    def _is_known(self, key: str, value: Any, job: LoggedJob) -> bool:
        if key == "licenses":
            names = {part.partition(":")[0].partition("@")[0] for part in re.split(r"[,|]", value)}
            return names <= {*self.licences} or self._leave_out(NO_LICENCE, job)
        if key in ("nodes", "excluded_nodes"):
            try:
                return {*expand(patterns(value))} <= {*self.nodes} or self._leave_out(NO_NODE, job)
            except ValueError:  # a file of names
                return self._leave_out(NAMED_NODES, job)
        return True

    def arrays(self, jobs: Mapping[int, LoggedJob]) -> Iterator[JobArray]:
        """The arrays of which a limited number of tasks run at a time."""
        tasks: dict[str, list[int]] = {}
        for number, job in jobs.items():
            if (array := _OF_ARRAY.fullmatch(job.number)) and self.said[job.line].at_once is not None:
                tasks.setdefault(array[1], []).append(number)
        for numbers in tasks.values():
            first = jobs[numbers[0]]
            alike = [number for number in numbers if _shape(jobs[number]) == _shape(first)]
            for number in {*numbers} - {*alike}:
                self._leave_out(OTHER_TASKS, jobs[number])
            if len(alike) > 1:
                yield JobArray(tuple(sorted(alike)), self.said[first.line].at_once)

    def _leave_out(self, what: str, job: LoggedJob) -> bool:
        """Note what is not modelled of a job. Returns False."""
        self.left_out.setdefault(what, {})[job.number] = None
        return False


def _queued_s(job: LoggedJob) -> float:
    return job.submitted_unix_s if job.queued_unix_s is None else job.queued_unix_s


def _shape(job: LoggedJob) -> object:
    return job.submitted_unix_s, job.user, job.partition, job.processors, len(job.nodes), str(job.resources)


REPLACED = (DEPENDENT, HETEROGENEOUS, NAMED_NODES, QUALITY, RESERVED, THROTTLED)
"""Remarks of the reader about what Slurm's controller knows, or in whose place are those of `left_out`."""


class Gap(NamedTuple):
    """What is missing of how many jobs, and what the replay has in its place."""

    missing: str
    jobs: int
    instead: str


_OF_EACH: dict[str, tuple[Callable[[LoggedJob], bool], str]] = {
    "time limit": (lambda job: job.time_limit_s is None, "that of the partition, else the run time"),
    "partition": (lambda job: not job.partition, "any node"),
    "account": (lambda job: not job.account, "the user's default account, if the policy has one"),
    "QOS": (lambda job: not job.qos, "the default QOS, if the policy has one"),
    "nodes on which it ran": (lambda job: not job.nodes, "the scheduler's choice"),
    "options of submission (SubmitLine)": (
        lambda job: not job.submit_line,
        "no dependencies, limits of arrays, named nodes and leaf switches",
    ),
}


def gaps(
    jobs: Sequence[LoggedJob],
    begin_s: float,
    order: str,
    drains: Sequence[object],
    reservations: Collection[str],
) -> Iterator[Gap]:
    """The gaps of recorded jobs from which a replay begins at a time, with the drains and reservations that
    are known; `order` says how the replay knows who is served first."""
    there = [job for job in jobs if job.ended_unix_s > begin_s]
    ran = [job for job in there if job.started_unix_s < begin_s]
    waited = sum(job.submitted_unix_s < begin_s for job in there) - len(ran)
    outside = sum(bool(job.reservation) and job.reservation not in reservations for job in there)
    found = [Gap(missing, sum(map(lacks, there)), instead) for missing, (lacks, instead) in _OF_EACH.items()]
    found += [
        Gap("priority at each time, and changes of it by operators", len(there), order),
        Gap("settings, limits and shares of earlier times", len(there), "those of the given files"),
        Gap("power, and use of networks and file systems", len(there), "not modelled"),
        Gap("nodes and times of its reservation (reservations.txt)", outside, "none are kept free for it"),
        Gap("progress of what ran at the beginning", len(ran), "the rest of it, perhaps on other nodes"),
        Gap("age of what waited at the beginning", waited, "submitted at the beginning"),
        Gap("usage before the beginning", len(jobs) - len(there), "none, unless sshare printed it"),
    ]
    if not drains:
        found.append(Gap("times out of service of nodes (events.txt)", len(there), "always in service"))
    yield from (gap for gap in found if gap.jobs)
