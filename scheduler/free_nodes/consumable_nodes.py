"""The state of nodes of which jobs use parts: what is free, which jobs wait, what runs hold until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from scheduler.compiled import Floats, Ints, Ints2
from scheduler.free_nodes.in_use import GrowingQueue, NodesInUse, Transitions, Waiting, in_places
from scheduler.free_nodes.kernels import node_entry_points as kernels
from scheduler.free_nodes.kernels.on_nodes import NodeQueue
from scheduler.free_nodes.node_arrays import larger_node_queue, new_node_queue, with_rows
from scheduler.model import Job, JobId, RunId, Share, Start
from scheduler.node_request import Node, Request
from scheduler.node_resources.kernels.tables import NONE
from scheduler.node_resources.state import NodeResources, rows_of, shares_of
from scheduler.node_set import NodeSet

Key = tuple[int, float, JobId]
"""Of a job in order of service: the rank of its queue, its arrival, and its id."""

TRANSITIONS = Transitions(kernels.arrived, kernels.released, kernels.ended, kernels.extend_estimate)


class WaitingRequests(Waiting[NodeQueue]):
    """Waiting jobs in order of service, and their requests as columns.

    That is queue by queue, by rank from 0 on, and within a queue by arrival, then id.
    """

    def slot_at(self, i: int) -> int:
        return self._queue.arrays.on.in_order.item(i)

    @property
    def slots(self) -> Ints:
        """(n,) the slot of each job, in order."""
        return self._queue.arrays.on.in_order[: len(self)]

    @property
    def ids(self) -> list[JobId]:
        return [JobId(job) for job in self._queue.arrays.ledger.job[self.slots].tolist()]

    @property
    def kinds(self) -> Ints:
        """(n,) the kind of request of each job, in order."""
        return self._queue.arrays.on.kind[self.slots]

    @property
    def chunks(self) -> Ints:
        """(n,) the number of chunks that each job requests."""
        return self._queue.arrays.on.chunks[self.slots]

    @property
    def ranks(self) -> Ints:
        """(n,) the rank of each job's queue, in ascending order."""
        return self._queue.arrays.on.rank[self.slots]

    @property
    def estimates_s(self) -> Floats:
        """(n,) the estimated run time of each job."""
        return self._queue.arrays.on.estimate_s[self.slots]

    @property
    def shortest_first(self) -> Ints:
        """(n,) the jobs by queue, then estimated run time; ties go to the earlier arrival, then the lower
        id."""
        on = self._queue.arrays.on
        return in_places(self.slots, len(on.rank))[on.by_estimate[: len(self)]]

    def request_of(self, i: int) -> tuple[int, int]:
        """The kind of request of the job in position i, and its number of chunks."""
        on, slot = self._queue.arrays.on, self.slot_at(i)
        return on.kind.item(slot), on.chunks.item(slot)

    def estimate_s(self, i: int) -> float:
        return self._queue.arrays.on.estimate_s.item(self.slot_at(i))

    def of_queue(self, rank: int) -> range:
        """The positions of the jobs of one queue."""
        return range(*np.searchsorted(self.ranks, (rank, rank + 1)).tolist())

    def position(self, job: JobId) -> int:
        return int((self.slots == self._slot_of[job]).argmax())

    def key(self, job: JobId) -> Key | None:
        """The place of a job in order of service; None if it does not wait."""
        slot = self._slot_of.get(job)
        return None if slot is None else self.key_of(slot)

    def key_of(self, slot: int) -> Key:
        """That of the job in a slot, which waits."""
        job = self._job_in[slot]
        return self._queue.arrays.on.rank.item(slot), job.arrival_s, job.id


class ConsumableNodes(NodesInUse[NodeQueue]):
    """Nodes, the jobs that wait for parts of them, and the runs that hold parts. Read-only for schedulers.

    * `nodes`: what is free.
    * `waiting`: the jobs of the problem, with their requests as columns.
    * `releases`: when runs are expected to end.
    """

    def __init__(
        self, nodes: Sequence[Node], site_resources: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        self.nodes = NodeResources(nodes, site_resources)
        queue = GrowingQueue(new_node_queue(self.nodes), larger_node_queue)
        super().__init__(len(nodes), queue, TRANSITIONS)
        self.waiting = WaitingRequests(queue, kernels.arrived)

    def wait(self, job: Job, request: Request | None, estimate_s: float, rank: int = 0) -> None:
        assert request is not None
        kind = self.nodes.note_request(request)
        self.up_to_date()
        self.waiting.join(job, request.chunks, kind, estimate_s, rank)

    def nothing_fits(self) -> bool:
        """Whether no waiting job fits now."""
        self.up_to_date()
        return kernels.nothing_fits(self.queue.handle)

    def up_to_date(self) -> NodeQueue:
        """The arrays, with all kinds of requests."""
        q, requests = self.queue.arrays, self.nodes.requests
        if q.on.requests.gpus is not requests.gpus:
            self.queue.replace(q._replace(on=q.on._replace(requests=requests)))
        return self.queue.arrays

    def with_room(self) -> NodeQueue:
        """The arrays, with room for a decision."""
        self.up_to_date()
        while lack := kernels.lack(self.queue.handle):
            self.queue.enlarge(lack)
        return self.queue.arrays

    def start(self, run: RunId, job: JobId, start: Start, now_s: float) -> tuple[Share, ...]:
        """A waiting job starts. Returns what it uses."""
        slot, _ = self._running[run] = self.waiting.leave(job)
        q = self.up_to_date()
        if start.shares:
            used = rows_of(start.shares)
        else:
            kind, chunks = q.on.kind.item(slot), q.on.chunks.item(slot)
            divided = self.nodes.divided(kind, chunks, NodeSet.of(start.nodes))
            assert divided is not None, "the rules of a schedule have been checked"
            used = divided
        if (larger := with_rows(q, len(used))) is not q:
            self.queue.replace(larger)
        rows = larger.on.decided.rows[: len(used)]
        rows[:], larger.ledger.next_run[0] = used, run
        kernels.start_on(self.queue.handle, slot, len(used), now_s, start.completion_s)
        return start.shares or shares_of(rows)

    def set_available(self, node: int, is_available: bool) -> None:
        """A node is up, or down. A run that holds it keeps it."""
        self.nodes.set_up(node, is_available)

    def first_row(self, run: RunId) -> int:
        """The first row of a run in `Held`."""
        return self.queue.arrays.on.first_row.item(self._running[run][0])

    def held_by(self, run: RunId) -> tuple[int, Ints2]:
        """The kind of a run's request, and what it uses."""
        held, rows, row = self.queue.arrays.on.held, list[int](), self.first_row(run)
        while row != NONE:
            rows.append(row)
            row = held.next.item(row)
        return held.kind.item(rows[0]), held.row[rows]
