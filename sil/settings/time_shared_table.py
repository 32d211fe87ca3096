"""The table `shared_nodes` of an experiment file: a cluster of time-shared nodes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from scheduler.managers.queues import Unkept
from site_db.files.toml_file import Count, NotNegative, Period, Positive, Table

Share = Annotated[float, Field(ge=0, le=1, strict=True)]
Bounds = tuple[Share, Share]


class LocalUsersTable(Table):
    """Local users on a share of the nodes: of their CPU on average, what they demand while active, and their
    memory, as shares of a node's."""

    share_of_nodes: Share
    mean_cpu: float = Field(default=0.15, gt=0, lt=1, strict=True)
    demand: Bounds = (0.2, 1.0)
    mean_active_s: Period = 15.0
    memory: Bounds = (0.2, 0.5)
    mean_memory_s: Period = 300.0

    @model_validator(mode="after")
    def _is_consistent(self) -> LocalUsersTable:
        for key, (low, high) in (("demand", self.demand), ("memory", self.memory)):
            if low > high:
                raise ValueError(f"{key} goes from the lower to the higher, not from {low:g} to {high:g}")
        if self.mean_cpu >= sum(self.demand) / 2:
            raise ValueError(
                f"users who demand {sum(self.demand) / 2:g} of a CPU on average while they are active cannot "
                f"use {self.mean_cpu:g} of it over all time; mean_cpu has to be less"
            )
        return self


class CoschedulingTable(Table):
    """Imperfections of coscheduling: the share of communication that is lost while others hold the CPU, its
    own CPU usage, and its delay in stopping and restarting jobs."""

    loss: Share = 0.0
    overhead: float = Field(default=0.0, ge=0, lt=1, strict=True)
    control_delay_s: NotNegative = 0.0


class PeriodicTable(Table):
    """Jobs of a class do their work in periods, in each of which a task is to have this share of the CPU."""

    period_s: float = Field(ge=0.001, le=3600, strict=True)
    share: float = Field(gt=0, le=1, strict=True)


class InDetailTable(Table):
    """Nodes whose processes are simulated (`sharing = "detailed"`): the scheduler of the operating system and
    the coscheduler CCS; how long a process that waits for a message spins before it blocks; costs of a
    context switch and of reloading the caches; the period of CCS in user space, the CPU time of its samples
    and of each process in one, and the time of its events; what paging and interactions cost, and when the
    responses to these are due; and messages.

    * `traffic`: Messages and megabytes that each task sends, by job class and number of tasks; without, those
      of the NAS benchmark of that name, or `message_bytes` each `message_every_s`.
    * `periodic`: Job classes whose jobs have a period and need a share of the CPU in each.
    * `reservation`: What CCS reserves: `none`, or the `share` of periodic jobs; these then start where the
      reserved shares of a node stay within the social contract, and are refused if no node could have them.
    """

    cpu_scheduler: Literal["linux_2_4", "cfs"] = "linux_2_4"
    coscheduler: Literal[
        "none", "kernel", "kernel_without_dyn", "user_space", "user_space_without_dyn", "user_space_stopping"
    ] = "kernel"
    spin_s: NotNegative = 0.0
    switch_s: NotNegative = 3.8e-6
    reload_s: NotNegative = 100e-6
    period_s: float = Field(default=0.1, ge=0.001, strict=True)
    sample_s: NotNegative = 0.5e-3
    sample_each_s: NotNegative = 0.1e-3
    event_s: NotNegative = 1e-3
    bandwidth_mb_per_s: Positive = 12.5
    paging: NotNegative = 10.0
    interaction_s: float = Field(default=0.1, ge=0.001, strict=True)
    response_deadline_s: Positive = 0.4
    message_every_s: float = Field(default=0.02, ge=1e-6, strict=True)
    message_bytes: Count = 1460
    traffic: dict[str, dict[Count, tuple[Count, NotNegative]]] = Field(default_factory=dict)
    periodic: dict[str, PeriodicTable] = Field(default_factory=dict)
    reservation: Literal["none", "share"] = "share"


class NodeMonitorsTable(Table):
    """Sampling, smoothing and failures of the monitors of local load."""

    interval_s: Period = 5.0
    smoothing_s: Positive = 60.0
    delay_s: NotNegative = 0.0
    lost_share: float = Field(default=0.0, ge=0, lt=1, strict=True)
    untrue_share: Share = 0.0
    silent_share: Share = 0.0


def _predictor(name: str) -> str:
    """The name in results, which is the same for all equivalent names."""
    from scheduler.time_shared import predictors

    return str(predictors.read(name))


Predictor = Annotated[str, AfterValidator(_predictor)]


def _in_order(factors: tuple[float, float]) -> tuple[float, float]:
    if factors[0] > factors[1]:
        raise ValueError("a range goes from the lower to the higher, not from {:g} to {:g}".format(*factors))
    return factors


Factors = Annotated[tuple[Positive, Positive], AfterValidator(_in_order)]


class LimitsTable(Table):
    """Each job requests a limit of its turnaround, a uniform multiple of its time in isolation. Promises
    follow from `predictor`, by default the first one. Jobs with limits that cannot be promised are accepted
    as they are, accepted without their limit (`best_effort`), or refused."""

    times_alone: Factors
    predictor: Predictor | None = None
    margin: float = Field(default=1.5, ge=1, strict=True)
    unkept: Unkept = Unkept.ACCEPTED


class KindTable(Table):
    """A table of experiments on one kind of site, which no others have."""

    scenario: ClassVar[str]
    """The class of their scenario, as module:Class."""


class SharedNodesTable(KindTable):
    """Jobs share the nodes of a cluster that has a social contract, among themselves and with local users.

    * `tasks`: Numbers of tasks of the jobs of a class, equally likely; without, all that it was measured
      with.
    """

    scenario = "sil.runs.time_shared_scenario:TimeSharedScenario"
    cluster: str
    sharing: Literal["fluid", "coupled", "by_mpl", "by_cpu", "detailed"] = "fluid"
    tasks: dict[str, Annotated[tuple[Count, ...], Field(min_length=1)]] = Field(default_factory=dict)
    local_users: LocalUsersTable | None = None
    coscheduling: CoschedulingTable = CoschedulingTable()
    in_detail: InDetailTable = InDetailTable()
    monitors: NodeMonitorsTable = NodeMonitorsTable()
    predictors: Annotated[tuple[Predictor, ...], Field(validate_default=True)] = ("aware",)
    limits: LimitsTable | None = None

    @model_validator(mode="after")
    def _names_are_different(self) -> SharedNodesTable:
        doubled = [name for name in self.predictors if self.predictors.count(name) > 1]
        if doubled:
            raise ValueError(f"the predictor '{doubled[0]}' is listed twice")
        return self

    @model_validator(mode="after")
    def _can_promise(self) -> SharedNodesTable:
        if self.limits is None:
            return self
        wanted = self.limits.predictor
        if not self.predictors or (wanted is not None and wanted not in self.predictors):
            raise ValueError(
                f"limits are promised by what '{wanted or 'a predictor'}' predicts; list it in predictors"
            )
        return self
