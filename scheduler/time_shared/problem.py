"""The problem of time-shared nodes: which jobs start now, and on which nodes? And the system state of CISNE:
these nodes, and their waiting and running jobs."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from scheduler.core.arrays import Floats, Ints, integers
from scheduler.model import Job, JobId, NodeSchedule, RunId, Start
from scheduler.node_set import NodeSet
from scheduler.ports import Scheduler
from scheduler.problem import Running, SchedulingProblem, first_violation, too_few_or_many
from scheduler.rules import SOCIAL_CONTRACT, Kind, Violation
from scheduler.time_shared.core.cluster import SharedCluster
from scheduler.time_shared.core.tables import SLACK, Jobs, Nodes
from scheduler.time_shared.social_contract import Requirement, SocialContract, sum_in_order


class SharedNodes(NamedTuple):
    """State of time-shared nodes, read-only; work on copies of the tables (`copied()`).

    * `jobs`, `nodes`: tables of the unfinished jobs and of the nodes.
    * `waiting`, `running`: rows of the waiting jobs, in the order of the problem's jobs, and of the running.
    * `measure()`: updates `jobs.used_s` and `jobs.run_s`, the CPU time and run time of running jobs; call it
      before reading them. O(running jobs).
    * `promised`: by when jobs were promised to end.
    * `job_of`: the unfinished jobs by id.
    """

    jobs: Jobs
    nodes: Nodes
    waiting: Ints
    running: Ints
    measure: Callable[[], None] = lambda: None
    promised: Mapping[JobId, float] = MappingProxyType({})
    job_of: Mapping[JobId, Job] = MappingProxyType({})

    @property
    def n_nodes(self) -> int:
        return len(self.nodes.n_jobs)

    def due_s(self, rows: Ints) -> Floats:
        """By when the jobs in some rows are to end; infinite without a limit."""
        return np.array([self.job_of[JobId(job)].deadline_s for job in self.jobs.id[rows].tolist()])

    def requirement(self, i: int) -> Requirement:
        """What job i of the problem requires."""
        return requirement_in(self.jobs, int(self.waiting[i]))


class TimeSharedProblem(SchedulingProblem):
    """Which of the jobs start now, and on which of `shared_nodes`? The answer is a `NodeSchedule`.

    See `SchedulingProblem` for `now_s`, `jobs`, `n_jobs`, `running` and `n_places`.
    """

    kind = Kind.TIME_SHARED

    def __init__(
        self,
        now_s: float,
        jobs: Sequence[Job],
        shared_nodes: SharedNodes,
        running: Mapping[RunId, Running] | None = None,
    ) -> None:
        super().__init__(now_s, tuple(jobs), running, shared_nodes.n_nodes)
        self.shared_nodes = shared_nodes

    def arrays(self) -> Mapping[str, Any]:
        shared = self.shared_nodes
        measured = {"used_s", "run_s"}  # which reading them updates
        jobs = {name: column for name, column in shared.jobs._asdict().items() if name not in measured}
        return {
            "the queue": shared.waiting,
            "the running jobs": shared.running,
            **shared.nodes._asdict(),
            **{f"jobs.{name}": column for name, column in jobs.items()},
        }

    def violation(self, answer: object) -> Violation | None:
        added: defaultdict[int, list[Requirement]] = defaultdict(list)

        def use(i: int, job: Job, start: Start, nodes: NodeSet) -> Violation | None:
            requirement = self.shared_nodes.requirement(i)
            wrong = too_few_or_many(job, nodes, requirement.n_tasks)
            if wrong is not None:
                return wrong
            for n in nodes:
                added[n].append(requirement)
                exceeded = self._exceeded(n, added[n])
                if exceeded is not None:
                    message = f"job {job.id} is started on node {n}, which would then carry {exceeded}"
                    return Violation(SOCIAL_CONTRACT, job.id, message)
            return None

        return first_violation(self, answer, use)

    def _exceeded(self, n: int, added: list[Requirement]) -> str | None:
        """The limit of node n that the tasks `added` exceed."""
        nodes = self.shared_nodes.nodes
        jobs = int(nodes.n_jobs[n]) + len(added)
        if jobs > nodes.most_jobs[n]:
            return f"{jobs} parallel tasks; {nodes.most_jobs[n]} are allowed"
        memory_mb = float(nodes.memory_mb[n]) + sum_in_order(requirement.memory_mb for requirement in added)
        if memory_mb > nodes.most_memory_mb[n] + 2 * SLACK:
            return f"{memory_mb:g} MB of parallel memory; {nodes.most_memory_mb[n]:g} MB are allowed"
        cpu = float(nodes.cpu[n]) + sum_in_order(requirement.cpu for requirement in added)
        if cpu > nodes.most_cpu[n] + 2 * SLACK:
            return f"CPU requirements of {cpu:.2f}; {nodes.most_cpu[n]:g} are allowed"
        reserved = float(nodes.reserved[n]) + sum_in_order(requirement.reserved for requirement in added)
        if reserved > nodes.most_reserved[n] + 2 * SLACK:
            return f"reserved shares of {reserved:.2f} CPUs; {nodes.most_reserved[n]:g} are allowed"
        return None


TimeSharedScheduler = Scheduler[TimeSharedProblem, NodeSchedule]


def requirement_in(jobs: Jobs, row: int) -> Requirement:
    """What the job in a row of the table requires."""
    columns = jobs.tasks, jobs.cpu, jobs.memory_mb, jobs.exe_s, jobs.reserved
    return Requirement(*(column[row].item() for column in columns))


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
