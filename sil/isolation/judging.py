"""Both sides of a run whose schedulers are not built in.

Each scheduler has its own process, which carries out the same run and sends the scheduler's answers as plain
data. The judging side receives and checks them; only its results count. So problems are never sent, and a
scheduler that corrupts its process corrupts only a copy of the run. If there are several such schedulers, the
judging side forwards the answers of each to the processes of the others.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from math import isfinite, nan
from pathlib import Path
from typing import Any

from scheduler.model import JobId
from scheduler.ports import AnyScheduler, Clock
from scheduler.problem import SchedulingProblem
from scheduler.registry import SchedulerSpec
from scheduler.resource_manager import Manager, Ports
from scheduler.rules import RAISES_NOTHING, RETURNS_A_SCHEDULE
from sil.isolation.answers import ManagerProxy, ManagerServer, diverged, packed_answer, unpacked_answer
from sil.isolation.host import HERE, Host, made
from sil.workers import channel
from sil.workers.channel import BadMessage, Message
from sil.workers.descendants import Limits
from sil.workers.executor import Attempt
from sil.workers.own_process import SILENT_S, OwnProcess, own_process
from sil.world import SHOW_TRACEBACKS
from sil.world.guard.decision_time import GRACE, GRACE_S
from sil.world.guard.faults import (
    KEEPS_TO_MEMORY,
    RULES,
    TESTBED_UNTOUCHED,
    Died,
    SchedulerFault,
    one_line,
    print_traceback,
    traceback_of,
)
from sil.world.guard.scheduler import MAKING_LIMIT_S, Decision, Guard, Respondent, TimedScheduler
from sil.world.guard.values import is_index

BYTES = 1 << 20
BYTES_OF_A_JOB = 4_096
BYTES_OF_A_PLACE = 256
"""The most bytes of an answer: BYTES, and more for each job and each resource or node."""


@contextmanager
def judging(
    follow: Callable[[Host], object],
    folders: Mapping[str, str | None],
    log: Path | None,
    memory_mb: float | None,
    attempt: Attempt,
) -> Iterator[Host]:
    """The host of a run whose schedulers with the names in `folders` are asked in processes of their own.
    Each makes the call `follow` with its own host: the same run, of which only its answers are received.

    `follow` can be pickled, and asks the same questions in the same order. The folder of a scheduler has
    modules that are not found elsewhere. What it prints goes into the file `log`, or to the terminal. A
    process that uses `memory_mb` more than the testbed itself breaks a rule.
    """
    modules = (_module_of(follow),)  # imported once for many processes
    with ExitStack() as stack:
        processes = {}
        for k, (name, folder) in enumerate(folders.items()):
            call = partial(_answer, follow, name, memory_mb)
            printed = log if log is None or k == 0 else log.with_stem(f"{log.stem}-{k + 1}")
            processes[name] = stack.enter_context(
                own_process(call, modules, printed, Limits(memory_mb), folder, attempt)
            )
        yield _JudgingHost(processes)


def _module_of(call: Callable[[Host], object]) -> str:
    """Where the function of a call is defined, or the class of its object."""
    function = call.func if isinstance(call, partial) else call
    return str(getattr(function, "__self__", function).__module__)


class _JudgingHost(Host):
    """Where the run counts: answers come from the processes of the schedulers, by name."""

    def __init__(self, processes: Mapping[str, OwnProcess]) -> None:
        self._processes = processes
        self._took_s = dict.fromkeys(processes, 0.0)
        """The time that all calls of each scheduler have taken so far, in seconds."""

    def respondent(self, spec: SchedulerSpec, seed: int, guard: Guard) -> Respondent:
        if spec.is_built_in:
            return HERE.respondent(spec, seed, guard)
        self._limit(spec, guard)
        return _SchedulerProxy(lambda most: self.received(spec.name, most, guard.clock.now_s), guard.clock)

    def _limit(self, spec: SchedulerSpec, guard: Guard) -> None:
        limit_s = max(guard.limit_s, MAKING_LIMIT_S)
        self._processes[spec.name].most_s = GRACE * limit_s + GRACE_S + SILENT_S

    def manager(self, spec: SchedulerSpec, seed: int, ports: Ports, guard: Guard) -> Manager:
        self._limit(spec, guard)

        def receive(most_bytes: int) -> Message:
            return self.received(spec.name, most_bytes, ports.clock.now_s)

        return ManagerProxy(receive, ports, guard, spec.target)

    def received(self, name: str, most_bytes: int, now_s: float) -> Message:
        """The next answer of a scheduler. Raises SchedulerFault, and Died."""
        try:
            message = self._processes[name].receive(most_bytes)
        except Died as error:
            if error.from_outside:
                raise
            raise SchedulerFault(error.rule, str(error), now_s) from None
        fields = message.fields
        if "fault" in fields:
            print_traceback(str(fields.get("traceback", "")))
            raise _fault(fields["fault"], now_s)
        self._check_times(name, fields.get("took"), now_s)
        for other, process in self._processes.items():
            if other != name:
                process.send(message)
        return message

    def _check_times(self, name: str, took: object, now_s: float) -> None:
        """Raise SchedulerFault if calls have taken no time, or more than has passed. The process does not
        wait until it is judged, so only the sum of its times can be compared."""
        wall_s = took[0] if isinstance(took, list) and took else took
        passed_s = time.monotonic() - self._processes[name].began_s
        if type(wall_s) is not float or not 0.0 < wall_s <= passed_s - self._took_s[name]:
            text = f"its process measured {one_line(wall_s)} s for a call, {passed_s:.3g} s after it began"
            why = "does it change clocks?"
            raise SchedulerFault(TESTBED_UNTOUCHED, f"{text}; {why}", now_s)
        self._took_s[name] += wall_s

    def input(self, read: Callable[[], bytes]) -> bytes:
        found = read()
        for process in self._processes.values():
            process.send(Message({}, found))
        return found


class _SchedulerProxy:
    def __init__(self, receive: Callable[[int], Message], clock: Clock) -> None:
        self._receive = receive
        self._clock = clock

    def decide(self, problem: SchedulingProblem) -> Decision:
        n_jobs, now_s = problem.n_jobs, self._clock.now_s
        most_bytes = BYTES + BYTES_OF_A_JOB * n_jobs + BYTES_OF_A_PLACE * problem.n_places
        return decision_in(self._receive(most_bytes), problem, now_s)


class _ServingHost(Host):
    """In the process of the scheduler `name`: it answers; those of others come from where they are judged."""

    def __init__(self, name: str, connection: socket.socket, memory_mb: float | None) -> None:
        self._name = name
        self._connection = connection
        self._memory_mb = memory_mb

    def respondent(self, spec: SchedulerSpec, seed: int, guard: Guard) -> Respondent:
        if spec.is_built_in:
            return HERE.respondent(spec, seed, guard)
        if spec.name != self._name:
            return _SchedulerProxy(lambda most: channel.receive(self._connection), guard.clock)
        # The time of a fault is known where it is judged; who reads it here waits for what is not sent.
        untimed = replace(guard, clock=_NoTime())
        return _ServedScheduler(made(spec, seed, untimed), untimed, guard.clock, self.send)

    def manager(self, spec: SchedulerSpec, seed: int, ports: Ports, guard: Guard) -> Manager:
        return ManagerServer(partial(spec.make_manager, seed=seed), ports, guard, spec.target, self.send)

    def input(self, read: Callable[[], bytes]) -> bytes:
        return channel.receive(self._connection).columns

    def send(self, message: Message) -> None:
        channel.send(self._connection, message)

    def faulted(self, fault: SchedulerFault) -> None:
        rule, text = fault.rule, fault.message
        if self._memory_mb is not None and isinstance(fault.__cause__, MemoryError):
            rule, text = (
                KEEPS_TO_MEMORY,
                f"it needs more than the {self._memory_mb:g} MB that it may use ({text})",
            )
        shown = ""
        if os.environ.get(SHOW_TRACEBACKS) and fault.__cause__ is not None:
            shown = traceback_of(fault.__cause__)[-BYTES // 8 :]
        job = fault.job if is_index(fault.job) else None
        self.send(Message({"fault": [one_line(rule), one_line(text), job], "traceback": shown}))

    def over(self) -> None:
        raise _RunIsOver


class _RunIsOver(BaseException):
    """The results of a run that was only followed are not needed."""


class _NoTime:
    now_s = nan


class _ServedScheduler(TimedScheduler):
    """A scheduler in its process; each answer is sent to where it is judged."""

    def __init__(
        self, scheduler: AnyScheduler, guard: Guard, clock: Clock, send: Callable[[Message], None]
    ) -> None:
        super().__init__(scheduler, guard, is_watched=True)
        self._with_details = guard.decision_log is not None
        self._real_clock, self._send = clock, send

    def _finish(self, problem: SchedulingProblem, answer: Any) -> Message:
        return packed_answer(problem, answer, self._with_details)

    def decide(self, problem: SchedulingProblem) -> Decision:
        asked, n_jobs = self._real_clock.now_s, problem.n_jobs
        message, *seconds = super().decide(problem)
        took = [each if isfinite(each) else None for each in seconds]
        message = Message({**message.fields, "asked": asked, "jobs": n_jobs, "took": took}, message.columns)
        self._send(message)
        return decision_in(message, problem, asked)


def decision_in(message: Message, problem: SchedulingProblem, now_s: float) -> Decision:
    """The decision on a problem. Raises SchedulerFault if it cannot be one."""
    fields = message.fields
    if fields.get("asked") != now_s or fields.get("jobs") != problem.n_jobs:
        raise diverged(now_s)
    try:
        answer = unpacked_answer(message, problem.n_jobs)
        wall_s, cpu_s, gc_s = (nan if seconds is None else float(seconds) for seconds in fields["took"])
    except (BadMessage, KeyError, TypeError, ValueError) as error:
        raise SchedulerFault(
            RETURNS_A_SCHEDULE, f"its answer cannot be read: {one_line(error)}", now_s
        ) from None
    return Decision(answer, wall_s, cpu_s, max(0.0, gc_s))


def _fault(sent: object, now_s: float) -> SchedulerFault:
    match sent:
        case [str(rule), str(text), None | int() as job] if rule in RULES and (job is None or is_index(job)):
            return SchedulerFault(rule, one_line(text), now_s, None if job is None else JobId(job))
        case [str(rule), str(text), _]:
            return SchedulerFault(RAISES_NOTHING, one_line(f"it raised {rule}: {text}"), now_s)
    return SchedulerFault(TESTBED_UNTOUCHED, "its process sent a fault that cannot be read", now_s)


def _answer(
    follow: Callable[[Host], object], name: str, memory_mb: float | None, connection: socket.socket
) -> None:
    answering = _ServingHost(name, connection, memory_mb)
    fault = None
    try:
        follow(answering)
    except (_RunIsOver, ConnectionError, EOFError):
        return  # the run is complete, or the judging side has closed the connection
    except SchedulerFault as found:
        fault = found
    except BaseException as error:
        what = f"{type(error).__name__}: {one_line(error)}"
        text = (
            f"in its process the testbed failed ({what}); does it change objects or modules of the testbed?"
        )
        fault = SchedulerFault(TESTBED_UNTOUCHED, text, 0.0)
    if fault is not None:
        with suppress(OSError):  # the judging side has closed the connection
            answering.faulted(fault)
