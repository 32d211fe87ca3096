"""Runs on a cluster of time-shared nodes, under the testbed's starting manager or another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import polars as pl

from scheduler.managers.queues import Admission
from scheduler.managers.starting_manager import StartingManager
from scheduler.managers.time_shared_allocation import Forecasting, Prediction, TimeSharedAllocation
from scheduler.model import DispatchOrder, Job, JobId, MachineReading, NodeReading, RunId
from scheduler.ports import Scheduler
from scheduler.resource_manager import Characterisation, OnSharedNodes, ResourceManager
from scheduler.time_shared.forecast import Predictor
from scheduler.time_shared.promises import PromisesByForecast
from sil.isolation.host import HERE, Host
from sil.outcome.invariants.breach import Capacity
from sil.runs.composition import RunKey, checked_run
from sil.settings import files
from sil.site.time_shared_cluster import Characterisations
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.events import ControlDue, EventQueue, LocalChanged, SampleDue, SimClock
from sil.world.failures import TimedChange, in_order_of_time
from sil.world.harness import World, in_order_of_arrival
from sil.world.hindrances import Hindrances
from sil.world.machines.time_shared import LocalResponse, SharedMachines, Work
from sil.world.monitors import Distortion, NodeMonitors, SimMonitor
from sil.world.random_streams import RandomStreams
from sil.world.rounds import OnRequest, RoundPolicy
from sil.world.time_shared_cluster import TimeSharedCluster
from site_db.site_file import exchange

CISNE = "cisne-2006"
"""The built-in site of Hanzich et al. 2006."""


def built_in_characterisations() -> Characterisations:
    """The NAS Parallel Benchmarks on the nodes of the built-in site."""
    return Characterisations.of_site(exchange.read_site_file(files.built_in("sites")[CISNE]))


@dataclass(frozen=True)
class TimeSharedRun:
    """The facts of one run (columns of the trace), its predictions, and the responses of local users."""

    facts: pl.DataFrame
    predictions: list[Prediction]
    local_responses: list[LocalResponse]


@dataclass(frozen=True)
class Disturbances:
    """Outages of nodes, how the monitor reports them, when rounds take place, what is slow or fails, and how
    often a job is requeued after failed runs (None: no run fails)."""

    outages: Iterable[TimedChange] = ()
    distortions: Sequence[Distortion] = ()
    rounds: RoundPolicy = field(default_factory=OnRequest)
    hindrances: Hindrances | None = None
    max_batch_requeue: int | None = None


class TimeSharedSystem:
    """A simulated cluster of time-shared nodes for one run; also the built-in manager's node monitor and
    accounting of CPU time, and the recorder of its predictions and promises.

    Jobs, local users and run times depend on `streams` alone, not on the scheduler.
    """

    def __init__(
        self,
        cluster: TimeSharedCluster,
        jobs: Sequence[Job],
        characterisation: Characterisation,
        streams: RandomStreams,
        disturbances: Disturbances | None = None,
    ) -> None:
        disturbances = disturbances or Disturbances()
        clock, events = SimClock(), EventQueue()
        self._clock = clock
        self._trace = TraceRecorder()
        self._jobs = jobs
        self._cluster = cluster
        self._predictions: list[Prediction] = []
        self._nodes_with_users: set[int] = set()
        self._max_batch_requeue = disturbances.max_batch_requeue
        works = _works(cluster, jobs, characterisation, streams)
        self._machines = SharedMachines(cluster, works, events, self._note_stopped, disturbances.hindrances)
        sampling_rng = streams.of("node monitors")
        self._monitors = NodeMonitors(clock, events, cluster.sampling, sampling_rng, self._note_silent)
        load = cluster.local_load
        local_changes = load.changes(cluster.memory_mb, streams.of("local users")) if load else iter(())
        self.world = World(
            clock,
            events,
            self._trace,
            self._machines,
            SimMonitor(clock, disturbances.distortions),
            disturbances.rounds,
            in_order_of_time(local_changes, disturbances.outages),
            {
                LocalChanged: self._local_changed,
                ControlDue: lambda event: self._machines.control(event.node, clock.now_s),
                SampleDue: lambda event: self._monitors.sample(event.node),
            },
        )
        memory_mb, contract = cluster.memory_mb, cluster.contract
        self._allocation = TimeSharedAllocation(memory_mb, contract, clock, self, characterisation, self)
        self.ports = OnSharedNodes(
            clock, self.world.dispatcher, memory_mb, contract, characterisation, monitor=self
        )

    def manager(
        self,
        scheduler: Scheduler,
        predictors: Mapping[str, Predictor],
        promises: PromisesByForecast | None = None,
        admission: Admission | None = None,
    ) -> StartingManager:
        """The built-in manager, which predicts all jobs whenever one arrives."""
        forecasting = Forecasting(self._allocation, predictors, self, promises)
        return StartingManager(
            self.ports, self._allocation, scheduler, admission=admission, new_jobs=forecasting
        )

    def run(
        self, managed: AbstractContextManager[ResourceManager], run: RunKey, host: Host = HERE
    ) -> TimeSharedRun:
        """Run all jobs. A fault of the scheduler ends the run and is its last fact."""
        n_nodes, mpl = self._cluster.n_nodes, self._cluster.contract.most_jobs
        capacity = Capacity(n_nodes, mpl, max_batch_requeue=self._max_batch_requeue)
        jobs = in_order_of_arrival(self._jobs)
        facts = checked_run(self.world, jobs, managed, run, capacity, host)
        responses = self._machines.local_responses(self._clock.now_s)
        return TimeSharedRun(facts, self._predictions, responses)

    def news(self) -> Sequence[NodeReading | MachineReading]:
        """Which nodes are up, then their local load."""
        up = [reading for reading in self.world.monitor.news() if isinstance(reading, MachineReading)]
        return [*up, *self._monitors.news()]

    def used_s(self, run: RunId) -> float:
        """CPU time, measured exactly."""
        return self._machines.used_s(run, self._clock.now_s)

    def predicted(self, prediction: Prediction) -> None:
        self._predictions.append(prediction)

    def promised(self, job: Job, by_s: float) -> None:
        self._trace.note(self._clock.now_s, Fact.PROMISED, job=job.id, expected_s=by_s - job.arrival_s)

    def bad_reading(self, reading: NodeReading, why: str) -> None:
        self._trace.note(self._clock.now_s, Fact.READING_REFUSED, resource=reading.node, detail=why)

    def _local_changed(self, change: LocalChanged) -> None:
        now_s = self._clock.now_s
        if change.user_is_there != (change.node in self._nodes_with_users):
            fact = Fact.LOCAL_USER_CAME if change.user_is_there else Fact.LOCAL_USER_GONE
            self._trace.note(now_s, fact, resource=change.node)
            self._nodes_with_users ^= {change.node}
        self._machines.local_changed(change, now_s)
        self._monitors.local_changed(change)

    def _note_stopped(self, order: DispatchOrder, stopped: bool) -> None:
        fact = Fact.RUN_STOPPED if stopped else Fact.RUN_CONTINUED
        self._trace.note(self._clock.now_s, fact, job=order.job.id, run=order.run, machines=order.machines)

    def _note_silent(self, node: int) -> None:
        self._trace.note(self._clock.now_s, Fact.MONITOR_SILENT, resource=node)


def _works(
    cluster: TimeSharedCluster, jobs: Sequence[Job], known: Characterisation, streams: RandomStreams
) -> dict[JobId, Work]:
    quantiles = streams.of("run times").random(len(jobs)).tolist()
    works = {}
    for job, quantile in zip(jobs, quantiles, strict=True):
        required = known.requirement(job)
        if required is not None:
            exe_s = required.exe_s * cluster.run_to_run.factor(quantile)
            works[job.id] = Work(exe_s, required.cpu, required.memory_mb)
    return works
