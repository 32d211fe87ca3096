"""The page of a plan: the question, the answer in a sentence, the chart, the tables, the assumptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, select_autoescape

from sil.outcome.statistics import Interval
from sil.planning.answers import Answer, Answers
from sil.planning.options import AS_IT_IS, Option
from sil.planning.plan_file import Plan
from sil.planning.questions.effects import Ranking
from sil.planning.report import recommendation
from sil.planning.report.charts import effect_against_cost
from sil.planning.report.tables import against_first, classes_frame, options_frame, rank_text, rankings
from sil.report import figures
from sil.report.experiment import script_safe, vega
from sil.settings.code_version import package_version

PAGE = "plan.html"
OPTIONS = "options.csv"
CLASSES = "job_classes.csv"
SIZES = "sizes.csv"
FIGURE = "effects"
KINDS = ("png", "svg", "pdf")

TITLES = {
    "each offer": "Each offer alone",
    "best buy": "The best buy",
    "retire": "What could go",
}


@dataclass(frozen=True)
class Section:
    """A table with its title."""

    title: str
    head: list[str]
    rows: list[list[str]]
    note: str = ""


def write_page(folder: Path, answers: Answers) -> None:
    """Write everything into `folder`: the page, the tables as CSV, the chart in three formats."""
    options_frame(answers).write_csv(folder / OPTIONS)
    classes_frame(answers).write_csv(folder / CLASSES)
    chart = None
    if any(answer.marginal or answer.best_buy for answer in answers.answers):
        chart = effect_against_cost(answers)
        for kind in KINDS:
            figures.save(chart, str(folder / f"{FIGURE}.{kind}"))
    loader = ChoiceLoader([PackageLoader("sil.planning.report", "."), PackageLoader("sil.report", ".")])
    environment = Environment(loader=loader, autoescape=select_autoescape(default=True))
    charts = {} if chart is None else {FIGURE: figures.styled(chart).to_dict()}
    page = environment.get_template("plan.html.j2").render(
        plan=answers.plan,
        site=answers.site,
        answers=answers.answers,
        recommendation=recommendation.recommendation(answers),
        caveats=list(recommendation.caveats(answers)),
        assumptions=list(recommendation.assumptions(answers)),
        sections=list(sections(answers)),
        chart=chart is not None,
        version=package_version(),
        charts=script_safe(json.dumps(charts)),
        vega=vega(),
    )
    (folder / PAGE).write_text(page, encoding="utf-8")


def sections(answers: Answers) -> Iterator[Section]:
    """The tables, question by question, scheduler by scheduler."""
    for answer in answers.answers:
        under = f", under {answer.scheduler}" if len(answers.answers) > 1 else ""
        for question, ranking in rankings(answer):
            yield _options(answers.plan, f"{TITLES[question]}{under}", question, ranking, answer.base)
        if answer.marginal is not None and answer.marginal.effects[0].of_classes:
            yield _classes(f"Which job classes gain{under}", answer.marginal, answer.base)
        if answer.size is not None:
            yield _sizes(answers.plan, f"How many it takes{under}", answer)


def _options(plan: Plan, title: str, question: str, ranking: Ranking, base: Option) -> Section:
    goal, by_price = plan.goals[0], ranking.by_price
    head = [
        "rank" if question == "each offer" else "against the first",
        "option",
        "cost",
        f"{goal.label}",
        "better by",
        "%",
    ]
    head += ["for each 1,000"] if by_price else []
    head += [other.label for other in plan.goals[1:]] + [f"against {_told(base)}", "replications"]
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
    told = f"{where}: {goal.label} {ranking.base[goal.key]:,.4g}. "
    how = "Ranked by what they do for their price. " if by_price else ""
    return Section(title, head, rows, f"{told}{how}".strip())


def _told(base: Option) -> str:
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
    return Section(title, ["option", *names], rows, f"Mean turnaround (s) less than {_told(base)}.")


def _sizes(plan: Plan, title: str, answer: Answer) -> Section:
    assert answer.size is not None
    said = {True: "yes", False: "no", None: "yes, within the indifference"}
    rows = [
        [
            str(step.count),
            answer.size.offer,
            recommendation.interval(step.reached),
            said[step.meets] + ("" if step.is_settled else ", not settled"),
            str(step.n),
        ]
        for step in sorted(answer.size.steps, key=lambda step: step.count)
    ]
    head = ["count", "offer", plan.goals[0].label, "meets the target", "replications"]
    return Section(title, head, rows, recommendation.sizing(plan, answer.size))
