"""The nodes on which a Batsim scheduler starts jobs: of a log, of a site, or of a time-shared cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from math import isfinite

from scheduler.mapping.etc import EtcMatrix
from scheduler.model import (
    ON_NODES,
    DispatchOrder,
    ExecutionRecord,
    Job,
    RunId,
)
from scheduler.node_set import NodeSet
from scheduler.notices import RunLost
from scheduler.ports import Monitor, NodeMonitor, RuntimeEstimator
from scheduler.resource_manager import OnMachines, OnSharedNodes
from scheduler.time_shared.social_contract import Requirement
from sil.batsim.messages import JsonEvent, delay, resource
from sil.workload.logged_runs import LoggedRuns
from sil.world.monitors import NodeChanges


class Nodes(ABC):
    """Nodes by number, from 0, as described to the scheduler. Without a monitor they are always up."""

    accepts_new_jobs = False
    """Whether the scheduler may submit jobs itself."""

    def __init__(
        self, descriptions: Sequence[JsonEvent], monitor: Monitor | NodeMonitor | None = None
    ) -> None:
        self.descriptions = descriptions
        self._changes = NodeChanges(monitor)

    def new_job(self, submit_s: float, run_s: float, n_nodes: int, walltime_s: float | None) -> Job:
        """A job that the scheduler submits, with its actual run time."""
        raise LookupError("the jobs of an experiment are those of its file")

    @abstractmethod
    def profile(self, job: Job) -> JsonEvent:
        """The estimate of a job: a `delay`, and perhaps more."""

    def order(self, run: RunId, job: Job, nodes: NodeSet, walltime_s: float) -> DispatchOrder:
        """The order for a job on as many nodes as it requests."""
        return DispatchOrder(run, job, ON_NODES, nodes, walltime_s)

    @abstractmethod
    def actual_run_s(self, job: Job, nodes: NodeSet) -> float:
        """The actual run time of a job there, from which its progress is computed."""

    def learn(self, job: Job, nodes: NodeSet, started_s: float, ran_s: float) -> None:
        """A run is complete."""
        return

    def changes(self, loss: RunLost | None = None) -> Iterator[tuple[int, bool]]:
        """See `NodeChanges.new`."""
        return self._changes.new(loss)


class IdenticalNodes(Nodes):
    """The nodes of a log's machine, which are always up."""

    accepts_new_jobs = True

    def __init__(self, n_nodes: int, run_times: RuntimeEstimator, runs: LoggedRuns) -> None:
        super().__init__([resource(n, f"node-{n}") for n in range(n_nodes)])
        self._run_times = run_times
        self._runs = runs

    def new_job(self, submit_s: float, run_s: float, n_nodes: int, walltime_s: float | None) -> Job:
        return self._runs.add(submit_s, run_s, n_nodes, walltime_s)

    def profile(self, job: Job) -> JsonEvent:
        return delay(self._run_times.estimate_s(job))

    def actual_run_s(self, job: Job, nodes: NodeSet) -> float:
        return self._runs.run_s(job)

    def learn(self, job: Job, nodes: NodeSet, started_s: float, ran_s: float) -> None:
        self._run_times.learn(job, ran_s)


class SiteMachines(Nodes):
    """Machines that differ, which the protocol cannot describe: a job's `walltime` is its longest expected
    time on any machine, and its profile has that on each (`expected_s`, null = cannot run there).

    Clusters are not offered.
    """

    def __init__(self, ports: OnMachines, actual_run_s: Callable[[Job, int, float], float]) -> None:
        site = ports.site
        machines = enumerate(site.machines)
        described = [
            resource(j, machine.name, machine_class=machine.machine_class) for j, machine in machines
        ]
        super().__init__(described, ports.monitor)
        self._experience = ports.experience
        self._actual_run_s = actual_run_s
        self._members = [len(members) for members in site.members]

    def profile(self, job: Job) -> JsonEvent:
        row = self._expected(job).row(0)[: len(self.descriptions)].tolist()
        expected_s = [s if isfinite(s) else None for s in row]
        longest_s = max((s for s in expected_s if s is not None), default=0.0)
        return {**delay(longest_s), "expected_s": expected_s}

    def order(self, run: RunId, job: Job, nodes: NodeSet, walltime_s: float) -> DispatchOrder:
        (machine,) = nodes
        return DispatchOrder(run, job, machine, (machine,), self._expected(job)[0, machine])

    def actual_run_s(self, job: Job, nodes: NodeSet) -> float:
        (machine,) = nodes
        return self._actual_run_s(job, machine, 1.0)

    def learn(self, job: Job, nodes: NodeSet, started_s: float, ran_s: float) -> None:
        (machine,) = nodes
        self._experience.record(ExecutionRecord(job, machine, 1, started_s, ran_s))

    def _expected(self, job: Job) -> EtcMatrix:
        return self._experience.estimate([job], self._members)


class TimeSharedNodes(Nodes):
    """A job's `walltime` is its execution time in isolation, and its profile has its requirement of a node
    (`cpu`, `memory_mb`). The protocol cannot express slowdown by local users, or jobs that share nodes."""

    def __init__(self, ports: OnSharedNodes) -> None:
        described = [resource(n, f"node-{n}", memory_mb=f"{mb:g}") for n, mb in enumerate(ports.memory_mb)]
        super().__init__(described, ports.monitor)
        self._characterisation = ports.characterisation

    def profile(self, job: Job) -> JsonEvent:
        required = self._required(job)
        return {**delay(required.exe_s), "cpu": required.cpu, "memory_mb": required.memory_mb}

    def actual_run_s(self, job: Job, nodes: NodeSet) -> float:
        """In isolation; the slowdown by local users is unknown before the end."""
        return self._required(job).exe_s

    def _required(self, job: Job) -> Requirement:
        required = self._characterisation.requirement(job)
        assert required is not None, "only such jobs arrive"
        return required
