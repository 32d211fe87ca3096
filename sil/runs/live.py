"""An experiment on this computer, in real time."""

from __future__ import annotations

from dataclasses import dataclass, field

from sil.isolation.host import Host
from sil.live.computer import Computer, RealEvents, RealMachines, Shared
from sil.runs.machines_scenario import Machines, MachinesScenario
from sil.runs.simulation import Simulation
from sil.world.events import EventQueue
from sil.world.failures import Hindrances


@dataclass(frozen=True)
class LiveScenario(MachinesScenario):
    """Machine j is the j-th core of a computer, jobs are processes, and time is real."""

    computer: Computer = field(kw_only=True)

    def simulation(self, replication: int, host: Host, decisions: list[float]) -> Simulation:
        computer = Shared(self.computer, host)
        site = _Cores(self, replication, computer)
        disturbances = self.disturbances(site, replication, decisions)
        return Simulation(site, disturbances, events=RealEvents(computer))


class _Cores(Machines):
    def __init__(self, scenario: LiveScenario, replication: int, computer: Shared) -> None:
        super().__init__(scenario, replication)
        self._computer = computer

    def machines(self, events: EventQueue, hindrances: Hindrances | None) -> RealMachines:
        return RealMachines(self._computer, self._site, self._actual, events)
