"""Whether a built-in manager does what the policies of a case say: its notices, its questions to schedulers,
their answers and its orders are followed by a second, slow account of queues, runs and displacements."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scheduler.model import Answer, DispatchOrder, Job, JobId, NodeSchedule, RunId
from scheduler.ports import AnyScheduler, JobArrived, Notice, RunEnded, RunLost, RunPreempted
from scheduler.resource_manager import Manager, ManagerDecorator, Ports
from sil.swarm.case import CORES, URGENT, Case

SERVES_IN_ORDER = "serves-in-order"
DISPLACES_FOR_A_REASON = "displaces-for-a-reason"
FOLLOWS_DECISIONS = "follows-decisions"
ESTIMATES_ARE_CURRENT = "estimates-are-current"
ACCEPTS_JOBS_ONCE = "accepts-jobs-once"

ROUNDING_S = 1e-6

Broken = Callable[[str, JobId | None, str], None]
"""Called with a rule that is broken, the job concerned, and one sentence."""


@dataclass(slots=True)
class KnownRun:
    """A run that is not over, as far as the manager knows; times by its clock."""

    order: DispatchOrder
    queue: str
    ordered_s: float
    is_stopping: bool = False

    @property
    def completion_s(self) -> float:
        return self.ordered_s + self.order.expected_s


class Account(ManagerDecorator):
    """The account on any kind of machines; also the dispatcher of the manager that is followed."""

    def __init__(self, case: Case, ports: Ports, broken: Broken) -> None:
        self._case, self._broken = case, broken
        self._ports, self._clock = ports, ports.clock
        self._submitted: set[JobId] = set()
        self._jobs: dict[JobId, Job] = {}
        """The jobs that have arrived and are not complete."""
        self._runs: dict[RunId, KnownRun] = {}
        self._displaced: Counter[JobId] = Counter()
        """How many runs of each job were ordered to stop."""
        self._stops: list[RunId] = []
        """The runs that the present answer stops."""

    def follow(self, make: Callable[[Ports], Manager]) -> None:
        dispatcher: Any = self  # the manager gives no other orders
        self._manager = make(replace(self._ports, dispatcher=dispatcher))

    def asked(self, scheduler: AnyScheduler, queue: str) -> AnyScheduler:
        """The scheduler of a queue, with its problems and answers noted."""
        return _Asked(scheduler, queue, self)

    def handle(self, notice: Notice) -> str | None:
        if isinstance(notice, RunEnded | RunPreempted | RunLost):
            run = self._runs.pop(notice.run, None)
            if run is not None and isinstance(notice, RunEnded):
                self._jobs.pop(run.order.job.id, None)
        if not isinstance(notice, JobArrived):
            return super().handle(notice)
        job = notice.job
        if job.id in self._submitted:
            message = f"the manager gets job {job.id} again, which was submitted before"
            self._broken(ACCEPTS_JOBS_ONCE, job.id, message)
        self._submitted.add(job.id)
        refusal = super().handle(notice)
        if refusal is None:
            self._jobs[job.id] = job
        return refusal

    def dispatch(self, order: DispatchOrder) -> None:
        job = order.job.id
        if job not in self._jobs or any(run.order.job.id == job for run in self._runs.values()):
            self._broken(FOLLOWS_DECISIONS, job, f"job {job} is ordered while it does not wait")
        self._runs[order.run] = KnownRun(order, self._queue_of_order(order), self._clock.now_s)
        self._ports.dispatcher.dispatch(order)

    def preempt(self, run_id: RunId) -> None:
        run = self._runs.get(run_id)
        if run is None or run.is_stopping:
            self._broken(DISPLACES_FOR_A_REASON, None, f"run {run_id} is to stop, but does not run")
        else:
            run.is_stopping = True
            self._stops.append(run_id)
            self._displaced[run.order.job.id] += 1
        self._ports.dispatcher.preempt(run_id)

    @abstractmethod
    def on_problem(self, queue: str, problem: Any) -> None:
        """Note that the scheduler of a queue is asked."""

    @abstractmethod
    def on_answer_to(self, problem: Any, answer: Answer) -> None:
        """Note the answer, before the manager checks it."""

    def _queue_of_order(self, order: DispatchOrder) -> str:
        return order.job.queue

    def _queue_of(self, job: Job) -> str:
        return job.queue

    def _check_waiting(self, jobs: Sequence[Job], may: Iterable[JobId], must: Iterable[JobId]) -> None:
        """Check that the jobs of a problem are in order, each once: all that `must` wait, and others that
        `may`."""
        jobs = [self._jobs.get(job.id, job) for job in jobs]  # as they arrived
        keys = [(self._queue_of(job) != URGENT, job.arrival_s, job.id) for job in jobs]
        for (*_, job), earlier, later in zip(keys[1:], keys, keys[1:], strict=False):
            if later <= earlier:
                message = f"job {job} is behind job {earlier[2]} in the problem, but goes before it"
                self._broken(SERVES_IN_ORDER, job, message)
        asked = {job.id for job in jobs}
        for job in sorted(asked.difference(may)):
            self._broken(SERVES_IN_ORDER, job, f"job {job} is in the problem, but does not wait there")
        for job in sorted(set(must) - asked):
            self._broken(SERVES_IN_ORDER, job, f"job {job} waits, but is not in the problem of its queue")

    def _check_running(self, running: Mapping[RunId, Any], from_s: float) -> None:
        """Check that no run is expected to end before `from_s`; without delays, it ends when its decision
        said."""
        for run_id, run in self._runs.items():
            if run_id in running:
                expected_s = max(from_s, run.completion_s)
                if abs(running[run_id].completion_s - expected_s) > ROUNDING_S:
                    job, given_s = run.order.job.id, running[run_id].completion_s
                    message = f"job {job} is expected to end at {given_s:.12g} s, not {expected_s:.12g} s"
                    self._broken(ESTIMATES_ARE_CURRENT, job, message)


class _Asked:
    def __init__(self, scheduler: AnyScheduler, queue: str, account: Account) -> None:
        self._scheduler, self._queue, self._account = scheduler, queue, account

    def schedule(self, problem: Any) -> Any:
        self._account.on_problem(self._queue, problem)
        answer = self._scheduler.schedule(problem)
        self._account.on_answer_to(problem, answer)
        return answer


class NodesAccount(Account):
    """The account of a manager of processors or nodes: jobs start now or wait."""

    def __init__(self, case: Case, ports: Ports, broken: Broken) -> None:
        super().__init__(case, ports, broken)
        self._problem_jobs: list[Job] = []
        self._starts: dict[JobId, tuple[tuple[int, ...], float]] = {}
        """The jobs that the last answer starts: where, and for how long."""
        self._was_rejected = False
        self._is_asked_again = False
        """Whether the manager was asked again after an answer that was rejected, when time has passed without
        a notice."""
        self._held: set[JobId] = set()
        """The jobs whose runs were stopped; they wait when all runs that were stopped with these are over."""

    def handle(self, notice: Notice) -> str | None:
        if isinstance(notice, RunPreempted) and notice.run in self._runs:
            self._held.add(self._runs[notice.run].order.job.id)
        return super().handle(notice)

    def run_round(self) -> None:
        self._problem_jobs, self._starts, self._stops = [], {}, []
        self._is_asked_again, self._was_rejected = self._was_rejected, True
        super().run_round()
        self._was_rejected = False
        self._held.update(self._starts)  # displaced before they were ordered
        if self._stops and not self._has_reason():
            message = f"no job needs all that the runs {self._stops} use, which are displaced"
            self._broken(DISPLACES_FOR_A_REASON, None, message)

    def dispatch(self, order: DispatchOrder) -> None:
        job = order.job.id
        where, runs_s = self._starts.pop(job, (None, 0.0))
        if where != tuple(order.machines) or abs(order.expected_s - runs_s) > ROUNDING_S:
            self._broken(FOLLOWS_DECISIONS, job, f"job {job} is ordered otherwise than decided")
        super().dispatch(order)

    def on_problem(self, queue: str, problem: Any) -> None:
        self._problem_jobs = list(problem.jobs)
        run = {run.order.job.id for run in self._runs.values()}
        may = self._jobs.keys() - run
        is_stopping = any(run.is_stopping for run in self._runs.values())
        if not is_stopping:
            self._held.clear()
        self._check_waiting(self._problem_jobs, may, may - self._held)
        if not self._runs.keys() <= problem.running.keys() or (
            not is_stopping and self._runs.keys() != problem.running.keys()
        ):
            message = f"the runs {sorted(self._runs)} run, and {sorted(problem.running)} are in the problem"
            self._broken(ESTIMATES_ARE_CURRENT, None, message)
        self._check_running(problem.running, 0.0)
        first_s = problem.free_nodes.releases.first_s()
        if first_s is not None and first_s < problem.now_s - ROUNDING_S and not self._is_asked_again:
            message = f"at {problem.now_s:.12g} s, nodes are expected to be released at {first_s:.12g} s"
            self._broken(ESTIMATES_ARE_CURRENT, None, message)

    def on_answer_to(self, problem: Any, answer: Answer) -> None:
        jobs = self._problem_jobs
        if isinstance(answer, NodeSchedule) and all(0 <= start.job < len(jobs) for start in answer.starts):
            self._starts = {
                jobs[start.job].id: (tuple(start.nodes), start.completion_s - problem.now_s)
                for start in answer.starts
            }

    def _has_reason(self) -> bool:
        """Whether jobs of the urgent queue wait for what the runs stopped now use; without faults, whether
        one that waits alone needs all of these."""
        runs = self._runs.values()
        stopped = [self._runs[run_id] for run_id in self._stops]
        if any(run.queue == URGENT for run in stopped):
            return False
        going_on = {run.order.job.id for run in runs}
        waiting = [job for job in self._problem_jobs if job.queue == URGENT and job.id not in going_on]
        if self._case.faults:  # nodes may be down
            return bool(waiting)
        n_free = CORES * self._case.n_machines - sum(run.order.job.n_tasks for run in runs)
        lacking = [job.n_tasks - n_free for job in waiting if job.n_tasks > n_free]
        if len(lacking) != 1 or len(stopped) < sum(run.is_stopping for run in runs):
            return bool(lacking)
        sizes = [run.order.job.n_tasks for run in stopped]
        return sum(sizes) - min(sizes) < lacking[0] <= sum(sizes)
