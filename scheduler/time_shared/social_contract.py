"""The social contract: the limits of parallel jobs on nodes with local users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from scheduler.time_shared.requirement import Requirement

OS_MEMORY_MB = 64.0
"""Memory reserved for the operating system of a node."""


@dataclass(frozen=True, slots=True)
class SocialContract:
    """Limits of parallel work on a node.

    `share` (L) of CPU and memory is guaranteed to parallel tasks while a local user is present; they may also
    use what the user does not need. `most_jobs` is the largest parallel MPL of a node, `most_cpu` the largest
    sum of CPU requirements. Source: CISNE-P, sections 2.1.1 and 2.2.
    """

    share: float = 0.5
    most_jobs: int = 4
    most_cpu: float = inf

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
        most_mb = free_mb[requirement.n_tasks - 1]
        if requirement.memory_mb > most_mb:
            return (
                f"a task requires {requirement.memory_mb:g} MB of memory on {requirement.n_tasks} nodes; "
                f"at most {most_mb:g} MB are free on so many"
            )
        return None
