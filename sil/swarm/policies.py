"""Whether a built-in manager does what the policies of a case say.

The notices of the manager, its questions to schedulers, their answers and its orders are followed by a
second, slow account of queues, plans and displacements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler.model import Answer, DispatchOrder, Job, JobId, NodeSchedule
from scheduler.notices import Notice, RunPreempted
from scheduler.ports import AnyScheduler
from scheduler.resource_manager import Manager, Ports
from sil.outcome.invariants.checker import Breach
from sil.swarm.account import (
    DISPLACES_FOR_A_REASON,
    ESTIMATES_ARE_CURRENT,
    FOLLOWS_DECISIONS,
    ROUNDING_S,
    Account,
    Broken,
)
from sil.swarm.case import CORES, URGENT, Case, Machines
from sil.swarm.mapping_account import MappingAccount


class Policies:
    """Follows the managers of one case: each restart makes a new one, which repeats its journal."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.breach: Breach | None = None
        self._account: Account | None = None

    def around(self, make: Callable[[Ports], Manager]) -> Callable[[Ports], Manager]:
        """Makes what `make` makes, and follows it."""
        account = MappingAccount if self.case.machines is Machines.DIFFERENT else NodesAccount

        def followed(ports: Ports) -> Manager:
            self._account = account(self.case, ports, self.broken)
            self._account.follow(make)
            return self._account

        return followed

    def asked(self, scheduler: AnyScheduler, queue: str) -> AnyScheduler:
        """The scheduler, with its problems and answers noted for the manager that is being made."""
        return scheduler if self._account is None else _Asked(scheduler, queue, self._account)

    def broken(self, rule: str, job: JobId | None, message: str) -> None:
        """Note a breach; the first one counts."""
        self.breach = self.breach or Breach(rule, job, message)


class _Asked:
    def __init__(self, scheduler: AnyScheduler, queue: str, account: Account) -> None:
        self._scheduler = scheduler
        self._queue = queue
        self._account = account

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
        """After an answer that was rejected, when time has passed of which the manager has had no notice."""
        self._held: set[JobId] = set()
        """Those whose runs were stopped; they wait when all runs that were stopped with these are over."""

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
        nodes = problem.free_nodes
        is_shared = self._case.machines is Machines.NODES
        first_s = nodes.releases.first_s() if is_shared else nodes.first_end_s()
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

    def _queue_of_order(self, order: DispatchOrder) -> str:
        return order.job.queue

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
