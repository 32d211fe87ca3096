"""The job that gains most by running on a cluster."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.arrays import Floats, Ints
from scheduler.core.codes import NONE

if TYPE_CHECKING:
    from scheduler.mapping.table import EtcTable


class Clusters:
    """Expected times in parallel (C, clusters), the `members` of each cluster, the pairs that are not
    considered (`passed_over`), and the best completion of each job class on single machines (`alone_s`)."""

    def __init__(self, table: EtcTable, times_s: Floats, members: Ints, first_member: Ints) -> None:
        self.by_job_class_s, self.times_s = table.by_job_class_s, times_s
        self.jobs, self.first_job = table.jobs, table.first_job
        self.machines, self.first_machine = table.machines, table.first_machine
        self.members, self.first_member = members, first_member
        self.passed_over = np.zeros(times_s.shape, np.bool_)
        self.is_passed_over = self.passed_over.view(np.uint8)
        n_job_classes, n_machine_classes = table.by_job_class_s.shape
        self.alone_s, self.front_s = np.empty(n_job_classes), np.empty(n_machine_classes)
        self.best_alone_s = self.alone_s

    def find_best_alone(self, ready_s: Floats) -> None:
        """Find the best completions at these ready times of machines (m,)."""
        for k in range(self.front_s.shape[0]):
            self.front_s[k] = inf
            for x in range(self.first_machine[k], self.first_machine[k + 1]):
                self.front_s[k] = min(self.front_s[k], ready_s[self.machines[x]])
        for c in range(self.best_alone_s.shape[0]):
            least_s = inf
            for k in range(self.front_s.shape[0]):
                least_s = min(least_s, self.front_s[k] + self.by_job_class_s[c, k])
            self.best_alone_s[c] = least_s

    def most_profitable(self, next_job: Ints, ready_s: Floats) -> tuple[int, int] | None:
        """(job class, cluster) of the highest positive gain over the best completion alone.

        Machines are ready at `ready_s` (m,), a cluster when all its members are. Ties go to the lowest job,
        then the lowest cluster. None if nothing is gained.
        """
        c, cluster = self.best_pair(next_job, ready_s)
        return None if c == NONE else (c, cluster)

    def best_pair(self, next_job: Ints, ready_s: Floats) -> tuple[int, int]:
        best, best_cluster, most_s = NONE, NONE, 0.0
        for cluster in range(self.first_member.shape[0] - 1):
            first, end = self.first_member[cluster], self.first_member[cluster + 1]
            all_ready_s = -inf if first < end else inf
            for x in range(first, end):
                all_ready_s = max(all_ready_s, ready_s[self.members[x]])
            for c in range(self.best_alone_s.shape[0]):
                together_s = all_ready_s + self.times_s[c, cluster]
                if (
                    together_s == inf
                    or self.is_passed_over[c, cluster]
                    or next_job[c] == self.first_job[c + 1]
                ):
                    continue
                if not self.best_alone_s[c] > together_s:
                    continue
                gain_s = self.best_alone_s[c] - together_s
                if gain_s > most_s or (
                    gain_s == most_s and self.jobs[next_job[c]] < self.jobs[next_job[best]]
                ):
                    best, best_cluster, most_s = c, cluster, gain_s
        return best, best_cluster
