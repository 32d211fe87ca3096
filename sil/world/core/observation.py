"""What a policy sees of a queue of identical nodes, and the pass in which it chooses job by job.

A pass starts jobs one after the other: each is removed from the tree of those that wait, and its release is
expected. After the pass the queue is as it was before, and the jobs are in `starting`, as those of a pass of
EASY. Views are of many queues, so that these can be observed together.
"""

from __future__ import annotations

from typing import Any

import cython
import numpy as np
from numpy.typing import NDArray

from scheduler.core.arrays import integers
from scheduler.core.codes import NONE
from scheduler.core.identical import IdenticalNodes
from scheduler.core.waiting_tree import after
from sil.world.core.codes import (
    FITS,
    HORIZONS_S,
    IS_IN_TIME,
    LARGEST,
    N_OF_JOB,
    N_OF_MACHINE,
    OF_ESTIMATE,
    OF_FREE,
    OF_HORIZONS,
    OF_RESERVATION,
    OF_SIZE,
    OF_SPARE,
    OF_WAIT,
    OF_WAITING,
)

if not cython.compiled:  # where it is a function of C
    from math import log1p


def scaled(time_s: float) -> float:
    """0 for no time, 1 for a year and more; each doubling adds as much."""
    return min(log1p(max(time_s, 0.0)) / LARGEST, 1.0)


class Views:
    """What is seen of many queues: `seen`, arrays that each pass overwrites.

    * jobs: (queues, window, N_OF_JOB) the first waiting jobs; 0 in other rows
    * machine: (queues, N_OF_MACHINE)
    * action_mask: (queues, window + 1) which job can be chosen, and whether the rest can wait
    """

    def __init__(self, queues: int, window: int, n_nodes: int) -> None:
        self.window, self.n_nodes = window, n_nodes
        jobs, machine = (
            np.zeros(s, np.float32) for s in ((queues, window, N_OF_JOB), (queues, N_OF_MACHINE))
        )
        mask = np.zeros((queues, window + 1), np.int8)
        self.seen: dict[str, NDArray[Any]] = {"jobs": jobs, "machine": machine, "action_mask": mask}
        self.jobs, self.machine, self.mask = jobs, machine, mask.view(np.uint8)
        self.places = np.zeros((queues, window), np.int64)
        self.n_rows, self.n_left = integers(queues), integers(queues)
        self.horizons_s = np.array(HORIZONS_S)

    def begin_pass(self, q: IdenticalNodes, at: int) -> None:
        q.starting.n, self.n_left[at] = 0, q.free.n

    def observe(self, q: IdenticalNodes, at: int, now_s: float) -> int:
        """Write what a policy sees now. Returns how many of the jobs in its window fit.

        It may wait unless all nodes are idle, so that a job starts or the time passes.
        """
        n_left, tree = self.n_left[at], q.tree
        head, reserved_s, spare = tree.first_in_queue(False), now_s, 0
        if head != NONE:
            reserved_s, spare = q.reservation(n_left, int(tree.size[tree.capacity + head]), now_s)
        k, row, n_fitting = 1, 0, 0
        while k > 0 and row < self.window:
            if tree.n_jobs[k] == 0:
                k = after(k)
            elif k < tree.capacity:
                k *= 2
            else:
                place, size, takes_s = k - tree.capacity, tree.size[k], tree.estimate_s[k]
                fits = size <= n_left
                is_in_time = place == head or size <= spare or now_s + takes_s <= reserved_s
                self.jobs[at, row, OF_SIZE] = size / self.n_nodes
                self.jobs[at, row, OF_ESTIMATE] = scaled(takes_s)
                self.jobs[at, row, OF_WAIT] = scaled(now_s - q.began_s[tree.slot[place]])
                self.jobs[at, row, FITS] = 1.0 if fits else 0.0
                self.jobs[at, row, IS_IN_TIME] = 1.0 if fits and is_in_time else 0.0
                self.places[at, row], self.mask[at, row] = place, fits
                n_fitting += fits
                row += 1
                k = after(k)
        self.clear_rows(at, row)
        self.mask[at, self.window] = q.releases.n > 0 or n_fitting == 0
        n_waiting = float(tree.n_jobs[1])
        self.machine[at, OF_FREE] = n_left / self.n_nodes
        self.machine[at, OF_WAITING] = n_waiting / (n_waiting + self.window)
        self.machine[at, OF_RESERVATION] = scaled(reserved_s - now_s)
        self.machine[at, OF_SPARE] = spare / self.n_nodes
        self.write_horizons(q, at, now_s)
        return n_fitting

    def clear_rows(self, at: int, n_rows: int) -> None:
        """Clear the rows behind those in use."""
        for row in range(n_rows, self.n_rows[at]):
            for column in range(N_OF_JOB):
                self.jobs[at, row, column] = 0.0
            self.mask[at, row] = False
        self.n_rows[at] = n_rows

    def write_horizons(self, q: IdenticalNodes, at: int, now_s: float) -> None:
        n_free, x, r = self.n_left[at], 0, q.releases
        for h in range(self.horizons_s.shape[0]):
            while x < r.n and r.end_s[x] <= now_s + self.horizons_s[h]:
                n_free += r.released[x]
                x += 1
            self.machine[at, OF_HORIZONS + h] = n_free / self.n_nodes

    def is_excluded(self, at: int, action: int) -> bool:
        """Whether the mask excludes an action."""
        return not (0 <= action <= self.window and self.mask[at, action])

    def chosen_row(self, at: int, action: int) -> int:
        """The row of the job that an action starts, or `window` for none: an action that the mask excludes is
        to wait, and where that is excluded, too, to start the first job that fits."""
        row = self.window if self.is_excluded(at, action) else action
        if not self.mask[at, row]:
            row = 0
            while not self.mask[at, row]:
                row += 1
        return row

    def choose(self, q: IdenticalNodes, at: int, row: int, now_s: float) -> None:
        """Start the job in a row."""
        x, size = q.starting.n, q.start_one(self.places[at, row])
        q.releases.expect(now_s + q.starting.takes_s[x], size)
        self.n_left[at] -= size

    def end_pass(self, q: IdenticalNodes, now_s: float) -> int:
        """Restore the queue as it was before the pass. Returns how many jobs start."""
        for x in range(q.starting.n):
            q.releases.forget(now_s + q.starting.takes_s[x])
        q.put_back()
        return q.starting.n

    def write_nothing(self, at: int) -> None:
        """Show nothing, and allow only to wait."""
        self.clear_rows(at, 0)
        for column in range(self.machine.shape[1]):
            self.machine[at, column] = 0.0
        self.mask[at, self.window] = True
