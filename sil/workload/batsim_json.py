"""Batsim's workload JSON: reading and writing jobs whose profiles are delays.

<https://batsim.readthedocs.io/en/latest/input-workload.html>
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

import polars as pl

from sil.trace.log_ids import LOG_ID, column_of
from sil.workload.job_log import LARGEST, MIN_S, SCHEMA, JobLog, losses, possible_size
from site_db.files import access
from site_db.files.access import OF_JSON, write_bytes
from site_db.files.input_errors import InvalidFile, quoted, remedy

DELAY_TYPES = ("delay", "DelayProfile")
"""The type of a profile of fixed duration in Batsim up to version 4, and in version 5."""
NO_WALLTIME = -1


@dataclass(frozen=True)
class KeptBatsim:
    """A workload as it was read, and its jobs by their numbers in the log."""

    document: Mapping[str, Any]
    jobs: Mapping[int, Mapping[str, Any]]

    def others(self, log: JobLog) -> dict[str, int]:
        """What no other format holds: members of jobs, profiles and workloads that Batsim ignores."""
        jobs = [self.jobs[number] for number in log.jobs["job"].to_list() if number in self.jobs]
        found = Counter(f"'{name}' of jobs" for job in jobs for name in job if name not in _OF_JOBS)
        used = {job["profile"] for job in jobs}
        profiles = [one for name, one in self.document["profiles"].items() if name in used]
        found.update(f"'{name}' of profiles" for one in profiles for name in one if name not in _OF_PROFILES)
        found.update(f"'{name}' of the workload" for name in self.document if name not in _OF_WORKLOADS)
        return dict(found)


_OF_JOBS = ("id", "subtime", "walltime", "res", "profile", "user")
_OF_PROFILES = ("type", "delay")
_OF_WORKLOADS = ("nb_res", "jobs", "profiles")


def read_batsim_json(path: Path, processors: int | None = None, keep: bool = False) -> JobLog:
    """The jobs of a workload; without a walltime, the estimate is the run time.

    The machine has `processors`, else nb_res. A run of less than 1 s takes 1 s, and a run longer than its
    walltime ends there, as in Batsim, with notes. Raises InvalidFile with file and job for errors in Batsim,
    a profile that is not a delay, and a job larger than the machine. With `keep`, the log keeps what else the
    file has, to be written again.
    """
    document = _document(path)
    jobs, profiles = _member(document, "jobs", list, path), _member(document, "profiles", dict, path)
    if not jobs:
        raise InvalidFile(f"{path}: the list of jobs is empty; at least one job is needed")
    size = _machine_size(document, processors, path)
    reading = _Reading(path, profiles, size)
    rows = [reading.row(place, job) for place, job in enumerate(jobs)]
    numbers = reading.numbers()
    columns = [numbers, *zip(*rows, strict=True)]
    frame = pl.DataFrame(dict(zip(SCHEMA, columns, strict=True)), SCHEMA)
    frame = frame.with_columns(column_of(reading.ids, numbers))
    cut = frozenset(numbers[place] for place in reading.cut)
    kept = KeptBatsim(document, dict(zip(numbers, jobs, strict=True))) if keep else None
    notes = tuple(reading.notes())
    return JobLog(path.name, frame.sort("submit_s", "job"), size, {}, notes, cut=cut, kept=kept)


def write_batsim_json(path: Path, log: JobLog) -> tuple[str, ...]:
    """Write a workload, compressed if the name ends in .gz, with one delay profile for each distinct run
    time; one that was read keeps what did not change. A job's user is added as `user`. Returns sentences on
    what the format cannot hold. Raises InvalidFile if the file cannot be written."""
    kept = log.kept if isinstance(log.kept, KeptBatsim) else KeptBatsim({}, {})
    profiles: dict[str, Any] = dict(kept.document.get("profiles", {}))
    ids = log.jobs["job"].cast(pl.String)
    if LOG_ID in log.jobs.columns:  # which may be repeated, unlike numbers
        ids = log.jobs.select(pl.when(pl.col(LOG_ID).is_unique()).then(LOG_ID).otherwise(ids)).to_series()
    jobs = []
    for name, number, submit_s, run_s, size, estimate_s, user in log.jobs.select(
        ids.alias("id"), *SCHEMA
    ).iter_rows():
        before = kept.jobs.get(number, {})
        profile = before.get("profile", "")
        if not before or profiles[profile]["delay"] != run_s:
            profile = f"delay-{_plain(run_s)}"
            profiles.setdefault(profile, {"type": DELAY_TYPES[0], "delay": _plain(run_s)})
        has_walltime = before.get("walltime", NO_WALLTIME) != NO_WALLTIME or estimate_s != run_s or not before
        jobs.append(
            {
                "id": name,
                **before,
                "subtime": _plain(submit_s),
                **({"walltime": _plain(estimate_s)} if has_walltime else {}),
                "res": size,
                "profile": profile,
                **({"user": user} if user >= 0 else {}),
            }
        )
    one_a_line = [f"{json.dumps(name)}: {json.dumps(profile)}" for name, profile in profiles.items()]
    others = {name: value for name, value in kept.document.items() if name not in _OF_WORKLOADS}
    members = {"nb_res": log.processors, **others}.items()
    text = "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in members)
    listed, used = ",\n".join(map(json.dumps, jobs)), ",\n".join(one_a_line)
    text = f'{{\n{text}"jobs": [\n{listed}\n],\n"profiles": {{\n{used}\n}}\n}}\n'
    write_bytes(path, text.encode())
    lost = {} if log.kept is None or log.kept is kept else log.kept.others(log)
    return tuple(losses(lost, "Batsim's JSON"))


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number


def _document(path: Path) -> dict[str, Any]:
    text = access.read_text(path, OF_JSON)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidFile(f"{path}, line {error.lineno}: this is not valid JSON: {error.msg}") from None
    except RecursionError:
        raise InvalidFile(f"{path}: the JSON is nested too deeply to be a workload of Batsim") from None
    except ValueError:
        raise InvalidFile(f"{path}: the JSON has a number with too many digits") from None
    if not isinstance(document, dict):
        raise InvalidFile(
            f"{path}: expected an object with nb_res, jobs and profiles, found {_text(document)}"
        )
    return document


def _member(document: Mapping[str, Any], name: str, kind: type, path: Path) -> Any:
    expected = "a list" if kind is list else "an object"
    if name not in document:
        raise InvalidFile(
            f"{path}: there is no '{name}' in it; a workload of Batsim has {expected} of that name"
        )
    if not isinstance(document[name], kind):
        raise InvalidFile(f"{path}: '{name}' has to be {expected}; it is {_text(document[name])}")
    return document[name]


def _machine_size(document: Mapping[str, Any], asked: int | None, path: Path) -> int:
    if asked is not None:
        return possible_size(asked, path)
    size = document.get("nb_res")
    if size is None:
        raise InvalidFile(
            f"{path}: the file does not say how large the machine is (nb_res)"
            f"{remedy('; give it with {}', ('--processors', ''))}"
        )
    if not _is_whole(size):
        raise InvalidFile(f"{path}: nb_res has to be a whole number; it is {_text(size)}")
    return possible_size(size, path)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _found(mapping: Mapping[str, Any], key: str) -> str:
    return _text(mapping[key]) if key in mapping else "missing"


def _text(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case int() if abs(value) > LARGEST:
            return "a number beyond 1e15"
        case str():
            return quoted(value)
        case _:
            return json.dumps(value)


@dataclass
class _Reading:
    """The state while the jobs are read one by one."""

    path: Path
    profiles: Mapping[str, Any]
    processors: int
    ids: dict[str, None] = field(default_factory=dict)
    """The ids as texts, in the order of the file."""
    repairs: dict[str, list[str]] = field(default_factory=dict)
    """The jobs that needed a repair, by its description."""
    cut: list[int] = field(default_factory=list)
    """The places of the jobs whose runs are cut at their walltime."""

    def row(self, place: int, job: Any) -> tuple[float, float, int, float, int]:
        """The columns of a job after its number."""
        if not isinstance(job, dict):
            raise InvalidFile(f"{self.path}: jobs[{place}] has to be an object; it is {_text(job)}")
        id, size = job.get("id"), job.get("res")
        if not (isinstance(id, str) or _is_whole(id)):
            wrong = f"the id of jobs[{place}] has to be a text or a whole number; it is {_found(job, 'id')}"
            raise InvalidFile(f"{self.path}: {wrong}")
        name = str(id)
        if name in self.ids:
            self._refuse(name, f"jobs[{place}] repeats the id of an earlier job; ids have to be unique")
        self.ids[name] = None
        submit_s = self._seconds(name, job, "subtime")
        if not _is_whole(size) or size < 1:
            self._refuse(name, f"res has to be a whole number from 1 on; it is {_found(job, 'res')}")
        if size > self.processors:
            self._refuse(name, f"res is {_text(size)}, and the machine has {self.processors:,} (nb_res)")
        run_s = self._at_least(name, "run time", self._seconds(name, self._profile(name, job), "delay"))
        limit_s, user = run_s, job.get("user", -1)
        if job.get("walltime", NO_WALLTIME) not in (None, NO_WALLTIME):
            limit_s = self._seconds(name, job, "walltime")
            if limit_s == 0:
                self._refuse(name, f"walltime has to be above 0, or {NO_WALLTIME} for none; it is 0")
            limit_s = self._at_least(name, "walltime", limit_s)
        if run_s > limit_s:
            self._repaired(name, "the delay is longer than the walltime; the run is cut to the walltime")
            self.cut.append(place)
        # A user as `write_batsim_json` adds it; else unknown.
        user = user if _is_whole(user) and 0 <= user <= LARGEST else -1
        return submit_s, min(run_s, limit_s), size, limit_s, user

    def numbers(self) -> list[int]:
        """The number of each job: its id if that is a number, else an unused number, in order."""
        found: list[int | None] = []
        used = set[int]()
        for name in self.ids:
            match = re.fullmatch(r"(?:[^!]*!)?(\d{1,15})", name, re.ASCII)
            number = int(match[1]) if match else 0
            is_new = number < 1 or number in used
            if is_new:
                what = "an id that is not a positive number, or not the only one of that number; "
                what += "numbered anew, and the id is kept as log_id"
                self._repaired(name, what)
            used.add(number)
            found.append(None if is_new else number)
        unused = count(max(used, default=0) + 1)
        return [next(unused) if number is None else number for number in found]

    def notes(self) -> Iterator[str]:
        for what, (first, *others) in self.repairs.items():
            jobs = f"{1 + len(others):,} jobs, the first is job" if others else "job"
            yield f"{jobs} {quoted(first)}: {what}"

    def _repaired(self, name: str, what: str) -> None:
        self.repairs.setdefault(what, []).append(name)

    def _refuse(self, name: str, reason: str) -> NoReturn:
        raise InvalidFile(f"{self.path}, job {quoted(name)}: {reason}")

    def _at_least(self, name: str, what: str, seconds: float) -> float:
        if seconds < MIN_S:
            self._repaired(name, f"a {what} below 1 s; 1 s is taken")
        return max(seconds, MIN_S)

    def _seconds(self, name: str, mapping: Mapping[str, Any], key: str) -> float:
        value = mapping.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= LARGEST:
            expected = f"a number of seconds from 0 to {LARGEST:g}"
            self._refuse(name, f"{key} has to be {expected}; it is {_found(mapping, key)}")
        return float(value)

    def _profile(self, name: str, job: Mapping[str, Any]) -> Mapping[str, Any]:
        wanted = job.get("profile")
        if not isinstance(wanted, str):
            self._refuse(name, f"profile has to be the name of a profile; it is {_found(job, 'profile')}")
        profile = self.profiles.get(wanted)
        if not isinstance(profile, dict):
            self._refuse(name, f"there is no profile {quoted(wanted)}")
        kind, whose = _text(profile.get("type")), f"its profile {quoted(wanted)}"
        if profile.get("type") not in DELAY_TYPES:
            self._refuse(name, f"{whose} is of the type {kind}; only delays can be replayed")
        if "delay" not in profile:
            self._refuse(name, f"{whose} has no delay")
        return profile
