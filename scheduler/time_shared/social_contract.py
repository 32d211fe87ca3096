"""What a job requires of its nodes, and the social contract: how much a node with local users gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import isfinite
from operator import add

COMMUNICATION_BOUND_BELOW = 0.7
"""Jobs that use less of a CPU in isolation are communication-bound, others computation-bound."""

MAX_CPU = 2.0
"""The default limit of the CPU requirements on a node, in CPUs. CISNE-P (2.1.1) names such a limit and gives
no number. This is the product of the two that it gives, L = 0.5 of the CPU and an MPL of 4: four tasks may
require L each on average."""

MAX_RESERVED = 0.95
"""The share of a CPU that may be reserved at most: sched_rt_runtime_us of Linux leaves the rest to others."""

OS_MEMORY_MB = 64.0
"""Memory reserved for the operating system of a node."""


def sum_in_order(amounts: Iterable[float]) -> float:
    """The sum that compiled code takes, rounded after each addition.

    Since Python 3.12, `sum` compensates for rounding, so ties would break differently.
    """
    return reduce(add, amounts, 0.0)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A parallel job as it was measured in isolation: one task on each of `n_tasks` nodes.

    `cpu` is CPU(J), the share of one CPU that a task uses, in (0, 1]; `exe_s` is ExeTime_tot; `memory_mb` is
    per task. CPUtime_tot, per task, is cpu x exe_s. Raises ValueError. Source: Hanzich et al. 2006, sec. 2.
    `reserved` is the share of a CPU that is promised to each task.
    """

    n_tasks: int
    cpu: float
    memory_mb: float
    exe_s: float
    reserved: float = 0.0

    def __post_init__(self) -> None:
        if self.n_tasks < 1:
            raise ValueError(f"a job has at least one task, not {self.n_tasks}")
        if not (isfinite(self.exe_s) and self.exe_s > 0):
            raise ValueError(f"the execution time of a job is above zero, not {self.exe_s:g} s")
        if not 0 < self.cpu <= 1:
            raise ValueError(
                f"a task uses more than none and at most the whole of one CPU, not {self.cpu:g} of it "
                f"(its CPU time cannot exceed its execution time)"
            )
        if not (isfinite(self.memory_mb) and self.memory_mb >= 0):
            raise ValueError(f"the memory of a task is zero or more, not {self.memory_mb:g} MB")

    @property
    def cpu_s(self) -> float:
        return self.cpu * self.exe_s

    @property
    def communicates(self) -> bool:
        """Whether it is communication-bound."""
        return self.cpu < COMMUNICATION_BOUND_BELOW


@dataclass(frozen=True, slots=True)
class SocialContract:
    """Limits of parallel work on a node.

    `share` (L) of CPU and memory is guaranteed to parallel tasks while a local user is present; they may also
    use what the user does not need. `most_jobs` is the largest parallel MPL of a node, `most_cpu` the largest
    sum of CPU requirements; from `most_jobs` on, it is no limit, since a task requires at most one CPU.
    Source: CISNE-P, sections 2.1.1 and 2.2.
    """

    share: float = 0.5
    most_jobs: int = 4
    most_cpu: float = MAX_CPU

    @property
    def most_reserved(self) -> float:
        """The largest sum of reserved shares on a node. By earliest deadline first, periodic tasks keep their
        deadlines if their shares add up to at most one CPU (Liu and Layland 1973)."""
        return min(self.share, MAX_RESERVED)

    def memory_mb(self, node_mb: float, local_mb: float, user_is_there: bool) -> float:
        """Memory of a node available to parallel tasks."""
        if not user_is_there:
            return max(0.0, node_mb - OS_MEMORY_MB)
        return max(self.share * node_mb, node_mb - OS_MEMORY_MB - local_mb)

    def refusal(self, requirement: Requirement, free_mb: Sequence[float]) -> str | None:
        """Why a job could never run, even on empty nodes without local users; or None.

        `free_mb` is the memory then available to parallel tasks on each node, largest first.
        """
        n_nodes = len(free_mb)
        if requirement.n_tasks > n_nodes:
            return f"it has {requirement.n_tasks} tasks, one for each node, and there are {n_nodes} nodes"
        if requirement.cpu > self.most_cpu:
            return (
                f"a task requires {requirement.cpu:g} of a CPU; the social contract allows {self.most_cpu:g}"
            )
        if requirement.reserved > self.most_reserved:
            return (
                f"{requirement.reserved:g} of a CPU cannot be reserved for each task; the social contract "
                f"leaves {self.most_reserved:g} for reservations on a node"
            )
        most_mb = free_mb[requirement.n_tasks - 1]
        if requirement.memory_mb > most_mb:
            return (
                f"a task requires {requirement.memory_mb:g} MB of memory on {requirement.n_tasks} nodes; "
                f"at most {most_mb:g} MB are free on that many"
            )
        return None
