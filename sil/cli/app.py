"""The `sil` command."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sil.cli import database, workload
from sil.cli.console import (
    EXIT_FAULT,
    EXIT_INTERRUPTED,
    SchedulerNotes,
    err,
    natural_width,
    one_sentence_for_bad_input,
    out,
    print_fault,
    print_note,
    print_whole,
)
from sil.cli.live import live
from sil.cli.overhead import overhead
from sil.cli.own_scheduler import check, new_scheduler, serve_scheduler
from sil.cli.plan import plan
from sil.cli.predict import predict
from sil.cli.progress import ProgressBar, progress
from sil.cli.replay import replay
from sil.cli.reproduce import reproduce
from sil.cli.traces import compare_traces, why

if TYPE_CHECKING:
    from sil.outcome.comparison import Comparison


class FigureKind(StrEnum):
    """Kinds of files that a chart can be written as."""

    PNG = "png"
    SVG = "svg"
    PDF = "pdf"


app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="""A software-in-the-loop testbed for schedulers: the real scheduler, fake machines.

    Try `sil run light-to-heavy`, a built-in experiment that compares three schedulers on a site of
    142 machines, and open the report it writes. `sil schedule MATRIX` maps one ETC matrix.
    A scheduler is named by its name (`sil schedulers` lists them) or as `module:Class`,
    found from the current folder.

    `sil check NAME` tells whether a scheduler keeps the rules, and `sil new-scheduler NAME` begins one.

    `sil replay LOG` replays a log of the Parallel Workloads Archive under backfilling schedulers.

    `sil plan PLAN` answers what should be bought: machines that are only imagined, with prices.

    `sil db` keeps the database of a site: its machines, its job classes, and how long they take.

    Exit codes: 0 done, 1 a scheduler under test misbehaved, 2 bad input, 130 interrupted.
    """,
)
app.add_typer(database.app, name="db")
app.add_typer(workload.app, name="workload")
app.command()(reproduce)
app.command()(predict)
app.command()(replay)
app.command()(live)
app.command()(plan)
app.command()(overhead)
app.command("compare-traces")(compare_traces)
app.command()(why)
app.command()(check)
app.command("new-scheduler")(new_scheduler)
app.command("serve-scheduler")(serve_scheduler)


def main() -> None:
    """Entry point: plug-ins are found from the current folder, as with `python -m`."""
    sys.path.insert(0, os.getcwd())
    SchedulerNotes.show()
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        from sil.experiment.provenance import package_version

        out.print(package_version(), highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and stop.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """What stands before the command. The help text is that of the app."""


@app.command()
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
    from sil.experiment import config, files
    from sil.experiment.run import REPORT, SiteChoice, run_experiment
    from sil.experiment.sweep import Interrupted
    from sil.outcome import metrics
    from site_db.store import parse_address

    with one_sentence_for_bad_input():
        metrics.metric(metric)
        path = files.find(experiment, "experiments", Path())
        chosen = config.read_experiment(path)
        chosen = config.changed(
            chosen, seed=seed, replications=replications, schedulers=tuple(scheduler) if scheduler else None
        )
        chosen = config.imagining(chosen, add=add or (), remove=remove or (), upgrade=upgrade or ())
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


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="A results folder of `sil run`.")],
    figures: Annotated[
        FigureKind | None, typer.Option(help="Also write each chart as a file into the folder `figures`.")
    ] = None,
    metric: Annotated[
        str, typer.Option(help="The metric of the grid table: a column of summary.json.")
    ] = "sum_job_times",
) -> None:
    """Write jobs.csv, summary.json and report.html again from the trace in a results folder."""
    from sil.experiment.run import REPORT, TRACE, draw, render
    from sil.outcome import metrics

    with one_sentence_for_bad_input():
        metrics.metric(metric)
        comparison = render(folder)
        if figures is not None:
            for path in draw(folder, figures.value):
                out.print(f"Written: {path}", soft_wrap=True)
    _show(comparison, metric)
    for fault in comparison.faults:
        print_fault(str(fault))
    out.print(f"Written from {folder / TRACE}: {folder / REPORT}", soft_wrap=True)


@app.command()
def schedule(
    matrix: Annotated[
        Path,
        typer.Argument(
            help="Expected seconds, a row per job and a column per machine: .csv, .npy, or the HCSP text "
            "format (a line `jobs machines 0`, then a value per line, job by job); text may be gzipped."
        ),
    ],
    scheduler: Annotated[
        list[str] | None, typer.Option(help="May be repeated. Default: all built-in ones but the optimising.")
    ] = None,
    ready: Annotated[
        Path | None, typer.Option(help="A file with each machine's ready time in seconds; 0 without.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write job, machine, start, completion to this CSV file.")
    ] = None,
    limit_s: Annotated[
        float, typer.Option("--limit", min=0.001, help="Seconds that one decision may take.")
    ] = 3600.0,
) -> None:
    """Map one ETC matrix and tell makespan, sum of completion times and decision time."""
    import json

    from scheduler import registry
    from sil.experiment.matrix import map_matrix, read_problem, write_mapping
    from sil.world.faults import SchedulerFault

    mapped, faults = [], []
    with one_sentence_for_bad_input():
        names = scheduler or [name for name in registry.BUILT_IN if name not in registry.OPTIMISING]
        for name in names:
            registry.load(name)
        problem = read_problem(matrix, ready)
        for name in names:
            try:
                mapped.append(map_matrix(problem, name, limit_s))
            except SchedulerFault as fault:
                faults.append(f"{name} broke the rule {fault}")
        if out_file is not None:
            write_mapping(out_file, mapped)
    rows = [
        {
            "scheduler": result.scheduler,
            "makespan_s": result.schedule.makespan_s,
            "sum_completion_times_s": result.schedule.sum_completion_s,
            "decision_s": result.decision_s,
        }
        for result in mapped
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
    else:
        table = Table(
            title=f"{problem.n_jobs} jobs on {problem.etc.n_resources} machines", title_justify="left"
        )
        table.add_column("scheduler")
        for column in ("makespan (s)", "sum of completion times (s)", "decision (ms)"):
            table.add_column(column, justify="right")
        for result in mapped:
            made = result.schedule
            times = (f"{made.makespan_s:,.3f}", f"{made.sum_completion_s:,.3f}")
            table.add_row(result.scheduler, *times, f"{1e3 * result.decision_s:,.2f}")
        out.print(table)
    for sentence in faults:
        print_fault(sentence)
    if faults:
        raise typer.Exit(EXIT_FAULT)


@app.command()
def schedulers() -> None:
    """List the schedulers that can be named, and where each comes from."""
    from scheduler import registry

    table = Table()
    for column in ("name", "source", "class", "what it does"):
        table.add_column(column, overflow="fold")
    for entry in registry.entries():
        table.add_row(entry.name, entry.source, entry.target, entry.summary)
    out.print(table)
    out.print("A class of your own is named as module:Class, found from the current folder.")


@app.command()
def experiments() -> None:
    """List the experiments that come with the package."""
    from sil.experiment import config, files

    table = Table()
    for column in ("name", "what it shows", "file"):
        table.add_column(column, overflow="fold")
    for name, path in files.built_in("experiments").items():
        table.add_row(name, config.read_experiment(path).description, str(path))
    out.print(table)


def _show(comparison: Comparison, metric: str) -> None:
    """The comparison in full, or over a grid the one metric that was asked for."""
    from sil.outcome.tables import comparison_table, grid_table, long_grid_table, prediction_table

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
