"""One case of a swarm, carried out and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from scheduler import registry
from scheduler.dependable.journal import Journal
from scheduler.dependable.journalled_manager import JournalledManager, JournalMismatch
from scheduler.dependable.reliable_delivery import ReliableDelivery, Timeouts
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.free_nodes_manager import free_nodes_manager
from scheduler.managers.mapping_manager import MappingManager
from scheduler.managers.queues import Admission, MappingPolicy, QueuePolicy
from scheduler.managers.requeue_limit import RequeueLimit
from scheduler.mapping.etc import EtcMatrix
from scheduler.model import Cluster, ExecutionRecord, Interconnect, Job, JobClass, JobId, Machine, Site
from scheduler.node_request import Node, Request
from scheduler.ports import Clock, Scheduler
from scheduler.resource_manager import OnFreeNodes, OnMachines, Ports, ResourceManager
from sil.isolation.side import side
from sil.outcome.invariants.checker import Capacity, first_breach_of
from sil.runs.composition import Supervision
from sil.runs.under_test import UnderTest
from sil.swarm.case import Case, CaseJob, Machines
from sil.swarm.faults import Faulty
from sil.trace.recorder import Row, TraceRecorder
from sil.world.actual_runtimes import ActualRuntimes, NoSpread
from sil.world.events import EventQueue, SimClock
from sil.world.failures import in_order_of_time
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import Guard
from sil.world.harness import World
from sil.world.machines.consumable import ConsumableMachines
from sil.world.machines.dedicated import DedicatedMachines
from sil.world.machines.execution import ExecutionModel
from sil.world.machines.space_shared import SpaceSharedMachines
from sil.world.monitors import NodeStates, SimMonitor
from sil.world.remote.clocks import ManagerClock
from sil.world.remote.crashes import CrashingJournal, MemoryJournal
from sil.world.remote.network import Network
from sil.world.remote.remote_manager import RemoteManager
from sil.world.rounds import OnRequest

DECISION_LIMIT_S = 10.0
MAX_BATCH_REQUEUE = 5
TIMEOUTS = Timeouts()
ENDS_IN_TIME = "ends-in-time"
KEEPS_ITS_JOURNAL = "keeps-its-journal"
HISTORY_MATCHES = "history-matches"

SETTLES_S = 2_000.0
"""After the last fault: the longest retries, and the pings after which a silent machine is given up."""


@dataclass(frozen=True)
class Violation:
    """What went wrong in a case: a broken rule or invariant, and one sentence."""

    rule: str
    message: str
    job: int | None = None
    time_s: float | None = None


@dataclass(frozen=True)
class Verdict:
    """Of one case; `facts` are the rows of its trace (`sil.trace.recorder.ROW`)."""

    violation: Violation | None
    facts: Sequence[Row] = ()


MakeManager = Callable[[Ports], ResourceManager]


def verdict_on(case: Case, under_test: UnderTest | None = None) -> Verdict:
    """Carry out a case, with its scheduler or with another one or a whole resource manager that is not built
    in. A fault of it is a violation, too."""
    simulation = _Simulation(case, under_test)
    violation = simulation.violation()
    return Verdict(violation, simulation.facts())


class _Simulation:
    def __init__(self, case: Case, under_test: UnderTest | None) -> None:
        self._case = case
        self._clock, self._events = SimClock(), EventQueue()
        self._faulty = Faulty(self._clock, case.n_machines, case.until_s)
        streams = case.streams()
        for fault in case.faults:
            self._faulty.add(fault, streams)
        tested = _Tested(case, self._clock, under_test)
        self._site: _Site = _SITES[case.machines](case, tested)
        self._make = tested.manager if tested.is_manager else self._site.manager
        self._trace = TraceRecorder(nodes=self._site.capacity.nodes)
        monitor = SimMonitor(self._clock, self._faulty.distortions)
        machines = self._site.machines(self._events, self._faulty)
        changes = in_order_of_time(sorted(self._faulty.changes, key=lambda change: change[0]))
        self._world = World(self._clock, self._events, self._trace, machines, monitor, OnRequest(), changes)
        self._ports = self._site.ports(self._world)
        self._journal: Journal = MemoryJournal()

    def violation(self) -> Violation | None:
        case, world = self._case, self._world
        network = Network(self._clock, self._events, self._faulty.messages)
        jobs = [self._site.job(job) for job in case.jobs]
        give_up_s = self._ends_by_s()
        try:
            remote = RemoteManager(
                world,
                self._ports,
                self._dependable(self._make),
                network,
                self._faulty.crashes,
                ManagerClock(self._clock, self._faulty.clock_jumps),
            )
            for _ in world.steps(jobs, remote):
                if self._clock.now_s > give_up_s:
                    return self._endless(remote)
        except SchedulerFault as fault:
            return Violation(fault.rule, fault.message, fault.job, fault.time_s)
        except JournalMismatch as mismatch:
            return Violation(KEEPS_ITS_JOURNAL, str(mismatch), None, self._clock.now_s)
        facts = self.facts()
        breach = first_breach_of(facts, self._site.capacity)
        if breach is not None:
            return Violation(breach.rule, breach.message, breach.job)
        return self._site.mismatch(facts)

    def facts(self) -> Sequence[Row]:
        return self._trace.rows()

    def _dependable(self, make: MakeManager) -> MakeManager:
        def delivered(ports: Ports) -> ResourceManager:
            return ReliableDelivery(ports, limited, TIMEOUTS)

        def limited(ports: Ports) -> ResourceManager:
            give_up: Any = ports.dispatcher
            return RequeueLimit(make(ports), MAX_BATCH_REQUEUE, give_up.give_up)

        crashes = self._faulty.crashes
        if crashes is None:
            return delivered
        journal = CrashingJournal(self._journal, crashes)
        return lambda ports: JournalledManager(ports, delivered, journal)

    def _ends_by_s(self) -> float:
        """All jobs one after the other, each as often as it may fail, after the last arrival and fault."""
        case = self._case
        last_s = max([case.until_s, *(job.arrival_s for job in case.jobs)])
        slowest = max([1.0, *(slow.factor for slow in self._faulty.slow)])
        work_s = sum(job.run_s * self._site.longest(job) for job in case.jobs)
        down_s = 0.0 if self._faulty.crashes is None else self._faulty.crashes.down_s
        return (
            last_s + down_s + SETTLES_S + (MAX_BATCH_REQUEUE + 2) * slowest * work_s + 200.0 * len(case.jobs)
        )

    def _endless(self, remote: RemoteManager) -> Violation:
        waiting = remote.why_waiting()
        job = min(waiting, default=None)
        why = "" if job is None else f"; job {job} waits: {waiting[job]}"
        message = (
            f"jobs or runs remain {self._clock.now_s - self._case.until_s:.0f} s after the last fault{why}"
        )
        return Violation(ENDS_IN_TIME, message, job, self._clock.now_s)


class _Tested:
    """The scheduler or the resource manager under test; one that is not built in is guarded."""

    def __init__(self, case: Case, clock: Clock, under_test: UnderTest | None) -> None:
        self._seed = case.seed
        self._under_test = under_test
        self.spec = registry.named(case.scheduler) if under_test is None else under_test.spec
        self.is_manager = self.spec.is_manager
        self._guard = Guard(clock, DECISION_LIMIT_S)

    def scheduler(self) -> Scheduler:
        """A new instance."""
        if self._under_test is None or self._under_test.is_built_in:
            return self.spec.make(self._seed)
        return Supervision(self._guard, self._seed, check_determinism=False).scheduler(self._under_test)

    def manager(self, ports: Ports) -> ResourceManager:
        """A new one."""
        return side().manager(self.spec, self._seed, ports, self._guard)


class _Site:
    """The machines of a case, and a manager for them."""

    capacity: Capacity

    def __init__(self, case: Case, tested: _Tested) -> None:
        self.case = case
        self.tested = tested

    def longest(self, job: CaseJob) -> float:
        """How much longer than `run_s` a job may run on some machine."""
        return 1.0

    def job(self, job: CaseJob) -> Job:
        queue = "urgent" if job.is_urgent and self.case.has_queues else "default"
        return Job(
            JobId(job.id), "work", job.arrival_s, queue=queue, n_tasks=job.size, estimate_s=job.estimate_s
        )

    def mismatch(self, rows: Sequence[Row]) -> Violation | None:
        return None

    @property
    def queues(self) -> list[QueuePolicy]:
        mapping = MappingPolicy.REMAP if self.case.is_remapping else MappingPolicy.COMMIT
        normal = QueuePolicy(mapping=mapping)
        if not self.case.has_queues:
            return [normal]
        return [normal, QueuePolicy("urgent", 1, displaces=frozenset({"default"}), mapping=mapping)]

    def machines(self, events: EventQueue, faulty: Faulty) -> ExecutionModel:
        raise NotImplementedError

    def ports(self, world: World) -> Ports:
        raise NotImplementedError

    def manager(self, ports: Ports) -> ResourceManager:
        raise NotImplementedError


class _Processors(_Site):
    def __init__(self, case: Case, tested: _Tested) -> None:
        super().__init__(case, tested)
        self._run_s = {job.id: job.run_s for job in case.jobs}
        self.capacity = Capacity(case.n_machines, max_batch_requeue=MAX_BATCH_REQUEUE)

    def machines(self, events: EventQueue, faulty: Faulty) -> ExecutionModel:
        run_s = self._run_s
        return SpaceSharedMachines(self.case.n_machines, lambda job: run_s[job.id], events, faulty.hindrances)

    def ports(self, world: World) -> Ports:
        return OnFreeNodes(
            world.clock, world.dispatcher, self.case.n_machines, UserEstimates(), NodeStates(world.monitor)
        )

    def manager(self, ports: Ports) -> ResourceManager:
        assert isinstance(ports, OnFreeNodes)
        return free_nodes_manager(ports, self.tested.scheduler(), self.tested.spec.memoryless)


class _Nodes(_Processors):
    """Nodes of 4 cores and 8 GiB; jobs request cores on any of them."""

    def __init__(self, case: Case, tested: _Tested) -> None:
        super().__init__(case, tested)
        self._nodes = case.n_machines * (Node(4, 8_192),)
        self.capacity = replace(self.capacity, nodes=self._nodes)

    def job(self, job: CaseJob) -> Job:
        request = Request(job.size, 1.0, 1_024 * (1 + job.id % 2), most_on_node=None)
        return super().job(job)._replace(request=request)

    def machines(self, events: EventQueue, faulty: Faulty) -> ExecutionModel:
        run_s = self._run_s
        return ConsumableMachines(
            self._nodes, lambda job, _: run_s[job.id], events, hindrances=faulty.hindrances
        )

    def ports(self, world: World) -> Ports:
        ports = super().ports(world)
        assert isinstance(ports, OnFreeNodes)
        return replace(ports, nodes=self._nodes)

    def manager(self, ports: Ports) -> ResourceManager:
        assert isinstance(ports, OnFreeNodes)
        queues = self.queues if self.case.has_queues else ()
        return free_nodes_manager(ports, self.tested.scheduler(), self.tested.spec.memoryless, queues)


class _Different(_Site):
    """Machines of two speeds; with two or more of them, the first two are a cluster."""

    def __init__(self, case: Case, tested: _Tested) -> None:
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
        n = max(job.id for job in case.jobs) + 1
        run_s = np.full(n, 1.0)
        on_cluster = np.full(n, inf)
        for job in case.jobs:
            run_s[job.id] = job.run_s
            on_cluster[job.id] = 0.6 * job.run_s if job.size > 1 else inf
        columns = [run_s * (1.0 + j % 2) for j in range(case.n_machines)]
        self._actual = EtcMatrix.from_dense(np.column_stack([*columns, *([on_cluster] if clusters else ())]))
        factor = np.ones(n)
        for job in case.jobs:
            factor[job.id] = job.estimate_s / job.run_s
        self._experience = _Experience(EtcMatrix.from_dense(self._actual.dense() * factor[:, None]))
        self.capacity = Capacity(
            case.n_machines, names=self._site.resource_names, max_batch_requeue=MAX_BATCH_REQUEUE
        )

    def longest(self, job: CaseJob) -> float:
        return 2.0

    def machines(self, events: EventQueue, faulty: Faulty) -> ExecutionModel:
        faulty.n_interconnects = len(self._site.interconnects)
        quantiles = np.zeros(self._actual.n_jobs)
        slots = [(j,) for j in range(self.case.n_machines)]
        actual = ActualRuntimes(self._actual, NoSpread(), quantiles)
        return DedicatedMachines(self._site, actual, events, slots, faulty.hindrances)

    def ports(self, world: World) -> Ports:
        return OnMachines(world.clock, world.dispatcher, self._site, world.monitor, self._experience)

    def manager(self, ports: Ports) -> ResourceManager:
        assert isinstance(ports, OnMachines)
        queues = self.queues
        schedulers = {queue.name: self.tested.scheduler() for queue in queues}
        return MappingManager(ports, queues, schedulers, Admission(queues))

    def mismatch(self, rows: Sequence[Row]) -> Violation | None:
        """Every job that ended has one run in the history, with the time that it ran."""
        began_s = {row[3]: row[0] for row in rows if row[1] == "run_started"}
        ran_s = {row[2]: row[0] - began_s[row[3]] for row in rows if row[1] == "run_ended"}
        recorded = Counter(record.job.id for record in self._experience.records)
        for job in sorted({*ran_s, *recorded}):
            if recorded[JobId(job)] != (job in ran_s):
                message = f"job {job} has {recorded[JobId(job)]} runs in the history"
                return Violation(HISTORY_MATCHES, message, job)
        for record in self._experience.records:
            if abs(record.run_time_s - ran_s[record.job.id]) > 1e-6:
                job = record.job.id
                message = f"job {job} ran {ran_s[job]} s, but {record.run_time_s} s in the history"
                return Violation(HISTORY_MATCHES, message, job)
        return None


class _Experience:
    """Estimates that do not change, and the runs that were reported."""

    def __init__(self, etc: EtcMatrix) -> None:
        self._etc = etc
        self.records: list[ExecutionRecord] = []

    def estimate(self, jobs: Sequence[Job], members: Sequence[int]) -> EtcMatrix:
        rows = np.array([job.id for job in jobs], dtype=np.int64)
        return EtcMatrix(self._etc.by_class_s, rows, self._etc.resource_class_of)

    def record(self, record: ExecutionRecord) -> None:
        self.records.append(record)


_SITES = {Machines.DIFFERENT: _Different, Machines.PROCESSORS: _Processors, Machines.NODES: _Nodes}
