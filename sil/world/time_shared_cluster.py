"""A cluster of time-shared nodes: how tasks share a node, and what its local users demand."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from scheduler.coscheduling.daemon import GONE_AFTER_S
from scheduler.time_shared.social_contract import MAX_CPU, SocialContract, sum_in_order
from sil.world.actual_runtimes import Spread, Variation
from sil.world.core.sharing import solve
from sil.world.events import LocalChanged
from sil.world.monitors import Sampling
from sil.world.processes.model import NodeModel


class NodeLoad(NamedTuple):
    """The load of a node: parallel tasks that use the shares `cpu` of a CPU in isolation.

    `available` is the share of the CPU that the social contract now leaves them; `local_tasks` of local users
    demand `local_cpu`. `elsewhere` is the slowdown of the tasks' jobs on their other nodes.
    """

    cpu: Sequence[float]
    available: float
    local_tasks: int
    local_cpu: float
    elsewhere: Sequence[float]


@dataclass(frozen=True, slots=True)
class Sharing:
    """How tasks share a node: `fluid`, by approximate mean value analysis: tasks compute and communicate in
    turn, and queue for the CPU.

    `inflation` of CPU time per other task (context switches and caches), `coscheduling_loss` of
    communication while others hold the CPU (0 = none is lost), `overhead` of user-space coscheduling, a share
    of the CPU. With c = cpu (1 + inflation (k - 1)), A available and Q the sum of the others' q, the fixed
    point of R = c (1 + Q) / A, Z = (1 - cpu) (1 + loss Q), q = R / (R + Z); a task takes R + Z times as long.

    Or `coupled`: a task that waits for a slower one on another node uses less of its own CPU. Then
    q = R / max(R + Z, slowdown of its job), so that a change on one node spreads along the jobs to others.

    Or as the predictor's methods assume: `by_mpl`, where all tasks, local ones included, get equal shares of
    the time; `by_cpu`, where tasks slow down only where requirements exceed the CPU.
    """

    kind: Literal["fluid", "coupled", "by_mpl", "by_cpu"] = "fluid"
    inflation: float = 0.02
    coscheduling_loss: float = 0.0
    overhead: float = 0.0

    @property
    def coupled(self) -> bool:
        """Whether the slowdown of a job on other nodes affects how its tasks share a node."""
        return self.kind == "coupled"

    def cpu_cost(self, k: int) -> float:
        """CPU time used by each of `k` tasks, relative to isolation."""
        return 1.0 if self.kind in ("by_mpl", "by_cpu") else 1.0 + self.inflation * (k - 1)

    def slowdowns(self, node: NodeLoad) -> list[float]:
        """The slowdown of each task on a node, relative to isolation."""
        k, available = len(node.cpu), node.available - self.overhead
        if self.kind == "by_mpl":
            return [float(k + node.local_tasks)] * k
        if self.kind == "by_cpu":
            return [max(1.0, sum_in_order(node.cpu) + node.local_cpu)] * k
        if k == 1:  # no queueing
            return [node.cpu[0] / available + (1.0 - node.cpu[0])]
        shares, found = np.array(node.cpu, dtype=np.float64), np.empty(k)
        least = np.array(node.elsewhere, dtype=np.float64) if self.coupled else np.zeros(k)
        solve(shares, least, available, self.inflation, self.coscheduling_loss, found)
        return list(found.tolist())


MEMORY_MB = 512.0


@dataclass(frozen=True, slots=True)
class LocalUsers:
    """Users on a share of the nodes, alternately active and idle for exponential times.

    While active, they demand a share of the CPU, uniform between the two in `demand`, drawn for each active
    time; `mean_cpu` is the mean over all time, which determines the idle times. Memory is uniform between the
    two shares in `memory`, drawn again after exponential times. Source: Hanzich et al. 2006, section 4 (15 %
    CPU, 35 % memory).
    """

    share_of_nodes: float
    mean_cpu: float = 0.15
    demand: tuple[float, float] = (0.2, 1.0)
    mean_active_s: float = 15.0
    memory: tuple[float, float] = (0.2, 0.5)
    mean_memory_s: float = 300.0

    @property
    def mean_idle_s(self) -> float:
        duty = self.mean_cpu / (sum(self.demand) / 2)
        return self.mean_active_s * (1.0 - duty) / duty

    def changes(
        self, memory_mb: tuple[float, ...], rng: np.random.Generator
    ) -> Iterator[tuple[float, LocalChanged]]:
        """All changes in order of time, without end; none if no node has users."""
        n_loaded = round(self.share_of_nodes * len(memory_mb))
        loaded = sorted(rng.permutation(len(memory_mb))[:n_loaded].tolist())
        streams = [
            self._of_node(n, memory_mb[n], own) for n, own in zip(loaded, rng.spawn(n_loaded), strict=True)
        ]
        return heapq.merge(*streams, key=lambda change: change[0])

    def _of_node(
        self, node: int, memory_mb: float, rng: np.random.Generator
    ) -> Iterator[tuple[float, LocalChanged]]:
        used_mb = memory_mb * rng.uniform(*self.memory)
        cpu, is_there, idle_since_s = 0.0, False, 0.0
        toggles_s = rng.exponential(self.mean_idle_s)
        memory_changes_s = rng.exponential(self.mean_memory_s)
        while True:
            leaves_s = idle_since_s + GONE_AFTER_S if is_there and cpu == 0.0 else np.inf
            now_s = min(toggles_s, memory_changes_s, leaves_s)
            if now_s == memory_changes_s:
                used_mb = memory_mb * rng.uniform(*self.memory)
                memory_changes_s = now_s + rng.exponential(self.mean_memory_s)
            elif now_s == leaves_s:
                is_there = False
            elif cpu > 0.0:
                cpu, idle_since_s = 0.0, now_s
                toggles_s = now_s + rng.exponential(self.mean_idle_s)
            else:
                cpu, is_there = rng.uniform(*self.demand), True
                toggles_s = now_s + rng.exponential(self.mean_active_s)
            yield float(now_s), LocalChanged(node, cpu, used_mb, is_there)


@dataclass(frozen=True)
class TimeSharedCluster:
    """Nodes that parallel tasks share among themselves and with local users."""

    memory_mb: tuple[float, ...] = (MEMORY_MB,) * 16
    contract: SocialContract = field(default_factory=SocialContract)
    local_load: LocalUsers | None = None
    sharing: Sharing = field(default_factory=Sharing)
    sampling: Sampling = field(default_factory=Sampling)
    run_to_run: Spread = field(default_factory=lambda: Variation("normal", 0.03))
    """The distribution of execution times, relative to the time measured in isolation."""
    control_delay_s: float = 0.0
    """The delay with which the coscheduler stops and continues jobs."""
    in_detail: NodeModel | None = None
    """Nodes on which CCS and the processes themselves run; `sharing` and the delay are then not used."""

    @property
    def n_nodes(self) -> int:
        return len(self.memory_mb)

    def with_limits(self, most_jobs: int = 4, most_cpu: float = MAX_CPU) -> TimeSharedCluster:
        """A copy with limits on a node's parallel multiprogramming level and its summed CPU requirements."""
        return replace(self, contract=replace(self.contract, most_jobs=most_jobs, most_cpu=most_cpu))

    def with_local_users(self, share_of_nodes: float) -> TimeSharedCluster:
        return replace(self, local_load=LocalUsers(share_of_nodes) if share_of_nodes else None)
