"""The plan file: a site, its forecast load, offers with prices, and questions."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sil.outcome.metrics import PLAN_METRICS
from sil.settings.experiment_file import (
    Experiment,
    NodesTable,
    RunSettings,
    WorkloadTable,
    check_one_workload,
)
from sil.settings.log_tables import HistoryTable, LogTable
from sil.settings.notional import Notional
from site_db import toml_file
from site_db.toml_file import Count, NotNegative, Positive, Table

Share = Annotated[float, Field(gt=0, lt=1, strict=True)]

MetricName = Literal[
    "mean_turnaround",
    "p95_turnaround",
    "mean_waiting",
    "p95_waiting",
    "mean_bounded_slowdown",
    "p95_bounded_slowdown",
    "makespan",
    "utilisation",
]


class GoalTable(Table):
    """What to improve: a metric of all jobs, or of those of a class or a queue."""

    metric: MetricName = "mean_turnaround"
    job_class: str | None = None
    queue: str | None = None

    @property
    def key(self) -> str:
        of = [self.metric, *(part for part in (self.job_class, self.queue) if part)]
        return " ".join(of)

    @property
    def more_is_better(self) -> bool:
        return PLAN_METRICS[self.metric].more_is_better

    @property
    def label(self) -> str:
        """For people, with the unit."""
        metric = PLAN_METRICS[self.metric]
        of = f" of {self.job_class}" if self.job_class else ""
        where = f" in queue {self.queue}" if self.queue else ""
        return f"{metric.title}{of}{where}" + (f" ({metric.unit})" if metric.unit else "")


class OfferTable(Table):
    """Something that can be bought, up to `limit` times: changes of a site (clusters are numbered from the
    second unit on), or more processors for the machine of a log."""

    name: str = Field(min_length=1)
    changes: tuple[Notional, ...] = ()
    processors: Count | None = None
    price: Positive
    running_cost: NotNegative = 0.0
    """Each year."""
    limit: Count = 1


class SizeTable(Table):
    """How many units of an offer does it take until the first goal reaches the target?"""

    offer: str
    target: Positive


class PlanLogTable(LogTable):
    """On a site of nodes, replications are drawn weeks. Without a site, the log is one of rigid jobs on its
    own machine, or one with `processors`, and its consecutive `parts` are the replications."""

    processors: Count | None = None
    parts: Annotated[int, Field(ge=2, strict=True)] = 20


class RetireTable(Table):
    """Which machines could be retired? Tries `count` of each kind, of these machine classes or of all."""

    count: Count = 1
    machine_classes: tuple[str, ...] = ()


WITHOUT_EFFECT_ON_A_LOG = (
    "rounds",
    "run_times",
    "planned_starts",
    "preemption",
    "experience",
    "guard.decision_cost",
    "guard.reasons",
)
"""Settings of runs that do not apply to rigid jobs on free nodes."""


class Plan(RunSettings):
    """A plan, as in its file."""

    name: str
    question: str = ""
    site: str = ""
    workload: WorkloadTable | None = None
    history: HistoryTable | None = None
    log: PlanLogTable | None = None
    nodes: NodesTable = NodesTable()
    goals: tuple[GoalTable, ...] = (GoalTable(),)
    offers: tuple[OfferTable, ...] = ()
    years: NotNegative = 1.0
    """For which running costs are added to the price."""
    budget: Positive | None = None
    rank_by: Literal["effect", "effect_per_price"] = "effect_per_price"
    size: SizeTable | None = None
    retire: RetireTable | None = None
    confidence: Share = 0.95
    indifference: Share = 0.01
    """Share of the first goal as it is today; smaller differences count as none."""
    first_replications: Annotated[int, Field(ge=2, strict=True)] = 10
    most_replications: Annotated[int, Field(ge=2, strict=True)] = 400
    warm_up_jobs: Annotated[int, Field(ge=0, strict=True)] = 0
    """The first jobs, which are not measured because the site begins empty."""

    @model_validator(mode="after")
    def _fits_together(self) -> Plan:
        check_one_workload(self)
        self._suits_its_forecast()
        names = [offer.name for offer in self.offers]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two offers are named '{name}'; rename one of them")
        if not self.goals:
            raise ValueError("goals is empty; leave the key out for the mean turnaround")
        if not self.offers and self.retire is None:
            raise ValueError("the plan has no offers and no retirements: add [[offers]] or [retire]")
        if self.size is not None and self.size.offer not in names:
            raise ValueError(f"size.offer is '{self.size.offer}'; expected one of {', '.join(names)}")
        if self.size is not None and self.goals[0].metric == "utilisation":
            raise ValueError(
                "size.target cannot be a utilisation, which falls with each added machine; choose another "
                "first goal"
            )
        if self.budget is not None and self.offers:
            cheapest = min(self.offers, key=self.cost)
            running = f" with running costs of {self.period}" if cheapest.running_cost else ""
            if self.cost(cheapest) > self.budget:
                raise ValueError(
                    f"budget is {self.budget:,g}, which buys nothing: the cheapest offer, '{cheapest.name}', "
                    f"costs {self.cost(cheapest):,g}{running}"
                )
        table = self.workload or self.history
        n_jobs = None if table is None else table.jobs
        if n_jobs is not None and self.warm_up_jobs >= n_jobs:
            raise ValueError(
                f"warm_up_jobs is {self.warm_up_jobs} of {n_jobs} jobs; expected fewer, so that some are "
                "measured"
            )
        if self.most_replications < self.first_replications:
            raise ValueError(
                f"most_replications is {self.most_replications}; expected first_replications, "
                f"{self.first_replications}, or more"
            )
        return self

    @property
    def period(self) -> str:
        """The years for which running costs count, as text."""
        return "1 year" if self.years == 1 else f"{self.years:g} years"

    def _suits_its_forecast(self) -> None:
        """A log has one kind of machine, and neither job classes nor queues."""
        for k, offer in enumerate(self.offers):
            needed, other = ("processors", "changes") if self.log else ("changes", "processors")
            if not getattr(offer, needed) or getattr(offer, other):
                raise ValueError(
                    f"offers[{k}] ('{offer.name}') needs '{needed}' with this forecast, and no '{other}'"
                )
        if self.log is None:
            return
        of_sites = ("queues", "failures", "retire")
        said = [name for name in of_sites if getattr(self, name)] + (["site"] if self.site else [])
        said += ["goals"] if any(goal.job_class or goal.queue for goal in self.goals) else []
        if said:
            raise ValueError(f"{said[0]} does not apply to the rigid jobs of a log; leave it out")
        if self.log.parts < self.first_replications:
            least = f"first_replications, {self.first_replications}, or more"
            raise ValueError(f"log.parts is {self.log.parts}; expected {least}")

    def without_effect(self) -> list[str]:
        """Keys whose values differ from the default, and have no effect with this forecast."""
        default = RunSettings(schedulers=self.schedulers)
        keys = WITHOUT_EFFECT_ON_A_LOG if self.log else ()
        return [key for key in keys if attrgetter(key)(self) != attrgetter(key)(default)]

    @property
    def replications(self) -> int:
        """The maximum."""
        return self.most_replications if self.log is None else min(self.most_replications, self.log.parts)

    @property
    def forecast(self) -> WorkloadTable:
        """The workload. Raises LookupError if it has not been read from the history yet."""
        if self.workload is None:
            raise LookupError("the forecast of this plan is in a history that has not been read")
        return self.workload

    def cost(self, offer: OfferTable) -> float:
        """Its price with running costs."""
        return offer.price + self.years * offer.running_cost

    def offer(self, name: str) -> OfferTable:
        return next(offer for offer in self.offers if offer.name == name)

    def experiment(self, notional: tuple[Any, ...]) -> Experiment:
        """The experiment of this plan on a changed site."""
        common = {name: getattr(self, name) for name in RunSettings.model_fields}
        return Experiment(workload=self.forecast, name=self.name, site=self.site, notional=notional, **common)


def read_plan(path: Path) -> Plan:
    """The plan in a TOML file. Raises InvalidFile with all its mistakes."""
    return toml_file.read(path, Plan)
