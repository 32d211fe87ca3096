"""The coscheduler of a node, by name, with its three modules."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.coscheduling.cooperating import Cooperating
from scheduler.coscheduling.core.dynamic_priority import (
    IN_KERNEL,
    IN_USER_SPACE,
    IN_USER_SPACE_STOPPING,
    NO_PRIORITY,
    DynamicPriority,
)
from scheduler.coscheduling.jim import InKernel, InUserSpace, Jim, Space
from scheduler.coscheduling.ports import DaemonPorts, ParallelProcess, PeerEvent, Topic
from scheduler.model import RunId
from scheduler.naming import Choice
from scheduler.time_shared.social_contract import SocialContract


class Coscheduler(Choice, noun="coscheduler"):
    """CCS, in the kernel or in user space, with or without its dynamic coscheduling (DYN)."""

    NONE = "none"
    KERNEL = "kernel"
    KERNEL_WITHOUT_DYN = "kernel_without_dyn"
    USER_SPACE = "user_space"
    USER_SPACE_WITHOUT_DYN = "user_space_without_dyn"
    USER_SPACE_STOPPING = "user_space_stopping"  # DYN also stops and restarts processes

    @property
    def in_user_space(self) -> bool:
        return self in _IN_USER_SPACE

    def in_kernel(self) -> DynamicPriority:
        """What the kernel of a node adds to the priority of a ready process."""
        return IN_KERNEL if self is Coscheduler.KERNEL else NO_PRIORITY

    def daemon(self, node: int, ports: DaemonPorts, contract: SocialContract) -> Daemon | None:
        if self is Coscheduler.NONE:
            return None
        return Daemon(node, ports, contract, self)


_IN_USER_SPACE = {
    Coscheduler.USER_SPACE: IN_USER_SPACE,
    Coscheduler.USER_SPACE_WITHOUT_DYN: NO_PRIORITY,
    Coscheduler.USER_SPACE_STOPPING: IN_USER_SPACE_STOPPING,
}


class Daemon:
    """CCS on one node. In the kernel, `sample` is called when processes start or end and when the user or
    memory changes; in user space, once per period. Source: CISNE-P, section 2.2."""

    def __init__(self, node: int, ports: DaemonPorts, contract: SocialContract, where: Coscheduler) -> None:
        self._ports, self._where = ports, where
        self._cooperating = Cooperating(node, ports.peers)
        self._jim = Jim(ports, contract, self._cooperating)
        self._space: Space = InKernel(ports, contract, self._cooperating)
        if where.in_user_space:
            self._space = InUserSpace(ports, contract, self._cooperating, _IN_USER_SPACE[where])
        self._runs, self._user_was_there = frozenset[RunId](), False
        self._halted: set[int] = set()

    def sample(self) -> None:
        """Look at the node, and set its processes as the contract demands."""
        processes = self._ports.table.processes()
        runs, there = frozenset([each.run for each in processes]), self._jim.user_is_there()
        if runs != self._runs or there != self._user_was_there:
            self._cooperating.forget(self._runs - runs)
            self._halted &= {each.process for each in processes}
            self._runs, self._user_was_there = runs, there
            for run in sorted(runs):
                if there != self._cooperating.told(Topic.LOCAL, run):
                    self._cooperating.tell(Topic.LOCAL if there else Topic.NO_LOCAL, run)
        self._jim.keep_memory(processes, there)
        self._space.limit(processes, there)
        self._obey(processes)

    def receive(self, event: PeerEvent) -> None:
        """Another node tells of a run. In user space, limits of the CPU follow with the next sample."""
        self._cooperating.receive(event)
        if self._where.in_user_space:
            self._obey(self._ports.table.processes())
        else:
            self.sample()

    def _obey(self, processes: Sequence[ParallelProcess]) -> None:
        """Stop and continue processes as this node and others have decided."""
        if not (self._halted or self._cooperating.stops_any or self._space.stopped):
            return
        for each in processes:
            is_stopped = self._cooperating.is_stopped(each.run) or each.process in self._space.stopped
            if is_stopped == (each.process in self._halted):
                continue
            if is_stopped:
                self._halted.add(each.process)
                self._ports.signals.stop(each.process)
            else:
                self._halted.discard(each.process)
                self._ports.signals.resume(each.process)
