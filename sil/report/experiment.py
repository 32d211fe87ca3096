"""The report of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sil.outcome.comparison import Cell as ComparisonCell
from sil.outcome.comparison import Comparison
from sil.outcome.jobs import run_table
from sil.outcome.metrics import Metric
from sil.report import figures
from sil.report.node_figures import predicted_against_real, timeline
from sil.report.page import Cell, Notice, Page, Part, Section, Table
from sil.report.tables import PREDICTION_HEADINGS, cell_texts, prediction_texts
from sil.trace.facts import RunDescription
from sil.trace.tables import RunTables

MOST_NODES_DRAWN = 128


def experiment_page(tables: RunTables, jobs: pl.DataFrame, comparison: Comparison) -> Page:
    description = comparison.description
    refusals = [Notice("refusal", f"{text}.", "Refused") for text in comparison.refusals]
    notes = [Notice("refusal", f"{text}.", "Note") for text in comparison.notes]
    faults = [
        Notice("fault", f"{fault}. Its later runs are left out.", "Fault") for fault in comparison.faults
    ]
    return Page(
        description.experiment,
        description.description,
        f"{description.experiment}: {', '.join(description.schedulers)}",
        list(_terms(description)),
        [*refusals, *notes, *faults],
        _sections(tables, jobs, comparison),
    )


def _terms(d: RunDescription) -> Iterator[tuple[str, str]]:
    yield "Schedulers", f"{', '.join(d.schedulers)}; baseline of differences: {d.schedulers[0]}"
    what = f"{len(d.machines)} machines, {len(d.clusters)} clusters"
    if d.shared_cluster is not None:
        what = f"the {len(d.machines)} time-shared nodes of {d.shared_cluster}"
    history = f"; estimates from its history up to run {d.runs_known}" if d.runs_known else ""
    yield "Site", f"{d.site}: {what}, {len(d.job_classes)} job classes{history}"
    yield "Workload", d.workload
    for axis in d.axes:
        yield "Grid", f"{figures.setting_title(axis)}: {', '.join(map(str, d.values_of(axis)))}"
    yield "Replications", f"{d.replications}, seed {d.seed}; common random numbers for all schedulers"
    yield "Version", f"{d.version}, scheduler source {d.scheduler_source}"


def _sections(tables: RunTables, jobs: pl.DataFrame, comparison: Comparison) -> list[Section]:
    sections = [*_grid_sections(comparison), _comparison_section(comparison)]
    if comparison.accuracies:
        sections.append(_prediction_section(comparison))
    if comparison.description.shared_cluster is not None:
        return [*sections, *_sections_of_nodes(tables.facts, jobs, comparison.description)]
    return [*sections, *_time_sections(tables.facts, jobs, comparison)]


def shown_points(description: RunDescription) -> list[int]:
    """The points of the grid with charts over time: first, middle and last."""
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
        "Sum of the turnaround times of all jobs. In the first chart, values below 0 are better than "
        f"{comparison.baseline}. Bands are 95 % confidence intervals over the replications, in the first "
        "chart of the paired change."
    )
    return [Section("Total flow time over the grid", note, parts)]


def _comparison_section(comparison: Comparison) -> Section:
    points = comparison.description.points
    note = (
        "Mean over replications ± half-width of the 95 % confidence interval. Below it: the paired "
        f"difference to {comparison.baseline}, and in parentheses the same as a percentage of the mean of "
        f"{comparison.baseline} (interval by the delta method). * The interval of the difference excludes 0. "
        "Decision time is measured, all other metrics are simulated."
    )
    parts = [
        Part(_settings(settings), table=_table(comparison, point), folded=len(points) > 1, open=point == 0)
        for point, settings in enumerate(points)
    ]
    return Section("Comparison", note, parts)


def _table(comparison: Comparison, point: int) -> Table:
    rows: list[list[Cell | str]] = []
    for m in comparison.metrics:
        cells = [comparison.cell(point, scheduler, m.key) for scheduler in comparison.schedulers]
        rows.append([m.label, *(_cell(m, cell) for cell in cells)])
    return Table(["", *comparison.schedulers], rows)


def _cell(m: Metric, cell: ComparisonCell | None) -> Cell:
    value, difference, change = (text.strip() for text in cell_texts(cell, m.digits))
    return Cell(value, f"{difference} ({change} %)" if change else difference)


def _prediction_section(comparison: Comparison) -> Section:
    several = len(comparison.description.points) > 1
    rows: list[list[Cell | str]] = []
    for accuracy in comparison.accuracies:
        settings = _settings(comparison.description.points[accuracy.point]) if several else ""
        rows.append([Cell(accuracy.scheduler, settings), accuracy.predictor, *prediction_texts(accuracy)])
    note = (
        "At each arrival, the turnaround P of every unfinished job is predicted. The deviation from the real "
        "turnaround R is |P - R| / R of the first prediction for each job; the signed deviation is positive "
        "for predictions that are too long. Intervals come from the errors in the site's history when the "
        "experiment began and should contain 80 % of the real values."
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
        + ". Shade: number of parallel tasks that run on a node. Line: a local user is present.",
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
        nodes.note = f"Not drawn for more than {MOST_NODES_DRAWN} nodes."
    turnaround = Section("Turnaround", "Distribution over the jobs of all replications.")
    if len(ended):
        turnaround.parts.append(Part(chart=figures.turnaround_distribution(ended, description.schedulers)))
    return [turnaround, nodes]


def _time_sections(facts: pl.DataFrame, jobs: pl.DataFrame, comparison: Comparison) -> list[Section]:
    description = comparison.description
    held = run_table(facts)
    points = shown_points(description)
    turnaround = Section("Turnaround", "Distribution over the jobs of all replications.")
    utilisation = Section(
        "Utilisation over time", "Share of machines held by runs, mean over the replications."
    )
    schedule = Section(
        "Schedule",
        "The first replication. Colour: job class. Dark frame: parallel run on a cluster.",
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
