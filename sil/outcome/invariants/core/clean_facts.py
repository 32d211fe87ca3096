"""Whether facts break no invariant. What a run holds is read from its rows, again when it is over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scheduler.core.arrays import Floats, Ints, Ints2, integers, larger
from scheduler.core.codes import NONE
from scheduler.node_resources.core.codes import CHUNKS, GPUS, NODE, WHOLE
from sil.trace.facts import CODES, Fact

ARRIVED, REFUSED = CODES[Fact.JOB_ARRIVED], CODES[Fact.JOB_REFUSED]
STARTED, ENDED = CODES[Fact.RUN_STARTED], CODES[Fact.RUN_ENDED]
PREEMPTED, LOST = CODES[Fact.RUN_PREEMPTED], CODES[Fact.RUN_LOST]
DOWN, UP = CODES[Fact.MACHINE_DOWN], CODES[Fact.MACHINE_UP]
STOPPED, CONTINUED = CODES[Fact.RUN_STOPPED], CODES[Fact.RUN_CONTINUED]
DONE = 255
"""Replaces the code of a fact that was followed before those of its instant that come earlier."""

UNKNOWN, RUNNING = 0, 1
"""The states of a job: UNKNOWN if it did not arrive or is over, RUNNING + row if it has that row of the runs.
That of a job that waits is negative: -1 - the number of its request. One whose run was interrupted waits
again."""

JOB, RUN, REQUEST, BEGIN, AFTER = range(5)
"""Columns of runs; the last two are the rows of what it holds."""

FIRST, LAST = range(2)
"""Columns of an interval of machines."""

N_CHUNKS, EXCLUSIVE, N_GPUS, GPU_SHARE, GPU_TYPES, AMOUNTS = range(6)
"""Columns of requests: chunks of the job; whether it takes whole nodes; of each chunk, GPUs, thousandths of
each GPU, their types as bits, and from AMOUNTS on the amount of each resource of nodes; then the job's of
each resource of the site; then the chunks that fit on an empty node of each specification."""


class CleanFacts:
    """The jobs that wait and run. The places of jobs are those of the numbers from `least` on."""

    def __init__(self, n_machines: int, width: int) -> None:
        """What runs hold is in rows of this width."""
        self.down = np.zeros(n_machines, np.uint8)
        self.held = np.zeros((0, width), np.int64)
        self.n_waiting, self.n_running, self.last_run = 0, 0, -1
        self.runs = np.zeros((256, 5), np.int64)
        self.least, self.place_of = 0, integers(0)

    def take(self, begin: int, after: int, request: int) -> bool:
        """Hold some rows; false if a run cannot hold them, after which the state is of no more use."""
        return False

    def give_back(self, begin: int, after: int, request: int) -> None:
        """Free the rows."""

    def row_of(self, job: int, run: int) -> int:
        """The row of a run of a job; NONE if it is not running."""
        row = self.place_of[job - self.least] - RUNNING
        return row if row >= 0 and self.runs[row, RUN] == run else NONE

    def over(self, row: int, kind: int) -> None:
        request, waits = self.runs[row, REQUEST], kind != ENDED
        self.give_back(self.runs[row, BEGIN], self.runs[row, AFTER], request)
        self.place_of[self.runs[row, JOB] - self.least] = -1 - request if waits else UNKNOWN
        self.n_waiting += waits
        self.n_running -= 1
        if row != self.n_running:  # the last row takes its place
            for x in range(self.runs.shape[1]):
                self.runs[row, x] = self.runs[self.n_running, x]
            self.place_of[self.runs[row, JOB] - self.least] = RUNNING + row

    def start(self, job: int, run: int, begin: int, after: int) -> bool:
        place, row = self.place_of[job - self.least], self.n_running
        # Runs that are not numbered in order of start might have a number twice.
        if place >= 0 or run <= self.last_run or not self.take(begin, after, -1 - place):
            return False
        if row == self.runs.shape[0]:
            self.runs = larger(self.runs, 2 * row)
        self.runs[row, JOB], self.runs[row, RUN], self.runs[row, REQUEST] = job, run, -1 - place
        self.runs[row, BEGIN], self.runs[row, AFTER] = begin, after
        self.place_of[job - self.least] = RUNNING + row
        self.last_run = run
        self.n_running += 1
        self.n_waiting -= 1
        return True

    def follow(
        self,
        times_s: Floats,
        kinds: NDArray[np.uint8],
        jobs: Ints,
        runs: Ints,
        machines: NDArray[np.int32],
        requests: Ints,
        held_ends: Ints,
    ) -> bool:
        """Follow facts of whole instants in order of time; false at the first that may break an invariant.

        There are places for all jobs. `requests` has the number of the request of each job that arrives, and
        the k-th run that starts holds the rows from `held_ends[k]` on, before `held_ends[k + 1]`. What a run
        frees at an instant may be used at that instant, whichever fact comes first.
        """
        begins, n, n_starts, n_arrivals = 0, len(kinds), 0, 0
        while begins < n:
            ends = begins + 1
            while ends < n and times_s[ends] == times_s[begins]:
                ends += 1
            if ends > begins + 1:
                for k in range(begins, ends):
                    kind = kinds[k]
                    if kind in (ENDED, PREEMPTED, LOST) and jobs[k] != NONE:
                        row = self.row_of(jobs[k], runs[k])
                        if row != NONE:  # it runs since before this instant
                            self.over(row, kind)
                            kinds[k] = DONE
            for k in range(begins, ends):
                kind, job = kinds[k], jobs[k]
                if kind in (DOWN, UP):
                    if machines[k] < 0 or machines[k] >= len(self.down):
                        return False
                    self.down[machines[k]] = kind == DOWN
                elif kind == STARTED:
                    begin, after = held_ends[n_starts], held_ends[n_starts + 1]
                    if job == NONE or not self.start(job, runs[k], begin, after):
                        return False
                    n_starts += 1
                elif kind in (ARRIVED, REFUSED):
                    place = self.place_of[job - self.least] if job != NONE else RUNNING
                    if place >= RUNNING:
                        return False
                    self.n_waiting += (kind == ARRIVED) - (place < 0)
                    self.place_of[job - self.least] = UNKNOWN
                    if kind == ARRIVED:
                        self.place_of[job - self.least] = -1 - requests[n_arrivals]
                        n_arrivals += 1
                elif kind in (ENDED, PREEMPTED, LOST):
                    row = self.row_of(job, runs[k]) if job != NONE else NONE
                    if row == NONE:
                        return False
                    self.over(row, kind)
                elif kind in (STOPPED, CONTINUED):  # nothing here follows them
                    return False
            begins = ends
        return True

    def add_held(self, rows: Ints2) -> int:
        """Keep what runs hold, and add rows. Returns the place of the first of these."""
        runs = np.asarray(self.runs)[: self.n_running]
        n_rows = runs[:, AFTER] - runs[:, BEGIN]
        ends = np.cumsum(n_rows)
        kept = np.repeat(runs[:, AFTER] - ends, n_rows) + np.arange(n_rows.sum())
        self.held = np.concatenate([np.asarray(self.held)[kept], rows])
        runs[:, BEGIN], runs[:, AFTER] = ends - n_rows, ends
        return len(kept)

    def make_places(self, least: int, n: int) -> None:
        """Make places for jobs of the numbers from `least` on."""
        old = np.asarray(self.place_of)
        (there,) = np.nonzero(old)
        self.place_of = integers(n)
        np.asarray(self.place_of)[there + (self.least - least)] = old[there]
        self.least = least


class CleanOnMachines(CleanFacts):
    """Each machine holds one run at a time."""

    def __init__(self, n_machines: int) -> None:
        CleanFacts.__init__(self, n_machines, 2)
        self.busy = np.zeros(n_machines, np.uint8)

    def take(self, begin: int, after: int, request: int) -> bool:
        busy, down = self.busy, self.down
        for row in range(begin, after):
            first, last = self.held[row, FIRST], self.held[row, LAST]
            if first < 0 or last < first or last >= len(busy):
                return False
            found = 0
            for machine in range(first, last + 1):  # which processors do for many at a time
                found |= busy[machine] | down[machine]
            if found:
                return False
            for machine in range(first, last + 1):
                busy[machine] = 1
        return begin < after

    def give_back(self, begin: int, after: int, request: int) -> None:
        busy = self.busy
        for row in range(begin, after):
            first, last = self.held[row, FIRST], self.held[row, LAST]
            for machine in range(first, last + 1):
                busy[machine] = 0


class CleanOnNodes(CleanFacts):
    """What is free of nodes and of the site's resources, cores and GPUs in thousandths, and what is requested
    of them."""

    def __init__(self, specification: Ints, room: Ints2, gpu_types: Ints2, of_site: Ints) -> None:
        """For each node: the number of its specification, the amounts of its resources, and the bits of the
        types of its GPUs, 0 where it has no more."""
        CleanFacts.__init__(self, len(specification), 3)
        self.specification, self.room, self.of_site = specification, room, of_site
        self.gpu_types, self.gpus = gpu_types, np.where(gpu_types > 0, WHOLE, 0)
        self.whole, self.n_chunks = np.zeros(len(room), np.uint8), integers(len(room))
        self.first_of_site = AMOUNTS + room.shape[1]
        self.first_most = self.first_of_site + len(of_site)
        self.requests = np.zeros((0, self.first_most + specification.max() + 1), np.int64)

    def add_requests(self, rows: Sequence[Sequence[int]]) -> None:
        self.requests = np.concatenate([np.asarray(self.requests), np.array(rows)])

    def take(self, begin: int, after: int, request: int) -> bool:
        n_chunks = 0
        for row in range(begin, after):
            node, chunks = self.held[row, NODE], self.held[row, CHUNKS]
            if node < 0 or node >= len(self.down) or self.down[node]:
                return False
            if chunks < 1 or chunks > self.requests[request, self.first_most + self.specification[node]]:
                return False
            if not self.take_on(node, chunks, request):
                return False
            has_all_gpus = self.requests[request, EXCLUSIVE]  # whatever it names
            if not has_all_gpus and not self.take_gpus(node, chunks, self.held[row, GPUS], request):
                return False
            n_chunks += chunks
        for x in range(len(self.of_site)):
            self.of_site[x] -= self.requests[request, self.first_of_site + x]
            if self.of_site[x] < 0:
                return False
        return bool(n_chunks == self.requests[request, N_CHUNKS])

    def take_on(self, node: int, chunks: int, request: int) -> bool:
        """Take all but GPUs. An exclusive job leaves the amounts as they are, since no other may take any."""
        if self.whole[node]:
            return False
        if self.requests[request, EXCLUSIVE]:
            self.whole[node] = self.n_chunks[node] == 0
            if not self.whole[node]:
                return False
        else:
            for x in range(self.room.shape[1]):
                self.room[node, x] -= chunks * self.requests[request, AMOUNTS + x]
                if self.room[node, x] < 0:
                    return False
        self.n_chunks[node] += chunks
        return True

    def take_gpus(self, node: int, chunks: int, gpus: int, request: int) -> bool:
        n, n_taken = self.gpus.shape[1], 0
        if gpus < 0 or gpus >> n:
            return False
        for gpu in range(n):
            if gpus >> gpu & 1:
                self.gpus[node, gpu] -= self.requests[request, GPU_SHARE]
                is_asked = self.gpu_types[node, gpu] & self.requests[request, GPU_TYPES]
                if self.gpus[node, gpu] < 0 or not is_asked:
                    return False
                n_taken += 1
        return bool(n_taken == chunks * self.requests[request, N_GPUS])

    def give_back(self, begin: int, after: int, request: int) -> None:
        for row in range(begin, after):
            node, chunks = self.held[row, NODE], self.held[row, CHUNKS]
            self.n_chunks[node] -= chunks
            if not self.whole[node]:
                for x in range(self.room.shape[1]):
                    self.room[node, x] += chunks * self.requests[request, AMOUNTS + x]
                for gpu in range(self.gpus.shape[1]):
                    if self.held[row, GPUS] >> gpu & 1:
                        self.gpus[node, gpu] += self.requests[request, GPU_SHARE]
            self.whole[node] = False
        for x in range(len(self.of_site)):
            self.of_site[x] += self.requests[request, self.first_of_site + x]
