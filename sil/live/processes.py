"""The dispatcher: a run is a process pinned to the cores of its machines; preemption kills it."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Protocol

from scheduler import UserError
from scheduler.model import DispatchOrder, RunId
from scheduler.ports import Clock
from scheduler.rules import NO_DOUBLE_BOOKING
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.guard.faults import SchedulerFault

LONGEST_WAIT_S = 3600.0

Command = Callable[[DispatchOrder], Sequence[str]]
"""The command line for an order."""


@dataclass(frozen=True)
class Over:
    """A run that is over: complete, or killed."""

    order: DispatchOrder
    was_killed: bool
    cpu_s: float
    """CPU time of its process and of the children that this has waited for."""


@dataclass
class _Running:
    order: DispatchOrder
    process: subprocess.Popen[bytes]
    descriptor: int
    """Of the process; readable when it has ended."""


class Runs(Protocol):
    """A dispatcher that reports which runs are over."""

    @property
    def is_idle(self) -> bool: ...

    def dispatch(self, order: DispatchOrder) -> None: ...

    def preempt(self, run: RunId) -> None: ...

    def over(self, within_s: float) -> Iterator[Over]:
        """The runs that have ended since the last call; waits for one at most `within_s`."""
        ...

    def end_all(self) -> None: ...


class JobProcesses:
    """Starts and kills runs; `over` returns those that have ended since the last call.

    Machine j is the core `cores[j]`. A parallel run is one process, which may use all its cores.
    """

    def __init__(self, cores: Sequence[int], command: Command, clock: Clock, trace: TraceRecorder) -> None:
        self._cores = cores
        self._command = command
        self._clock = clock
        self._trace = trace
        self._running: dict[RunId, _Running] = {}
        self._run_on: dict[int, RunId] = {}
        self._selector = selectors.DefaultSelector()
        self.n_ended = 0
        """Number of complete runs."""

    @property
    def is_idle(self) -> bool:
        return not self._running

    def dispatch(self, order: DispatchOrder) -> None:
        """Raises SchedulerFault if a machine is busy, UserError if the job cannot be started."""
        now_s, job = self._clock.now_s, order.job.id
        for j in order.machines:
            if j in self._run_on:
                other = self._running[self._run_on[j]].order.job.id
                message = f"job {job} was dispatched to machine {j} while job {other} runs there"
                raise SchedulerFault(NO_DOUBLE_BOOKING, message, now_s, job)
        with _uninterrupted(), _pinned_to({self._cores[j] for j in order.machines}):
            process = subprocess.Popen(
                self._command(order),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            descriptor = os.pidfd_open(process.pid)
            self._selector.register(descriptor, selectors.EVENT_READ, order.run)
            self._running[order.run] = _Running(order, process, descriptor)
            self._run_on.update(dict.fromkeys(order.machines, order.run))
            self._trace.note_start(now_s, order)

    def preempt(self, run: RunId) -> None:
        """Kill a run; `over` reports its end."""
        running = self._running.get(run)
        if running is not None:
            os.killpg(running.process.pid, signal.SIGKILL)

    def over(self, within_s: float) -> Iterator[Over]:
        """The runs that have ended, by number; waits for one at most `within_s`. Raises UserError."""
        timeout_s = None if within_s == inf else max(0.0, min(within_s, LONGEST_WAIT_S))
        for run in sorted(key.data for key, _ in self._selector.select(timeout_s)):
            yield self._take_off(run)

    def end_all(self) -> None:
        """Kill all runs."""
        for run in list(self._running):
            self.preempt(run)
            self._reap(self._running[run])
        self._running.clear()
        self._run_on.clear()
        self._selector.close()

    def _take_off(self, run: RunId) -> Over:
        running = self._running.pop(run)
        order = running.order
        for j in order.machines:
            del self._run_on[j]
        code, cpu_s = self._reap(running)
        if code not in (0, -signal.SIGKILL):
            command = " ".join(running.process.args)  # type: ignore[arg-type]
            raise UserError(f"job {order.job.id} ended with exit code {code}: {command}")
        now_s, was_killed = self._clock.now_s, code == -signal.SIGKILL
        if was_killed:
            self._trace.note(now_s, Fact.RUN_PREEMPTED, job=order.job.id, run=run, resource=order.resource)
        else:
            self._trace.note_end(now_s, order)
            self.n_ended += 1
        return Over(order, was_killed, cpu_s)

    def _reap(self, running: _Running) -> tuple[int, float]:
        """Wait for a process; returns its exit code (negative: the signal) and CPU time."""
        self._selector.unregister(running.descriptor)
        os.close(running.descriptor)
        _, status, used = os.wait4(running.process.pid, 0)
        running.process.returncode = code = os.waitstatus_to_exitcode(status)
        return code, used.ru_utime + used.ru_stime


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, so that every process that is started is registered, and will be ended."""
    received: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if received:
        raise KeyboardInterrupt


@contextmanager
def _pinned_to(cores: set[int]) -> Iterator[None]:
    """Pin this thread to these cores; processes that it starts inherit that."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
        yield
    except OSError as error:
        raise UserError(f"nothing can be started on {cores}: {error.strerror}") from None
    finally:
        os.sched_setaffinity(0, before)
