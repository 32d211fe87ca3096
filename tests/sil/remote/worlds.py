"""Small simulated worlds of processors, with agents on them and a manager over a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from scheduler import registry
from scheduler.durability.journalled_manager import dependable
from scheduler.durability.reliable_delivery import Timeouts
from scheduler.free_nodes.runtime_estimates import UserEstimates
from scheduler.managers.rigid_allocation import free_nodes_manager
from scheduler.model import ON_NODES, DispatchOrder, Job, JobId, RunId
from scheduler.node_request import Node
from scheduler.ports import Notice, RunEnded, RunLost, RunPreempted, RuntimeEstimator
from scheduler.resource_manager import Manager, OnFreeNodes, Ports
from sil.outcome.invariants.checker import Capacity, first_violation_of
from sil.trace.recorder import ROW, Row, TraceRecorder
from sil.world.events import EventQueue, MessageDue, Rounds, SimClock
from sil.world.failures import Outage, in_order_of_time, listed_outages
from sil.world.harness import RemainingManager, World
from sil.world.machines.nodes import ConsumableMachines, SpaceSharedMachines
from sil.world.monitors import NodeStates, SimMonitor
from sil.world.remote.agents import Agents
from sil.world.remote.network import (
    CrashingJournal,
    ManagerClock,
    ManagerCrashed,
    MemoryJournal,
    MessageFault,
    Network,
)
from sil.world.remote.remote_manager import RemoteManager


def job(number: int, arrival_s: float = 0.0, size: int = 1, estimate_s: float = 100.0) -> Job:
    return Job(JobId(number), "work", arrival_s, n_tasks=size, estimate_s=estimate_s)


def order(run: int, machines: Iterable[int] = (0,), of: Job | None = None) -> DispatchOrder:
    """The order for a run, by default of the job with the same number."""
    where = tuple(machines)
    return DispatchOrder(RunId(run), of or job(run, size=len(where)), ON_NODES, where, 100.0)


def world_of(
    n_machines: int = 2,
    run_s: Mapping[int, float] = {},
    outages: Sequence[Outage] = (),
    nodes: tuple[Node, ...] = (),
    site_resources: Mapping[str, int] = {},
) -> World:
    """Identical processors, or nodes. Jobs run for `run_s`, or 100 s."""
    clock, events = SimClock(), EventQueue()

    def lasts_s(job: Job, *_: object) -> float:
        return run_s.get(job.id, 100.0)

    machines: Any = SpaceSharedMachines(n_machines, lasts_s, events)
    if nodes:
        machines = ConsumableMachines(nodes, lasts_s, events, site_resources)
    changes = in_order_of_time(listed_outages(outages))
    return World(clock, events, TraceRecorder(nodes=nodes), machines, SimMonitor(clock), Rounds(), changes)


class Operator(RemainingManager):
    """A manager without any intelligence: tests give the orders, and see what agents tell."""

    def __init__(self, world: World, faults: Sequence[MessageFault] = ()) -> None:
        self.world = world
        self.told: list[tuple[float, Notice]] = []
        network = Network(world.clock, world.events, faults)
        self.agents = Agents(world, network, self._tell)

    def at(self, time_s: float, method: Callable[..., None], *arguments: object) -> None:
        self.world.events.push(time_s, MessageDue(partial(method, *arguments)))

    def until(self, time_s: float) -> None:
        """Let the world go on until then."""
        self._until_s = time_s
        self.world.run([], self)

    def is_settled(self) -> bool:
        return self.world.events.next_s > self._until_s

    def kinds(self) -> list[tuple[float, type[Notice]]]:
        return [(time_s, type(notice)) for time_s, notice in self.told]

    def _tell(self, notice: Notice) -> None:
        self.told.append((self.world.clock.now_s, notice))

    def handle(self, notice: Notice) -> None:
        if isinstance(notice, RunEnded | RunPreempted | RunLost):
            self.agents.over(notice)

    def run_round(self) -> None:
        raise NotImplementedError  # these tests order runs themselves: no manager has rounds


class CrashesAt:
    """The manager crashes at some of the steps at which it may, by number, and is back after `down_s`."""

    def __init__(self, *steps: int, down_s: float = 30.0) -> None:
        self.steps = steps
        self.down_s = down_s
        self.n = 0

    def strike(self) -> None:
        self.n += 1
        if self.n - 1 in self.steps:
            raise ManagerCrashed


def easy(ports: Ports) -> Manager:
    assert isinstance(ports, OnFreeNodes)
    return free_nodes_manager(ports, registry.named("easy").make(1), memoryless=True)


class Remote:
    """A world with a dependable manager over a network."""

    def __init__(
        self,
        world: World,
        make: Callable[[Ports], Manager] = easy,
        *,
        n_machines: int = 2,
        ports: Ports | None = None,
        faults: Sequence[MessageFault] = (),
        crashes: CrashesAt | None = None,
        jumps: Sequence[tuple[float, float]] = (),
        timeouts: Timeouts = Timeouts(),  # noqa: B008
        run_times: RuntimeEstimator | None = None,
    ) -> None:
        self.world = world
        self.clock = ManagerClock(world.clock, jumps)
        self.n_machines = n_machines
        monitor, estimates = NodeStates(world.monitor), run_times or UserEstimates()
        ports = ports or OnFreeNodes(world.clock, world.dispatcher, n_machines, estimates, monitor)
        any_crashes: Any = crashes
        journal = None if crashes is None else CrashingJournal(MemoryJournal(), any_crashes)
        network = Network(world.clock, world.events, faults)
        made = dependable(make, timeouts, journal=journal)
        self.manager = RemoteManager(world, ports, made, network, any_crashes, self.clock)

    def run(self, jobs: Sequence[Job]) -> list[dict[str, Any]]:
        """The facts. No invariant is broken."""
        self.world.run(jobs, self.manager)
        rows: list[Row] = self.world.trace.rows()
        assert first_violation_of(rows, Capacity(self.n_machines)) is None
        return [dict(zip(ROW, row, strict=True)) for row in rows]


def times_s(facts: Iterable[Mapping[str, Any]], event: str) -> list[tuple[float, int | None]]:
    """When, and of which job."""
    return [(fact["time_s"], fact["job"]) for fact in facts if fact["event"] == event]
