"""A log replayed under one scheduler: rigid jobs, free nodes, and the trace written as it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from scheduler import registry
from scheduler.managers.free_node_allocation import FreeNodeAllocation
from scheduler.managers.starting import StartingManager
from scheduler.resource_manager import OnFreeNodes
from sil.batsim.nodes import AlikeNodes
from sil.runs.under_test import PRINTED, UnderTest
from sil.settings.code_version import package_version, scheduler_source
from sil.settings.decision_costs import NONE, decision_cost
from sil.settings.estimates import Estimates, run_times
from sil.trace.facts import TIMINGS, TIMINGS_SCHEMA, TRACE, of_run, trace_stream
from sil.trace.recorder import TraceRecorder
from sil.trace.stream import ParquetStream
from sil.workload.job_log import JobLog
from sil.world.clock import SimClock
from sil.world.dispatcher import SimDispatcher
from sil.world.events import ORDERS, EventQueue
from sil.world.guard.decision_cost import Charge
from sil.world.guard.faults import SchedulerFault
from sil.world.guard.scheduler import GuardedScheduler, Timing
from sil.world.harness import Harness
from sil.world.logged_runs import LoggedRuns
from sil.world.machines.space_shared import SpaceSharedMachines
from sil.world.monitors import SimMonitor
from sil.world.rounds import OnRequest

DECISION_LIMIT_S = 60.0

SUBMITTED_LATER_S = {"batsim": 10.0}
"""By order of events: some of Batsim's schedulers cannot start a job at time 0."""


@dataclass(frozen=True)
class Replay:
    """A log, what schedulers believe of its run times, the order of events at one instant, and what decisions
    cost in simulated time (both by name)."""

    log: JobLog
    estimates: Estimates = Estimates.USER
    order: str = "default"
    decision_cost: str = NONE
    reasons: bool = False
    """Whether the trace tells why jobs are passed over."""
    decision_limit_s: float = DECISION_LIMIT_S

    def described(self, scheduler: str) -> Mapping[str, object]:
        """What was run, as it stands in the trace."""
        return {
            "log": self.log.name,
            "acknowledge": self.log.header.get("acknowledge", ""),
            "part": list(self.log.part),
            "jobs": len(self.log.jobs),
            "processors": self.log.processors,
            "scheduler": scheduler,
            "estimates": self.estimates.value,
            "order": self.order,
            "decision_cost": self.decision_cost,
            "repairs": list(self.log.notes),
            "version": package_version(),
            "scheduler_source": scheduler_source(),
        }

    def run(self, name: str, folder: Path, on_arrivals: Callable[[int], None] = lambda n: None) -> None:
        """Replay the log under the scheduler `name`; trace and timings are written into `folder`.

        A fault of the scheduler ends the run and is the last fact of its trace. Raises SchedulerNotLoaded.
        """
        with (
            trace_stream(folder / TRACE, self.described(name)) as facts,
            ParquetStream(folder / TIMINGS, TIMINGS_SCHEMA) as timings,
        ):
            decisions = _Decisions(timings, name)

            def write(table: pl.DataFrame) -> None:
                facts.write(of_run(table, 0, 0, name))
                decisions.write()

            trace = TraceRecorder(write)
            try:
                self._run(name, folder, trace, decisions.cells.extend, on_arrivals)
            except SchedulerFault as fault:
                trace.note_fault(fault.time_s, fault.rule, fault.message, fault.job)
            trace.close()
            decisions.write()

    def _run(
        self,
        name: str,
        folder: Path,
        trace: TraceRecorder,
        note: Callable[[Timing], None],
        on_arrivals: Callable[[int], None],
    ) -> None:
        clock, events = SimClock(), EventQueue(ORDERS[self.order])
        later_s = pl.col("submit_s") + SUBMITTED_LATER_S.get(self.order, 0.0)
        runs = LoggedRuns(self.log.jobs.with_columns(later_s), on_arrivals)
        machines = SpaceSharedMachines(self.log.processors, runs.run_s, events)
        cost = decision_cost(self.decision_cost, 0, 0, name)
        charge = None if cost is None else Charge(cost, clock, trace.note_charge)
        dispatcher = SimDispatcher(clock, events, machines, trace)
        ports = OnFreeNodes(clock, dispatcher, self.log.processors, run_times(self.estimates, runs.run_s))
        under_test = UnderTest(
            ports,
            AlikeNodes(ports.n_nodes, ports.run_times, runs),
            runs.total,
            clock,
            dispatcher,
            note,
            self.decision_limit_s,
            charge,
        )

        def with_scheduler() -> StartingManager:
            guarded = self._guarded(name, clock, note, charge, trace)
            nodes = FreeNodeAllocation(ports.n_nodes, ports.run_times)
            memoryless = registry.resolve(name).memoryless and charge is None and not self.reasons
            return StartingManager(ports, nodes, guarded, memoryless)

        with under_test.managed_by(name, with_scheduler, folder / PRINTED) as manager:
            Harness(
                runs.arrivals(),
                manager,
                clock,
                events,
                machines,
                SimMonitor(clock),
                iter(()),
                OnRequest(),
                trace,
            ).run()

    def _guarded(
        self,
        name: str,
        clock: SimClock,
        note: Callable[[Timing], None],
        charge: Charge | None,
        trace: TraceRecorder,
    ) -> GuardedScheduler:
        spec = registry.resolve(name)
        return GuardedScheduler(
            spec.make(),
            clock,
            self.decision_limit_s,
            note,
            None if spec.is_built_in else spec.make(),
            cpu_time=None,  # to ask for it costs more than most of these decisions
            charge=charge,
            notes=trace if self.reasons else None,
        )


class _Decisions:
    """Writes what was measured of decisions as they come."""

    def __init__(self, stream: ParquetStream, scheduler: str) -> None:
        self.cells: list[float] = []
        """What was measured since the last time, decision after decision, as columns of `Timing`."""
        self._stream = stream
        self._scheduler = scheduler

    def write(self) -> None:
        """Hand on what was measured since the last time, if anything was."""
        if not self.cells:
            return
        which = {"point": 0, "replication": 0, "scheduler": self._scheduler}
        measured = list(TIMINGS_SCHEMA)[len(which) :]
        columns = [
            pl.Series(name, self.cells[place :: len(measured)], dtype=TIMINGS_SCHEMA[name])
            for place, name in enumerate(measured)
        ]
        table = pl.DataFrame(columns).with_columns(**{name: pl.lit(value) for name, value in which.items()})
        self._stream.write(
            table.with_columns(pl.col("cpu_s").fill_nan(None)).select(
                [pl.col(name).cast(kind) for name, kind in TIMINGS_SCHEMA.items()]
            )
        )
        self.cells.clear()
