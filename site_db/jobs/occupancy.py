"""How much of each node the jobs of accounting used at a time."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler.node_request import UNTYPED, Node, Partition
from site_db.files.access import Memory
from site_db.jobs.logged import LoggedJob
from site_db.jobs.requests import partitions_of
from site_db.site_file.cluster import SiteNodes

NO_PARTITION = "default"
BYTES_OF_A_PLACE = 150
"""The memory, in bytes, for a job on a node, also while they are sorted."""


class Overbooked(NamedTuple):
    """Jobs used more CPUs of a node than it has, first when the job in `line` started."""

    node: str
    used: int
    there: float
    line: int


@dataclass
class _Used:
    """What one node must have: the largest amounts that a job needs of it, and the partitions of jobs."""

    cpus: int = 1
    memory_mib: int = 0
    gpus: dict[str, int] = field(default_factory=dict)
    partitions: set[str] = field(default_factory=set)


class Occupancy:
    """Collects what jobs use of nodes: their CPUs, memory and GPUs divided by their number of nodes, rounded
    down, since accounting does not say which of the nodes had more."""

    def __init__(self) -> None:
        self._room = Memory("which nodes the jobs of a log had")
        self._index: dict[str, int] = {}
        self._used: list[_Used] = []
        self._node, self._line, self._cpus, self._memory, self._gpus = (array("q") for _ in range(5))
        self._start, self._end = array("d"), array("d")

    def add(self, job: LoggedJob) -> None:
        n = len(job.nodes)
        if not n:
            return
        self._room.take(BYTES_OF_A_PLACE * n)
        partitions, need = partitions_of(job) or {NO_PARTITION}, _need(job, n)
        cpus = max(job.processors, job.resources.cpus)
        for name in job.nodes:
            node = self._index.setdefault(name, len(self._used))
            if node == len(self._used):
                self._used.append(_Used())
            used = self._used[node]
            used.partitions |= partitions
            used.cpus = max(used.cpus, need.cpus)
            used.memory_mib = max(used.memory_mib, need.memory_mib)
            for gpu_type, amount in need.gpus.items():
                used.gpus[gpu_type] = max(used.gpus.get(gpu_type, 0), amount)
            self._node.append(node)
            self._line.append(job.line)
            self._cpus.append(cpus // n)
            self._memory.append(job.resources.memory_mib // n)
            self._gpus.append(job.resources.n_gpus // n)
            self._start.append(job.started_unix_s)
            self._end.append(job.ended_unix_s)

    def overbooked(self, nodes: Mapping[str, Node]) -> Iterator[Overbooked]:
        """The nodes with more CPUs in use at a time than they have, in order of their first job."""
        if not self._used:
            return
        used, row = self._sweep(self._cpus)
        most = self._most(self._cpus)
        names = list(self._index)
        node = np.array(self._node)[row]
        there = np.array([nodes[name].cores if name in nodes else np.inf for name in names])
        beyond = np.flatnonzero(used > there[node])
        first, at = np.unique(node[beyond], return_index=True)
        for n, k in zip(first.tolist(), beyond[at].tolist(), strict=True):
            yield Overbooked(names[n], int(most[n]), float(there[n]), self._line[int(row[k])])

    def mistakes(self, nodes: Mapping[str, Node]) -> Iterator[str]:
        """A sentence, if CPUs were used twice."""
        overbooked = list(self.overbooked(nodes))
        if overbooked:
            first = overbooked[0]
            n = "1 node has" if len(overbooked) == 1 else f"{len(overbooked):,} nodes have"
            yield (
                f"{n} more CPUs in use at a time than there are: {first.node} has {first.there:g}, and jobs "
                f"use up to {first.used:,}, first in line {first.line}; expected jobs that share no CPU, so "
                f"the definition of the nodes may be outdated"
            )

    def cluster(self) -> SiteNodes:
        """Nodes that have just what was used of them at a time, and what each of their jobs needs, in the
        partitions of the jobs on them."""
        most = [self._most(column).tolist() for column in (self._cpus, self._memory, self._gpus)]
        nodes = {
            name: Node(
                cores=max(used.cpus, cpus),
                memory_mib=max(used.memory_mib, memory_mib),
                gpus=_gpus(used.gpus, gpus),
                partitions=frozenset(used.partitions),
            )
            for name, used, cpus, memory_mib, gpus in zip(self._index, self._used, *most, strict=True)
        }
        partitions = dict.fromkeys(name for node in nodes.values() for name in sorted(node.partitions))
        has_memory = any(node.memory_mib for node in nodes.values())
        return SiteNodes(nodes, {name: Partition(name) for name in partitions}, {}, has_memory)

    def _most(self, amounts: array[int]) -> NDArray[np.int64]:
        most = np.zeros(len(self._used), dtype=np.int64)
        used, row = self._sweep(amounts)
        np.maximum.at(most, np.array(self._node)[row], used)
        return most

    def _sweep(self, amounts: array[int]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What is in use of a node after each start and end of a run, and its row; by node, then time.
        At one time, runs end before others start."""
        row = np.tile(np.arange(len(self._node)), 2)
        change = np.concatenate([np.array(amounts), -np.array(amounts)])
        order = np.lexsort((change > 0, np.concatenate([self._start, self._end]), np.array(self._node)[row]))
        # All that is taken of a node is given back, so that the sum is 0 where the next node begins.
        return np.cumsum(change[order]), row[order]


def _need(job: LoggedJob, n: int) -> _Used:
    """What each of the n nodes of a job must have, so that they can satisfy its request (`LoggedRequests`):
    equal parts, rounded up, or tasks of one core."""
    tres = job.resources
    cpus, memory_mib = ceil(tres.cpus / n), ceil(tres.memory_mib / n)
    if tres.cpus % n and not tres.gpus:
        memory_mib = cpus * ceil(tres.memory_mib / tres.cpus)
    return _Used(cpus, memory_mib, {name or UNTYPED: ceil(amount / n) for name, amount in tres.gpus.items()})


def _gpus(largest: Mapping[str, int], at_a_time: int) -> tuple[str, ...]:
    """GPUs by type: of each that accounting names, the largest number that one job had; and as many more of
    the first type as were in use at a time, or as one job had of any type."""
    named = sorted(largest.keys() - {UNTYPED})
    gpus = [gpu_type for gpu_type in named for _ in range(largest[gpu_type])]
    more = max(at_a_time, largest.get(UNTYPED, 0)) - len(gpus)
    return (*gpus, *[named[0] if named else UNTYPED] * more)
