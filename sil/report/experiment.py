"""The report of an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from scheduler.messages import counted
from sil.outcome.comparison import Comparison
from sil.outcome.jobs import run_table, with_clusters
from sil.outcome.run_parts import run_parts
from sil.report.experiment_figures import (
    gantt,
    over_grid,
    predicted_against_real,
    timeline,
    utilisation_over_time,
)
from sil.report.figures import distribution, setting_title
from sil.report.page import Cell, Notice, Page, PageTable, Part, Section, terms_of_nodes
from sil.report.replay import over_time
from sil.report.replay.over_time import AROUND, ON_NODES
from sil.report.tables import OPEN, PREDICTION_HEADINGS, cell_texts, prediction_texts
from sil.report.vega_lite import Figure, below_each_other
from sil.trace.facts import RunDescription, RunTables

MAX_NODES_DRAWN = 128
NO_BREAK = "\N{NO-BREAK SPACE}"
OVER_ALL_JOBS = "Distribution over the jobs of all replications."


def experiment_page(tables: RunTables, jobs: pl.DataFrame, comparison: Comparison) -> Page:
    d, found = comparison.description, comparison
    of_jobs = {"Refused": found.refusals, "Failed": found.failures, "Note": found.notes}
    sections = [*_grid_sections(comparison), _comparison_section(comparison)]
    if comparison.accuracies:
        sections.append(_prediction_section(comparison))
    if d.cluster_schedulers:
        sections += _waiting_sections(with_clusters(jobs, d), d, "cluster")
    if d.shared_cluster is not None:
        sections += _sections_of_nodes(tables.facts, jobs, d)
    else:
        sections += _waiting_sections(jobs, d, "queue") if d.cores else []
        sections += _time_sections(tables.facts, jobs, d)
    return Page(
        d.experiment,
        d.description,
        f"{d.experiment}: {', '.join(d.schedulers)}",
        list(_terms(d)),
        [
            *(Notice("refusal", f"{text}.", label) for label, texts in of_jobs.items() for text in texts),
            *(Notice("fault", f"{fault}. Its later runs are left out.", "Fault") for fault in found.faults),
        ],
        sections,
    )


def _terms(d: RunDescription) -> Iterator[tuple[str, str]]:
    yield "Schedulers", f"{', '.join(d.schedulers)}; baseline of differences: {d.schedulers[0]}"
    what = f"{counted(len(d.machines), 'machine')}, {counted(len(d.clusters), 'cluster')}"
    if d.cores:
        what = counted(len(d.machines), "node")
    if d.cluster_schedulers:
        what = f"{counted(len(d.machines), 'machine')} of {counted(len(d.clusters), 'cluster')}"
    elif d.shared_cluster is not None:
        what = f"the {len(d.machines)} time-shared nodes of {d.shared_cluster}"
    history = f"; estimates from its history up to run {d.runs_known}" if d.runs_known else ""
    yield "Site", f"{d.site}: {what}, {counted(len(d.job_classes), 'job class')}{history}"
    yield from terms_of_nodes(d.nodes)
    yield "Workload", d.workload
    for axis in d.axes:
        yield "Grid", f"{setting_title(axis)}: {', '.join(map(str, d.values_of(axis)))}"
    yield "Replications", f"{d.replications}, seed {d.seed}; common random numbers for all schedulers"
    yield "Version", f"{d.version}, scheduler source {d.scheduler_source}"


def _grid_sections(comparison: Comparison) -> Iterator[Section]:
    axes = comparison.description.axes
    if len(axes) != 1 or not all(isinstance(point[axes[0]], int | float) for point in comparison.points):
        return
    kinds = [True, False] if len(comparison.schedulers) > 1 else [False]
    note = (
        "Sum of the turnaround times of all jobs. In the first chart, values below 0 are better than "
        f"{comparison.baseline}. Bands are 95 % confidence intervals over the replications, in the first "
        "chart of the paired change."
    )
    parts = [Part(chart=over_grid(comparison, "sum_job_times", relative)) for relative in kinds]
    yield Section("Total flow time over the grid", note, parts)


def _comparison_section(comparison: Comparison) -> Section:
    points, parts = comparison.points, []
    note = (
        "Mean over replications ± half-width of the 95 % confidence interval. Below it: the paired "
        f"difference to {comparison.baseline}, and in parentheses the same as a percentage of the mean of "
        f"{comparison.baseline}, with [the limits] of intervals that are not symmetrical. * Both intervals "
        f"exclude 0. {OPEN} Not settled, and no interval: hardly any replication shows a difference, or all "
        "show the same. Bounded slowdown has a threshold of "
        f"{comparison.description.bounded_slowdown_threshold_s:g} s. Decision time is measured, all other "
        "metrics are simulated."
    )
    for point, settings in enumerate(points):
        rows: list[list[Cell | str]] = []
        for m in comparison.metrics.values():
            cells = [comparison.cell(point, name, m.key) for name in comparison.schedulers]
            texts = [[text.strip() for text in cell_texts(cell, m.digits)] for cell in cells]
            below = [_in_parts(difference, change) for _, difference, change in texts]
            rows.append([m.label, *(Cell(text[0], under) for text, under in zip(texts, below, strict=True))])
        table = PageTable(["", *comparison.schedulers], rows)
        parts.append(Part(_settings(settings), table=table, folded=len(points) > 1, open=point == 0))
    return Section("Comparison", note, parts)


def _in_parts(difference: str, change: str) -> str:
    """A difference, its interval and the percentage, between which alone a line may break."""
    parts = [difference.replace(", ", f",{NO_BREAK}")]
    if change:
        parts.append(f"({change} %)".replace(" ", NO_BREAK))
    return " ".join(parts)


def _prediction_section(comparison: Comparison) -> Section:
    several = len(comparison.points) > 1
    rows: list[list[Cell | str]] = []
    for accuracy in comparison.accuracies:
        settings = _settings(comparison.points[accuracy.point]) if several else ""
        rows.append([Cell(accuracy.scheduler, settings), accuracy.predictor, *prediction_texts(accuracy)])
    note = (
        "At each arrival, the turnaround P of every unfinished job is predicted. The deviation from the real "
        "turnaround R is |P - R| / R of the first prediction for each job; the signed deviation is positive "
        "for predictions that are too long. Intervals come from the errors in the site's history when the "
        "experiment began and should contain 80 % of the real values."
    )
    first = comparison.scores.filter("first", pl.col("predicted_s").is_finite(), replication=0, point=0)
    parts = [Part(table=PageTable(["scheduler", "predictor", *PREDICTION_HEADINGS], rows))]
    for scheduler in comparison.schedulers:
        points = first.filter(scheduler=scheduler).select(
            of="predictor", real="real_s", predicted="predicted_s"
        )
        if len(points):
            chart = predicted_against_real(points, "Predictor")
            is_open = scheduler == comparison.baseline
            parts.append(Part(f"{scheduler}, first replication", chart, folded=True, open=is_open))
    return Section("Predicted turnaround", note, parts)


def _turnaround(jobs: pl.DataFrame, d: RunDescription) -> Figure:
    values = {name: jobs.filter(scheduler=name)["turnaround_time"] for name in d.schedulers}
    return distribution(values, d.schedulers, "Turnaround (s)")


def _sections_of_nodes(facts: pl.DataFrame, jobs: pl.DataFrame, d: RunDescription) -> list[Section]:
    nodes = Section(
        "Nodes over time",
        "The first replication"
        + (" of the first point of the grid" if len(d.points) > 1 else "")
        + ". Shade: number of parallel tasks that run on a node. Line: a local user is present.",
    )
    if d.n_machines > MAX_NODES_DRAWN:
        nodes.note = f"Not drawn for more than {MAX_NODES_DRAWN} nodes."
    else:
        for scheduler in d.schedulers:
            of_one = facts.filter(point=0, replication=0, scheduler=scheduler)
            if len(of_one):
                chart, is_first = timeline(of_one, d.n_machines), scheduler == d.schedulers[0]
                nodes.parts.append(Part(scheduler, chart, folded=True, open=is_first))
    ended = jobs.filter(point=0)
    parts = [Part(chart=_turnaround(ended, d))] if len(ended) else []
    return [Section("Turnaround", OVER_ALL_JOBS, parts), nodes]


def _waiting_sections(jobs: pl.DataFrame, d: RunDescription, by: str) -> Iterator[Section]:
    """The mean waiting time by cluster, or by queue, which is the partition where a site has no queues."""
    means = jobs.filter(point=0).group_by(by, "scheduler").agg(pl.mean("waiting_time"), pl.len())
    found = {(place, scheduler): (mean, n) for place, scheduler, mean, n in means.iter_rows()}
    rows: list[list[Cell | str]] = []
    for place in sorted({place for place, _ in found}):
        here = [found.get((place, name)) for name in d.schedulers]
        numbers = {n for _, n in filter(None, here)}
        of_all = counted(numbers.pop(), "job") if len(numbers) == 1 else ""
        cells = [
            Cell("") if one is None else Cell(f"{one[0]:,.1f}", "" if of_all else counted(one[1], "job"))
            for one in here
        ]
        rows.append([Cell(place, of_all), *cells])
    where = ", at the first point of the grid." if len(d.points) > 1 else "."
    note = f"Mean waiting time (s) over the jobs of all replications{where}"
    if rows:
        yield Section(f"Waiting by {by}", note, [Part(table=PageTable([by, *d.schedulers], rows))])


def _time_sections(facts: pl.DataFrame, jobs: pl.DataFrame, d: RunDescription) -> Iterator[Section]:
    """Charts at the first, the middle and the last point of the grid."""
    last, all_runs = len(d.points) - 1, run_table(facts)
    points = sorted({0, last // 2, last})
    some = " Drawn for the first, the middle and the last point of the grid."
    held, drawn = "machines", "Colour: job class. Dark frame: parallel run on a cluster."
    if d.cores:
        held, drawn = "CPUs", f"{AROUND}{ON_NODES}"
    notes = {
        "Turnaround": OVER_ALL_JOBS,
        "Schedule": f"The first replication. {drawn}",
        "Utilisation over time": f"Share of {held} held by runs, mean over the replications.",
    }
    for title, note in notes.items():
        section = Section(title, note + (some if len(points) < len(d.points) else ""))
        for place, point in enumerate(points):
            ended, runs = jobs.filter(point=point), all_runs.filter(point=point)
            if not len(ended):
                continue
            if title == "Turnaround":
                chart = _turnaround(ended, d)
            elif title == "Schedule" and d.cores:
                of_first = facts.filter(point=point, replication=0)
                chart = _on_nodes(of_first, ended.filter(replication=0), d)
            elif title == "Schedule":
                chart = gantt(runs.filter(replication=0), ended.filter(replication=0), d)
            else:
                chart = utilisation_over_time(runs, d)
            is_middle = place == len(points) // 2
            part = Part(_settings(d.points[point]), chart, folded=len(points) > 1, open=is_middle)
            section.parts.append(part)
        if section.parts:
            yield section


def _on_nodes(facts: pl.DataFrame, jobs: pl.DataFrame, d: RunDescription) -> Figure:
    """The schedule of each scheduler, as the page of a replay has it."""
    panels = []
    for name in filter(set(jobs["scheduler"]).__contains__, d.schedulers):
        parts = run_parts(facts.filter(scheduler=name), d.node_cores)
        chart = over_time.gantt(jobs.filter(scheduler=name), d.cores, None, parts)
        panels.append(chart.properties(title=name))
    return below_each_other(*panels)


def _settings(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{setting_title(key)}: {value}" for key, value in point.items())
