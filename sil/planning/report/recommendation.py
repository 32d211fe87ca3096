"""The answers in sentences, for the person who decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, inf, log10

from sil.outcome.metrics import PLAN_METRICS
from sil.outcome.statistics import Interval
from sil.planning.answers import BEST_BUY, Answer, Answers
from sil.planning.options import AS_IT_IS
from sil.planning.plan_file import Plan
from sil.planning.questions.ranking import Effect, PairVerdict, Ranking
from sil.planning.questions.sizing import Size
from sil.settings.estimates import Estimates
from sil.workload.weeks import n_weeks

LEAST_PERCENT = 0.05
MOST_NAMED = 8
"""Smaller changes with smaller half-widths are not shown."""


def recommendation(answers: Answers) -> str:
    """One sentence, for the first scheduler of the plan."""
    plan, answer = answers.plan, answers.answers[0]
    base = answer.base
    least = f"{100 * plan.indifference:g} %"
    if answer.best_buy is not None:
        chosen, budget = choice(answer.best_buy.ranking), f"With {money(plan.budget or 0.0)}"
        if base == AS_IT_IS and _is_no_gain(chosen):
            return f"{budget}, buy nothing: no combination gains more than {least}."
        change = _change(plan, chosen, answer)
        if chosen.option.name == base.name:
            change = "it is the least that carries the forecast, and nothing does better"
        return f"{budget}, buy '{chosen.option.name}' for {money(chosen.option.cost)}: {change}."
    if answer.size is not None:
        return sizing(plan, answer.size)
    if answer.marginal is not None:
        if not all(map(_is_no_gain, answer.marginal.effects)):
            first = answer.marginal.effects[0]
            gains = "gains most per unit of price" if answer.marginal.criteria.by_price else "gains most"
            cost = money(first.option.cost)
            return f"'{first.option.name}' {gains}: for {cost}, {_change(plan, first, answer)}."
        if base == AS_IT_IS:
            return f"Buy nothing: no offer gains more than {least}."
        return f"'{base.name}' is the least that carries the forecast, and no offer does better."
    if answer.retire is not None:
        first = answer.retire.effects[0]
        return f"The least harmful retirement is {first.option.name}: {_change(plan, first, answer)}."
    if base != AS_IT_IS:
        return f"Only '{base.name}' carries the forecast, for {money(base.cost)}."
    return "No offer carries the forecast."


def _is_no_gain(effect: Effect) -> bool:
    return effect.against_today in (PairVerdict.TIE, PairVerdict.WORSE)


def choice(ranking: Ranking) -> Effect:
    """The best one; of those tied with it, the cheapest."""
    first = ranking.effects[0]
    tied = ranking.standings.tied_with(first.option.name)
    among = [first, *(e for e in ranking.effects if e.option.name in tied)]
    return min(among, key=lambda effect: effect.option.cost)


def sizing(plan: Plan, size: Size) -> str:
    goal, limit = plan.goals[0], "at least" if plan.goals[0].more_is_better else "at most"
    target = f"{goal.label} {limit} {size.target:g}"
    if size.count is None:
        most = size.steps[0].reached.mean if size.steps else None
        reached = "" if most is None else f"; with all {plan.offer(size.offer).limit} it is {most:.4g}"
        return f"The target ({target}) cannot be met with '{size.offer}'{reached}."
    if size.count == 0:
        return f"The target ({target}) is met by the site as it is."
    value = "".join(f": {interval(step.reached)}" for step in size.steps if step.count == size.count)
    return f"{size.count} x {size.offer} is the least that meets the target ({target}){value}."


def caveats(answers: Answers) -> Iterator[str]:
    """What is not settled, and what else a reader has to know, a sentence each."""
    plan = answers.plan
    refusing = "the site's rules for users and queues"
    if answers.model:
        refusing += ", or since they fit on no nodes or exceed the limits of their partitions"
    for answer in answers.answers:
        under = f"Under {answer.scheduler}, " if len(answers.answers) > 1 else ""
        for sentence in _caveats_of_rankings(plan, answer):
            yield f"{under}{sentence}"
        if answer.size is not None and not answer.size.is_settled:
            yield (
                f"{under}the size is not settled after {plan.replications} replications; the means decide."
            )
        if answer.base != AS_IT_IS:
            yield (
                f"{under}as it is, the site cannot carry the forecast: its queues would grow without bound. "
                f"Effects are relative to '{answer.base.name}'."
            )
        if answer.refused:
            yield (
                f"{under}{100 * answer.refused:.0f} % of the jobs that arrive are refused by {refusing}, and "
                f"count in no figure."
            )
    if answers.down:
        named = _listed(answers.down[:8]) + (" and others" if len(answers.down) > 8 else "")
        yield (
            f"Down at the site today, and in all runs from their beginning: {named}. The capacity of the "
            f"site includes them."
        )
    if answers.binding:
        word = "queue" if len(answers.binding) == 1 else "queues"
        yield (
            f"Jobs of the {word} {_listed(answers.binding)} keep the machine to which they were mapped "
            "(mapping = commit), even if another becomes free first. Waits are longer than in a queue from "
            "which every free machine takes the next job (mapping = remap), so levels may be pessimistic; "
            "the order of options is hardly affected."
        )
    for name, found in answers.loads.items():
        if found is not None and found.rho == inf:
            jobs = f"jobs of the {found.whose} '{found.bottleneck}'"
            yield f"'{name}' is left out: with it, {jobs} can run nowhere."
        elif found is not None and found.is_too_much:
            yield (
                f"'{name}' is left out: {found.rho:.2f} times its capacity would arrive (most of it from "
                f"'{found.bottleneck}')."
            )
    combined = [option.name for _, question, option in answers.left_out() if question == BEST_BUY]
    if combined:
        names = list(dict.fromkeys(combined))
        more = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
        yield (
            f"Left out of the best buy, since with them the site could not carry the forecast, or they "
            f"exclude each other: {_listed(names[:MOST_NAMED])}{more}. options.csv has all of them."
        )
    yield from answers.without_effect
    if answers.log is not None:
        yield from (f"{answers.log.name}: {sentence}." for sentence in answers.log.notes)
    for name in answers.indispensable:
        yield f"{name[0].upper()}{name[1:]}, the site could not carry the forecast."


def _caveats_of_rankings(plan: Plan, answer: Answer) -> Iterator[str]:
    least = f"{100 * plan.indifference:g} %"
    seen: set[str] = set()
    twice: list[str] = []
    for what, ranking in answer.rankings.items():
        only_first = ranking.criteria.only_first
        for one, others in _pairs(ranking, PairVerdict.UNSETTLED):
            after = f"after {plan.replications} replications ({what})"
            yield f"not settled {after}: whether '{one}' is better than {_listed(others)}."
        for effect in ranking.effects[:1] if only_first else ranking.effects:
            if effect.against_today is PairVerdict.UNSETTLED:
                yield (
                    f"not settled ({what}): whether '{effect.option.name}' makes a difference to "
                    f"'{answer.base.name}'."
                )
        for one, others in _pairs(ranking, PairVerdict.TIE):
            yield f"'{one}' is tied with {_listed(others)} ({what}): the difference is less than {least}."
        names = {effect.option.name for effect in ranking.effects}
        twice += sorted(names & seen)
        seen |= names
    if twice:
        verb = "has" if len(twice) == 1 else "have"
        yield (
            f"{_listed(twice)} {verb} another interval in each table: the intervals of a table hold for all "
            "of its options at once, and replications continue until its own comparisons are settled."
        )


def assumptions(answers: Answers) -> Iterator[str]:
    """The assumptions behind all of this."""
    plan = answers.plan
    yield forecast(answers)
    today = answers.loads.get(AS_IT_IS.name)
    if today is not None:
        scarce = f" ({today.scarce} are scarcest)" if today.scarce else ""
        share = f"{100 * today.rho:.0f} % of the capacity of the site as it is{scarce}"
        yield f"That is {share}; most of it comes from '{today.bottleneck}'."
    yield from modelled(answers)
    run_times = "and run times " if plan.is_on_site else ""
    yield (
        f"All options see the same jobs {run_times}in each replication, and are compared by the "
        "differences (common random numbers). All statements on a question hold simultaneously at "
        f"{100 * plan.confidence:g} % confidence: Bonferroni's correction for all pairs and all looks "
        "(Clark and Yang 1986; Jennison and Turnbull 1989)."
    )
    indifference = f"{100 * plan.indifference:g} % of the goal as it is today"
    yield f"Differences of less than {indifference} count as none (a tie)."
    best = next((answer.best_buy for answer in answers.answers if answer.best_buy is not None), None)
    if best is not None:
        how = "all of them" if best.is_complete else "by local search"
        yield (
            f"Best buy: {best.tried} of {best.possible} combinations within the budget were tried ({how}), "
            f"on {plan.first_replications} replications each; the best few until they are settled."
        )
    if any(answer.size is not None for answer in answers.answers):
        yield "Size: by bisection, assuming that more of an offer is never worse."
    if plan.years and any(offer.running_cost for offer in plan.offers):
        yield f"Costs are prices and the running costs of {plan.period}."
    if plan.is_on_site:
        yield _run_times(answers)


def forecast(answers: Answers) -> str:
    return f"The forecast: {_forecast(answers)}."


def modelled(answers: Answers) -> Iterator[str]:
    """How nodes are modelled; nothing where the site has none."""
    if answers.model:
        yield from (f"{line}." for line in answers.model)
        yield (
            "A waiting job is bound to no node, and starts on any nodes that have room for it as soon as the "
            "scheduler lets it: waits have no bias like that of mapping = commit on machines."
        )


_EXPECTED = {
    Estimates.USER: "their time limits, where they have one",
    Estimates.ACTUAL: "just that",
    Estimates.HISTORY: "the mean of the user's last two run times",
}


def _run_times(answers: Answers) -> str:
    if not answers.model:
        return "Actual run times follow the site's data of machine classes, and schedulers expect the same."
    expected = _EXPECTED[answers.plan.nodes.estimates]
    if answers.log is not None:
        return f"Jobs run as long as they did, on whatever nodes; schedulers expect {expected}."
    return f"Actual run times follow the site's data of machine classes; schedulers expect {expected}."


def money(amount: float) -> str:
    return f"{amount:,.0f}" if amount == round(amount) else f"{amount:,.2f}"


def interval(found: Interval) -> str:
    """A mean and its half-width, both to the second significant digit of the half-width."""
    width = found.half_width or 0.0
    places = max(0, 1 - floor(log10(width))) if width > 0.0 else 1
    return f"{found.mean:,.{places}f} ± {width:,.{places}f}"


def _change(plan: Plan, effect: Effect, answer: Answer) -> str:
    goal = plan.goals[0]
    title = PLAN_METRICS[goal.metric].title
    name = title[0].lower() + title[1:] + "".join(f" of {part}" for part in goal.of)
    gained = effect.percent.mean if goal.more_is_better else -effect.percent.mean
    verb = "rises" if gained > 0 else "falls"
    unit = PLAN_METRICS[goal.metric].unit
    width = effect.percent.half_width or 0.0
    value = effect.of_goals[goal.key]
    against = "" if answer.base.name == AS_IT_IS.name else f" (against {answer.base.name})"
    if abs(gained) < LEAST_PERCENT and width < LEAST_PERCENT:
        return f"{name} stays at {value:,.4g} {unit}".rstrip() + against
    return f"{name} {verb} by {abs(gained):.1f} ± {width:.1f} %, to {value:,.4g} {unit}".rstrip() + against


def _pairs(ranking: Ranking, verdict: PairVerdict) -> Iterator[tuple[str, list[str]]]:
    """An option, and those behind it against which it has this verdict; only the first option if only that
    matters."""
    names = [effect.option.name for effect in ranking.effects]
    for k, one in enumerate(names[:1] if ranking.criteria.only_first else names):
        found = [name for name in names[k + 1 :] if ranking.standings.between(one, name) is verdict]
        if found:
            yield one, found


def _listed(names: Sequence[str]) -> str:
    *first, last = [f"'{name}'" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def _forecast(answers: Answers) -> str:
    plan, log = answers.plan, answers.log
    if log is not None and plan.weeks is not None:
        weeks = "1 week" if plan.weeks == 1 else f"{plan.weeks} weeks"
        load = "".join(f", {part}" for part in log.part)
        return f"{weeks} drawn from {n_weeks(log)} of {log.name}{load}, in each replication"
    if plan.log is not None:
        return f"{plan.log.file} at {plan.log.load:g} times its load, in {plan.log.n_parts} consecutive parts"
    workload = plan.forecast
    mix = (
        ", ".join(f"{name} {share:.3g}" for name, share in workload.mix.items()) or "all job classes equally"
    )
    when = "all submitted at the beginning"
    if workload.arrivals.kind == "poisson":
        arrivals = workload.arrivals
        when = f"{arrivals.jobs_per_quantum:g} jobs per {arrivals.quantum_s:g} s (Poisson)"
    if plan.history is not None:
        of = "ever" if plan.history.days is None else f"in the last {plan.history.days:g} days"
        mix = f"{mix}; {plan.history.load:g} times what arrived {of}, by the site's database"
    return f"{workload.jobs} jobs in each replication, {when}; {mix}"
