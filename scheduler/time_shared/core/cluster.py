"""Jobs on time-shared nodes: choosing nodes, placing jobs, their remaining time and CPU rate (Eqs 1 to 9)."""

from __future__ import annotations

import numpy as np

from scheduler.core.arrays import Ints
from scheduler.core.codes import NONE
from scheduler.time_shared.core.tables import (
    BY_MPL,
    NORMAL,
    PROPORTIONAL,
    SLACK,
    TOGETHER_S,
    UNIFORM_ELSE_NORMAL,
    Jobs,
    Nodes,
)


class SharedCluster:
    """The state of the tables `jobs` and `nodes`, whose arrays it changes."""

    def __init__(self, jobs: Jobs, nodes: Nodes) -> None:
        self.jobs, self.nodes, self.n_nodes = jobs, nodes, len(nodes.n_jobs)
        self.tasks, self.needs_cpu, self.needs_mb = jobs.tasks, jobs.cpu, jobs.memory_mb
        self.exe_s, self.cpu_s, self.communicates = jobs.exe_s, jobs.cpu_s, jobs.communicates.view(np.uint8)
        self.reserves = jobs.reserved
        self.used_s, self.run_s, self.nodes_of = jobs.used_s, jobs.run_s, jobs.nodes
        self.n_jobs, self.jobs_on, self.cpu, self.memory_mb, self.reserved = nodes[:5]
        self.local_mpl, self.local_cpu, self.most_jobs, self.most_cpu, self.most_mb = nodes[5:10]
        self.most_reserved = nodes.most_reserved

    def fits(self, row: int, n: int) -> bool:
        """Whether one task of the job may start on node n, within the limits of the social contract."""
        return (
            self.n_jobs[n] < self.most_jobs[n]
            and self.memory_mb[n] + self.needs_mb[row] <= self.most_mb[n] + SLACK
            and self.cpu[n] + self.needs_cpu[row] <= self.most_cpu[n] + SLACK
            and self.reserved[n] + self.reserves[row] <= self.most_reserved[n] + SLACK
        )

    def is_less_loaded(self, a: int, b: int) -> bool:
        """By CPU, then MPL, then memory, then index."""
        load_a, load_b = self.cpu[a] + self.local_cpu[a], self.cpu[b] + self.local_cpu[b]
        if load_a != load_b:
            return load_a < load_b
        if self.n_jobs[a] != self.n_jobs[b]:
            return self.n_jobs[a] < self.n_jobs[b]
        if self.memory_mb[a] != self.memory_mb[b]:
            return self.memory_mb[a] < self.memory_mb[b]
        return a < b

    def least_loaded(self, row: int, chosen: Ints, only_idle: bool) -> bool:
        """The least loaded nodes on which the job fits, one for each task. O(N) mostly, at worst O(N
        tasks)."""
        wanted, found, n_jobs = self.tasks[row], 0, self.n_jobs
        for n in range(self.n_nodes):
            if (only_idle and n_jobs[n] > 0) or not self.fits(row, n):
                continue
            if found < wanted:
                found += 1
            elif not self.is_less_loaded(n, chosen[found - 1]):
                continue
            x = found - 1
            while x > 0 and self.is_less_loaded(n, chosen[x - 1]):
                chosen[x] = chosen[x - 1]
                x -= 1
            chosen[x] = n
        return found == wanted

    def matching_set(self, row: int, chosen: Ints) -> bool:
        """Nodes, one for each task, which carry exactly the same jobs, all of that size.

        Fewest jobs first, then fewest of the same kind (bound by communication or by computation), then the
        least load of its most loaded node, then the lowest node.
        """
        best, fewest, fewest_alike, least_load = NONE, 0, 0, 0.0
        n_jobs, jobs_on, tasks, wanted = self.n_jobs, self.jobs_on, self.tasks, self.tasks[row]
        for n in range(self.n_nodes):
            if n_jobs[n] == 0 or tasks[jobs_on[n, 0]] != wanted or not self.fits(row, n):
                continue
            load = self.load_of_set(row, n)
            if load < 0.0:
                continue
            alike = 0
            for y in range(n_jobs[n]):
                if self.communicates[jobs_on[n, y]] == self.communicates[row]:
                    alike += 1
            if (
                best == NONE
                or n_jobs[n] < fewest
                or (
                    n_jobs[n] == fewest
                    and (alike < fewest_alike or (alike == fewest_alike and load < least_load))
                )
            ):
                best, fewest, fewest_alike, least_load = n, n_jobs[n], alike, load
        if best == NONE:
            return False
        for x in range(wanted):
            chosen[x] = self.nodes_of[jobs_on[best, 0], x]
        return True

    def load_of_set(self, row: int, n: int) -> float:
        """The load of the most loaded of the nodes that carry the same jobs as node n, if n is the lowest of
        them; NONE if the job does not match them."""
        wanted, first, load = self.tasks[row], self.jobs_on[n, 0], 0.0
        for y in range(self.n_jobs[n]):
            if self.tasks[self.jobs_on[n, y]] != wanted:
                return NONE
        for x in range(wanted):
            other = self.nodes_of[first, x]
            if other < n or not self.fits(row, other) or self.n_jobs[other] != self.n_jobs[n]:
                return NONE
            for y in range(self.n_jobs[n]):
                if self.jobs_on[other, y] != self.jobs_on[n, y]:
                    return NONE
            load = max(load, self.cpu[other] + self.local_cpu[other])
        return load

    def select(self, row: int, node_selection: int, chosen: Ints) -> bool:
        """Write the nodes for a job to `chosen`; False if it has to wait."""
        if node_selection == NORMAL:
            return self.least_loaded(row, chosen, False)
        if self.least_loaded(row, chosen, True) or self.matching_set(row, chosen):
            return True
        return node_selection == UNIFORM_ELSE_NORMAL and self.least_loaded(row, chosen, False)

    def add_up(self, n: int) -> None:
        """Add up the load of a node in order of start, so that it does not depend on earlier jobs."""
        cpu = memory_mb = reserved = 0.0
        for x in range(self.n_jobs[n]):
            cpu += self.needs_cpu[self.jobs_on[n, x]]
            memory_mb += self.needs_mb[self.jobs_on[n, x]]
            reserved += self.reserves[self.jobs_on[n, x]]
        self.cpu[n], self.memory_mb[n], self.reserved[n] = cpu, memory_mb, reserved

    def put(self, row: int, chosen: Ints) -> None:
        """Place the job's tasks on the first nodes in `chosen`."""
        for x in range(self.tasks[row]):
            n = chosen[x]
            self.nodes_of[row, x] = n
            self.jobs_on[n, self.n_jobs[n]] = row
            self.n_jobs[n] += 1
            self.add_up(n)

    def take_off(self, row: int) -> None:
        """Free the nodes of a job."""
        for x in range(self.tasks[row]):
            n = self.nodes_of[row, x]
            y = 0
            while self.jobs_on[n, y] != row:
                y += 1
            self.n_jobs[n] -= 1
            for z in range(y, self.n_jobs[n]):
                self.jobs_on[n, z] = self.jobs_on[n, z + 1]
            self.add_up(n)

    def carry_as(self, other: SharedCluster) -> None:
        """Carry the same jobs as another cluster."""
        for n in range(self.n_nodes):
            self.n_jobs[n], self.cpu[n], self.memory_mb[n] = other.n_jobs[n], other.cpu[n], other.memory_mb[n]
            self.reserved[n] = other.reserved[n]
            for x in range(other.n_jobs[n]):
                self.jobs_on[n, x] = other.jobs_on[n, x]

    def slowdown(self, row: int, method: int) -> float:
        """Time relative to isolation from now on, by the job's worst node.

        MPL_max(J), the most tasks, parallel and local (Eqs 3 and 4); or CPU_max(J), the largest CPU
        requirement, if that is above one CPU (Eqs 5 to 7).
        """
        most = 0.0 if method == BY_MPL else 1.0
        for x in range(self.tasks[row]):
            n = self.nodes_of[row, x]
            if method == BY_MPL:
                most = max(most, self.n_jobs[n] + self.local_mpl[n])
            else:
                most = max(most, self.cpu[n] + self.local_cpu[n])
        return most

    def remaining_s(self, row: int, method: int, slower: float) -> float:
        """RemainTime(J), `slower` being its slowdown by the same method. Never negative.

        Eq 1 is undefined for a job that has used no CPU time: Eq 2 instead.
        """
        used_s = self.used_s[row]
        left_s = max(0.0, self.cpu_s[row] - used_s)
        if method == PROPORTIONAL and used_s > TOGETHER_S:  # less is rounding
            return self.run_s[row] * left_s / used_s
        isolated_s = self.exe_s[row] * left_s / self.cpu_s[row]
        return isolated_s if method == PROPORTIONAL else isolated_s * slower

    def cpu_rate(self, row: int, method: int, slower: float) -> float:
        """CPU time used per second (Eq 8 by MPL, Eq 9 by CPU)."""
        if method == BY_MPL:
            return self.cpu_s[row] / (slower * self.exe_s[row])
        return self.needs_cpu[row] / slower

    def expected_s(self, row: int, method: int) -> float:
        """Expected run time of a job that has just been placed."""
        return self.exe_s[row] * (1.0 if method == PROPORTIONAL else self.slowdown(row, method))
