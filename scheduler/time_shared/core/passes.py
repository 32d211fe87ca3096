"""Which jobs start."""

from __future__ import annotations

from math import inf

import numpy as np

from scheduler.core.arrays import Ints, floats, integers
from scheduler.core.codes import NONE
from scheduler.time_shared.core.cluster import SharedCluster
from scheduler.time_shared.core.tables import (
    BEST_FIT,
    BY_CPU,
    EASY,
    JUST_FIRST,
    TOGETHER_S,
    Jobs,
    Nodes,
    Policy,
)


class System:
    """A copy of a cluster, in which jobs start in the order of the queue as a policy allows.

    `waiting[first:end]` are the rows of the waiting jobs, `running[:n_running]` those of the running jobs:
    those that started are the last ones. `chosen` are the nodes for a job now, `elsewhere` those at a later
    time, when the cluster is as `later`.
    """

    def __init__(self, jobs: Jobs, nodes: Nodes, waiting: Ints, running: Ints, policy: Policy) -> None:
        self.cluster, self.policy = SharedCluster(jobs.copied(), nodes.copied()), policy
        self.selection, self.node_selection, self.estimate = policy
        self.waiting, self.first, self.end = waiting.copy(), 0, len(waiting)
        self.running, self.n_running = np.concatenate([running, waiting]), len(running)
        self.chosen, self.elsewhere = integers(len(nodes.n_jobs)), integers(len(nodes.n_jobs))
        if self.selection == EASY:
            self.later, self.left_s = (
                SharedCluster(self.cluster.jobs, nodes.copied()),
                floats(len(self.running)),
            )

    def copied(self) -> System:
        rows = self.waiting_rows(), self.running_rows()
        return System(self.cluster.jobs, self.cluster.nodes, *rows, self.policy)

    def waiting_rows(self) -> Ints:
        return np.asarray(self.waiting)[self.first : self.end]

    def running_rows(self) -> Ints:
        return np.asarray(self.running)[: self.n_running]

    def choose(self, row: int) -> bool:
        """Choose the nodes for a job; False if it cannot start now."""
        return self.cluster.select(row, self.node_selection, self.chosen)

    def start(self, row: int) -> None:
        """Start a waiting job on the chosen nodes."""
        x = self.first
        while self.waiting[x] != row:
            x += 1
        while x > self.first:
            self.waiting[x] = self.waiting[x - 1]
            x -= 1
        self.first += 1
        self.cluster.put(row, self.chosen)
        self.running[self.n_running] = row
        self.n_running += 1

    def next_to_start(self) -> int:
        """The row of the job to start next, for which nodes are chosen."""
        best, most_tasks = NONE, 0
        for x in range(self.first, self.end):
            row = self.waiting[x]
            if self.cluster.tasks[row] > most_tasks and self.choose(row):
                best, most_tasks = row, self.cluster.tasks[row]
                if self.selection != BEST_FIT:
                    return row
            if self.selection == JUST_FIRST or self.selection == EASY:
                return NONE
        if best != NONE:
            self.choose(best)
        return best

    def reservation_s(self, head: int) -> float:
        """Seconds until `head` can start, if running jobs end as estimated; `later` is the cluster then.

        Infinite if it cannot start even when all have ended.
        """
        n, left_s, running = self.n_running, self.left_s, self.running
        self.later.carry_as(self.cluster)
        for x in range(n):
            slower = self.cluster.slowdown(running[x], self.estimate)
            left_s[x] = self.cluster.remaining_s(running[x], self.estimate, slower)
        while True:
            head_s = inf
            for x in range(n):
                head_s = min(head_s, left_s[x])
            if head_s == inf:
                return inf
            for x in range(n):
                if left_s[x] <= head_s + TOGETHER_S:
                    left_s[x] = inf
                    self.later.take_off(running[x])
            if self.later.select(head, self.node_selection, self.elsewhere):
                return head_s

    def backfill(self) -> None:
        """EASY: start jobs that do not delay the first of the queue according to the estimates.

        These ignore that a new job slows others down, so under time sharing the first may still start later.
        """
        cluster, later, head = self.cluster, self.later, self.waiting[self.first]
        head_s = self.reservation_s(head)
        for x in range(self.first + 1, self.end):
            row = self.waiting[x]
            if not self.choose(row):
                continue
            cluster.put(row, self.chosen)
            takes_s = cluster.exe_s[row] * cluster.slowdown(row, BY_CPU)
            cluster.take_off(row)
            may_start = takes_s <= head_s + TOGETHER_S
            if not may_start:
                later.put(row, self.chosen)
                may_start = later.select(head, self.node_selection, self.elsewhere)
                if not may_start:
                    later.take_off(row)
            if may_start:
                self.start(row)

    def start_jobs(self) -> None:
        """Start all jobs that the policies allow.

        It repeats until nothing more starts: a backfilled job may have made a set of nodes suitable for
        another.
        """
        before = NONE
        while self.n_running != before:
            before = self.n_running
            row = self.next_to_start()
            if row != NONE:
                self.start(row)
            elif self.selection == EASY and self.end - self.first > 1:
                self.backfill()
