"""The report of a plan: the recommendation, caveats, the chart, the tables, the assumptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sil.outcome.statistics import Interval
from sil.planning.answers import Answer, Answers
from sil.planning.options import AS_IT_IS, Option
from sil.planning.plan_file import Plan
from sil.planning.questions.effects import Ranking
from sil.planning.report import recommendation
from sil.planning.report.charts import effect_against_cost
from sil.planning.report.tables import against_first, classes_frame, options_frame, rank_text, rankings
from sil.report.page import Notice, Page, Part, Section, Table, write_figures
from sil.report.page import write_page as write_html
from sil.settings.code_version import package_version

PAGE = "plan.html"
OPTIONS = "options.csv"
CLASSES = "job_classes.csv"
FIGURE = "effects"
KINDS = ("png", "svg", "pdf")

TITLES = {
    "each offer": "Each offer alone",
    "best buy": "Best buy",
    "retire": "Retirement candidates",
}


def write_page(folder: Path, answers: Answers) -> None:
    """Write the page, the tables as CSV and the chart in three formats into `folder`."""
    options_frame(answers).write_csv(folder / OPTIONS)
    classes_frame(answers).write_csv(folder / CLASSES)
    page = plan_page(answers)
    for kind in KINDS:
        write_figures(folder, kind, page)
    write_html(folder / PAGE, page)


def plan_page(answers: Answers) -> Page:
    plan = answers.plan
    found = [Notice("answer", recommendation.recommendation(answers))]
    found += [Notice("note", sentence) for sentence in recommendation.caveats(answers)]
    assumptions = Part(items=list(recommendation.assumptions(answers)))
    site = f"site {answers.site}, " if answers.site else ""
    return Page(
        plan.question or plan.name,
        notices=found,
        sections=[*_chart(answers), *sections(answers), Section("Assumptions", parts=[assumptions])],
        footer=f"Plan {plan.name}, {site}seed {plan.seed}, version {package_version()}.",
    )


def _chart(answers: Answers) -> Iterator[Section]:
    if any(answer.marginal or answer.best_buy for answer in answers.answers):
        under = f" under {answers.answers[0].scheduler}" if len(answers.answers) > 1 else ""
        note = (
            "Each point is an option with its simultaneous confidence interval. The broken line is the "
            f"Pareto front{under}: no cheaper option has the same effect."
        )
        yield Section("Effect against cost", note, [Part(chart=effect_against_cost(answers), name=FIGURE)])


def sections(answers: Answers) -> Iterator[Section]:
    """The tables by scheduler and question."""
    for answer in answers.answers:
        under = f", under {answer.scheduler}" if len(answers.answers) > 1 else ""
        for question, ranking in rankings(answer):
            yield _options(answers.plan, f"{TITLES[question]}{under}", question, ranking, answer.base)
        if answer.marginal is not None and answer.marginal.effects[0].of_classes:
            yield _classes(f"Gain by job class{under}", answer.marginal, answer.base)
        if answer.size is not None:
            yield _sizes(answers.plan, f"Sizing{under}", answer)


def _options(plan: Plan, title: str, question: str, ranking: Ranking, base: Option) -> Section:
    goal, by_price = plan.goals[0], ranking.by_price
    head = [
        "rank" if question == "each offer" else "compared with the first",
        "option",
        "cost",
        f"{goal.label}",
        "better by",
        "%",
    ]
    head += ["per 1,000"] if by_price else []
    head += [other.label for other in plan.goals[1:]] + [f"compared with {_name(base)}", "replications"]
    rows = []
    for effect in ranking.effects:
        row = [
            rank_text(ranking, effect) if question == "each offer" else against_first(ranking, effect),
            effect.option.name,
            recommendation.money(effect.option.cost),
            f"{effect.of_goals[goal.key]:,.4g}",
            recommendation.interval(effect.gain),
            f"{effect.percent.mean:+.1f} ± {effect.percent.half_width or 0.0:.1f}",
        ]
        if by_price and effect.per_price is not None:
            width = 1e3 * (effect.per_price.half_width or 0.0)
            row.append(recommendation.interval(Interval(1e3 * effect.per_price.mean, width)))
        row += [f"{effect.of_goals[other.key]:,.4g}" for other in plan.goals[1:]]
        rows.append([*row, effect.against_today.value, str(effect.n)])
    where = "Today" if base == AS_IT_IS else f"With '{base.name}'"
    value = f"{where}: {goal.label} {ranking.base[goal.key]:,.4g}."
    how = " Ranked by gain per unit of price." if by_price else ""
    return Section(title, f"{value}{how}", [Part(table=Table(head, rows, "options"))])


def _name(base: Option) -> str:
    return "today" if base == AS_IT_IS else f"'{base.name}'"


def _classes(title: str, ranking: Ranking, base: Option) -> Section:
    names = sorted({name for effect in ranking.effects for name in effect.of_classes})
    rows = [
        [
            effect.option.name,
            *(recommendation.interval(effect.of_classes[n]) if n in effect.of_classes else "" for n in names),
        ]
        for effect in ranking.effects
    ]
    note = f"Reduction of mean turnaround (s) compared with {_name(base)}."
    return Section(title, note, [Part(table=Table(["option", *names], rows))])


def _sizes(plan: Plan, title: str, answer: Answer) -> Section:
    assert answer.size is not None
    texts = {True: "yes", False: "no", None: "yes, within the indifference"}
    rows = [
        [
            str(step.count),
            answer.size.offer,
            recommendation.interval(step.reached),
            texts[step.meets] + ("" if step.is_settled else ", not settled"),
            str(step.n),
        ]
        for step in sorted(answer.size.steps, key=lambda step: step.count)
    ]
    head = ["count", "offer", plan.goals[0].label, "meets the target", "replications"]
    return Section(
        title, recommendation.sizing(plan, answer.size), [Part(table=Table(head, rows, "options"))]
    )
