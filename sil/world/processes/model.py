"""What time-shared nodes are like in detail: parameters, the programs of jobs, their messages (those of the
NAS Parallel Benchmarks are counted in the algorithms), and jobs with a period and a needed share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, floor, log2, sqrt
from types import MappingProxyType
from typing import NamedTuple

from scheduler.coscheduling.daemon import Coscheduler
from scheduler.coscheduling.ports import ReservedShare
from scheduler.model import Job
from scheduler.naming import Choice
from scheduler.resource_manager import Characterisation
from scheduler.time_shared.social_contract import Requirement
from sil.world.processes.core.codes import SECOND
from sil.world.processes.core.programs import Program


class Periodic(NamedTuple):
    """What the jobs of a class compute in isolation at once, they compute in periods: a task is to have had
    `share` of the CPU when each ends. With `reserved`, CCS reserves that."""

    period_s: float
    share: float
    reserved: bool

    @property
    def reservation(self) -> ReservedShare | None:
        return ReservedShare(self.share, self.period_s) if self.reserved else None

    def n_periods(self, exe_s: float, cpu: float) -> int:
        """The periods of a job that takes `exe_s` in isolation, and uses `cpu` of a CPU then."""
        return max(1, round(exe_s * cpu / (self.share * self.period_s)))


@dataclass(frozen=True)
class InPeriods:
    """What jobs require, those of periodic classes in periods."""

    known: Characterisation
    periodic: Mapping[str, Periodic]

    def requirement(self, job: Job) -> Requirement | None:
        needed, periodic = self.known.requirement(job), self.periodic.get(job.job_class)
        if needed is None or periodic is None:
            return needed
        exe_s = periodic.n_periods(needed.exe_s, needed.cpu) * periodic.period_s
        reserved = periodic.share if periodic.reserved else 0.0
        return replace(needed, cpu=periodic.share, exe_s=exe_s, reserved=reserved)


class Traffic(NamedTuple):
    """The messages that each task of a job sends."""

    messages: int
    megabytes: float


SIZES = {
    "IS": {"A": (2**23, 10), "B": (2**25, 10), "C": (2**27, 10)},
    "CG": {"A": (14_000, 15), "B": (75_000, 75), "C": (150_000, 75)},
    "MG": {"A": (256, 4), "B": (256, 20), "C": (512, 20)},
    "FT": {"A": (2**23, 6), "B": (2**25, 20), "C": (2**27, 20)},
    "BT": {"A": (64, 200), "B": (102, 200), "C": (162, 200)},
    "SP": {"A": (64, 400), "B": (102, 400), "C": (162, 400)},
    "LU": {"A": (64, 250), "B": (102, 250), "C": (162, 250)},
}
"""Keys, rows, points or points along each axis, and iterations, by class: Bailey et al., "The NAS Parallel
Benchmarks", RNR-94-007 (class A, B); NPB 2.3 (class C)."""


def nas_traffic(job_class: str, n_tasks: int) -> Traffic | None:
    """The mean over the tasks of "MG.A", for example; None for another job, or without 2, 4, 8, ... tasks.

    Source: the algorithms of NPB 2 (Bailey et al., "The NAS Parallel Benchmarks 2.0", NAS-95-020), as in the
    MPI programs of NPB 2.3 and 3.3, with the warm-up but without preparation and verification. BT and SP need
    a square number of tasks; between squares, the formulas are the same with its root.
    """
    name, _, problem_class = job_class.partition(".")
    size = SIZES.get(name, {}).get(problem_class)
    if size is None or n_tasks < 2 or n_tasks & (n_tasks - 1):
        return None
    sent = list(_messages(name, *size, n_tasks))
    return Traffic(round(sum(n for n, _ in sent)), sum(n * n_bytes for n, n_bytes in sent) / 1e6)


def _messages(name: str, size: int, iterations: int, p: int) -> Iterator[tuple[float, float]]:
    """Numbers of messages, and bytes of each; a number has 8 bytes, in IS 4 and in FT 16."""
    halvings, across, along = int(log2(p)), 2 ** ceil(log2(p) / 2), 2 ** floor(log2(p) / 2)
    if name == "IS":  # sums of 1,024 buckets and 5 tests, numbers of keys, and keys for each other task
        yield (iterations + 1) * halvings, 4 * 1029
        yield (iterations + 1) * (p - 1), 4
        yield (iterations + 1) * (p - 1), 4 * size / p**2
    elif name == "CG":  # 26 products of matrix and vector: partial sums in a row, transposition, two dots
        stages, products = int(log2(across)), 26 * (iterations + 1)
        yield products * (stages + 1), 8 * size / across
        yield products * 2 * stages, 8
    elif name == "MG":  # both faces of each axis that is divided, three times a level; twice on the lowest
        axes = [2 ** ((halvings + k) // 3) for k in range(3)]
        for level in range(int(log2(size))):
            for parts in axes:
                face = (size / 2**level) ** 2 * parts / p
                yield 2 * (parts > 1) * iterations * (3 if size >> level > 2 else 2), 8 * face
    elif name == "FT":  # a transposition among all tasks
        yield (iterations + 1) * (p - 1), 16 * size / p**2
    elif name == "LU":  # two sweeps over planes, and the two outermost layers of each block
        for parts, others in ((across, along), (along, across)):
            edges = (parts - 1) * others / p
            yield 2 * edges * iterations * (size - 2), 8 * 5 * size / others
            yield 2 * edges * (iterations + 1), 8 * 10 * size**2 / others
    else:  # BT and SP: two layers of the faces of all cells; three sweeps over the cells, there and back
        cells, (there, back) = sqrt(p), (30, 5) if name == "BT" else (22, 10)
        yield 6 * (iterations + 1), 8 * 10 * (cells - 1) * size**2 / p
        yield 3 * (cells - 1) * (iterations + 1), 8 * there * size**2 / p
        yield 3 * (cells - 1) * (iterations + 1), 8 * back * size**2 / p


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
    * `interaction_s`: CPU time of a local user's interaction, due in `response_deadline_s` (CISNE-P, 3.1).
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
    response_deadline_s: float = 0.4
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
