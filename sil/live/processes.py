"""The dispatcher: a run is a process, pinned to the cores of its machines; preempted, it is killed."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from scheduler.errors import UserError
from scheduler.model import DispatchOrder, RunId
from scheduler.ports import Clock
from scheduler.rules import NO_DOUBLE_BOOKING
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.guard.faults import SchedulerFault

LONGEST_WAIT_S = 3600.0

Command = Callable[[DispatchOrder], Sequence[str]]
"""What is executed for an order."""


@dataclass(frozen=True)
class Over:
    """A run that is over: by itself, or as it was told to be."""

    order: DispatchOrder
    was_killed: bool
    cpu_s: float
    """CPU time of its process, and of those that this waited for."""


class CannotRunLive(UserError):
    """An experiment cannot be run on this computer. The message is one sentence for the user."""


class JobFailed(UserError):
    """A job's process could not be started, or ended with an error. The message is one sentence."""


@dataclass
class _Running:
    order: DispatchOrder
    process: subprocess.Popen[bytes]
    descriptor: int
    """Of the process; readable once it has ended."""


class Processes:
    """Starts runs and kills them; `over` tells which have come to their end since it was asked last.

    Machine j is the core `cores[j]`. A parallel run is one process, which may use the cores of all its
    machines.
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
        """How many have come to their end by themselves."""

    @property
    def is_idle(self) -> bool:
        return not self._running

    def dispatch(self, order: DispatchOrder) -> None:
        """Raises SchedulerFault where a machine is busy, JobFailed where the job cannot be started."""
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
        """Kill it; that it is gone is told by `over`."""
        running = self._running.get(run)
        if running is not None:
            os.killpg(running.process.pid, signal.SIGKILL)

    def over(self, within_s: float) -> Iterator[Over]:
        """The runs that have ended, in the order of their numbers; waits for one at most so long.

        Raises JobFailed.
        """
        timeout_s = None if within_s == inf else max(0.0, min(within_s, LONGEST_WAIT_S))
        for run in sorted(key.data for key, _ in self._selector.select(timeout_s)):
            yield self._take_off(run)

    def end_all(self) -> None:
        """Whatever still runs is killed."""
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
            raise JobFailed(f"job {order.job.id} ended with exit code {code}: {command}")
        now_s, was_killed = self._clock.now_s, code == -signal.SIGKILL
        if was_killed:
            self._trace.note(now_s, Fact.RUN_PREEMPTED, job=order.job.id, run=run, resource=order.resource)
        else:
            self._trace.note_end(now_s, order)
            self.n_ended += 1
        return Over(order, was_killed, cpu_s)

    def _reap(self, running: _Running) -> tuple[int, float]:
        """Exit code (negative: the signal) and CPU time of a process that has ended, or is about to."""
        self._selector.unregister(running.descriptor)
        os.close(running.descriptor)
        _, status, used = os.wait4(running.process.pid, 0)
        running.process.returncode = code = os.waitstatus_to_exitcode(status)
        return code, used.ru_utime + used.ru_stime


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is heard when this is over: a process that has begun is one that will be ended."""
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


@contextmanager
def _pinned_to(cores: set[int]) -> Iterator[None]:
    """What is started meanwhile is pinned to these cores: it inherits that from this thread."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
        yield
    except OSError as error:
        raise JobFailed(f"nothing can be started on {cores}: {error.strerror}") from None
    finally:
        os.sched_setaffinity(0, before)
