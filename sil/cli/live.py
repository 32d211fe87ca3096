"""`sil live`: runs an experiment with real processes and compares it with its simulation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument

from sil.cli import console, options
from sil.cli.console import print_listings
from sil.cli.progress import TerminalProgress, progress
from sil.report.listing import Column, Listing, number, text

if TYPE_CHECKING:
    from sil.experiment.live import LiveComparison

COLUMNS = (
    text("job", "job_id"),
    text("class", "job_class"),
    text("queue"),
    text("machine", "resource"),
    number("starts", "attempts"),
    number("CPU (s)", "cpu_s", ".2f"),
    number("live (s)", "turnaround_s", ".3f"),
    number("simulated (s)", "simulated_s", ".3f"),
    Column("difference %", lambda row: f"{100 * row['difference']:+.1f}", is_number=True),
)


def live(
    experiment: Annotated[str, Argument()] = "real-jobs",
    scheduler: str | None = None,
    seed: options.Seed = None,
    out_folder: Annotated[Path | None, options.folder("sil-live-NAME, with both traces")] = None,
    trust: options.Trust = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment on this computer with real processes, simulate it, and compare the two.

    * `experiment`: An experiment file, or the name of a built-in one.
    * `scheduler`: Override the first one in the file.

    The manager and the scheduler are the same, but each machine is a core, each job a process that keeps the
    core busy, preemption kills the process, and time is wall time: choose short experiments. Exit code 1 if
    the two decide differently. An example of adapters for the scheduler's ports; Linux only.
    """
    from sil.experiment.live import run_live_and_simulated
    from sil.experiment.output_folder import default_folder
    from sil.settings import experiment_file, files
    from sil.settings.foreign_code import ask_in_terminal, foreign_code, permit
    from sil.world.guard.faults import SchedulerFault

    path = files.find(experiment, "experiments", Path())
    read = experiment_file.changed(experiment_file.read_experiment(path), seed=seed)
    name = scheduler or read.schedulers[0]
    if not trust:
        of_one = experiment_file.changed(read, schedulers=(name,))
        permit(foreign_code(of_one, path, None, [scheduler] if scheduler else []), ask_in_terminal)
    folder = out_folder or default_folder("live", read.name)
    try:
        with progress("jobs") as bar:
            listener = TerminalProgress(bar, f"{read.name}, live")
            found, cpu_s = run_live_and_simulated(read, path, folder, name, listener)
    except SchedulerFault as fault:
        console.exit_with_fault(fault.by(name))
    if as_json:
        console.print_json({"jobs": found.jobs.to_dicts(), "diverged_at": found.diverged_at, "cpu_s": cpu_s})
    else:
        rows = [row | {"cpu_s": cpu_s[row["job_id"]]} for row in found.jobs.to_dicts()]
        title = f"Turnaround times under {name}, live and simulated"
        print_listings([Listing("jobs", title, COLUMNS, rows)])
        _print_comparison(found)
        console.print_line(f"Traces are in {folder / 'live'} and {folder / 'simulated'}.")
    if found.diverged_at is not None:
        raise typer.Exit(console.EXIT_FAULT)


def _print_comparison(found: LiveComparison) -> None:
    at = found.diverged_at
    if at is None:
        preempted = sum(fact == "run_preempted" for fact, _, _ in found.live)
        counts = f"{len(found.live) - preempted} starts and {preempted} preemptions"
        console.print_line(f"The decisions are equal: {counts}, in the same order on each machine.")
    else:
        live, simulated = (
            f"{side[at][0].removeprefix('run_')} job {side[at][1]} on {side[at][2]}" if side[at:] else "none"
            for side in (found.live, found.simulated)
        )
        console.print_line(
            f"The decisions, by machine, diverge after {at}: live {live}, simulated {simulated}."
        )
    live_s, simulated_s = found.mean_turnaround_s
    console.print_line(
        f"Mean turnaround time: {live_s:.3f} s live, {simulated_s:.3f} s simulated "
        f"({100 * (live_s / simulated_s - 1):+.1f} %)."
    )
