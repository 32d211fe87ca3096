"""The machines of the cases of a swarm, and their managers; schedulers whose decisions are late or wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Self, TypeVar

import numpy as np

from scheduler import registry
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.mapping_manager import MappingManager
from scheduler.managers.queues import Admission, MappingPolicy, PlannedStarts, PreemptionPolicy, QueuePolicy
from scheduler.managers.rigid_allocation import free_nodes_manager
from scheduler.mapping.etc import EtcMatrix
from scheduler.model import (
    Answer,
    Assignments,
    Cluster,
    ExecutionRecord,
    Interconnect,
    Job,
    JobClass,
    JobId,
    Machine,
    NodeSchedule,
    Site,
)
from scheduler.node_request import Node, Request
from scheduler.ports import AnyScheduler, Clock
from scheduler.resource_manager import Manager, ManagerDecorator, OnFreeNodes, OnMachines, Ports
from scheduler.rules import ScheduleRejected, Violation
from sil.isolation.host import Host
from sil.outcome.invariants.checker import Capacity
from sil.runs.free_nodes import FreeNodesModel
from sil.runs.hosting import Supervision
from sil.runs.simulation import SiteModel
from sil.runs.under_test import InProcess
from sil.swarm.account import Account
from sil.swarm.case import CORES, DEFAULT, URGENT, Case, CaseJob, SiteKind
from sil.trace.facts import Fact
from sil.trace.recorder import Row
from sil.world.actual_runtimes import ActualRuntimes, Variation
from sil.world.events import EventQueue
from sil.world.failures import Hindrances
from sil.world.guard.scheduler import Guard
from sil.world.harness import World
from sil.world.machines.execution import DedicatedMachines, ExecutionModel
from site_db.site_file.cluster import SiteNodes as NodeCluster

Placed = TypeVar("Placed")


@dataclass
class LateScheduler:
    """A scheduler whose decisions take simulated time, until the faults of its case end. What is decided
    again after a restart takes none."""

    scheduler: AnyScheduler
    decision_s: float
    world: World
    until_s: float

    def schedule(self, problem: Any) -> Any:
        answer, clock = self.scheduler.schedule(problem), self.world.clock
        if clock.now_s < self.until_s and not self.world.trace.is_muted:
            clock.wait_until(clock.now_s + self.decision_s)
        return answer


@dataclass
class Mistakes:
    """A share of answers, until the faults of a case end, that break a rule or are missing, as if the
    scheduler had been stopped for taking too long."""

    share: float
    until_s: float
    seed: int
    last_was_wrong: bool = False


class WrongScheduler:
    """A scheduler that makes mistakes. They depend on the problem and on the number of answers before, so
    that they are made again when a journal is repeated."""

    def __init__(self, scheduler: AnyScheduler, mistakes: Mistakes) -> None:
        self._scheduler, self._mistakes = scheduler, mistakes
        self._rng = np.random.default_rng(mistakes.seed)

    def schedule(self, problem: Any) -> Any:
        answer, mistakes = self._scheduler.schedule(problem), self._mistakes
        mistakes.last_was_wrong = False
        if self._rng.random() < mistakes.share and problem.now_s < mistakes.until_s:
            wrong = _wrong(answer, int(self._rng.integers(4)), problem.n_jobs)
            mistakes.last_was_wrong = problem.violation(wrong) is not None
            return wrong
        return answer


class RetryOnViolation(ManagerDecorator):
    """Asks again after a mistake. Had any of that answer been carried out, it would now be done twice."""

    def __init__(self, manager: Manager, mistakes: Mistakes) -> None:
        self._manager, self._mistakes = manager, mistakes

    @classmethod
    def around(cls, make: Callable[[Ports], Manager], mistakes: Mistakes) -> Callable[[Ports], Self]:
        """Wrap `make`, so that the managers it makes are asked again."""
        return lambda ports: cls(make(ports), mistakes)

    def run_round(self) -> None:
        while True:
            try:
                return super().run_round()
            except ScheduleRejected:
                if not self._mistakes.last_was_wrong:
                    raise


def _wrong(answer: Answer, how: int, n_jobs: int) -> Answer | None:
    """No answer; or one that forgets a job, names one twice, or names one that does not exist."""
    if how == 0:
        return None
    if isinstance(answer, NodeSchedule):
        starts = list(answer.starts)
        return answer._replace(starts=_with_mistake(starts, how, lambda start: start._replace(job=n_jobs)))
    rows = list(answer.assignments)
    of = _with_mistake(rows, how, lambda row: replace(row, job=n_jobs))
    return answer._replace(assignments=Assignments.of(of))


def _with_mistake(placed: list[Placed], how: int, unknown: Callable[[Placed], Placed]) -> list[Placed]:
    first, rest = placed[:1], placed[1:]
    return [rest, [*placed, *first], [*map(unknown, first), *rest]][how - 1]


DECISION_LIMIT_S = 10.0
MAX_BATCH_REQUEUE = 5
LAST_RUN_S = 10.0
HISTORY_MATCHES = "history-matches"


class CaseScheduler(Supervision):
    """The scheduler or the resource manager under test; one that is not built in is guarded."""

    world: World
    """The world of the case, once it is made."""
    decision_s = 0.0
    """How long its decisions take, in simulated seconds."""
    mistakes: Mistakes | None = None
    account: Account | None = None
    """What follows its problems and answers, if the manager is built in."""

    def __init__(self, case: Case, clock: Clock, under_test: InProcess | None, host: Host) -> None:
        super().__init__(host, Guard(clock, DECISION_LIMIT_S), case.seed, check_determinism=False)
        self._until_s = case.until_s
        self.under_test = under_test or InProcess(case.scheduler, registry.named(case.scheduler))

    def scheduler(self, scheduler: InProcess, queue: str = DEFAULT) -> AnyScheduler:
        """A new instance, for one queue or for all."""
        made: AnyScheduler
        made = scheduler.spec.make(self.seed) if scheduler.is_built_in else super().scheduler(scheduler)
        if self.mistakes is not None:
            made = WrongScheduler(made, self.mistakes)
        if self.decision_s:
            made = LateScheduler(made, self.decision_s, self.world, self._until_s)
        return made if self.account is None else self.account.asked(made, queue)


class SiteOfCase(SiteModel):
    """The machines of a case, and a manager for them."""

    n_interconnects = 0

    def __init__(self, case: Case, tested: CaseScheduler) -> None:
        self.case = case
        self.tested = tested
        first = 1 + max(job.id for job in case.jobs)
        self.last_jobs = [
            CaseJob(first + k, 0.0, LAST_RUN_S, LAST_RUN_S, size, False)
            for k, size in enumerate(self.sizes_of_last_jobs())
        ]
        """The last jobs, which need all machines, to show that after all faults, none remains out of use."""
        self.history: list[tuple[JobId, float]] = []
        """The jobs whose runs were reported, and how long these took."""

    def sizes_of_last_jobs(self) -> Sequence[int]:
        return (self.case.n_machines,)

    def longest(self, job: CaseJob) -> float:
        """How much longer than `run_s` a job may run on some machine."""
        return 1.0

    def job(self, job: CaseJob) -> Job:
        queue = URGENT if job.is_urgent and self.case.has_queues else DEFAULT
        return Job(
            JobId(job.id), "work", job.arrival_s, queue=queue, n_tasks=job.size, estimate_s=job.estimate_s
        )

    def mismatch(self, rows: Sequence[Row]) -> Violation | None:
        """The first job whose runs in the history are not the one that ended, with its time."""
        if self.tested.under_test.has_own_queue and not self.history:
            return None  # managers need not keep a history
        began_s = {row[3]: row[0] for row in rows if row[1] == Fact.RUN_STARTED.value}
        ran_s = {row[2]: row[0] - began_s[row[3]] for row in rows if row[1] == Fact.RUN_ENDED.value}
        recorded = Counter(job for job, _ in self.history)
        for job in sorted({*ran_s, *recorded}):
            if recorded[JobId(job)] != (job in ran_s):
                message = f"job {job} has {recorded[JobId(job)]} runs in the history"
                return Violation(HISTORY_MATCHES, job, message)
        for job, run_time_s in self.history:
            if abs(run_time_s - ran_s[job]) > 1e-6:
                message = f"job {job} ran {ran_s[job]} s, but {run_time_s} s in the history"
                return Violation(HISTORY_MATCHES, job, message)
        return None

    @property
    def queues(self) -> list[QueuePolicy]:
        mapping = MappingPolicy.REMAP if self.case.is_remapping else MappingPolicy.COMMIT
        normal = QueuePolicy(mapping=mapping)
        if not self.case.has_queues:
            return [normal]
        return [normal, QueuePolicy(URGENT, 1, displaces=frozenset({DEFAULT}), mapping=mapping)]


class _Processors(SiteOfCase, FreeNodesModel):
    def __init__(self, case: Case, tested: CaseScheduler, cluster: NodeCluster | None = None) -> None:
        SiteOfCase.__init__(self, case, tested)
        FreeNodesModel.__init__(self, cluster, case.n_machines)
        run_s = {job.id: job.run_s for job in (*case.jobs, *self.last_jobs)}
        self.run_s = lambda job, nodes: run_s[job.id]
        self.run_times = _Estimates(self.history)
        self.capacity = Capacity(case.n_machines, nodes=self.nodes, max_batch_requeue=MAX_BATCH_REQUEUE)


class _Estimates(UserEstimates):
    def __init__(self, history: list[tuple[JobId, float]]) -> None:
        self._history = history

    def learn(self, job: Job, ran_s: float) -> None:
        self._history.append((job.id, ran_s))


class _Nodes(_Processors):
    """Nodes of 4 cores and 8 GiB; jobs request cores on any of them."""

    def __init__(self, case: Case, tested: CaseScheduler) -> None:
        nodes = {f"n{k}": Node(CORES, 8_192) for k in range(case.n_machines)}
        super().__init__(case, tested, NodeCluster(nodes, {}, {}))

    def sizes_of_last_jobs(self) -> Sequence[int]:
        return (self.case.n_machines * CORES,)

    def job(self, job: CaseJob) -> Job:
        request = Request(job.size, 1.0, 1_024 * (1 + job.id % 2), most_on_node=None)
        return super().job(job)._replace(request=request)

    def manager(self, ports: OnFreeNodes, scheduler: InProcess, asking: Supervision) -> Manager:
        queues = self.queues if self.case.has_queues else ()
        asked, is_memoryless = asking.scheduler(scheduler), asking.is_memoryless(scheduler)
        return free_nodes_manager(ports, asked, is_memoryless, queues)


class _Different(SiteOfCase):
    """Machines of two speeds; with two or more of them, the first two are a cluster."""

    def __init__(self, case: Case, tested: CaseScheduler) -> None:
        super().__init__(case, tested)
        names = [f"m{j}" for j in range(case.n_machines)]
        clusters = (Cluster("pair", ("m0", "m1"), ("lan",), 0.5),) if case.n_machines > 1 else ()
        self._site = Site(
            "swarm",
            tuple(Machine(name, "any") for name in names),
            clusters,
            (Interconnect("lan", 1_000.0, 10.0),) if clusters else (),
            (JobClass("work", ("any",), tuple(cluster.name for cluster in clusters)),),
        )
        self.n_interconnects = len(self._site.interconnects)
        jobs, n = (*case.jobs, *self.last_jobs), case.n_machines
        etc_s = np.full((1 + max(job.id for job in jobs), len(self._site.resource_names)), inf)
        for job in case.jobs:
            etc_s[job.id, :n] = [job.run_s * (1.0 + j % 2) for j in range(n)]
            etc_s[job.id, n:] = 0.6 * job.run_s if job.size > 1 else inf
        for resource, job in enumerate(self.last_jobs):
            # Managers may ignore estimates, which tell where jobs can run.
            etc_s[job.id, slice(n) if tested.under_test.has_own_queue else resource] = job.run_s
        self._actual = EtcMatrix.from_dense(etc_s)
        factor = np.ones(len(etc_s))
        for job in jobs:
            factor[job.id] = job.estimate_s / job.run_s
        self._experience = _Experience(self.history, EtcMatrix.from_dense(etc_s * factor[:, None]))
        self.capacity = Capacity(
            case.n_machines, names=self._site.resource_names, max_batch_requeue=MAX_BATCH_REQUEUE
        )

    def sizes_of_last_jobs(self) -> Sequence[int]:
        """One job for each machine, and one for the cluster if the scheduler uses it."""
        spec, n = self.tested.under_test.spec, self.case.n_machines
        uses_cluster = spec.is_built_in and spec.target not in registry.ON_SINGLE_MACHINES  # known of these
        return n * (1,) + (n > 1 and uses_cluster) * (2,)

    def longest(self, job: CaseJob) -> float:
        return 2.0

    def machines(self, events: EventQueue, hindrances: Hindrances | None) -> ExecutionModel:
        quantiles = np.zeros(self._actual.n_jobs)
        slots = [(j,) for j in range(self.case.n_machines)]
        actual = ActualRuntimes(self._actual, Variation(), quantiles)
        return DedicatedMachines(self._site, actual, events, slots, hindrances)

    def ports(self, world: World) -> OnMachines:
        return OnMachines(world.clock, world.dispatcher, self._site, world.monitor, self._experience)

    def manager(self, ports: OnMachines, scheduler: InProcess, asking: Supervision) -> Manager:
        queues = self.queues
        schedulers = {queue.name: self.tested.scheduler(scheduler, queue.name) for queue in queues}
        starts = PlannedStarts.KEPT if self.case.keeps_starts else PlannedStarts.EARLIEST
        preemption = PreemptionPolicy(self.case.raised_after, self.case.least_gain_s)
        return MappingManager(ports, queues, schedulers, Admission(queues), starts, preemption)


class _Experience:
    """Estimates that do not change, and the runs that were reported."""

    def __init__(self, history: list[tuple[JobId, float]], etc: EtcMatrix) -> None:
        self._history = history
        self._etc = etc

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        rows = np.array([job.id for job in jobs], dtype=np.int64)
        return EtcMatrix(self._etc.by_class_s, rows, self._etc.resource_class_of)

    def record(self, record: ExecutionRecord) -> None:
        self._history.append((record.job.id, record.run_time_s))


SITES: Mapping[SiteKind, Callable[[Case, CaseScheduler], SiteOfCase]] = {
    SiteKind.DIFFERENT: _Different,
    SiteKind.PROCESSORS: _Processors,
    SiteKind.NODES: _Nodes,
}
