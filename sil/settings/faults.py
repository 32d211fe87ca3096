"""The tables of experiment files for faults: failures, slow machines, lost messages, crashes, clock jumps;
and limits for the decisions of schedulers."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from sil.settings.decision_costs import check_decision_cost
from sil.settings.replays import NONE
from site_db.files.toml_file import Count, NotNegative, Period, Positive, Table
from site_db.site_file.machine_names import expand

Share = Annotated[float, Field(ge=0, le=1, strict=True)]
PositiveShare = Annotated[float, Field(gt=0, le=1, strict=True)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]
Machines = Annotated[Names, AfterValidator(lambda names: tuple(expand(names)))]
"""Machines by name, or in Slurm's notation: `n[1-4]`."""


class FlappingTable(Table):
    """After a repair, what has failed is up for `each_s`, then down for `each_s`, this many `times`."""

    times: Count
    each_s: Period


class RandomFailuresTable(Table):
    """Failures and repairs at random; times are exponential."""

    mean_time_between_failures_s: Period
    mean_time_to_repair_s: Positive
    flapping: FlappingTable | None = None


class GroupsTable(RandomFailuresTable):
    """Machines that fail and are repaired together: all of `machines`, or each `size` consecutive ones."""

    machines: Machines | None = None
    size: Count | None = None

    @model_validator(mode="after")
    def _is_grouped(self) -> GroupsTable:
        if self.machines is None and self.size is None:
            raise ValueError("give the machines that fail together, like ['n[1-4]'], or the size of a group")
        return self


class SlowMachinesTable(Table):
    """Machines, listed or a share drawn at random, on which runs that start within the period take `factor`
    times as long."""

    factor: Positive
    machines: Machines | None = None
    share: Share | None = None
    from_s: NotNegative = 0.0
    to_s: Positive | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> SlowMachinesTable:
        if (self.machines is None) == (self.share is None):
            raise ValueError("give either machines, like ['n[1-4]'], or their share")
        if self.to_s is not None and self.to_s <= self.from_s:
            raise ValueError(f"to_s is {self.to_s:g}, which is not after from_s, {self.from_s:g}")
        return self


class FailingJobsTable(Table):
    """Jobs, a share of those of some classes (of all), whose runs fail with a probability, after a share of
    their run time."""

    share: Share = 1.0
    job_classes: Names | None = None
    probability: PositiveShare = 1.0
    after: PositiveShare = 0.5

    @model_validator(mode="after")
    def _are_some(self) -> FailingJobsTable:
        if not {"share", "job_classes", "probability"} & self.model_fields_set:
            raise ValueError("give the share of the jobs, their job_classes, or the probability of a failure")
        return self


class FailuresTable(Table):
    """The means are those of every machine by itself; the other tables have names of the user's choice."""

    mean_time_between_failures_s: Period | None = None
    mean_time_to_repair_s: Positive | None = None
    flapping: FlappingTable | None = None
    groups: dict[str, GroupsTable] = Field(default_factory=dict)
    interconnects: RandomFailuresTable | None = None
    slow_machines: dict[str, SlowMachinesTable] = Field(default_factory=dict)
    jobs: dict[str, FailingJobsTable] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_both_means(self) -> FailuresTable:
        given = [self.mean_time_between_failures_s, self.mean_time_to_repair_s]
        if None in given and (given != [None, None] or self.flapping is not None):
            raise ValueError(
                "the failures of every machine by itself need both mean_time_between_failures_s and "
                "mean_time_to_repair_s"
            )
        return self

    @property
    def machines(self) -> RandomFailuresTable | None:
        """The failures of every machine by itself."""
        between_s, repair_s = self.mean_time_between_failures_s, self.mean_time_to_repair_s
        if between_s is None or repair_s is None:
            return None
        return RandomFailuresTable(
            mean_time_between_failures_s=between_s, mean_time_to_repair_s=repair_s, flapping=self.flapping
        )


LossShare = Annotated[float, Field(ge=0, lt=1, strict=True)]


class PartitionTable(Table):
    """From `from_s` to `to_s`, no message passes between the manager and these machines."""

    machines: Machines
    from_s: NotNegative
    to_s: Positive

    @model_validator(mode="after")
    def _is_an_interval(self) -> PartitionTable:
        if self.to_s <= self.from_s:
            raise ValueError(f"to_s is {self.to_s:g}, which is not after from_s, {self.from_s:g}")
        return self


class MessagesTable(Table):
    """Orders and notices between the manager and the machines, and what it does if they do not arrive.

    Delays are exponential. A message that is reordered is held back for `reordered_by_s`. From `until_s` on,
    the network is reliable.

    * `retry_s`: Seconds until an order without an answer is sent again; doubled each time, at most 16 times.
    * `ping_s`: Seconds between pings of a machine that has runs.
    * `pings`: Unanswered pings in a row after which the runs of a machine are given up.
    """

    lost_share: LossShare = 0.0
    mean_delay_s: NotNegative = 0.0
    duplicated_share: Share = 0.0
    reordered_share: Share = 0.0
    reordered_by_s: Positive = 60.0
    until_s: Positive | None = None
    partitions: tuple[PartitionTable, ...] = ()
    retry_s: Period = 10.0
    ping_s: Period = 60.0
    pings: Count = 5


class CrashesTable(Table):
    """The manager's process ends after exponential times of a mean, and is back after `down_s`."""

    mean_time_between_crashes_s: Period
    down_s: NotNegative = 60.0


class ClockJumpTable(Table):
    """From `at_s` on, the manager's clock is `offset_s` ahead; negative: behind."""

    at_s: NotNegative
    offset_s: Annotated[float, Field(allow_inf_nan=False, strict=True)]


DecisionCostName = Annotated[str, AfterValidator(check_decision_cost)]


class GuardTable(Table):
    """Limits and costs of decisions, and whether schedulers that are not built in are asked twice.

    * `memory_limit_mb`: For schedulers that are not built in, in addition to what the testbed uses itself.
    """

    decision_limit_s: Positive = 60.0
    memory_limit_mb: Positive | None = None
    ask_twice: bool = True
    decision_cost: DecisionCostName | dict[str, DecisionCostName] = NONE
    reasons: bool = False

    def cost_of(self, scheduler: str) -> str:
        """The decision cost, by name; if it is given for some schedulers, none for the others."""
        costs = self.decision_cost
        return costs if isinstance(costs, str) else costs.get(scheduler, NONE)
