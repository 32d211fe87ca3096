"""This computer in place of simulated machines: a run is a process, and time is real.

An isolated scheduler answers in a process that carries out the same run (`sil.isolation.judging`). So each
call of the computer is made once, where the run counts, and what it returns is passed on (`Shared`).
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from scheduler import UserError
from scheduler.model import DispatchOrder, JobId, RunId, Site
from sil.isolation.host import Host
from sil.runs import busy
from sil.world.actual_runtimes import ActualRuntimes
from sil.world.events import AnyEvent, EndDue, EventQueue, StateChange
from sil.world.machines.execution import DedicatedMachines

LOOK_EVERY_S = 0.5
"""Interval at which the usable cores are read."""


def usable_cores() -> list[int]:
    """The cores that this process may run on."""
    return sorted(os.sched_getaffinity(0))


def keeping_busy(run_s: float) -> list[str]:
    """The command of a run that takes this many seconds."""
    return [sys.executable, "-S", "-E", str(Path(busy.__file__)), repr(time.monotonic() + run_s)]


@dataclass
class _Running:
    order: DispatchOrder
    process: subprocess.Popen[bytes]
    descriptor: int
    """Refers to the process; readable when it has ended."""


class Computer:
    """Starts and kills runs; machine j is the core `cores[j]`. A parallel run is one process, which may use
    all its cores. `command` is the command line of a run by its seconds. A copy in another process has no
    runs."""

    def __init__(
        self,
        cores: Sequence[int],
        on_ended: Callable[[int], None] = lambda n: None,
        command: Callable[[float], Sequence[str]] = keeping_busy,
    ) -> None:
        """`on_ended` gets the number of complete runs."""
        self.cpu_s: dict[int, float] = {}
        """The CPU time of the last run of each job, and of the children that its process has waited for."""
        self._cores, self._command, self._on_ended = cores, command, on_ended
        self._n_ended = 0
        self._up = [True] * len(cores)
        """A core is up while this process may run on it, which an administrator can change."""
        self._running: dict[RunId, _Running] = {}
        self._selector = selectors.DefaultSelector()
        self._began_s = time.monotonic()

    def __reduce__(self) -> tuple[Any, ...]:
        return Computer, (self._cores,)

    def start(self, order: DispatchOrder, run_s: float) -> None:
        """Start the process of a run. Raises UserError."""
        with _uninterrupted(), _pinned_to({self._cores[j] for j in order.machines}):
            process = subprocess.Popen(
                self._command(run_s),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            descriptor = os.pidfd_open(process.pid)
            self._selector.register(descriptor, selectors.EVENT_READ, order.run)
            self._running[order.run] = _Running(order, process, descriptor)

    def has_exited(self, run: RunId) -> bool:
        process = self._running[run].process
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self, run: RunId) -> bool:
        """End a run, whose process may have exited. Returns whether it was killed. Raises UserError for
        another exit code than 0."""
        if not self.has_exited(run):
            os.killpg(self._running[run].process.pid, signal.SIGKILL)
        running = self._running.pop(run)
        if running.descriptor in self._selector.get_map():
            self._selector.unregister(running.descriptor)
        os.close(running.descriptor)
        process, job = running.process, running.order.job.id
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        if code not in (0, -signal.SIGKILL):
            command = " ".join(process.args)  # type: ignore[arg-type]
            raise UserError(f"job {job} ended with exit code {code}: {command}")
        self.cpu_s[job] = used.ru_utime + used.ru_stime
        if code == 0:
            self._n_ended += 1
            self._on_ended(self._n_ended)
        return code != 0

    def happened(self, until_s: float) -> tuple[float, list[int], list[tuple[int, bool]]] | None:
        """The time, the runs whose processes have exited, and the cores that are usable or no longer; waits
        for one of these, or until a time. None if nothing can happen any more."""
        while self._running or until_s < inf:
            now_s = time.monotonic() - self._began_s
            ready = self._selector.select(max(0.0, min(until_s - now_s, LOOK_EVERY_S)))
            for key, _ in ready:
                self._selector.unregister(key.fd)
            usable = set(usable_cores())
            up = [core in usable for core in self._cores]
            changed = [(j, is_up) for j, is_up in enumerate(up) if is_up != self._up[j]]
            self._up, now_s = up, time.monotonic() - self._began_s
            if ready or changed or now_s >= until_s:
                return now_s, sorted(key.data for key, _ in ready), changed
        return None

    def close(self) -> None:
        """Kill all runs."""
        for run in list(self._running):
            self.end(run)
        self._selector.close()


class Shared:
    """A computer on both sides of a run."""

    def __init__(self, computer: Computer, host: Host) -> None:
        self._computer, self._host = computer, host

    def __call__(self, name: str, *values: Any) -> Any:
        """What the computer's method of this name returns where the run counts."""
        call = getattr(self._computer, name)
        return json.loads(self._host.input(lambda: json.dumps(call(*values)).encode()))


class RealMachines(DedicatedMachines):
    """The cores of a computer as the machines of a site."""

    def __init__(self, computer: Shared, site: Site, actual: ActualRuntimes, events: EventQueue) -> None:
        super().__init__(site, actual, events, [(j,) for j in range(site.n_machines)])
        self._computer = computer
        self._killed: set[RunId] = set()

    def is_active(self, run: RunId) -> bool:
        """Whether a run is active: one that has exited is complete, even if that was not reported yet."""
        return super().is_active(run) and not self._computer("has_exited", run)

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        if self._computer("end", run):
            self._killed.add(run)
        return super().stop(run, now_s)

    def has_failed(self, run: RunId, job: JobId) -> bool:
        return run in self._killed  # by others

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        return []  # processes go on

    def _begin(self, order: DispatchOrder, run_s: float, now_s: float) -> None:
        self._computer("start", order, run_s)


class RealEvents(EventQueue):
    """Events at their real times, among them ends of processes, and changes of cores."""

    def __init__(self, computer: Shared) -> None:
        super().__init__()
        self._computer = computer

    def pop(self) -> tuple[float, AnyEvent]:
        while (found := self._computer("happened", self.next_s)) is not None:
            now_s, runs, changed = found
            for run in runs:
                self.push(now_s, EndDue(RunId(run)))
            for core, up in changed:
                self.push(now_s, StateChange((core,), up))
            if self.next_s <= now_s:
                return now_s, super().pop()[1]
        return super().pop()


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
