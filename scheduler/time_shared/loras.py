"""LoRaS: job ordering, job selection and node selection composed into one scheduler.

Compiled code has a constant for each policy and method, in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.core.arrays import Floats, Ints
from scheduler.messages import counted
from scheduler.model import NodeSchedule, Start
from scheduler.naming import Choice
from scheduler.rules import AllOthers
from scheduler.time_shared.core.passes import System
from scheduler.time_shared.core.tables import EASY, SLACK, Policy
from scheduler.time_shared.problem import SharedNodes, TimeSharedProblem

WAITS = "no set of nodes has room for it yet, or a job before it waits"


class OrderChoice(Choice, noun="job ordering"):
    """The order of the queue; ties go to the earlier arrival, then the lower id."""

    FCFS = "fcfs"  # first come, first served
    SJF = "sjf"  # shortest job first, by execution time in isolation
    SNPF = "snpf"  # smallest number of processors first
    EDF = "edf"  # earliest deadline first, jobs without one last
    LEAST_LAXITY = "least_laxity"  # the same by deadline less execution time in isolation


class JobChoice(Choice, noun="job selection"):
    """Which of the waiting jobs may start."""

    JUST_FIRST = "just_first"  # only the first of the queue
    FIRST_FIT = "first_fit"  # the first that fits
    BEST_FIT = "best_fit"  # of those that fit, the one with most tasks
    EASY = "easy"  # backfilling that does not delay the first, according to the estimates


class NodeChoice(Choice, noun="node selection"):
    """On which nodes a job starts."""

    NORMAL = "normal"  # the least loaded ones
    UNIFORM = "uniform"  # idle nodes, or a set shared by jobs of the same size; else it waits
    UNIFORM_ELSE_NORMAL = "uniform_else_normal"  # as uniform, then as normal instead of waiting


class Method(Choice, noun="method of estimation"):
    """How the remaining time of a running job, or its CPU time, is estimated."""

    PROPORTIONAL = "proportional"
    MPL = "mpl"
    CPU = "cpu"


class Loras:
    """LoRaS, the scheduler of CISNE: which jobs start now, on which time-shared nodes.

    `estimate` is the method by which EASY estimates remaining times. With `most_jobs`, a node gets at most
    that many jobs, even if the social contract allows more. A pass costs O(N) for each job examined: the
    first of the queue (Just First) or all waiting jobs; EASY also examines all running jobs. Ties: earlier
    arrival, lower job id, lower node. Source: CISNE-P, section 2.1.1; Hanzich et al. 2006, section 4.
    """

    def __init__(
        self,
        ordering: str = "fcfs",
        selection: str = "just_first",
        node_selection: str = "normal",
        estimate: str = "cpu",
        most_jobs: int | None = None,
    ) -> None:
        if most_jobs is not None and most_jobs < 1:
            raise ValueError(f"a node may have at least one job, not {most_jobs}")
        self.ordering = OrderChoice(ordering)
        self.selection = JobChoice(selection)
        self.node_selection = NodeChoice(node_selection)
        self.estimate = Method(estimate)
        self.most_jobs = most_jobs
        self.policy = Policy(self.selection.code, self.node_selection.code, self.estimate.code)

    def system(self, shared: SharedNodes) -> System:
        """A copy of the state in which jobs can be started."""
        jobs, nodes, waiting = shared.jobs, shared.nodes, shared.waiting  # in order of arrival
        if self.most_jobs is not None:
            nodes = nodes._replace(most_jobs=np.minimum(nodes.most_jobs, self.most_jobs))
        if self.ordering is not OrderChoice.FCFS:
            keys: Floats | Ints = jobs.tasks[waiting]
            if self.ordering is OrderChoice.SJF:
                keys = jobs.exe_s[waiting]
            elif self.ordering is not OrderChoice.SNPF:
                keys = shared.due_s(waiting)
                if self.ordering is OrderChoice.LEAST_LAXITY:
                    keys = keys - jobs.exe_s[waiting]
            waiting = waiting[np.argsort(keys, kind="stable")]
        return System(jobs, nodes, waiting, shared.running, self.policy)

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        shared = problem.shared_nodes
        is_easy = self.selection is JobChoice.EASY
        if is_easy:
            shared.measure()
        system = self.system(shared)
        system.start_jobs()
        return answer(
            problem, system, "it would delay {}, the first of the queue" if is_easy else "{} comes first"
        )


def answer(problem: TimeSharedProblem, system: System, held_back: str) -> NodeSchedule:
    """The jobs that were started in the system start; `held_back` says why a job with enough room waits, {}
    being the first of the queue."""
    shared = problem.shared_nodes
    rows, jobs = system.running_rows()[len(shared.running) :].tolist(), system.cluster.jobs
    position = {row: i for i, row in enumerate(shared.waiting.tolist())} if rows else {}
    starts = tuple(
        Start(
            position[row],
            tuple(jobs.nodes[row, : jobs.tasks[row]].tolist()),
            problem.now_s + system.cluster.expected_s(row, system.policy.estimate),
        )
        for row in rows
    )
    return NodeSchedule(
        starts, AllOthers(problem.n_jobs, starts, WAITS, WaitReasons(problem, system, held_back))
    )


@dataclass(frozen=True)
class WaitReasons:
    """Wait reasons after a pass, computed on request from the state then, which must not change."""

    problem: TimeSharedProblem
    system: System
    held_back: str

    def __call__(self, i: int) -> str:
        row, head = int(self.problem.shared_nodes.waiting[i]), int(self.system.waiting_rows()[0])
        room, has_room = self._room_for(row)
        if row == head:
            reason = f"first of the queue: {room}"
        elif has_room:
            reason = f"{room}; but {self.held_back.format(f'job {self.system.cluster.jobs.id[head]}')}"
        else:
            return room
        if self.system.policy.selection != EASY:
            return reason
        in_s = self.system.reservation_s(head)
        if in_s == inf:
            return f"{reason}; no running job's end makes room for it"
        return f"{reason}; its estimated start is {self.problem.now_s + in_s:.10g} s"

    def _room_for(self, row: int) -> tuple[str, bool]:
        """The room for a job within the social contract, as text, and whether it is enough."""
        jobs, nodes = self.system.cluster.jobs, self.system.cluster.nodes
        limits = {
            "down": nodes.most_jobs == 0,
            "full": nodes.n_jobs >= nodes.most_jobs,
            "short of memory": nodes.memory_mb + jobs.memory_mb[row] > nodes.most_memory_mb + SLACK,
            "short of CPU": nodes.cpu + jobs.cpu[row] > nodes.most_cpu + SLACK,
            "short of CPU to reserve": nodes.reserved + jobs.reserved[row] > nodes.most_reserved + SLACK,
        }
        left, short, tasks = np.ones(len(nodes.n_jobs), dtype=bool), [], int(jobs.tasks[row])
        for what, exceeded in limits.items():
            if n := int((left & exceeded).sum()):
                short.append(f"{n} {what}")
            left &= ~exceeded
        text = f"it needs {counted(tasks, 'node')}, and the social contract has room on "
        text += f"{int(left.sum())}" + (f" ({', '.join(short)})" if short else "")
        if left.sum() < tasks:
            return text, False
        if self.system.choose(row):
            return text, True
        return f"{text}, but too few of them are idle, and no job of its size runs on them", False
