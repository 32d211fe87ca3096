"""Faults of a scheduler under test: the rule it broke, the job concerned, and the time."""

from __future__ import annotations

import linecache
import os
import stat
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from math import isnan
from pathlib import Path

from scheduler import UserError
from scheduler.messages import ShortInNotebooks, printable
from scheduler.model import JobId
from scheduler.rules import RAISES_NOTHING, RULES_OF, Violation
from sil.world import SHOW_TRACEBACKS

PROCESS_SURVIVES = "process-survives"
"""The process that runs the scheduler neither dies nor has to be killed."""

KILLED = "not-killed-from-outside"
"""No scheduler is at fault: the process of a run was killed each time, and not at the same place."""

TESTBED_UNTOUCHED = "testbed-untouched"
"""In its process, a scheduler leaves the testbed's own code and data as they are."""

KEEPS_TO_MEMORY = "keeps-to-memory"
"""Its processes use no more memory than they may."""

KEEPS_TO_PROCESSES = "keeps-to-processes"
"""It has no more processes and threads at a time than it may."""

CAN_BE_JUDGED = "can-be-judged"
"""What it gives can be carried out and judged."""

KEEPS_ITS_JOURNAL = "keeps-its-journal"
"""A resource manager that is made again from its journal does again what it did."""

COST_IS_KNOWN = "cost-is-known"
"""The cost of every decision is finite, and a replayed run had as many decisions."""

SPEAKS_THE_PROTOCOL = "speaks-the-protocol"
"""A scheduler in another process sends valid messages."""

RULES = frozenset().union(
    *RULES_OF.values(),
    (PROCESS_SURVIVES, TESTBED_UNTOUCHED, KEEPS_TO_MEMORY, KEEPS_TO_PROCESSES, CAN_BE_JUDGED),
    (KEEPS_ITS_JOURNAL, COST_IS_KNOWN, SPEAKS_THE_PROTOCOL),
)
"""All rules that a scheduler can break."""

MAX_TEXT = 500
"""The most characters of a scheduler's own text in a message."""

MAX_SOURCE = 10_000_000
"""The size of the largest file whose lines are shown in messages, in bytes."""

TRIES = 3
"""How often a call is made whose process is killed from outside."""

TESTBED = __name__.partition(".")[0]

MAX_JOBS = 3
"""The most jobs that a message names."""


class SchedulerFault(ShortInNotebooks):
    """The scheduler broke `rule`, which ends this run only.

    `job` is the job concerned, if it is one job; `time_s` is simulated time.
    """

    def __init__(self, rule: str, message: str, time_s: float, job: JobId | None = None) -> None:
        super().__init__(f"{rule}: {message}")
        self.rule = rule
        self.message = message
        self.time_s = time_s
        self.job = job

    @classmethod
    def of(cls, violation: Violation, time_s: float, context: str = "") -> SchedulerFault:
        return cls(violation.rule, context + violation.message, time_s, violation.job)

    def named(self, scheduler: str) -> SchedulerFault:
        """The same fault, with a message that says which scheduler it was, and when."""
        self.args = (fault_sentence(scheduler, self.rule, self.job, self.time_s, self.message),)
        return self

    def by(self, scheduler: str, is_simulated: bool = False) -> str:
        """A sentence about the scheduler whose fault it is; with the time if that `is_simulated`."""
        if is_simulated:
            return fault_sentence(scheduler, self.rule, self.job, self.time_s, self.message)
        return sentence(scheduler, self.rule, self.message)

    def __reduce__(self) -> tuple[type[SchedulerFault], tuple[str, str, float, JobId | None]]:
        return SchedulerFault, (self.rule, self.message, self.time_s, self.job)


class Died(UserError):
    """Something has no result, mostly since its process ended, which breaks `rule`: `how` follows "its
    process". If it was killed `from_outside`, no scheduler is at fault, and it is tried again; `place` is
    equal where it was equally far."""

    def __init__(self, rule: str, how: str, message: str = "", place: object = None) -> None:
        self.from_outside = rule == KILLED
        if self.from_outside and not message:
            message = (
                f"its process was killed from outside {TRIES} times ({how}), perhaps for lack of memory; no "
                f"scheduler is to blame"
            )
        super().__init__(message or f"its process {how}")
        self.rule, self.how, self.place = rule, how, place

    def __reduce__(self) -> tuple[type[Died], tuple[str, str, str]]:
        return Died, (self.rule, self.how, self.args[0])


def cannot_be_judged(error: BaseException) -> Died:
    """The testbed itself fails where a scheduler is judged."""
    how = (
        f"gave what the testbed cannot process ({name_of(error)}: {one_line(error)}"
        f"{source_line(error, TESTBED)}); if it keeps all rules, the testbed has a defect"
    )
    return Died(CAN_BE_JUDGED, how)


def killed_from_outside(how: str, place: object = None) -> Died:
    """A process was killed by a signal that may come from anyone: the scheduler itself, an operator, or the
    kernel for lack of memory; `how` says by what."""
    message = (
        f"the process of a scheduler was killed from outside ({how}), perhaps for lack of memory; run the "
        f"same command again"
    )
    return Died(KILLED, how, message, place)


def sentence(scheduler: str, rule: str, message: str) -> str:
    """What became of a scheduler that broke a rule, or that was not allowed to show whether it does."""
    if rule == KILLED:
        return f"{scheduler} has no result: {message}"
    return f"{scheduler} broke the rule {rule}: {message}"


def fault_sentence(
    scheduler: str, rule: str, job: JobId | int | None, time_s: float | None, message: str
) -> str:
    """What became of a scheduler that broke a rule, with the job concerned and the simulated time."""
    if rule == KILLED:
        return sentence(scheduler, rule, message)
    of_job = f"job {job}, " if job is not None else ""
    when = "at an unknown time" if time_s is None or isnan(time_s) else f"at {time_s:.12g} s"
    return f"{scheduler} broke the rule {rule} ({of_job}{when}): {message}"


def stuck(why: str, waiting: Mapping[JobId, str]) -> str:
    """The message that no job can proceed, for the reason `why`; it names the first waiting jobs."""
    named = [f"job {job}: {reason}" for job, reason in sorted(waiting.items())[:MAX_JOBS]]
    more = f", and {len(waiting) - MAX_JOBS} more" if len(waiting) > MAX_JOBS else ""
    return f"{why}; left waiting are {'; '.join(named)}{more}" if named else why


def fault_of(error: BaseException, method: str, module: str, time_s: float) -> SchedulerFault:
    """The fault for an exception raised by `method`, of a class in `module`."""
    if os.environ.get(SHOW_TRACEBACKS):
        print_traceback(traceback_of(error))
    message = f"{method} raised {name_of(error)}: {one_line(error)}{source_line(error, module)}"
    return SchedulerFault(RAISES_NOTHING, message, time_s)


def name_of(value: object) -> str:
    """The name of a value's class, whatever the metaclass says."""
    return one_line(type.__dict__["__name__"].__get__(type(value)))


def print_traceback(text: str) -> None:
    print(printable(text), end="", file=sys.stderr)


def one_line(value: object) -> str:
    """The text of a value as one line, shortened to `MAX_TEXT` characters."""
    try:
        text = " ".join(str(value).split()).encode("utf-8", "replace").decode()
    except BaseException:  # __str__ is the scheduler's own code; after a time limit, the block says so
        return "(its text cannot be shown)"
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."


def source_line(error: BaseException, module: str) -> str:
    """The innermost line of the package of `module` that an exception has passed through; else, and for what
    the testbed itself wraps, like a policy, the innermost line of all."""
    package = module.partition(".")[0]
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return ""
    own = [(f, n) for f, n in frames if str(f.f_globals.get("__name__", "")).partition(".")[0] == package]
    frame, number = (own if own and package != TESTBED else frames)[-1]
    path = frame.f_code.co_filename
    _read_regular_files_only([path])
    text = linecache.getline(path, number).strip()
    return f" ({one_line(Path(path).name)}:{number}{f': {one_line(text)}' if text else ''})"


def traceback_of(error: BaseException) -> str:
    """The traceback as Python prints it."""
    found = traceback.TracebackException.from_exception(error, lookup_lines=False)
    _read_regular_files_only(frame.filename for frame in _frames(found, set()))
    return "".join(found.format())


def _frames(found: traceback.TracebackException, seen: set[int]) -> Iterator[traceback.FrameSummary]:
    if id(found) in seen:
        return
    seen.add(id(found))
    yield from found.stack
    for other in (found.__cause__, found.__context__, *(found.exceptions or ())):
        if other is not None:
            yield from _frames(other, seen)


def _read_regular_files_only(paths: Iterable[str]) -> None:
    """Code can claim to be of any file, like /dev/zero, which `linecache` would read to its end."""
    for path in {*paths} - linecache.cache.keys():
        try:
            found = os.stat(path)
        except (OSError, ValueError):
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_SOURCE:
            linecache.cache[path] = 0, None, [], path
