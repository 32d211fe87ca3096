"""The comparison as tables for the terminal."""

from __future__ import annotations

from rich import box
from rich.table import Table

from sil.outcome.comparison import Cell, Comparison
from sil.outcome.metrics import METRICS, Metric, metric
from sil.outcome.statistics import Interval


def comparison_table(comparison: Comparison, point: int) -> Table:
    """Every metric of every scheduler at one point, with the paired difference to the first scheduler."""
    settings = comparison.description.points[point]
    at = "; ".join(f"{key} = {value}" for key, value in settings.items())
    table = _table(f"Comparison{f' at {at}' if at else ''}")
    table.add_column("metric")
    for scheduler in comparison.schedulers:
        table.add_column(scheduler, justify="right")
    for m in METRICS:
        cells = [comparison.cell(point, scheduler, m.key) for scheduler in comparison.schedulers]
        table.add_row(m.label, *(cell_text(m, cell) for cell in cells))
    return table


def grid_table(comparison: Comparison, key: str) -> Table:
    """One metric over all points of the grid, with the change against the first scheduler in percent."""
    m = metric(key)
    table = _table(f"{m.label}, and change against {comparison.baseline}")
    for axis in comparison.description.axes:
        table.add_column(axis.rpartition(".")[2], justify="right", min_width=4, no_wrap=True)
    for scheduler in comparison.schedulers:
        table.add_column(scheduler, justify="right", no_wrap=True)
        if scheduler != comparison.baseline:
            table.add_column("change %", justify="right", no_wrap=True)
    for point, settings in enumerate(comparison.description.points):
        row = [str(value) for value in settings.values()]
        for scheduler in comparison.schedulers:
            cell = comparison.cell(point, scheduler, key)
            row.append(interval_text(cell.value, m.digits) if cell else "-")
            if scheduler != comparison.baseline:
                row.append(change_text(cell))
        table.add_row(*row)
    return table


def cell_text(m: Metric, cell: Cell | None) -> str:
    """A value, and under it the difference to the first scheduler; a star marks one that is not by chance."""
    if cell is None:
        return "-"
    text = interval_text(cell.value, m.digits)
    if cell.difference is None:
        return text
    star = "*" if cell.difference.excludes_zero else ""
    return f"{text}\n({interval_text(cell.difference, m.digits, signed=True)}{star})"


def change_text(cell: Cell | None) -> str:
    if cell is None or cell.change_percent is None:
        return "-"
    star = "*" if cell.change_percent.excludes_zero else " "
    return f"{interval_text(cell.change_percent, 1, signed=True)}{star}"


def interval_text(found: Interval, digits: int, *, signed: bool = False) -> str:
    mean = f"{found.mean:+,.{digits}f}" if signed else f"{found.mean:,.{digits}f}"
    return mean if found.half_width is None else f"{mean} ±{found.half_width:,.{digits}f}"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
