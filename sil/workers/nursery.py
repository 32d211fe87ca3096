"""A process that forks others on request, as copies of what this one was before it started threads.

To fork a process with threads is not safe, and Python's fork server cannot be used by the processes that it
has started, so each worker begins with a nursery of its own. What the forked processes leave behind when they
are killed, the nursery ends.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import forkserver, resource_tracker
from multiprocessing import process as processes
from pkgutil import resolve_name

from sil.workers.descendants import be_prompt, kill_descendants, reaped

_REQUEST = struct.Struct("<cqq")
"""What is asked for, the length of a name, and a process."""
_PID = struct.Struct("<q")
_START, _END = b"S", b"E"
_SUBREAPER, _DIES_WITH_PARENT = 36, 1
"""Options of Linux's prctl."""
_IGNORED = signal.valid_signals() - {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGCHLD,
    *(signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV),
}
ANSWERS_WITHIN_S = 30.0
"""A nursery that takes longer has been stopped."""


class NurseryGone(Exception):
    """The nursery has ended or does not answer: something has killed or stopped it."""


class Nursery:
    """The connection to a nursery, and a function that kills it."""

    def __init__(self, connection: socket.socket, kill: Callable[[], None]) -> None:
        connection.settimeout(ANSWERS_WITHIN_S)
        self._connection = connection
        self._kill = kill

    def start(self, place: str, handles: list[int]) -> int:
        """Fork a process that calls the function at `place` ("module:function") with its copies of `handles`.
        Returns its process id. Raises NurseryGone."""
        name = place.encode()
        request = _REQUEST.pack(_START, len(name), 0)
        with suppress(OSError):
            socket.send_fds(self._connection, [request + name], handles)
            answer = self._connection.recv(_PID.size, socket.MSG_WAITALL)
            if len(answer) == _PID.size:
                return int(_PID.unpack(answer)[0])
        raise NurseryGone

    def end(self, pid: int) -> None:
        """Kill a process that it has forked, with all that this has started. Raises NurseryGone."""
        with suppress(OSError):
            self._connection.sendall(_REQUEST.pack(_END, 0, pid))
            if self._connection.recv(_PID.size, socket.MSG_WAITALL):
                return
        raise NurseryGone

    def abandon(self) -> None:
        """End it, whatever has become of it."""
        self._connection.close()
        with suppress(ProcessLookupError):
            self._kill()


def begun() -> Nursery:
    """Fork a nursery from this process, which has no threads yet."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    return Nursery(ours, partial(os.kill, pid, signal.SIGKILL))


def serve(connection: socket.socket) -> None:
    """Run in the nursery, until the connection is closed."""
    # Those of the process that it was forked from are no business of a scheduler.
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    _forget_parents()
    os.setsid()
    adopt_orphans()
    ignore_signals()
    be_prompt()
    started: set[int] = set()
    while True:
        head, handles, _, _ = socket.recv_fds(connection, _REQUEST.size, 16)
        if len(head) < _REQUEST.size:
            break
        for handle in handles:
            os.set_inheritable(handle, False)
        what, n_letters, pid = _REQUEST.unpack(head)
        if what == _START:
            place = connection.recv(n_letters, socket.MSG_WAITALL).decode()
            pid = os.fork()
            if pid == 0:
                connection.close()
                _be_the_process(place, handles)
            for handle in handles:
                os.close(handle)
            started.add(pid)
        else:
            started.discard(pid)
            started -= kill_descendants(spared=started).keys()
        connection.sendall(_PID.pack(pid))
        started -= reaped().keys()
    kill_descendants()


def ignore_signals() -> None:
    """For processes that hold others: a scheduler may send any signal to its parents."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


def restore_signals() -> None:
    """As in a new Python program."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, so that none escapes. Only Linux can."""
    _prctl(_SUBREAPER, 1)


def end_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends. Only Linux can."""
    _prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _be_the_process(place: str, handles: list[int]) -> None:
    try:
        resolve_name(place)(*handles)
    finally:
        flush_output()
        os._exit(0)


def flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):  # it may be closed, full, or None
            stream.flush()


def _forget_parents() -> None:
    """Python's multiprocessing is as in a new program, since the servers and the parent of this process are
    behind handles that are closed now. A scheduler may use it."""
    processes._parent_process = None  # type: ignore[attr-defined]
    processes._children.clear()  # type: ignore[attr-defined]
    tracker = resource_tracker._resource_tracker
    tracker._fd = tracker._pid = None  # type: ignore[attr-defined]
    forkserver._forkserver = forkserver.ForkServer()
    for name in ("ensure_running", "get_inherited_fds", "connect_to_new_process", "set_forkserver_preload"):
        setattr(forkserver, name, getattr(forkserver._forkserver, name))
    multiprocessing.set_start_method(None, force=True)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
