"""Local users, who come and go, and what they demand of their nodes."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

GONE_AFTER_S = 60.0
"""A user without activity for so long is taken to be gone (CISNE-P, section 2.2.1)."""


@dataclass(frozen=True, slots=True)
class LocalDemand:
    """From now on, the users of `node` demand this."""

    node: int
    cpu: float
    memory_mb: float
    user_is_there: bool


@dataclass(frozen=True, slots=True)
class LocalLoad:
    """Users on a share of the nodes, each active and idle in turn, for exponential times.

    While active, they demand a share of the CPU, uniform between the two in `demand`, drawn anew each time;
    `mean_cpu` is that share over all time, and says how long they are idle. Memory is uniform between the two
    shares in `memory`, drawn anew after exponential times. Source: Hanzich et al. 2006, section 4 (15 % CPU,
    35 % memory).
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
        self, memory_mb: list[float], luck: np.random.Generator
    ) -> Iterator[tuple[float, LocalDemand]]:
        """All changes in order of time, without end; none where no node has users."""
        n_loaded = round(self.share_of_nodes * len(memory_mb))
        loaded = sorted(luck.permutation(len(memory_mb))[:n_loaded].tolist())
        streams = [
            self._of_node(n, memory_mb[n], own) for n, own in zip(loaded, luck.spawn(n_loaded), strict=True)
        ]
        return heapq.merge(*streams, key=lambda change: change[0])

    def _of_node(
        self, node: int, memory_mb: float, luck: np.random.Generator
    ) -> Iterator[tuple[float, LocalDemand]]:
        used_mb = memory_mb * luck.uniform(*self.memory)
        cpu, is_there, idle_since_s = 0.0, False, 0.0
        turns_s = luck.exponential(self.mean_idle_s)
        redrawn_s = luck.exponential(self.mean_memory_s)
        while True:
            gone_s = idle_since_s + GONE_AFTER_S if is_there and cpu == 0.0 else np.inf
            now_s = min(turns_s, redrawn_s, gone_s)
            if now_s == redrawn_s:
                used_mb = memory_mb * luck.uniform(*self.memory)
                redrawn_s = now_s + luck.exponential(self.mean_memory_s)
            elif now_s == gone_s:
                is_there = False
            elif cpu > 0.0:
                cpu, idle_since_s = 0.0, now_s
                turns_s = now_s + luck.exponential(self.mean_idle_s)
            else:
                cpu, is_there = luck.uniform(*self.demand), True
                turns_s = now_s + luck.exponential(self.mean_active_s)
            yield float(now_s), LocalDemand(node, cpu, used_mb, is_there)
