"""What each option does by itself, and in which order they are to be preferred."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sil.outcome.statistics import Interval
from sil.planning.option_runs import CLASS
from sil.planning.options import AS_IT_IS, Option
from sil.planning.samples import Sample, Samples
from sil.planning.settling import Demand, Looks, Standings, Verdict, pairs_of


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
) -> Ranking:
    """Replicate until the ranking is settled, or `most_replications` are done.

    With `by_price`, options are ranked by their gain for each unit of price: two are tied where the same
    money (as much as the dearer one costs) makes less than the indifference with either. With `only_first`,
    it is enough to know who is the first, and who is tied with it. `on_look` hears how many replications
    there are, and how many pairs are not settled.
    """
    plan = samples.plan
    looks = Looks(plan.first_replications, plan.most_replications).at
    n_pairs = len(options) * (len(options) + 1) // 2
    demand = Demand(plan.confidence, n_pairs, len(looks))
    named = {option.name: option for option in options}
    standings, against = Standings(list(named)), Standings([base.name, *named])
    for n in looks:
        open_pairs = _open(standings, only_first, named, samples, base, by_price)
        active = {name for pair in open_pairs for name in pair}
        active |= {
            name for name in named if against.between(name, base.name) is Verdict.UNSETTLED and not only_first
        }
        samples.ensure([base, *(named[name] for name in named if name in active)], n)
        allowed = plan.indifference * abs(float(np.mean(samples.values(base))))
        for one, other in open_pairs or pairs_of(list(named)):
            difference, within = _difference(samples, named[one], named[other], base, by_price, allowed)
            standings.settle(one, other, demand.verdict(difference, within))
        for name in named:
            against.settle(name, base.name, demand.verdict(samples.gains(named[name], base), allowed))
        left = _open(standings, only_first, named, samples, base, by_price)
        waiting = [name for name in named if against.between(name, base.name) is Verdict.UNSETTLED]
        on_look(n, len(left) + (0 if only_first else len(waiting)))
        if not left and (only_first or not waiting):
            break
    effects = [_effect(samples, option, base, demand, against) for option in options]
    effects.sort(key=lambda e: -_figure(e, by_price))
    means = {goal.key: float(np.mean(samples.values(base, goal.key))) for goal in plan.goals}
    return Ranking(means, tuple(effects), standings, by_price)


def _open(
    standings: Standings,
    only_first: bool,
    named: dict[str, Option],
    samples: Samples,
    base: Option,
    by_price: bool,
) -> list[tuple[str, str]]:
    """The pairs on which there is still to be decided."""
    unsettled = list(standings.unsettled)
    if not only_first or not all(samples.count(option) for option in named.values()):
        return unsettled
    first = max(named, key=lambda name: _mean(_ranked_by(samples, named[name], base, by_price)))
    return [pair for pair in unsettled if first in pair]


def _difference(
    samples: Samples, one: Option, other: Option, base: Option, by_price: bool, allowed: float
) -> tuple[Sample, float]:
    """Of what two options are ranked by, and the indifference."""
    left, right = (_ranked_by(samples, option, base, by_price) for option in (one, other))
    n = min(len(left), len(right))
    return left[:n] - right[:n], allowed / max(one.cost, other.cost) if by_price else allowed


def _ranked_by(samples: Samples, option: Option, base: Option, by_price: bool) -> Sample:
    gains = samples.gains(option, base)
    return gains / option.cost if by_price else gains


def _effect(samples: Samples, option: Option, base: Option, demand: Demand, against: Standings) -> Effect:
    gains = samples.gains(option, base)
    today = abs(float(np.mean(samples.values(base, n=len(gains)))))
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
        _scaled(gain, 100.0 / today if today else 0.0),
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


def _mean(values: Sample) -> float:
    return float(np.mean(values))
