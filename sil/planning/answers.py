"""The answers to a plan's questions, scheduler by scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scheduler.errors import UserError
from scheduler.registry import SchedulerNotLoaded
from sil.planning.options import AS_IT_IS, Option, bought, cost, one_of_each, retirements
from sil.planning.plan_file import Plan
from sil.planning.questions.best_buy import BestBuy, best_buy, purchases
from sil.planning.questions.effects import Criteria, OnLook, Ranking, ranked
from sil.planning.questions.sizing import Size, size
from sil.planning.samples import DoesRuns, Samples
from sil.planning.scenario.capacity import Load
from sil.planning.scenario.forecast import with_forecast
from sil.planning.scenario.on_log import OnLog
from sil.planning.scenario.on_site import ChangedSite, OnSite
from sil.planning.scenario.scenario import Scenario
from sil.runs.scenario import DoesNotFit
from sil.runs.under_test import resolve
from sil.site.site_in_use import SiteInUse
from sil.site.what_if_site import InapplicableChange
from site_db import toml_file
from site_db.store import Address

Watch = Callable[[str, str, int, int], None]
"""Called at each look with scheduler, question, and the numbers of replications and of open pairs."""


class Overloaded(UserError):
    """No option can carry the forecast. The message is one sentence for the user."""


@dataclass(frozen=True)
class Answer:
    """The answers under one scheduler; None for questions that were not asked. Effects are relative to
    `base`: the site as it is or, if that cannot carry the forecast, the cheapest option that can. `refused`
    is the share of jobs that are refused there."""

    scheduler: str
    base: Option
    refused: float
    marginal: Ranking | None
    best_buy: BestBuy | None
    size: Size | None
    retire: Ranking | None


@dataclass(frozen=True)
class Answers:
    """`loads` are those of the site as it is and of each offer, by name; None if all jobs are submitted at
    the beginning. `not_spared` are retirements after which the site could not carry the forecast; `down` are
    the machines and interconnects that are down today. `site` is its name, empty for the machine of a log."""

    plan: Plan
    site: str
    down: tuple[str, ...]
    answers: tuple[Answer, ...]
    loads: dict[str, Load | None]
    not_spared: tuple[str, ...]


class Prepared:
    """A plan whose offers and schedulers are validated against its site.

    Raises InvalidFile, SchedulerNotLoaded, Overloaded, and what SiteSource raises.
    """

    def __init__(self, plan: Plan, source: Path, address: Address | None) -> None:
        self.plan = plan = with_forecast(plan, address)
        self._source = source
        for name in plan.schedulers:
            if resolve(name).serves_one_run:
                raise SchedulerNotLoaded(
                    f"scheduler '{name}' listens for one run, but a plan has many; use a command that starts "
                    f"one for each run, as in 'batsim: COMMAND'"
                )
        if plan.log is None and not plan.site and address is None:
            known = "a built-in one, the path of a site file, or with --site one in a database"
            raise self._wrong(("site",), f"site is missing; name {known}")
        self.offers = one_of_each(plan)
        self.site = None if plan.log is not None else OnSite(plan, source.parent, address)
        self.scenario: Scenario = self.site or OnLog(plan, source.parent)
        if self.site is not None:
            self._check(self.site)
        self._loads: dict[str, Load | None] = {}
        self.loads = {option.name: self._load(option) for option in (AS_IT_IS, *self.offers)}
        self.base = self._least_that_carries()

    def _check(self, site: OnSite) -> None:
        try:
            today = site.of(AS_IT_IS)
        except DoesNotFit as error:
            text = toml_file.read_text(self._source)
            raise toml_file.invalid_at(text, self._source, error.mistakes) from None
        self._check_goals(today.in_use)
        self._check_retirement(today)
        for k, option in enumerate(self.offers):
            try:
                site.of(option)
            except InapplicableChange as error:
                raise self._wrong(("offers", k, "changes", error.place), str(error)) from None

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

    def _check_goals(self, today: SiteInUse) -> None:
        plan = self.plan
        classes = list(plan.forecast.mix) or [k.name for k in today.site.job_classes]
        queues = list(plan.forecast.queues) or [today.queues[0][0].name]
        for k, goal in enumerate(plan.goals):
            for what, name, known in (("job_class", goal.job_class, classes), ("queue", goal.queue, queues)):
                if name is not None and name not in known:
                    kind = what.replace("_", " ")
                    raise self._wrong(
                        ("goals", k, what),
                        f"no job of {kind} '{name}' ever arrives; there are {', '.join(known)}",
                    )

    def _check_retirement(self, today: ChangedSite) -> None:
        table = self.plan.retire
        if table is None:
            return
        known = sorted({machine.machine_class for machine in today.in_use.site.machines})
        for k, name in enumerate(table.machine_classes):
            if name not in known:
                sentence = f"the site has no machine class '{name}'; it has {', '.join(known)}"
                raise self._wrong(("retire", "machine_classes", k), sentence)
        if not retirements(table, today.in_use.site):
            sentence = f"there are not {table.count} machines of one class in the same clusters anywhere"
            raise self._wrong(("retire", "count"), sentence)

    def _least_that_carries(self) -> Option:
        """The cheapest of the site as it is, one of each offer, and if these are not enough, other purchases.
        Raises Overloaded."""
        plan = self.plan
        by_cost = sorted(purchases(plan), key=lambda counts: (cost(plan, counts), counts))
        more = (bought(plan, counts) for counts in by_cost)
        for option in (*sorted((AS_IT_IS, *self.offers), key=lambda option: option.cost), *more):
            if self.carries(option):
                return option
        today = self.loads[AS_IT_IS.name]
        least = min((found.rho, name) for name, found in self.loads.items() if found is not None)
        assert today is not None
        raise Overloaded(
            f"the forecast is {today.rho:.2f} times what the site can carry as it is, and {least[0]:.2f} "
            f"times with '{least[1]}'; most of it comes from the job class '{today.bottleneck}'; queues "
            "would grow without bound, and means would depend on the length of the run; forecast less or "
            "offer more"
        )

    def _wrong(self, place: tuple[str | int, ...], sentence: str) -> Exception:
        return toml_file.invalid(toml_file.read_text(self._source), self._source, place, sentence)


def answered(prepared: Prepared, runs: DoesRuns, watch: Watch) -> Answers:
    """Raises what runs raise, and GoalNeverMeasured."""
    plan = prepared.plan
    spare: list[Option] = []
    if plan.retire is not None and prepared.site is not None:
        spare = retirements(plan.retire, prepared.site.of(AS_IT_IS).in_use.site)
    able = [option for option in spare if prepared.carries(option)]
    not_spared = tuple(option.name for option in spare if option not in able)

    def under(scheduler: str) -> Answer:
        samples = Samples(prepared.scenario, runs, scheduler)
        return _answer(prepared, samples, able, lambda *look: watch(scheduler, *look))

    answers = tuple(under(scheduler) for scheduler in plan.schedulers)
    site, down = ("", ()) if prepared.site is None else prepared.site.described
    return Answers(plan, site, down, answers, prepared.loads, not_spared)


def _answer(
    prepared: Prepared, samples: Samples, spare: list[Option], watch: Callable[[str, int, int], None]
) -> Answer:
    plan, base = prepared.plan, prepared.base

    def looking(question: str) -> OnLook:
        return lambda n, unsettled: watch(question, n, unsettled)

    marginal = best = sized = retire = None
    others = [o for o in (AS_IT_IS, *prepared.offers) if o.name != base.name and prepared.carries(o)]
    if others:
        by_price = plan.rank_by == "effect_per_price" and base is AS_IT_IS
        marginal = ranked(samples, others, Criteria(base, by_price), looking("each offer"))
    if plan.budget is not None and plan.offers:
        best = best_buy(samples, base, prepared.carries, looking("best buy"))
    if plan.size is not None:
        sized = size(samples, prepared.carries, looking("size"))
    if spare and base is AS_IT_IS:
        retire = ranked(samples, spare, Criteria(only_first=True), looking("retire"))
    return Answer(samples.scheduler, base, samples.share_refused(base), marginal, best, sized, retire)
