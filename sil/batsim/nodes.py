"""What a scheduler of Batsim's places jobs on: which nodes there are, and what is believed of jobs there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from scheduler.model import ON_NODES, DispatchOrder, Job, Loss, RunId
from scheduler.node_set import NodeSet
from scheduler.ports import RuntimeEstimator
from sil.batsim.messages import JsonEvent, delay, resource
from sil.world.logged_runs import LoggedRuns


class Nodes(Protocol):
    """By number, from 0."""

    @property
    def described(self) -> Sequence[JsonEvent]:
        """As a scheduler is told of them."""
        ...

    @property
    def accepts_new_jobs(self) -> bool:
        """Whether a scheduler may submit jobs of its own."""
        ...

    def new_job(self, submit_s: float, run_s: float, n_nodes: int, walltime_s: float | None) -> Job:
        """A scheduler's own job, as it says that it is."""
        ...

    def profile(self, job: Job) -> JsonEvent:
        """What is believed of a job: a `delay` of so many seconds at most, and perhaps more."""
        ...

    def order(self, run: RunId, job: Job, nodes: NodeSet, walltime_s: float) -> DispatchOrder:
        """The order for a job on nodes of which there are as many as it asks for."""
        ...

    def true_run_s(self, job: Job, nodes: NodeSet) -> float:
        """How long a job really takes there, for who asks how much of it is done."""
        ...

    def learn(self, job: Job, nodes: NodeSet, started_s: float, ran_s: float) -> None:
        """A run came to its end by itself."""
        ...

    def changes(self, loss: Loss | None = None) -> Iterator[tuple[int, bool]]:
        """Nodes that are believed up from now on, or not any more: by news of a monitor, or as what was
        found down when a run was lost."""
        ...


class AlikeNodes:
    """The nodes of a log's machine: all alike, and always up."""

    accepts_new_jobs = True

    def __init__(self, n_nodes: int, run_times: RuntimeEstimator, runs: LoggedRuns) -> None:
        self._n_nodes = n_nodes
        self._run_times = run_times
        self._runs = runs

    @property
    def described(self) -> Sequence[JsonEvent]:
        return [resource(n, f"node-{n}") for n in range(self._n_nodes)]

    def new_job(self, submit_s: float, run_s: float, n_nodes: int, walltime_s: float | None) -> Job:
        return self._runs.add(submit_s, run_s, n_nodes, walltime_s)

    def profile(self, job: Job) -> JsonEvent:
        return delay(self._run_times.estimate_s(job))

    def order(self, run: RunId, job: Job, nodes: NodeSet, walltime_s: float) -> DispatchOrder:
        return DispatchOrder(run, job, ON_NODES, nodes, walltime_s)

    def true_run_s(self, job: Job, nodes: NodeSet) -> float:
        return self._runs.run_s(job)

    def learn(self, job: Job, nodes: NodeSet, started_s: float, ran_s: float) -> None:
        self._run_times.learn(job, ran_s)

    def changes(self, loss: Loss | None = None) -> Iterator[tuple[int, bool]]:
        return iter(())
