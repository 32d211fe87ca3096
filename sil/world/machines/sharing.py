"""How much sharing a node slows down each task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from scheduler.compiled import Floats, compiled
from scheduler.time_shared.social_contract import sum_in_order

TOLERANCE = 1e-13
MAX_ITERATIONS = 500


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


class Sharing(ABC):
    coupled: ClassVar[bool] = False
    """Whether the slowdown of a job on other nodes affects how its tasks share a node."""

    def cpu_cost(self, k: int) -> float:
        """CPU time used by each of `k` tasks, relative to isolation."""
        return 1.0

    @abstractmethod
    def slowdowns(self, node: NodeLoad) -> list[float]:
        """Of each task on a node, relative to isolation."""


@dataclass(frozen=True, slots=True)
class Fluid(Sharing):
    """Approximate mean value analysis: tasks compute and communicate in turn, and queue for the CPU.

    `inflation` of CPU time per other task (context switches and caches), `coscheduling_loss` of
    communication while others hold the CPU (0 = none is lost), `overhead` of user-space coscheduling, a share
    of the CPU. With c = cpu (1 + inflation (k - 1)), A available and Q the sum of the others' q, the fixed
    point of R = c (1 + Q) / A, Z = (1 - cpu) (1 + loss Q), q = R / (R + Z); a task takes R + Z times as long.
    """

    inflation: float = 0.02
    coscheduling_loss: float = 0.0
    overhead: float = 0.0

    def cpu_cost(self, k: int) -> float:
        return 1.0 + self.inflation * (k - 1)

    def slowdowns(self, node: NodeLoad) -> list[float]:
        k, available = len(node.cpu), node.available - self.overhead
        if k == 1:  # no queueing
            return [node.cpu[0] / available + (1.0 - node.cpu[0])]
        shares, found = np.array(node.cpu, dtype=np.float64), np.empty(k)
        parameters = np.array([available, self.inflation, self.coscheduling_loss])
        least = np.array(node.elsewhere, dtype=np.float64) if self.coupled else np.zeros(k)
        solve(shares, least, parameters, found)
        return list(found.tolist())


@dataclass(frozen=True, slots=True)
class Coupled(Fluid):
    """Fluid, where a task that waits for a slower one on another node uses less of its own CPU.

    q = R / max(R + Z, slowdown of its job), so that a change on one node spreads along the jobs to others.
    """

    coupled: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ByMpl(Sharing):
    """The predictor's MPL method: all tasks, local ones included, get equal shares of the time."""

    def slowdowns(self, node: NodeLoad) -> list[float]:
        return [float(len(node.cpu) + node.local_tasks)] * len(node.cpu)


@dataclass(frozen=True, slots=True)
class ByCpu(Sharing):
    """The predictor's CPU method: tasks slow down only where requirements exceed the CPU."""

    def slowdowns(self, node: NodeLoad) -> list[float]:
        return [max(1.0, sum_in_order(node.cpu) + node.local_cpu)] * len(node.cpu)


@compiled
def solve(cpu: Floats, elsewhere: Floats, parameters: Floats, found: Floats) -> None:
    """O(k^2) in each of some tens of iterations, always from the same initial values."""
    available, inflation, loss = parameters[0], parameters[1], parameters[2]
    k = len(cpu)
    total = 0.0
    for i in range(k):
        found[i] = cpu[i]  # q, the share of its time in which a task has or waits for the CPU
        total += cpu[i]
    for _ in range(MAX_ITERATIONS):
        moved = 0.0
        for i in range(k):
            others = total - found[i]
            busy = cpu[i] * (1.0 + inflation * (k - 1)) * (1.0 + others) / available
            slower = max(elsewhere[i], busy + (1.0 - cpu[i]) * (1.0 + loss * others))
            q = 0.5 * (found[i] + busy / slower)
            moved = max(moved, abs(q - found[i]))
            total += q - found[i]
            found[i] = q
        if moved < TOLERANCE:
            break
    for i in range(k):
        others = total - found[i]
        busy = cpu[i] * (1.0 + inflation * (k - 1)) * (1.0 + others) / available
        found[i] = busy + (1.0 - cpu[i]) * (1.0 + loss * others)
