"""The effect of each option, and the order of preference between options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sil.outcome.statistics import Interval, Sample, percent_changes
from sil.planning.options import AS_IT_IS, Option
from sil.planning.questions.ranking import Demand, Standings, Verdict, looks
from sil.planning.samples import Samples
from sil.planning.scenario.option_runs import CLASS

OnLook = Callable[[int, int], None]
"""Called at each look with the number of replications and of pairs that are not settled."""


@dataclass(frozen=True)
class Effect:
    """The effect of an option against the base: `gain` of the first goal (more is better), the same per unit
    of price, and `percent` of the base's; `of_goals` are means of all goals, `of_classes` the gains of job
    classes (mean turnaround). Intervals are simultaneous for all options."""

    option: Option
    n: int
    gain: Interval
    per_price: Interval | None
    percent: Interval
    of_goals: dict[str, float]
    of_classes: dict[str, Interval]
    against_today: Verdict


@dataclass(frozen=True)
class Criteria:
    """How options are compared.

    With `by_price`, they are ranked by their gain per unit of price; two are tied if the same money (the cost
    of the dearer one) gains less than the indifference with either. With `only_first`, only the first matters
    and which options are tied with it. `chosen_from` is the number of options from which these were chosen as
    the best on the first replications: the intervals allow for that selection.
    """

    base: Option = AS_IT_IS
    by_price: bool = False
    only_first: bool = False
    chosen_from: int = 0


@dataclass(frozen=True)
class Ranking:
    """The effects of options, the best first, and the verdicts between them; `base` are the base's means."""

    base: dict[str, float]
    effects: tuple[Effect, ...]
    standings: Standings
    by_price: bool


def ranked(
    samples: Samples,
    options: Sequence[Option],
    criteria: Criteria = Criteria(),
    on_look: OnLook = lambda n, unsettled: None,
) -> Ranking:
    """Replicate until the ranking is settled, or `most_replications` are done."""
    race, base = _Race(samples, options, criteria), criteria.base
    for n in race.looks:
        samples.ensure([base, *race.still_open()], n)
        race.judge()
        on_look(n, len(race.open_pairs()) + len(race.open_against_base()))
        if not race.still_open():
            break
    effects = {option.name: race.effect(option) for option in options}
    by_price = criteria.by_price
    figures = {name: ((by_price and e.per_price) or e.gain).mean for name, e in effects.items()}
    best_first = tuple(effects[name] for name in _in_order(figures, race.standings))
    means = {goal.key: float(np.mean(samples.values(base, goal.key))) for goal in samples.plan.goals}
    return Ranking(means, best_first, race.standings, by_price)


def _in_order(figures: Mapping[str, float], standings: Standings) -> Iterator[str]:
    """The best first: none before one that is settled to be better, otherwise by figure.

    Figures alone are not enough: they are means over different numbers of replications, since settled options
    stop early.
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
    """The verdicts between options, and between each of them and the base."""

    def __init__(self, samples: Samples, options: Sequence[Option], criteria: Criteria) -> None:
        plan = samples.plan
        self._samples = samples
        self._options = {option.name: option for option in options}
        self._criteria = criteria
        self._base = criteria.base
        self.looks = looks(plan.first_replications, plan.replications)
        n_pairs = len(options) * (len(options) - 1) // 2 + max(len(options), criteria.chosen_from)
        self._demand = Demand(plan.confidence, n_pairs, len(self.looks))
        self.standings = Standings(list(self._options))
        self._against_base = Standings([self._base.name, *self._options])

    def judge(self) -> None:
        """Settle what the samples allow."""
        base = self._base
        within = self._samples.plan.indifference * abs(float(np.mean(self._samples.values(base))))
        for one, other in self.open_pairs():
            left, right = (self._ranked_by(self._options[name]) for name in (one, other))
            n = min(len(left), len(right))
            dearer = max(self._options[one].cost, self._options[other].cost)
            indifference = within / dearer if self._criteria.by_price else within
            self.standings.settle(one, other, self._demand.verdict(left[:n] - right[:n], indifference))
        for name, option in self._options.items():
            verdict = self._demand.verdict(self._samples.gains(option, base), within)
            self._against_base.settle(name, base.name, verdict)

    def still_open(self) -> list[Option]:
        """The options that need more replications."""
        names = {name for pair in self.open_pairs() for name in pair} | set(self.open_against_base())
        return [option for name, option in self._options.items() if name in names]

    def open_pairs(self) -> list[tuple[str, str]]:
        first = self._first()
        return [pair for pair in self.standings.unsettled if first is None or first in pair]

    def open_against_base(self) -> list[str]:
        first = self._first()
        return [
            name
            for name in self._options
            if self._against_base.between(name, self._base.name) is Verdict.UNSETTLED
            and (first is None or name == first)
        ]

    def _first(self) -> str | None:
        """The option that is ahead if only that matters; None if all matter."""
        if not self._criteria.only_first or not all(map(self._samples.count, self._options.values())):
            return None
        figures = {name: float(np.mean(self._ranked_by(option))) for name, option in self._options.items()}
        return _ahead(list(figures), figures, self.standings)

    def _ranked_by(self, option: Option) -> Sample:
        gains = self._samples.gains(option, self._base)
        return gains / option.cost if self._criteria.by_price else gains

    def effect(self, option: Option) -> Effect:
        samples, base, interval = self._samples, self._base, self._demand.interval
        gains = samples.gains(option, base)
        n = len(gains)
        gain, today = interval(gains), samples.values(base, n=n)
        per_price = _scaled(gain, 1.0 / option.cost) if option.cost else None
        percent = Interval(0.0, 0.0)
        if mean := abs(float(np.mean(today))):
            # The scaled mean, exactly; the half-width is that of a ratio of means.
            width = interval(percent_changes(gains, today)).half_width
            percent = Interval(gain.mean * (100.0 / mean), width)
        common = set(samples.job_classes(option, n)) & set(samples.job_classes(base, n))
        return Effect(
            option,
            n,
            gain,
            per_price,
            percent,
            {goal.key: self._mean(option, goal.key) for goal in samples.plan.goals},
            {name: interval(samples.gains(option, base, f"{CLASS}{name}")) for name in sorted(common)},
            self._against_base.between(option.name, base.name),
        )

    def _mean(self, option: Option, key: str) -> float:
        """A goal's mean over all replications of the base, of which the option may have fewer: the mean of
        the base plus the mean of the paired differences."""
        samples, base = self._samples, self._base
        n = min(samples.count(option), samples.count(base))
        difference = samples.values(option, key, n) - samples.values(base, key, n)
        return float(np.mean(samples.values(base, key))) + float(np.mean(difference))


def _scaled(interval: Interval, factor: float) -> Interval:
    return Interval(interval.mean * factor, (interval.half_width or 0.0) * factor)
