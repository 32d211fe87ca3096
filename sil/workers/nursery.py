"""A process that forks others on request, as copies of what it was before anything started threads.

To fork a process with threads is not safe. A command starts its nursery as a new interpreter, which has a
fixed hash seed and imports what runs need; a worker forks one of its own before it has threads. The nursery
ends what the forked processes leave behind when they are killed."""

from __future__ import annotations

import atexit
import ctypes
import importlib
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pkgutil import resolve_name

from sil.workers.descendants import be_prompt, kill_descendants, reaped

LIBRARIES = (
    "scheduler.managers.mapping_manager",
    "scheduler.managers.starting_manager",
    "scipy.special",
    "site_db.site_file.importing",
    "site_db.experience",
    "psutil",
    "sil.workers.supervisor",
)
"""The modules that the nursery of a command imports. Not Polars, which starts threads when it is imported."""
SUPERVISE = "sil.workers.supervisor:supervise"
PREDICTION = ("scheduler.time_shared.loras", "scheduler.time_shared.predictors")
SCHEDULERS = ("scheduler.mapping.pjs", "scheduler.free_nodes.identical_nodes", *PREDICTION)
"""Modules that it imports, too, where it is not known which schedulers will run."""

FIXED_HASH_SEED = {"PYTHONHASHSEED": "0"}
"""Schedulers under test may iterate over sets of strings: the same seed, the same order."""
ANSWERS_WITHIN_S, ENDS_WITHIN_S = 30.0, 15.0
"""The time in which a nursery answers, and in which it ends, in seconds; one that takes longer has been
stopped."""

_PID = struct.Struct("<q")
"""A request: the number of a process to end, or 0 for a new one. Its answer: the number of that process."""
_SUBREAPER, _DIES_WITH_PARENT = 36, 1
"""Options of Linux's prctl."""
_IGNORED = signal.valid_signals() - {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGCHLD,
    *(signal.SIGILL, signal.SIGTRAP, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV),
}


class NurseryGone(Exception):
    """The nursery has ended or does not answer: something has killed or stopped it."""


class Nursery:
    """The connection to a nursery, and a function that kills it."""

    def __init__(self, connection: socket.socket, kill: Callable[[], None]) -> None:
        self._connection = connection
        self._kill = kill
        self._is_ready = False

    def start(self, handle: int) -> int:
        """Fork a supervisor that has a copy of a socket. Returns its process id. Raises NurseryGone."""
        return self._answer(_PID.pack(0), [handle])

    def end(self, pid: int) -> None:
        """Kill a process that it has forked, with all that this has started. Raises NurseryGone."""
        self._answer(_PID.pack(pid), [])

    def abandon(self) -> None:
        """End the nursery, whatever has become of it."""
        self._connection.close()
        with suppress(ProcessLookupError):
            self._kill()

    def end_if_unused(self) -> None:
        """At the end of a command: one that has forked nothing need not finish its imports."""
        if self._is_ready:
            self._connection.close()
        else:
            self.abandon()

    def _answer(self, request: bytes, handles: list[int]) -> int:
        with suppress(OSError):
            if not self._is_ready:  # it imports its libraries
                self._connection.settimeout(None)
                self._is_ready = bool(self._connection.recv(1))
                self._connection.settimeout(ANSWERS_WITHIN_S)
            socket.send_fds(self._connection, [request], handles)
            answer = self._connection.recv(_PID.size, socket.MSG_WAITALL)
            if len(answer) == _PID.size:
                return int(_PID.unpack(answer)[0])
        raise NurseryGone


_nursery: Nursery | None = None
_is_worker = False
"""Whether the descendants of this process are all those of its nursery, whose orphans it adopts."""


def nursery() -> Nursery:
    """The nursery of this process, which is started if there is none."""
    global _nursery
    if _nursery is None:
        _nursery = _started((*LIBRARIES, *SCHEDULERS))
    return _nursery


def begin_early(schedulers: Sequence[str] = SCHEDULERS) -> None:
    """Start the nursery, which imports its libraries and the modules `schedulers` while this process imports
    its own."""
    global _nursery
    if _nursery is None:
        _nursery = _started((*LIBRARIES, *schedulers))


def fork_nursery() -> None:
    """Give this process, a worker which has no threads yet, a nursery of its own."""
    global _nursery, _is_worker
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            _serve(theirs)
        finally:
            os._exit(0)
    theirs.close()
    adopt_orphans()
    _nursery, _is_worker = Nursery(ours, partial(os.kill, pid, signal.SIGKILL)), True


def forget_nursery(gone: Nursery | None = None) -> None:
    """Something has killed or stopped this nursery (None: the present one); the next process gets another."""
    global _nursery
    if _nursery is None or gone not in (None, _nursery):
        return
    _nursery.abandon()
    _nursery = None
    if _is_worker:
        kill_descendants()


def _started(modules: Sequence[str]) -> Nursery:
    ours, theirs = socket.socketpair()
    with theirs:
        call = f"begin({theirs.fileno()}, {tuple(modules)!r})"
        process = new_interpreter(__name__, call, [theirs.fileno()], FIXED_HASH_SEED)

    found = Nursery(ours, process.kill)

    def end() -> None:
        found.end_if_unused()
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:  # a scheduler has stopped it
            process.kill()
            process.wait()

    atexit.register(end)
    return found


def new_interpreter(
    module: str,
    call: str,
    handles: Sequence[int],
    environment: Mapping[str, str],
    within: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    """Start an interpreter that has these descriptors and makes a call of a function of a module; `within` is
    the beginning of its command. It is in a session of its own, since Ctrl-C in the terminal is for the
    command."""
    function = call.partition("(")[0]
    code = f"import sys; sys.path[:] = {sys.path!r}; from {module} import {function}; {call}"
    return subprocess.Popen(
        # -P: the current folder is on the path of modules only if it is on that of this process.
        [*within, sys.executable, "-P", "-c", code],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        pass_fds=handles,
        start_new_session=True,
    )


def begin(handle: int, modules: Sequence[str]) -> None:
    """Run in the new interpreter of a nursery: import `modules`, and serve the socket `handle`."""
    for name in modules:
        with suppress(ImportError):
            importlib.import_module(name)
    _serve(socket.socket(fileno=handle))


def _serve(connection: socket.socket) -> None:
    # Those of the process that it was forked from are no business of a scheduler.
    os.closerange(3, connection.fileno())
    os.closerange(connection.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
    adopt_orphans()
    ignore_signals()
    be_prompt()
    with suppress(ConnectionError):  # the command was killed
        connection.sendall(b".")
        _fork_on_request(connection)
    kill_descendants()


def _fork_on_request(connection: socket.socket) -> None:
    started: set[int] = set()
    while True:
        head, handles, _, _ = socket.recv_fds(connection, _PID.size, 1)
        if len(head) < _PID.size:
            return
        for handle in handles:
            os.set_inheritable(handle, False)
        (pid,) = _PID.unpack(head)
        if pid == 0:
            pid = os.fork()
            if pid == 0:
                connection.close()
                _supervise(handles)
            for handle in handles:
                os.close(handle)
            started.add(pid)
        else:
            started.discard(pid)
            started -= kill_descendants(spared=started).keys()
        connection.sendall(_PID.pack(pid))
        started -= reaped().keys()


def _supervise(handles: list[int]) -> None:
    try:
        resolve_name(SUPERVISE)(*handles)
    finally:
        flush_output()
        os._exit(0)


def ignore_signals() -> None:
    """Ignore signals in a process that holds others: a scheduler may send any signal to its parents."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)


def restore_signals() -> None:
    """Restore the signal handlers of a new Python program."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, so that none escapes."""
    _prctl(_SUBREAPER, 1)


def end_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends."""
    _prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):  # it may be closed, full, or None
            stream.flush()


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
