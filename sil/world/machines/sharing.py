"""How fast tasks that share a node really are: times longer than alone, task by task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numba import types

from scheduler.compiled import FLOATS, Floats, compiled

CLOSE_ENOUGH = 1e-13
MOST_ROUNDS = 500


class Carried(NamedTuple):
    """What a node carries: tasks that would use `cpu` of a CPU each, alone.

    `available` is the share of the CPU that the social contract leaves them now; `local_tasks` run for local
    users, which demand `local_cpu`. `elsewhere` is how much slower than alone the jobs of these tasks are by
    their other nodes.
    """

    cpu: Sequence[float]
    available: float
    local_tasks: int
    local_cpu: float
    elsewhere: Sequence[float]


class Sharing(Protocol):
    coupled: ClassVar[bool]
    """Whether how slow a job is elsewhere changes how its tasks share a node."""

    def cpu_cost(self, k: int) -> float:
        """CPU time that each of `k` tasks uses, by what it uses alone."""
        ...

    def slowdowns(self, node: Carried) -> list[float]:
        """Of each task on a node, against alone."""
        ...


@dataclass(frozen=True, slots=True)
class Fluid:
    """Approximate mean value analysis: tasks compute and communicate in turn, and wait for the CPU.

    `inflation` of CPU time per other task (context switches and caches), `coscheduling_loss` of
    communication while others hold the CPU (0 = none is lost), `overhead` of user-space coscheduling, a share
    of the CPU. With c = cpu (1 + inflation (k - 1)), A available and Q the sum of the others' q, the fixed
    point of R = c (1 + Q) / A, Z = (1 - cpu) (1 + loss Q), q = R / (R + Z); a task takes R + Z times as long.
    """

    inflation: float = 0.02
    coscheduling_loss: float = 0.0
    overhead: float = 0.0

    coupled: ClassVar[bool] = False

    def cpu_cost(self, k: int) -> float:
        return 1.0 + self.inflation * (k - 1)

    def slowdowns(self, node: Carried) -> list[float]:
        k, available = len(node.cpu), node.available - self.overhead
        if k == 1:  # nobody to wait for
            return [node.cpu[0] / available + (1.0 - node.cpu[0])]
        shares, found = np.array(node.cpu, dtype=np.float64), np.empty(k)
        parameters = np.array([available, self.inflation, self.coscheduling_loss])
        least = np.array(node.elsewhere, dtype=np.float64) if self.coupled else np.zeros(k)
        solve(shares, least, parameters, found)
        return list(found.tolist())


@dataclass(frozen=True, slots=True)
class Coupled(Fluid):
    """Fluid, and a task that waits for a slower one elsewhere takes less of its own CPU meanwhile.

    q = R / max(R + Z, how slow its job is), so what changes on one node spreads along the jobs to others.
    """

    coupled: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ByMpl:
    """As the predictor's MPL method has it: every task, local ones too, gets the same share of the time."""

    coupled: ClassVar[bool] = False

    def cpu_cost(self, k: int) -> float:
        return 1.0

    def slowdowns(self, node: Carried) -> list[float]:
        return [float(len(node.cpu) + node.local_tasks)] * len(node.cpu)


@dataclass(frozen=True, slots=True)
class ByCpu:
    """As the predictor's CPU method has it: nobody waits until requirements exceed the CPU."""

    coupled: ClassVar[bool] = False

    def cpu_cost(self, k: int) -> float:
        return 1.0

    def slowdowns(self, node: Carried) -> list[float]:
        return [max(1.0, sum(node.cpu, 0.0) + node.local_cpu)] * len(node.cpu)


@compiled(types.void(FLOATS, FLOATS, FLOATS, FLOATS))
def solve(cpu: Floats, elsewhere: Floats, parameters: Floats, found: Floats) -> None:
    """O(k^2) in each of some tens of rounds, always from the same beginning."""
    available, inflation, loss = parameters[0], parameters[1], parameters[2]
    k = len(cpu)
    total = 0.0
    for i in range(k):
        found[i] = cpu[i]  # q, the share of its time in which a task has or wants the CPU
        total += cpu[i]
    for _ in range(MOST_ROUNDS):
        moved = 0.0
        for i in range(k):
            others = total - found[i]
            busy = cpu[i] * (1.0 + inflation * (k - 1)) * (1.0 + others) / available
            slower = max(elsewhere[i], busy + (1.0 - cpu[i]) * (1.0 + loss * others))
            q = 0.5 * (found[i] + busy / slower)
            moved = max(moved, abs(q - found[i]))
            total += q - found[i]
            found[i] = q
        if moved < CLOSE_ENOUGH:
            break
    for i in range(k):
        others = total - found[i]
        busy = cpu[i] * (1.0 + inflation * (k - 1)) * (1.0 + others) / available
        found[i] = busy + (1.0 - cpu[i]) * (1.0 + loss * others)
