"""The state of identical nodes: what is free, which jobs wait, what runs hold until when."""

from __future__ import annotations

from scheduler.free_nodes.kernels import one_at_a_time
from scheduler.free_nodes.kernels.free_set import FIRST, LAST
from scheduler.free_nodes.kernels.queue_tree import SIZE
from scheduler.free_nodes.kernels.queues import N_DOWN, N_FREE, N_INTERVALS, N_RELEASES, N_RUNS
from scheduler.free_nodes.kernels.releases import END_S, RUN
from scheduler.free_nodes.kernels.timeline.reserved import Reservations
from scheduler.free_nodes.queues.free_set import FreeSet
from scheduler.free_nodes.queues.growing import GrowingQueue
from scheduler.free_nodes.queues.identical import larger_rigid_queue, with_more_nodes_down
from scheduler.free_nodes.queues.releases import Releases
from scheduler.free_nodes.queues.waiting import WaitingJobs
from scheduler.model import Job, JobId, RunId, Start
from scheduler.node_set import NodeSet


class FreeNodes:
    """`n_nodes` identical nodes, each for one job. Read-only for schedulers; it changes over time.

    * `free`: the free nodes, `free.n` of them.
    * `waiting`: the jobs of the problem, with `sizes` and `estimates_s` as arrays in queue order.
    * `releases`: when running jobs are expected to release their nodes.

    These three read the arrays of one `queue`, which compiled transitions change.
    """

    __slots__ = ("_running", "free", "n_nodes", "queue", "releases", "waiting")

    def __init__(self, n_nodes: int) -> None:
        self.n_nodes = n_nodes
        self.queue = GrowingQueue(n_nodes)
        self.free = FreeSet(self.queue, n_nodes)
        self.waiting = WaitingJobs(self.queue)
        self.releases = Releases(self.queue)
        self._running: dict[RunId, tuple[int, Job]] = {}
        """The slot and the job of each run."""

    def nothing_fits(self) -> bool:
        """Whether no waiting job fits now."""
        return self.queue.arrays.tree.item(1, SIZE) > self.queue.counts[N_FREE]

    def decide(
        self, ordering: int, backfilling: int, now_s: float, reservations: Reservations | None = None
    ) -> tuple[Start, ...]:
        """The jobs that start by these policies, in order. CONSERVATIVE needs `reservations`, with room for
        `most_jobs`."""
        queue = self.queue
        if reservations is not None and reservations is not queue.arrays.reservations:
            queue.replace(queue.arrays._replace(reservations=reservations))
        while (n := one_at_a_time.decide(queue.handle, ordering, backfilling, now_s)) < 0:
            self.enlarge(-n)
        return self.starts(n, now_s)

    def enlarge(self, lack: int) -> None:
        """Make room in the arrays of what lacks (`kernels.transitions.lack`)."""
        self.queue.replace(larger_rigid_queue(self.queue.arrays, lack))

    def starts(self, n: int, now_s: float) -> tuple[Start, ...]:
        """The n jobs of a compiled decision, on the nodes that `kernels.rigid_queue.choose_nodes` chose."""
        if not n:
            return ()
        queue = self.queue
        intervals, row, starts = queue.arrays.intervals, queue.counts[N_INTERVALS], list[Start]()
        for _, size, takes_s, rank, n_intervals in queue.arrays.started[:n].tolist():
            after = row + int(n_intervals)
            nodes = tuple([(first, last) for first, last in intervals[row:after].tolist()])
            starts.append(Start(int(rank), NodeSet(nodes, int(size)), now_s + takes_s))
            row = after
        return tuple(starts)

    @property
    def most_jobs(self) -> int:
        """So many can wait or run before arrays become larger."""
        return len(self.queue.arrays.run)

    def start(self, run: RunId, job: JobId, nodes: NodeSet, now_s: float, end_s: float) -> None:
        """A waiting job starts on free nodes, until about `end_s`."""
        slot, _ = self._running[run] = self.waiting.leave(job)
        queue, n = self.queue, len(nodes.intervals)
        queue.make_room(n)
        intervals = queue.arrays.intervals
        for row, (first, last) in enumerate(nodes.intervals, queue.counts[N_INTERVALS]):
            intervals[row, FIRST], intervals[row, LAST] = first, last
        queue.counts[N_RUNS] = run
        one_at_a_time.start_on(queue.handle, slot, n, now_s, end_s)

    def release(self, run: RunId, now_s: float) -> None:
        """A run is about to end; if that was expected, its nodes are free already."""
        one_at_a_time.released(self.queue.handle, self._running[run][0], now_s)

    def end(self, run: RunId) -> tuple[Job, float]:
        """A run is over: its job, and when it began."""
        slot, job = self._running.pop(run)
        began_s = self.queue.arrays.began_s.item(slot)
        one_at_a_time.ended(self.queue.handle, slot)
        return job, began_s

    def first_end_s(self) -> float | None:
        """When the next run is expected to end."""
        return self.queue.arrays.releases.item(END_S) if self.queue.counts[N_RELEASES] else None

    def overdue(self, now_s: float) -> tuple[RunId, Job, float] | None:
        """The first run that should have ended by now, its job, and for how long it has run; None if there is
        none."""
        first_s = self.first_end_s()
        if first_s is None or first_s > now_s:
            return None
        run = RunId(int(self.queue.arrays.releases[0, RUN]))
        slot, job = self._running[run]
        return run, job, now_s - self.queue.arrays.began_s.item(slot)

    def takes_longer(self, run: RunId, takes_s: float, now_s: float) -> None:
        """The run that is `overdue` is now expected to take so long."""
        one_at_a_time.takes_longer(self.queue.handle, self._running[run][0], takes_s, now_s)

    def set_available(self, node: int, is_available: bool) -> None:
        """A node is up, or down. A run that holds it keeps it."""
        self.queue.make_room(1)
        if self.queue.counts[N_DOWN] == len(self.queue.arrays.down):
            self.queue.replace(with_more_nodes_down(self.queue.arrays))
        one_at_a_time.set_available(self.queue.handle, node, is_available)
