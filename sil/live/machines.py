"""The cores of a computer as the machines of a site, or as nodes that jobs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.model import DispatchOrder, JobId, RunId, Site
from sil.live.programs import Parallel
from sil.live.real_events import RealEvents, Shared
from sil.world.actual_runtimes import ActualRuntimes
from sil.world.events import EventQueue, LocalChanged
from sil.world.machines.execution import DedicatedMachines, ExecutionModel
from sil.world.machines.time_shared import LocalResponse, TimeSharedMachines, Work
from sil.world.time_shared_cluster import TimeSharedCluster


class OnComputer(ExecutionModel):
    """Runs are those of a computer."""

    _computer: Shared

    def is_active(self, run: RunId) -> bool:
        """Whether a run is active: one that has exited is complete, even if that was not reported yet."""
        return super().is_active(run) and not self._computer("has_exited", run)

    def runs_hit_by(self, subject: int | str) -> list[RunId]:
        return []  # processes go on


class RealMachines(OnComputer, DedicatedMachines):
    """Machines that run one job at a time, which keeps its cores busy."""

    def __init__(self, computer: Shared, site: Site, actual: ActualRuntimes, events: EventQueue) -> None:
        super().__init__(site, actual, events, [(j,) for j in range(site.n_machines)])
        self._computer = computer

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        self._computer("end", run)
        return super().stop(run, now_s)

    def _begin(self, order: DispatchOrder, run_s: float, now_s: float) -> None:
        self._computer("start", order, run_s)


class RealNodes(OnComputer, TimeSharedMachines):
    """Nodes on which CCS controls message-passing programs and the user's."""

    def __init__(
        self,
        events: RealEvents,
        cluster: TimeSharedCluster,
        works: Mapping[JobId, Work],
        note_stopped: Callable[[DispatchOrder, bool], None],
    ) -> None:
        super().__init__(cluster)
        assert cluster.in_detail is not None
        self._computer, self._works, self._note_stopped = events.computer, works, note_stopped
        events.on_halted = self._halted
        self._model = cluster.in_detail
        self._active: dict[RunId, DispatchOrder] = {}

    def start(self, order: DispatchOrder, now_s: float) -> None:
        work, (_, job, *_) = self._works[order.job.id], order
        traffic = self._model.traffic_of(job.job_class, job.n_tasks, work.exe_s)
        program = self._model.program(work.exe_s, work.cpu, traffic)
        self._active[order.run] = order
        self._computer("start", order, Parallel(job.job_class, program, work.memory_mb))

    def stop(self, run: RunId, now_s: float) -> DispatchOrder:
        self._computer("end", run)
        return self._active.pop(run)

    def _halted(self, run: RunId, is_stopped: bool) -> None:
        if run in self._active:
            self._note_stopped(self._active[run], is_stopped)

    def local_changed(self, change: LocalChanged, now_s: float) -> None:
        self._computer("demand", change.node, change.cpu, change.memory_mb)

    def local_responses(self, now_s: float) -> list[LocalResponse]:
        return []  # nobody measures them

    def used_s(self, run: RunId, now_s: float) -> float:
        return float(self._computer("used_s", run)) if run in self._active else 0.0
