"""What the answers of a plan rest on (the forecast, the model, the statistics) and what they leave open, in
sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from scheduler.messages import counted
from sil.planning.answers import BEST_BUY, POLICIES, Answer, Answers
from sil.planning.options import AS_IT_IS
from sil.planning.plan_file import Plan
from sil.planning.ranking import OptionRanking
from sil.planning.recommendation import listed, share_text
from sil.planning.runs import CORE_HOURS, GPU_HOURS, JOBS, RefusedShares
from sil.planning.verdicts import PairVerdict
from sil.settings.alternatives import texts
from sil.settings.experiment_file import WorkloadTable
from sil.settings.log_tables import HistoryTable, LogTable
from sil.settings.replays import Estimates
from sil.workload.job_log import JobLog
from sil.workload.slices import few_weeks, n_weeks


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
    for name, policy, settings in (
        ("The policy", plan.policy, plan.policy_settings),
        *((f"'{each.name}'", each.policy, each.policy_settings) for each in plan.policies),
    ):
        if given := texts(policy) + texts(settings):
            yield f"{name}: {listed(given)}."
    yield from _statistics(plan)
    indifference = f"{100 * plan.indifference:g} % of the goal as it is today"
    yield f"Differences of less than {indifference} are treated as ties."
    best = next((answer.best_buy for answer in answers.answers if answer.best_buy is not None), None)
    if best is not None:
        how = "all of them" if best.is_complete else "by local search"
        yield (
            f"Best buy: {best.tried} of {best.possible} combinations within the budget were tried ({how}), "
            f"on {counted(plan.first_replications, 'replication')} each; the best few until they are settled."
        )
    if any("slowdown" in goal.metric for goal in plan.goals):
        yield f"Bounded slowdown has a threshold of {plan.bounded_slowdown_threshold_s:g} s."
    if any(answer.size is not None for answer in answers.answers):
        yield "Size: by bisection, assuming that more of an offer is never worse."
    if plan.years and any(offer.running_cost for offer in plan.offers):
        yield f"Costs are prices and the running costs of {plan.period}."
    if plan.is_on_site:
        yield _run_times(answers)


def _statistics(plan: Plan) -> Iterator[str]:
    if plan.replications == 1:
        table = "history" if plan.log is None else "log"
        yield (
            "All options see the same jobs, once, as they arrived: differences are those of these jobs, and "
            f"have no confidence intervals. With {table}.weeks, replications draw weeks of them, which shows "
            f"how much the differences vary."
        )
        return
    run_times = "and run times " if plan.is_on_site else ""
    yield (
        f"All options see the same jobs {run_times}in each replication, and are compared by the "
        "differences (common random numbers). All statements on a question hold simultaneously at "
        f"{100 * plan.confidence:g} % confidence: Bonferroni's correction for all pairs and all looks "
        "(Clark and Yang 1986; Jennison and Turnbull 1989)."
    )


def forecast(answers: Answers) -> str:
    return f"The forecast: {_forecast(answers)}."


def modelled(answers: Answers) -> Iterator[str]:
    """How nodes are modelled, and where offers add some; nothing where the site has none."""
    if answers.model:
        yield from (f"{line}." for line in (*answers.model, *answers.added))
        yield (
            "Waiting jobs are not tied to a node, and start on any nodes with room for them as soon as the "
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


def _forecast(answers: Answers) -> str:
    plan = answers.plan
    if answers.log is not None and plan.observed is not None:
        return _observed(plan, plan.observed, answers.log)
    if plan.log is not None:
        return (
            f"{plan.log.file} at {plan.log.load:g} times its load, in {plan.log.n_parts} consecutive parts; "
            "jobs before and after each are replayed, too, and not measured"
        )
    if plan.clusters:
        texts = [f"at {x.name}, {_drawn(plan, x.workload or plan.forecast)}" for x in plan.clusters]
        return ". ".join(texts)
    return _drawn(plan, plan.forecast)


def _drawn(plan: Plan, workload: WorkloadTable) -> str:
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
    return f"{counted(workload.jobs, 'job')} in each replication, {when}; {mix}"


def _observed(plan: Plan, table: LogTable | HistoryTable, log: JobLog) -> str:
    load = "" if table.load == 1.0 else f", at {table.load:g} times their load"
    if plan.weeks is not None:
        weeks = counted(plan.weeks, "week")
        return f"{weeks} drawn from {n_weeks(log)} of {log.name}{load}, in each replication"
    return f"all {counted(len(log.jobs), 'job')} of {log.name} as they arrived{load}"


MAX_NAMED = 8


def caveats(answers: Answers) -> Iterator[str]:
    """What is not settled, and what else a reader has to know, a sentence each."""
    plan = answers.plan
    if plan.most_replications == 1:
        yield (
            "The jobs are those that arrived, once: there is no confidence interval, and nothing says how "
            "other weeks would be."
        )
    elif plan.weeks is not None and answers.log is not None:
        yield from few_weeks(answers.log)
    for answer in answers.answers:
        under = f"Under {answer.scheduler}, " if len(answers.answers) > 1 else ""
        for sentence in _of_answer(plan, answer):
            yield f"{under}{sentence}" if under else sentence[0].upper() + sentence[1:]
    if answers.down:
        named = listed(answers.down[:8]) + (" and others" if len(answers.down) > 8 else "")
        yield (
            f"Down at the site today, and in all runs from their beginning: {named}. The capacity of the "
            f"site includes them."
        )
    if answers.binding:
        word = "queue" if len(answers.binding) == 1 else "queues"
        yield (
            f"Jobs of the {word} {listed(answers.binding)} keep the machine to which they were mapped "
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
        more = f" and {len(names) - MAX_NAMED} others" if len(names) > MAX_NAMED else ""
        yield (
            f"Left out of the best buy, since with them the site could not carry the forecast, or they "
            f"exclude each other: {listed(names[:MAX_NAMED])}{more}. options.csv has all of them."
        )
    yield from answers.without_effect
    if answers.log is not None:
        yield from (f"{answers.log.name}: {sentence}." for sentence in answers.log.notes)
    for name in answers.indispensable:
        yield f"{name[0].upper()}{name[1:]}, the site could not carry the forecast."


def _of_answer(plan: Plan, answer: Answer) -> Iterator[str]:
    yield from _caveats_of_rankings(plan, answer)
    if answer.size is not None and not answer.size.is_settled:
        why = next((f": {step.no_interval}" for step in answer.size.steps if step.no_interval), "")
        yield f"the size is not settled after {plan.replications} replications{why}; the means decide."
    if answer.base != AS_IT_IS:
        yield (
            "as it is, the site cannot carry the forecast: its queues would grow without bound. Effects are "
            f"relative to '{answer.base.name}'."
        )
    if answer.warm_up is not None and (
        short := answer.warm_up.too_short("give a longer one (warm_up_jobs), of about {} jobs in all")
    ):
        yield f"the warm-up {short}."
    yield from _of_refused(answer.refused)


def _of_refused(refused: RefusedShares) -> Iterator[str]:
    by_share = sorted(refused.reasons.items(), key=lambda reason: -max(reason[1].values()))
    for why, shares in by_share:
        units = [unit for unit in (CORE_HOURS, GPU_HOURS) if shares[unit]]
        hours = " and ".join(f"{share_text(shares[unit])} of the {unit}" for unit in units)
        with_hours = f"with {hours}, " if hours else ""
        yield (
            f"{share_text(shares[JOBS])} of the jobs that arrive, {with_hours}{why}: they are refused, and "
            f"count in no figure."
        )
    if refused.share and not refused.reasons:
        yield (
            f"{share_text(refused.share)} of the jobs that arrive are refused by the site's rules for users "
            f"and queues, and count in no figure."
        )


def _caveats_of_rankings(plan: Plan, answer: Answer) -> Iterator[str]:
    least = f"{100 * plan.indifference:g} %"
    seen: set[str] = set()
    twice: list[str] = []
    for what, ranking in answer.rankings.items():
        only_first = ranking.criteria.only_first
        for one, others in _pairs(ranking, PairVerdict.UNSETTLED):
            after = f"after {plan.replications} replications ({what})"
            needed = [ranking.n_needed[one, other] for other in others if (one, other) in ranking.n_needed]
            more = f"; it takes about {max(needed):,} ({plan.key_of_replications})" if needed else ""
            yield f"not settled {after}: whether '{one}' is better than {listed(others)}{more}."
            for why, unseen in _by_reason(ranking, one, others).items():
                yield f"between '{one}' and {listed(unseen)} ({what}), {why}."
        for effect in ranking.effects if what == POLICIES else ():
            if effect.of_goals == ranking.base_means:
                n = counted(effect.n, "replication")
                yield f"'{effect.option.name}' has no effect: no goal differs in any of {n}."
        for effect in ranking.effects[:1] if only_first else ranking.effects:
            if effect.against_today is PairVerdict.UNSETTLED:
                yield (
                    f"not settled ({what}): whether '{effect.option.name}' makes a difference to "
                    f"'{answer.base.name}'{effect.no_interval and f': {effect.no_interval}'}."
                )
        for one, others in _pairs(ranking, PairVerdict.TIE):
            yield f"'{one}' is tied with {listed(others)} ({what}): the difference is less than {least}."
        names = {effect.option.name for effect in ranking.effects}
        twice += sorted(names & seen)
        seen |= names
    if twice:
        verb = "has" if len(twice) == 1 else "have"
        yield (
            f"{listed(twice)} {verb} another interval in each table: the intervals of a table hold for all "
            "of its options at once, and replications continue until its own comparisons are settled."
        )


def _by_reason(ranking: OptionRanking, one: str, others: Sequence[str]) -> dict[str, list[str]]:
    """The options whose differences to `one` have no interval, by the reason."""
    found: dict[str, list[str]] = {}
    for other in others:
        if why := ranking.no_interval.get((one, other)):
            found.setdefault(why, []).append(other)
    return found


def _pairs(ranking: OptionRanking, verdict: PairVerdict) -> Iterator[tuple[str, list[str]]]:
    """An option, and those behind it against which it has this verdict; if only the first matters, it and
    the option to recommend, which is compared with the cheaper ones."""
    names = [effect.option.name for effect in ranking.effects]
    cheaper = [effect.option.name for effect in ranking.cheaper]
    for k, one in enumerate(names):
        behind = names[k + 1 :]
        if ranking.criteria.only_first and k:
            behind = cheaper if one == ranking.choice else []
        found = [name for name in behind if ranking.standings.between(one, name) is verdict]
        if found:
            yield one, found
