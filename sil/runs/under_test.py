"""What a scheduler's name stands for: a scheduler, a whole resource manager, or a process that is either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scheduler import registry
from scheduler.kinds import Kind
from scheduler.registry import SchedulerNotLoaded
from scheduler.resource_manager import Ports
from sil.batsim.naming import is_outside, outside
from sil.batsim.nodes import Nodes
from sil.world.clock import SimClock
from sil.world.dispatcher import SimDispatcher
from sil.world.guard.decision_cost import Charge
from sil.world.guard.manager import GuardedManager
from sil.world.guard.scheduler import Timing
from sil.world.harness import ResourceManager

PRINTED = "scheduler.log"
"""What a scheduler in a process of its own printed."""


def check_loads(name: str) -> None:
    """Raises SchedulerNotLoaded for a name that stands for nothing."""
    if is_outside(name):
        outside(name)
    elif registry.is_manager(name):
        registry.load_manager(name)
    else:
        registry.load(name)


def check_for_free_nodes(names: Sequence[str]) -> None:
    """Raises SchedulerNotLoaded for a scheduler that cannot replay a log."""
    for name in names:
        check_loads(name)
        wrong = None if brings_its_manager(name) else registry.misfit(name, Kind.FREE_NODES)
        if wrong is not None:
            raise SchedulerNotLoaded(f"{wrong} (a log has rigid jobs)")


def brings_its_manager(name: str) -> bool:
    """Whether it keeps queues of its own: a whole resource manager, or a scheduler of Batsim's."""
    return is_outside(name) or registry.is_manager(name)


def needs_no_process(name: str) -> bool:
    """One of ours is trusted with this process."""
    return not is_outside(name) and registry.is_built_in(name)


@dataclass(frozen=True)
class UnderTest:
    """What who manages the resources is given, and how it is watched; of one run."""

    ports: Ports
    nodes: Nodes
    """The same for a scheduler of Batsim's."""
    n_jobs: int
    """How many will arrive."""
    clock: SimClock
    dispatcher: SimDispatcher
    note: Callable[[Timing], None]
    limit_s: float
    """Wall time that a decision may take."""
    charge: Charge | None
    """What decisions cost in simulated time."""

    @contextmanager
    def managed_by(
        self, name: str, with_scheduler: Callable[[], ResourceManager], printed: Path
    ) -> Iterator[ResourceManager]:
        """The resource manager of that name, or where it names a scheduler, ours with that. What a process of
        its own prints goes into the file `printed`.

        Raises SchedulerNotLoaded, and SchedulerFault where a process does not begin or end well.
        """
        if not is_outside(name):
            yield self._whole_manager(name) if registry.is_manager(name) else with_scheduler()
            return
        from sil.batsim.conversation import conversation
        from sil.batsim.manager import BatsimManager

        with conversation(name, printed, self.limit_s) as ask:
            manager = BatsimManager(
                self.nodes, self.n_jobs, self.clock, self.dispatcher, ask, self.note, self.charge
            )
            yield manager
            manager.end()

    def _whole_manager(self, name: str) -> GuardedManager:
        make = registry.load_manager(name)
        return GuardedManager(make, self.ports, self.limit_s, self.note, self.charge)
