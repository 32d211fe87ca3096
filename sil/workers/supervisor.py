"""The parent of one process at a time: it writes what the process prints into a log of limited size, watches
its limits, and ends it together with everything that it has started.

The parent is disposable: a scheduler that stops or kills it disturbs its own run only. It imports what runs
need, but no scheduler under test, so that each process begins as a fresh copy within milliseconds. A copy
lacks the threads that libraries like Polars start when they are imported: the parent forks while these are
idle, and does not use the libraries.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import pickle
import select
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from io import IOBase
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from scheduler.messages import printable
from sil.workers.descendants import (
    LOOK_EVERY_S,
    Limits,
    Watch,
    be_prompt,
    is_running,
    kill_descendants,
    reaped,
    tasks,
)
from sil.workers.nursery import adopt_orphans, end_with_parent, flush_output, ignore_signals, restore_signals
from sil.world.guard.decision_time import announce_deadlines_to

THREADS_IDLE_WITHIN_S = 10.0
"""The time that threads of libraries have to come to rest, in seconds, before a process is forked anyway."""

MAX_OUTPUT = 1_000_000
"""The largest size of a log, in bytes."""

CUT = b"\n... (more was printed than a log takes)\n"

START, END = b"S", b"."
"""Requests: for a process, with its socket and its memory; and once for each, to end it if it has not."""

ALIGNED = 64
"""Arrays begin at multiples of this number of bytes."""

_STATUS = struct.Struct("<i")
_TIME = struct.Struct("<d")


class ProcessStart(NamedTuple):
    """What a process does: `call` is a pickled function of its socket, in a folder and with an environment,
    with modules found along `path`, and in `own_modules` when all others are imported. Its large arrays, of
    these sizes, follow in the memory of the process. The supervisor imports `modules` once, for this and
    later processes.

    Its output goes into the file `log`, or else to the terminal.
    """

    call: bytes
    sizes: tuple[int, ...]
    folder: str
    environment: dict[str, str]
    path: tuple[str, ...]
    modules: tuple[str, ...]
    log: Path | None
    limits: Limits | None
    own_modules: str | None


class SharedMemory:
    """What a process shares with the one that asks for it, in a file in memory: a deadline, its
    `ProcessStart`, and large arrays."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self._deadline = mmap(handle, ALIGNED)

    @classmethod
    def of(cls, call: Callable[[socket.socket], None], *settings: Any) -> SharedMemory:
        """New memory; `settings` are the other fields of `ProcessStart`."""
        buffers: list[pickle.PickleBuffer] = []
        text = pickle.dumps(call, protocol=5, buffer_callback=buffers.append)
        arrays = [buffer.raw() for buffer in buffers]
        handle = os.memfd_create("sil")
        with open(handle, "wb", closefd=False) as file:
            file.write(bytes(ALIGNED))
            pickle.dump(ProcessStart(text, tuple(array.nbytes for array in arrays), *settings), file)
            for array in arrays:
                file.write(bytes(-file.tell() % ALIGNED))
                file.write(array)
        return cls(handle)

    @property
    def deadline_s(self) -> float:
        """The deadline, a time of `time.monotonic`; 0 = none."""
        return float(_TIME.unpack_from(self._deadline)[0])

    def set_deadline(self, at_s: float) -> None:
        _TIME.pack_into(self._deadline, 0, at_s)

    def start(self) -> ProcessStart:
        with open(self.handle, "rb", closefd=False) as file:
            file.seek(ALIGNED)
            start: ProcessStart = pickle.load(file)
            self._at = file.tell()
        return start

    def call(self, start: ProcessStart) -> Callable[[socket.socket], None]:
        """The function that the process calls, with arrays that it may change."""
        views, at = [], self._at
        if start.sizes:
            shared = memoryview(mmap(self.handle, 0, access=ACCESS_COPY))
            for size in start.sizes:
                at += -at % ALIGNED
                views.append(shared[at : at + size])
                at += size
        found: Callable[[socket.socket], None] = pickle.loads(start.call, buffers=views)
        return found

    def close(self) -> None:
        os.close(self.handle)
        self._deadline.close()


def received_status(control: socket.socket) -> int | None:
    """How the process has ended: its exit code, minus the signal, or the limit that it exceeded
    (`sil.workers.descendants`). None if the supervisor has ended, or does not answer in time."""
    with suppress(OSError):
        found = control.recv(_STATUS.size, socket.MSG_WAITALL)
        if len(found) == _STATUS.size:
            return int(_STATUS.unpack(found)[0])
    return None


def supervise(handle: int) -> None:
    """Run in the parent: start processes as they are asked for, until the socket `handle` is closed."""
    os.setsid()
    adopt_orphans()
    ignore_signals()
    be_prompt()
    control = socket.socket(fileno=handle)
    control.setblocking(True)
    with suppress(ConnectionError):
        while True:
            asked, handles, _, _ = socket.recv_fds(control, len(START), 2)
            if not asked:
                return
            for handle in handles:
                os.set_inheritable(handle, False)
            memory = SharedMemory(handles[1])
            start = memory.start()
            for name in start.modules:
                importlib.import_module(name)
            gc.freeze()  # no process searches what is loaded by now
            _wait_for_threads(control)
            status, is_told = _carried_out(start, socket.socket(fileno=handles[0]), memory, control)
            control.sendall(_STATUS.pack(status))
            if not is_told and control.recv(1) != END:
                return


def _wait_for_threads(control: socket.socket) -> None:
    """Wait until no other thread of this process is running: a lock that one of them holds while this process
    forks is never released in the copy. Ends when `control` says something."""
    ours, until_s = os.getpid(), time.monotonic() + THREADS_IDLE_WITHIN_S
    while any(is_running(task) for task in tasks(ours) if int(task) != ours):
        if time.monotonic() > until_s or select.select([control], [], [], 0.001)[0]:
            return


def _carried_out(
    start: ProcessStart, answers: socket.socket, memory: SharedMemory, control: socket.socket
) -> tuple[int, bool]:
    """Start a process, and end it when it is over or `control` says so. Returns how it has ended, and whether
    `control` said so."""
    printed, printing = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        os.close(printed)
        control.close()
        end_with_parent(parent)
        _be_the_process(start, answers, memory, printing)
    os.close(printing)
    memory.close()
    answers.close()
    output = _Output(start.log)
    statuses: dict[int, int] = {}
    broken = None
    watch = None if start.limits is None else Watch(child, start.limits, sum(start.sizes))
    ended = os.pidfd_open(child)  # which becomes readable then
    waiting: list[Any] = [printed, control, ended]
    ready: list[Any] = []
    while not (control in ready or child in statuses or broken is not None):
        ready, _, _ = select.select(waiting, [], [], LOOK_EVERY_S)
        if printed in ready and not output.take(os.read(printed, 1 << 16)):
            waiting.remove(printed)
        statuses |= reaped()
        broken = None if watch is None else watch.broken()
    os.close(ended)
    is_told = control in ready
    if is_told:
        control.recv(1)
    statuses |= kill_descendants()
    os.set_blocking(printed, False)
    with suppress(BlockingIOError):
        while output.take(os.read(printed, 1 << 16)):
            pass  # its writers have ended
    os.close(printed)
    output.close()
    if broken is not None:
        return broken, is_told
    return os.waitstatus_to_exitcode(statuses.get(child, int(signal.SIGKILL))), is_told


class _Output:
    """What a process prints: the first part of it, in a file that exists if there is any, or on the terminal,
    where it is nothing but text."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: Any = None
        self._room = MAX_OUTPUT

    def take(self, data: bytes) -> bool:
        """Whether there was any."""
        if data and self._room:
            taken, self._room = data[: self._room], max(0, self._room - len(data))
            try:
                if self._path is None:
                    self._file = sys.stderr.buffer
                    lines = taken.decode(errors="replace").splitlines()
                    taken = b"".join(printable(line).encode() + b"\n" for line in lines)
                elif self._file is None:
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    self._file = self._path.open("wb")
                self._file.write(taken if self._room else taken + CUT)
                self._file.flush()
            except (OSError, AttributeError):  # it cannot be written, or there is no terminal
                self._room = 0
        return bool(data)

    def close(self) -> None:
        if self._file is not None and self._path is not None:
            with suppress(OSError):
                self._file.close()


def _be_the_process(
    start: ProcessStart, answers: socket.socket, memory: SharedMemory, printing: int
) -> NoReturn:
    code = 1
    try:
        restore_signals()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, handle in ((0, nothing), (1, printing), (2, printing)):
            os.dup2(handle, number)
        os.close(printing)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (for as long as the process)
        announce_deadlines_to(memory.set_deadline)
        os.chdir(start.folder)
        os.environ.clear()
        os.environ.update(start.environment)
        atexit._clear()  # what the testbed has registered
        sys.path[:] = start.path
        if start.limits is not None:
            start.limits.impose()
        call = memory.call(start)  # which imports modules of the testbed
        if start.own_modules is not None:
            sys.path.append(start.own_modules)
        call(answers)
        atexit._run_exitfuncs()
        for found in gc.get_objects():
            if issubclass(type(found), IOBase):
                with suppress(BaseException):
                    found.flush()
        code = 0
    except BaseException:
        with suppress(BaseException):
            traceback.print_exc()
    finally:
        flush_output()
        os._exit(code)
