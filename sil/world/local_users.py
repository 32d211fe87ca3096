"""What happens on shared nodes by itself: local users, of whom monitors tell, and their coschedulers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.clock import SimClock
from sil.world.events import LocalChanged

if TYPE_CHECKING:  # what is compiled for shared nodes is loaded where nodes are shared
    from sil.world.machines.time_shared import SharedMachines
    from sil.world.node_monitors import NodeMonitors


class LocalSide(Protocol):
    def changed(self, change: LocalChanged) -> None: ...

    def controlled(self, node: int) -> None: ...

    def sampled(self, node: int) -> None: ...


class LocalUsers:
    """Of a cluster that is not dedicated."""

    def __init__(
        self, clock: SimClock, machines: SharedMachines, monitors: NodeMonitors, trace: TraceRecorder
    ) -> None:
        self._clock = clock
        self._machines = machines
        self._monitors = monitors
        self._trace = trace
        self._present: set[int] = set()

    def changed(self, change: LocalChanged) -> None:
        if change.user_is_there != (change.node in self._present):
            fact = Fact.LOCAL_USER_CAME if change.user_is_there else Fact.LOCAL_USER_GONE
            self._trace.note(self._clock.now_s, fact, resource=change.node)
            self._present ^= {change.node}
        self._machines.local_changed(change, self._clock.now_s)
        self._monitors.local_changed(change)

    def controlled(self, node: int) -> None:
        self._machines.control(node, self._clock.now_s)

    def sampled(self, node: int) -> None:
        self._monitors.sample(node)


class _NoLocalUsers:
    """Of machines that are dedicated: nothing of this ever happens."""

    def changed(self, change: LocalChanged) -> None:
        raise AssertionError("there are no local users")

    def controlled(self, node: int) -> None:
        raise AssertionError("there are no local users")

    def sampled(self, node: int) -> None:
        raise AssertionError("there are no local users")


NO_LOCAL_USERS = _NoLocalUsers()
