"""The report of a plan: the recommendation, caveats, the chart of effect against cost, the tables, the
assumptions; and the effects of options as tables for the console and CSV files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import polars as pl

from scheduler.messages import counted
from sil.outcome.metrics import PLAN_METRICS
from sil.planning import assumptions, recommendation
from sil.planning.answers import BEST_BUY, EACH_OFFER, POLICIES, PRICED, RETIRE, Answers, fault_texts
from sil.planning.options import AS_IT_IS
from sil.planning.plan_file import GoalTable, Plan
from sil.planning.ranking import Effect, OptionRanking
from sil.planning.recommendation import figure, interval, money, percentage
from sil.planning.searches import Size
from sil.planning.verdicts import PairVerdict
from sil.report import FigureKind
from sil.report.figures import PALETTE, SHAPES, WIDTH, tooltips, zero_rule
from sil.report.page import Notice, Page, PageTable, Part, Section, write_figures
from sil.report.page import write_page as write_html
from sil.report.vega_lite import Figure, column, layer
from sil.trace.stream import write_csv
from sil.usable import VERSION

MIN_DISTANCE = 0.02
"""The least distance between two options, as a share of the highest cost."""
ROOM_FOR_LETTERS = 0.08
"""The room for letters above the highest interval, as a share of the axis."""
COLOURS = (
    *PALETTE,
    *("#332288", "#117733", "#44AA99", "#AA4499", "#661100", "#6699CC", "#888888", "#000000"),
)
"""The colours of options, in order of cost; they repeat after the last, letters do not."""
LETTERS = (*ascii_uppercase, *(f"{a}{b}" for a in ascii_uppercase for b in ascii_uppercase))

INTERVALS = ("gain", "gain_percent")
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(("scheduler", "question", "option"), pl.String),
    "cost": pl.Float64,
    "replications": pl.Int64,
    **{f"{of}{part}": pl.Float64 for of in INTERVALS for part in ("", "_half_width", "_low", "_high")},
    **dict.fromkeys(("gain_per_price", "gain_per_price_half_width"), pl.Float64),
    "against_today": pl.String,
    **dict.fromkeys(("best_rank", "worst_rank"), pl.Int64),
    **dict.fromkeys(("tied_with", "not_told_apart_from", "no_interval", "against_recommended"), pl.String),
}
"""One row per option; `gain` is of the first goal, in its unit; more is better. The intervals are
simultaneous for all options of a question; half-widths are half their widths, whether they are symmetrical or
not, and `no_interval` says why the gain has none. Where one option is recommended, `against_recommended` is
the verdict against it. Options that could not be compared come last, with LEFT_OUT."""

LEFT_OUT = "left out"
"""The text in the column `against_today` of an option with which the site could not carry the forecast."""


def options_frame(answers: Answers) -> pl.DataFrame:
    """A table with SCHEMA, then a column for the mean of each goal."""
    goals = [goal.key for goal in answers.plan.goals]
    rows = [
        (scheduler, question, *_cells(ranking, effect), *(effect.of_goals[key] for key in goals))
        for scheduler, question, ranking, effect in answers.effects()
    ]
    schema = {**SCHEMA, **dict.fromkeys(goals, pl.Float64)}
    left_out = [
        {"scheduler": scheduler, "question": question, "option": option.name, "cost": option.cost}
        | {"against_today": LEFT_OUT}
        for scheduler, question, option in answers.left_out()
    ]
    compared = pl.DataFrame(rows, schema=schema, orient="row")
    return pl.concat([compared, pl.DataFrame(left_out, schema=schema)])


def classes_frame(answers: Answers) -> pl.DataFrame:
    """The gain of each job class in mean turnaround (s); more is better."""
    rows = [
        (scheduler, question, effect.option.name, name, gain.mean, gain.half_width)
        for scheduler, question, _, effect in answers.effects()
        for name, gain in effect.of_classes.items()
    ]
    names = dict.fromkeys(("scheduler", "question", "option", "job_class"), pl.String)
    gains = dict.fromkeys(("gain_s", "half_width_s"), pl.Float64)
    return pl.DataFrame(rows, schema={**names, **gains}, orient="row")


def rank_text(ranking: OptionRanking, effect: Effect) -> str:
    """The rank, or the range of possible ranks; = is a tie. If only the first option matters, the verdict
    against the recommended one."""
    name, standings = effect.option.name, ranking.standings
    if ranking.criteria.only_first:
        return "recommended" if name == ranking.choice else standings.between(name, ranking.choice).value
    best, worst = standings.rank(name)
    tied = "=" if standings.tied_with(name) else ""
    return f"{best}{tied}" if best == worst else f"{best} to {worst}"


def _cells(ranking: OptionRanking, effect: Effect) -> tuple[str | float | int | None, ...]:
    standings, name, per_price = ranking.standings, effect.option.name, effect.per_price
    not_settled = standings.that_are(PairVerdict.UNSETTLED, name)
    by_rank = [other.option.name for other in ranking.effects if other.option.name in not_settled]
    return (
        name,
        effect.option.cost,
        effect.n,
        *effect.gain.as_dict().values(),
        *effect.percent.as_dict().values(),
        None if per_price is None else per_price.mean,
        None if per_price is None else per_price.half_width,
        effect.against_today.value,
        *standings.rank(name),
        "; ".join(standings.tied_with(name)),
        "; ".join(by_rank),
        effect.no_interval or None,
        rank_text(ranking, effect) if ranking.criteria.only_first else None,
    )


def effect_against_cost(answers: Answers) -> Figure:
    """Every option once: its cost, and the improvement of the first goal (%). Letters are in order of cost.

    Options of nearly the same cost are drawn side by side. The line is the Pareto front of the first
    scheduler: no cheaper option has the same effect.
    """
    goal = answers.plan.goals[0]
    schedulers = [answer.scheduler for answer in answers.answers]
    frame = _lettered(answers)
    options = frame.sort("place")["what"].unique(maintain_order=True).to_list()
    title = f"{goal.label.partition(' (')[0]}: improvement (%)"
    highest = float(frame["x"].max() or 1.0)  # type: ignore[arg-type]
    prices = {"domain": [0.0, highest], "nice": True}
    x = column("x:Q", title="Price (in the currency of the plan)", axis={"format": "~s"}, scale=prices)
    least = min(0.0, float(frame["low"].min() or 0.0))  # type: ignore[arg-type]
    most = max(0.0, float(frame["high"].max() or 0.0))  # type: ignore[arg-type]
    letters = {"domain": [least, most + ROOM_FOR_LETTERS * (most - least)]}
    y = column("gain_percent:Q", title=title, scale=letters)
    colours = {"domain": options, "range": [COLOURS[k % len(COLOURS)] for k in range(len(options))]}
    symbols = {"symbolOpacity": 1, "symbolType": "square"}
    legend = {"title": "Option", "orient": "bottom", "columns": 2, "labelLimit": 420} | symbols
    colour = column("what:N", sort=options, scale=colours, legend=legend)
    shape = column(
        "scheduler:N",
        sort=schedulers,
        scale={"domain": schedulers, "range": [SHAPES[k % len(SHAPES)] for k in range(len(schedulers))]},
        legend={"title": "Scheduler"} if len(schedulers) > 1 else None,
    )
    base = Figure(frame).encode(x=x, color=colour)
    first = frame.filter(pl.col("scheduler") == schedulers[0]).sort("x", "gain_percent")
    front = first.filter(pl.col("gain_percent") > pl.col("gain_percent").cum_max().shift(1).fill_null(0.0))
    shown = tooltips("option", "scheduler", "cost", "gain_percent", "low", "high", "replications")
    low, high = (column(f"{name}:Q", title=title) for name in ("low", "high"))
    return layer(
        zero_rule(),
        Figure(front)
        .mark("line", interpolate="step-after", strokeDash=[6, 3], color="#999")
        .encode(x=x, y=y),
        base.mark("rule", strokeWidth=2).encode(y=low, y2=column("high")),
        base.mark("point", size=80, filled=True, opacity=1).encode(y=y, shape=shape, tooltip=shown),
        base.mark("text", dy=-9, fontWeight="bold").encode(y=high, text=column("letter:N")),
    ).properties(width=WIDTH, height=360)


def letters_of(answers: Answers) -> dict[str, str]:
    """The letter of each option in the chart."""
    return dict(_lettered(answers).select("option", "letter").iter_rows())


def _lettered(answers: Answers) -> pl.DataFrame:
    """Every option of a scheduler once, as compared last, with its interval, its letter and its place `x`."""
    compared = pl.col("question").is_in(PRICED) & (pl.col("against_today") != LEFT_OUT)
    frame = options_frame(answers).filter(compared)
    once = frame.unique(["scheduler", "option"], keep="last", maintain_order=True)
    by_cost = once.unique("option", maintain_order=True).sort("cost", "option").select("option", "cost")
    step = MIN_DISTANCE * float(once["cost"].max() or 1.0)  # type: ignore[arg-type]
    x = list(accumulate(by_cost["cost"], lambda before, cost: max(cost, before + step)))
    places = by_cost.select(
        "option",
        x=pl.Series(x, dtype=pl.Float64),
        letter=pl.Series(LETTERS[: len(by_cost)], dtype=pl.String),
        place=pl.int_range(pl.len()),
    )
    return once.join(places, on="option", maintain_order="left").with_columns(
        what=pl.col("letter") + "  " + pl.col("option"),
        low=pl.coalesce("gain_percent_low", "gain_percent"),
        high=pl.coalesce("gain_percent_high", "gain_percent"),
    )


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
