"""Jobs with a period and a needed share: in each period, each task is to compute for a share of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from scheduler.coscheduling.ports import ReservedShare
from scheduler.model import Job
from scheduler.resource_manager import Characterisation
from scheduler.time_shared.social_contract import Requirement


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
