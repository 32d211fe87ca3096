"""The account of a manager that maps jobs to different machines: its queues, plans and displacements.

It assumes less than the manager knows: where a planned run may have been withdrawn, its job may wait or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

from scheduler.mapping.problem import MappingProblem
from scheduler.model import Answer, Assignment, Assignments, DispatchOrder, Job, JobId, RunId, Schedule
from scheduler.ports import Notice, RunEnded
from scheduler.resource_manager import OnMachines, Ports
from sil.swarm.account import (
    DISPLACES_FOR_A_REASON,
    ESTIMATES_ARE_CURRENT,
    FOLLOWS_DECISIONS,
    ROUNDING_S,
    SERVES_IN_ORDER,
    Account,
    Broken,
    KnownRun,
)
from sil.swarm.case import DEFAULT, URGENT, Case


class PlannedRun(NamedTuple):
    row: Assignment
    machines: tuple[int, ...]

    @property
    def runs_s(self) -> float:
        return self.row.completion_s - self.row.start_s

    def overlaps(self, run: KnownRun, now_s: float) -> bool:
        """Whether the plan needs a machine at a time at which the run is there."""
        if not set(self.machines) & set(run.order.machines):
            return False
        starts_s, ends_s = self.row.start_s, self.row.completion_s
        return starts_s <= now_s or (run.ordered_s < ends_s and run.completion_s > starts_s)


class MappingAccount(Account):
    def __init__(self, case: Case, ports: Ports, broken: Broken) -> None:
        super().__init__(case, ports, broken)
        self._planned: dict[JobId, tuple[str, PlannedRun | None]] = {}
        """The queue and the plan of each job that may be planned; None if it may be either of two."""
        self._asked: set[JobId] = set()
        self._served: list[str] = []
        self._answers: list[tuple[MappingProblem, Schedule, dict[JobId, PlannedRun]]] = []
        """The answers for the queue that is being served: the second one is as if it displaced no runs."""
        self._justified: bool | None = None
        """Whether the first of two answers should be carried out; None = unknown."""
        self._was_raised: set[JobId] = set()
        self._round_s = 0.0

    def handle(self, notice: Notice) -> str | None:
        if isinstance(notice, RunEnded) and (run := self._runs.get(notice.run)) is not None:
            self._planned.pop(run.order.job.id, None)
        return super().handle(notice)

    def run_round(self) -> None:
        self._round_s = self._clock.now_s
        self._asked.clear()
        self._served.clear()
        self._was_raised.clear()
        self._answers = []
        if self._case.is_remapping:
            self._planned.clear()
        try:
            super().run_round()
        except Exception:  # a rejected answer, a fault of the scheduler, or a crash of the manager
            self._answers = []  # nothing of them is carried out
            raise
        self._close()
        for job in sorted(self._waiting() - self._planned.keys() - self._asked - self._was_raised):
            self._broken(SERVES_IN_ORDER, job, f"job {job} waits, but a round did not ask for it")

    def dispatch(self, order: DispatchOrder) -> None:
        self._close()
        job = order.job.id
        _, plan = self._planned.get(job, (None, None))
        if job not in self._planned:
            self._broken(FOLLOWS_DECISIONS, job, f"job {job} is ordered, but not planned")
        elif plan is not None:
            self._check_order(order, plan)
        super().dispatch(order)
        self._planned.pop(job, None)

    def preempt(self, run_id: RunId) -> None:
        run = self._runs.get(run_id)
        before = None if run is None else self._queue_of(run.order.job)
        super().preempt(run_id)
        if run is not None and self._queue_of(run.order.job) != before:
            self._was_raised.add(run.order.job.id)

    def on_problem(self, queue: str, problem: MappingProblem) -> None:
        if self._served[-1:] != [queue]:
            self._close()
            if queue in self._served or (queue == URGENT and self._served):
                self._broken(SERVES_IN_ORDER, None, f"queue '{queue}' is served again, or too late")
            self._served.append(queue)
        elif len(self._answers) == 2 or not self._case.least_gain_s:
            self._broken(SERVES_IN_ORDER, None, f"the scheduler of queue '{queue}' is asked again")
        is_certain = not self._case.faults and not self._case.has_queues
        may = {job for job in self._waiting() if self._queue_of(self._jobs[job]) == queue}
        must = may - self._planned.keys()
        self._check_waiting(problem.jobs, must if is_certain else may, must)
        self._asked.update(job.id for job in problem.jobs)
        going_on = {run_id for run_id, run in self._runs.items() if not run.is_stopping}
        if going_on != problem.running.keys():
            wrong = min(going_on ^ problem.running.keys())
            self._broken(ESTIMATES_ARE_CURRENT, None, f"run {wrong} runs, or is in the problem, but not both")
        self._check_running(problem.running, self._round_s)
        self._check_ready(problem, [] if self._answers else self._displaced_by(queue))

    def on_answer_to(self, problem: MappingProblem, answer: Answer) -> None:
        if not isinstance(answer, Schedule) or not isinstance(answer.assignments, Assignments):
            return  # it is rejected
        jobs, times, rows = problem.jobs, problem.ready_times, answer.assignments
        if max(rows.jobs.tolist(), default=-1) >= len(jobs):
            return
        plans = {jobs[row.job].id: PlannedRun(row, times.machines_of(row.resource)) for row in rows}
        self._answers.append((problem, answer, plans))
        if len(self._answers) == 1:
            self._stops.clear()
        else:
            self._justified = self._is_justified()

    def _queue_of_order(self, order: DispatchOrder) -> str:
        return self._planned[order.job.id][0] if order.job.id in self._planned else order.job.queue

    def _queue_of(self, job: Job) -> str:
        raised_after = self._case.raised_after
        is_raised = raised_after is not None and self._displaced[job.id] >= raised_after
        return URGENT if is_raised and self._case.has_queues else job.queue

    def _displaced_by(self, queue: str) -> Sequence[str]:
        return [DEFAULT] if queue == URGENT else []

    def _waiting(self) -> set[JobId]:
        """The jobs that do not run; some are planned, or may be."""
        going_on = {run.order.job.id for run in self._runs.values() if not run.is_stopping}
        return self._jobs.keys() - going_on

    def _check_order(self, order: DispatchOrder, plan: PlannedRun) -> None:
        job, row = order.job.id, plan.row
        place = (order.resource, tuple(order.machines))
        if place != (row.resource, plan.machines) or abs(order.expected_s - plan.runs_s) > ROUNDING_S:
            self._broken(FOLLOWS_DECISIONS, job, f"job {job} is ordered otherwise than planned")
        if self._case.keeps_starts and self._clock.now_s < row.start_s - ROUNDING_S:
            self._broken(FOLLOWS_DECISIONS, job, f"job {job} is ordered before its planned start")

    def _check_ready(self, problem: MappingProblem, ignored: Sequence[str]) -> None:
        """Check that no machine is ready while it is known to be in use, nor later if all plans are of this
        round."""
        plans = [plan for queue, plan in self._planned.values() if queue not in ignored]
        is_exact = self._case.is_remapping and None not in plans
        for j, ready_s in enumerate(problem.ready_times.machine_s.tolist()):
            ends_s = [problem.now_s]
            ends_s += [
                max(run.completion_s, self._round_s)
                for run in self._runs.values()
                if j in run.order.machines and run.queue not in ignored and not run.is_stopping
            ]
            if is_exact:
                ends_s += [plan.row.completion_s for plan in plans if plan and j in plan.machines]
            early_s = max(ends_s) - ready_s
            if early_s > ROUNDING_S or (is_exact and -early_s > ROUNDING_S and ready_s < inf):
                message = f"machine {j} is said to be ready at {ready_s:.12g} s, not {max(ends_s):.12g} s"
                self._broken(ESTIMATES_ARE_CURRENT, None, message)

    def _close(self) -> None:
        answers, self._answers = self._answers, []
        if not answers:
            return
        queue, now_s = self._served[-1], self._clock.now_s
        stops = set(self._stops)
        expected = [
            {run.order.run for run in self._victims(queue, plans.values(), now_s)} | {*answer.preemptions}
            for _, answer, plans in answers
        ]
        taken = [k for k, runs in enumerate(expected) if runs == stops]
        if not taken:
            message = f"queue '{queue}' displaces the runs {sorted(stops)}, not {sorted(expected[0])}"
            self._broken(DISPLACES_FOR_A_REASON, None, message)
            taken = [0]
        if len(answers) == 1 and self._case.least_gain_s and (stops - {*answers[0][1].preemptions}):
            self._broken(DISPLACES_FOR_A_REASON, None, "runs are displaced without asking for the gain")
        if len(answers) == 2 and taken == [self._justified]:  # 1, the second one, if it is justified
            what = "are not" if self._justified else "are"
            message = f"runs {what} displaced, against the gain of {self._case.least_gain_s:g} s for each"
            self._broken(DISPLACES_FOR_A_REASON, None, message)
        for k in taken:
            for job, plan in answers[k][2].items():
                self._planned[job] = queue, plan if len(taken) == 1 else None

    def _victims(self, queue: str, plans: Iterable[PlannedRun], now_s: float) -> list[KnownRun]:
        """The runs that the plans of a queue displace, in order of start."""
        overlapped = [
            run
            for run_id, run in self._runs.items()
            if run.queue in self._displaced_by(queue)
            and (run_id in self._stops or not run.is_stopping)
            and any(plan.overlaps(run, now_s) for plan in plans)
        ]
        return sorted(overlapped, key=lambda run: (run.ordered_s, run.order.run))

    def _is_justified(self) -> bool | None:
        """Whether the first answer starts more jobs than the second one, or gains enough by displacement."""
        (_, first, plans), (problem, second, _) = self._answers
        now_s = self._clock.now_s
        victims = self._victims(URGENT, plans.values(), now_s)
        displaces_plans = any(queue == DEFAULT for queue, _ in self._planned.values())
        if displaces_plans or not victims or first.preemptions:
            return None
        if len(first.assignments) > len(second.assignments):
            return True
        assert isinstance(self._ports, OnMachines)
        ready = problem.ready_times_without(run.order.run for run in victims)
        ready_s = [max(now_s, time_s) for time_s in ready.machine_s.tolist()]
        for plan in plans.values():
            for j in plan.machines:
                ready_s[j] = max(ready_s[j], plan.row.completion_s)
        etc = self._ports.experience.estimate([run.order.job for run in victims], [*map(len, ready.members)])
        gain_s = float(second.assignments.completion_s.sum() - first.assignments.completion_s.sum())
        for k, run in enumerate(victims):
            times_s = ready_s + [max((ready_s[j] for j in of), default=inf) for of in ready.members]
            ends_s = [time_s + run_s for time_s, run_s in zip(times_s, etc.row(k).tolist(), strict=True)]
            resource = ends_s.index(min(ends_s))
            for j in ready.machines_of(resource):
                ready_s[j] = ends_s[resource]
            gain_s -= ends_s[resource] - max(self._round_s, run.completion_s)
        least_s = self._case.least_gain_s * len(victims)
        return None if abs(gain_s - least_s) < ROUNDING_S else gain_s > least_s
