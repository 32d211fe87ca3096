"""Where a plan's runs take place: a site or the machine of a log; and one run of an option there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import polars as pl

from sil.outcome.metrics import faults, metric_of_jobs
from sil.outcome.refused_and_failed import refusals, refused_jobs
from sil.planning.options import Option
from sil.planning.plan_file import GoalTable, Plan
from sil.planning.scenario.capacity import Load
from sil.world.guard.faults import SchedulerFault

Shares = Mapping[str, float]
"""Of all jobs that arrive, and of the core and GPU hours that these request, by JOBS, CORE_HOURS and
GPU_HOURS (left out where none are requested)."""
JOBS, CORE_HOURS, GPU_HOURS = "jobs", "core hours", "GPU hours"

CLASS = "class "
"""Prefix of a job class: its mean turnaround."""

REFUSED = "refused"
"""The share of arrived jobs that were refused."""


def refused_key(unit: str, why: str) -> str:
    """The share of jobs, or of requested hours, that were refused for one reason."""
    return f"{REFUSED} {unit}: {why}"


class OptionRunner(Protocol):
    """Where a plan's runs take place."""

    plan: Plan

    def run(self, option: Option, scheduler: str, replication: int) -> OptionRun:
        """One scheduler on one option in one replication."""
        ...

    def usable(self, option: Option, scheduler: str) -> Option:
        """The option without offers that no job of the forecast can use, whatever happens in a run."""
        ...

    def load(self, option: Option) -> Load | None:
        """The load of the option; None if all jobs are submitted at the beginning."""
        ...


class Simulated(NamedTuple):
    """The facts of a run, its runs of jobs, all jobs that ended, and those of them after the warm-up."""

    facts: pl.DataFrame
    runs: pl.DataFrame
    all_jobs: pl.DataFrame
    jobs: pl.DataFrame


def _no_reasons(refused: Collection[int]) -> Mapping[str, Shares]:
    """Only the rules of the site refuse jobs."""
    return {}


@dataclass(frozen=True)
class OptionRun:
    """One scheduler on one option in one replication; `mark` identifies the option, the jobs and the code.

    Calling it returns each goal by its key, the share of REFUSED jobs, that of each reason where reasons are
    known and, if there are classes, the mean turnaround of each. It can be pickled, and its result does not
    depend on where it is called.
    """

    plan: Plan
    mark: str
    scheduler: str
    replication: int
    capacity: int
    """What the tasks of runs use at a time: machines, cores of nodes, or processors."""
    where: str
    """For messages."""
    simulate: Callable[[], Simulated]
    refusals: Callable[[Collection[int]], Mapping[str, Shares]] = _no_reasons
    """Why these jobs were refused, and their shares of all jobs."""
    gpus: int = 0
    """Of all nodes."""
    has_classes: bool = False
    """Whether its jobs are of several classes, or may be."""

    @property
    def key(self) -> str:
        """Equal for runs with equal results."""
        goals = [goal.key for goal in self.plan.goals]
        identity = (
            self.mark,
            self.scheduler,
            self.replication,
            self.capacity,
            goals,
            self.plan.warm_up_jobs,
        )
        return hashlib.sha256("|".join(map(str, identity)).encode()).hexdigest()

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.scheduler}, in {self.where}"

    def __call__(self) -> dict[str, float]:
        """Raises SchedulerFault."""
        facts, runs, all_jobs, jobs = self.simulate()
        for fault in faults(facts).iter_rows(named=True):
            message = f"in {self.where}: {fault['message']}"
            raise SchedulerFault(fault["rule"], message, fault["time_s"], fault["job"])
        (refused,) = refusals(facts).iter_rows(named=True)
        found = {REFUSED: refused["refused"] / refused["arrived"]}
        if refused["refused"]:
            jobs_refused = refused_jobs(facts)["job"].to_list()
            for why, shares in self.refusals(frozenset(jobs_refused)).items():
                found |= {refused_key(unit, why): share for unit, share in shares.items()}
        on_site = self.plan.is_on_site
        for goal in self.plan.goals:
            held = runs.join(_of(goal, all_jobs), on="job_id", how="semi") if on_site else runs
            found[goal.key] = metric_of_jobs(goal.metric, _of(goal, jobs), held, self.capacity, self.gpus)
        if self.has_classes:
            means = jobs.group_by("job_class").agg(pl.col("turnaround_time").mean()).sort("job_class")
            found |= {f"{CLASS}{name}": mean for name, mean in means.iter_rows()}
        return found


def _of(goal: GoalTable, jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs to which a goal applies."""
    for column, name in (("job_class", goal.job_class), ("queue", goal.in_queue)):
        if name is not None:
            jobs = jobs.filter(pl.col(column) == name)
    return jobs
