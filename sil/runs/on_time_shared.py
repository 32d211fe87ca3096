"""The composition root of a cluster whose nodes are shared: scheduler, predictors and testbed meet here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from math import inf

import polars as pl

from scheduler.managers.admission import Admission
from scheduler.managers.forecasting import Forecasting, Prediction, Promises
from scheduler.managers.starting import StartingManager
from scheduler.managers.time_shared_allocation import TimeSharedAllocation
from scheduler.model import DispatchOrder, Job, JobId, MachineReading, NodeReading, RunId
from scheduler.ports import Scheduler
from scheduler.resource_manager import Characterisation, OnSharedNodes
from scheduler.time_shared.prediction.forecast import Predictor
from scheduler.time_shared.social_contract import SocialContract
from sil.outcome.invariants import Capacity, first_breach
from sil.runs.random_streams import stream
from sil.settings import files
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.workload.local_load import LocalLoad
from sil.world.actual_runtimes import Normal, Spread
from sil.world.clock import SimClock
from sil.world.dispatcher import SimDispatcher
from sil.world.events import EventQueue, LocalChanged
from sil.world.failures import TimedChange, in_order_of_time
from sil.world.guard.faults import SchedulerFault
from sil.world.harness import Harness, ResourceManager, in_order_of_arrival
from sil.world.local_users import LocalUsers
from sil.world.machines.sharing import Fluid, Sharing
from sil.world.machines.time_shared import LocalResponse, SharedMachines, Work
from sil.world.monitors import SimMonitor
from sil.world.node_monitors import NodeMonitors, Sampling
from sil.world.rounds import OnRequest, RoundPolicy
from site_db.characterisations import Characterisations
from site_db.site_file import exchange

MEMORY_MB = 512.0
CISNE = "cisne-2006"
"""The built-in site of Hanzich et al. 2006."""


@dataclass(frozen=True)
class SharedCluster:
    """Nodes that local users have, too, and what is true of them."""

    memory_mb: tuple[float, ...] = (MEMORY_MB,) * 16
    contract: SocialContract = field(default_factory=SocialContract)
    local_load: LocalLoad | None = None
    sharing: Sharing = field(default_factory=Fluid)
    sampling: Sampling = field(default_factory=Sampling)
    run_to_run: Spread = field(default_factory=lambda: Normal(0.03))
    """How a job's true execution time scatters around what was measured in isolation."""
    control_delay_s: float = 0.0
    """How late the coscheduler stops and restarts jobs."""

    @property
    def n_nodes(self) -> int:
        return len(self.memory_mb)

    def with_limits(self, most_jobs: int = 4, most_cpu: float = inf) -> SharedCluster:
        """Parallel MPL and summed CPU requirements of a node at most so."""
        return replace(self, contract=replace(self.contract, most_jobs=most_jobs, most_cpu=most_cpu))

    def with_local_users(self, share_of_nodes: float) -> SharedCluster:
        return replace(self, local_load=LocalLoad(share_of_nodes) if share_of_nodes else None)

    def with_coscheduling(
        self, loss: float = 0.0, overhead: float = 0.0, control_delay_s: float = 0.0
    ) -> SharedCluster:
        """In the fluid model: what imperfect coscheduling loses and costs, and how late it acts."""
        sharing = Fluid(coscheduling_loss=loss, overhead=overhead)
        return replace(self, sharing=sharing, control_delay_s=control_delay_s)


def built_in_characterisations() -> Characterisations:
    """The NAS Parallel Benchmarks on the nodes of the built-in site."""
    return Characterisations.of_site(exchange.read_site_file(files.built_in("sites")[CISNE]))


@dataclass(frozen=True)
class SharedRun:
    """The facts of one run (columns of the trace), what was predicted, and how local users fared."""

    facts: pl.DataFrame
    predictions: list[Prediction]
    local_responses: list[LocalResponse]


Managing = Callable[
    [OnSharedNodes, SimDispatcher, Callable[[], ResourceManager]], AbstractContextManager[ResourceManager]
]
"""Given ports, and what makes our manager: who manages the nodes of a run."""


def _by_ours(
    ports: OnSharedNodes, dispatcher: SimDispatcher, ours: Callable[[], ResourceManager]
) -> AbstractContextManager[ResourceManager]:
    return nullcontext(ours())


@dataclass(frozen=True)
class Surroundings:
    """What else there is: machines that fail, and monitors of that; when rounds are due; what is promised;
    who may submit; and the trace of it all."""

    changes: Iterator[TimedChange] = field(default_factory=lambda: iter(()))
    monitor: SimMonitor | None = None
    rounds: RoundPolicy = field(default_factory=OnRequest)
    promises: Promises | None = None
    admission: Admission | None = None
    trace: TraceRecorder = field(default_factory=TraceRecorder)
    managed_by: Managing = _by_ours
    """Who manages the nodes, if not ours."""


def run_on_shared_nodes(
    cluster: SharedCluster,
    jobs: Sequence[Job],
    characterisation: Characterisation,
    name: str,
    scheduler: Scheduler | None,
    predictors: Mapping[str, Predictor],
    seed: int,
    replication: int,
    clock: SimClock | None = None,
    around: Surroundings | None = None,
) -> SharedRun:
    """One run of the harness. A fault of the scheduler ends it and is its last fact. There is none where
    somebody else manages the nodes (`around.managed_by`).

    Jobs, local users and the luck of jobs follow from (seed, replication) alone, whatever the scheduler.
    """
    clock, around = clock or SimClock(), around or Surroundings()
    trace, events = around.trace, EventQueue()
    notes = _NotesOfManager(trace, clock)

    def note_stopped(order: DispatchOrder, stopped: bool) -> None:
        fact = Fact.RUN_STOPPED if stopped else Fact.RUN_CONTINUED
        trace.note(clock.now_s, fact, job=order.job.id, run=order.run, machines=order.machines)

    machines = SharedMachines(
        cluster.memory_mb,
        cluster.contract,
        cluster.sharing,
        _works(cluster, jobs, characterisation, seed, replication),
        events,
        note_stopped,
        cluster.control_delay_s,
    )
    node_monitors = NodeMonitors(
        clock,
        events,
        cluster.sampling,
        stream(seed, replication, "node monitors"),
        lambda node: trace.note(clock.now_s, Fact.MONITOR_SILENT, resource=node),
    )
    monitor = around.monitor or SimMonitor(clock)
    nodes = TimeSharedAllocation(
        cluster.memory_mb,
        cluster.contract,
        clock,
        _Accounting(machines, clock),
        characterisation,
        notes,
    )
    both, dispatcher = _BothMonitors(node_monitors, monitor), SimDispatcher(clock, events, machines, trace)
    ports = OnSharedNodes(clock, dispatcher, cluster.memory_mb, cluster.contract, characterisation, both)

    def ours() -> StartingManager:
        assert scheduler is not None, "who manages the nodes brings its own"
        forecasting = Forecasting(nodes, predictors, notes, around.promises)
        return StartingManager(ports, nodes, scheduler, admission=around.admission, new_jobs=forecasting)

    try:
        with around.managed_by(ports, dispatcher, ours) as manager:
            Harness(
                in_order_of_arrival(jobs),
                manager,
                clock,
                events,
                machines,
                monitor,
                in_order_of_time(_local_changes(cluster, seed, replication), around.changes),
                around.rounds,
                trace,
                LocalUsers(clock, machines, node_monitors, trace),
            ).run()
    except SchedulerFault as fault:
        trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
    facts = trace.frame(0, replication, name)
    breach = first_breach(facts, Capacity(cluster.n_nodes, cluster.contract.most_jobs))
    if breach is not None:
        trace.note_fault(clock.now_s, breach.rule, breach.message, breach.job)
        facts = trace.frame(0, replication, name)
    return SharedRun(facts, notes.predictions, machines.local_responses(clock.now_s))


class _NotesOfManager:
    """What the manager says goes to the trace; predictions stand apart."""

    def __init__(self, trace: TraceRecorder, clock: SimClock) -> None:
        self._trace = trace
        self._clock = clock
        self.predictions: list[Prediction] = []

    def predicted(self, prediction: Prediction) -> None:
        self.predictions.append(prediction)

    def promised(self, job: Job, by_s: float) -> None:
        self._trace.note(self._clock.now_s, Fact.PROMISED, job=job.id, expected_s=by_s - job.arrival_s)

    def bad_reading(self, reading: NodeReading, why: str) -> None:
        self._trace.note(self._clock.now_s, Fact.READING_REFUSED, resource=reading.node, detail=why)


class _BothMonitors:
    """Those of the local load, and those that tell what is up."""

    def __init__(self, nodes: NodeMonitors, machines: SimMonitor) -> None:
        self._nodes = nodes
        self._machines = machines

    def news(self) -> Sequence[NodeReading | MachineReading]:
        up = [reading for reading in self._machines.news() if isinstance(reading, MachineReading)]
        return [*up, *self._nodes.news()]


class _Accounting:
    """Measures exactly, when it is asked."""

    def __init__(self, machines: SharedMachines, clock: SimClock) -> None:
        self._machines = machines
        self._clock = clock

    def used_s(self, run: RunId) -> float:
        return self._machines.used_s(run, self._clock.now_s)


def _works(
    cluster: SharedCluster,
    jobs: Sequence[Job],
    characterisation: Characterisation,
    seed: int,
    replication: int,
) -> dict[JobId, Work]:
    luck = stream(seed, replication, "run times").random(len(jobs))
    works = {}
    for job, quantile in zip(jobs, luck.tolist(), strict=True):
        known = characterisation.requirement(job)
        if known is not None:
            exe_s = known.exe_s * cluster.run_to_run.factor(quantile)
            works[job.id] = Work(exe_s, known.cpu, known.memory_mb)
    return works


def _local_changes(cluster: SharedCluster, seed: int, replication: int) -> Iterator[TimedChange]:
    if cluster.local_load is None:
        return
    luck = stream(seed, replication, "local users")
    for time_s, demand in cluster.local_load.changes(list(cluster.memory_mb), luck):
        yield time_s, LocalChanged(demand.node, demand.cpu, demand.memory_mb, demand.user_is_there)
