"""One run of an option, and its measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from sil.outcome.jobs import job_table, run_table
from sil.outcome.metrics import faults, measured, refusals
from sil.planning.plan_file import GoalTable
from sil.planning.scenario.scenario import key_of
from sil.runs.composition import RunKey
from sil.runs.scenario import Scenario
from sil.world.guard.faults import SchedulerFault

CLASS = "class "
"""Prefix of a job class: its mean turnaround."""

REFUSED = "refused"
"""The share of arrived jobs that were refused."""


@dataclass(frozen=True)
class OptionRun:
    """One scheduler on one option in one replication; `mark` identifies the site, the workload and the code.
    Calling it returns each goal by its key, the share of REFUSED jobs, and the mean turnaround of each job
    class."""

    scenario: Scenario
    mark: str
    scheduler: str
    replication: int
    goals: tuple[GoalTable, ...]
    warm_up_jobs: int

    @cached_property
    def key(self) -> str:
        goals = [goal.key for goal in self.goals]
        return key_of(self.mark, self.scheduler, self.replication, goals, self.warm_up_jobs)

    def __call__(self) -> dict[str, float]:
        """Raises SchedulerFault."""
        tables = self.scenario.run(RunKey(0, self.replication, self.scheduler))
        for fault in faults(tables.facts).iter_rows(named=True):
            where = f"under {self.scheduler}, in replication {self.replication}"
            message = f"{where}: {fault['message']}"
            raise SchedulerFault(fault["rule"], message, fault["time_s"], fault["job"])
        site = self.scenario.in_use.site
        all_jobs = job_table(tables.facts, site.n_machines)
        jobs = all_jobs.filter(pl.col("job_id") >= self.warm_up_jobs)
        held = run_table(tables.facts)
        found = {}
        for goal in self.goals:
            theirs = held.join(_of(goal, all_jobs), left_on="job", right_on="job_id", how="semi")
            found[goal.key] = measured(goal.metric, _of(goal, jobs), theirs, site.n_machines)
        means = jobs.group_by("job_class").agg(pl.col("turnaround_time").mean()).sort("job_class")
        (refused,) = refusals(tables.facts).iter_rows(named=True)
        found[REFUSED] = refused["refused"] / refused["arrived"]
        return found | {f"{CLASS}{name}": mean for name, mean in means.iter_rows()}


def _of(goal: GoalTable, jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs to which a goal applies."""
    for column, name in (("job_class", goal.job_class), ("queue", goal.queue)):
        if name is not None:
            jobs = jobs.filter(pl.col(column) == name)
    return jobs


def never_measured(goals: Sequence[GoalTable], measures: dict[str, float]) -> GoalTable | None:
    """A goal for which a run had no job."""
    return next((goal for goal in goals if measures[goal.key] != measures[goal.key]), None)
