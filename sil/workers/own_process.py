"""A process of its own for one call: a worker, a scheduler under test, or another program. It ends with all
that it has started."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Self

from scheduler.rules import RETURNS_A_SCHEDULE, RETURNS_IN_TIME
from sil.workers import channel
from sil.workers.channel import HEAD, BadMessage, Message, unpacked
from sil.workers.descendants import MAX_TASKS, TOO_MANY_TASKS, TOO_MUCH_MEMORY, Limits
from sil.workers.executor import FIRST, Attempt
from sil.workers.nursery import FIXED_HASH_SEED, NurseryGone, forget_nursery, nursery
from sil.workers.supervisor import END, START, SharedMemory, received_status
from sil.world.guard.faults import (
    KEEPS_TO_MEMORY,
    KEEPS_TO_PROCESSES,
    PROCESS_SURVIVES,
    TRIES,
    Died,
    killed_from_outside,
    one_line,
)

LOOK_EVERY_S = 0.2
"""The interval at which deadlines are checked while something is waited for, in seconds."""

SILENT_S = 60.0
"""The time for the testbed's own part of the work between two answers, in seconds, in addition to what it
takes here."""

ENDS_BY_ITSELF_S = 1.0
"""The time for what a scheduler does when its process ends after a complete run, like writing its files, in
seconds."""

ENDS_WITHIN_S = 5.0
"""The time in which a supervisor must end a process, in seconds."""

READS_WITHIN_S = 60.0
"""The time in which a process must take what is sent to it, in seconds."""

FROM_OUTSIDE = {
    -number for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
}
"""Exit codes of a process that may have been ended from outside."""


LIMITED = Limits()
"""The limit of tasks, without one of memory."""


class OwnProcess:
    """A process that makes one call, and the messages that it sends here."""

    def __init__(
        self,
        supervisor: _Supervisor,
        memory: SharedMemory,
        log: Path | None,
        limits: Limits | None,
        attempt: Attempt,
    ) -> None:
        self.supervisor, self._memory, self._attempt = supervisor, memory, attempt
        self._log, self._limits = log, limits
        self._messages, theirs = socket.socketpair()
        self.began_s = time.monotonic()  # before it does: this process may be interrupted
        with theirs:
            supervisor.start(theirs, memory)
        self._unread = bytearray()
        self._takes_nothing = False
        self.n_received = 0
        self.most_s = inf
        """The most time for one answer, in seconds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *others: object) -> None:
        self.close(0.0 if error else ENDS_BY_ITSELF_S)

    def fileno(self) -> int:
        """A descriptor that becomes readable when there is a message, or the process has ended."""
        return self._messages.fileno()

    def receive(self, most_bytes: float) -> Message:
        """Wait for the next message. Raises Died, `from_outside` if that may be an accident: if the process
        was not killed after as many messages in each of several tries."""
        if self._takes_nothing:
            raise Died(PROCESS_SURVIVES, "does not take what is sent to it")
        since_s = time.monotonic()
        while (message := self.received(most_bytes, LOOK_EVERY_S, since_s)) is None:
            pass
        return message

    def received(self, most_bytes: float, within_s: float = 0.0, since_s: float = 0.0) -> Message | None:
        """The next message, if it is here `within_s`; it is awaited `since_s`. Raises as `receive` does."""
        if (message := self._first_unread(most_bytes)) is None:
            self._messages.settimeout(within_s)
            try:
                more = self._messages.recv(1 << 16)
            except (TimeoutError, BlockingIOError):
                self._check_time(since_s)
                return None
            except OSError:
                more = b""
            if not more:
                raise self._ended()
            self._unread += more
            self._check_time(since_s)
            message = self._first_unread(most_bytes)
        self.n_received += message is not None
        return message

    def send(self, message: Message) -> None:
        """Send a message; if the process has ended, or does not take it, the next `receive` says so."""
        if self._takes_nothing:
            return
        self._messages.settimeout(READS_WITHIN_S)
        try:
            channel.send(self._messages, message)
        except TimeoutError:
            self._takes_nothing = True
        except OSError:
            pass

    def handed_over(self) -> str | None:
        """The result of `execute`: None as soon as the program is running, or why it cannot be run."""
        self._messages.settimeout(SILENT_S)
        found = bytearray()
        try:
            while more := self._messages.recv(1 << 16):
                found += more
        except TimeoutError:
            return "it does not begin"
        return found.decode(errors="replace") or None

    def how_it_ended(self) -> str | None:
        """How the process has ended, as a sentence; None while it is running."""
        if not self.wait(0.0):
            return None
        status = self.supervisor.status()
        how = "was killed" if status is None else f"ended with exit code {status}"
        return f"its process {how}{last_line(self._log)}"

    def wait(self, for_s: float) -> bool:
        """Wait until it ends by itself, for some time. Returns whether it has."""
        return self.supervisor.wait(for_s)

    def close(self, by_itself_s: float = 0.0) -> None:
        """End the process, perhaps after time to end by itself, and all that it has started. Closing it again
        does nothing: its supervisor may have another process by then."""
        if self.fileno() == -1:
            return
        self._messages.close()
        if self._memory.deadline_s == 0.0:  # not within a decision
            self.supervisor.wait(by_itself_s)
        self._memory.close()
        self.supervisor.status()
        if self.supervisor.is_alive:
            _idle.append(self.supervisor)

    def _first_unread(self, most_bytes: float) -> Message | None:
        unread = self._unread
        if len(unread) < HEAD.size:
            return None
        n_fields, n_columns = HEAD.unpack_from(unread)
        end = HEAD.size + n_fields + n_columns
        if end > most_bytes:
            text = f"an answer has {end:,} bytes where {most_bytes:,} are allowed"
            raise Died(RETURNS_A_SCHEDULE, "sends too much", text)
        if len(unread) < end:
            return None
        fields, columns = bytes(unread[HEAD.size : end - n_columns]), bytes(unread[end - n_columns : end])
        del unread[:end]
        try:
            return unpacked(fields, columns)
        except BadMessage as error:
            text = f"a message of its process cannot be read: {error}"
            raise Died(RETURNS_A_SCHEDULE, "sends what cannot be read", text) from None

    def _check_time(self, since_s: float) -> None:
        """Raise Died if a decision has passed its deadline or, outside of any, nothing happens. The
        process writes its deadlines itself, so they count up to `most_s` only. A worker may take any time."""
        now_s, deadline_s = time.monotonic(), self._memory.deadline_s
        own_s = since_s - self.began_s  # time for the testbed's own part
        if deadline_s > 0.0:
            if min(deadline_s, since_s + self.most_s + own_s) < now_s:
                text = "it did not return in time, nor could it be interrupted: its process was ended"
                raise Died(RETURNS_IN_TIME, "was ended, since a decision did not return in time", text)
        elif self._limits is not None and now_s - since_s > SILENT_S + own_s:
            raise Died(PROCESS_SURVIVES, f"has been silent for {now_s - since_s:.0f} s")

    def _ended(self) -> Died:
        if not self.supervisor.wait(ENDS_WITHIN_S):
            return Died(PROCESS_SURVIVES, "closed its connection before the end of the run")
        status = self.supervisor.status()
        if status is None or status in FROM_OUTSIDE:
            by = "its supervisor ended" if status is None else f"signal {-status}"
            place = self._log, self.n_received
            if self._attempt.dies_each_time(place):
                where = f"after {self.n_received:,} answers" if self.n_received else "before its first answer"
                how = f"was killed ({by}) {where}, in each of {TRIES} tries"
                return Died(PROCESS_SURVIVES, how + last_line(self._log))
            return killed_from_outside(by, place)
        if self._limits is not None and status in (TOO_MUCH_MEMORY, TOO_MANY_TASKS):
            rule, text = KEEPS_TO_PROCESSES, f"it has more than {MAX_TASKS:,} processes and threads"
            if status == TOO_MUCH_MEMORY:
                rule, most = KEEPS_TO_MEMORY, f"{self._limits.memory_mb:g} MB"
                text = f"it and its children need more than the {most} that they may use"
            return Died(rule, "was ended at a limit", text)
        if status < 0:
            how = f"was ended by signal {-status} ({signal.Signals(-status).name})"
        elif status > 0:
            how = f"ended with exit code {status}"
        else:
            how = "ended with exit code 0 before the end of the run"
        return Died(PROCESS_SURVIVES, how + last_line(self._log))


class _Supervisor:
    """The parent of one process at a time (see `sil.workers.supervisor`)."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        self._nursery = nursery()
        self._pid = self._nursery.start(theirs.fileno())
        theirs.close()
        self._is_in_use = False
        self._status: int | None = None
        self.is_alive = True

    def start(self, answers: socket.socket, memory: SharedMemory) -> None:
        """Start a process. Raises OSError if the supervisor has ended, or was stopped."""
        self._control.settimeout(READS_WITHIN_S)
        socket.send_fds(self._control, [START], [answers.fileno(), memory.handle])
        self._is_in_use, self._status = True, None

    def wait(self, for_s: float) -> bool:
        """Wait until the process ends by itself, for some time. Returns whether it has."""
        return not self._is_in_use or bool(select.select([self._control], [], [], for_s)[0])

    def status(self) -> int | None:
        """How the process has ended, once it has; None if the supervisor has ended."""
        if self._is_in_use:
            self._control.settimeout(ENDS_WITHIN_S)
            with suppress(OSError):
                self._control.sendall(END)
            self._status = received_status(self._control)
            self._is_in_use = False
            if self._status is None:
                self.close()
        return self._status

    def close(self) -> None:
        if self.is_alive:
            self.is_alive = False
            self._control.close()
            try:
                self._nursery.end(self._pid)
            except NurseryGone:
                forget_nursery(self._nursery)


_idle: list[_Supervisor] = []
"""Supervisors of this process that have no process to supervise."""


def own_process(
    call: Callable[[socket.socket], None],
    modules: tuple[str, ...] = (),
    log: Path | None = None,
    limits: Limits | None = LIMITED,
    own_modules: str | None = None,
    attempt: Attempt = FIRST,
) -> OwnProcess:
    """A process that makes a call with its socket, in this folder and environment; for the other parameters
    see `ProcessStart`. All that it starts ends with it, at the end of a `with` statement or when it is
    closed. Raises Died."""
    printed = None if log is None else log.absolute()
    environment, path = {**os.environ, **FIXED_HASH_SEED}, tuple(sys.path)
    memory = SharedMemory.of(call, os.getcwd(), environment, path, modules, printed, limits, own_modules)
    try:
        while _idle:
            supervisor = _idle.pop()
            try:
                return OwnProcess(supervisor, memory, printed, limits, attempt)
            except OSError:  # it has ended since it was used
                supervisor.close()
        for _ in range(2):
            try:
                return OwnProcess(_Supervisor(), memory, printed, limits, attempt)
            except NurseryGone:
                forget_nursery()  # an earlier scheduler has killed or stopped it
        raise killed_from_outside("its nursery ended", object())
    except BaseException:
        memory.close()
        raise


def execute(command: Sequence[str], connection: socket.socket) -> None:
    """Become another program. If that is not possible, the reason is sent."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], list(command))
    except OSError as error:
        connection.sendall((error.strerror or str(error)).encode())


def last_line(log: Path | None) -> str:
    """What a process has printed last, for a message."""
    if log is None or not log.is_file():
        return ""
    printed = log.read_text(errors="replace").strip().splitlines()[-1:]
    return f" and this last line of output: {one_line(printed[0])} (see {log})" if printed else ""
