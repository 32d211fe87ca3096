"""One run of an option, and what it measures."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan

import numpy as np
import polars as pl

from sil.experiment.config import Experiment
from sil.experiment.site_in_use import SiteInUse
from sil.experiment.wiring import run_once
from sil.outcome.jobs import job_table
from sil.outcome.metrics import faults, held_machines
from sil.planning.plan_file import GoalTable
from sil.world.faults import SchedulerFault

CLASS = "class "
"""Before the name of a job class: its mean turnaround."""

_QUANTITIES = {
    "turnaround": "turnaround_time",
    "waiting": "waiting_time",
    "bounded_slowdown": "bounded_slowdown",
}


@dataclass(frozen=True)
class OptionRun:
    """One scheduler on one option in one replication; `mark` stands for the site, the workload and all code
    that may matter. Calling it gives each goal by its key, and the mean turnaround of each job class."""

    experiment: Experiment
    in_use: SiteInUse
    mark: str
    scheduler: str
    replication: int
    goals: tuple[GoalTable, ...]
    warm_up_jobs: int

    @cached_property
    def key(self) -> str:
        goals = " ".join(goal.key for goal in self.goals)
        text = f"{self.mark}|{self.scheduler}|{self.replication}|{goals}|{self.warm_up_jobs}"
        return hashlib.sha256(text.encode()).hexdigest()

    def __call__(self) -> dict[str, float]:
        """Raises SchedulerFault."""
        tables = run_once(self.experiment, self.in_use, 0, self.replication, self.scheduler)
        for fault in faults(tables.facts).iter_rows(named=True):
            where = f"under {self.scheduler}, in replication {self.replication}"
            message = f"{where}: {fault['message']}"
            raise SchedulerFault(fault["rule"], message, fault["time_s"], fault["job"])
        site = self.in_use.site
        jobs = job_table(tables.facts, site.n_machines).filter(pl.col("job_id") >= self.warm_up_jobs)
        found = {goal.key: _measured(goal, jobs, tables.facts, site.n_machines) for goal in self.goals}
        means = jobs.group_by("job_class").agg(pl.col("turnaround_time").mean()).sort("job_class")
        return found | {f"{CLASS}{name}": mean for name, mean in means.iter_rows()}


def _measured(goal: GoalTable, jobs: pl.DataFrame, facts: pl.DataFrame, n_machines: int) -> float:
    """NaN where there is no such job."""
    for column, name in (("job_class", goal.job_class), ("queue", goal.queue)):
        if name is not None:
            jobs = jobs.filter(pl.col(column) == name)
    if not len(jobs):
        return nan
    if goal.metric == "makespan":
        return _span(jobs["finish_time"]) - _first(jobs["submission_time"])
    if goal.metric == "utilisation":
        held = held_machines(facts)
        busy_s = float(((held["until_s"] - held["from_s"]) * held["tasks"]).sum())
        return 100.0 * busy_s / (n_machines * (_span(jobs["finish_time"]) - _first(jobs["submission_time"])))
    kind, _, quantity = goal.metric.partition("_")
    values = jobs[_QUANTITIES[quantity]].to_numpy()
    return float(values.mean() if kind == "mean" else np.percentile(values, 95))


def _span(column: pl.Series) -> float:
    return float(column.to_numpy().max())


def _first(column: pl.Series) -> float:
    return float(column.to_numpy().min())


def never_measured(goals: Sequence[GoalTable], measures: dict[str, float]) -> GoalTable | None:
    """A goal of which a run had no job."""
    return next((goal for goal in goals if measures[goal.key] != measures[goal.key]), None)
