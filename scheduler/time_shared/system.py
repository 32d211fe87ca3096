"""The system state of CISNE: time-shared nodes, and their waiting and running jobs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType

import numpy as np

from scheduler.core.arrays import Ints, integers
from scheduler.model import Job, JobId
from scheduler.time_shared.core.cluster import SharedCluster
from scheduler.time_shared.core.tables import Jobs, Nodes
from scheduler.time_shared.problem import SharedNodes, requirement_in
from scheduler.time_shared.social_contract import Requirement, SocialContract

MIN_ROWS = 64
_in_queue = attrgetter("arrival_s", "id")


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """The last reported local load of a node. `cpu` is a share of one CPU, smoothed over time."""

    tasks: float = 0.0
    cpu: float = 0.0
    memory_mb: float = 0.0
    user_is_there: bool = False


class SystemState:
    """The state of jobs and nodes, updated by notices; no operation depends on the number of nodes."""

    def __init__(self, memory_mb: Sequence[float], contract: SocialContract) -> None:
        n = len(memory_mb)
        self._memory_mb = list(memory_mb)
        self._contract = contract
        self._local = [ReportedLoad()] * n
        nodes = Nodes.empty(n, contract.most_jobs)
        nodes.most_jobs[:], nodes.most_cpu[:] = contract.most_jobs, contract.most_cpu
        nodes.most_reserved[:] = contract.most_reserved
        nodes.most_memory_mb[:] = [contract.memory_mb(mb, 0.0, False) for mb in memory_mb]
        self.free_mb = sorted(nodes.most_memory_mb.tolist(), reverse=True)
        """Memory of each node for parallel tasks in the absence of local users, largest first."""
        self._free_rows: list[int] = []
        self._row_of: dict[JobId, int] = {}
        self._job_of: dict[JobId, Job] = {}
        self.waiting: list[Job] = []
        """The waiting jobs in order of arrival, then id."""
        self._running: dict[JobId, float] = {}
        """When each running job began."""
        self.promised: dict[JobId, float] = {}
        """By when unfinished jobs were promised to end."""
        jobs, none = Jobs.empty(0, 1), _read_only(integers(0))
        self._cluster = SharedCluster(jobs, nodes)
        promised, job_of = MappingProxyType(self.promised), MappingProxyType(self._job_of)
        self._now = SharedNodes(jobs, nodes, none, none, promised=promised, job_of=job_of)
        """Running jobs are in order of their starts. Changes replace the rows, so that views keep theirs."""

    def add(self, job: Job, requirement: Requirement) -> None:
        """Queue a job."""
        n_rows, width = self._now.jobs.nodes.shape
        if not self._free_rows or requirement.n_tasks > width:
            n_rows = n_rows if self._free_rows else max(MIN_ROWS, 2 * n_rows)
            self._grow(n_rows, max(width, requirement.n_tasks))
        row = self._row_of[job.id] = self._free_rows.pop()
        self._job_of[job.id] = job
        jobs = self._now.jobs
        jobs.id[row], jobs.tasks[row] = job.id, requirement.n_tasks
        jobs.cpu[row], jobs.memory_mb[row] = requirement.cpu, requirement.memory_mb
        jobs.exe_s[row], jobs.cpu_s[row] = requirement.exe_s, requirement.cpu_s
        jobs.communicates[row], jobs.reserved[row] = requirement.communicates, requirement.reserved
        jobs.used_s[row] = jobs.run_s[row] = 0.0
        self._wait(job, row)

    def start(self, job: Job, nodes: Sequence[int], now_s: float) -> None:
        """Start a waiting job."""
        row = self._leave(job)
        self._running[job.id] = now_s
        self._now = self._now._replace(running=_read_only(np.append(self._now.running, row)))
        self._cluster.put(row, np.array(nodes, dtype=np.int64))

    def end(self, job: JobId) -> None:
        """Complete a running job."""
        self._forget(job, self._stop(job))

    def withdraw(self, job: Job) -> None:
        """Remove a waiting job."""
        self._forget(job.id, self._leave(job))

    def _forget(self, job: JobId, row: int) -> None:
        self._free_rows.append(row)
        self.promised.pop(job, None)
        del self._row_of[job], self._job_of[job]

    def _leave(self, job: Job) -> int:
        """Take a job from the queue. Returns its row."""
        row, waiting = self._row_of[job.id], self._now.waiting
        del self.waiting[bisect_left(self.waiting, _in_queue(job), key=_in_queue)]
        self._now = self._now._replace(waiting=_read_only(waiting[waiting != row]))
        return row

    def requeue(self, job_id: JobId) -> None:
        """A running job lost its nodes and its progress: queue it again."""
        row = self._stop(job_id)
        self._now.jobs.used_s[row] = self._now.jobs.run_s[row] = 0.0
        self._wait(self._job_of[job_id], row)

    def _wait(self, job: Job, row: int) -> None:
        place = bisect_left(self.waiting, _in_queue(job), key=_in_queue)
        self.waiting.insert(place, job)
        self._now = self._now._replace(waiting=_read_only(np.insert(self._now.waiting, place, row)))

    def _stop(self, job: JobId) -> int:
        """Free the nodes of a running job. Returns its row."""
        del self._running[job]
        row = self._row_of[job]
        running = self._now.running
        self._now = self._now._replace(running=_read_only(running[running != row]))
        self._cluster.take_off(row)
        return row

    def measured(self, job: JobId, used_s: float, now_s: float) -> None:
        """Set the CPU time that a running job has used, the mean of its tasks; at most its total."""
        row, jobs = self._row_of[job], self._now.jobs
        jobs.used_s[row] = min(used_s, jobs.cpu_s[row])
        jobs.run_s[row] = now_s - self._running[job]

    def set_local(self, n: int, load: ReportedLoad) -> bool:
        """Set the local load of node n. Returns whether that changes which jobs may start: of the load, only
        memory does."""
        nodes, before, self._local[n] = self._now.nodes, self._local[n], load
        nodes.local_mpl[n], nodes.local_cpu[n] = load.tasks, load.cpu
        nodes.most_memory_mb[n] = self._contract.memory_mb(
            self._memory_mb[n], load.memory_mb, load.user_is_there
        )
        return (before.user_is_there, before.memory_mb) != (load.user_is_there, load.memory_mb)

    def set_available(self, n: int, is_available: bool) -> None:
        self._now.nodes.most_jobs[n] = self._contract.most_jobs if is_available else 0

    def requirement(self, job: JobId) -> Requirement:
        return requirement_in(self._now.jobs, self._row_of[job])

    def view(self, measure: Callable[[], None] = lambda: None) -> SharedNodes:
        """The nodes as a scheduler sees them. Its tables change with the state."""
        return self._now._replace(measure=measure)

    def _grow(self, n_rows: int, width: int) -> None:
        old, jobs = self._now.jobs, Jobs.empty(n_rows, width)
        n_old = len(old.id)
        for before, after in zip(old[:-1], jobs[:-1], strict=True):
            after[:n_old] = before
        jobs.nodes[:n_old, : old.nodes.shape[1]] = old.nodes
        self._cluster, self._now = SharedCluster(jobs, self._now.nodes), self._now._replace(jobs=jobs)
        self._free_rows = list(range(n_old, n_rows))[::-1] + self._free_rows


def _read_only(rows: Ints) -> Ints:
    rows.flags.writeable = False
    return rows
