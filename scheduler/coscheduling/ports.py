"""What the daemon of a node needs of its operating system and of the other nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from scheduler.model import RunId
from scheduler.ports import Clock

MIN_NICE, MAX_NICE = -20, 19


class ReservedShare(NamedTuple):
    """A process is to have this share of the CPU in each period."""

    share: float
    period_s: float


class ParallelProcess(NamedTuple):
    """A process of a parallel job as the operating system shows it, for example in /proc.

    `started` orders processes by their starts; `cpu_s` is the CPU time that it has used, `packets` are those
    pending in its socket queues. `reserved` is what its job has been promised, if anything.
    """

    process: int
    run: RunId
    started: int
    cpu_s: float
    memory_mb: float
    packets: int
    reserved: ReservedShare | None = None


class Topic(StrEnum):
    """What nodes tell one another: a user has come or gone (LOCAL and NO_LOCAL), or has too little memory
    for a job or enough again (STOP and RESTART)."""

    LOCAL = "local"
    NO_LOCAL = "no_local"
    STOP = "stop"
    RESTART = "restart"


class PeerEvent(NamedTuple):
    """A message to the other nodes of a run. The `number` increases with each event of a sender, so that a
    receiver drops what it gets after a later one."""

    topic: Topic
    run: RunId
    sender: int
    number: int


class ProcessTable(Protocol):
    def processes(self) -> Sequence[ParallelProcess]:
        """The processes of parallel jobs on this node, stopped ones included."""


class LocalUse(Protocol):
    def idle_s(self) -> float:
        """The time since the last use of keyboard or mouse; infinite if there was none."""

    def memory_mb(self) -> tuple[float, float]:
        """The memory of the node, and what its local user takes of it."""


class Priorities(Protocol):
    def set_nice(self, process: int, nice: int) -> None: ...

    def set_quantum_share(self, process: int, share: float) -> None:
        """The base quantum of a process is this share of the usual one. Only in the kernel."""

    def reserve(self, process: int, share: float, period_s: float) -> None:
        """From now on, a process runs before those without a reservation until it has had this share of a
        period; of several, the one whose period ends first. Only in the kernel."""


class Signals(Protocol):
    def stop(self, process: int) -> None: ...

    def resume(self, process: int) -> None: ...


class Peers(Protocol):
    def nodes_of(self, run: RunId) -> Sequence[int]:
        """The nodes with processes of a run, this one included."""

    def send(self, node: int, event: PeerEvent) -> None:
        """Send without waiting: events may be late, and overtake one another."""


@dataclass(frozen=True, slots=True)
class DaemonPorts:
    clock: Clock
    table: ProcessTable
    local: LocalUse
    priorities: Priorities
    signals: Signals
    peers: Peers
