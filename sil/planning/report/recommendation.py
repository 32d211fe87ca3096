"""What was found, in sentences for who has to decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log10

from sil.outcome.metrics import PLAN_METRICS
from sil.outcome.statistics import Interval
from sil.planning.answers import Answer, Answers
from sil.planning.options import AS_IT_IS
from sil.planning.plan_file import Plan
from sil.planning.questions.effects import Effect, Ranking
from sil.planning.questions.ranking import Verdict
from sil.planning.questions.sizing import Size
from sil.planning.report.tables import rankings
from sil.settings.notional import NO_TIME_CHANGES

LEAST_TOLD = 0.05
"""Changes of less than so many percent, known so exactly, are none."""


def recommendation(answers: Answers) -> str:
    """One sentence, for the first scheduler of the plan."""
    plan, answer = answers.plan, answers.answers[0]
    is_of_today = answer.base.name == AS_IT_IS.name
    if answer.best_buy is not None:
        chosen = choice(answer.best_buy.ranking)
        if is_of_today and chosen.against_today in (Verdict.TIE, Verdict.WORSE):
            least = f"{100 * plan.indifference:g} %"
            return f"With {money(plan.budget or 0.0)}, buy nothing: no combination gains more than {least}."
        change = _change(plan, chosen, answer)
        cost = money(chosen.option.cost)
        if chosen.option.name == answer.base.name:
            change = "it is the least that carries the forecast, and nothing does better"
        return f"With {money(plan.budget or 0.0)}, buy '{chosen.option.name}' for {cost}: {change}."
    if answer.size is not None:
        return sizing(plan, answer.size)
    if answer.marginal is not None:
        first = answer.marginal.effects[0]
        if all(e.against_today in (Verdict.TIE, Verdict.WORSE) for e in answer.marginal.effects):
            if not is_of_today:
                return (
                    f"'{answer.base.name}' is the least that carries the forecast, and no offer does better."
                )
            return f"Buy nothing: no offer gains more than {100 * plan.indifference:g} %."
        most = "does most for its price" if answer.marginal.by_price else "does most"
        cost = money(first.option.cost)
        return f"'{first.option.name}' {most}: for {cost}, {_change(plan, first, answer)}."
    if answer.retire is not None:
        first = answer.retire.effects[0]
        return f"Least is lost {first.option.name}: {_change(plan, first, answer)}."
    if not is_of_today:
        return f"Only '{answer.base.name}' carries the forecast, for {money(answer.base.cost)}."
    return "Nothing that was offered carries the forecast."


def choice(ranking: Ranking) -> Effect:
    """The best one; of those tied with it, the cheapest."""
    first = ranking.effects[0]
    tied = [
        e
        for e in ranking.leaders
        if ranking.standings.between(first.option.name, e.option.name) is Verdict.TIE
    ]
    return min([first, *tied], key=lambda effect: effect.option.cost)


def sizing(plan: Plan, size: Size) -> str:
    goal, word = plan.goals[0], "at least" if plan.goals[0].more_is_better else "at most"
    target = f"{goal.label} {word} {size.target:g}"
    if size.count is None:
        most = size.steps[0].reached.mean if size.steps else None
        reached = "" if most is None else f"; with all {plan.offer(size.offer).limit} it is {most:.4g}"
        return f"The target ({target}) cannot be met with '{size.offer}'{reached}."
    if size.count == 0:
        return f"The target ({target}) is met by the site as it is."
    reached_by = next((s for s in size.steps if s.count == size.count), None)
    value = "" if reached_by is None else f": {interval(reached_by.reached)}"
    return f"{size.count} x {size.offer} is the least that meets the target ({target}){value}."


def caveats(answers: Answers) -> Iterator[str]:
    """What is not settled, and what else a reader has to know, a sentence each."""
    plan = answers.plan
    for answer in answers.answers:
        under = f"Under {answer.scheduler}, " if len(answers.answers) > 1 else ""
        for what, ranking in rankings(answer):
            for one, others in _pairs(ranking, what, Verdict.UNSETTLED):
                after = f"after {plan.replications} replications ({what})"
                yield f"{under}not settled {after}: whether '{one}' is better than {_listed(others)}."
            for effect in ranking.effects if what == "each offer" else ranking.effects[:1]:
                if effect.against_today is Verdict.UNSETTLED:
                    names = f"'{effect.option.name}' makes a difference to '{answer.base.name}'"
                    yield f"{under}not settled ({what}): whether {names}."
            for one, others in _pairs(ranking, what, Verdict.TIE):
                least = f"{100 * plan.indifference:g} %"
                tied = _listed(others)
                yield f"{under}'{one}' is tied with {tied} ({what}): the difference is less than {least}."
        if answer.size is not None and not answer.size.is_settled:
            after = f"after {plan.replications} replications"
            yield f"{under}the size is not settled {after}; it is by the means."
        if answer.base.name != AS_IT_IS.name:
            yield (
                f"{under}as it is, the site cannot carry the forecast: its queues would grow without end. "
                f"Effects are told against '{answer.base.name}'."
            )
        if answer.refused:
            yield (
                f"{under}{100 * answer.refused:.0f} % of the jobs that arrive are refused, by what the site "
                f"allows users and queues, and count in no figure."
            )
    if answers.down:
        named = _listed(answers.down[:8]) + (" and others" if len(answers.down) > 8 else "")
        yield (
            f"Down at the site today, and in all runs from their beginning: {named}. What the site could "
            f"carry at best counts them as if they were up."
        )
    for name, found in answers.loads.items():
        if found is not None and found.is_too_much:
            yield (
                f"With '{name}', {found.rho:.2f} times what can be carried would arrive (most of it from "
                f"'{found.bottleneck}'), so it is left out."
            )
    for offer in plan.offers:
        if any(change.leaves_times for change in offer.changes):
            yield f"'{offer.name}': {NO_TIME_CHANGES}."
    for name in answers.not_spared:
        yield f"{name[0].upper()}{name[1:]}, the site could not carry the forecast."


def assumptions(answers: Answers) -> Iterator[str]:
    """What all of this rests on."""
    plan = answers.plan
    yield f"The forecast: {_forecast(plan)}."
    today = answers.loads.get(AS_IT_IS.name)
    if today is not None:
        share = f"{100 * today.rho:.0f} % of what the site could carry at best as it is"
        yield f"That is {share}; most of it comes from '{today.bottleneck}'."
    luck = "and the same luck " if plan.log is None else ""
    yield (
        f"All options met the same jobs {luck}in each replication, and are compared by the "
        "differences (common random numbers). All statements on a question together are right at "
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
            f"on {plan.first_replications} replications each; the best few to the end."
        )
    if any(answer.size is not None for answer in answers.answers):
        yield "Size: by bisection; more of an offer is taken never to be worse."
    if plan.years and any(offer.running_cost for offer in plan.offers):
        yield f"Costs are prices and the running costs of {plan.period}."
    if plan.log is None:
        yield "Machines really do what the site's data say of their class, and schedulers expect the same."


def money(amount: float) -> str:
    return f"{amount:,.0f}" if amount == round(amount) else f"{amount:,.2f}"


def interval(found: Interval) -> str:
    """A mean and its half-width: two digits of that, and the mean to the same place."""
    width = found.half_width or 0.0
    places = max(0, 1 - floor(log10(width))) if width > 0.0 else 1
    return f"{found.mean:,.{places}f} ± {width:,.{places}f}"


def _change(plan: Plan, effect: Effect, answer: Answer) -> str:
    goal = plan.goals[0]
    name = PLAN_METRICS[goal.metric].title.lower() + "".join(
        f" of {part}" for part in (goal.job_class, goal.queue) if part
    )
    gained = effect.percent.mean if goal.more_is_better else -effect.percent.mean
    verb = "rises" if gained > 0 else "falls"
    unit = PLAN_METRICS[goal.metric].unit
    width = effect.percent.half_width or 0.0
    value = effect.of_goals[goal.key]
    against = "" if answer.base.name == AS_IT_IS.name else f" (against {answer.base.name})"
    if abs(gained) < LEAST_TOLD and width < LEAST_TOLD:
        return f"{name} stays at {value:,.4g} {unit}".rstrip() + against
    return f"{name} {verb} by {abs(gained):.1f} ± {width:.1f} %, to {value:,.4g} {unit}".rstrip() + against


def _pairs(ranking: Ranking, what: str, verdict: Verdict) -> Iterator[tuple[str, list[str]]]:
    """An option, and those behind it of which that is said; where only the first matters, of that one."""
    names = [effect.option.name for effect in ranking.effects]
    for k, one in enumerate(names if what == "each offer" else names[:1]):
        found = [name for name in names[k + 1 :] if ranking.standings.between(one, name) is verdict]
        if found:
            yield one, found


def _listed(names: Sequence[str]) -> str:
    *first, last = [f"'{name}'" for name in names]
    return f"{', '.join(first)} and {last}" if first else last


def _forecast(plan: Plan) -> str:
    if plan.log is not None:
        return f"{plan.log.file} at {plan.log.load:g} times its load, in {plan.log.parts} consecutive parts"
    workload = plan.forecast
    mix = ", ".join(f"{name} {share:.3g}" for name, share in workload.mix.items()) or "all job classes alike"
    when = "all there at the beginning"
    if workload.arrivals.kind == "poisson":
        arrivals = workload.arrivals
        when = f"{arrivals.jobs_per_quantum:g} jobs per {arrivals.quantum_s:g} s (Poisson)"
    if plan.history is not None:
        of = "ever" if plan.history.days is None else f"in the last {plan.history.days:g} days"
        mix = f"{mix}; {plan.history.load:g} times what arrived {of}, by the site's database"
    return f"{workload.jobs} jobs in each replication, {when}; {mix}"
