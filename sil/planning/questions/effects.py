"""What each option does by itself, and in which order they are to be preferred."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sil.outcome.statistics import Interval, Sample, percent_changes
from sil.planning.options import AS_IT_IS, Option
from sil.planning.questions.ranking import Demand, Looks, Standings, Verdict
from sil.planning.samples import Samples
from sil.planning.scenario.option_runs import CLASS


@dataclass(frozen=True)
class Effect:
    """What an option does, against the site as it is: `gain` of the first goal (more is better), the same
    for every unit of price, and `percent` of what it is today; `of_goals` are means of all goals,
    `of_classes` the gains of job classes (mean turnaround). Intervals hold for all options at once."""

    option: Option
    n: int
    gain: Interval
    per_price: Interval | None
    percent: Interval
    of_goals: dict[str, float]
    of_classes: dict[str, Interval]
    against_today: Verdict


@dataclass(frozen=True)
class Ranking:
    """The effects of options, the best first, and what is settled between them."""

    base: dict[str, float]
    effects: tuple[Effect, ...]
    standings: Standings
    by_price: bool

    @property
    def leaders(self) -> tuple[Effect, ...]:
        """The first one, and those tied with it or not told apart from it."""
        first = self.effects[0]
        among = (Verdict.TIE, Verdict.UNSETTLED)
        others = [
            e for e in self.effects[1:] if self.standings.between(first.option.name, e.option.name) in among
        ]
        return first, *others


def ranked(
    samples: Samples,
    options: Sequence[Option],
    by_price: bool,
    only_first: bool = False,
    base: Option = AS_IT_IS,
    on_look: Callable[[int, int], None] = lambda n, unsettled: None,
    chosen_from: int = 0,
) -> Ranking:
    """Replicate until the ranking is settled, or `most_replications` are done.

    With `by_price`, options are ranked by their gain for each unit of price: two are tied where the same
    money (as much as the dearer one costs) makes less than the indifference with either. With `only_first`,
    it is enough to know who is the first, and who is tied with it. `on_look` hears how many replications
    there are, and how many pairs are not settled. Where options are the best of so many on the first of
    these replications (`chosen_from`), luck chose, too: as many are compared with the base.
    """
    race = _Race(samples, options, by_price, only_first, base, chosen_from)
    for n in race.looks:
        samples.ensure([base, *race.still_open()], n)
        race.judge()
        on_look(n, len(race.open_pairs()) + len(race.open_against_base()))
        if not race.still_open():
            break
    effects = {o.name: _effect(samples, o, base, race.demand, race.against_base) for o in options}
    figures = {name: _figure(effect, by_price) for name, effect in effects.items()}
    best_first = [effects[name] for name in _in_order(figures, race.standings)]
    means = {goal.key: float(np.mean(samples.values(base, goal.key))) for goal in samples.plan.goals}
    return Ranking(means, tuple(best_first), race.standings, by_price)


def _in_order(figures: Mapping[str, float], standings: Standings) -> Iterator[str]:
    """The best first: nobody before one that is settled to be better, and of the rest the highest figure.

    Figures alone would not do: they are means over different numbers of replications, since what is settled
    is replicated no more.
    """
    left = list(figures)
    while left:
        first = _ahead(left, figures, standings)
        yield first
        left.remove(first)


def _ahead(names: Sequence[str], figures: Mapping[str, float], standings: Standings) -> str:
    unbeaten = [name for name in names if not any(standings.between(name, o) is Verdict.WORSE for o in names)]
    return max(unbeaten or names, key=lambda name: figures[name])


class _Race:
    """What is settled between options, and between each of them and the base."""

    def __init__(
        self,
        samples: Samples,
        options: Sequence[Option],
        by_price: bool,
        only_first: bool,
        base: Option,
        chosen_from: int,
    ) -> None:
        plan = samples.plan
        self._samples = samples
        self._options = {option.name: option for option in options}
        self._by_price = by_price
        self._only_first = only_first
        self._base = base
        self.looks = Looks(plan.first_replications, plan.replications).at
        n_pairs = len(options) * (len(options) - 1) // 2 + max(len(options), chosen_from)
        self.demand = Demand(plan.confidence, n_pairs, len(self.looks))
        self.standings = Standings(list(self._options))
        self.against_base = Standings([base.name, *self._options])

    def judge(self) -> None:
        """See what the samples tell by now."""
        base = self._base
        within = self._samples.plan.indifference * abs(float(np.mean(self._samples.values(base))))
        for one, other in self.open_pairs():
            left, right = (self._ranked_by(self._options[name]) for name in (one, other))
            n = min(len(left), len(right))
            dearer = max(self._options[one].cost, self._options[other].cost)
            indifference = within / dearer if self._by_price else within
            self.standings.settle(one, other, self.demand.verdict(left[:n] - right[:n], indifference))
        for name in self._options:
            gains = self._samples.gains(self._options[name], base)
            self.against_base.settle(name, base.name, self.demand.verdict(gains, within))

    def still_open(self) -> list[Option]:
        """The options that have to be replicated further."""
        names = {name for pair in self.open_pairs() for name in pair} | set(self.open_against_base())
        return [option for name, option in self._options.items() if name in names]

    def open_pairs(self) -> list[tuple[str, str]]:
        first = self._first()
        return [pair for pair in self.standings.unsettled if first is None or first in pair]

    def open_against_base(self) -> list[str]:
        first = self._first()
        unsettled = [
            name
            for name in self._options
            if self.against_base.between(name, self._base.name) is Verdict.UNSETTLED
        ]
        return [name for name in unsettled if first is None or name == first]

    def _first(self) -> str | None:
        """Who is ahead, where nothing else matters; None where everything does."""
        if not self._only_first or not all(map(self._samples.count, self._options.values())):
            return None
        figures = {name: float(np.mean(self._ranked_by(option))) for name, option in self._options.items()}
        return _ahead(list(figures), figures, self.standings)

    def _ranked_by(self, option: Option) -> Sample:
        gains = self._samples.gains(option, self._base)
        return gains / option.cost if self._by_price else gains


def _effect(samples: Samples, option: Option, base: Option, demand: Demand, against: Standings) -> Effect:
    gains = samples.gains(option, base)
    today = samples.values(base, n=len(gains))
    gain = _interval(gains, demand)
    classes = {
        name: _interval(samples.gains(option, base, f"{CLASS}{name}"), demand)
        for name in samples.job_classes(option, len(gains))
        if name in samples.job_classes(base, len(gains))
    }
    return Effect(
        option,
        len(gains),
        gain,
        _scaled(gain, 1.0 / option.cost) if option.cost else None,
        _interval(percent_changes(gains, today) if np.any(today) else gains, demand),
        {goal.key: _as_today(samples, option, base, goal.key) for goal in samples.plan.goals},
        classes,
        against.between(option.name, base.name),
    )


def _as_today(samples: Samples, option: Option, base: Option, key: str) -> float:
    """The mean of a goal as it would be in all replications that the base has, of which the option may have
    fewer: what it was there, and the mean difference where both were."""
    n = min(samples.count(option), samples.count(base))
    difference = samples.values(option, key, n) - samples.values(base, key, n)
    return float(np.mean(samples.values(base, key))) + float(np.mean(difference))


def _interval(values: Sample, demand: Demand) -> Interval:
    return Interval(float(np.mean(values)), demand.half_width(values))


def _scaled(interval: Interval, factor: float) -> Interval:
    return Interval(interval.mean * factor, (interval.half_width or 0.0) * abs(factor))


def _figure(effect: Effect, by_price: bool) -> float:
    of_price = effect.per_price if by_price else None
    return (of_price or effect.gain).mean
