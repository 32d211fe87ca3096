"""The tables `messages`, `crashes` and `clock_jumps` of experiment files: a resource manager that reaches the
machines over a network, and may crash."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from sil.settings.faults.failures import Machines, Share
from site_db.files.toml_file import Count, NotNegative, Period, Positive, Table

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
    """

    lost_share: LossShare = 0.0
    mean_delay_s: NotNegative = 0.0
    duplicated_share: Share = 0.0
    reordered_share: Share = 0.0
    reordered_by_s: Positive = 60.0
    until_s: Positive | None = None
    partitions: tuple[PartitionTable, ...] = ()
    retry_s: Period = 10.0
    """Until an order without an answer is sent again; doubled each time, up to 16 times this."""
    ping_s: Period = 60.0
    """Between pings of a machine that has runs."""
    pings: Count = 5
    """Runs on a machine that has not answered so many in a row are given up."""


class CrashesTable(Table):
    """The manager's process ends after exponential times of a mean, and is back after `down_s`."""

    mean_time_between_crashes_s: Period
    down_s: NotNegative = 60.0


class ClockJumpTable(Table):
    """From `at_s` on, the manager's clock is `offset_s` ahead; negative: behind."""

    at_s: NotNegative
    offset_s: Annotated[float, Field(allow_inf_nan=False, strict=True)]
