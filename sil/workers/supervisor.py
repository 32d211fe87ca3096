"""The parent of one process at a time: it writes what the process prints into a log of limited size, watches
its limits, and ends it together with everything that it has started.

The parent is disposable: a scheduler that stops or kills it disturbs its own run only. It imports what runs
need, but no scheduler under test, so that each process begins as a fresh copy within milliseconds. Nothing
uses Polars in the parent: it starts its threads when it is used first, and a copy would wait for them.
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
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import IOBase
from mmap import ACCESS_COPY, mmap
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, NoReturn

from scheduler.messages import printable
from sil.workers.descendants import be_prompt, kill_descendants, reaped
from sil.workers.limits import LOOK_EVERY_S, Limits, Watch
from sil.workers.nursery import (
    adopt_orphans,
    end_with_parent,
    flush_output,
    ignore_signals,
    restore_signals,
)
from sil.world.guard.time_limit import announce_deadlines_to

MOST_OUTPUT = 1_000_000
"""Bytes of a log."""

CUT = b"\n... (more was printed than a log takes)\n"

END = b"."

ALIGNED = 64
"""Bytes; arrays begin at multiples."""

_SIZE = struct.Struct("<Q")
_STATUS = struct.Struct("<i")
_TIME = struct.Struct("<d")


class Deadline:
    """A time of `time.monotonic` in memory that two processes share; 0 = none."""

    def __init__(self, handle: int) -> None:
        self._memory = mmap(handle, _TIME.size)

    @classmethod
    def handle(cls) -> int:
        """New memory, as a file."""
        handle = file_in_memory()
        os.truncate(handle, _TIME.size)
        return handle

    @property
    def at_s(self) -> float:
        return float(_TIME.unpack_from(self._memory)[0])

    def set(self, at_s: float) -> None:
        _TIME.pack_into(self._memory, 0, at_s)


class Start(NamedTuple):
    """What a process does: `call` is a pickled function of its socket, in a folder and with an environment,
    with modules found along `path`, and in `own_modules` when all others are imported. Its large arrays, of
    these sizes, are in memory that the process shares with the one that asks for it. The supervisor imports
    `modules` once, for this and later processes.

    Its output goes into the file `log`, or else to the terminal.
    """

    call: bytes
    arrays: tuple[int, ...]
    folder: str
    environment: dict[str, str]
    path: tuple[str, ...]
    modules: tuple[str, ...] = ()
    log: Path | None = None
    limits: Limits | None = None
    own_modules: str | None = None


def file_in_memory() -> int:
    """Outside Linux it is on disk, under no name."""
    if sys.platform == "linux":
        return os.memfd_create("sil")
    with TemporaryFile() as file:
        return os.dup(file.fileno())


def pickled(call: Callable[[socket.socket], None]) -> tuple[bytes, tuple[int, ...], int]:
    """A call, the sizes of its large arrays, and a file in memory that has these."""
    arrays: list[pickle.PickleBuffer] = []
    text = pickle.dumps(call, protocol=5, buffer_callback=arrays.append)
    memory = file_in_memory()
    with open(memory, "wb", closefd=False) as file:
        for array in arrays:
            file.write(array.raw())
            file.write(bytes(-file.tell() % ALIGNED))
    return text, tuple(array.raw().nbytes for array in arrays), memory


def _unpickled(start: Start, memory: int) -> Callable[[socket.socket], None]:
    views, at = [], 0
    if start.arrays:
        shared = memoryview(mmap(memory, 0, access=ACCESS_COPY))
        for size in start.arrays:
            views.append(shared[at : at + size])
            at += size + -size % ALIGNED
    found: Callable[[socket.socket], None] = pickle.loads(start.call, buffers=views)
    return found


def send_start(control: socket.socket, start: Start, answers: socket.socket, memory: int) -> None:
    """Ask the supervisor at the other end of `control` for a process that has the socket `answers`, with
    large arrays in the file `memory`."""
    text = pickle.dumps(start)
    socket.send_fds(control, [_SIZE.pack(len(text))], [answers.fileno(), memory])
    control.sendall(text)


def send_end(control: socket.socket) -> None:
    """Once for each process, end it unless it has ended."""
    control.sendall(END)


def received_status(control: socket.socket) -> int | None:
    """How the process has ended: its exit code, minus the signal, or the limit that it exceeded
    (`sil.workers.limits`). None if the supervisor has ended, or does not answer in time."""
    with suppress(OSError):
        found = control.recv(_STATUS.size, socket.MSG_WAITALL)
        if len(found) == _STATUS.size:
            return int(_STATUS.unpack(found)[0])
    return None


def supervise(control_handle: int, deadline_handle: int) -> None:
    """Run in the parent: start processes as they are asked for, until the socket `control_handle` is closed.
    Deadlines are written into the memory `deadline_handle`."""
    os.setsid()
    adopt_orphans()
    ignore_signals()
    be_prompt()
    control = socket.socket(fileno=control_handle)
    control.setblocking(True)
    deadline = Deadline(deadline_handle)
    with suppress(ConnectionError):
        while (asked := _received_start(control)) is not None:
            for name in asked[0].modules:
                importlib.import_module(name)
            gc.freeze()  # no process searches what is loaded by now
            status, is_told = _carried_out(*asked, control, deadline)
            control.sendall(_STATUS.pack(status))
            if not is_told and control.recv(1) != END:
                return


def _received_start(control: socket.socket) -> tuple[Start, socket.socket, int] | None:
    head, handles, _, _ = socket.recv_fds(control, _SIZE.size, 2)
    if not head:
        return None
    for handle in handles:
        os.set_inheritable(handle, False)
    text = bytearray()
    (size,) = _SIZE.unpack(head)
    while len(text) < size:
        part = control.recv(size - len(text))
        if not part:
            return None
        text += part
    return pickle.loads(text), socket.socket(fileno=handles[0]), handles[1]


def _carried_out(
    start: Start, answers: socket.socket, memory: int, control: socket.socket, deadline: Deadline
) -> tuple[int, bool]:
    """Start a process, and end it when it is over or `control` says so. Returns how it has ended, and whether
    `control` said so."""
    deadline.set(0.0)
    printed, printing = os.pipe()
    parent, child = os.getpid(), os.fork()
    if child == 0:
        os.close(printed)
        control.close()
        end_with_parent(parent)
        _be_the_process(start, answers, memory, printing, deadline)
    os.close(printing)
    os.close(memory)
    answers.close()
    output = _Output(start.log)
    statuses: dict[int, int] = {}
    broken = None
    watch = None if start.limits is None else Watch(child, start.limits, sum(start.arrays))
    with _end_of(child) as ended:
        waiting: list[Any] = [printed, control, *ended]
        ready: list[Any] = []
        while not (control in ready or child in statuses or broken is not None):
            ready, _, _ = select.select(waiting, [], [], LOOK_EVERY_S)
            if printed in ready and not output.take(os.read(printed, 1 << 16)):
                waiting.remove(printed)
            statuses |= reaped()
            broken = None if watch is None else watch.broken()
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


@contextmanager
def _end_of(child: int) -> Iterator[list[int]]:
    """What becomes readable when a child has ended; outside Linux there is nothing like that, and whether it
    has is looked for from time to time."""
    if sys.platform != "linux":
        yield []
        return
    handle = os.pidfd_open(child)
    try:
        yield [handle]
    finally:
        os.close(handle)


class _Output:
    """What a process prints: the first part of it, in a file that exists if there is any, or on the terminal,
    where it is nothing but text."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: Any = None
        self._room = MOST_OUTPUT

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
    start: Start, answers: socket.socket, memory: int, printing: int, deadline: Deadline
) -> NoReturn:
    """Run in the forked process. Never returns."""
    code = 1
    try:
        restore_signals()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, handle in ((0, nothing), (1, printing), (2, printing)):
            os.dup2(handle, number)
        os.close(printing)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 (for as long as the process)
        announce_deadlines_to(deadline.set)
        os.chdir(start.folder)
        os.environ.clear()
        os.environ.update(start.environment)
        atexit._clear()  # what the testbed has registered
        sys.path[:] = start.path
        if start.limits is not None:
            start.limits.impose()
        call = _unpickled(start, memory)  # which imports modules of the testbed
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
