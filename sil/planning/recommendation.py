"""The answers in sentences, for the person who decides."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from scheduler.messages import counted
from sil.outcome.metrics import PLAN_METRICS
from sil.outcome.statistics import Interval
from sil.planning.answers import Answer, Answers
from sil.planning.options import AS_IT_IS
from sil.planning.plan_file import Plan
from sil.planning.ranking import Effect, OptionRanking
from sil.planning.searches import Size
from sil.planning.verdicts import PairVerdict


def share_text(share: float) -> str:
    """A share in percent, to two digits."""
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"


def figure(value: float) -> str:
    """A value of a goal: four digits, or more where it has more before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"


def money(amount: float) -> str:
    return f"{amount:,.0f}" if amount == round(amount) else f"{amount:,.2f}"


def interval(found: Interval) -> str:
    """A mean and its half-width, both to the second significant digit of the half-width; the mean alone if
    there is no half-width."""
    width = found.half_width or 0.0
    places = max(0, 1 - floor(log10(width))) if width > 0.0 else 1
    return found.text(f",.{places}f", plus_minus="± ")


def percentage(found: Interval, sign: str = "") -> str:
    """A mean and its half-width with one decimal; `sign` is that of a format specification."""
    return found.text(".1f", sign, "± ")


def listed(names: Sequence[str]) -> str:
    *first, last = [f"'{name}'" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


MIN_PERCENT = 0.05
"""Smaller changes with smaller half-widths are not shown."""


def recommendation(answers: Answers) -> str:
    """One sentence, for the first scheduler of the plan that has answers."""
    plan, answer = answers.plan, answers.answers[0]
    base = answer.base
    least = f"{100 * plan.indifference:g} %"
    if answer.best_buy is not None:
        ranking = answer.best_buy.ranking
        chosen, budget = ranking.effect(ranking.choice), f"With {money(plan.budget or 0.0)}"
        if base == AS_IT_IS and _is_no_gain(chosen):
            return f"{budget}, buy nothing: no combination gains more than {least}."
        if _is_open(chosen) and chosen.option.name != base.name:
            return f"{budget}, {_open(plan, chosen, answer)}."
        change = _change(plan, chosen, answer)
        if chosen.option.name == base.name:
            change = "it is the least that carries the forecast, and nothing does better"
        buy = f"{budget}, buy '{chosen.option.name}' for {money(chosen.option.cost)}: {change}."
        return f"{buy}{_cheaper(ranking)}"
    if answer.size is not None:
        return sizing(plan, answer.size)
    if answer.marginal is not None:
        first = next((effect for effect in answer.marginal.effects if not _is_no_gain(effect)), None)
        if first is not None:
            if _is_open(first):
                said = _open(plan, first, answer)
                return f"{said[0].upper()}{said[1:]}."
            gains = "gains most per unit of price" if answer.marginal.criteria.by_price else "gains most"
            cost = money(first.option.cost)
            return f"'{first.option.name}' {gains}: for {cost}, {_change(plan, first, answer)}."
        if base == AS_IT_IS:
            return f"Buy nothing: no offer gains more than {least}."
        return f"'{base.name}' is the least that carries the forecast, and no offer does better."
    if answer.policies is not None:
        return policy_text(plan, answer, answer.policies.effects)
    if answer.retire is not None:
        first = answer.retire.effects[0]
        is_open = ""
        if _is_open(first):
            why = first.no_interval and f": {first.no_interval}"
            is_open = f"; whether it makes a difference is not settled{why}"
        change = _change(plan, first, answer)
        return f"The least harmful retirement is {first.option.name}: {change}{is_open}."
    if base != AS_IT_IS:
        return f"Only '{base.name}' carries the forecast, for {money(base.cost)}."
    return "No offer carries the forecast."


def policy_text(plan: Plan, answer: Answer, effects: Sequence[Effect]) -> str:
    """Which policy to choose."""
    first = next((effect for effect in effects if not _is_no_gain(effect)), None)
    if first is None:
        return f"Keep the policy: no other gains more than {100 * plan.indifference:g} %."
    if _is_open(first):
        said = _open(plan, first, answer)
        return f"{said[0].upper()}{said[1:]}."
    return f"The policy '{first.option.name}' gains most: {_change(plan, first, answer)}."


def _is_no_gain(effect: Effect) -> bool:
    return effect.against_today in (PairVerdict.TIE, PairVerdict.WORSE)


def _is_open(effect: Effect) -> bool:
    """Whether it is not settled that the option makes a difference."""
    return effect.against_today is PairVerdict.UNSETTLED


def _open(plan: Plan, effect: Effect, answer: Answer) -> str:
    base = answer.base
    known = "nothing can be recommended yet"
    if base != AS_IT_IS:
        known = f"'{base.name}' is the least that carries the forecast"
    return (
        f"{known}: after {counted(effect.n, 'replication')}, it is not settled whether "
        f"'{effect.option.name}' makes a difference ({effect.no_interval or _change(plan, effect, answer)}); "
        f"allow more ({plan.key_of_replications})"
    )


def _cheaper(ranking: OptionRanking) -> str:
    if not ranking.cheaper:
        return ""
    least, others = ranking.cheaper[0], len(ranking.cheaper) - 1
    more = (
        f", as may {counted(others, 'other option')} that {'is' if others == 1 else 'are'} cheaper"
        if others
        else ""
    )
    return f" '{least.option.name}' for {money(least.option.cost)} may do as well{more}: this is not settled."


def sizing(plan: Plan, size: Size) -> str:
    goal, limit = plan.goals[0], "at least" if plan.goals[0].more_is_better else "at most"
    target = f"{goal.label} {limit} {size.target:g}"
    if size.count is None:
        most = size.steps[0].reached.mean if size.steps else None
        reached = "" if most is None else f"; with all {plan.offer(size.offer).limit} it is {figure(most)}"
        return f"The target ({target}) cannot be met with '{size.offer}'{reached}{_not_settled(size)}."
    if size.count == 0:
        return f"The target ({target}) is met by the site as it is{_not_settled(size)}."
    value = "".join(f": {interval(step.reached)}" for step in size.steps if step.count == size.count)
    least = f"{size.count} x {size.offer} is the least that meets the target ({target}){value}"
    return f"{least}{_not_settled(size)}."


def _not_settled(size: Size) -> str:
    """The end of a sentence on a size that is not settled."""
    step = next((step for step in size.steps if not step.is_settled), None)
    if step is None:
        return ""
    why = step.no_interval and f": of {step.count} x {size.offer}, {step.no_interval}"
    return f" by the mean of {counted(step.n, 'replication')}, but this is not settled{why}"


def _change(plan: Plan, effect: Effect, answer: Answer) -> str:
    goal = plan.goals[0]
    title = PLAN_METRICS[goal.metric].title
    name = title[0].lower() + title[1:] + "".join(f" of {part}" for part in goal.of)
    gained = effect.percent.mean if goal.more_is_better else -effect.percent.mean
    verb = "rises" if gained > 0 else "falls"
    unit = PLAN_METRICS[goal.metric].unit
    width = effect.percent.half_width
    value = effect.of_goals[goal.key]
    against = "" if answer.base.name == AS_IT_IS.name else f" (against {answer.base.name})"
    if abs(gained) < MIN_PERCENT and (width is None or width < MIN_PERCENT):
        return f"{name} stays at {figure(value)} {unit}".rstrip() + against
    by = percentage(effect.percent if effect.percent.mean >= 0.0 else effect.percent.scaled(-1.0))
    return f"{name} {verb} by {by} %, to {figure(value)} {unit}".rstrip() + against
