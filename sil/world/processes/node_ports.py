"""What the daemons of simulated nodes see and do there."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from scheduler.coscheduling.ports import ParallelProcess, PeerEvent
from scheduler.model import RunId
from sil.world.processes.core.codes import SECOND
from sil.world.processes.core.programs import Programs

if TYPE_CHECKING:
    from sil.world.processes.machines import ProcessMachines


class Messages:
    """Events on their way to daemons; each takes an exponential time, so they may overtake one another."""

    def __init__(self, programs: Programs, mean_s: float, rng: np.random.Generator) -> None:
        self._programs, self._mean_s, self._rng = programs, mean_s, rng
        self._on_their_way: dict[int, tuple[int, PeerEvent]] = {}
        self._sent = 0

    def send(self, node: int, event: PeerEvent) -> None:
        self._sent += 1
        self._on_their_way[self._sent] = node, event
        self._programs.deliver(self._sent, round(self._rng.exponential(self._mean_s) * SECOND))

    def take(self, message: int) -> tuple[int, PeerEvent]:
        return self._on_their_way.pop(message)


class NodePorts:
    """The ports of the daemon of one node."""

    def __init__(self, node: int, machines: ProcessMachines, messages: Messages) -> None:
        self._node, self._machines, self._messages = node, machines, messages

    @property
    def now_s(self) -> float:
        return self._machines.now_s

    def processes(self) -> Sequence[ParallelProcess]:
        used, packets = self._machines.programs.used_by, self._machines.programs.packets
        return [
            ParallelProcess(p, run.order.run, run.number, used(p) / SECOND, run.memory_mb, packets(p))
            for p, run in self._machines.runs_on[self._node].items()
        ]

    def idle_s(self) -> float:
        user = self._machines.users[self._node]
        if user.cpu > 0.0:
            return 0.0
        return inf if user.idle_since_s == -inf else self.now_s - user.idle_since_s

    def memory_mb(self) -> tuple[float, float]:
        return self._machines.memory_mb[self._node], self._machines.users[self._node].memory_mb

    def set_nice(self, process: int, nice: int) -> None:
        self._machines.programs.set_nice(process, nice)

    def set_quantum_share(self, process: int, share: float) -> None:
        self._machines.programs.set_share(process, share)

    def stop(self, process: int) -> None:
        self._machines.halt(process, self._node, True)

    def resume(self, process: int) -> None:
        self._machines.halt(process, self._node, False)

    def nodes_of(self, run: RunId) -> Sequence[int]:
        return self._machines.nodes_of(run)

    def send(self, node: int, event: PeerEvent) -> None:
        self._messages.send(node, event)
