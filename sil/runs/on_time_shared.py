"""Runs on a cluster of time-shared nodes, under the testbed's starting manager or another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import astuple
from typing import TYPE_CHECKING

import polars as pl

from scheduler.managers.limit_admission import LimitAdmission, PromisesByForecast
from scheduler.managers.queues import Admission, Unkept
from scheduler.managers.starting_manager import NodeManager
from scheduler.managers.time_shared_allocation import Forecasting, Prediction, TimeSharedAllocation
from scheduler.model import DispatchOrder, Job, JobId, MachineReading, NodeReading, RunId
from scheduler.ports import AnyScheduler
from scheduler.resource_manager import Characterisation, OnSharedNodes
from scheduler.time_shared.forecast import Predictor
from scheduler.time_shared.problem import TimeSharedProblem
from sil.live.machines import RealNodes
from sil.live.real_events import RealEvents
from sil.outcome.invariants.checker import Capacity
from sil.runs.hosting import Supervision
from sil.runs.simulation import Disturbances, RunKey, SiteModel, SiteRun
from sil.runs.under_test import InProcess
from sil.settings import files
from sil.site.time_shared_cluster import Characterisations
from sil.trace.facts import LOCAL_USERS_SCHEMA, PERIODS_SCHEMA, PREDICTIONS_SCHEMA, Fact, RunTables
from sil.world.actual_runtimes import RandomStreams
from sil.world.events import AdvanceDue, ControlDue, EventQueue, LocalChanged, SampleDue
from sil.world.failures import Hindrances
from sil.world.harness import Handlers, World
from sil.world.machines.time_shared import SharedMachines, TimeSharedMachines, Work
from sil.world.monitors import NodeMonitors
from sil.world.processes.machines import ProcessMachines
from sil.world.processes.model import InPeriods, Lowered
from sil.world.time_shared_cluster import TimeSharedCluster
from site_db.site_file import importing

if TYPE_CHECKING:
    from sil.batsim.nodes import NumberedNodes

CISNE = "cisne-2006"
"""The built-in site of Hanzich et al. 2006."""


def built_in_characterisations() -> Characterisations:
    """The NAS Parallel Benchmarks on the nodes of the built-in site."""
    return Characterisations.of_site(importing.read_site_file(files.built_in("sites")[CISNE]))


class TimeSharedSystem(SiteModel):
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
    ) -> None:
        self.jobs = sorted(jobs, key=lambda job: (job.arrival_s, job.id))
        self.n_jobs = len(jobs)
        self.capacity = Capacity(cluster.n_nodes, cluster.contract.most_jobs)
        self._cluster = cluster
        detail = cluster.in_detail
        self._known = characterisation if detail is None else InPeriods(characterisation, detail.periodic)
        self._submitted_s = {job.id: job.arrival_s for job in jobs}
        self._works = _works(cluster, jobs, characterisation, streams)
        self._streams, self._sampling_rng = streams, streams.of("node monitors")
        if (load := cluster.local_load) is not None:
            self.changes = load.changes(cluster.memory_mb, streams.of("local users"))
        self._predictions: list[Prediction] = []
        self.lowered: Lowered = {}
        self._nodes_with_users: set[int] = set()

    def machines(self, events: EventQueue, hindrances: Hindrances | None) -> TimeSharedMachines:
        self._machines: TimeSharedMachines
        given = self._cluster, self._works, events, self._note_stopped, hindrances
        if isinstance(events, RealEvents):
            self._machines = RealNodes(events, *given[:2], self._note_stopped)
        elif self._cluster.in_detail is not None:
            self._machines = ProcessMachines(*given, self._streams, self.lowered)
        else:
            self._machines = SharedMachines(*given)
        return self._machines

    @property
    def handlers(self) -> Handlers:
        return {
            LocalChanged: self._local_changed,
            ControlDue: lambda event: self._machines.control(event.node, self._clock.now_s),
            AdvanceDue: lambda event: self._machines.advance(self._clock.now_s),
            SampleDue: lambda event: self._monitors.sample(event.node),
        }

    def ports(self, world: World) -> OnSharedNodes:
        cluster, clock, known = self._cluster, world.clock, self._known
        self._clock, self._trace, self._monitor = clock, world.trace, world.monitor
        self._monitors = NodeMonitors(
            clock, world.events, cluster.sampling, self._sampling_rng, self._note_silent
        )
        self._allocation = TimeSharedAllocation(cluster.memory_mb, cluster.contract, clock, self, known, self)
        return OnSharedNodes(
            clock, world.dispatcher, cluster.memory_mb, cluster.contract, known, monitor=self
        )

    def manager(
        self, ports: OnSharedNodes, scheduler: InProcess, asking: Supervision
    ) -> NodeManager[TimeSharedProblem]:
        return self.predicting(ports, asking.scheduler(scheduler), {})

    def predicting(
        self,
        ports: OnSharedNodes,
        scheduler: AnyScheduler,
        predictors: Mapping[str, Predictor],
        promises: PromisesByForecast | None = None,
        admission: Admission | None = None,
    ) -> NodeManager[TimeSharedProblem]:
        """The built-in manager, which predicts all jobs whenever one arrives."""
        nodes, on_arrival = self._allocation, promises is not None and promises.unkept is not Unkept.ACCEPTED
        forecasting = Forecasting(nodes, predictors, self, None if on_arrival else promises)
        manager = NodeManager(ports, nodes, scheduler, admission=admission, new_jobs=forecasting)
        if promises is not None and on_arrival:
            predict, clock = predictors[promises.predictor].predict, ports.clock
            made = LimitAdmission(
                nodes, lambda _: predict(clock.now_s, nodes.view()), clock, promises, self.promised
            )
            manager.submit = made.submit
        return manager

    def run(self, scheduler: AnyScheduler, predictors: Mapping[str, Predictor], run: RunKey) -> RunTables:
        """A run without disturbances, under a scheduler that is trusted."""
        simulation = SiteRun(self, Disturbances())
        assert isinstance(simulation.ports, OnSharedNodes)
        manager = self.predicting(simulation.ports, scheduler, predictors)
        simulation.run(nullcontext(manager))
        return RunTables.of(facts=simulation.checked(run), **self.tables(run))

    def batsim_nodes(self, ports: OnSharedNodes) -> NumberedNodes:
        from sil.batsim.nodes import time_shared_nodes

        return time_shared_nodes(ports)

    def tables(self, run: RunKey) -> dict[str, pl.DataFrame]:
        """Rows of predictions.parquet, local_users.parquet and periods.parquet."""
        predictions: list[tuple[object, ...]] = []
        for p in self._predictions:
            job, (start_s, end_s) = p.forecast.job, (p.forecast.start_s, p.forecast.end_s)
            bounds_s = p.forecast.low_s, p.forecast.high_s
            predictions.append((*run, p.made_s, p.predictor, job, p.jobs_there, start_s, end_s, *bounds_s))
        responses = self._machines.local_responses(self._clock.now_s)
        users = [(*run, *astuple(r)) for r in responses]
        periods = [(*run, *each) for each in self._machines.periods]
        return {
            "predictions": pl.DataFrame(predictions, schema=PREDICTIONS_SCHEMA, orient="row"),
            "local_users": pl.DataFrame(users, schema=LOCAL_USERS_SCHEMA, orient="row"),
            "periods": pl.DataFrame(periods, schema=PERIODS_SCHEMA, orient="row"),
        }

    def news(self) -> Sequence[NodeReading | MachineReading]:
        """Which nodes are up, then their local load."""
        up = [reading for reading in self._monitor.news() if isinstance(reading, MachineReading)]
        return [*up, *self._monitors.news()]

    def used_s(self, run: RunId) -> float:
        """CPU time, measured exactly."""
        return self._machines.used_s(run, self._clock.now_s)

    def predicted(self, prediction: Prediction) -> None:
        self._predictions.append(prediction)

    def promised(self, job: Job, by_s: float, cost: str = "") -> None:
        within_s = by_s - self._submitted_s[job.id]
        self._trace.note(
            self._clock.now_s, Fact.PROMISED, job=job.id, expected_s=within_s, detail=cost or None
        )

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
