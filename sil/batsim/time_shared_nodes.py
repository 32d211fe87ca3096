"""Nodes that local users have, too, as a scheduler of Batsim's sees them: each for one job of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler.model import ON_NODES, DispatchOrder, Job, Loss, MachineReading, RunId
from scheduler.node_set import NodeSet
from scheduler.resource_manager import OnSharedNodes
from scheduler.time_shared.requirement import Requirement
from sil.batsim.messages import JsonEvent, delay, resource


class NodesWithUsers:
    """A job's `walltime` is its execution time in isolation; what it needs of each node stands in its profile
    (`cpu`, `memory_mb`). That local users slow it down, and that jobs could share nodes, the protocol does
    not know; nor can a scheduler submit jobs of its own."""

    accepts_new_jobs = False

    def __init__(self, ports: OnSharedNodes) -> None:
        self._ports = ports
        self._up = [True] * ports.n_places
        self._seen_s: dict[int, float] = {}
        """When it was last seen whether a node is up."""

    @property
    def described(self) -> Sequence[JsonEvent]:
        return [resource(n, f"node-{n}", memory_mb=f"{mb:g}") for n, mb in enumerate(self._ports.memory_mb)]

    def new_job(self, submit_s: float, run_s: float, n_nodes: int, walltime_s: float | None) -> Job:
        raise LookupError("the jobs of an experiment are those of its file")

    def profile(self, job: Job) -> JsonEvent:
        needed = self._needed(job)
        return {**delay(needed.exe_s), "cpu": needed.cpu, "memory_mb": needed.memory_mb}

    def order(self, run: RunId, job: Job, nodes: NodeSet, walltime_s: float) -> DispatchOrder:
        return DispatchOrder(run, job, ON_NODES, nodes, walltime_s)

    def true_run_s(self, job: Job, nodes: NodeSet) -> float:
        """In isolation; what it takes beside local users is known at its end."""
        return self._needed(job).exe_s

    def learn(self, job: Job, nodes: NodeSet, started_s: float, ran_s: float) -> None:
        """What jobs need was measured in isolation."""

    def changes(self, loss: Loss | None = None) -> Iterator[tuple[int, bool]]:
        for reading in (*(loss.readings if loss else ()), *self._ports.monitor.news()):
            if not isinstance(reading, MachineReading):
                continue
            node, up = reading.machine, reading.up
            if reading.measured_s >= self._seen_s.get(node, 0.0):
                self._seen_s[node] = reading.measured_s
                if self._up[node] != up:
                    self._up[node] = up
                    yield node, up

    def _needed(self, job: Job) -> Requirement:
        needed = self._ports.characterisation.requirement(job)
        assert needed is not None, "only such jobs arrive"
        return needed
