"""The ports of CCS on a real node: processes by psutil, and what /proc shows of their sockets."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from glob import glob
from math import inf

import psutil

from scheduler.coscheduling.ports import ParallelProcess, PeerEvent, Topic
from scheduler.model import RunId
from sil.live.programs import MB, Task
from sil.world.processes.core.codes import SEGMENT_BYTES

Address = tuple[str, int]
LISTENING = "0A"


def pending_packets() -> dict[str, int]:
    """The packets in the receive and send queues of all TCP sockets, by the name that /proc/PID/fd has."""
    found = {}
    with open("/proc/self/net/tcp", encoding="ascii") as file:
        next(file)
        for line in file:
            _, _, _, state, queues, _, _, _, _, inode, *_ = line.split()
            if state != LISTENING:
                n_bytes = (int(queue, 16) for queue in queues.split(":"))
                found[f"socket:[{inode}]"] = sum(-(-n // SEGMENT_BYTES) for n in n_bytes)
    return found


def of_process(pid: int, packets: Mapping[str, int]) -> int:
    """The packets of what a process has open."""
    try:
        return sum(packets.get(os.readlink(name), 0) for name in glob(f"/proc/{pid}/fd/*"))
    except OSError:  # something was closed meanwhile
        return 0


class RealProcesses:
    """All ports of the daemon of a node. `tell` gets what CCS does, to which run, and its nice value and the
    time."""

    def __init__(
        self, memory_mb: float, lan: socket.socket, addresses: Sequence[Address], tell: Callable[..., None]
    ) -> None:
        self._memory_mb, self._lan, self._addresses, self._tell = memory_mb, lan, addresses, tell
        self.began_s = time.monotonic()
        self.tasks: dict[int, Task] = {}
        """The processes here, by number."""
        self.user: psutil.Process | None = None
        self.last_input_s = -inf

    @property
    def now_s(self) -> float:
        return time.monotonic() - self.began_s

    def processes(self) -> Sequence[ParallelProcess]:
        found, packets = [], pending_packets()
        for pid, task in self.tasks.items():
            with suppress(psutil.NoSuchProcess):  # it has just ended
                shown = psutil.Process(pid)
                used, memory_mb = shown.cpu_times(), shown.memory_info().rss / MB
                now = used.user + used.system, memory_mb, of_process(pid, packets)
                found.append(ParallelProcess(pid, RunId(task.run), task.run, *now))
        return found

    def idle_s(self) -> float:
        return self.now_s - self.last_input_s

    def memory_mb(self) -> tuple[float, float]:
        return self._memory_mb, self.user.memory_info().rss / MB if self.user is not None else 0.0

    def set_nice(self, process: int, nice: int) -> None:
        with suppress(psutil.NoSuchProcess):
            with suppress(psutil.AccessDenied):
                psutil.Process(process).nice(nice)
            self._tell("nice", self.tasks[process].run, int(psutil.Process(process).nice()))

    def set_quantum_share(self, process: int, share: float) -> None:
        raise NotImplementedError  # not reached: a live coscheduler is in user space

    def reserve(self, process: int, share: float, period_s: float) -> None:
        raise NotImplementedError  # not reached, either

    def stop(self, process: int) -> None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process).suspend()
            self._tell("stop", self.tasks[process].run)

    def resume(self, process: int) -> None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process).resume()
            self._tell("continue", self.tasks[process].run)

    def nodes_of(self, run: RunId) -> Sequence[int]:
        return next((task.nodes for task in self.tasks.values() if task.run == run), ())

    def send(self, node: int, event: PeerEvent) -> None:
        with suppress(OSError):  # it is lost
            self._lan.sendto(json.dumps(event).encode(), self._addresses[node])

    def received(self) -> PeerEvent | None:
        """An event of another node that has arrived."""
        text, sender = self._lan.recvfrom(1024)
        if sender not in self._addresses:
            return None
        topic, run, node, number = json.loads(text)
        return PeerEvent(Topic(topic), RunId(run), node, number)
