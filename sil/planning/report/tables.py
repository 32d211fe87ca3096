"""The answers as tables: for the page, the console and CSV files."""

from __future__ import annotations

import polars as pl

from sil.planning.answers import Answers
from sil.planning.questions.ranking import Effect, Ranking, Verdict

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
        (answer.scheduler, question, *_cells(ranking, effect), *(effect.of_goals[g.key] for g in plan.goals))
        for answer in answers.answers
        for question, ranking in answer.rankings.items()
        for effect in ranking.effects
    ]
    goals = {goal.key: pl.Float64() for goal in plan.goals}
    return pl.DataFrame(rows, schema={**SCHEMA, **goals}, orient="row")


def classes_frame(answers: Answers) -> pl.DataFrame:
    """The gain of each job class in mean turnaround (s); more is better."""
    rows = [
        (answer.scheduler, question, effect.option.name, name, gain.mean, gain.half_width)
        for answer in answers.answers
        for question, ranking in answer.rankings.items()
        for effect in ranking.effects
        for name, gain in effect.of_classes.items()
    ]
    names = dict.fromkeys(("scheduler", "question", "option", "job_class"), pl.String)
    return pl.DataFrame(
        rows, schema={**names, "gain_s": pl.Float64, "half_width_s": pl.Float64}, orient="row"
    )


def rank_text(ranking: Ranking, effect: Effect) -> str:
    """The rank, or the range of possible ranks; = is a tie. If only the first option matters, the verdict
    against it."""
    first, name, standings = ranking.effects[0], effect.option.name, ranking.standings
    if ranking.criteria.only_first:
        return "the first" if effect is first else standings.between(name, first.option.name).value
    best, worst = standings.rank(name)
    tied = "=" if standings.tied_with(name) else ""
    return f"{best}{tied}" if best == worst else f"{best} to {worst}"


def _cells(ranking: Ranking, effect: Effect) -> tuple[str | float | int | None, ...]:
    """From "option" to the end of SCHEMA."""
    standings, name, per_price = ranking.standings, effect.option.name, effect.per_price
    not_settled = standings.that_are(Verdict.UNSETTLED, name)
    by_rank = [other.option.name for other in ranking.effects if other.option.name in not_settled]
    return (
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
        "; ".join(by_rank),
    )
