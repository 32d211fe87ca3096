"""The machines of a site as a scheduler of Batsim's sees them: numbered, each for one job at a time."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from scheduler.managers.availability import Availability
from scheduler.mapping.etc import EtcMatrix
from scheduler.model import DispatchOrder, ExecutionRecord, Job, Loss, MachineReading, RunId
from scheduler.node_set import NodeSet
from scheduler.resource_manager import OnMachines
from sil.batsim.messages import JsonEvent, delay, resource
from sil.world.actual_runtimes import ActualRuntimes


class SiteMachines:
    """Unlike machines, of which the protocol knows nothing: a job's `walltime` is the longest expected time
    on any machine that can run it, and those on each stand in its profile (`expected_s`, null = cannot run).

    Clusters are not offered, nor can a scheduler submit jobs of its own.
    """

    accepts_new_jobs = False

    def __init__(self, ports: OnMachines, actual_runtimes: ActualRuntimes) -> None:
        site = ports.site
        self.described = [
            resource(j, machine.name, machine_class=machine.machine_class)
            for j, machine in enumerate(site.machines)
        ]
        self._ports = ports
        self._true_times = actual_runtimes
        self._availability = Availability(site)
        self._members = [len(members) for members in site.members]

    def new_job(self, submit_s: float, run_s: float, n_nodes: int, walltime_s: float | None) -> Job:
        raise LookupError("the jobs of an experiment are those of its file")

    def profile(self, job: Job) -> JsonEvent:
        row = self._expected(job).row(0)[: len(self.described)].tolist()
        expected_s = [s if isfinite(s) else None for s in row]
        longest_s = max((s for s in expected_s if s is not None), default=0.0)
        return {**delay(longest_s), "expected_s": expected_s}

    def order(self, run: RunId, job: Job, nodes: NodeSet, walltime_s: float) -> DispatchOrder:
        (machine,) = nodes
        return DispatchOrder(run, job, machine, (machine,), self._expected(job)[0, machine])

    def true_run_s(self, job: Job, nodes: NodeSet) -> float:
        (machine,) = nodes
        return self._true_times.run_s(job, machine, 1.0)

    def learn(self, job: Job, nodes: NodeSet, started_s: float, ran_s: float) -> None:
        (machine,) = nodes
        self._ports.experience.record(ExecutionRecord(job, machine, 1, started_s, ran_s))

    def changes(self, loss: Loss | None = None) -> Iterator[tuple[int, bool]]:
        up = self._availability.up
        for reading in (*(loss.readings if loss else ()), *self._ports.monitor.news()):
            if isinstance(reading, MachineReading):
                before = up[reading.machine]
                self._availability.read([reading])
                if up[reading.machine] != before:
                    yield reading.machine, reading.up

    def _expected(self, job: Job) -> EtcMatrix:
        return self._ports.experience.estimate([job], self._members)
