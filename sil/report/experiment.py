"""The report: one HTML file that holds everything it shows and works offline."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl
import vl_convert
from jinja2 import Environment, PackageLoader, select_autoescape

from sil.outcome.comparison import Cell, Comparison
from sil.outcome.jobs import run_table
from sil.outcome.metrics import Metric
from sil.report import figures
from sil.report.node_figures import predicted_against_real, timeline
from sil.report.tables import PREDICTION_HEADINGS, cell_texts, prediction_texts
from sil.trace.facts import RunDescription
from sil.trace.tables import RunTables


@dataclass
class Table:
    """A table of cells; each cell is its text and a smaller line under it."""

    head: list[str]
    rows: list[list[tuple[str, str]]]


@dataclass
class Part:
    title: str = ""
    chart: figures.Figure | None = None
    chart_id: str = ""
    table: Table | None = None
    folded: bool = False
    open: bool = False


@dataclass
class Section:
    title: str
    note: str = ""
    parts: list[Part] = field(default_factory=list)


def write_report(path: Path, tables: RunTables, jobs: pl.DataFrame, comparison: Comparison) -> None:
    """Write the report of one experiment."""
    sections = _sections(tables, jobs, comparison)
    charts = _number_charts(sections)
    environment = Environment(
        loader=PackageLoader("sil.report", "."), autoescape=select_autoescape(default=True)
    )
    page = environment.get_template("report.html.j2").render(
        d=comparison.description,
        faults=comparison.faults,
        refusals=comparison.refusals,
        notes=comparison.notes,
        sections=sections,
        setting_title=figures.setting_title,
        charts=script_safe(json.dumps(charts)),
        vega=vega(),
    )
    path.write_text(page, encoding="utf-8")


def write_figures(
    folder: Path, kind: str, tables: RunTables, jobs: pl.DataFrame, comparison: Comparison
) -> list[Path]:
    """Write every chart of the report as a file of its own: `kind` is png, svg or pdf."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for section in _sections(tables, jobs, comparison):
        for k, part in enumerate(section.parts, start=1):
            if part.chart is not None:
                name = re.sub(r"\W+", "-", f"{section.title} {part.title or k}".lower())
                paths.append(folder / f"{name}.{kind}")
                figures.save(part.chart, str(paths[-1]))
    return paths


def _sections(tables: RunTables, jobs: pl.DataFrame, comparison: Comparison) -> list[Section]:
    sections = [*_grid_sections(comparison), _comparison_section(comparison)]
    if comparison.accuracies:
        sections.append(_prediction_section(comparison))
    if comparison.description.shared_cluster is not None:
        return [*sections, *_sections_of_nodes(tables.facts, jobs, comparison.description)]
    return [*sections, *_time_sections(tables.facts, jobs, comparison)]


def shown_points(description: RunDescription) -> list[int]:
    """The points of which time is drawn: first, middle and last."""
    last = len(description.points) - 1
    return sorted({0, last // 2, last})


def _grid_sections(comparison: Comparison) -> list[Section]:
    axes = comparison.description.axes
    numeric = len(axes) == 1 and all(
        isinstance(point[axes[0]], (int, float)) for point in comparison.description.points
    )
    if not numeric:
        return []
    value = Part(chart=figures.value_over_grid(comparison, "sum_job_times"))
    parts = [value]
    if len(comparison.schedulers) > 1:
        parts.insert(0, Part(chart=figures.change_over_grid(comparison, "sum_job_times")))
    note = (
        "Sum over all jobs of completion less submission. Below zero is better than "
        f"{comparison.baseline}. Bands are 95 % confidence intervals over the replications, of the paired "
        "difference in the first chart."
    )
    return [Section("Sum of job times over the grid", note, parts)]


def _comparison_section(comparison: Comparison) -> Section:
    points = comparison.description.points
    note = (
        "Mean over replications ± half-width of its 95 % confidence interval. Under it, the paired "
        f"difference to {comparison.baseline} and the change in percent; * marks an interval without zero. "
        "Decision time is measured, all else is simulated."
    )
    parts = [
        Part(_settings(settings), table=_table(comparison, point), folded=len(points) > 1, open=point == 0)
        for point, settings in enumerate(points)
    ]
    return Section("Comparison", note, parts)


def _table(comparison: Comparison, point: int) -> Table:
    rows = []
    for m in comparison.metrics:
        cells = [comparison.cell(point, scheduler, m.key) for scheduler in comparison.schedulers]
        rows.append([(m.label, ""), *(_texts(m, cell) for cell in cells)])
    return Table(["", *comparison.schedulers], rows)


def _texts(m: Metric, cell: Cell | None) -> tuple[str, str]:
    value, difference, change = (text.strip() for text in cell_texts(cell, m.digits))
    return value, f"{difference} ({change} %)" if change else difference


def _prediction_section(comparison: Comparison) -> Section:
    several = len(comparison.description.points) > 1
    rows = []
    for accuracy in comparison.accuracies:
        settings = _settings(comparison.description.points[accuracy.point]) if several else ""
        figures_of_it = [(text, "") for text in prediction_texts(accuracy)]
        rows.append([(accuracy.scheduler, settings), (accuracy.predictor, ""), *figures_of_it])
    note = (
        "When a job arrives, the turnaround of all jobs that are not done is predicted. Deviation is "
        "|P - R| / R of the first prediction for each job; signed, above 0 is too long. An interval comes "
        "from the errors that the site's history knew when the experiment began; it should hold 80 % of them."
    )
    first = comparison.scores.filter(
        "first", pl.col("predicted_s").is_finite(), pl.col("replication") == 0, pl.col("point") == 0
    )
    points = first.select(
        pl.col("predictor").alias("of"),
        pl.col("real_s").alias("real"),
        pl.col("predicted_s").alias("predicted"),
        "scheduler",
    )
    parts = [Part(table=Table(["scheduler", "predictor", *PREDICTION_HEADINGS], rows))]
    for scheduler in comparison.schedulers:
        of_one = points.filter(pl.col("scheduler") == scheduler).drop("scheduler")
        if len(of_one):
            title = f"{scheduler}, first replication"
            chart = predicted_against_real(of_one, "Predictor")
            parts.append(Part(title, chart, folded=True, open=scheduler == comparison.baseline))
    return Section("Predicted turnaround", note, parts)


def _sections_of_nodes(facts: pl.DataFrame, jobs: pl.DataFrame, description: RunDescription) -> list[Section]:
    ended = jobs.filter(pl.col("point") == 0)
    nodes = Section(
        "Nodes over time",
        "The first replication"
        + (" of the first point of the grid" if len(description.points) > 1 else "")
        + ". Shade: how many parallel tasks run on a node; a line where a local user is there.",
    )
    for scheduler in description.schedulers:
        of_one = facts.filter(
            pl.col("point") == 0, pl.col("replication") == 0, pl.col("scheduler") == scheduler
        )
        if len(of_one) and description.n_machines <= MOST_NODES_DRAWN:
            chart = timeline(of_one, description.n_machines)
            nodes.parts.append(
                Part(scheduler, chart, folded=True, open=scheduler == description.schedulers[0])
            )
    if description.n_machines > MOST_NODES_DRAWN:
        nodes.note = f"Not drawn: more than {MOST_NODES_DRAWN} nodes."
    turnaround = Section("Turnaround", "Distribution over the jobs of all replications.")
    if len(ended):
        turnaround.parts.append(Part(chart=figures.turnaround_distribution(ended, description.schedulers)))
    return [turnaround, nodes]


MOST_NODES_DRAWN = 128


def _time_sections(facts: pl.DataFrame, jobs: pl.DataFrame, comparison: Comparison) -> list[Section]:
    description = comparison.description
    held = run_table(facts)
    points = shown_points(description)
    turnaround = Section("Turnaround", "Distribution over the jobs of all replications.")
    utilisation = Section("Utilisation over time", "Machines held by runs, mean over the replications.")
    schedule = Section(
        "Schedule",
        "The first replication. Colour is the job class; a dark frame marks a parallel run on a cluster.",
    )
    if len(points) < len(description.points):
        for section in (turnaround, utilisation, schedule):
            section.note += " Drawn for the first, the middle and the last point of the grid."
    for place, point in enumerate(points):
        of_point = pl.col("point") == point
        ended = jobs.filter(of_point)
        if not len(ended):
            continue
        shown_held = held.filter(of_point)
        first = pl.col("replication") == 0
        charts = (
            (turnaround, figures.turnaround_distribution(ended, description.schedulers)),
            (
                utilisation,
                figures.utilisation_over_time(
                    shown_held, description.schedulers, description.n_machines, description.replications
                ),
            ),
            (schedule, figures.gantt(shown_held.filter(first), ended.filter(first), description)),
        )
        for section, chart in charts:
            title = _settings(description.points[point])
            section.parts.append(Part(title, chart, folded=len(points) > 1, open=place == len(points) // 2))
    return [section for section in (turnaround, schedule, utilisation) if section.parts]


def _settings(point: dict[str, Any]) -> str:
    return ", ".join(f"{figures.setting_title(key)}: {value}" for key, value in point.items())


def _number_charts(sections: list[Section]) -> dict[str, dict[str, Any]]:
    """Give every chart an id; returns the specifications by id."""
    charts: dict[str, dict[str, Any]] = {}
    for section in sections:
        for part in section.parts:
            if part.chart is not None:
                part.chart_id = f"chart-{len(charts) + 1}"
                charts[part.chart_id] = figures.styled(part.chart).to_dict()
    return charts


@cache
def vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script, so that the page needs no network.

    Bundling them takes a second, so the script is kept beside this file where that folder can be written.
    """
    kept = Path(__file__).parent / "__pycache__" / f"vega-{version('vl-convert-python')}.js"
    if kept.is_file():
        return kept.read_text(encoding="utf-8")
    script = script_safe(vl_convert.javascript_bundle())  # type: ignore[call-arg]  # the stub lacks its default
    with suppress(OSError):
        kept.parent.mkdir(exist_ok=True)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_text(script, encoding="utf-8")
        unfinished.replace(kept)
    return script


def script_safe(text: str) -> str:
    """Text that cannot end the <script> element around it."""
    return text.replace("</script", "<\\/script")
