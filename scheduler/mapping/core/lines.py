"""Machines by ready time, class by class, and the assignment of jobs to the first of them."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import numpy as np

from scheduler.core.arrays import Floats, Floats2, Ints, floats, integers
from scheduler.core.codes import LAST_INDEX, NONE
from scheduler.model import Assignments

if TYPE_CHECKING:
    from scheduler.mapping.table import EtcTable


class Lines:
    """Machines of each class by ready time: runs of equal ready time in a heap, the first one as the front;
    and the plan, assignments in order of decision. `next_job` is where the jobs left of each class begin.

    The machines of a run are a slice of `members`: first the m machines in their initial order, then one for
    each assignment, in order of decision (`plan_machines` is that part of `members`). Invariants, for each
    class k, between calls:

    * `front[front_at[k]:front_end[k]]` are ready at `front_s[k]`, ascending by index; if they are none,
      `front_s[k]` is infinite and no run is left.
    * Every run in the heap, which begins at the `first_machine` of its class, is ready after `front_s[k]`.
    * Each machine that is ever ready is in exactly one front or run.
    """

    def __init__(self, table: EtcTable) -> None:
        self.by_job_class_s, self.by_machine_class_s = table.by_job_class_s, table.by_machine_class_s
        self.jobs, self.first_job = table.jobs, table.first_job
        self.machines, self.first_machine = table.machines, table.first_machine
        self.n_job_classes, self.n_machine_classes = table.by_job_class_s.shape
        self.n_machines = m = len(table.machines)
        self.members = self.all_members = integers(m + len(table.jobs))
        self.front = integers(m)
        self.run_s, self.run_at, self.run_length = floats(m), integers(m), integers(m)
        n = self.n_machine_classes
        self.n_runs, self.offers = integers(n), integers(n)
        self.front_at, self.front_end, self.front_s = integers(n), integers(n), floats(n)

    def begin(self, next_job: Ints, ready_s: Floats) -> None:
        """Begin an empty plan for the jobs from `next_job` on, with all machines that are ever ready;
        neighbours ready at the same time are one run."""
        n = self.jobs.shape[0]
        self.done, self.next_job = 0, next_job.copy()
        self.plan = jobs, start_s, completion_s = np.empty(n, np.int64), np.empty(n), np.empty(n)
        self.plan_jobs, self.start_s, self.completion_s = jobs, start_s, completion_s
        for k in range(self.n_machine_classes):
            self.n_runs[k] = 0
            at, end = self.first_machine[k], self.first_machine[k + 1]
            while at < end:
                time_s, until = ready_s[self.machines[at]], at
                while until < end and ready_s[self.machines[until]] == time_s:
                    self.members[until] = self.machines[until]
                    until += 1
                if time_s < inf:
                    self.push_run(k, time_s, at, until - at)
                at = until
            self.next_front(k)

    def assignments(self) -> Assignments:
        n, m = self.done, self.n_machines
        jobs, start_s, completion_s = self.plan
        return Assignments(jobs[:n], self.all_members[m : m + n].copy(), start_s[:n], completion_s[:n])

    def is_used_up(self, c: int) -> bool:
        """Whether no job of class c is left."""
        return self.next_job[c] == self.first_job[c + 1]

    def soonest(self, times_s: Floats2, row: int) -> float:
        """The least completion over all machine classes, by a row of times; eight minima, which processors
        compute in parallel."""
        a, b, c, d, e, f, g, h = inf, inf, inf, inf, inf, inf, inf, inf
        n = self.n_machine_classes
        whole = n - n % 8
        for k in range(0, whole, 8):
            a = min(a, self.front_s[k] + times_s[row, k])
            b = min(b, self.front_s[k + 1] + times_s[row, k + 1])
            c = min(c, self.front_s[k + 2] + times_s[row, k + 2])
            d = min(d, self.front_s[k + 3] + times_s[row, k + 3])
            e = min(e, self.front_s[k + 4] + times_s[row, k + 4])
            f = min(f, self.front_s[k + 5] + times_s[row, k + 5])
            g = min(g, self.front_s[k + 6] + times_s[row, k + 6])
            h = min(h, self.front_s[k + 7] + times_s[row, k + 7])
        for k in range(whole, n):
            a = min(a, self.front_s[k] + times_s[row, k])
        return min(min(min(a, b), min(c, d)), min(min(e, f), min(g, h)))

    def place(self, c: int, completion_s: float, until_job: int, n_offers: int) -> int:
        """Assign the next jobs of class c to machines on which they complete at `completion_s`.

        One call makes as many steps of the reference algorithm as take the same decision: the lowest job goes
        to the lowest machine, both ascending. Returns the class of their machines; `done` grows by the number
        of jobs.

        Preconditions: `completion_s` is the least completion of class c (`soonest`); the first `n_offers`
        classes in `offers` are those that reach it; jobs of c below `until_job` precede all tied jobs of
        other classes. Steps stop at `until_job`, at the lowest machine tied in another class or run
        (`others`), and at the end of the front. There is one step only if the machine comes from a
        later run, tied by rounding, or if the job takes no time, so that its machine stays at the front.

        Writes the next rows of the plan and advances `next_job[c]`. Machines that left the front, or their
        run, enter the heap as one run at `completion_s`: the invariants hold again.
        """
        best, behind, lowest, others = NONE, NONE, LAST_INDEX, LAST_INDEX
        for y in range(n_offers):
            k = self.offers[y]
            time_s = self.by_job_class_s[c, k]
            if self.front_s[k] + time_s != completion_s:
                continue
            j = self.front[self.front_at[k]]
            others = min(others, max(j, lowest))
            if j < lowest:
                best, behind, lowest = k, NONE, j
            base = self.first_machine[k]
            if self.n_runs[k] > 0 and self.run_s[base] + time_s == completion_s:
                for x in range(self.n_runs[k]):  # later runs can be tied with the front by rounding
                    if self.run_s[base + x] + time_s == completion_s:
                        j = self.members[self.run_at[base + x]]
                        others = min(others, max(j, lowest))
                        if j < lowest:
                            best, behind, lowest = k, x, j
        begin, at, start_s = self.next_job[c], self.front_at[best], self.front_s[best]
        placed = 1
        if behind >= 0:
            start_s = self.run_s[self.first_machine[best] + behind]
            self.take_behind(best, behind)
        elif completion_s > start_s:
            most = min(self.first_job[c + 1] - begin, self.front_end[best] - at)
            while (
                placed < most and self.jobs[begin + placed] < until_job and self.front[at + placed] < others
            ):
                placed += 1
            self.front_at[best] += placed
        row = self.n_machines + self.done
        self.members[row] = lowest
        for x in range(1, placed):
            self.members[row + x] = self.front[at + x]
        for x in range(placed):
            self.plan_jobs[self.done + x] = self.jobs[begin + x]
            self.start_s[self.done + x] = start_s
            self.completion_s[self.done + x] = completion_s
        self.next_job[c] += placed
        self.done += placed
        if behind >= 0 or completion_s > start_s:  # otherwise the machine stays at the front
            self.push_run(best, completion_s, row, placed)
            if self.front_at[best] == self.front_end[best]:
                self.next_front(best)
        return best

    def take_behind(self, k: int, x: int) -> None:
        """Remove the first machine of the run in place x of class k's heap."""
        run = self.first_machine[k] + x
        self.run_at[run] += 1
        self.run_length[run] -= 1
        if self.run_length[run] == 0:
            self.drop_run(k, x)

    def next_front(self, k: int) -> None:
        """Make all runs of class k that are ready first its front."""
        if self.n_runs[k] == 0:
            self.front_s[k] = inf
            return
        root = self.first_machine[k]
        end, ready_s = root, self.run_s[root]
        while self.n_runs[k] > 0 and self.run_s[root] == ready_s:
            at = self.run_at[root]
            for x in range(self.run_length[root]):
                self.front[end + x] = self.members[at + x]
            end += self.run_length[root]
            self.drop_run(k, 0)
        sort_ascending(self.front, root, end)
        self.front_at[k], self.front_end[k], self.front_s[k] = root, end, ready_s

    def push_run(self, k: int, ready_s: float, at: int, length: int) -> None:
        x = self.n_runs[k]
        self.n_runs[k] += 1
        self.rise(self.first_machine[k], x, ready_s, at, length)

    def drop_run(self, k: int, x: int) -> None:
        """Remove the run in place x of class k's heap."""
        base, n = self.first_machine[k], self.n_runs[k] - 1
        self.n_runs[k] = n
        if x == n:
            return
        ready_s, at, length = self.run_s[base + n], self.run_at[base + n], self.run_length[base + n]
        while True:
            child = 2 * x + 1
            if child + 1 < n and self.run_s[base + child + 1] < self.run_s[base + child]:
                child += 1
            if child >= n or self.run_s[base + child] >= ready_s:
                break
            self.move_run(base + child, base + x)
            x = child
        self.rise(base, x, ready_s, at, length)

    def rise(self, base: int, x: int, ready_s: float, at: int, length: int) -> None:
        """Sift up a run from place x of the heap that begins at `base`."""
        while x > 0 and self.run_s[base + ((x - 1) >> 1)] > ready_s:
            self.move_run(base + ((x - 1) >> 1), base + x)
            x = (x - 1) >> 1
        self.run_s[base + x], self.run_at[base + x], self.run_length[base + x] = ready_s, at, length

    def move_run(self, source: int, target: int) -> None:
        self.run_s[target] = self.run_s[source]
        self.run_at[target] = self.run_at[source]
        self.run_length[target] = self.run_length[source]


def sort_ascending(values: Ints, begin: int, end: int) -> None:
    """Shell sort in place; one pass if the values are sorted."""
    x = begin + 1
    while x < end and values[x - 1] < values[x]:
        x += 1
    if x >= end:
        return
    gap = 1
    while gap < (end - begin) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for y in range(begin + gap, end):
            value, x = values[y], y
            while x >= begin + gap and values[x - gap] > value:
                values[x] = values[x - gap]
                x -= gap
            values[x] = value
        gap //= 3
