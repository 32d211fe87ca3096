"""The job interaction mechanism: the social contract between parallel jobs and the user of their node."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from scheduler.coscheduling.cooperating import Cooperating
from scheduler.coscheduling.core.dynamic_priority import DynamicPriority
from scheduler.coscheduling.ports import MAX_NICE, MIN_NICE, DaemonPorts, ParallelProcess, Topic
from scheduler.time_shared.social_contract import SocialContract, sum_in_order

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
        self,
        ports: DaemonPorts,
        contract: SocialContract,
        cooperating: Cooperating,
        dynamic: DynamicPriority,
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
