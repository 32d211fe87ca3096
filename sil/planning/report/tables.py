"""The answers as tables: for the page, the console and CSV files."""

from __future__ import annotations

import polars as pl

from sil.planning.answers import Answer, Answers
from sil.planning.plan_file import Plan
from sil.planning.questions.effects import Effect, Ranking
from sil.planning.questions.ranking import Verdict

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "scheduler": pl.String,
    "question": pl.String,
    "option": pl.String,
    "cost": pl.Float64,
    "replications": pl.Int64,
    "gain": pl.Float64,
    "gain_half_width": pl.Float64,
    "gain_percent": pl.Float64,
    "gain_percent_half_width": pl.Float64,
    "gain_per_price": pl.Float64,
    "gain_per_price_half_width": pl.Float64,
    "against_today": pl.String,
    "best_rank": pl.Int64,
    "worst_rank": pl.Int64,
    "tied_with": pl.String,
    "not_told_apart_from": pl.String,
}
"""One row per option; `gain` is of the first goal, in its unit; more is better. The half-widths are
simultaneous for all options of a question."""


def options_frame(answers: Answers) -> pl.DataFrame:
    """SCHEMA, then a column for the mean of each goal."""
    plan = answers.plan
    rows = [
        _row(answer, question, ranking, effect, plan)
        for answer in answers.answers
        for question, ranking in rankings(answer)
        for effect in ranking.effects
    ]
    goals = {goal.key: pl.Float64() for goal in plan.goals}
    return pl.DataFrame(rows, schema={**SCHEMA, **goals}, orient="row")


def classes_frame(answers: Answers) -> pl.DataFrame:
    """The gain of each job class in mean turnaround (s); more is better."""
    rows = [
        (answer.scheduler, question, effect.option.name, name, gain.mean, gain.half_width)
        for answer in answers.answers
        for question, ranking in rankings(answer)
        for effect in ranking.effects
        for name, gain in effect.of_classes.items()
    ]
    names = dict.fromkeys(("scheduler", "question", "option", "job_class"), pl.String)
    return pl.DataFrame(
        rows, schema={**names, "gain_s": pl.Float64, "half_width_s": pl.Float64}, orient="row"
    )


def rankings(answer: Answer) -> list[tuple[str, Ranking]]:
    """The questions that compare options."""
    best = None if answer.best_buy is None else answer.best_buy.ranking
    found = [("each offer", answer.marginal), ("best buy", best), ("retire", answer.retire)]
    return [(question, ranking) for question, ranking in found if ranking is not None]


def rank_text(ranking: Ranking, effect: Effect) -> str:
    """Its rank, or the range of possible ranks; = is a tie."""
    best, worst = ranking.standings.rank(effect.option.name)
    tied = "=" if ranking.standings.tied_with(effect.option.name) else ""
    return f"{best}{tied}" if best == worst else f"{best} to {worst}"


def against_first(ranking: Ranking, effect: Effect) -> str:
    """The verdict against the best one."""
    first = ranking.effects[0]
    if effect is first:
        return "the first"
    return ranking.standings.between(effect.option.name, first.option.name).value


def _row(
    answer: Answer, question: str, ranking: Ranking, effect: Effect, plan: Plan
) -> tuple[str | float | int | None, ...]:
    standings, name = ranking.standings, effect.option.name
    per_price = effect.per_price
    # In order of rank.
    others = [other.option.name for other in ranking.effects]
    open_to = [other for other in others if other in standings.that_are(Verdict.UNSETTLED, name)]
    return (
        answer.scheduler,
        question,
        name,
        effect.option.cost,
        effect.n,
        effect.gain.mean,
        effect.gain.half_width,
        effect.percent.mean,
        effect.percent.half_width,
        None if per_price is None else per_price.mean,
        None if per_price is None else per_price.half_width,
        effect.against_today.value,
        *standings.rank(name),
        "; ".join(standings.tied_with(name)),
        "; ".join(open_to),
        *(effect.of_goals[goal.key] for goal in plan.goals),
    )
