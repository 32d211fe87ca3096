"""The answers to a plan's questions, scheduler by scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import nan
from pathlib import Path

from scheduler import UserError
from scheduler.managers.queues import MappingPolicy
from scheduler.registry import SchedulerNotLoaded
from sil.outcome.warm_up import WarmUp
from sil.planning.checks import added_nodes, idle_parts, mistakes
from sil.planning.load import Load
from sil.planning.options import AS_IT_IS, Option, bought, cost, one_of_each, retirements
from sil.planning.plan_file import Plan
from sil.planning.ranking import Criteria, Effect, OptionRanking, rank_options
from sil.planning.runs import GoalNeverMeasured, OptionSamples, RefusedShares
from sil.planning.searches import BestBuy, Size, best_buy, purchases, size
from sil.planning.sites import OnLog, OnSite
from sil.report.page import Notice
from sil.runs.scenario import DoesNotFit
from sil.runs.under_test import Find, InProcess, UnderTest, resolve
from sil.settings.replays import NONE
from sil.site.past import past_arrivals
from sil.site.what_if_site import InapplicableChange
from sil.workers.runner import ItemDied, Runner
from sil.workload.job_log import JobLog
from sil.world.guard.faults import SchedulerFault
from site_db.files import toml_file
from site_db.files.toml_file import Location
from site_db.store import Address

Watch = Callable[[str, str, int, int], None]
"""Called at each look with scheduler, question, and the numbers of replications and of open pairs."""

RUNS = "runs.db"
"""The file of finished runs in the folder of a plan."""
PRICED = EACH_OFFER, BEST_BUY = "each offer", "best buy"
POLICIES, RETIRE = "policies", "retire"
"""Questions that compare options."""

Fault = SchedulerFault | GoalNeverMeasured
"""Why a scheduler has no answers."""


class AllAtFault(Exception):
    """Each scheduler of a plan has broken a rule."""

    def __init__(self, faults: Mapping[str, Fault]) -> None:
        super().__init__("; ".join(fault_texts(faults)))
        self.faults = faults


def fault_texts(faults: Mapping[str, Fault]) -> list[str]:
    """A sentence for each scheduler that has no answers, by name."""
    return [
        fault.by(scheduler, is_simulated=True)
        if isinstance(fault, SchedulerFault)
        else f"{scheduler} has no result: {fault}"
        for scheduler, fault in faults.items()
    ]


@dataclass(frozen=True)
class Answer:
    """The answers under one scheduler; None for questions that were not asked. Effects are relative to
    `base`: the site as it is or, if that cannot carry the forecast, the cheapest option that can. `refused`
    are the jobs that are refused there."""

    scheduler: str
    base: Option
    refused: RefusedShares
    marginal: OptionRanking | None
    best_buy: BestBuy | None
    size: Size | None
    retire: OptionRanking | None
    policies: OptionRanking | None = None
    warm_up: WarmUp | None = None
    """That of the runs of `base`."""

    @property
    def rankings(self) -> dict[str, OptionRanking]:
        """The rankings of options by question."""
        best = None if self.best_buy is None else self.best_buy.ranking
        found = {EACH_OFFER: self.marginal, BEST_BUY: best, POLICIES: self.policies, RETIRE: self.retire}
        return {question: ranking for question, ranking in found.items() if ranking is not None}


@dataclass(frozen=True)
class Answers:
    """The answers to a plan.

    * `site` is its name, empty for the machine of a log; `down`, the machines and interconnects that are down
      today; `binding`, the queues whose jobs keep the machine to which they were mapped.
    * `loads` are those of the site as it is and of each offer, by name; None if all jobs are submitted at the
      beginning. After `indispensable` retirements, the site could not carry the forecast.
    * `faults` are those of schedulers without answers; `without_effect`, sentences on offers and policies.
    * `validated` says what a validation of the site is good for.
    * Of nodes, `model` says how they are modelled, `added` which ones offers add, and `log` has the jobs of
      which weeks are drawn.
    """

    plan: Plan
    site: str
    down: tuple[str, ...]
    binding: tuple[str, ...]
    answers: tuple[Answer, ...]
    loads: dict[str, Load | None]
    indispensable: tuple[str, ...]
    faults: Mapping[str, Fault] = field(default_factory=dict)
    without_effect: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    log: JobLog | None = None
    validated: Notice | None = None

    def left_out(self) -> Iterator[tuple[str, str, Option]]:
        """Each option that could not be compared, with its scheduler and question."""
        overloaded = {name for name, load in self.loads.items() if load is not None and load.is_too_much}
        for answer in self.answers:
            alone = [option for option in one_of_each(self.plan) if option.name in overloaded]
            bought = () if answer.best_buy is None else answer.best_buy.left_out
            combined = [option for option in bought if option.name not in self.loads]
            for question, options in ((EACH_OFFER, alone), (BEST_BUY, combined)):
                for option in options:
                    yield answer.scheduler, question, option

    def effects(self) -> Iterator[tuple[str, str, OptionRanking, Effect]]:
        """Each effect, with its scheduler, question and ranking."""
        for answer in self.answers:
            for question, ranking in answer.rankings.items():
                for effect in ranking.effects:
                    yield answer.scheduler, question, ranking, effect


class Prepared:
    """A plan whose offers and schedulers are validated against its site. `find` finds schedulers by name.

    Raises SchedulerNotLoaded, UserError, and what SiteSource raises.
    """

    def __init__(self, plan: Plan, source: Path, address: Address | None, find: Find = resolve) -> None:
        drawn = plan.history and past_arrivals(plan.history, plan.queues, address)
        if drawn is not None:
            plan = plan.model_copy(update={"workload": drawn})
        self._source = source
        if address is not None and not plan.is_on_site:
            raise UserError(
                f"'{plan.name}' is a plan for the machine of a log; --site is for plans with a site: name "
                f"it in the plan, or give log.weeks, which are drawn for its nodes"
            )
        schedulers = [find(name) for name in plan.schedulers]
        for scheduler in schedulers:
            if (why := scheduler.why_not_in_many("a plan has many")) is not None:
                raise SchedulerNotLoaded(why)
        if plan.is_on_site and not plan.site and address is None:
            known = "a built-in one, the path of a site file, or with --site one in a database"
            why = "" if plan.log is None else ", and the weeks of a log are drawn for its nodes"
            self._refuse([(("site",), f"site is missing{why}; name {known}")])
        if plan.observed is not None and plan.weeks is None and not _varies(plan, schedulers):
            self._refuse(
                ((key,), f"{key} has no effect where all jobs arrive once, as they did; leave it out")
                for key in ("first_replications", "most_replications")
                if getattr(plan, key) != Plan.model_fields[key].default
            )
            # All replications would be the same. There are no intervals then.
            plan = plan.model_copy(update={"first_replications": 1, "most_replications": 1})
        self.plan = plan
        self.offers = one_of_each(plan)
        self.policies = [Option(table.name, policy=table.given) for table in plan.policies]
        self.site = OnSite(plan, source.parent, address, find) if plan.is_on_site else None
        self._retirements: list[Option] = []
        if self.site is None:
            self._refuse(plan.without_effect())
        else:
            try:
                today = self.site.in_use(AS_IT_IS)
            except DoesNotFit as error:
                raise toml_file.invalid(source, error.mistakes) from None
            if plan.retire is not None:
                self._retirements = retirements(plan.retire, today)
            self._refuse(mistakes(plan, self.site, self.offers, self.policies, self._retirements))
        self.scenario = self.site or OnLog(plan, source.parent, find)
        self._loads: dict[str, Load | None] = {}
        self.loads = {option.name: self._load(option) for option in (AS_IT_IS, *self.offers)}
        self.base = self._least_that_carries()
        self.spare = [option for option in self._retirements if self.carries(option)]
        """Retirements after which the site can carry the forecast."""
        self.indispensable = tuple(o.name for o in self._retirements if o not in self.spare)

    def _refuse(self, mistakes: Iterable[tuple[Location, str]]) -> None:
        if found := list(mistakes):
            raise toml_file.invalid(self._source, found)

    def carries(self, option: Option) -> bool:
        """Whether an option can carry the forecast in the long run. One that is impossible, because one of
        its offers needs what another has changed or removed, carries nothing."""
        try:
            found = self._load(option)
        except InapplicableChange:
            return False
        return found is None or not found.is_too_much

    def _load(self, option: Option) -> Load | None:
        if option.name not in self._loads:
            self._loads[option.name] = self.scenario.load(option)
        return self._loads[option.name]

    def _least_that_carries(self) -> Option:
        """The cheapest of the site as it is, one of each offer, and if these are not enough, other purchases.
        Raises UserError."""
        plan = self.plan
        by_cost = sorted(purchases(plan), key=lambda counts: (cost(plan, counts), counts))
        more = (bought(plan, counts) for counts in by_cost)
        for option in (*sorted((AS_IT_IS, *self.offers), key=lambda option: option.cost), *more):
            if self.carries(option):
                return option
        today = self.loads[AS_IT_IS.name]
        least = min((found.rho, name) for name, found in self.loads.items() if found is not None)
        assert today is not None
        raise UserError(
            f"the forecast is {today.rho:.2f} times what the site can carry as it is, and {least[0]:.2f} "
            f"times with '{least[1]}'; most of it comes from the {today.whose} '{today.bottleneck}'; queues "
            "would grow without bound, and means would depend on the length of the run; forecast less or "
            "offer more"
        )


def _varies(plan: Plan, schedulers: Iterable[UnderTest]) -> bool:
    """Whether something other than the jobs differs between replications: failures, the seeds of schedulers,
    or decision times."""
    return (
        any(happens is not None for happens in (plan.failures, plan.messages, plan.crashes))
        or any(not isinstance(each, InProcess) or each.spec.is_random for each in schedulers)
        or any(plan.guard.cost_of(name) != NONE for name in plan.schedulers)
    )


def answer_questions(prepared: Prepared, runs: Runner, watch: Watch) -> Answers:
    """Answer all questions. A scheduler that breaks a rule has no answers. Raises AllAtFault, what runs
    raise, and GoalNeverMeasured."""
    plan, site, loads = prepared.plan, prepared.site, prepared.loads
    answered: list[Answer] = []
    faults: dict[str, Fault] = {}
    for scheduler in plan.schedulers:
        samples = OptionSamples(prepared.scenario, runs, scheduler)
        try:
            answered.append(_answer(prepared, samples, partial(watch, scheduler)))
        except ItemDied as died:
            faults[scheduler] = SchedulerFault(died.died.rule, str(died), nan)
        except (SchedulerFault, GoalNeverMeasured) as fault:  # a resource manager may refuse all jobs
            faults[scheduler] = fault
    if not answered:
        for why in faults.values():
            if isinstance(why, GoalNeverMeasured):
                raise why
        raise AllAtFault(faults)
    options = (AS_IT_IS, *prepared.policies)
    notes = dict.fromkeys(f"{note}." for option in options for note in prepared.scenario.notes_on(option))
    found = Answers(plan, "", (), (), tuple(answered), loads, prepared.indispensable, faults, tuple(notes))
    if site is None:
        return found
    today = site.scenario(AS_IT_IS)
    in_use, changes = today.in_use, [option for option in prepared.offers if option.changes]
    queues = () if in_use.has_nodes else in_use.queues  # on nodes, no job is bound before it starts
    return replace(
        found,
        site=site.name,
        down=in_use.down,
        binding=tuple(queue.name for queue, _ in queues if queue.mapping is MappingPolicy.COMMIT),
        without_effect=(*idle_parts(site, changes), *found.without_effect),
        model=today.model.get("nodes", ()),
        added=tuple(added_nodes(site, changes)),
        log=in_use.log,
    )


def _answer(prepared: Prepared, samples: OptionSamples, watch: Callable[[str, int, int], None]) -> Answer:
    plan, base = prepared.plan, prepared.base
    marginal = best = sized = policies = retire = None
    others = [o for o in (AS_IT_IS, *prepared.offers) if o.name != base.name and prepared.carries(o)]
    if others:
        by_price = plan.rank_by == "effect_per_price" and base is AS_IT_IS
        marginal = rank_options(samples, others, Criteria(base, by_price), partial(watch, EACH_OFFER))
    if plan.budget is not None and plan.offers:
        best = best_buy(samples, base, prepared.carries, partial(watch, BEST_BUY))
    if plan.size is not None:
        sized = size(samples, prepared.carries, partial(watch, "size"))
    if prepared.policies and base is AS_IT_IS:
        policies = rank_options(samples, prepared.policies, on_look=partial(watch, POLICIES))
    if prepared.spare and base is AS_IT_IS:
        criteria = Criteria(only_first=True)
        retire = rank_options(samples, prepared.spare, criteria, partial(watch, RETIRE))
    warm_up = samples.warm_up(base)
    return Answer(
        samples.scheduler, base, samples.refused(base), marginal, best, sized, retire, policies, warm_up
    )
