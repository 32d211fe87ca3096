"""What is not settled in the answers of a plan, and what else a reader has to know, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from sil.planning.answers import BEST_BUY, Answer, Answers
from sil.planning.options import AS_IT_IS
from sil.planning.plan_file import Plan
from sil.planning.questions.ranking import Ranking
from sil.planning.questions.verdicts import PairVerdict
from sil.planning.report.wording import listed, share_text
from sil.planning.samples import Refused
from sil.planning.scenario.scenario import CORE_HOURS, GPU_HOURS, JOBS
from sil.workload.slices import few_weeks

MOST_NAMED = 8


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
        more = f" and {len(names) - MOST_NAMED} others" if len(names) > MOST_NAMED else ""
        yield (
            f"Left out of the best buy, since with them the site could not carry the forecast, or they "
            f"exclude each other: {listed(names[:MOST_NAMED])}{more}. options.csv has all of them."
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
    yield from _of_refused(answer.refused)


def _of_refused(refused: Refused) -> Iterator[str]:
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


def _by_reason(ranking: Ranking, one: str, others: Sequence[str]) -> dict[str, list[str]]:
    """By why their differences to `one` have no interval, those that have none."""
    found: dict[str, list[str]] = {}
    for other in others:
        if why := ranking.no_interval.get((one, other)):
            found.setdefault(why, []).append(other)
    return found


def _pairs(ranking: Ranking, verdict: PairVerdict) -> Iterator[tuple[str, list[str]]]:
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
