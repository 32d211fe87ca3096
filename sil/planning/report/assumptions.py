"""What the answers of a plan rest on: the forecast, the model, and the statistics, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.messages import counted
from sil.planning.answers import Answers
from sil.planning.options import AS_IT_IS
from sil.planning.plan_file import Plan
from sil.settings.estimates import Estimates
from sil.settings.log_tables import HistoryTable, LogTable
from sil.workload.job_log import JobLog
from sil.workload.slices import n_weeks


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
    """How options are compared."""
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
    return f"{counted(workload.jobs, 'job')} in each replication, {when}; {mix}"


def _observed(plan: Plan, table: LogTable | HistoryTable, log: JobLog) -> str:
    load = "" if table.load == 1.0 else f", at {table.load:g} times their load"
    if plan.weeks is not None:
        weeks = counted(plan.weeks, "week")
        return f"{weeks} drawn from {n_weeks(log)} of {log.name}{load}, in each replication"
    return f"all {counted(len(log.jobs), 'job')} of {log.name} as they arrived{load}"
