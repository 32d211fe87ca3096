"""The problem of time-shared nodes: which jobs start now, and on which nodes?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from scheduler.core.arrays import Floats, Ints
from scheduler.model import Job, JobId, NodeSchedule, RunId, Start
from scheduler.node_set import NodeSet
from scheduler.ports import Scheduler
from scheduler.problem import Running, SchedulingProblem, first_violation, too_few_or_many
from scheduler.rules import SOCIAL_CONTRACT, Kind, Violation
from scheduler.time_shared.core.tables import SLACK, Jobs, Nodes
from scheduler.time_shared.social_contract import Requirement, sum_in_order


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
