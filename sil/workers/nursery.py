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
import time
from contextlib import suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing import process as processes
from pkgutil import resolve_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_REQUEST = struct.Struct("<cqq")
"""What is asked for, the length of a name, and a process."""
_PID = struct.Struct("<q")
_START, _END = b"S", b"E"
_SUBREAPER, _DIES_WITH_PARENT = 36, 1
"""Options of Linux's prctl."""


class NurseryGone(Exception):
    """The nursery has ended: something has killed it."""


class Nursery:
    """The connection to a nursery."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

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


def begun() -> Nursery:
    """Fork a nursery from this process, which has no threads yet."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        try:
            serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    return Nursery(ours)


def serve(connection: socket.socket) -> None:
    """Run in the nursery, until the connection is closed."""
    # Those of the process that it was forked from are no business of a scheduler.
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    _forget_parents()
    os.setsid()
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
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
            kill_descendants(spared=started)
        connection.sendall(_PID.pack(pid))
        started -= _ended(started)
    kill_descendants()


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, so that none escapes. Only Linux can."""
    _prctl(_SUBREAPER, 1)


def end_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends. Only Linux can."""
    _prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def kill_descendants(spared: set[int] | None = None) -> dict[int, int]:
    """Kill all processes that descend from this one, orphans included and those `spared` with all theirs
    excepted, and wait for their end. Returns the wait status of its children."""
    import psutil

    statuses: dict[int, int] = {}
    while found := _descendants(spared or set()):
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        for process in found:
            with suppress(ChildProcessError):  # not a child, but one's descendant
                pid, status = os.waitpid(process.pid, os.WNOHANG)
                if pid:
                    statuses[pid] = status
        time.sleep(0.001)
    return statuses


def _descendants(spared: set[int]) -> list[psutil.Process]:
    import psutil  # takes as long as much of a command

    found = []
    for child in psutil.Process().children():
        if child.pid not in spared:
            found.append(child)
            with suppress(psutil.Error):
                found += child.children(recursive=True)
    return found


def _ended(started: set[int]) -> set[int]:
    return {pid for pid in started if os.waitpid(pid, os.WNOHANG)[0]}


def _be_the_process(place: str, handles: list[int]) -> None:
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
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
