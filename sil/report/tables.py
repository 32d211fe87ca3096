"""Tables of results: for the terminal with Rich, and the texts of their cells for pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import floor, log10
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from sil.outcome.metrics import DETAILS, INTERRUPTED, OF_SOME_REPLAYS, REFUSED, REPLAY_METRICS, Metric, metric

if TYPE_CHECKING:
    from sil.outcome.comparison import ComparedMetric, Comparison, ComparisonMatrix
    from sil.outcome.prediction_errors import Accuracy
    from sil.outcome.statistics import Interval

PREDICTION_HEADINGS = {
    "deviation (%)": ("deviation", 1, False),
    "signed (%)": ("bias", 1, True),
    "too long (%)": ("over", 0, False),
    "of all predictions (%)": ("deviation_of_all", 1, False),
    "in interval (%)": ("coverage", 0, False),
}
"""The error of an Accuracy, digits, and whether it is shown with its sign."""
OPEN = "°"
INTERVALS = (
    "differences are paired, * = the interval excludes 0, ° = not settled and no interval, since no {0}, or "
    "nearly none, shows a difference, or all show the same."
)
"""A sentence below a table on the differences between replications, or other blocks."""
UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def comparison_table(comparison: Comparison, point: int) -> Table:
    """Every metric of every scheduler at one point, with the paired difference to the baseline."""
    at = "; ".join(f"{key} = {value}" for key, value in comparison.points[point].items())
    table = _table(f"Comparison{f' at {at}' if at else ''}", "", numbers=_headings(comparison))
    for m in (m for m in comparison.metrics.values() if m not in DETAILS):
        table.add_row(Text(m.label, "bold"))
        for scheduler in comparison.schedulers:
            table.add_row(f"  {scheduler}", *cell_texts(comparison.cell(point, scheduler, m.key), m.digits))
    return table


def grid_table(comparison: Comparison, key: str) -> Table:
    """One metric over the grid: a row per point, a column per scheduler and one for its change."""
    m, (baseline, *others) = metric(key), comparison.schedulers
    headings = [baseline, *(heading for name in others for heading in (name, "change %"))]
    table = _table(_grid_title(comparison, m), axes=comparison.description.axes, numbers=headings)
    for point, settings in enumerate(comparison.points):
        row = [str(value) for value in settings.values()]
        for scheduler in comparison.schedulers:
            value, difference, change = cell_texts(comparison.cell(point, scheduler, key), m.digits)
            row += [value] if scheduler == baseline else [value, change + difference[-1:]]
        table.add_row(*row)
    return table


def long_table(comparison: ComparisonMatrix, m: Metric, key: str) -> Table:
    """One metric, in the column `key`: a row per point and scheduler. For sweeps, narrow terminals, or many
    schedulers."""
    texts = comparison.text_axes
    axes = [axis for axis in comparison.points[0] if axis not in texts]
    title = _grid_title(comparison, m)
    table = _table(title, *texts, "scheduler", axes=axes, numbers=_headings(comparison))
    for point, settings in enumerate(comparison.points):
        for k, scheduler in enumerate(comparison.schedulers):
            values = [comparison.text(value) if k == 0 else "" for value in settings.values()]
            table.add_row(*values, scheduler, *cell_texts(comparison.cell(point, scheduler, key), m.digits))
        table.add_section()
    return table


def prediction_table(comparison: Comparison) -> Table:
    """Errors of predicted turnaround: a row per point, scheduler and predictor."""
    title = "Predicted turnaround: deviation |P - R| / R of the first prediction for each job"
    table = _table(title, "scheduler", "predictor", axes=comparison.description.axes)
    for heading in PREDICTION_HEADINGS:
        table.add_column(heading, justify="right")
    for accuracy in comparison.accuracies:
        settings = [str(value) for value in comparison.points[accuracy.point].values()]
        table.add_row(*settings, accuracy.scheduler, accuracy.predictor, *prediction_texts(accuracy))
    return table


def _grid_title(comparison: ComparisonMatrix, m: Metric) -> str:
    return f"{m.label}, and change relative to {comparison.baseline}"


def _headings(comparison: ComparisonMatrix) -> Sequence[str]:
    return "mean", f"difference to {comparison.baseline}", "change %"


def _table(title: str, *texts: str, axes: Iterable[str] = (), numbers: Iterable[str] = ()) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for axis in axes:
        table.add_column(axis.rpartition(".")[2], justify="right", min_width=4, no_wrap=True)
    for heading in texts:
        table.add_column(heading)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def prediction_texts(accuracy: Accuracy) -> list[str]:
    """A cell for each of PREDICTION_HEADINGS."""
    errors = [
        (accuracy.errors[name], digits, signed) for name, digits, signed in PREDICTION_HEADINGS.values()
    ]
    return ["-" if found is None else interval_text(found, n, signed=signed) for found, n, signed in errors]


def cell_texts(cell: ComparedMetric | None, digits: int) -> tuple[str, str, str]:
    """Value, difference and percentage change.

    A star marks a difference whose interval excludes 0; so does that of the percentage, then and only then.
    OPEN marks one without an interval, since hardly any replication shows it.
    """
    if cell is None:
        return "-", "", ""
    difference = change = ""
    if cell.difference is not None:
        mark = OPEN if cell.not_settled else "*" if cell.difference.excludes_zero else " "
        difference = interval_text(cell.difference, digits, signed=True) + mark
    if cell.change_percent is not None:
        change = interval_text(cell.change_percent, 1, signed=True)
    return interval_text(cell.value, digits), difference, change


def interval_text(found: Interval, digits: int, *, signed: bool = False) -> str:
    return found.text(f",.{digits}f", "+" if signed else "")


def unit_of(seconds: float) -> tuple[float, str]:
    """The largest unit of which a time has at least one; its seconds, and its name."""
    return next((unit for unit in UNITS if abs(seconds) >= unit[0]), UNITS[-1])


def duration_text(seconds: float) -> str:
    """A duration for people, such as "1.93 h"."""
    size, unit = unit_of(seconds)
    return f"{significant(seconds / size)} {unit}"


def signed_duration(found: Interval, plus: str = "+") -> str:
    """The difference of two durations, with its interval: "+1.93 h [+1.02 h, +2.8 h]"."""

    def text(seconds: float) -> str:
        return f"{'-' if seconds < 0 else plus}{duration_text(abs(seconds))}"

    if found.half_width is None:
        return text(found.mean)
    return f"{text(found.mean)} [{text(found.low)}, {text(found.high)}]"


def significant(number: float, of: float | None = None) -> str:
    """A number with three digits, or all of those before the decimal point, and as many decimals as `of`
    has."""
    most = abs(number if of is None else of)
    decimals = 0 if most == 0.0 or (of is None and number.is_integer()) else max(0, 2 - floor(log10(most)))
    return f"{number:,.{decimals}f}"


def replay_rows(
    statistics: Mapping[str, Mapping[str, float]], *, on_page: bool = False
) -> list[tuple[str, list[str]]]:
    """The metrics of a replayed log: (label, a text for each scheduler); "-" where a scheduler has none.
    Those of GPUs, of interrupted runs and of refused jobs, and on pages details, only where some scheduler
    has them. Pages have the unit of each duration."""

    def text(m: Metric, number: float | None) -> str:
        if number is None:
            return "0" if m in (*INTERRUPTED, *REFUSED) else "-"
        if on_page and m.unit in ("s", ""):
            return duration_text(number) if m.unit == "s" else significant(number)
        return f"{number:,.{m.digits}f}"

    rows = []
    for name, m in REPLAY_METRICS.items():
        values = [found.get(name) for found in statistics.values()]
        is_known = any(value is not None for value in values) and (on_page or m not in DETAILS)
        if is_known or m not in OF_SOME_REPLAYS:
            label = m.title if on_page and m.unit == "s" else m.label
            rows.append((label, [text(m, value) for value in values]))
    return rows
