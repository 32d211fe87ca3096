"""The coscheduler of a node, by name, with its three modules: the Cooperating Scheme, what the nodes of a job
know of one another; the job interaction mechanism, the social contract between parallel jobs and the user of
their node; and dynamic priorities."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Protocol

from scheduler.coscheduling.core.dynamic_priority import (
    IN_KERNEL,
    IN_USER_SPACE,
    IN_USER_SPACE_STOPPING,
    NO_PRIORITY,
    DynamicPriority,
)
from scheduler.coscheduling.ports import (
    MAX_NICE,
    MIN_NICE,
    DaemonPorts,
    ParallelProcess,
    PeerEvent,
    Peers,
    Topic,
)
from scheduler.model import RunId
from scheduler.naming import Choice
from scheduler.time_shared.social_contract import SocialContract, sum_in_order

_REVOKES = {Topic.NO_LOCAL: Topic.LOCAL, Topic.RESTART: Topic.STOP}


class Cooperating:
    """Tells the other nodes of a run what happens here, and keeps what they tell: a run is stopped while at
    least one of its nodes stops it, and limited while a local user is at one of them.

    Source: CISNE-P, sections 2.2 and 2.2.1.
    """

    def __init__(self, node: int, peers: Peers) -> None:
        self._node, self._peers = node, peers
        self._sent = 0
        self._valid: dict[Topic, dict[RunId, set[int]]] = {
            topic: defaultdict(set) for topic in _REVOKES.values()
        }
        """The nodes that have told it of a run and not revoked it, this one included."""
        self._latest: dict[tuple[RunId, int, Topic], int] = {}
        self.stops_any = False
        """Whether a run here may be stopped."""

    def tell(self, topic: Topic, run: RunId) -> None:
        self._sent += 1
        event = PeerEvent(topic, run, self._node, self._sent)
        self.receive(event)
        for node in self._peers.nodes_of(run):
            if node != self._node:
                self._peers.send(node, event)

    def receive(self, event: PeerEvent) -> None:
        topic = _REVOKES.get(event.topic, event.topic)
        key = event.run, event.sender, topic
        if event.number <= self._latest.get(key, 0):
            return
        self._latest[key] = event.number
        nodes = self._valid[topic][event.run]
        if event.topic is topic:
            nodes.add(event.sender)
        else:
            nodes.discard(event.sender)
        self.stops_any = any(self._valid[Topic.STOP].values())

    def is_stopped(self, run: RunId) -> bool:
        return self.stops_any and bool(self._valid[Topic.STOP][run])

    def is_limited(self, run: RunId) -> bool:
        return bool(self._valid[Topic.LOCAL][run])

    def told(self, topic: Topic, run: RunId) -> bool:
        """Whether this node has told of a run, LOCAL or STOP, and not revoked it."""
        return self._node in self._valid[topic][run]

    def forget(self, runs: Collection[RunId]) -> None:
        """These runs have ended."""
        for nodes_of in self._valid.values():
            for run in runs:
                nodes_of.pop(run, None)
        self.stops_any = any(self._valid[Topic.STOP].values())
        for key in [key for key in self._latest if key[0] in runs]:
            del self._latest[key]


GONE_AFTER_S = 60.0
"""A user who has not used keyboard or mouse for this long has left (CISNE-P, section 2.2.1)."""
NEW = 0.0, 0, 0, 0.0, 0.0
"""What was seen of a process that was not there."""
NICE_STEP = 5
"""By how much user space changes a nice value at a time. The paper names no number; four steps reach 19."""


class Jim:
    """Keeps the memory and the CPU time of parallel processes within the contract.

    While a user is there, and parallel processes use more memory than the contract leaves them, the youngest
    job of the node stops, on all of its nodes; stopped ones continue where they fit, oldest first. The memory
    of an older job that another node has stopped stays reserved for it. Source: CISNE-P, section 2.2.
    """

    def __init__(self, ports: DaemonPorts, contract: SocialContract, cooperating: Cooperating) -> None:
        self._ports, self._contract, self._cooperating = ports, contract, cooperating

    def user_is_there(self) -> bool:
        return self._ports.local.idle_s() < GONE_AFTER_S

    def keep_memory(self, processes: Sequence[ParallelProcess], user_is_there: bool) -> None:
        node_mb, local_mb = self._ports.local.memory_mb()
        room_mb = self._contract.memory_mb(node_mb, local_mb, user_is_there) + 1e-9
        together = self._cooperating
        if not together.stops_any and _memory_mb(processes) <= room_mb:
            return
        by_age = sorted(processes, key=lambda each: each.started)
        active = [each for each in by_age if not together.is_stopped(each.run)]
        told = {each.run for each in by_age if together.told(Topic.STOP, each.run)}
        stop = set(told)
        while active and _memory_mb(active) > room_mb:
            stop.add(active.pop().run)
        for k, each in enumerate(by_age):
            elsewhere = [other for other in by_age[:k] if other.run not in stop and other not in active]
            if each.run in stop and _memory_mb([*active, *elsewhere, each]) <= room_mb:
                stop.remove(each.run)
                active.append(each)
        for run in sorted(stop ^ told):
            together.tell(Topic.STOP if run in stop else Topic.RESTART, run)


class Space(Protocol):
    """Where the coscheduler is, and thus by what it limits processes."""

    stopped: Collection[int]
    """Processes that it stops until the next sample."""

    def limit(self, processes: Sequence[ParallelProcess], user_is_there: bool) -> None:
        """Keep the CPU time of parallel processes within the contract, and coschedule them."""


class InKernel:
    """The quantum of parallel processes is a share L of the usual one while there is a user here, or at
    another node of the same job. Source: CISNE-P, section 2.2.1. Reservations are the kernel's."""

    stopped: Collection[int] = ()

    def __init__(self, ports: DaemonPorts, contract: SocialContract, cooperating: Cooperating) -> None:
        self._ports, self._share, self._cooperating = ports, contract.share, cooperating
        self._shares: dict[int, float] = {}

    def limit(self, processes: Sequence[ParallelProcess], user_is_there: bool) -> None:
        shares = {}
        for each in processes:
            if each.reserved is not None and each.process not in self._shares:
                self._ports.priorities.reserve(each.process, *each.reserved)
            limited = user_is_there or self._cooperating.is_limited(each.run)
            share = shares[each.process] = self._share if limited else 1.0
            if share != self._shares.get(each.process, 1.0):
                self._ports.priorities.set_quantum_share(each.process, share)
        self._shares = shares


class InUserSpace:
    """Nice values go up, a step for each sample, of processes that exceed the contract, and down again of
    others; `dynamic` lowers that of a process by the packets it has, and may stop those without any, but none
    at two samples in turn. The parallel processes of a node exceed the contract while its user is there and
    they use more than L of the CPU in total; those of one job, while there is a user at another of its nodes
    and they use more than L. Source: CISNE-P, section 2.2.2. A process with a reservation has the least nice
    value until it has had its share of the period, which begins when it is first seen.
    """

    def __init__(
        self, ports: DaemonPorts, contract: SocialContract, cooperating: Cooperating, dynamic: DynamicPriority
    ) -> None:
        self._ports, self._share, self._cooperating = ports, contract.share, cooperating
        self._dynamic, self._seen_s = dynamic, 0.0
        self._seen = dict[int, tuple[float, int, int, float, float]]()
        """The CPU time, penalty and nice value of each process at the last sample; and with a reservation,
        when its period ends, and its CPU time when that began."""
        self.stopped: Collection[int] = ()

    def limit(self, processes: Sequence[ParallelProcess], user_is_there: bool) -> None:
        now_s, seen, self._seen = self._ports.clock.now_s, self._seen, {}
        most_s, self._seen_s = self._share * (now_s - self._seen_s), now_s
        used_s = {each.process: each.cpu_s - seen.get(each.process, NEW)[0] for each in processes}
        together_exceed = user_is_there and sum_in_order(used_s.values()) > most_s
        for each in processes:
            process, run, cpu_s = each.process, each.run, each.cpu_s
            _, penalty, last, ends_s, before_s = seen.get(process, NEW)
            exceeds = together_exceed or (used_s[process] > most_s and self._cooperating.is_limited(run))
            if exceeds or penalty:
                penalty = min(MAX_NICE, max(0, penalty + (NICE_STEP if exceeds else -NICE_STEP)))
            nice = penalty - self._dynamic.bonus(each.packets)
            if each.reserved is not None:
                share, period_s = each.reserved
                if ends_s <= now_s:
                    late_s = (now_s - (ends_s or now_s)) % period_s
                    ends_s, before_s = now_s - late_s + period_s, cpu_s
                if cpu_s - before_s < share * period_s:
                    nice = MIN_NICE
            if nice != last:
                self._ports.priorities.set_nice(process, nice)
            self._seen[process] = cpu_s, penalty, nice, ends_s, before_s
        self.stopped = self._to_stop(processes)

    def _to_stop(self, processes: Sequence[ParallelProcess]) -> Collection[int]:
        above, together = self._dynamic.stops_above, self._cooperating
        if all(each.packets <= above or together.is_stopped(each.run) for each in processes):
            return ()
        return {each.process for each in processes if not each.packets}.difference(self.stopped)


def _memory_mb(processes: Sequence[ParallelProcess]) -> float:
    return sum_in_order(each.memory_mb for each in processes)


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
