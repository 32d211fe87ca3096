"""Options ranked by their effects: replications until repeated confidence intervals settle the ranking.

Every two options are compared by the differences of their replications (common random numbers). The mean
difference has an interval (`sil.outcome.paired`); Bonferroni's correction for the numbers of pairs and of
looks makes all statements hold simultaneously at the confidence asked for. This is the selection procedure of
Clark and Yang 1986 ("A Bonferroni selection procedure when using common random numbers with unknown
variances") with the repeated confidence intervals of Jennison and Turnbull 1989 instead of its two stages,
and a third verdict: two options are tied if the whole interval is within the indifference. Where only the
first option matters, one that costs as much as it or more need only be settled to be no better, by more than
the indifference: whether it is worse or tied changes no answer.

What is rare is not in the first replications, so a tie needs MIN_FOR_A_TIE of them, and differences that
are nearly all 0 settle nothing; only options with the same runs are tied at the first look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sil.outcome.paired import Paired, why_no_interval
from sil.outcome.statistics import Interval, Sample, differences
from sil.planning.options import AS_IT_IS, Option
from sil.planning.plan_file import GoalTable
from sil.planning.runs import CLASS, OptionSamples
from sil.planning.verdicts import JointConfidence, PairVerdict, Standings, looks

OnLook = Callable[[int, int], None]
"""Called at each look with the number of replications and of pairs that are not settled."""


@dataclass(frozen=True)
class Effect:
    """The effect of an option against the base: `gain` of the first goal (more is better), the same per unit
    of price, and as a percentage of the base's mean; `of_goals` are means of all goals, `of_classes` the
    gains of job classes (mean turnaround). Intervals are simultaneous for all options; `no_interval` says why
    the gain has none."""

    option: Option
    n: int
    gain: Interval
    per_price: Interval | None
    percent: Interval
    of_goals: dict[str, float]
    of_classes: dict[str, Interval]
    against_today: PairVerdict
    no_interval: str = ""


@dataclass(frozen=True)
class Criteria:
    """How options are compared.

    With `by_price`, they are ranked by their gain per unit of price; two are tied if the same money (the cost
    of the dearer one) gains less than the indifference with either. With `only_first`, only the first
    matters, which options are tied with it, and what is cheaper than the cheapest of these. `chosen_from` is
    the number of options from which these were chosen as the best on the first replications: the intervals
    allow for that selection.
    """

    base: Option = AS_IT_IS
    by_price: bool = False
    only_first: bool = False
    chosen_from: int = 0


@dataclass(frozen=True)
class OptionRanking:
    """The effects of options, the best first, and the verdicts between them; `base_means` are the means of
    the base by goal. `choice` is the option to recommend, and `against_choice` the gains of the others less
    its own. Of pairs that are not settled, `no_interval` says why their differences have none, and
    `n_needed` about how many replications would settle them."""

    criteria: Criteria
    base_means: dict[str, float]
    effects: tuple[Effect, ...]
    standings: Standings
    choice: str = ""
    against_choice: Mapping[str, Interval] = field(default_factory=dict)
    no_interval: Mapping[tuple[str, str], str] = field(default_factory=dict)
    n_needed: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def effect(self, name: str) -> Effect:
        return next(effect for effect in self.effects if effect.option.name == name)

    @property
    def cheaper(self) -> list[Effect]:
        """The options that are cheaper than the choice, and not settled to be worse, the cheapest first."""
        price = self.effect(self.choice).option.cost
        worse = self.standings.that_are(PairVerdict.BETTER, self.choice)
        found = [e for e in self.effects if e.option.name not in worse and e.option.cost < price]
        return sorted(found, key=lambda effect: effect.option.cost)


def rank_options(
    samples: OptionSamples,
    options: Sequence[Option],
    criteria: Criteria = Criteria(),
    on_look: OnLook = lambda n, unsettled: None,
) -> OptionRanking:
    """Replicate until the ranking is settled, or `most_replications` are done."""
    race, base = _Race(samples, options, criteria), criteria.base
    n: int | None = race.looks[0]
    while n is not None:
        samples.ensure([base, *race.still_open()], n)
        race.judge()
        on_look(n, len(race.open_pairs()) + len(race.open_against_base()))
        n = race.next_look()
    effects = {option.name: race.effect(option) for option in options}
    figures = {
        name: ((criteria.by_price and effect.per_price) or effect.gain).mean
        for name, effect in effects.items()
    }
    best_first = tuple(effects[name] for name in race.standings.in_order(figures))
    means = {goal.key: float(np.mean(samples.values(base, goal.key))) for goal in samples.plan.goals}
    choice = race.choice(best_first[0].option.name)
    against = {name: race.against(name, choice) for name in effects if name != choice}
    no_interval, n_needed = race.not_settled()
    return OptionRanking(criteria, means, best_first, race.standings, choice, against, no_interval, n_needed)


class _Race:
    """The verdicts between options, and between each of them and the base."""

    def __init__(self, samples: OptionSamples, options: Sequence[Option], criteria: Criteria) -> None:
        plan = samples.plan
        self._samples = samples
        self._options = {option.name: option for option in options}
        self._criteria = criteria
        self._base = criteria.base
        self.looks = looks(plan.first_replications, plan.replications)
        n_pairs = len(options) * (len(options) - 1) // 2 + max(len(options), criteria.chosen_from)
        self._demand = JointConfidence(plan.confidence, n_pairs, len(self.looks))
        self.standings = Standings(list(self._options))
        self._against_base = dict.fromkeys(self._options, PairVerdict.UNSETTLED)
        self._identity = {option.name: samples.identity(option) for option in (criteria.base, *options)}

    def judge(self) -> None:
        for one, other in self.standings.unsettled:
            first, second = self._options[one], self._options[other]
            verdict = self._demand.verdict(self._gained(first, second), self._indifference(first, second))
            cost_same = not self._criteria.by_price or first.cost == second.cost
            if self._are_alike(first, second) and (cost_same or self._are_alike(first, self._base)):
                verdict = PairVerdict.TIE
            self.standings.settle(one, other, verdict)
        for name, option in self._options.items():
            if self._against_base[name] is PairVerdict.UNSETTLED:
                gains = self._samples.gains(option, self._base)
                verdict = self._demand.verdict(gains, self._indifference())
                is_alike = self._are_alike(option, self._base)
                self._against_base[name] = PairVerdict.TIE if is_alike else verdict
        if (ahead := self._first()) is not None:
            self._settle_dearer_ones(self._options[ahead])

    def _settle_dearer_ones(self, ahead: Option) -> None:
        """Settle the options that are no better than the one that is ahead, and cost as much or more."""
        for name in self.standings.that_are(PairVerdict.UNSETTLED, ahead.name):
            option = self._options[name]
            gained, within = self._gained(option, ahead), self._indifference(option, ahead)
            if option.cost >= ahead.cost and self._demand.is_no_better(gained, within):
                self.standings.settle(name, ahead.name, PairVerdict.NO_BETTER)

    def _indifference(self, *options: Option) -> float:
        plan, base = self._samples.plan, self._samples.values(self._base)
        within = plan.indifference * abs(float(np.mean(base)))
        by_price = options and self._criteria.by_price
        return within / max(option.cost for option in options) if by_price else within

    def not_settled(self) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], int]]:
        """For pairs that are not settled, why their differences have no interval, and how many replications
        would settle them."""
        why, needed = {}, {}
        for one, other in self.standings.unsettled:
            first, second = self._options[one], self._options[other]
            gained = self._gained(first, second)
            why[one, other] = why[other, one] = why_no_interval(gained)
            n = self._demand.n_needed(gained, self._indifference(first, second))
            if n is not None:
                needed[one, other] = needed[other, one] = n
        return why, needed

    def _are_alike(self, one: Option, other: Option) -> bool:
        """Whether their runs are the same, and no goal, like utilisation, counts what is not used."""
        is_same = self._identity[one.name] == self._identity[other.name]
        return is_same and not np.any(self._samples.gains(one, other))

    def _gained(self, one: Option, other: Option) -> Sample:
        """How much more `one` gains than `other`, in the replications that both have."""
        left, right = self._ranked_by(one), self._ranked_by(other)
        n = min(len(left), len(right))
        return differences(left[:n], right[:n])

    def against(self, name: str, other: str) -> Interval:
        return self._demand.interval(self._gained(self._options[name], self._options[other]))

    def choice(self, first: str) -> str:
        """From the first on, always the cheapest option that is tied with the one before, and of which it is
        settled how it compares with the base."""
        cost = {name: option.cost for name, option in self._options.items()}
        known = [name for name, found in self._against_base.items() if found is not PairVerdict.UNSETTLED]
        while tied := [n for n in self.standings.tied_with(first) if n in known and cost[n] < cost[first]]:
            first = min(tied, key=lambda name: cost[name])
        return first

    def still_open(self) -> list[Option]:
        """The options that need more replications."""
        names = {name for pair in self.open_pairs() for name in pair} | set(self.open_against_base())
        return [option for name, option in self._options.items() if name in names]

    def next_look(self) -> int | None:
        """The next number of replications of the open options that have fewest: what they lack may settle
        their pairs before others need more. None if nothing is open, or they have the most."""
        fewest = min(map(self._samples.count, self.still_open()), default=self.looks[-1])
        return next((n for n in self.looks if n > fewest), None)

    def open_pairs(self) -> list[tuple[str, str]]:
        first = self._first()
        if first is None:
            return list(self.standings.unsettled)
        choice = self.choice(first)
        cheaper = {name for name, o in self._options.items() if o.cost < self._options[choice].cost}
        return [
            pair
            for pair in self.standings.unsettled
            if first in pair or (choice in pair and not cheaper.isdisjoint(pair))
        ]

    def open_against_base(self) -> list[str]:
        first = self._first()
        unsettled = [name for name, verdict in self._against_base.items() if verdict is PairVerdict.UNSETTLED]
        if first is None:
            return unsettled
        matter = {first, *self.standings.tied_with(first), *self.standings.tied_with(self.choice(first))}
        return [name for name in unsettled if name in matter]

    def _first(self) -> str | None:
        """The option that is ahead if only that matters; None if all matter."""
        if not self._criteria.only_first or not all(map(self._samples.count, self._options.values())):
            return None
        figures = {name: float(np.mean(self._ranked_by(option))) for name, option in self._options.items()}
        return self.standings.first(figures)

    def _ranked_by(self, option: Option) -> Sample:
        gains = self._samples.gains(option, self._base)
        return gains / option.cost if self._criteria.by_price else gains

    def effect(self, option: Option) -> Effect:
        samples, base, interval = self._samples, self._base, self._demand.interval
        gains = samples.gains(option, base)
        n = len(gains)
        paired = Paired(samples.values(option, n=n), samples.values(base, n=n), self._demand.of_each)
        gain, percent = paired.difference.scaled(samples.sign), paired.percent or Interval(0.0, None)
        per_price = gain.scaled(1.0 / option.cost) if option.cost else None
        common = set(samples.job_classes(option, n)) & set(samples.job_classes(base, n))
        return Effect(
            option,
            n,
            gain,
            per_price,
            percent.scaled(samples.sign),
            {goal.key: self._mean(option, goal) for goal in samples.plan.goals},
            {name: interval(samples.gains(option, base, f"{CLASS}{name}")) for name in sorted(common)},
            self._against_base[option.name],
            why_no_interval(gains),
        )

    def _mean(self, option: Option, goal: GoalTable) -> float:
        """A goal's mean over all replications of the base, of which the option may have fewer: as many times
        the base's as in those that both have, and no utilisation above those that the option had."""
        own, base = (self._samples.values(each, goal.key) for each in (option, self._base))
        n, today = min(len(own), len(base)), float(np.mean(base))
        times = today / both if (both := float(np.mean(base[:n]))) else 1.0
        mean = today + times * float(np.mean(own[:n] - base[:n]))
        return min(mean, float(np.max(own))) if goal.more_is_better else mean
