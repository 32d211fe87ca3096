"""The report of an experiment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from scheduler.messages import counted
from sil.outcome.comparison import Cell as ComparisonCell
from sil.outcome.comparison import Comparison
from sil.outcome.jobs import run_table
from sil.outcome.metrics import Metric
from sil.report import figures
from sil.report.node_figures import predicted_against_real, timeline
from sil.report.page import Cell, Notice, Page, Part, Section, Table
from sil.report.tables import OPEN, PREDICTION_HEADINGS, cell_texts, prediction_texts
from sil.trace.facts import RunDescription, RunTables

MOST_NODES_DRAWN = 128
OVER_ALL_JOBS = "Distribution over the jobs of all replications."


def experiment_page(tables: RunTables, jobs: pl.DataFrame, comparison: Comparison) -> Page:
    description = comparison.description
    notices = [
        *(Notice("refusal", f"{text}.", "Refused") for text in comparison.refusals),
        *(Notice("refusal", f"{text}.", "Failed") for text in comparison.failures),
        *(Notice("refusal", f"{text}.", "Note") for text in comparison.notes),
        *(Notice("fault", f"{fault}. Its later runs are left out.", "Fault") for fault in comparison.faults),
    ]
    return Page(
        description.experiment,
        description.description,
        f"{description.experiment}: {', '.join(description.schedulers)}",
        list(_terms(description)),
        notices,
        _sections(tables, jobs, comparison),
    )


def _terms(d: RunDescription) -> Iterator[tuple[str, str]]:
    yield "Schedulers", f"{', '.join(d.schedulers)}; baseline of differences: {d.schedulers[0]}"
    what = f"{counted(len(d.machines), 'machine')}, {counted(len(d.clusters), 'cluster')}"
    if d.cores:
        what = counted(len(d.machines), "node")
    if d.shared_cluster is not None:
        what = f"the {len(d.machines)} time-shared nodes of {d.shared_cluster}"
    history = f"; estimates from its history up to run {d.runs_known}" if d.runs_known else ""
    yield "Site", f"{d.site}: {what}, {counted(len(d.job_classes), 'job class')}{history}"
    for line in d.nodes:
        title, _, text = line.partition(": ")
        yield (title, text) if title == "Nodes" else ("Sharing", line)
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
    if comparison.description.cores:
        sections += _waiting_sections(jobs, comparison.description)
    return [*sections, *_time_sections(tables.facts, jobs, comparison)]


def _drawn_points(description: RunDescription) -> list[int]:
    """The points of the grid with charts over time: first, middle and last."""
    last = len(description.points) - 1
    return sorted({0, last // 2, last})


def _grid_sections(comparison: Comparison) -> list[Section]:
    axes = comparison.description.axes
    if len(axes) != 1 or not all(
        isinstance(point[axes[0]], (int, float)) for point in comparison.description.points
    ):
        return []
    parts = [Part(chart=figures.value_over_grid(comparison, "sum_job_times"))]
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
        f"{comparison.baseline}, with [the limits] of intervals that are not symmetrical. * Both intervals "
        f"exclude 0. {OPEN} Not settled, and no interval: hardly any replication shows a difference, or all "
        "show the same. Bounded slowdown has a threshold of "
        f"{comparison.description.bounded_slowdown_threshold_s:g} s. Decision time is measured, all other "
        "metrics are simulated."
    )
    parts = [
        Part(_settings(settings), table=_table(comparison, point), folded=len(points) > 1, open=point == 0)
        for point, settings in enumerate(points)
    ]
    return Section("Comparison", note, parts)


def _table(comparison: Comparison, point: int) -> Table:
    rows: list[list[Cell | str]] = [
        [m.label, *(_cell(m, comparison.cell(point, name, m.key)) for name in comparison.schedulers)]
        for m in comparison.metrics.values()
    ]
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
    first = comparison.scores.filter("first", pl.col("predicted_s").is_finite(), replication=0, point=0)
    points = first.select("scheduler", of="predictor", real="real_s", predicted="predicted_s")
    parts = [Part(table=Table(["scheduler", "predictor", *PREDICTION_HEADINGS], rows))]
    for scheduler in comparison.schedulers:
        of_one = points.filter(scheduler=scheduler).drop("scheduler")
        if len(of_one):
            title = f"{scheduler}, first replication"
            chart = predicted_against_real(of_one, "Predictor")
            parts.append(Part(title, chart, folded=True, open=scheduler == comparison.baseline))
    return Section("Predicted turnaround", note, parts)


def _sections_of_nodes(facts: pl.DataFrame, jobs: pl.DataFrame, description: RunDescription) -> list[Section]:
    nodes = Section(
        "Nodes over time",
        "The first replication"
        + (" of the first point of the grid" if len(description.points) > 1 else "")
        + ". Shade: number of parallel tasks that run on a node. Line: a local user is present.",
    )
    if description.n_machines > MOST_NODES_DRAWN:
        nodes.note = f"Not drawn for more than {MOST_NODES_DRAWN} nodes."
    else:
        for scheduler in description.schedulers:
            of_one = facts.filter(point=0, replication=0, scheduler=scheduler)
            if len(of_one):
                chart = timeline(of_one, description.n_machines)
                is_first = scheduler == description.schedulers[0]
                nodes.parts.append(Part(scheduler, chart, folded=True, open=is_first))
    turnaround = Section("Turnaround", OVER_ALL_JOBS)
    ended = jobs.filter(pl.col("point") == 0)
    if len(ended):
        turnaround.parts.append(Part(chart=figures.turnaround_distribution(ended, description.schedulers)))
    return [turnaround, nodes]


def _waiting_sections(jobs: pl.DataFrame, d: RunDescription) -> list[Section]:
    """The mean waiting time by queue, which is the partition where a site has no queues."""
    ended = jobs.filter(pl.col("point") == 0)
    means = ended.group_by("queue", "scheduler").agg(pl.col("waiting_time").mean(), pl.len())
    found = {(queue, scheduler): (mean, n) for queue, scheduler, mean, n in means.iter_rows()}
    if not found:
        return []
    queues = sorted({queue for queue, _ in found})
    rows: list[list[Cell | str]] = []
    for queue in queues:
        of_queue = [found.get((queue, name)) for name in d.schedulers]
        cells = [Cell("" if one is None else f"{one[0]:,.1f}", "") for one in of_queue]
        rows.append([Cell(queue, counted(max(one[1] for one in of_queue if one), "job")), *cells])
    table = Table(["queue", *d.schedulers], rows)
    note = "Mean waiting time (s) over the jobs of all replications" + (
        ", at the first point of the grid." if len(d.points) > 1 else "."
    )
    return [Section("Waiting by queue", note, [Part(table=table)])]


def _time_sections(facts: pl.DataFrame, jobs: pl.DataFrame, comparison: Comparison) -> list[Section]:
    d = comparison.description
    all_runs, points = run_table(facts), _drawn_points(d)
    schedule = "The first replication. Colour: job class. Dark frame: parallel run on a cluster."
    some = " Drawn for the first, the middle and the last point of the grid."
    sections = [
        Section(title, note + (some if len(points) < len(d.points) else ""))
        for title, note in (
            ("Turnaround", OVER_ALL_JOBS),
            ("Schedule", schedule),
            ("Utilisation over time", "Share of machines held by runs, mean over the replications."),
        )
    ]
    if d.cores:  # many runs share a node
        del sections[1]
        sections[1].note = "Share of CPUs held by runs, mean over the replications." + (
            some if len(points) < len(d.points) else ""
        )
    for place, point in enumerate(points):
        ended, runs = jobs.filter(point=point), all_runs.filter(point=point)
        if not len(ended):
            continue
        charts = [
            figures.turnaround_distribution(ended, d.schedulers),
            figures.utilisation_over_time(runs, d),
        ]
        if not d.cores:
            charts.insert(1, figures.gantt(runs.filter(replication=0), ended.filter(replication=0), d))
        folded, is_middle = len(points) > 1, place == len(points) // 2
        for section, chart in zip(sections, charts, strict=True):
            section.parts.append(Part(_settings(d.points[point]), chart, folded=folded, open=is_middle))
    return [section for section in sections if section.parts]


def _settings(point: dict[str, Any]) -> str:
    return ", ".join(f"{figures.setting_title(key)}: {value}" for key, value in point.items())
