"""Options ranked by their effects: replications until repeated confidence intervals settle the ranking.

Every two options are compared by the differences of their replications (common random numbers). The mean
difference has a Student t interval; Bonferroni's correction for the numbers of pairs and of looks makes all
statements hold simultaneously at the confidence asked for. This is the selection procedure of Clark and
Yang 1986 ("A Bonferroni selection procedure when using common random numbers with unknown variances") with
the repeated confidence intervals of Jennison and Turnbull 1989 instead of its two stages, and a third
verdict: two options are tied if the whole interval is within the indifference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np

from sil.outcome.statistics import Interval, Sample, half_width
from sil.planning.options import AS_IT_IS, Option
from sil.planning.samples import OptionSamples
from sil.planning.scenario.scenario import CLASS

OnLook = Callable[[int, int], None]
"""Called at each look with the number of replications and of pairs that are not settled."""


class PairVerdict(StrEnum):
    """Of the first of two options against the second. More is better."""

    BETTER = "better"
    WORSE = "worse"
    TIE = "tie"
    UNSETTLED = "unsettled"


OPPOSITE = {PairVerdict.BETTER: PairVerdict.WORSE, PairVerdict.WORSE: PairVerdict.BETTER}


def looks(first: int, most: int) -> tuple[int, ...]:
    """Numbers of replications at which verdicts are sought: from `first` on, half as many more each time, and
    finally `most`."""
    found = [min(first, most)]
    while found[-1] < most:
        found.append(min(most, found[-1] + max(1, found[-1] // 2)))
    return tuple(found)


@dataclass(frozen=True)
class Demand:
    """The simultaneous confidence of all statements about `pairs` pairs at `looks` looks."""

    confidence: float
    pairs: int
    looks: int

    def interval(self, values: Sample) -> Interval:
        """Of one mean at one look. Its half-width is 0 if all values are equal, None for a single value."""
        if len(values) < 2:
            return Interval(float(np.mean(values)), None)
        error = (1.0 - self.confidence) / (max(1, self.pairs) * self.looks)
        return Interval(float(np.mean(values)), half_width(values, 1.0 - error / 2))

    def verdict(self, differences: Sample, indifference: float) -> PairVerdict:
        found = self.interval(differences)
        if -indifference <= found.low and found.high <= indifference:
            return PairVerdict.TIE
        if found.low > 0.0:
            return PairVerdict.BETTER
        return PairVerdict.WORSE if found.high < 0.0 else PairVerdict.UNSETTLED


class Standings:
    """The verdicts between options so far. A verdict stays once it is reached: all verdicts hold
    simultaneously at the confidence asked for."""

    def __init__(self, options: Sequence[str]) -> None:
        self.options = tuple(options)
        self._verdicts: dict[tuple[str, str], PairVerdict] = {}

    def settle(self, one: str, other: str, verdict: PairVerdict) -> None:
        if self.between(one, other) is PairVerdict.UNSETTLED:
            self._verdicts[one, other] = verdict
            self._verdicts[other, one] = OPPOSITE.get(verdict, verdict)

    def between(self, one: str, other: str) -> PairVerdict:
        """Of `one` against `other`."""
        return self._verdicts.get((one, other), PairVerdict.UNSETTLED)

    def that_are(self, verdict: PairVerdict, option: str) -> tuple[str, ...]:
        """The other options against which `option` has this verdict."""
        return tuple(o for o in self.options if o != option and self.between(option, o) is verdict)

    @property
    def unsettled(self) -> tuple[tuple[str, str], ...]:
        """The pairs without a verdict, in order of the options."""
        pairs = combinations(self.options, 2)
        return tuple(pair for pair in pairs if self.between(*pair) is PairVerdict.UNSETTLED)

    def rank(self, option: str) -> tuple[int, int]:
        """The best and the worst rank that an option may have, from 1; ties share the better one."""
        best = 1 + len(self.that_are(PairVerdict.WORSE, option))
        return best, best + len(self.that_are(PairVerdict.UNSETTLED, option))

    def tied_with(self, option: str) -> tuple[str, ...]:
        return self.that_are(PairVerdict.TIE, option)

    def first(self, figures: Mapping[str, float]) -> str:
        """The option with the highest figure among those that are not settled to be worse than another."""
        beaten = {
            one for one in figures for other in figures if self.between(one, other) is PairVerdict.WORSE
        }
        unbeaten = [option for option in figures if option not in beaten]
        return max(unbeaten or figures, key=lambda option: figures[option])

    def in_order(self, figures: Mapping[str, float]) -> Iterator[str]:
        """The best first: none before one that is settled to be better, otherwise by figure.

        Figures alone are not enough: they are means over different numbers of replications, since settled
        options stop early.
        """
        left = dict(figures)
        while left:
            first = self.first(left)
            yield first
            del left[first]


@dataclass(frozen=True)
class Effect:
    """The effect of an option against the base: `gain` of the first goal (more is better), the same per unit
    of price, and as a percentage of the base's mean; `of_goals` are means of all goals, `of_classes` the
    gains of job classes (mean turnaround). Intervals are simultaneous for all options."""

    option: Option
    n: int
    gain: Interval
    per_price: Interval | None
    percent: Interval
    of_goals: dict[str, float]
    of_classes: dict[str, Interval]
    against_today: PairVerdict


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
    """The effects of options, the best first, and the verdicts between them; `base_means` are the means of
    the base by goal."""

    criteria: Criteria
    base_means: dict[str, float]
    effects: tuple[Effect, ...]
    standings: Standings


def rank_options(
    samples: OptionSamples,
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
    figures = {
        name: ((criteria.by_price and effect.per_price) or effect.gain).mean
        for name, effect in effects.items()
    }
    best_first = tuple(effects[name] for name in race.standings.in_order(figures))
    means = {goal.key: float(np.mean(samples.values(base, goal.key))) for goal in samples.plan.goals}
    return Ranking(criteria, means, best_first, race.standings)


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
        self._demand = Demand(plan.confidence, n_pairs, len(self.looks))
        self.standings = Standings(list(self._options))
        self._against_base = dict.fromkeys(self._options, PairVerdict.UNSETTLED)

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
            if self._against_base[name] is PairVerdict.UNSETTLED:
                self._against_base[name] = self._demand.verdict(self._samples.gains(option, base), within)

    def still_open(self) -> list[Option]:
        """The options that need more replications."""
        names = {name for pair in self.open_pairs() for name in pair} | set(self.open_against_base())
        return [option for name, option in self._options.items() if name in names]

    def open_pairs(self) -> list[tuple[str, str]]:
        first = self._first()
        return [pair for pair in self.standings.unsettled if first is None or first in pair]

    def open_against_base(self) -> list[str]:
        first = self._first()
        unsettled = [name for name, verdict in self._against_base.items() if verdict is PairVerdict.UNSETTLED]
        return [name for name in unsettled if first is None or name == first]

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
        gain, today = interval(gains), samples.values(base, n=n)
        per_price = gain.scaled(1.0 / option.cost) if option.cost else None
        # Scaled, so that it says the same as the verdict: the interval of a ratio of means may exclude 0
        # where that of the differences does not.
        mean = abs(float(np.mean(today)))
        percent = gain.scaled(100.0 / mean) if mean else Interval(0.0, 0.0)
        common = set(samples.job_classes(option, n)) & set(samples.job_classes(base, n))
        return Effect(
            option,
            n,
            gain,
            per_price,
            percent,
            {goal.key: self._mean(option, goal.key) for goal in samples.plan.goals},
            {name: interval(samples.gains(option, base, f"{CLASS}{name}")) for name in sorted(common)},
            self._against_base[option.name],
        )

    def _mean(self, option: Option, key: str) -> float:
        """A goal's mean over all replications of the base, of which the option may have fewer: the mean of
        the base plus the mean of the paired differences."""
        samples, base = self._samples, self._base
        n = min(samples.count(option), samples.count(base))
        difference = samples.values(option, key, n) - samples.values(base, key, n)
        return float(np.mean(samples.values(base, key))) + float(np.mean(difference))
