"""What a process and all that it starts may use together. The kernel limits each of them only, so the
supervisor looks from time to time."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import psutil

from sil.workers.descendants import descendants, tasks

MOST_MB = 1e9
"""Of a memory limit: more than computers have."""

MOST_TASKS = 1_000
"""Processes and threads of a scheduler at a time."""

LOOK_EVERY_S = 0.1

TOO_MUCH_MEMORY, TOO_MANY_TASKS = 1_000, 1_001
"""In place of an exit code: which limit was exceeded."""


@dataclass(frozen=True)
class Limits:
    """On a process and all that it starts: MOST_TASKS and, beyond what it uses at first, `memory_mb`."""

    memory_mb: float | None = None

    def impose(self) -> None:
        """On this process, by the kernel: limit the tasks of the user to those of the whole computer now, and
        those that a scheduler may have, which does not hold for root, and is what remains if all is too busy
        to look; and the memory that it may use in addition to what it uses now. If there is none left, the
        kernel ends it rather than others."""
        with suppress(OSError, ValueError, IndexError), open("/proc/loadavg", encoding="ascii") as file:
            n = int(file.read().split()[3].partition("/")[2]) + MOST_TASKS
            _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
            most = n if hard == resource.RLIM_INFINITY else min(n, hard)
            resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        if sys.platform == "linux":
            with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")
        if self.memory_mb is not None:
            used = psutil.Process().memory_info().data if sys.platform == "linux" else 0
            most = used + int(min(self.memory_mb, MOST_MB) * 2**20)
            resource.setrlimit(resource.RLIMIT_DATA, (most, most))


class Watch:
    """Whether the process `child` of this one, and all that it starts, keep to `limits`.

    Memory that is shared, or of children, is known only when this looks: peaks in between are not seen, nor
    files in memory that no process has mapped; of memory that children share, at least half counts.
    """

    def __init__(self, child: int, limits: Limits, arrays: int) -> None:
        """`arrays` bytes are given to the process."""
        self._child = child
        self._looks_s = 0.0
        self._most_kb: float | None = None
        if limits.memory_mb is not None and sys.platform == "linux":
            self._most_kb = limits.memory_mb * 1024.0 + _resident_kb(child) + arrays / 1024.0

    def broken(self) -> int | None:
        """The limit that is exceeded, if this looks now."""
        now_s = time.monotonic()
        if now_s < self._looks_s:
            return None
        others = [pid for pid in descendants() if pid != self._child]
        found = None
        if sum(len(tasks(pid)) for pid in (self._child, *others)) > MOST_TASKS:
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
