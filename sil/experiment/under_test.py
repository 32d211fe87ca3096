"""What a scheduler's name stands for when a log is replayed: who manages the nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scheduler import registry
from scheduler.ports import RunTimes
from scheduler.queue_manager import QueueManager
from scheduler.registry import Kind, SchedulerNotLoaded
from scheduler.resource_manager import OnFreeNodes
from scheduler.rigid.free_nodes_in_use import FreeNodesInUse
from scheduler.rigid.rules import first_violation_on_free_nodes
from sil.batsim.naming import is_outside, outside
from sil.world.clock import SimClock
from sil.world.decision_cost import Charge
from sil.world.dispatcher import SimDispatcher
from sil.world.guard import GuardedScheduler, NoteReason, Timing
from sil.world.guarded_manager import GuardedManager
from sil.world.harness import ResourceManager
from sil.world.logged_runs import LoggedRuns

PRINTED = "scheduler.log"
"""What a scheduler in a process of its own printed."""


def check_for_free_nodes(names: Sequence[str]) -> None:
    """Raises SchedulerNotLoaded for a scheduler that cannot replay a log."""
    for name in names:
        if is_outside(name):
            outside(name)
            continue
        if registry.is_manager(name):
            registry.load_manager(name)
            continue
        registry.load(name)
        wrong = registry.misfit(name, Kind.FREE_NODES)
        if wrong is not None:
            raise SchedulerNotLoaded(f"{wrong} (a log has rigid jobs)")


def needs_no_process(name: str) -> bool:
    """One of ours is trusted with this process."""
    return not is_outside(name) and registry.is_built_in(name)


@dataclass(frozen=True)
class NodesUnderTest:
    """The machine and the world around it, for who manages it."""

    n_nodes: int
    runs: LoggedRuns
    run_times: RunTimes
    clock: SimClock
    dispatcher: SimDispatcher
    note: Callable[[Timing], None]
    decision_limit_s: float
    charge: Charge | None = None
    """What decisions cost in simulated time."""
    note_reason: NoteReason | None = None
    """Is told why jobs are left waiting."""

    @contextmanager
    def managed_by(self, name: str, folder: Path) -> Iterator[ResourceManager]:
        """The resource manager with the scheduler of that name.

        Raises SchedulerNotLoaded, and SchedulerFault where one in another process does not begin or end well.
        """
        if not is_outside(name):
            is_whole = registry.is_manager(name)
            yield self._whole_manager(name) if is_whole else self._with_scheduler(name)
            return
        from sil.batsim.command import started
        from sil.batsim.endpoint import Endpoint
        from sil.batsim.manager import BatsimManager

        with started(outside(name), folder / PRINTED) as (address, process):
            endpoint = Endpoint(
                address,
                self.decision_limit_s,
                (lambda: None) if process is None else process.how_it_ended,
            )
            try:
                manager = BatsimManager(
                    self.n_nodes,
                    self.runs.total,
                    self.run_times,
                    self.clock,
                    self.dispatcher,
                    endpoint.ask,
                    self.note,
                    self.runs,
                    self.charge,
                )
                yield manager
                manager.end()
            finally:
                endpoint.close()

    def _whole_manager(self, name: str) -> GuardedManager:
        ports = OnFreeNodes(self.clock, self.dispatcher, self.n_nodes, self.run_times)
        make = registry.load_manager(name)
        return GuardedManager(make, ports, self.n_nodes, self.decision_limit_s, self.note)

    def _with_scheduler(self, name: str) -> QueueManager:
        factory = registry.load(name)
        guarded = GuardedScheduler(
            factory(),
            self.clock,
            self.decision_limit_s,
            self.note,
            None if registry.is_built_in(name) else factory(),
            first_violation_on_free_nodes,
            cpu_time=None,  # to ask for it costs more than most of these decisions
            charge=self.charge,
            note_reason=self.note_reason,
        )
        nodes = FreeNodesInUse(self.n_nodes, self.run_times)
        return QueueManager(nodes, guarded, self.clock, self.dispatcher)
