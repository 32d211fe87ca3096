"""The composition root of a cluster whose nodes are shared: scheduler, predictors and testbed meet here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import polars as pl

from scheduler.loras.queue_manager import Characterisation, Prediction, QueueManager
from scheduler.loras.social_contract import SocialContract
from scheduler.model import DispatchOrder, Job, JobId, RunId
from scheduler.ports import Scheduler
from scheduler.prediction.forecast import Predictor
from sil.experiment.files import FIXTURES
from sil.experiment.streams import stream
from sil.outcome.node_invariants import first_breach_on_nodes
from sil.outcome.trace import Fact, TraceRecorder
from sil.workload.characterisations import Characterisations, read_characterisations
from sil.workload.local_load import LocalLoad
from sil.world.clock import SimClock
from sil.world.dispatcher import SimDispatcher
from sil.world.events import EventQueue, LocalChanged
from sil.world.failures import TimedChange
from sil.world.faults import SchedulerFault
from sil.world.harness import Harness
from sil.world.local_side import LocalUsers
from sil.world.machines.sharing import Fluid, Sharing
from sil.world.machines.time_shared import LocalResponse, SharedMachines, Work
from sil.world.monitors import SimMonitor
from sil.world.node_monitors import NodeMonitors, Sampling
from sil.world.rounds import OnRequest

MEMORY_MB = 512.0


@dataclass(frozen=True)
class SharedCluster:
    """Alike nodes that local users have, too, and what is true of them."""

    n_nodes: int = 16
    memory_mb: float = MEMORY_MB
    contract: SocialContract = field(default_factory=SocialContract)
    local_load: LocalLoad | None = None
    sharing: Sharing = field(default_factory=Fluid)
    sampling: Sampling = field(default_factory=Sampling)
    run_to_run: float = 0.03
    """Standard deviation of a job's true execution time around what was measured in isolation."""
    control_delay_s: float = 0.0
    """How late the coscheduler stops and restarts jobs."""

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


def built_in_characterisations(name: str) -> Characterisations:
    """Those that come with the package."""
    return read_characterisations(FIXTURES / "characterisations" / f"{name}.csv")


@dataclass(frozen=True)
class SharedRun:
    """The facts of one run (columns of the trace), what was predicted, and how local users fared."""

    facts: pl.DataFrame
    predictions: list[Prediction]
    local_responses: list[LocalResponse]


def run_on_shared_nodes(
    cluster: SharedCluster,
    jobs: Sequence[Job],
    characterisation: Characterisation,
    name: str,
    scheduler: Scheduler,
    predictors: Mapping[str, Predictor],
    seed: int,
    replication: int,
) -> SharedRun:
    """One run of the harness. A fault of the scheduler ends it and is its last fact.

    Jobs, local users and the luck of jobs follow from (seed, replication) alone, whatever the scheduler.
    """
    trace, clock, events = TraceRecorder(), SimClock(), EventQueue()
    memory_mb = [cluster.memory_mb] * cluster.n_nodes
    predictions: list[Prediction] = []

    def note_stopped(order: DispatchOrder, stopped: bool) -> None:
        fact = Fact.RUN_STOPPED if stopped else Fact.RUN_CONTINUED
        trace.note(clock.now_s, fact, job=order.job.id, run=order.run, machines=order.machines)

    machines = SharedMachines(
        memory_mb,
        cluster.contract,
        cluster.sharing,
        _works(cluster, jobs, characterisation, seed, replication),
        events,
        note_stopped,
        cluster.control_delay_s,
    )
    monitors = NodeMonitors(clock, events, cluster.sampling, stream(seed, replication, "node monitors"))
    manager = QueueManager(
        memory_mb,
        cluster.contract,
        scheduler,
        clock,
        SimDispatcher(clock, events, machines, trace),
        monitors,
        _Accounting(machines, clock),
        characterisation,
        predictors,
        predictions.append,
    )
    harness = Harness(
        jobs,
        manager,
        clock,
        events,
        machines,
        SimMonitor(clock),
        _local_changes(cluster, memory_mb, seed, replication),
        OnRequest(),
        trace,
        LocalUsers(clock, machines, monitors, trace),
    )
    try:
        harness.run()
    except SchedulerFault as fault:
        trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
    facts = trace.frame(0, replication, name)
    breach = first_breach_on_nodes(facts, cluster.contract.most_jobs)
    if breach is not None:
        trace.note_fault(clock.now_s, breach.rule, breach.message, breach.job)
        facts = trace.frame(0, replication, name)
    return SharedRun(facts, predictions, machines.local_responses(clock.now_s))


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
    luck = stream(seed, replication, "run times").standard_normal(len(jobs))
    works = {}
    for job, deviation in zip(jobs, luck.tolist(), strict=True):
        known = characterisation.requirement(job)
        if known is not None:
            exe_s = known.exe_s * max(0.1, 1.0 + cluster.run_to_run * deviation)
            works[job.id] = Work(exe_s, known.cpu, known.memory_mb)
    return works


def _local_changes(
    cluster: SharedCluster, memory_mb: list[float], seed: int, replication: int
) -> Iterator[TimedChange]:
    if cluster.local_load is None:
        return
    luck = stream(seed, replication, "local users")
    for time_s, demand in cluster.local_load.changes(memory_mb, luck):
        yield time_s, LocalChanged(demand.node, demand.cpu, demand.memory_mb, demand.user_is_there)
