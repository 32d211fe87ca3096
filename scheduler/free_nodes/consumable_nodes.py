"""The state of nodes of which jobs use parts: what is free, which jobs wait, what runs hold until when."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from scheduler.compiled import Floats, Ints, Ints2, called_from_python
from scheduler.free_nodes.kernels.free_over_time import END_S, N_COLUMNS, RUN, ReleaseTable, insert, remove
from scheduler.model import Job, JobId, RunId
from scheduler.node_request import Node, Request
from scheduler.node_resources.arrays import new_held, with_spare_rows
from scheduler.node_resources.kernels.python_entry_points import hold_rows, let_go_rows, next_that_fits
from scheduler.node_resources.kernels.tables import NONE, Held
from scheduler.node_resources.state import NodeResources, Trial
from scheduler.problem import LazyJobs

FEWEST_ROWS = 64

_insert = called_from_python(insert)
_remove = called_from_python(remove)


class Releases:
    """In order of time, then run id. Adding or removing one costs a binary search and a shift of the rest."""

    __slots__ = ("n", "table")

    def __init__(self) -> None:
        self.table: ReleaseTable = np.zeros((FEWEST_ROWS, N_COLUMNS))
        """For the kernels: the first `n` rows. RELEASED is a run's first row in `ConsumableNodes.held`."""
        self.n = 0

    def first_s(self) -> float | None:
        """The time of the first release."""
        return self.table.item(END_S) if self.n else None

    @property
    def first_run(self) -> RunId:
        """The run with the first release; there must be one."""
        return RunId(int(self.table[0, RUN]))

    def add(self, end_s: float, first_row: int, run: RunId) -> None:
        if self.n == len(self.table):
            self.table = np.concatenate([self.table, np.zeros_like(self.table)])
        _insert(self.table, self.n, end_s, first_row, run, 0)
        self.n += 1

    def drop(self, end_s: float, run: RunId) -> None:
        """Remove the release of a run, given the time at which it was added."""
        _remove(self.table, self.n, end_s, run)
        self.n -= 1


Key = tuple[int, float, JobId]
"""Of a job in order of service: the rank of its queue, its arrival, and its id."""


class WaitingRequests(LazyJobs):
    """Waiting jobs in order of service, and their requests as columns.

    That is queue by queue, by rank from 0 on, and within a queue by arrival, then id.
    """

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._keys: list[Key] = []
        self._key_of: dict[JobId, Key] = {}
        self._kinds, self._chunks, self._ranks, self._estimates_s = _columns(FEWEST_ROWS)

    def __len__(self) -> int:
        return len(self._jobs)

    def job_at(self, i: int) -> Job:
        return self._jobs[i]

    @property
    def ids(self) -> list[JobId]:
        """The jobs, in order."""
        return [job for _, _, job in self._keys]

    @property
    def kinds(self) -> Ints:
        """(n,) the kind of request of each job, in order."""
        return self._kinds[: len(self)]

    @property
    def chunks(self) -> Ints:
        """(n,) the number of chunks that each job requests."""
        return self._chunks[: len(self)]

    @property
    def ranks(self) -> Ints:
        """(n,) the rank of each job's queue, in ascending order."""
        return self._ranks[: len(self)]

    @property
    def estimates_s(self) -> Floats:
        """(n,) the estimated run time of each job."""
        return self._estimates_s[: len(self)]

    @property
    def shortest_first(self) -> Ints:
        """(n,) the jobs by queue, then estimated run time; ties go to the earlier arrival, then the lower
        id."""
        return np.lexsort((self.estimates_s, self.ranks))

    def of_queue(self, rank: int) -> range:
        """The positions of the jobs of one queue."""
        return range(bisect_left(self._keys, (rank,)), bisect_left(self._keys, (rank + 1,)))

    def by_queue(self) -> Iterator[range]:
        """The positions of the jobs of each queue in which jobs wait, in order of service."""
        first = 0
        while first < len(self):
            own = self.of_queue(self._keys[first][0])
            yield own
            first = own.stop

    def add(self, job: Job, kind: int, chunks: int, estimate_s: float, rank: int = 0) -> None:
        n = len(self)
        if n == len(self._kinds):
            larger = _columns(2 * n)
            for new, old in zip(larger, self._all(), strict=True):
                new[:n] = old
            self._kinds, self._chunks, self._ranks, self._estimates_s = larger
        key = rank, job.arrival_s, job.id
        i = n if not n or key > self._keys[-1] else bisect_left(self._keys, key)
        for column, value in zip(self._all(), (kind, chunks, rank, estimate_s), strict=True):
            column[i + 1 : n + 1] = column[i:n]
            column[i] = value
        self._jobs.insert(i, job)
        self._keys.insert(i, key)
        self._key_of[job.id] = key

    def remove(self, job: JobId) -> None:
        i, n = self.position(job), len(self)
        for column in self._all():
            column[i : n - 1] = column[i + 1 : n]
        del self._jobs[i], self._keys[i], self._key_of[job]

    def position(self, job: JobId) -> int:
        return bisect_left(self._keys, self._key_of[job])

    def key(self, job: JobId) -> Key | None:
        """The place of a job in order of service; None if it does not wait."""
        return self._key_of.get(job)

    def _all(self) -> tuple[Ints, Ints, Ints, Floats]:
        return self._kinds, self._chunks, self._ranks, self._estimates_s


def _columns(n: int) -> tuple[Ints, Ints, Ints, Floats]:
    kinds, chunks, ranks = (np.zeros(n, dtype=np.int64) for _ in range(3))
    return kinds, chunks, ranks, np.zeros(n)


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
        self.held: Held = new_held(FEWEST_ROWS)
        self._first_row: dict[RunId, int] = {}

    def wait(self, job: Job, request: Request, estimate_s: float, rank: int = 0) -> None:
        """Queue a job; `rank` is that of its queue, 0 for the one served first."""
        self.waiting.add(job, self.nodes.note_request(request), request.chunks, estimate_s, rank)

    def any_fits(self) -> bool:
        """Whether some waiting job fits now."""
        nodes, waiting, n = self.nodes, self.waiting, len(self.waiting)
        return next_that_fits(nodes.table, nodes.requests, waiting.kinds, waiting.chunks, 0, n) < n

    @contextmanager
    def without(self, taken: Iterable[tuple[int, Ints2]]) -> Iterator[None]:
        """While jobs, by position in the queue, also use these nodes."""
        with Trial(self.nodes) as trial:
            for i, used in taken:
                trial.take(int(self.waiting.kinds[i]), used)
            yield

    def begin(self, run: RunId, end_s: float, kind: int, used: Ints2) -> None:
        """A run begins that has taken `used`, until about `end_s`."""
        if len(used) > self.held.n_spare[0]:
            self.held = with_spare_rows(self.held, len(used))
        first = self._first_row[run] = hold_rows(self.held, used, 0, len(used), kind)
        self.releases.add(end_s, first, run)

    def end(self, run: RunId, end_s: float) -> tuple[int, Ints2]:
        """A run ends that was expected to end at `end_s`: the kind of its request, and what it used."""
        self.releases.drop(end_s, run)
        kind, used = self.held_by(run)
        let_go_rows(self.held, self._first_row.pop(run))
        return kind, used

    def holds(self, run: RunId) -> bool:
        """Whether a run holds nodes."""
        return run in self._first_row

    def first_row(self, run: RunId) -> int:
        """The first row of a run in `held`."""
        return self._first_row[run]

    def held_by(self, run: RunId) -> tuple[int, Ints2]:
        """The kind of a run's request, and what it uses."""
        rows = self._rows_of(run)
        return int(self.held.kind[rows[0]]), self.held.row[rows]

    def expect(self, run: RunId, before_s: float, end_s: float) -> None:
        """A run is now expected to end at `end_s` instead."""
        self.releases.drop(before_s, run)
        self.releases.add(end_s, self._first_row[run], run)

    def _rows_of(self, run: RunId) -> list[int]:
        rows, row = [], self._first_row[run]
        while row != NONE:
            rows.append(row)
            row = int(self.held.next[row])
        return rows
