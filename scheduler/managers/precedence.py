"""Whose runs may be stopped for a waiting job: those of lower queues, or as Slurm's preemption has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.core.arrays import Ints
from scheduler.managers.queues import QueuePolicy
from scheduler.node_resources.core.on_nodes import OnNodes
from scheduler.priority.claims import Claims
from scheduler.priority.policy import PartitionPolicy, Preempted, Preemption, PreemptMode, QualityOfService


class Precedence(ABC):
    """Every job is of a class, a number. Classes that displace others are keys of `displaced_by`."""

    displaced_by: Mapping[int, frozenset[int]]

    @abstractmethod
    def of(self, queue: OnNodes, slots: Ints) -> Ints:
        """(n,) the classes of the jobs in some slots."""

    def how(self, of: int) -> Preempted:
        """How runs of a class are displaced."""
        return Preempted(PreemptMode.REQUEUE, exempt_s=0.0)

    def note_stops(self, slot: int) -> None:  # noqa: B027 (there may be nothing to do)
        """Runs are being stopped for the job in a slot."""

    def rank(self, of: int, nodes: Collection[int]) -> tuple[int, ...]:
        """Runs with smaller ranks are displaced first; ties: the most recently started ones."""
        return ()


class OfQueues(Precedence):
    """The class of a job is the rank of its queue; `queues` are in order of service."""

    def __init__(self, queues: Sequence[QueuePolicy]) -> None:
        rank = {queue.name: k for k, queue in enumerate(queues)}
        sets = (frozenset(rank[name] for name in queue.displaces) for queue in queues)
        self.displaced_by = {k: ranks for k, ranks in enumerate(sets) if ranks}

    def of(self, queue: OnNodes, slots: Ints) -> Ints:
        return np.asarray(queue.rank)[slots]


class _Class(NamedTuple):
    """`level`: those with lower ones are preempted first."""

    level: int
    how: Preempted


class OfPolicy(Precedence):
    """The class of a job is its partition, or its QOS. Source: preempt/partition_prio and preempt/qos."""

    def __init__(self, claims: Claims, by: Preemption, impossible: Collection[PreemptMode] = ()) -> None:
        """Jobs are queued again where the policy states a mode that is impossible."""
        self._claims, self._by, self._found = claims, by, np.zeros(0, np.int64)
        self._impossible = impossible
        policy, found = claims.policy, dict[str, PartitionPolicy | QualityOfService]()
        found |= policy.partitions if by.by_partition else policy.qualities
        found.setdefault("", PartitionPolicy() if by.by_partition else QualityOfService(""))
        self._number = {name: k for k, name in enumerate(found)}
        self._classes = [
            _Class(
                each.tier if isinstance(each, PartitionPolicy) else each.priority, self._how(each.preempted)
            )
            for each in found.values()
        ]
        may_be = {k for k, each in enumerate(self._classes) if each.how.mode is not PreemptMode.OFF}
        sets = {}
        for k, each in enumerate(found.values()):
            if isinstance(each, QualityOfService):
                below = {self._number[name] for name in each.preempts if name in self._number}
            else:
                below = {j for j, other in enumerate(self._classes) if other.level < each.tier}
            sets[k] = frozenset(below & may_be - {k})
        self.displaced_by = {k: below for k, below in sets.items() if below}

    def _how(self, stated: Preempted) -> Preempted:
        by = self._by
        exempt_s = by.exempt_s if stated.exempt_s is None else stated.exempt_s
        mode = stated.mode or by.mode
        is_possible = mode not in self._impossible
        return Preempted(mode if is_possible else PreemptMode.REQUEUE, stated.grace_s, exempt_s)

    def of(self, queue: OnNodes, slots: Ints) -> Ints:
        return self._of_claims[np.asarray(queue.service.limits.claim)[slots]]

    @property
    def _of_claims(self) -> Ints:
        """The class of each claim so far."""
        known, where = len(self._found), self._claims.where
        if known < len(where):
            names = (where[claim][0 if self._by.by_partition else 1] for claim in range(known, len(where)))
            new = [self._number.get(name, self._number[""]) for name in names]
            self._found = np.append(self._found, np.array(new, np.int64))
        return self._found

    def how(self, of: int) -> Preempted:
        return self._classes[of].how

    def note_stops(self, slot: int) -> None:
        self._claims.service.serve_first(slot)

    def rank(self, of: int, nodes: Collection[int]) -> tuple[int, ...]:
        level, how = self._classes[of]
        if how.mode is PreemptMode.SUSPEND:  # Slurm selects the first nodes, whatever runs there
            return level, min(nodes)
        return () if self._by.youngest_first else (level, len(nodes))
