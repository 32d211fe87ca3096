"""The effects of options: tables for the page, the console and CSV files; a chart of effect against cost."""

from __future__ import annotations

from itertools import accumulate
from string import ascii_uppercase

import polars as pl

from sil.planning.answers import PRICED, Answers
from sil.planning.ranking import Effect, OptionRanking
from sil.planning.verdicts import PairVerdict
from sil.report.figures import PALETTE, SHAPES, WIDTH, tooltips, zero_rule
from sil.report.vega_lite import Figure, column, layer

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
