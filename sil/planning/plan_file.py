"""The plan file: a site, its forecast load, offers with prices, and questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from sil.outcome.metrics import GPU_UTILISATION, OF_GPUS, PLAN_METRICS, UTILISATION
from sil.settings.experiment_file import (
    Experiment,
    Files,
    NodesTable,
    RunSettings,
    WorkloadTable,
    changed_keys,
    check_one_workload,
)
from sil.settings.files import paths
from sil.settings.log_tables import HistoryTable, LogTable, check_sizes
from sil.settings.notional import Notional
from site_db.files import toml_file
from site_db.files.toml_file import Count, Location, NotNegative, Positive, Table

Mistakes = Iterator[tuple[Location, str]]
"""Places in a plan file, and a sentence about each."""
Share = Annotated[float, Field(gt=0, lt=1, strict=True)]

if TYPE_CHECKING:
    MetricName = str
else:
    MetricName = Literal[tuple(PLAN_METRICS)]


class GoalTable(Table):
    """What to improve: a metric of all jobs, or of those of a class, a queue, or submitted at one of several
    clusters. On nodes without queues of their own, the queue of a job is its `partition`."""

    metric: MetricName = "mean_turnaround"
    job_class: str | None = None
    queue: str | None = None
    partition: str | None = None
    cluster: str | None = None

    @model_validator(mode="after")
    def _is_of_one_queue(self) -> GoalTable:
        if self.queue is not None and self.partition is not None:
            raise ValueError("a goal is of jobs in a queue or in a partition, and this one names both")
        return self

    @property
    def key(self) -> str:
        return " ".join([self.metric, *self.of])

    @property
    def of(self) -> tuple[str, ...]:
        """The class, the queue and the cluster of its jobs, as far as these are given."""
        return tuple(part for part in (self.job_class, self.in_queue, self.cluster) if part)

    @property
    def in_queue(self) -> str | None:
        return self.queue or self.partition

    @property
    def more_is_better(self) -> bool:
        return PLAN_METRICS[self.metric].more_is_better

    @property
    def label(self) -> str:
        """The label for people, with the unit."""
        metric = PLAN_METRICS[self.metric]
        of = f" of {self.job_class}" if self.job_class else " of jobs" if self.cluster else ""
        where = f" in queue {self.queue}" if self.queue else ""
        where += f" in partition {self.partition}" if self.partition else ""
        where += f" from {self.cluster}" if self.cluster else ""
        return f"{metric.title}{of}{where}" + (f" ({metric.unit})" if metric.unit else "")


MAX_UNITS = 10_000
"""The most units of one offer."""
PARTS = 20


class OfferTable(Table):
    """Something that can be bought, up to `limit` times: changes of a site (clusters are numbered from the
    second unit on), or more processors for the machine of a log; or what joins several clusters.

    * `scheduler`: A policy of a meta-scheduler over them, or a scheduler of all their nodes as one site.
    * `running_cost`: Each year.
    """

    name: str = Field(min_length=1)
    changes: tuple[Notional, ...] = ()
    processors: Count | None = None
    scheduler: str | None = None
    price: Positive
    running_cost: NotNegative = 0.0
    limit: Annotated[int, Field(ge=1, le=MAX_UNITS, strict=True)] = 1


class SizeTable(Table):
    """How many units of an offer does it take until the first goal reaches the target?"""

    offer: str
    target: Positive


class PlanLogTable(LogTable):
    """On a site of nodes, replications are drawn weeks, or all jobs are the only one. Without a site, the log
    is one of rigid jobs on its own machine, or one with `processors`, and its consecutive `parts` (20) are
    the replications."""

    processors: Count | None = None
    parts: Annotated[int, Field(ge=2, strict=True)] | None = None

    @property
    def n_parts(self) -> int:
        return PARTS if self.parts is None else self.parts

    @model_validator(mode="after")
    def _has_parts_or_weeks(self) -> PlanLogTable:
        if self.weeks is not None and (key := self.of_machine) is not None:
            both = "is for a log without a site, and log.weeks for the nodes of a site"
            raise ValueError(f"log.{key} {both}; leave out one of them")
        return self

    @property
    def of_machine(self) -> str | None:
        """A key that is given and is for a log on its own machine only."""
        return next((key for key in ("parts", "processors") if getattr(self, key) is not None), None)


class RetireTable(Table):
    """Which machines could be retired? Tries `count` of each kind, of these machine classes or of all."""

    count: Count = 1
    machine_classes: tuple[str, ...] = ()


OF_POLICY = ("policy", "policy_settings")


class PolicyTable(Table):
    """Another policy than that of the plan, or other settings of it: what would other weights, limits or
    partitions' tiers change?"""

    name: str = Field(min_length=1)
    policy: Files = ()
    policy_settings: Files = ()

    @property
    def given(self) -> tuple[tuple[str, Files], ...]:
        """What differs from the plan, by key."""
        return tuple((key, found) for key in OF_POLICY if (found := getattr(self, key)))


WITHOUT_EFFECT_ON_A_LOG = (
    "events",
    "rounds",
    "run_times",
    "planned_starts",
    "preemption",
    "experience",
    "checkpoint_interval_s",
    "checkpoint_cost_s",
    "guard.decision_cost",
    "guard.reasons",
)
"""Settings of runs that do not apply to rigid jobs on free nodes."""
WITHOUT_EFFECT_ON_OBSERVED_JOBS = ("run_times", "nodes.time_limits")
"""Settings that do not apply to jobs with the run times of a log or a history."""


class Plan(RunSettings):
    """A plan, as in its file.

    * `years`: For which running costs are added to the price.
    * `indifference`: Share of the first goal as it is today; smaller differences count as none.
    * `warm_up_jobs`: The first jobs, which are not measured because the site begins empty.
    """

    name: str
    question: str = ""
    site: str = ""
    workload: WorkloadTable | None = None
    history: HistoryTable | None = None
    log: PlanLogTable | None = None
    nodes: NodesTable = NodesTable()
    goals: tuple[GoalTable, ...] = (GoalTable(),)
    offers: tuple[OfferTable, ...] = ()
    policies: tuple[PolicyTable, ...] = ()
    years: NotNegative = 1.0
    budget: Positive | None = None
    rank_by: Literal["effect", "effect_per_price"] = "effect_per_price"
    size: SizeTable | None = None
    retire: RetireTable | None = None
    confidence: Share = 0.95
    indifference: Share = 0.01
    first_replications: Annotated[int, Field(ge=2, strict=True)] = 10
    most_replications: Annotated[int, Field(ge=2, strict=True)] = 400
    warm_up_jobs: Annotated[int, Field(ge=0, strict=True)] = 0

    @model_validator(mode="after")
    def _fits_together(self) -> Plan:
        check_one_workload(self.workload, self.history, self.log)
        drawn = self.workload or self.history
        check_sizes(None if drawn is None else drawn.jobs, self.most_replications, (), len(self.schedulers))
        for sentence in chain(self._of_forecast(), self._of_offers(), self._of_numbers()):
            raise ValueError(sentence)
        return self

    def _of_forecast(self) -> Iterator[str]:
        if self.site and self.log is not None and (key := self.log.of_machine) is not None:
            both = f"is for a log without a site, and the plan is for the nodes of '{self.site}'"
            yield f"log.{key} {both}; leave out one of them"
        needed, other, hint = "processors", "changes", "; a log for the nodes of a site needs 'site'"
        if self.is_on_site:
            needed, other, hint = other, needed, ', as changes = ["2 x MACHINE-CLASS"]'
        if self.clusters:
            needed, hint = "scheduler", ", which joins the clusters"
            tables = ("history", "log", "policies", "retire", "policy", "events")
            given = [key for key in tables if getattr(self, key)]
            yield from (f"{key} is not for several clusters; leave it out" for key in given)
        others = {other, "changes", "processors", "scheduler"} - {needed}
        for k, offer in enumerate(self.offers):
            if not getattr(offer, needed) or any(getattr(offer, key) for key in others):
                needs = f"needs '{needed}' with this forecast, and no '{other}'"
                yield f"offers[{k}] ('{offer.name}') {needs}{hint}"
        if (log := self.log_on_machine) is None:
            return
        tables = ("queues", "failures", "messages", "crashes", "clock_jumps", "retire")
        given = [name for name in tables if getattr(self, name)]
        given += ["goals"] if any(goal.of or goal.metric in OF_GPUS for goal in self.goals) else []
        given += ["nodes"] if self.nodes != NodesTable() else []
        if given:
            yield f"{given[0]} does not apply to the rigid jobs of a log; leave it out"
        usual: int = Plan.model_fields["most_replications"].default
        if self.most_replications not in (usual, self.replications):
            yield (
                f"most_replications is {self.most_replications}, which has no effect: each of the "
                f"{log.n_parts} parts of the log is a replication; set log.parts instead"
            )
        if log.n_parts < self.first_replications:
            least = f"first_replications, {self.first_replications}, or more"
            yield f"log.parts is {log.n_parts}; expected {least}"

    def _of_offers(self) -> Iterator[str]:
        names = [offer.name for offer in self.offers]
        options = [*names, *(table.name for table in self.policies)]
        for name in options:
            if options.count(name) > 1:
                yield f"two options are named '{name}'; rename one of them"
        if not self.goals:
            yield "goals is empty; leave the key out for the mean turnaround"
            return
        if not (self.offers or self.policies or self.retire):
            yield "the plan has no options: add [[offers]], [[policies]] or [retire]"
        if self.size is not None and self.size.offer not in names:
            yield f"size.offer is '{self.size.offer}'; expected one of {', '.join(names)}"
        if self.size is not None and self.goals[0].metric in (UTILISATION.key, GPU_UTILISATION.key):
            falls = "falls with each added machine; choose another first goal"
            yield f"size.target cannot be a utilisation, which {falls}"
        cheapest = min(self.offers, key=self.cost, default=None)
        if self.budget is not None and cheapest is not None and self.cost(cheapest) > self.budget:
            running = f" with running costs of {self.period}" if cheapest.running_cost else ""
            yield (
                f"budget is {self.budget:,g}, which buys nothing: the cheapest offer, '{cheapest.name}', "
                f"costs {self.cost(cheapest):,g}{running}"
            )

    def _of_numbers(self) -> Iterator[str]:
        drawn = self.workload or self.history
        if drawn is not None and drawn.jobs is not None and self.warm_up_jobs >= drawn.jobs:
            fewer = "expected fewer, so that some are measured"
            yield f"warm_up_jobs is {self.warm_up_jobs} of {drawn.jobs} jobs; {fewer}"
        if self.most_replications < self.first_replications:
            least = f"first_replications, {self.first_replications}, or more"
            yield f"most_replications is {self.most_replications}; expected {least}"

    @property
    def period(self) -> str:
        """The years for which running costs count, as text."""
        return "1 year" if self.years == 1 else f"{self.years:g} years"

    def without_effect(self) -> Mistakes:
        """Settings that differ from the default and have no effect with this forecast."""
        for applies, keys, on in (
            (not self.is_on_site, WITHOUT_EFFECT_ON_A_LOG, "the rigid jobs of a log"),
            (self.observed is not None, WITHOUT_EFFECT_ON_OBSERVED_JOBS, "jobs whose run times are known"),
        ):
            for key in changed_keys(self, keys if applies else ()):
                yield tuple(key.split(".")), f"{key} has no effect on {on}; leave it out"

    @property
    def is_on_site(self) -> bool:
        """Whether it is for a site; otherwise, it is for the machine of a log."""
        return self.log is None or self.log.weeks is not None or bool(self.site)

    @property
    def log_on_machine(self) -> PlanLogTable | None:
        """The log, if the plan is for its machine."""
        return None if self.is_on_site else self.log

    @property
    def observed(self) -> LogTable | HistoryTable | None:
        """The log or the past whose jobs arrive at the nodes of the site as they were; None if jobs are drawn
        at random, or are those of a log on its own machine."""
        past = None if self.history is None or self.history.jobs is not None else self.history
        return (self.log or past) if self.is_on_site else None

    @property
    def weeks(self) -> int | None:
        """The number of weeks of a log or of the past that are drawn for each replication."""
        return None if self.observed is None else self.observed.weeks

    @property
    def key_of_replications(self) -> str:
        """The key that sets the number of replications."""
        return "most_replications" if self.is_on_site else "log.parts"

    @property
    def replications(self) -> int:
        """The most replications."""
        log = self.log_on_machine
        return self.most_replications if log is None else min(self.most_replications, log.n_parts)

    @property
    def forecast(self) -> WorkloadTable:
        """The workload of jobs that are drawn. Raises LookupError if it has not been read from the history
        yet, or if they are those of a log."""
        if self.workload is None:
            raise LookupError("the forecast of this plan is no workload")
        return self.workload

    def cost(self, offer: OfferTable) -> float:
        """The price of an offer with running costs."""
        return offer.price + self.years * offer.running_cost

    def offer(self, name: str) -> OfferTable:
        return next(offer for offer in self.offers if offer.name == name)

    @property
    def files(self) -> list[Path]:
        """The files that state policies and events."""
        policies = (table.policy for table in self.policies)
        return [path for given in (self.policy, self.events, *policies) for path in paths(given)]

    def experiment(self, notional: tuple[Any, ...], policy: Iterable[tuple[str, Files]] = ()) -> Experiment:
        """The experiment of this plan on a changed site, or under another policy. A history of jobs must have
        been read."""
        names = [*RunSettings.model_fields, "name", "site", "nodes", "workload"]
        settings: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.workload is None and self.log is not None:
            settings["log"] = LogTable(**{key: getattr(self.log, key) for key in LogTable.model_fields})
        elif self.workload is None:
            settings["history"] = self.history
        return Experiment(**settings | {"notional": notional, **dict(policy)})


def read_plan(path: Path) -> Plan:
    """The plan in a TOML file. Raises InvalidFile with all its mistakes."""
    return toml_file.read(path, Plan)
