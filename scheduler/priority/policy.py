"""The policy of a site in Slurm's terms: weights of priorities, a tree of associations, qualities of service.

<https://slurm.schedmd.com/priority_multifactor.html>, <https://slurm.schedmd.com/resource_limits.html>
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import inf

PARENT = -1
"""The shares of an association with `Fairshare=parent`: those of its account are used."""
ROOT = "root"
"""The account of which all others are children."""
NORMAL = "normal"
"""The QOS that Slurm makes by itself."""
RESET_PERIODS = ("now", "daily", "weekly", "monthly", "quarterly", "yearly")
"""How often Slurm can set usage to 0."""
TRES = ("cpu", "mem", "node", "gres/gpu", "billing")
"""The resources that limits and weights may name; memory in MiB."""


@dataclass(frozen=True)
class ResourceLimits:
    """What runs or is submitted at a time, at most; None and missing names = no limit.

    `tres` bounds amounts of TRES, `per_node` those of a job on each of its nodes (the mean), `running` the
    jobs that run, `submitted` those that wait or run, `wall_s` the time limit of one job. Of TRES-minutes,
    `minutes` bounds those of a job, or those that were used and decay (as "wall": of run time), and
    `minutes_to_run` those that runs have left by their time limits.
    """

    tres: Mapping[str, float] = field(default_factory=dict)
    running: int | None = None
    submitted: int | None = None
    wall_s: float | None = None
    minutes: Mapping[str, float] = field(default_factory=dict)
    minutes_to_run: Mapping[str, float] = field(default_factory=dict)
    per_node: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Association:
    """An account, or a user in an account.

    * `parent`: the account above; of a user, `account`; of ROOT, "".
    * `shares`: Slurm's `Fairshare`; PARENT = those of the account.
    * `priority`: of the factor of associations.
    * `group`: limits of all jobs below it (`Grp...`).
    * `own`: limits of each association below it, unless that has its own (`MaxJobs`, `MaxSubmitJobs`).
    * `job`: limits of one job (`MaxTRESPerJob`, `MaxWall`).
    * `qos`: the names that its jobs may have, the first by default; empty = any.
    * `usage`: weighted TRES-seconds before the first job; of an account, without those of associations below.
    * `used`: the TRES-minutes before the first job, for limits; of an account, with those of all below it.
    """

    account: str
    user: str = ""
    parent: str = ROOT
    shares: int = 1
    priority: int = 0
    group: ResourceLimits = field(default_factory=ResourceLimits)
    own: ResourceLimits = field(default_factory=ResourceLimits)
    job: ResourceLimits = field(default_factory=ResourceLimits)
    qos: tuple[str, ...] = ()
    usage: float = 0.0
    used: Mapping[str, float] = field(default_factory=dict)


class PreemptMode(StrEnum):
    """What becomes of a preempted job (`PreemptMode`)."""

    OFF = "off"
    """It is not preempted."""
    REQUEUE = "requeue"
    CANCEL = "cancel"
    SUSPEND = "suspend"
    """It stops running, and goes on when its CPUs are free again."""


@dataclass(frozen=True)
class Preempted:
    """How jobs are preempted: in which mode, by default that of the site; `grace_s` after the decision, in
    which a run may still end; and not before they have run for `exempt_s`, by default as at the site."""

    mode: PreemptMode | None = None
    grace_s: float = 0.0
    exempt_s: float | None = None


@dataclass(frozen=True)
class Preemption:
    """Which jobs preempt others (`PreemptType`): those of a QOS the ones of the QOS that it `preempts`, or
    those of a partition the ones of partitions of a lower tier (`by_partition`).

    Jobs of the lowest priority of QOS, or tier, are preempted first; of these, those on few nodes, or with
    `youngest_first`, before both, those that started last. A job that is queued again waits for
    `requeue_delay_s` before it may start. `mode` and `exempt_s`: see `Preempted`.
    """

    by_partition: bool
    mode: PreemptMode
    exempt_s: float = 0.0
    youngest_first: bool = False
    requeue_delay_s: float = 121.0  # cred_expire and a second


@dataclass(frozen=True)
class QualityOfService:
    """A quality of service (QOS): limits of all its jobs together, of each user's, of each account's, of one
    job; the factor by which its jobs' usage counts; the names of those whose jobs it `preempts`; and whether
    its limits come before those of the partition's QOS (`over_partition`)."""

    name: str
    priority: int = 0
    group: ResourceLimits = field(default_factory=ResourceLimits)
    of_user: ResourceLimits = field(default_factory=ResourceLimits)
    of_account: ResourceLimits = field(default_factory=ResourceLimits)
    job: ResourceLimits = field(default_factory=ResourceLimits)
    usage_factor: float = 1.0
    preempts: tuple[str, ...] = ()
    preempted: Preempted = Preempted()
    over_partition: bool = False


@dataclass(frozen=True)
class Weights:
    """The weights of the factors of a priority (`PriorityWeight...`); `tres` by name."""

    age: float = 0.0
    assoc: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    tres: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Multifactor:
    """How the priority of a job is calculated (`PriorityType=priority/multifactor`).

    * `half_life_s`: of usage; infinite = it does not decay.
    * `reset_period`: how often usage is set to 0 (`PriorityUsageResetPeriod`), in small letters; empty =
      never. `resets_s`: at which times that is.
    * `max_age_s`: the age from which on the factor is 1.
    * `period_s`: how often priorities are calculated again.
    * `fair_tree`: the algorithm of fair share; otherwise the classic one, with a dampening factor.
    * `favours_small`: small jobs have a large size factor; `relative_to_time`: size by time limit.
    * `not_normalised`: those of `assoc`, `part`, `qos` and `tres` whose factors are not divided by their
      largest value.
    """

    weights: Weights = field(default_factory=Weights)
    half_life_s: float = 7 * 86_400.0
    max_age_s: float = 7 * 86_400.0
    period_s: float = 300.0
    fair_tree: bool = True
    dampening: float = 1.0
    favours_small: bool = False
    relative_to_time: bool = False
    not_normalised: tuple[str, ...] = ()
    reset_period: str = ""
    resets_s: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("half_life_s", "max_age_s", "period_s", "dampening"):
            if not (value := getattr(self, name)) > 0:
                raise ValueError(f"{name} is {value:g}; expected more than 0")
        if self.period_s == inf:
            raise ValueError("period_s is infinite; expected seconds")


@dataclass(frozen=True)
class PartitionPolicy:
    """What a partition adds: `tier` (a higher one is served first), `job_factor` of the priorities of its
    jobs, a QOS whose limits its jobs have, too, and the weights of TRES in its billing."""

    tier: int = 1
    job_factor: int = 1
    qos: str = ""
    billing: Mapping[str, float] = field(default_factory=dict)
    preempted: Preempted = Preempted()


@dataclass(frozen=True)
class BackfillParameters:
    """Slurm's `SchedulerParameters`, with its defaults; 0 = no limit, unless said otherwise.

    * `default_queue_depth`: the jobs that the main scheduler tests at each event; `sched_interval`: the
      seconds after which it tests all.
    * `bf_interval`: the seconds from a cycle of backfilling to the next; 0 = one at each event.
    * `bf_window`: how far, in minutes, a reservation may be ahead. `bf_resolution`: the seconds to which
      reservations are rounded down; 0 = they are exact.
    * `bf_max_job_test`: the jobs that are tested in a cycle; 0 = no backfilling. `bf_max_job_start`: those
      that are started.
    * `bf_max_job_user`, `bf_max_job_part`, `bf_max_job_assoc`: the jobs of a user, of a partition and of an
      association that a cycle tests.
    * `bf_job_part_count_reserve`: the first jobs of each partition that get reservations. Others start only
      if they can now.
    * `bf_min_age_reserve`: the seconds for which a job has to wait before it can delay others.
    * `reserve`: whether a reservation is for whole `nodes`, as in Slurm, or for the `parts` that a job uses.
    * `selection`: the node selection.
    """

    default_queue_depth: int = 100
    sched_interval: int = 60
    bf_interval: int = 30
    bf_window: int = 1440
    bf_resolution: int = 60
    bf_max_job_test: int = 500
    bf_max_job_start: int = 0
    bf_max_job_user: int = 0
    bf_max_job_part: int = 0
    bf_max_job_assoc: int = 0
    bf_job_part_count_reserve: int = 0
    bf_min_age_reserve: int = 0
    reserve: str = "nodes"
    selection: str = "consecutive"

    def __post_init__(self) -> None:
        for each in fields(self):
            if isinstance(value := getattr(self, each.name), int) and value < 0:
                raise ValueError(f"{each.name} is {value}; expected at least 0")
        if self.reserve not in ("nodes", "parts"):
            raise ValueError(f"reserve is '{self.reserve}'; expected nodes or parts")


@dataclass(frozen=True)
class SitePolicy:
    """The policy of a site. Without `multifactor`, jobs are served in order of arrival.

    Of the `associations` of a user, the first is that of jobs that name no account.
    `enforces`: those of `associations`, `limits`, `qos` and `safe` that Slurm enforces.
    """

    multifactor: Multifactor | None = None
    associations: tuple[Association, ...] = ()
    qualities: Mapping[str, QualityOfService] = field(default_factory=dict)
    partitions: Mapping[str, PartitionPolicy] = field(default_factory=dict)
    enforces: tuple[str, ...] = ()
    preemption: Preemption | None = None
    notes: tuple[str, ...] = ()
    """What of the files is not modelled, a sentence each."""
    scheduling: Mapping[str, int] = field(default_factory=dict)
    """The parameters of Slurm's schedulers that are not the default ones."""
