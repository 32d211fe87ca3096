"""Algorithm 1: predicted starts and ends."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import Floats2
from scheduler.time_shared.core.passes import System
from scheduler.time_shared.core.tables import BY_HISTORY, EASY, TOGETHER_S, Methods


class Forecasts:
    """Predictions of each job of a system, in which no job is left running then. Times are seconds from now.

    By row: the start and end, infinite = never; jobs that already run keep their `start_s`. The time of the
    last update of the job's CPU time and run time; its slowdown, by the method of the remaining time, and the
    CPU time used per second, which change only where a job starts or ends on a node of the job.

    `past_slower`, (rows, MPL_paral), are slowdowns in past runs, for BY_HISTORY; 0 = unknown.
    """

    def __init__(self, system: System, methods: Methods, past_slower: Floats2 | None = None) -> None:
        """If both methods are the same, a job's end changes only with its nodes; otherwise every step
        estimates all. Each step costs O(running) and a pass."""
        n = len(system.cluster.jobs.id)
        self.system, self.cluster = system, system.cluster
        self.remaining, self.cpu = methods
        self.start_s, self.end_s, self.known_s = np.full(n, inf), np.full(n, inf), np.full(n, inf)
        self.slower, self.rate = np.empty(n), np.empty(n)
        self.past_slower = np.zeros((n, 0)) if past_slower is None else past_slower
        self.look_ahead()

    def update(self, row: int, now_s: float) -> None:
        """CPU time and run time at `now_s`, by the rate since the last update (Eqs 8 and 9)."""
        cluster, took_s = self.cluster, now_s - self.known_s[row]
        cluster.used_s[row] = min(cluster.cpu_s[row], cluster.used_s[row] + took_s * self.rate[row])
        cluster.run_s[row] += took_s
        self.known_s[row] = now_s

    def past_slowdown(self, row: int) -> float:
        """The slowdown in past runs of the job's kind, by the most parallel jobs on one of its nodes; 0 =
        unknown."""
        most = 0
        for x in range(self.cluster.tasks[row]):
            most = max(most, self.cluster.n_jobs[self.cluster.nodes_of[row, x]])
        return self.past_slower[row, most] if most < self.past_slower.shape[1] else 0.0

    def estimate(self, row: int, now_s: float) -> None:
        """Slowdown, rate and end of a job whose nodes have changed."""
        by_cpu_method = self.cluster.slowdown(row, self.cpu)
        slower = by_cpu_method
        if self.remaining == BY_HISTORY:
            slower = self.past_slowdown(row)
            slower = slower if slower > 0.0 else by_cpu_method
        elif self.remaining != self.cpu:
            slower = self.cluster.slowdown(row, self.remaining)
        self.slower[row] = slower
        self.rate[row] = self.cluster.cpu_rate(row, self.cpu, by_cpu_method)
        self.end_s[row] = now_s + self.cluster.remaining_s(row, self.remaining, slower)

    def estimate_neighbours(self, row: int, now_s: float) -> None:
        """Estimate all jobs on the nodes of this one."""
        cluster = self.cluster
        for x in range(cluster.tasks[row]):
            n = cluster.nodes_of[row, x]
            for y in range(cluster.n_jobs[n]):
                other = cluster.jobs_on[n, y]
                if self.known_s[other] != now_s:
                    self.update(other, now_s)
                self.estimate(other, now_s)

    def start_jobs(self, now_s: float) -> None:
        """A scheduling pass."""
        system = self.system
        before, running = system.n_running, system.running
        if system.selection == EASY and system.first < system.end:
            for x in range(before):
                self.update(running[x], now_s)
        system.start_jobs()
        for x in range(before, system.n_running):
            self.start_s[running[x]] = self.known_s[running[x]] = now_s
        for x in range(before, system.n_running):
            self.estimate_neighbours(running[x], now_s)

    def look_ahead(self) -> None:
        """Run until no job is left running. A pass comes first, since nothing may run."""
        system, running, now_s = self.system, self.system.running, 0.0
        for x in range(system.n_running):
            self.known_s[running[x]] = 0.0
            self.estimate(running[x], 0.0)
        self.start_jobs(0.0)
        while system.n_running > 0:
            first_s = inf
            for x in range(system.n_running):
                row = running[x]
                if self.remaining != self.cpu:
                    self.update(row, now_s)
                    left_s = self.cluster.remaining_s(row, self.remaining, self.slower[row])
                    self.end_s[row] = now_s + left_s
                first_s = min(first_s, self.end_s[row])
            now_s = max(now_s, first_s)
            x, n_before = 0, system.n_running
            while x < system.n_running:
                row = running[x]
                if self.end_s[row] <= first_s + TOGETHER_S:
                    system.n_running -= 1
                    running[x], running[system.n_running] = running[system.n_running], row
                else:
                    x += 1
            for x in range(
                n_before - 1, system.n_running - 1, -1
            ):  # until now, others ran at their old rates
                row = running[x]
                self.cluster.take_off(row)
                self.end_s[row] = now_s
                self.estimate_neighbours(row, now_s)
            self.start_jobs(now_s)
