"""The system state of CISNE: time-shared nodes, and their waiting and running jobs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType

import numpy as np

from scheduler.compiled import Ints, allocate
from scheduler.model import Job, JobId
from scheduler.time_shared.kernels.tables import Jobs, Nodes, put, take_off
from scheduler.time_shared.problem import SharedNodes, requirement_in
from scheduler.time_shared.social_contract import Requirement, SocialContract

FEWEST_ROWS = 64
_in_queue = attrgetter("arrival_s", "id")


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """The last reported local load of a node. `cpu` is a share of one CPU, smoothed over time."""

    tasks: float = 0.0
    cpu: float = 0.0
    memory_mb: float = 0.0
    user_is_there: bool = False


class SystemState:
    """Updated by notices; no operation depends on the number of nodes."""

    def __init__(self, memory_mb: Sequence[float], contract: SocialContract) -> None:
        n = len(memory_mb)
        self._memory_mb = list(memory_mb)
        self._contract = contract
        self._local = [ReportedLoad()] * n
        self._nodes = allocate(Nodes, n, (n, contract.most_jobs), *7 * [n])
        self._nodes.most_jobs[:], self._nodes.most_cpu[:] = contract.most_jobs, contract.most_cpu
        self._nodes.most_memory_mb[:] = [contract.memory_mb(mb, 0.0, False) for mb in memory_mb]
        self.free_mb = sorted(self._nodes.most_memory_mb.tolist(), reverse=True)
        """Memory of each node for parallel tasks in the absence of local users, largest first."""
        self._jobs = _jobs_table(FEWEST_ROWS, 1)
        self._free_rows = list(range(FEWEST_ROWS))[::-1]
        self._row_of: dict[JobId, int] = {}
        self._job_of: dict[JobId, Job] = {}
        self.waiting: list[Job] = []
        """In order of arrival, then id."""
        self._waiting_rows: Ints = np.empty(0, dtype=np.int64)
        self._running_rows: Ints = np.empty(0, dtype=np.int64)
        """In order of their starts. Changes replace both arrays, so that views keep theirs."""
        self._running: dict[JobId, float] = {}
        """When each began."""
        self._promised: dict[JobId, float] = {}

    def add(self, job: Job, requirement: Requirement) -> None:
        """Queue a job."""
        if not self._free_rows:
            self._grow(2 * len(self._jobs.id), self._jobs.nodes.shape[1])
        if requirement.n_tasks > self._jobs.nodes.shape[1]:
            self._grow(len(self._jobs.id), requirement.n_tasks)
        row = self._row_of[job.id] = self._free_rows.pop()
        self._job_of[job.id] = job
        jobs = self._jobs
        jobs.id[row], jobs.tasks[row] = job.id, requirement.n_tasks
        jobs.cpu[row], jobs.memory_mb[row] = requirement.cpu, requirement.memory_mb
        jobs.exe_s[row], jobs.cpu_s[row] = requirement.exe_s, requirement.cpu_s
        jobs.communicates[row] = requirement.communicates
        jobs.used_s[row] = jobs.run_s[row] = 0.0
        self._wait(job, row)

    def start(self, job: Job, nodes: Sequence[int], now_s: float) -> None:
        """Start a waiting job."""
        row = self._row_of[job.id]
        del self.waiting[bisect_left(self.waiting, _in_queue(job), key=_in_queue)]
        self._waiting_rows = _read_only(self._waiting_rows[self._waiting_rows != row])
        self._running[job.id] = now_s
        self._running_rows = _read_only(np.append(self._running_rows, row))
        put(self._jobs, self._nodes, row, np.array(nodes, dtype=np.int64))

    def end(self, job: JobId) -> None:
        """Complete a running job."""
        self._free_rows.append(self._stop(job))
        self._promised.pop(job, None)
        del self._row_of[job], self._job_of[job]

    def requeue(self, job_id: JobId) -> None:
        """A running job lost its nodes and its progress: queue it again."""
        row = self._stop(job_id)
        self._jobs.used_s[row] = self._jobs.run_s[row] = 0.0
        self._wait(self._job_of[job_id], row)

    def _wait(self, job: Job, row: int) -> None:
        place, rows = bisect_left(self.waiting, _in_queue(job), key=_in_queue), self._waiting_rows
        self.waiting.insert(place, job)
        self._waiting_rows = _read_only(np.concatenate((rows[:place], (row,), rows[place:])))

    def _stop(self, job: JobId) -> int:
        """Free the nodes of a running job. Returns its row."""
        del self._running[job]
        row = self._row_of[job]
        self._running_rows = _read_only(self._running_rows[self._running_rows != row])
        take_off(self._jobs, self._nodes, row)
        return row

    def measured(self, job: JobId, used_s: float, now_s: float) -> None:
        """Set the CPU time that a running job has used, the mean of its tasks; at most its total."""
        row = self._row_of[job]
        self._jobs.used_s[row] = min(used_s, self._jobs.cpu_s[row])
        self._jobs.run_s[row] = now_s - self._running[job]

    def promise(self, job: JobId, by_s: float) -> None:
        """Record that an unfinished job was promised to end by then."""
        self._promised[job] = by_s

    def set_local(self, n: int, load: ReportedLoad) -> None:
        """Set the local load of node n."""
        self._local[n] = load
        self._nodes.local_mpl[n], self._nodes.local_cpu[n] = load.tasks, load.cpu
        self._nodes.most_memory_mb[n] = self._contract.memory_mb(
            self._memory_mb[n], load.memory_mb, load.user_is_there
        )

    def local(self, n: int) -> ReportedLoad:
        return self._local[n]

    def set_available(self, n: int, is_available: bool) -> None:
        self._nodes.most_jobs[n] = self._contract.most_jobs if is_available else 0

    def requirement(self, job: JobId) -> Requirement:
        return requirement_in(self._jobs, self._row_of[job])

    def view(self, measure: Callable[[], None] = lambda: None) -> SharedNodes:
        """The nodes as a scheduler sees them. Its tables change with the state."""
        return SharedNodes(
            self._jobs,
            self._nodes,
            self._waiting_rows,
            self._running_rows,
            measure,
            MappingProxyType(self._promised),
            MappingProxyType(self._job_of),
        )

    def _grow(self, n_rows: int, width: int) -> None:
        old, new = self._jobs, _jobs_table(n_rows, width)
        n_old = len(old.id)
        for before, after in zip(old[:-1], new[:-1], strict=True):
            after[:n_old] = before
        new.nodes[:n_old, : old.nodes.shape[1]] = old.nodes
        self._jobs = new
        self._free_rows = list(range(n_old, n_rows))[::-1] + self._free_rows


def _jobs_table(n_rows: int, width: int) -> Jobs:
    return allocate(Jobs, *9 * [n_rows], (n_rows, width))


def _read_only(rows: Ints) -> Ints:
    rows.flags.writeable = False
    return rows
