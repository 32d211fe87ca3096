"""The processes that descend from this one: how many there are, and their end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress

KILL_WITHIN_S = 10.0
"""The kernel does not end a process that waits for a device."""


def reaped() -> dict[int, int]:
    """The wait statuses of the children of this process that have ended since they were asked for last.
    Orphans that it has adopted are among them, and would remain as zombies."""
    statuses: dict[int, int] = {}
    with _like_others(), suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            statuses[found[0]] = found[1]
    return statuses


@contextmanager
def _like_others() -> Iterator[None]:
    """Without the priority of `be_prompt`: until the last thread of an ended process has left the kernel, to
    reap the process is a busy loop there, which would keep that thread from running for a second."""
    is_prompt = sys.platform == "linux" and os.sched_getscheduler(0) & os.SCHED_RR
    if is_prompt:
        os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    try:
        yield
    finally:
        if is_prompt:
            be_prompt()


def _has_ended(child: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return True


def kill_descendants(spared: Collection[int] = ()) -> dict[int, int]:
    """Kill all processes that descend from this one, orphans included and those `spared` with all theirs
    excepted, and wait for their end. Returns the wait statuses of its children.

    Where this process adopts orphans, only children are killed, whose own then become children: the number of
    a child is not used again before it is reaped here, while that of another process may be, at any time.
    """
    statuses = reaped()
    until_s = time.monotonic() + KILL_WITHIN_S
    while time.monotonic() < until_s:
        found = _children(os.getpid()) if sys.platform == "linux" else [*descendants(spared)]
        found = [pid for pid in found if pid not in spared]
        if not found:
            break
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.0005)
        if sys.platform != "linux" or all(map(_has_ended, found)):
            statuses |= reaped()
    return statuses


def be_prompt() -> None:
    """Let this process run before all that it starts, however many that are, if the system permits it."""
    if sys.platform == "linux":
        with suppress(OSError):
            policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
            os.sched_setscheduler(0, policy, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))


def descendants(spared: Collection[int] = ()) -> Iterator[int]:
    """The processes that descend from this one, without those `spared` and theirs: level by level, each as
    soon as it is known."""
    seen, waiting = {*spared}, deque([os.getpid()])
    while waiting:
        for child in _children(waiting.popleft()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child


def tasks(pid: int) -> list[str]:
    """The threads of a process, by number; none if it has ended. Only Linux knows."""
    with suppress(OSError):
        return os.listdir(f"/proc/{pid}/task")
    return []


def is_running(task: str) -> bool:
    """Whether a thread of this process has, or waits for, a processor."""
    with suppress(OSError), open(f"/proc/self/task/{task}/stat", "rb") as file:
        return file.read().rpartition(b") ")[2].startswith(b"R")
    return False


def _children(pid: int) -> list[int]:
    found: list[int] = []
    if sys.platform != "linux":
        import psutil  # takes as long as much of a command

        with suppress(psutil.Error):
            found.extend(child.pid for child in psutil.Process(pid).children())
    for task in tasks(pid):
        with suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
            found.extend(map(int, file.read().split()))
    return found
