"""`sil run`, `sil report` and `sil experiments`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sil.cli.console import (
    EXIT_FAULT,
    JsonOption,
    NoDeterminismCheckOption,
    natural_width,
    one_sentence_for_bad_input,
    out,
    print_fault,
    print_json,
    print_note,
    print_whole,
)
from sil.cli.options import WORKERS, DaskOption, WorkersOption
from sil.cli.progress import ProgressBar, progress

if TYPE_CHECKING:
    from sil.outcome.comparison import Comparison


class FigureKind(StrEnum):
    """File formats of charts."""

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
    seed: Annotated[int | None, typer.Option(min=0, help="Override the seed in the file.")] = None,
    replications: Annotated[int | None, typer.Option(min=1, help="Override the number in the file.")] = None,
    workers: WorkersOption = WORKERS,
    dask: DaskOption = None,
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="Override those in the file. May be repeated; the first is the baseline."),
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
            help="Add notional machines of a class; '8 x CLASS as cluster NAME over INTERCONNECT' makes them "
            "a cluster. May be repeated.",
        ),
    ] = None,
    remove: Annotated[
        list[str] | None,
        typer.Option(metavar="'4 x CLASS'", help="Remove machines, by class or by name. May be repeated."),
    ] = None,
    upgrade: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'8 x CLASS to CLASS'",
            help="Replace machines by those of another class. May be repeated.",
        ),
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn", help="Record completed runs in the database of --site.")
    ] = False,
    as_of: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="RUN",
            help="Estimate run times from the history of --site up to the run of this number.",
        ),
    ] = None,
    reasons: Annotated[
        bool, typer.Option("--reasons", help="Record in the trace why jobs wait (for `sil why`).")
    ] = False,
    no_determinism_check: NoDeterminismCheckOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run an experiment and compare its schedulers.

    Writes trace.parquet (every simulated fact), jobs.csv, summary.json, report.html (open it in a browser),
    timings.parquet (measured decision times) and results.db (a copy of the site as it was, with the jobs,
    runs and predictions of this experiment). Repeat the command to resume an interrupted run.
    """
    from sil.settings import files
    from sil.workers.processes import begin_early

    with one_sentence_for_bad_input():
        path = files.find(experiment, "experiments", Path())
    if dask is None:
        begin_early()
    from sil.experiment.run import REPORT, SiteChoice, run_experiment
    from sil.outcome import metrics
    from sil.settings import experiment_file
    from sil.workers.selection import selected_executor
    from site_db.store import parse_address

    with one_sentence_for_bad_input():
        metrics.metric(metric)
        chosen = experiment_file.read_experiment(path)
        chosen = experiment_file.changed(
            chosen, seed=seed, replications=replications, schedulers=tuple(scheduler) if scheduler else None
        )
        guard = chosen.guard.model_dump()
        guard |= {"reasons": True} if reasons else {}
        guard |= {"ask_twice": False} if no_determinism_check else {}
        chosen = experiment_file.changed(chosen, guard=guard)
        chosen = experiment_file.imagining(chosen, add=add or (), remove=remove or (), upgrade=upgrade or ())
        folder = out_folder or Path(f"sil-{chosen.name}")
        choice = SiteChoice(parse_address(site) if site else None, learn, as_of)
        with progress("runs") as bars, selected_executor(workers, dask) as executor:
            bar = ProgressBar(bars, chosen.name)
            comparison = run_experiment(chosen, path, folder, executor, choice, bar)
    _show(comparison, metric, as_json)
    for fault in comparison.faults:
        print_fault(str(fault))
    if not as_json:
        out.print(f"Results are in {folder}; open {folder / REPORT} in a browser.", soft_wrap=True)
    if comparison.faults:
        raise typer.Exit(EXIT_FAULT)


def report(
    folder: Annotated[Path, typer.Argument(help="A results folder of `sil run` or `sil replay`.")],
    figures: Annotated[
        FigureKind | None, typer.Option(help="Also write each chart to a file in the folder `figures`.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="The metric of the grid table: a column of summary.json.")
    ] = "sum_job_times",
    as_json: JsonOption = False,
) -> None:
    """Rebuild the report in a results folder.

    For `sil run`, rebuilds jobs.csv, summary.json and report.html from the trace; for `sil replay`, rebuilds
    report.html from jobs.csv and summary.json.
    """
    from sil.experiment.replay_folder import are_replays

    with one_sentence_for_bad_input():
        if are_replays(folder):
            _report_replays(folder, figures, as_json)
        else:
            _report_runs(folder, figures, metric, as_json)


def _report_replays(folder: Path, figures: FigureKind | None, as_json: bool) -> None:
    from sil.cli.replay import print_statistics
    from sil.experiment.replay_folder import REPORT, SUMMARY, draw, render

    replayed = render(folder)
    written = [*(draw(folder, figures.value) if figures else ()), folder / REPORT]
    print_statistics(replayed.statistics, as_json)
    for fault in replayed.faults:
        print_fault(fault)
    _list_files(written, folder / SUMMARY, as_json)


def _report_runs(folder: Path, figures: FigureKind | None, metric: str, as_json: bool) -> None:
    from sil.experiment.run import REPORT, draw, render
    from sil.outcome import metrics
    from sil.trace.facts import TRACE

    metrics.metric(metric)
    comparison = render(folder)
    written = [*(draw(folder, figures.value) if figures else ()), folder / REPORT]
    _show(comparison, metric, as_json)
    for fault in comparison.faults:
        print_fault(str(fault))
    _list_files(written, folder / TRACE, as_json)


def _list_files(written: Iterable[Path], source: Path, as_json: bool) -> None:
    for path in () if as_json else written:
        out.print(f"Written from {source}: {path}", soft_wrap=True)


def experiments(as_json: JsonOption = False) -> None:
    """List the experiments that come with the package."""
    from sil.settings import experiment_file, files

    found = [
        {"name": name, "description": experiment_file.read_experiment(path).description, "file": str(path)}
        for name, path in files.built_in("experiments").items()
    ]
    if as_json:
        print_json(found)
        return
    table = Table()
    for column in ("name", "description", "file"):
        table.add_column(column, overflow="fold")
    for experiment in found:
        table.add_row(*experiment.values())
    out.print(table)


def _show(comparison: Comparison, metric: str, as_json: bool) -> None:
    """All metrics of a single point, or one metric over a grid; as JSON what summary.json has."""
    from sil.report.tables import comparison_table, grid_table, long_grid_table, prediction_table

    if as_json:
        print_json(comparison.as_dict())
    elif comparison.description.axes:
        wide = grid_table(comparison, metric)
        fits = natural_width(wide) <= out.width
        print_whole(wide if fits else long_grid_table(comparison, metric))
    else:
        print_whole(comparison_table(comparison, 0))
    if comparison.accuracies and not as_json:
        print_whole(prediction_table(comparison))
    n = comparison.description.replications
    how = (
        f"Means of {n} replications ± half-width of the 95 % confidence interval; differences are paired, "
        "* = the interval excludes 0."
        if n > 1
        else "One replication, hence no confidence intervals (see --replications)."
    )
    if not as_json:
        out.print(f"[dim]{how}[/dim]")
    for sentence in (*comparison.refusals, *comparison.notes):
        print_note(sentence)
