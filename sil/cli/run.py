"""`sil run`, and what belongs to it: its experiments, and its report made again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sil.cli.console import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    err,
    natural_width,
    one_sentence_for_bad_input,
    out,
    print_fault,
    print_note,
    print_whole,
)
from sil.cli.progress import ProgressBar, progress

if TYPE_CHECKING:
    from sil.outcome.comparison import Comparison


class FigureKind(StrEnum):
    """Kinds of files that a chart can be written as."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"


def run(
    experiment: Annotated[
        str, typer.Argument(help="An experiment file, or the name of a built-in one (see `sil experiments`).")
    ],
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results. Default: sil-NAME.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Instead of the seed in the file.")] = None,
    replications: Annotated[
        int | None, typer.Option(min=1, help="Instead of the number in the file.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes to run on. The results do not depend on it.")
    ] = os.cpu_count() or 1,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="Instead of those in the file; may be repeated. The first is the baseline."),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="The metric of the grid table: a column of summary.json.")
    ] = "sum_job_times",
    site: Annotated[
        str | None,
        typer.Option(
            metavar="DATABASE#SITE",
            help="A site in a database instead of the one in the file: site.db, sqlite:///site.db#SITE or "
            "postgresql://user@host/database#SITE.",
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'8 x CLASS'",
            help="Imagine more machines of a class; '8 x CLASS as cluster NAME over INTERCONNECT' makes them "
            "a cluster. May be repeated.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'4 x CLASS'", help="Imagine machines (or names of some) away. May be repeated."
        ),
    ] = None,
    upgrade: Annotated[
        list[str] | None,
        typer.Option(metavar="'8 x CLASS to CLASS'", help="Imagine another class. May be repeated."),
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Record the completions in the database of --site.")
    ] = False,
    as_of: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="RUN",
            help="Expect what the history of --site let one expect after its run of this number.",
        ),
    ] = None,
) -> None:
    """Run an experiment and compare its schedulers.

    Writes trace.parquet (every simulated fact), jobs.csv, summary.json, report.html (open it in a browser),
    timings.parquet (measured decision times) and results.db (a copy of the site as it was, with the jobs,
    runs and predictions of this experiment). An interrupted run goes on when the same command is given again.
    """
    from sil.settings import files
    from sil.workers.processes import begin_early

    with one_sentence_for_bad_input():
        path = files.find(experiment, "experiments", Path())
    begin_early()
    from sil.experiment.run import REPORT, SiteChoice, run_experiment
    from sil.experiment.sweep import Interrupted
    from sil.outcome import metrics
    from sil.settings import experiment_file
    from site_db.store import parse_address

    with one_sentence_for_bad_input():
        metrics.metric(metric)
        chosen = experiment_file.read_experiment(path)
        chosen = experiment_file.changed(
            chosen, seed=seed, replications=replications, schedulers=tuple(scheduler) if scheduler else None
        )
        chosen = experiment_file.imagining(chosen, add=add or (), remove=remove or (), upgrade=upgrade or ())
        folder = out_folder or Path(f"sil-{chosen.name}")
        choice = SiteChoice(parse_address(site) if site else None, learn, as_of)
        with progress("replications") as bars:
            try:
                bar = ProgressBar(bars, chosen.name)
                comparison = run_experiment(chosen, path, folder, workers, choice, bar)
            except Interrupted as interrupted:
                bars.stop()
                err.print(
                    f"Interrupted: {interrupted}, kept in {folder}. The same command goes on from there."
                )
                raise typer.Exit(EXIT_INTERRUPTED) from None
    _show(comparison, metric)
    for fault in comparison.faults:
        print_fault(str(fault))
    out.print(f"Results are in {folder}; open {folder / REPORT} in a browser.", soft_wrap=True)
    if comparison.faults:
        raise typer.Exit(EXIT_FAULT)


def report(
    folder: Annotated[Path, typer.Argument(help="A results folder of `sil run` or `sil replay`.")],
    figures: Annotated[
        FigureKind | None, typer.Option(help="Also write each chart as a file into the folder `figures`.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="The metric of the grid table: a column of summary.json.")
    ] = "sum_job_times",
) -> None:
    """Write the report in a results folder again: for `sil run` from its trace, with jobs.csv and
    summary.json; for `sil replay` from these."""
    from sil.experiment.replay_folder import are_replays

    with one_sentence_for_bad_input():
        if are_replays(folder):
            _report_replays(folder, figures)
        else:
            _report_runs(folder, figures, metric)


def _report_replays(folder: Path, figures: FigureKind | None) -> None:
    from sil.cli.replay import statistics_table
    from sil.experiment.replay_folder import REPORT, SUMMARY, draw, render

    replayed = render(folder)
    _tell_of(draw(folder, figures.value) if figures else ())
    print_whole(statistics_table(replayed.statistics))
    for fault in replayed.faults:
        print_fault(fault)
    out.print(f"Written from {folder / SUMMARY}: {folder / REPORT}", soft_wrap=True)


def _report_runs(folder: Path, figures: FigureKind | None, metric: str) -> None:
    from sil.experiment.run import REPORT, TRACE, draw, render
    from sil.outcome import metrics

    metrics.metric(metric)
    comparison = render(folder)
    _tell_of(draw(folder, figures.value) if figures else ())
    _show(comparison, metric)
    for fault in comparison.faults:
        print_fault(str(fault))
    out.print(f"Written from {folder / TRACE}: {folder / REPORT}", soft_wrap=True)


def _tell_of(files: Iterable[Path]) -> None:
    for path in files:
        out.print(f"Written: {path}", soft_wrap=True)


def experiments() -> None:
    """List the experiments that come with the package."""
    from sil.settings import experiment_file, files

    table = Table()
    for column in ("name", "what it shows", "file"):
        table.add_column(column, overflow="fold")
    for name, path in files.built_in("experiments").items():
        table.add_row(name, experiment_file.read_experiment(path).description, str(path))
    out.print(table)


def _show(comparison: Comparison, metric: str) -> None:
    """The comparison in full, or over a grid the one metric that was asked for."""
    from sil.report.tables import comparison_table, grid_table, long_grid_table, prediction_table

    if comparison.description.axes:
        wide = grid_table(comparison, metric)
        fits = natural_width(wide) <= out.width
        print_whole(wide if fits else long_grid_table(comparison, metric))
    else:
        print_whole(comparison_table(comparison, 0))
    if comparison.accuracies:
        print_whole(prediction_table(comparison))
    n = comparison.description.replications
    how = (
        f"Means of {n} replications ± half-width of the 95 % confidence interval; differences are paired, "
        "* = not by chance."
        if n > 1
        else "One replication: there are no confidence intervals (see --replications)."
    )
    out.print(f"[dim]{how}[/dim]")
    for sentence in (*comparison.refusals, *comparison.notes):
        print_note(sentence)
