"""The actual properties of a cluster of time-shared nodes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

from scheduler.time_shared.social_contract import SocialContract
from sil.world.actual_runtimes import Normal, Spread
from sil.world.local_users import LocalLoad
from sil.world.machines.sharing import Fluid, Sharing
from sil.world.node_monitors import Sampling

MEMORY_MB = 512.0


@dataclass(frozen=True)
class TimeSharedCluster:
    """Nodes that parallel tasks share among themselves and with local users."""

    memory_mb: tuple[float, ...] = (MEMORY_MB,) * 16
    contract: SocialContract = field(default_factory=SocialContract)
    local_load: LocalLoad | None = None
    sharing: Sharing = field(default_factory=Fluid)
    sampling: Sampling = field(default_factory=Sampling)
    run_to_run: Spread = field(default_factory=lambda: Normal(0.03))
    """The distribution of execution times, relative to the time measured in isolation."""
    control_delay_s: float = 0.0
    """The delay with which the coscheduler stops and continues jobs."""

    @property
    def n_nodes(self) -> int:
        return len(self.memory_mb)

    def with_limits(self, most_jobs: int = 4, most_cpu: float = inf) -> TimeSharedCluster:
        """With limits on a node's parallel multiprogramming level and its summed CPU requirements."""
        return replace(self, contract=replace(self.contract, most_jobs=most_jobs, most_cpu=most_cpu))

    def with_local_users(self, share_of_nodes: float) -> TimeSharedCluster:
        return replace(self, local_load=LocalLoad(share_of_nodes) if share_of_nodes else None)

    def with_coscheduling(
        self, loss: float = 0.0, overhead: float = 0.0, control_delay_s: float = 0.0
    ) -> TimeSharedCluster:
        """With imperfect coscheduling in the fluid model: communication lost, CPU overhead, and delay."""
        sharing = Fluid(coscheduling_loss=loss, overhead=overhead)
        return replace(self, sharing=sharing, control_delay_s=control_delay_s)
