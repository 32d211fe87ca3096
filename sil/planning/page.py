"""The report of a plan: the recommendation, caveats, the chart, the tables, the assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scheduler.messages import counted
from sil.outcome.metrics import PLAN_METRICS
from sil.planning import assumptions, recommendation
from sil.planning.answers import BEST_BUY, EACH_OFFER, POLICIES, PRICED, RETIRE, Answers, fault_texts
from sil.planning.effects import classes_frame, effect_against_cost, letters_of, options_frame, rank_text
from sil.planning.options import AS_IT_IS
from sil.planning.plan_file import GoalTable, Plan
from sil.planning.ranking import OptionRanking
from sil.planning.recommendation import figure, interval, money, percentage
from sil.planning.searches import Size
from sil.report import FigureKind
from sil.report.page import Notice, Page, PageTable, Part, Section, write_figures
from sil.report.page import write_page as write_html
from sil.trace.stream import write_csv
from sil.usable import VERSION

PAGE = "plan.html"
OPTIONS = "options.csv"
CLASSES = "job_classes.csv"
FIGURE = "effects"

MAX_CLASSES = 12
MIN_GAIN_S = 0.05
"""Job classes with smaller gains and losses are not shown."""

TITLES = {
    EACH_OFFER: "Each offer alone",
    BEST_BUY: "Best buy",
    POLICIES: "Policies",
    RETIRE: "Retirement candidates",
}


def write_page(folder: Path, answers: Answers) -> None:
    """Write the page, the tables as CSV and the chart in three formats into `folder`."""
    write_csv(options_frame(answers), folder / OPTIONS)
    write_csv(classes_frame(answers), folder / CLASSES)
    page = plan_page(answers)
    for kind in FigureKind:
        write_figures(folder, kind, page)
    write_html(folder / PAGE, page)


def as_dict(answers: Answers) -> dict[str, Any]:
    """The answers as JSON has them."""
    return {
        "recommendation": recommendation.recommendation(answers),
        "faults": fault_texts(answers.faults),
        **({} if answers.validated is None else {"validation": asdict(answers.validated)}),
        "notes": list(assumptions.caveats(answers)),
        "assumptions": list(assumptions.assumptions(answers)),
        "options": options_frame(answers).to_dicts(),
        "job_classes": classes_frame(answers).to_dicts(),
        "sizes": {a.scheduler: a.size.as_dict() for a in answers.answers if a.size is not None},
    }


def plan_page(answers: Answers) -> Page:
    plan = answers.plan
    faults = fault_texts(answers.faults)
    found = [Notice("fault", f"{fault}. It has no answers.", "Fault") for fault in faults]
    found += [Notice("answer", recommendation.recommendation(answers))]
    found += [answers.validated] if answers.validated is not None else []
    known = Part(items=list(assumptions.caveats(answers)))
    notes = [Section("What is not settled or left out", parts=[known])] if known.items else []
    assumed = Part(items=list(assumptions.assumptions(answers)))
    site = f"site {answers.site}, " if answers.site else ""
    return Page(
        plan.question or plan.name,
        notices=found,
        sections=[*_chart(answers), *notes, *sections(answers), Section("Assumptions", parts=[assumed])],
        footer=f"Plan {plan.name}, {site}seed {plan.seed}, version {VERSION}.",
    )


def _chart(answers: Answers) -> Iterator[Section]:
    if any(answer.marginal or answer.best_buy for answer in answers.answers):
        under = f" under {answers.answers[0].scheduler}" if len(answers.answers) > 1 else ""
        note = (
            "Each point is an option with its simultaneous confidence interval. The broken line is the "
            f"Pareto front{under}: no cheaper option has the same effect. Letters are in order of price, "
            "as in the tables; options of nearly the same cost are drawn side by side, to the right of it."
        )
        yield Section("Effect against cost", note, [Part(chart=effect_against_cost(answers), name=FIGURE)])


def sections(answers: Answers) -> Iterator[Section]:
    """The tables by scheduler and question."""
    for answer in answers.answers:
        under = f", under {answer.scheduler}" if len(answers.answers) > 1 else ""
        base = "today" if answer.base == AS_IT_IS else f"'{answer.base.name}'"
        for question, ranking in answer.rankings.items():
            letters = letters_of(answers) if question in PRICED else {}
            yield _options(answers.plan.goals, f"{TITLES[question]}{under}", ranking, base, letters)
        if answer.marginal is not None:
            yield from _classes(f"Gain by job class{under}", answer.marginal, base)
        if answer.size is not None:
            yield _sizes(answers.plan, f"Sizing{under}", answer.size)


def _options(
    goals: Sequence[GoalTable], title: str, ranking: OptionRanking, base: str, letters: Mapping[str, str]
) -> Section:
    """`letters` are those of the chart, if it has these options."""
    first, *others = goals
    unit, rows = PLAN_METRICS[first.metric].unit, []
    better = f"better by ({unit})" if unit else "better by"
    for effect in ranking.effects:
        row = {"": letters[effect.option.name]} if letters else {}
        row |= {
            "rank": rank_text(ranking, effect),
            "option": effect.option.name,
            "price": money(effect.option.cost),
            first.label: figure(effect.of_goals[first.key]),
            better: interval(effect.gain),
            "better by (%)": percentage(effect.percent, "+"),
        }
        if ranking.criteria.by_price and effect.per_price is not None:
            row[f"{better} per 1,000 of price"] = interval(effect.per_price.scaled(1e3))
        row |= {goal.label: figure(effect.of_goals[goal.key]) for goal in others}
        row |= {f"compared with {base}": effect.against_today.value}
        if ranking.criteria.only_first:
            gain, verdict = ranking.against_choice.get(effect.option.name), row.pop("rank")
            than = better.replace("by", "than the recommended")
            row[than] = "recommended" if gain is None else interval(gain)
            row["compared with it"] = "" if gain is None else verdict
        rows.append(row | {"replications": str(effect.n)})
    where = "Today" if base == "today" else f"With {base}"
    note = f"{where}: {first.label} {figure(ranking.base_means[first.key])}."
    note += " Prices are in the currency of the plan."
    note += " Ranked by gain per unit of price." if ranking.criteria.by_price else ""
    if len({effect.n for effect in ranking.effects}) > 1:
        note += (
            " Rows have different numbers of replications, since settled options stop early: differences are "
            "over those that both have, so figures of rows differ by more or less than these."
        )
    return _section(title, note, rows)


def _classes(title: str, ranking: OptionRanking, base: str) -> Iterator[Section]:
    """The classes that gain or lose most by any option; no table if none does."""
    largest: dict[str, float] = {}
    for effect in ranking.effects:
        for name, gain in effect.of_classes.items():
            largest[name] = max(largest.get(name, 0.0), abs(gain.mean))
    changed = [name for name in largest if largest[name] >= MIN_GAIN_S]
    shown = sorted(changed, key=lambda name: (-largest[name], name))[:MAX_CLASSES]
    if not shown:
        return
    rows = []
    for name in shown:
        gains = ((e.option.name, e.of_classes.get(name)) for e in ranking.effects)
        cells = {option: "" if gain is None else interval(gain) for option, gain in gains}
        rows.append({"job class": name} | cells)
    note = f"Reduction of mean turnaround (s) compared with {base}."
    if len(shown) < len(largest):
        others = counted(len(largest) - len(shown), "other job class")
        note += f" The largest; {others} changed less or not at all, and {CLASSES} has all of them."
    yield _section(title, note, rows, layout="")


def _sizes(plan: Plan, title: str, size: Size) -> Section:
    texts = {True: "yes", False: "no", None: "yes, within the indifference"}
    rows = [
        {
            "count": str(step.count),
            "offer": size.offer,
            plan.goals[0].label: interval(step.reached),
            "meets the target": texts[step.meets] + ("" if step.is_settled else ", not settled"),
            "replications": str(step.n),
        }
        for step in sorted(size.steps, key=lambda step: step.count)
    ]
    return _section(title, recommendation.sizing(plan, size), rows)


def _section(title: str, note: str, rows: Sequence[Mapping[str, str]], layout: str = "options") -> Section:
    """A table of rows with the same headings."""
    tables = [PageTable(list(rows[0]), [list(row.values()) for row in rows], layout)] if rows else []
    return Section(title, note, [Part(table=table) for table in tables])
