"""The resource manager for machines and clusters: queues, commitments, and scheduling rounds."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType

import numpy as np

from scheduler.managers.availability import Availability
from scheduler.managers.commitments import Commitments, Run, loss_s
from scheduler.managers.queues import (
    Admission,
    MappingPolicy,
    PlannedStarts,
    PreemptionPolicy,
    QueuePolicy,
    Starvation,
    in_order_of_service,
)
from scheduler.mapping.etc import EtcMatrix, ReadyTimes, read_only
from scheduler.mapping.problem import MappingProblem, MappingScheduler
from scheduler.model import DispatchOrder, ExecutionRecord, Job, JobId, RunId, Schedule
from scheduler.ports import RunEnded, RunLost
from scheduler.problem import Running
from scheduler.resource_manager import NOT_YET_CONSIDERED, OnMachines, ResourceManager
from scheduler.rules import ScheduleRejected


class MappingManager(ResourceManager):
    """Maps the jobs of several queues to the machines and clusters of a site.

    Notices change state and start runs that are already planned; only rounds decide. A round serves
    the queues from high to low priority. Ready times carry over, and a job displaced by a higher queue
    rejoins its own queue before that is served in the same round. A planned run starts when it is first on
    all its machines; if `planned_starts` are kept, not before its planned start.

    `run_round` raises ScheduleRejected for a schedule that breaks a rule, and carries out nothing of it.
    """

    def __init__(
        self,
        ports: OnMachines,
        queues: Sequence[QueuePolicy],
        schedulers: Mapping[str, MappingScheduler],
        admission: Admission | None = None,
        planned_starts: PlannedStarts = PlannedStarts.EARLIEST,
        preemption: PreemptionPolicy | None = None,
    ) -> None:
        self._queues = in_order_of_service(queues)
        self._policy = {queue.name: queue for queue in self._queues}
        self._schedulers = schedulers
        self._clock = ports.clock
        self._dispatcher = ports.dispatcher
        self._monitor = ports.monitor
        self._experience = ports.experience
        self._admission = admission or Admission(queues)
        self._planned_starts = planned_starts
        self._preemption = preemption or PreemptionPolicy()
        self._starvation = Starvation([queue.name for queue in self._queues], self._preemption.raised_after)
        self._just_raised: list[Job] = []
        self._too_early: list[tuple[float, RunId, Run]] = []
        self._unfinished_of: Counter[str] = Counter()
        self._availability = Availability(ports.site)
        self._commitments = Commitments(ports.site.n_machines, (queue.displaces for queue in self._queues))
        self._waiting: dict[str, dict[JobId, Job]] = {queue.name: {} for queue in self._queues}
        self._planned: dict[JobId, Run] = {}
        self._to_remap: dict[JobId, Run] = {}  # the planned runs of queues that remap
        self._started: dict[RunId, Run] = {}
        self._running: dict[RunId, Running] = {}
        self._ending_run_of: dict[JobId, Run] = {}
        self._reasons: dict[JobId, str] = {}
        self._touched: set[int] = set()
        self._run_ids = count()
        self._news = False

    @property
    def wants_round(self) -> bool:  # type: ignore[override]
        """Something changed since the last round, and there are jobs that a round could map."""
        return self._news and (bool(self._to_remap) or any(self._waiting.values()))

    @property
    def wakes_at_s(self) -> float | None:  # type: ignore[override]
        """The next planned start that has to be kept; None if there is none."""
        while self._too_early:
            wakes_at_s, _, run = self._too_early[0]
            if self._planned.get(run.job.id) is run:
                return wakes_at_s
            heapq.heappop(self._too_early)
        return None

    def why_waiting(self) -> dict[JobId, str]:
        """The wait reason of each unmapped job from the last round."""
        return {
            job: self._reasons.get(job, NOT_YET_CONSIDERED) for jobs in self._waiting.values() for job in jobs
        }

    def on_job_arrived(self, job: Job) -> str | None:
        if (refusal := self._admission.refusal(job, self._unfinished_of[job.user])) is not None:
            return refusal
        self._unfinished_of[job.user] += 1
        self._enqueue(job)
        return None

    def on_run_ended(self, ended: RunEnded) -> None:
        """A run ended: its machines are free, and its run time is recorded, unless it failed."""
        run = self._started.get(ended.run)
        if run is None:
            return
        self._unfinished_of[run.job.user] -= 1
        self._remove(run, ended.ended_s)
        if run.ending:  # it ended before the preemption order arrived: the job is complete after all
            self._withdraw_job(run.job)
        self._starvation.forget(run.job)
        if not ended.failed:
            run_time_s = ended.run_time_s(run.start_s)
            self._experience.record(
                ExecutionRecord(run.job, run.resource, len(run.machines), run.start_s, run_time_s)
            )
        self._something_changed()

    def on_run_preempted(self, run: RunId) -> None:
        """A run was preempted: its machines are free, and its progress is lost."""
        if run not in self._started:
            return
        self._requeue(self._started[run])
        self._something_changed()

    def on_run_lost(self, lost: RunLost) -> None:
        """A run was lost or failed, or its order could not be carried out: its job waits again.

        Resources found down count as down until a later reading that they are up.
        """
        changed = self._availability.read(lost.readings)
        if lost.run in self._started:
            self._requeue(self._started[lost.run])
        self._withdraw_unavailable(changed)
        self._something_changed()

    def on_monitor_news(self) -> None:
        """The monitor has new readings: withdraw runs planned on resources that became unavailable."""
        if changed := self._availability.read(self._monitor.news()):
            self._withdraw_unavailable(changed)
            self._something_changed()

    def on_time_passed(self) -> None:
        while (wakes_at_s := self.wakes_at_s) is not None and wakes_at_s <= self._clock.now_s:
            self._touched.update(heapq.heappop(self._too_early)[2].machines)
        self._start_what_is_first()

    def run_round(self) -> None:
        """Map the waiting jobs of every queue, from high to low priority, and give orders.

        Raises ScheduleRejected, with nothing of that schedule carried out, if a rule is broken.
        """
        self.on_monitor_news()
        self._replan()
        # In all queues before any is served: no run is planned after one that is about to be remapped.
        for run in list(self._to_remap.values()):
            self._withdraw(run)
        self._just_raised.clear()
        for queue in self._queues:
            if self._waiting[queue.name]:
                self._serve(queue)
        # A job raised into a queue that had already been served needs another round.
        self._news = any(job.id in self._waiting[self._starvation.queue_of(job)] for job in self._just_raised)
        self._start_what_is_first()

    def _replan(self) -> None:
        held = [run for job in self._ending_run_of if (run := self._planned.get(job))]
        for late in self._commitments.replan(self._clock.now_s, held):
            if not late.ending:
                self._running[late.id] = self._running[late.id]._replace(completion_s=late.completion_s)

    def _serve(self, queue: QueuePolicy) -> None:
        jobs = sorted(self._waiting[queue.name].values(), key=lambda job: (job.arrival_s, job.id))
        etc = self._experience.estimate(jobs, [len(usable) for usable in self._availability.members()])
        schedule, runs = self._decide(queue, jobs, etc, queue.displaces)
        overlapping, now_s = self._commitments.overlapping, self._clock.now_s
        displaced = {other.id: other for run in runs for other in overlapping(run, queue.displaces, now_s)}
        victims = sorted(displaced.values(), key=lambda other: other.place_in_line)
        if victims and self._preemption.least_gain_s > 0.0:
            later, waiting_runs = self._decide(queue, jobs, etc, frozenset())
            state = self._commitments, self._availability, self._experience, now_s
            lost_s = partial(loss_s, *state, victims, runs)
            gain_s = later.sum_completion_s - schedule.sum_completion_s
            worth_it = self._preemption.justifies(len(victims), gain_s, lost_s)
            if len(runs) <= len(waiting_runs) and not worth_it:
                schedule, runs = later, waiting_runs
        for i, reason in schedule.wait_reasons.items():
            self._reasons[jobs[i].id] = reason
        for victim in schedule.preemptions:
            self._displace(self._started[victim])
        for run in runs:
            self._plan(run)

    def _decide(
        self, queue: QueuePolicy, jobs: Sequence[Job], etc: EtcMatrix, ignored: frozenset[str]
    ) -> tuple[Schedule, list[Run]]:
        """Call the queue's scheduler as if the queues `ignored` had no runs. Raises ScheduleRejected."""
        now_s = self._clock.now_s  # a copy: the scheduler may read later, when the clock has moved

        def read_ready_times(victims: frozenset[RunId]) -> ReadyTimes:
            ready_s = self._commitments.ready_s(ignored)
            if victims:
                ready_s = ready_s.copy()
                for j in {j for run in victims for j in self._started[run].machines}:
                    ready_s[j] = self._commitments.ready_s_without(j, victims, ignored)
            machine_s = np.where(self._availability.up, np.maximum(ready_s, now_s), np.inf)
            return ReadyTimes(read_only(machine_s), self._availability.members())

        problem = MappingProblem(now_s, tuple(jobs), etc, read_ready_times, MappingProxyType(self._running))
        schedule = self._schedulers[queue.name].schedule(problem)
        violation = problem.violation(schedule)
        if violation is not None:
            raise ScheduleRejected(violation)
        runs = [
            Run(
                RunId(next(self._run_ids)),
                jobs[assignment.job],
                queue.name,
                assignment.resource,
                problem.ready_times.machines_of(assignment.resource),
                assignment.start_s,
                assignment.completion_s,
            )
            for assignment in schedule.assignments
        ]
        return schedule, runs

    def _plan(self, run: Run) -> None:
        del self._waiting[run.queue][run.job.id]
        self._reasons.pop(run.job.id, None)
        displaces = self._policy[run.queue].displaces
        for displaced in self._commitments.overlapping(run, displaces, self._clock.now_s):
            self._displace(displaced)
        if self._planned_starts is PlannedStarts.KEPT:
            run.not_before_s = run.start_s
        self._commitments.add(run)
        self._planned[run.job.id] = run
        if self._policy[run.queue].mapping is MappingPolicy.REMAP:
            self._to_remap[run.job.id] = run
        self._touched.update(run.machines)

    def _start_what_is_first(self) -> None:
        """On machines with changes, start the planned runs that are first on all their machines."""
        firsts = {run.id: run for j in self._touched if (run := self._commitments.first_on(j))}
        self._touched.clear()
        for run in sorted(firsts.values(), key=lambda run: run.place_in_line):
            waits_for_itself = run.job.id in self._ending_run_of
            if run.started or waits_for_itself or not self._commitments.is_first_everywhere(run):
                continue
            if run.not_before_s > self._clock.now_s:
                heapq.heappush(self._too_early, (run.not_before_s, run.id, run))
                continue
            self._unplan(run)
            self._commitments.start(run, self._clock.now_s)
            self._started[run.id] = run
            self._running[run.id] = Running(run.job, run.resource, run.machines, run.completion_s)
            expected_s = run.completion_s - run.start_s
            self._dispatcher.dispatch(DispatchOrder(run.id, run.job, run.resource, run.machines, expected_s))

    def _displace(self, run: Run) -> None:
        """Withdraw a planned run or preempt a running one; its job waits again."""
        if not run.started:
            self._withdraw(run)
            return
        if self._starvation.note_displaced(run.job):
            self._just_raised.append(run.job)
        self._commitments.cut(run, self._clock.now_s)
        del self._running[run.id]
        self._ending_run_of[run.job.id] = run
        self._enqueue(run.job)
        self._dispatcher.preempt(run.id)

    def _withdraw(self, run: Run) -> None:
        """Withdraw a planned run; its job waits again."""
        self._unplan(run)
        self._commitments.remove(run)
        self._touched.update(run.machines)
        self._enqueue(run.job)

    def _unplan(self, run: Run) -> None:
        del self._planned[run.job.id]
        self._to_remap.pop(run.job.id, None)

    def _withdraw_job(self, job: Job) -> None:
        """Remove a job from its queue, and withdraw its planned run."""
        if job.id in self._planned:
            self._withdraw(self._planned[job.id])
        self._waiting[self._starvation.queue_of(job)].pop(job.id, None)
        self._reasons.pop(job.id, None)

    def _withdraw_unavailable(self, machines: Iterable[int]) -> None:
        """Withdraw the runs planned on `machines` that cannot start there any more."""
        for j in machines:
            for run in self._commitments.on(j):
                if not run.started and not self._availability.has(run.machines, run.resource):
                    self._withdraw(run)

    def _remove(self, run: Run, now_s: float) -> None:
        """Remove a started run, for whatever reason it ended."""
        self._commitments.end(run, now_s)
        del self._started[run.id]
        self._running.pop(run.id, None)
        self._touched.update(run.machines)
        if run.ending:
            del self._ending_run_of[run.job.id]
            if run.job.id in self._planned:  # its next run may have waited only for this
                self._touched.update(self._planned[run.job.id].machines)

    def _requeue(self, run: Run) -> None:
        """Remove a started run whose job is not complete."""
        self._remove(run, self._clock.now_s)
        if not run.ending:
            self._enqueue(run.job)

    def _something_changed(self) -> None:
        self._news = True
        self._start_what_is_first()

    def _enqueue(self, job: Job) -> None:
        self._waiting[self._starvation.queue_of(job)][job.id] = job
        self._news = True
