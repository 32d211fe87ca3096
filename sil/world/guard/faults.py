"""Faults of a scheduler under test: the rule it broke, the job concerned, and the time."""

from __future__ import annotations

import linecache
import multiprocessing
import os
import sys
import traceback
from collections.abc import Mapping
from math import isnan
from pathlib import Path

from scheduler import UserError, printable
from scheduler.model import JobId
from scheduler.rules import RAISES_NOTHING, Violation
from sil.world import SHOW_TRACEBACKS

PROCESS_SURVIVES = "process-survives"
"""The process that runs the scheduler neither dies nor has to be killed."""

KILLED = "not-killed-from-outside"
"""Nobody's fault: the process of a run was killed each time."""

TESTBED_UNTOUCHED = "testbed-untouched"
"""In its process, a scheduler leaves the testbed's own code and data as they are."""

KEEPS_TO_MEMORY = "keeps-to-memory"
"""Its process uses no more memory than it may."""

KEEPS_ITS_JOURNAL = "keeps-its-journal"
"""A resource manager that is made again from its journal does again what it did."""

COST_IS_KNOWN = "cost-is-known"
"""The cost of every decision is finite, and a replayed run had as many decisions."""

SPEAKS_THE_PROTOCOL = "speaks-the-protocol"
"""A scheduler in another process sends valid messages."""

MAX_TEXT = 500
"""Characters of a scheduler's own text in a message."""


TESTBED = __name__.partition(".")[0]

MAX_JOBS = 3
"""Number of jobs named in a message."""


class SchedulerFault(Exception):
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

    def by(self, scheduler: str) -> str:
        """A sentence about the scheduler whose fault it is."""
        return sentence(scheduler, self.rule, self.message)

    def __reduce__(self) -> tuple[type[SchedulerFault], tuple[str, str, float, JobId | None]]:
        return SchedulerFault, (self.rule, self.message, self.time_s, self.job)


class KilledFromOutside(UserError):
    """A process was killed, not by the testbed: by an operator, or for lack of memory; `how` says by what. No
    scheduler is to blame, and what it was doing is to be tried again."""

    def __init__(self, how: str) -> None:
        super().__init__(
            f"the process of a scheduler was killed from outside ({how}), perhaps for lack of memory; run "
            f"the same command again"
        )
        self.how = how


def sentence(scheduler: str, rule: str, message: str) -> str:
    """What became of a scheduler that broke a rule, or that was not allowed to show whether it does."""
    if rule == KILLED:
        return f"{scheduler} has no result: {message}"
    return f"{scheduler} broke the rule {rule}: {message}"


def told(scheduler: str, rule: str, job: JobId | int | None, time_s: float | None, message: str) -> str:
    """What became of a scheduler that broke a rule, with the job concerned and the simulated time."""
    of_job = f"job {job}, " if job is not None else ""
    when = "at an unknown time" if time_s is None or isnan(time_s) else f"at {time_s:.12g} s"
    return f"{scheduler} broke the rule {rule} ({of_job}{when}): {message}"


def stuck(why: str, waiting: Mapping[JobId, str]) -> str:
    """The message that no job can proceed, for the reason `why`; it names the first waiting jobs."""
    named = [f"job {job}: {reason}" for job, reason in sorted(waiting.items())[:MAX_JOBS]]
    more = f", and {len(waiting) - MAX_JOBS} more" if len(waiting) > MAX_JOBS else ""
    return f"{why}; left waiting are {'; '.join(named)}{more}" if named else why


def fault_of(error: BaseException, method: str, module: str, time_s: float) -> SchedulerFault:
    """The fault for an exception raised by `method`, of a class in `module`. Re-raises Ctrl-C."""
    if isinstance(error, KeyboardInterrupt) and multiprocessing.parent_process() is None:
        raise error  # Ctrl-C ends a worker process without an exception
    if os.environ.get(SHOW_TRACEBACKS):
        print_traceback("".join(traceback.format_exception(error)))
    message = f"{method} raised {type(error).__name__}: {one_line(error)}{source_line(error, module)}"
    return SchedulerFault(RAISES_NOTHING, message, time_s)


def print_traceback(text: str) -> None:
    print(printable(text), end="", file=sys.stderr)


def one_line(value: object) -> str:
    """Its text as one line, shortened to `MAX_TEXT` characters."""
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
    text = linecache.getline(path, number).strip()
    return f" ({Path(path).name}:{number}{f': {one_line(text)}' if text else ''})"
