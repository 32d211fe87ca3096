"""LoRaS: job ordering, job selection and node selection composed into one scheduler.

The kernels have a constant for each policy and method, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from scheduler.compiled import Floats, Ints, copied
from scheduler.messages import counted
from scheduler.model import NodeSchedule, Start
from scheduler.naming import Choice
from scheduler.time_shared.kernels.selection import System, reservation_s, select_nodes, start_jobs, system_of
from scheduler.time_shared.kernels.tables import SLACK, Jobs, Nodes, Policy, expect, queues_of
from scheduler.time_shared.problem import SharedNodes, TimeSharedProblem
from scheduler.wait_reasons import AllOthers

WAITS = "no set of nodes has room for it yet, or a job before it waits"


class Ordering(Choice, noun="job ordering"):
    """The order of the queue; ties go to the earlier arrival, then the lower id."""

    FCFS = "fcfs"  # first come, first served
    SJF = "sjf"  # shortest job first, by execution time in isolation
    SNPF = "snpf"  # smallest number of processors first


class Selection(Choice, noun="job selection"):
    """Which of the waiting jobs may start."""

    JUST_FIRST = "just_first"  # only the first of the queue
    FIRST_FIT = "first_fit"  # the first that fits
    BEST_FIT = "best_fit"  # of those that fit, the one with most tasks
    EASY = "easy"  # backfilling that does not delay the first, according to the estimates


class NodeSelection(Choice, noun="node selection"):
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
        self.ordering = Ordering(ordering)
        self.selection = Selection(selection)
        self.node_selection = NodeSelection(node_selection)
        self.estimate = Method(estimate)
        self.most_jobs = most_jobs
        self.policy = Policy(self.selection.code, self.node_selection.code, self.estimate.code)

    def limit(self, nodes: Nodes) -> None:
        """Lower the limits of `nodes` to `most_jobs`."""
        if self.most_jobs is not None:
            np.minimum(nodes.most_jobs, self.most_jobs, out=nodes.most_jobs)

    def schedule(self, problem: TimeSharedProblem) -> NodeSchedule:
        shared = problem.shared_nodes
        if self.selection is Selection.EASY:
            shared.measure()
        jobs = shared.jobs._replace(nodes=shared.jobs.nodes.copy())
        nodes = copied(shared.nodes)
        self.limit(nodes)
        queues = queues_of(in_order(shared, self.ordering), shared.running)
        system = system_of(jobs, nodes, queues)
        n_started = start_jobs(system, self.policy)
        starts = starts_of(problem, jobs, nodes, system.room.started[:n_started], self.estimate)
        why = self._wait_reasons(problem, system)
        return NodeSchedule(starts, AllOthers(problem.n_jobs, starts, WAITS, why))

    def _wait_reasons(self, problem: TimeSharedProblem, system: System) -> WaitReasons | None:
        jobs, nodes, queues, _ = system
        begin, end = queues.window
        if begin == end:
            return None
        head = int(queues.waiting[begin])

        def reservation() -> str:
            in_s = reservation_s(system, self.policy, head)
            if in_s == inf:
                return "no running job's end makes room for it"
            return f"its estimated start is {problem.now_s + in_s:.10g} s"

        held_back, is_easy = f"job {jobs.id[head]} comes first", self.selection is Selection.EASY
        if is_easy:
            held_back = f"it would delay job {jobs.id[head]}, the first of the queue"
        rows, policy = problem.shared_nodes.waiting, self.policy.node_selection
        return WaitReasons(rows, jobs, nodes, policy, head, held_back, reservation if is_easy else None)


@dataclass(frozen=True)
class WaitReasons:
    """Wait reasons after a pass, computed on request from the state then, which must not change.

    `rows` has the row of each job of the problem, `head` is that of the first waiting one; `held_back` is why
    another job with enough room waits, and `reservation` describes when the first can start.
    """

    rows: Ints
    jobs: Jobs
    nodes: Nodes
    node_selection: int
    head: int
    held_back: str
    reservation: Callable[[], str] | None = None

    def __call__(self, i: int) -> str:
        row = int(self.rows[i])
        room, has_room = self._room_for(row)
        if row != self.head and not has_room:
            return room
        reason = f"first of the queue: {room}" if row == self.head else f"{room}; but {self.held_back}"
        return f"{reason}; {self.reservation()}" if self.reservation else reason

    def _room_for(self, row: int) -> tuple[str, bool]:
        """The room for a job within the social contract, as text, and whether it is enough."""
        jobs, nodes, tasks = self.jobs, self.nodes, int(self.jobs.tasks[row])
        limits = {
            "down": nodes.most_jobs == 0,
            "full": nodes.n_jobs >= nodes.most_jobs,
            "short of memory": nodes.memory_mb + jobs.memory_mb[row] > nodes.most_memory_mb + SLACK,
            "short of CPU": nodes.cpu + jobs.cpu[row] > nodes.most_cpu + SLACK,
        }
        left, short = np.ones(len(nodes.n_jobs), dtype=bool), []
        for what, exceeded in limits.items():
            if n := int((left & exceeded).sum()):
                short.append(f"{n} {what}")
            left &= ~exceeded
        text = f"it needs {counted(tasks, 'node')}, and the social contract has room on "
        text += f"{int(left.sum())}" + (f" ({', '.join(short)})" if short else "")
        if left.sum() < tasks:
            return text, False
        if select_nodes(jobs, nodes, self.node_selection, row, np.empty(len(left), dtype=np.int64)):
            return text, True
        return f"{text}, but too few of them are idle, and no job of its size runs on them", False


def in_order(shared: SharedNodes, ordering: Ordering) -> Ints:
    """The rows of the waiting jobs, which are in order of arrival, in the order of the policy."""
    if ordering is Ordering.FCFS:
        return shared.waiting
    keys: Floats | Ints = shared.jobs.exe_s if ordering is Ordering.SJF else shared.jobs.tasks
    return shared.waiting[np.argsort(keys[shared.waiting], kind="stable")]


def starts_of(
    problem: TimeSharedProblem, jobs: Jobs, nodes: Nodes, rows: Ints, estimate: Method
) -> tuple[Start, ...]:
    """The starts of the jobs in `rows`, on the nodes on which they are in the tables."""
    if not len(rows):
        return ()
    expected_s = np.empty(len(rows))
    expect(jobs, nodes, rows, estimate.code, expected_s)
    position = {row: i for i, row in enumerate(problem.shared_nodes.waiting.tolist())}
    return tuple(
        Start(position[row], tuple(jobs.nodes[row, : jobs.tasks[row]].tolist()), problem.now_s + takes_s)
        for row, takes_s in zip(rows.tolist(), expected_s.tolist(), strict=True)
    )
