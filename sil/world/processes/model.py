"""What time-shared nodes are like in detail: parameters, and the programs of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.naming import Choice
from sil.world.processes.core.codes import SECOND
from sil.world.processes.core.programs import Program
from sil.world.processes.nas import Traffic, nas_traffic
from sil.world.processes.periodic import Periodic

DAEMON_NICE = -10
GOLDEN = 0.6180339887498949

Lowered = dict[tuple[int, int], None]
"""Node and job of the processes whose priority CCS has lowered, in this order."""


class CpuScheduler(Choice, noun="CPU scheduler"):
    """The scheduler of the nodes' operating system."""

    LINUX_2_4 = "linux_2_4"  # epochs and quanta, as on the cluster of the papers
    CFS = "cfs"  # fair shares of virtual time: Linux 2.6.23 to 6.5


TrafficOfClasses = Mapping[str, Mapping[int, Traffic]]
"""By job class and number of tasks."""


@dataclass(frozen=True, slots=True)
class NodeModel:
    """Nodes in detail. Times without a source are assumptions, which the studies vary.

    * `cpu_scheduler`, `coscheduler`: The scheduler of the operating system; CCS, and in which form.
    * `spin_s`: How long a process that waits for a message spins before it blocks; 0 blocks at once.
    * `switch_s`: A context switch, 3.8 microseconds: Li, Ding and Shen, "Quantifying the cost of context
      switch", ExpCS 2007. `reload_s`: What the caches cost a process in addition after another one has run;
      that paper measures from some microseconds to more than a millisecond.
    * `period_s`: Between samples of the daemon in user space; `sample_s` and `sample_each_s`: the CPU time
      of a sample, and of each parallel process in it. `event_s`: The mean time of an event to another node.
    * `bandwidth_mb_per_s`: Fast Ethernet. `paging`: How much longer than computing a process waits for the
      disk if all its pages are out.
    * `interaction_s`: The CPU time of an interaction of a local user.
    * `message_every_s`, `message_bytes`: The messages of a job that has no `traffic`.
    * `periodic`: Job classes whose jobs do their work in periods.
    """

    cpu_scheduler: CpuScheduler = CpuScheduler.LINUX_2_4
    coscheduler: Coscheduler = Coscheduler.KERNEL
    spin_s: float = 0.0
    switch_s: float = 3.8e-6
    reload_s: float = 100e-6
    period_s: float = 0.1
    sample_s: float = 0.5e-3
    sample_each_s: float = 0.1e-3
    event_s: float = 1e-3
    bandwidth_mb_per_s: float = 12.5
    paging: float = 10.0
    interaction_s: float = 0.1
    message_every_s: float = 0.02
    message_bytes: int = 1460
    traffic: TrafficOfClasses = field(default_factory=lambda: MappingProxyType({}))
    periodic: Mapping[str, Periodic] = field(default_factory=lambda: MappingProxyType({}))

    def traffic_of(self, job_class: str, n_tasks: int, exe_s: float) -> Traffic:
        """The messages of each task of a job: stated for its class, those of the NAS benchmark of that name,
        or one for each `message_every_s`."""
        known = self.traffic.get(job_class, {}).get(n_tasks) or nas_traffic(job_class, n_tasks)
        if known is not None:
            return known
        messages = max(1, round(exe_s / self.message_every_s))
        return Traffic(messages, messages * self.message_bytes / 1e6)

    def program(
        self, exe_s: float, cpu: float, traffic: Traffic, periodic: Periodic | None = None
    ) -> Program:
        """The program of a job that takes `exe_s` in isolation, to the nanosecond. In a periodic one, each
        period has the same number of messages, about as many in total."""
        messages, period, steps_each = traffic.messages, 0, 0
        if periodic is not None:
            n_periods, period = periodic.n_periods(exe_s, cpu), round(periodic.period_s * SECOND)
            steps_each = max(1, round(messages / n_periods))
            messages, exe_s = n_periods * steps_each, n_periods * periodic.period_s * periodic.share / cpu
        exe, computes = round(exe_s * SECOND), round(exe_s * cpu * SECOND)
        bytes_each = round(1e6 * traffic.megabytes / messages)
        on_wire = round(bytes_each / (1e6 * self.bandwidth_mb_per_s) * SECOND)
        times = computes, exe - computes, on_wire
        return Program(messages, *times, bytes_each, round(self.spin_s * SECOND), period, steps_each)
