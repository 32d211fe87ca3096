"""Runs on a cluster of time-shared nodes, under the testbed's starting manager or another one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import polars as pl

from scheduler.managers.admission import Admission
from scheduler.managers.forecasting import Forecasting, Prediction
from scheduler.managers.starting import StartingManager
from scheduler.managers.time_shared_allocation import TimeSharedAllocation
from scheduler.model import DispatchOrder, Job, JobId, MachineReading, NodeReading, RunId
from scheduler.ports import Scheduler
from scheduler.resource_manager import Characterisation, OnSharedNodes, ResourceManager
from scheduler.time_shared.prediction.forecast import Predictor
from scheduler.time_shared.prediction.promises import PromisesByForecast
from sil.outcome.invariants import Capacity, first_breach
from sil.runs.composition import RunKey, run_in
from sil.settings import files
from sil.site.time_shared_cluster import Characterisations
from sil.trace.facts import Fact
from sil.trace.recorder import TraceRecorder
from sil.world.events import ControlDue, EventQueue, LocalChanged, SampleDue, SimClock
from sil.world.failures import TimedChange, in_order_of_time
from sil.world.harness import World, in_order_of_arrival
from sil.world.machines.time_shared import LocalResponse, SharedMachines, Work
from sil.world.monitors import Distortion, SimMonitor
from sil.world.node_monitors import NodeMonitors
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
    """Outages of nodes, how the monitor reports them, and when rounds take place."""

    outages: Iterable[TimedChange] = ()
    distortions: Sequence[Distortion] = ()
    rounds: RoundPolicy = field(default_factory=OnRequest)


class TimeSharedNodes:
    """A simulated cluster of time-shared nodes for one run.

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
        clock, events, trace = SimClock(), EventQueue(), TraceRecorder()
        self._jobs = jobs
        self._cluster = cluster
        self._notes = _ManagerNotes(trace, clock)

        def note_stopped(order: DispatchOrder, stopped: bool) -> None:
            fact = Fact.RUN_STOPPED if stopped else Fact.RUN_CONTINUED
            trace.note(clock.now_s, fact, job=order.job.id, run=order.run, machines=order.machines)

        works = _works(cluster, jobs, characterisation, streams)
        self._machines = machines = SharedMachines(cluster, works, events, note_stopped)
        node_monitors = NodeMonitors(
            clock,
            events,
            cluster.sampling,
            streams.of("node monitors"),
            lambda node: trace.note(clock.now_s, Fact.MONITOR_SILENT, resource=node),
        )
        present: set[int] = set()

        def local_changed(change: LocalChanged) -> None:
            if change.user_is_there != (change.node in present):
                fact = Fact.LOCAL_USER_CAME if change.user_is_there else Fact.LOCAL_USER_GONE
                trace.note(clock.now_s, fact, resource=change.node)
                present.symmetric_difference_update({change.node})
            machines.local_changed(change, clock.now_s)
            node_monitors.local_changed(change)

        load = cluster.local_load
        local_changes = load.changes(cluster.memory_mb, streams.of("local users")) if load else iter(())
        self.world = World(
            clock,
            events,
            trace,
            machines,
            SimMonitor(clock, disturbances.distortions),
            disturbances.rounds,
            in_order_of_time(local_changes, disturbances.outages),
            {
                LocalChanged: local_changed,
                ControlDue: lambda event: machines.control(event.node, clock.now_s),
                SampleDue: lambda event: node_monitors.sample(event.node),
            },
        )
        self._allocation = TimeSharedAllocation(
            cluster.memory_mb,
            cluster.contract,
            clock,
            _Accounting(machines, clock),
            characterisation,
            self._notes,
        )
        self.ports = OnSharedNodes(
            clock,
            self.world.dispatcher,
            cluster.memory_mb,
            cluster.contract,
            characterisation,
            _BothMonitors(node_monitors, self.world.monitor),
        )

    def manager(
        self,
        scheduler: Scheduler,
        predictors: Mapping[str, Predictor],
        promises: PromisesByForecast | None = None,
        admission: Admission | None = None,
    ) -> StartingManager:
        """The built-in manager, which has predictions made of all jobs whenever one arrives."""
        forecasting = Forecasting(self._allocation, predictors, self._notes, promises)
        return StartingManager(
            self.ports, self._allocation, scheduler, admission=admission, new_jobs=forecasting
        )

    def run(self, managed: AbstractContextManager[ResourceManager], run: RunKey) -> TimeSharedRun:
        """Run all jobs. A fault of the scheduler ends the run and is its last fact."""
        world, cluster = self.world, self._cluster
        capacity = Capacity(cluster.n_nodes, cluster.contract.most_jobs)
        run_in(
            world,
            in_order_of_arrival(self._jobs),
            managed,
            lambda: first_breach(world.trace.frame(*run), capacity),
        )
        return TimeSharedRun(
            world.trace.frame(*run),
            self._notes.predictions,
            self._machines.local_responses(world.clock.now_s),
        )


class _ManagerNotes:
    """Records what the manager reports: in the trace, except for predictions."""

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
    """The monitor of which nodes are up, and the monitors of local load."""

    def __init__(self, nodes: NodeMonitors, machines: SimMonitor) -> None:
        self._nodes = nodes
        self._machines = machines

    def news(self) -> Sequence[NodeReading | MachineReading]:
        up = [reading for reading in self._machines.news() if isinstance(reading, MachineReading)]
        return [*up, *self._nodes.news()]


class _Accounting:
    """Exact measurements of CPU time."""

    def __init__(self, machines: SharedMachines, clock: SimClock) -> None:
        self._machines = machines
        self._clock = clock

    def used_s(self, run: RunId) -> float:
        return self._machines.used_s(run, self._clock.now_s)


def _works(
    cluster: TimeSharedCluster, jobs: Sequence[Job], known: Characterisation, streams: RandomStreams
) -> dict[JobId, Work]:
    luck = streams.of("run times").random(len(jobs))
    works = {}
    for job, quantile in zip(jobs, luck.tolist(), strict=True):
        needs = known.requirement(job)
        if needs is not None:
            works[job.id] = Work(
                needs.exe_s * cluster.run_to_run.factor(quantile), needs.cpu, needs.memory_mb
            )
    return works
