"""The processes that descend from this one: how many there are, what they may take, and their end."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

KILL_WITHIN_S = 10.0
"""The time in which processes must end, in seconds: the kernel does not end one that waits for a device."""

_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT
"""Flags of waitid: whether a child has ended, which remains to be reaped."""


def reaped() -> dict[int, int]:
    """The wait statuses of the children of this process that have ended since they were asked for last.
    Orphans that it has adopted are among them, and would remain as zombies."""
    statuses: dict[int, int] = {}
    with suppress(ChildProcessError):
        if os.waitid(os.P_ALL, 0, _ENDED) is None:
            return statuses
        with _like_others():
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                statuses[found[0]] = found[1]
    return statuses


@contextmanager
def _like_others() -> Iterator[None]:
    """Without the priority of `be_prompt`: until the last thread of an ended process has left the kernel, to
    reap the process is a busy loop there, which would keep that thread from running for a second."""
    is_prompt = False
    with suppress(OSError):
        is_prompt = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
        if is_prompt:
            os.sched_setscheduler(0, os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
    try:
        yield
    finally:
        if is_prompt:
            be_prompt()


def _has_ended(child: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, child, _ENDED) is not None
    return True


def kill_descendants(spared: Collection[int] = ()) -> dict[int, int]:
    """Kill all processes that descend from this one, orphans included and those `spared` with all theirs
    excepted, and wait for their end. Returns the wait statuses of its children.

    Only children are killed, whose own then become children, since this process adopts orphans: the number of
    a child is not used again before it is reaped here, while that of another process may be, at any time.
    """
    statuses = reaped()
    until_s = time.monotonic() + KILL_WITHIN_S
    while time.monotonic() < until_s:
        found = [pid for pid in _children(os.getpid()) if pid not in spared]
        if not found:
            break
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.0005)
        if all(map(_has_ended, found)):
            statuses |= reaped()
    return statuses | reaped()


def be_prompt() -> None:
    """Let this process run before all that it starts, however many that are, if the system permits it. These
    keep its nice value, which the system resets: whoever starts a command with `nice` means all of it."""
    global _niceness
    with suppress(OSError):
        _niceness = os.getpriority(os.PRIO_PROCESS, 0)
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))


def _be_as_nice() -> None:
    if _niceness > os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, _niceness)


_niceness = 0
os.register_at_fork(after_in_child=_be_as_nice)


def descendants() -> Iterator[int]:
    """The processes that descend from this one: level by level, each as soon as it is known."""
    seen, waiting = set[int](), deque([os.getpid()])
    while waiting:
        for child in _children(waiting.popleft()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
                yield child


def tasks(pid: int) -> list[str]:
    """The threads of a process, by number; none if it has ended."""
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
    for task in tasks(pid):
        with suppress(OSError), open(f"/proc/{pid}/task/{task}/children", "rb") as file:
            found.extend(map(int, file.read().split()))
    return found


MAX_MB = 1e9
"""The largest memory limit that a user can set, in MB: more than computers have."""

MAX_TASKS = 1_000
"""The most processes and threads of a scheduler at a time."""

LOOK_EVERY_S = 0.1

TOO_MUCH_MEMORY, TOO_MANY_TASKS = 1_000, 1_001
"""Codes in place of an exit code: which limit was exceeded."""


@dataclass(frozen=True)
class Limits:
    """The limits of a process and all that it starts: MAX_TASKS and, beyond what it uses at first,
    `memory_mb`."""

    memory_mb: float | None = None

    def impose(self) -> None:
        """Have the kernel limit this process: the memory that it may use in addition to what it uses now, and
        the tasks of its user, to those of the whole computer now and those that a scheduler may have. The
        latter does not hold for root; it is what remains if the supervisor gets no processor. If no memory is
        left, the kernel ends this process rather than others."""
        with suppress(OSError, ValueError, IndexError), open("/proc/loadavg", encoding="ascii") as file:
            n = int(file.read().split()[3].partition("/")[2]) + MAX_TASKS
            _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
            most = n if hard == resource.RLIM_INFINITY else min(n, hard)
            resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        if self.memory_mb is not None:
            import psutil

            used = psutil.Process().memory_info().data
            most = used + int(min(self.memory_mb, MAX_MB) * 2**20)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class Watch:
    """Watches whether the process `child` of this one, and all that it starts, keep to `limits`.

    Memory that is shared, or of children, is known only when this looks: peaks in between are not seen, nor
    files in memory that no process has mapped; of memory that children share, at least half counts."""

    def __init__(self, child: int, limits: Limits, arrays: int) -> None:
        """`arrays` bytes are given to the process."""
        self._child = child
        self._looks_s = 0.0
        self._most_kb: float | None = None
        if limits.memory_mb is not None:
            self._most_kb = limits.memory_mb * 1024.0 + _resident_kb(child) + arrays / 1024.0

    def broken(self) -> int | None:
        """The limit that is exceeded, if this looks now."""
        now_s = time.monotonic()
        if now_s < self._looks_s:
            return None
        others = [pid for pid in descendants() if pid != self._child]
        found = None
        if sum(len(tasks(pid)) for pid in (self._child, *others)) > MAX_TASKS:
            found = TOO_MANY_TASKS
        elif self._most_kb is not None:
            used_kb = _resident_kb(self._child) + sum(map(_own_kb, others))
            found = TOO_MUCH_MEMORY if used_kb > self._most_kb else None
        took_s = time.monotonic() - now_s
        self._looks_s = now_s + max(LOOK_EVERY_S, 10.0 * took_s)
        return found


def _resident_kb(pid: int) -> int:
    """Memory of a process that is not that of a file on disk, shared or not."""
    return sum(kb for name, kb in _fields(f"/proc/{pid}/status") if name in ("RssAnon", "RssShmem"))


def _own_kb(pid: int) -> int:
    """Memory of a process that it does not share with the one from which it was forked."""
    found = dict(_fields(f"/proc/{pid}/smaps_rollup"))
    return max(found.get("Private_Dirty", 0), found.get("Pss_Shmem", 0))


def _fields(path: str) -> Iterator[tuple[str, int]]:
    with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if value.endswith("kB\n"):
                yield name, int(value.split()[0])
