"""The state of nodes of which jobs use parts: what is free, which jobs wait, what runs hold until when."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from scheduler.compiled import Floats, Ints, Ints2, allocate
from scheduler.free_nodes.kernels.releases import Releases
from scheduler.model import Job, JobId, RunId
from scheduler.node_request import Node, Request
from scheduler.node_resources.kernels.shadow import Held, next_that_fits
from scheduler.node_resources.kernels.tables import NONE
from scheduler.node_resources.state import NodeResources
from scheduler.problem import LazyJobs

FEWEST_ROWS = 64


class WaitingRequests(LazyJobs):
    """Waiting jobs in order of arrival, then id, and their requests as columns."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._keys: list[tuple[float, JobId]] = []
        self._arrival_s: dict[JobId, float] = {}
        self._kinds, self._chunks, self._estimates_s = _columns(FEWEST_ROWS)

    def __len__(self) -> int:
        return len(self._jobs)

    def job_at(self, i: int) -> Job:
        return self._jobs[i]

    @property
    def kinds(self) -> Ints:
        """(n,) the kind of request of each job, in order."""
        return self._kinds[: len(self)]

    @property
    def chunks(self) -> Ints:
        """(n,) the number of chunks that each job requests."""
        return self._chunks[: len(self)]

    @property
    def estimates_s(self) -> Floats:
        """(n,) the estimated run time of each job."""
        return self._estimates_s[: len(self)]

    def add(self, job: Job, kind: int, chunks: int, estimate_s: float) -> None:
        n = len(self)
        if n == len(self._kinds):
            larger = _columns(2 * n)
            for new, old in zip(larger, self._all(), strict=True):
                new[:n] = old
            self._kinds, self._chunks, self._estimates_s = larger
        key = job.arrival_s, job.id
        i = n if not n or key > self._keys[-1] else bisect_left(self._keys, key)
        for column, value in zip(self._all(), (kind, chunks, estimate_s), strict=True):
            column[i + 1 : n + 1] = column[i:n]
            column[i] = value
        self._jobs.insert(i, job)
        self._keys.insert(i, key)
        self._arrival_s[job.id] = job.arrival_s

    def remove(self, job: JobId) -> None:
        i, n = self.position(job), len(self)
        for column in self._all():
            column[i : n - 1] = column[i + 1 : n]
        del self._jobs[i], self._keys[i], self._arrival_s[job]

    def position(self, job: JobId) -> int:
        return bisect_left(self._keys, (self._arrival_s[job], job))

    def _all(self) -> tuple[Ints, Ints, Floats]:
        return self._kinds, self._chunks, self._estimates_s


def _columns(n: int) -> tuple[Ints, Ints, Floats]:
    return np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64), np.zeros(n)


class ConsumableNodes:
    """Nodes, the jobs that wait for parts of them, and the runs that hold parts. Read-only for schedulers.

    * `nodes`: what is free.
    * `waiting`: the jobs of the problem, with their requests as columns.
    * `releases`: when runs are expected to end, with the first row of each in `held`.
    """

    def __init__(
        self, nodes: Sequence[Node], site_resources: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.n_nodes = len(nodes)
        self.nodes = NodeResources(nodes, site_resources)
        self.waiting = WaitingRequests()
        self.releases = Releases()
        self.held: Held = allocate(Held, (FEWEST_ROWS, 3), FEWEST_ROWS, FEWEST_ROWS)
        self._in_order: Ints = np.arange(FEWEST_ROWS)
        self._spare_rows = list(range(FEWEST_ROWS))[::-1]
        self._first_row: dict[RunId, int] = {}

    def wait(self, job: Job, request: Request, estimate_s: float) -> None:
        """Queue a job."""
        self.waiting.add(job, self.nodes.note_request(request), request.chunks, estimate_s)

    def any_fits(self) -> bool:
        """Whether some waiting job fits now."""
        n = len(self.waiting)
        if n > len(self._in_order):
            self._in_order = np.arange(2 * n)
        order = self._in_order[:n]
        nodes, waiting = self.nodes, self.waiting
        return next_that_fits(nodes.table, nodes.requests, waiting.kinds, waiting.chunks, order, 0) < n

    @contextmanager
    def without(self, taken: Iterable[tuple[int, Ints2]]) -> Iterator[None]:
        """While jobs, by position in the queue, also use these nodes."""
        rows = [(int(self.waiting.kinds[i]), used) for i, used in taken]
        for kind, used in rows:
            self.nodes.take(kind, used)
        yield
        for kind, used in reversed(rows):
            self.nodes.give_back(kind, used)

    def begin(self, run: RunId, end_s: float, kind: int, used: Ints2) -> None:
        """A run begins that has taken `used`, until about `end_s`."""
        if len(used) > len(self._spare_rows):
            self._make_room(len(used))
        held, following = self.held, NONE
        for x in range(len(used) - 1, -1, -1):
            row = self._spare_rows.pop()
            held.row[row], held.kind[row], held.next[row] = used[x], kind, following
            following = row
        self._first_row[run] = following
        self.releases.add(end_s, following, run)

    def end(self, run: RunId, end_s: float) -> tuple[int, Ints2]:
        """A run ends that was expected to end at `end_s`: the kind of its request, and what it used."""
        self.releases.drop(end_s, run)
        rows, row = [], self._first_row.pop(run)
        while row != NONE:
            rows.append(row)
            row = int(self.held.next[row])
        self._spare_rows += reversed(rows)
        return int(self.held.kind[rows[0]]), self.held.row[rows]

    def expect(self, run: RunId, before_s: float, end_s: float) -> None:
        """A run is now expected to end at `end_s` instead."""
        self.releases.drop(before_s, run)
        self.releases.add(end_s, self._first_row[run], run)

    def _make_room(self, more: int) -> None:
        n = len(self.held.kind)
        n_rows = 2 * (n + more)
        larger: Held = allocate(Held, (n_rows, 3), n_rows, n_rows)
        for new, old in zip(larger, self.held, strict=True):
            new[:n] = old
        self.held = larger
        self._spare_rows += range(n_rows - 1, n - 1, -1)
