"""The queue manager: jobs of one queue that start on nodes, or wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Protocol, cast

from scheduler.managers.admission import Admission
from scheduler.managers.node_allocation import NodeAllocation
from scheduler.model import (
    ON_NODES,
    Completion,
    DispatchOrder,
    Job,
    JobId,
    Loss,
    NodeReading,
    NodeSchedule,
    RunId,
)
from scheduler.ports import Scheduler
from scheduler.problem import Running
from scheduler.resource_manager import OnFreeNodes, OnSharedNodes, ResourceManager
from scheduler.rules import ScheduleRejected

NOT_YET = "no round has looked at it yet"


class NewJobs(Protocol):
    """Is told, after a round, of the jobs that arrived since the one before."""

    def arrived(self, jobs: Mapping[JobId, Job], now_s: float) -> None: ...


class _RunningRuns(Mapping[RunId, Running]):
    """What a scheduler sees of the runs that go on; made when it looks."""

    def __init__(self, running: Mapping[RunId, tuple[Job, Sequence[int], float]]) -> None:
        self._running = running

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[RunId]:
        return iter(self._running)

    def __getitem__(self, run: RunId) -> Running:
        job, nodes, end_s = self._running[run]
        return Running(job, ON_NODES, nodes, end_s)


class StartingManager(ResourceManager):
    """One queue of jobs for nodes, shared or not; the counterpart of `MappingManager`, which maps jobs.

    Notices change state; a round asks the scheduler which jobs start now, and gives the orders. Nothing here
    costs in proportion to the jobs that wait or the nodes, but for a job that lost its run and waits again.
    """

    def __init__(
        self,
        ports: OnFreeNodes | OnSharedNodes,
        nodes: NodeAllocation,
        scheduler: Scheduler,
        memoryless: bool = False,
        admission: Admission | None = None,
        new_jobs: NewJobs | None = None,
    ) -> None:
        self._nodes = nodes
        self._scheduler = scheduler
        self._is_asked_always = new_jobs is not None or not memoryless
        self._clock = ports.clock
        self._dispatcher = ports.dispatcher
        self._monitor = ports.monitor
        self._admission = admission
        self._listener = new_jobs
        self._unfinished_of: Counter[str] = Counter()
        self._running: dict[RunId, tuple[Job, Sequence[int], float]] = {}
        """Jobs, their nodes, and when they are believed to end."""
        self._shown_running = _RunningRuns(self._running)
        self._run_ids = cast("Iterator[RunId]", count())
        self.wants_round = False
        self.wakes_at_s: float | None = None
        """When to tell it that time has passed: a run outlives what is believed of it, or the scheduler wants
        to be asked again."""
        self._asks_again_s: float | None = None
        self._new_jobs: dict[JobId, Job] = {}
        self._last_schedule: NodeSchedule | None = None
        self._told_s: dict[int, float] = {}
        """When it was last seen whether a node is up."""

    def why_waiting(self) -> dict[JobId, str]:
        """A sentence for each job that waits."""
        left = sorted(self._last_schedule.wait_reasons.items()) if self._last_schedule else []
        reasons = (reason for _, reason in left)
        seen = (job.id for job in self._nodes.waiting if job.id not in self._new_jobs)
        return dict.fromkeys(self._new_jobs, NOT_YET) | {job: next(reasons, NOT_YET) for job in seen}

    def on_job_arrived(self, job: Job) -> str | None:
        """A job is submitted. Returns None, or the sentence with which it is refused."""
        if self._admission is not None:
            refused = self._admission.refusal(job, self._unfinished_of[job.user])
            if refused is not None:
                return refused
        refused = self._nodes.take_in(job)
        if refused is not None:
            return refused
        if self._admission is not None:
            self._unfinished_of[job.user] += 1
        self._new_jobs[job.id] = job
        if self._is_asked_always or not self._nodes.nobody_fits():
            self.wants_round = True
        return None

    def on_run_ended(self, completion: Completion) -> None:
        run = completion.run
        running = self._running.pop(run, None)
        if running is None:
            return
        if self._admission is not None:
            self._unfinished_of[running[0].user] -= 1
        self._nodes.end(run, completion)
        self._something_changed()

    def on_run_released(self, run: RunId) -> None:
        """A run ends now, and is told of later; until then no round is wanted."""
        if run in self._running:
            self._nodes.release(run, self._clock.now_s)
            self.wakes_at_s = self._next_wake_up_s()

    def on_run_preempted(self, run_id: RunId) -> None:
        """Nobody preempts here: CCS stops and restarts by itself. An order from outside counts as a loss."""
        self.on_run_lost(Loss(run_id, self._clock.now_s))

    def on_run_lost(self, loss: Loss) -> None:
        """A run came to nothing: its job waits again. Nodes found down are not used until they are seen up,
        later."""
        for subject in loss.found_down:
            if isinstance(subject, int):
                self._hear(subject, False, loss.lost_s)
        running = self._running.pop(loss.run, None)
        if running is not None:
            self._nodes.come_to_nothing(loss.run)
            self._last_schedule = None  # its reasons stand for the queue as it was
        self._something_changed()

    def on_monitor_news(self) -> None:
        if self._monitor is None:
            return
        for reading in self._monitor.news():
            if isinstance(reading, NodeReading):
                if self._nodes.hear(reading):
                    self._something_changed()
            elif self._hear(reading.machine, reading.up, reading.measured_s):
                self._something_changed()

    def on_time_passed(self) -> None:
        """It is `wakes_at_s`, or later."""
        now_s = self._clock.now_s
        self._nodes.outlived(now_s)
        if self._asks_again_s is not None and self._asks_again_s <= now_s:
            self._asks_again_s = None
        self._something_changed()

    def run_round(self) -> None:
        """Start what the scheduler says.

        Raises ScheduleRejected, with nothing of that schedule carried out, if a rule is broken.
        """
        if self._monitor is not None:
            self.on_monitor_news()
        self.wants_round = False
        now_s = self._clock.now_s
        if self._nodes.waiting:
            problem = self._nodes.problem(now_s, self._shown_running)
            schedule: NodeSchedule = self._scheduler.schedule(problem)
            violation = problem.violation(schedule)
            if violation is not None:
                raise ScheduleRejected(violation)
            self._last_schedule = schedule
            if schedule.starts:
                self._carry_out(schedule, problem.jobs, now_s)
            self._asks_again_s = schedule.ask_again_s
            self.wakes_at_s = self._next_wake_up_s()
        if self._listener is not None and self._new_jobs:
            self._listener.arrived(self._new_jobs, self._clock.now_s)
        self._new_jobs.clear()

    def _hear(self, node: int, up: bool, seen_s: float) -> bool:
        """A node was seen up, or down. Returns whether that is news, and not older than what is known."""
        if seen_s < self._told_s.get(node, 0.0):
            return False
        self._told_s[node] = seen_s
        self._nodes.tell_available(node, up)
        return True

    def _something_changed(self) -> None:
        """Jobs that wait may start now."""
        nodes = self._nodes
        if nodes.waiting if self._is_asked_always else not nodes.nobody_fits():
            self.wants_round = True
        self.wakes_at_s = self._next_wake_up_s()

    def _next_wake_up_s(self) -> float | None:
        outlived_s, asks_again_s = self._nodes.outlived_at_s, self._asks_again_s
        if outlived_s is None or asks_again_s is None:
            return asks_again_s if outlived_s is None else outlived_s
        return min(outlived_s, asks_again_s)

    def _carry_out(self, schedule: NodeSchedule, jobs: Sequence[Job], asked_s: float) -> None:
        """Give the orders. It may be later than when the scheduler was asked; then all ends are later."""
        now_s = self._clock.now_s
        late_s = now_s - asked_s
        nodes, dispatcher, running = self._nodes, self._dispatcher, self._running
        starting = [(jobs[start.job], start) for start in schedule.starts]
        for job, start in starting:
            run = next(self._run_ids)
            if late_s:
                start = start._replace(completion_s=start.completion_s + late_s)
            _, where, end_s = start
            nodes.start(run, job, start, now_s)
            running[run] = job, where, end_s
            dispatcher.dispatch(DispatchOrder(run, job, ON_NODES, where, end_s - now_s))
