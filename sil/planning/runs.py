"""The runs of a plan: what one run of an option measures, and paired samples of these measures."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf, isnan
from typing import Annotated, NamedTuple, Protocol

import numpy as np
import polars as pl
from pydantic import AfterValidator

from scheduler import UserError
from sil.outcome.metrics import faults, metric_of_jobs
from sil.outcome.refused_and_failed import refusals, refused_jobs
from sil.outcome.statistics import Sample, differences
from sil.outcome.warm_up import WarmUp
from sil.planning.options import Option
from sil.planning.plan_file import GoalTable, Plan
from sil.workers.executor import FIRST, Attempt, Item
from sil.workers.runner import Runner
from sil.world.guard.faults import SchedulerFault

Shares = Mapping[str, float]
"""Shares of all jobs that arrive, and of the core and GPU hours that these request, by JOBS, CORE_HOURS and
GPU_HOURS (left out where none are requested)."""
UNITS = JOBS, CORE_HOURS, GPU_HOURS = "jobs", "core hours", "GPU hours"

CLASS = "class "
"""Prefix of a job class: its mean turnaround."""
REFUSED = "refused"
"""The share of arrived jobs that were refused; and with a unit and a reason, the share refused for that."""


WARM_UP = "warm-up "
"""Prefix of the fields of the run's WarmUp, if it has one."""


def refused_key(unit: str, why: str) -> str:
    return f"{REFUSED} {unit}: {why}"


class Simulated(NamedTuple):
    """The facts of a run, its runs of jobs, all jobs that ended, and those of them after the warm-up."""

    facts: pl.DataFrame
    runs: pl.DataFrame
    all_jobs: pl.DataFrame
    jobs: pl.DataFrame


@dataclass(frozen=True)
class OptionRun:
    """One scheduler on one option in one replication. It can be pickled, and its result does not depend on
    where it is called.

    * `mark` identifies the option, the jobs and the code; `where` is for messages.
    * `capacity`: what the tasks of runs use at a time: machines, cores of nodes, or processors; `gpus`: of
      all nodes.
    * `refusals`: the shares of these refused jobs by reason, where only the rules of the site refuse none.
    * `has_classes`: whether its jobs are of several classes, or may be.
    """

    plan: Plan
    mark: str
    scheduler: str
    replication: int
    capacity: int
    where: str
    simulate: Callable[..., Simulated]
    refusals: Callable[[Collection[int]], Mapping[str, Shares]] | None = None
    gpus: int = 0
    has_classes: bool = False

    @property
    def item(self) -> Item:
        return Item(self.key, self, gets_attempt=True, name=f"{self.scheduler}, in {self.where}")

    @property
    def key(self) -> str:
        """A key that is equal for runs with equal results."""
        goals, warm_up = [goal.key for goal in self.plan.goals], self.plan.warm_up_jobs
        identity = (self.mark, self.scheduler, self.replication, self.capacity, goals, warm_up)
        return hashlib.sha256("|".join(map(str, identity)).encode()).hexdigest()

    def __call__(self, attempt: Attempt = FIRST) -> dict[str, float]:
        """Each goal by its key, the share of REFUSED jobs, that of each reason where reasons are known, of a
        warm-up what a WarmUp has and, if there are classes, the mean turnaround of each. Raises
        SchedulerFault."""
        facts, runs, all_jobs, jobs = self.simulate(attempt)
        for fault in faults(facts).iter_rows(named=True):
            message = f"in {self.where}: {fault['message']}"
            raise SchedulerFault(fault["rule"], message, fault["time_s"], fault["job"])
        (refused,) = refusals(facts).iter_rows(named=True)
        found = {REFUSED: refused["refused"] / refused["arrived"]}
        if refused["refused"] and self.refusals is not None:
            jobs_refused = refused_jobs(facts)["job"].to_list()
            for why, shares in self.refusals(frozenset(jobs_refused)).items():
                found |= {refused_key(unit, why): share for unit, share in shares.items()}
        for goal in self.plan.goals:
            held = runs
            if self.plan.is_on_site:
                held = runs.join(_of(goal, all_jobs), on="job_id", how="semi")
            found[goal.key] = metric_of_jobs(goal.metric, _of(goal, jobs), held, self.capacity, self.gpus)
        if (warm_up := self._warm_up(runs, all_jobs, jobs)) is not None:
            found |= {f"{WARM_UP}{name}": value for name, value in warm_up._asdict().items()}
        if self.has_classes:
            means = jobs.group_by("job_class").agg(pl.col("turnaround_time").mean()).sort("job_class")
            found |= {f"{CLASS}{name}": mean for name, mean in means.iter_rows()}
        return found

    def _warm_up(self, runs: pl.DataFrame, all_jobs: pl.DataFrame, jobs: pl.DataFrame) -> WarmUp | None:
        submitted_s = all_jobs["submission_time"].sort().to_numpy()
        begins_s = jobs["submission_time"].to_numpy().min(initial=inf)
        n_before = int(np.searchsorted(submitted_s, begins_s))
        if jobs.is_empty() or not n_before:
            return None
        metrics = (metric_of_jobs(key, jobs, runs, self.capacity) for key in ("mean_waiting", "utilisation"))
        wait_s, utilisation = metrics
        return WarmUp(n_before, float(begins_s - submitted_s[0]), wait_s, utilisation / 100.0)


def _of(goal: GoalTable, jobs: pl.DataFrame) -> pl.DataFrame:
    """The jobs to which a goal applies."""
    for column, name in (("job_class", goal.job_class), ("queue", goal.in_queue), ("home", goal.cluster)):
        if name is not None:
            jobs = jobs.filter(pl.col(column) == name)
    return jobs


class OptionRunner(Protocol):
    """Where a plan's runs take place: a site, or the machine of a log (`sil.planning.sites`)."""

    plan: Plan

    def run(self, option: Option, scheduler: str, replication: int) -> OptionRun: ...

    def usable(self, option: Option, scheduler: str) -> Option: ...


# -- samples -------------------------------------------------------------------------------------------------


class GoalNeverMeasured(UserError):
    """A run had no job of a goal's class or queue. The message is one sentence for the user."""


class RefusedShares(NamedTuple):
    """The share of jobs that are refused, and on nodes the shares by reason."""

    share: float
    reasons: Mapping[str, Shares]


class OptionSamples:
    """The measures of options, by name, under one scheduler, with common random numbers: in each replication,
    all options see the same jobs and run times."""

    def __init__(self, scenario: OptionRunner, runs: Runner, scheduler: str) -> None:
        self.plan = scenario.plan
        self.goal = self.plan.goals[0]
        self.sign = 1.0 if self.goal.more_is_better else -1.0
        self.scheduler = scheduler
        self._scenario, self._runs = scenario, runs
        self._measured: dict[str, list[dict[str, float]]] = {}
        self._kind = Annotated[dict[str, float], AfterValidator(self._with_goals)]

    def _with_goals(self, measures: dict[str, float]) -> dict[str, float]:
        if not {REFUSED, *(goal.key for goal in self.plan.goals)} <= measures.keys():
            raise ValueError("a goal is missing")
        return measures

    def ensure(self, options: Iterable[Option], n: int) -> None:
        """Carry out at least `n` replications of each option. Raises GoalNeverMeasured and what runs
        raise."""
        wanted = [
            (replication, option)
            for option in {option.name: option for option in options}.values()
            for replication in range(self.count(option), n)
        ]
        # By replication, so that an interrupted command leaves a balanced set of runs.
        wanted.sort(key=lambda one: one[0])
        works = [self._scenario.run(option, self.scheduler, replication) for replication, option in wanted]
        results = self._runs.results([work.item for work in works], self._kind)
        for (replication, option), measures in zip(wanted, results, strict=True):
            for goal in self.plan.goals:
                if isnan(measures[goal.key]):
                    why = _why_nothing(goal, measures)
                    raise GoalNeverMeasured(
                        f"the goal '{goal.key}' cannot be measured: in replication {replication} {why}"
                    )
            self._measured.setdefault(option.name, []).append(measures)

    def count(self, option: Option) -> int:
        return len(self._measured.get(option.name, ()))

    def refused(self, option: Option) -> RefusedShares:
        """The mean shares of arrived jobs that were refused."""
        found = self._measured.get(option.name, [])

        def mean(key: str) -> float:
            return sum(measures.get(key, 0.0) for measures in found) / len(found) if found else 0.0

        reasons = sorted({why for measures in found for why in _reasons(measures)})
        by_reason = {why: {unit: mean(refused_key(unit, why)) for unit in UNITS} for why in reasons}
        return RefusedShares(mean(REFUSED), by_reason)

    def warm_up(self, option: Option) -> WarmUp | None:
        """That of replications in the mean; None if they have none."""
        keys = [f"{WARM_UP}{name}" for name in WarmUp._fields]
        found = [of for of in self._measured.get(option.name, []) if keys[0] in of]
        return WarmUp.mean(WarmUp(*map(of.__getitem__, keys)) for of in found) if found else None

    def values(self, option: Option, key: str | None = None, n: int | None = None) -> Sample:
        """The values of a goal, the first by default, in the first n replications."""
        key = self.goal.key if key is None else key
        return np.array([measures[key] for measures in self._measured[option.name][:n]])

    def gains(self, option: Option, base: Option, key: str | None = None) -> Sample:
        """How much better than `base` it is, in each replication that both have: by the first goal, or by the
        mean turnaround of a job class."""
        n = min(self.count(option), self.count(base))
        gained = differences(self.values(option, key, n), self.values(base, key, n))
        return (self.sign if key is None else -1.0) * gained

    def identity(self, option: Option) -> str:
        """Equal for options whose runs are the same in all replications, since their changes are, except for
        what jobs cannot use."""
        return self._scenario.run(self._scenario.usable(option, self.scheduler), self.scheduler, 0).key

    def job_classes(self, option: Option, n: int) -> list[str]:
        """The job classes with jobs in each of the first n replications."""
        names = set.intersection(*map(set, self._measured[option.name][:n]))
        return sorted(key.removeprefix(CLASS) for key in names if key.startswith(CLASS))


def _reasons(measures: Mapping[str, float]) -> list[str]:
    prefix = refused_key(JOBS, "")
    return [key.removeprefix(prefix) for key in measures if key.startswith(prefix)]


def _why_nothing(goal: GoalTable, measures: Mapping[str, float]) -> str:
    of = " of " * bool(goal.of) + " and ".join(goal.of)
    if reasons := " or ".join(_reasons(measures)):
        return f"all jobs{of} were refused: they {reasons}; forecast others"
    if measures[REFUSED] == 1.0:
        return "the site's rules for users and queues refused all jobs; forecast others"
    if measures[REFUSED] > 0.0:
        return f"the site's rules for users and queues refused every job{of}"
    return f"no job{of} arrived; forecast more jobs, or a larger share of these"
