"""`sil live`: runs an experiment with real processes and compares it with its simulation."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from sil.cli.console import (
    EXIT_FAULT,
    JsonOption,
    fail,
    one_sentence_for_bad_input,
    out,
    print_fault,
    print_json,
    print_whole,
)
from sil.cli.progress import ProgressBar, progress

if TYPE_CHECKING:
    from sil.outcome.live_comparison import Twins


def live(
    experiment: Annotated[
        str, typer.Argument(help="An experiment file, or the name of a built-in one.")
    ] = "real-jobs",
    scheduler: Annotated[str | None, typer.Option(help="Override the first one in the file.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Override the seed in the file.")] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for both traces. Default: sil-live-NAME.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run an experiment on this computer with real processes, simulate it, and compare the two.

    The manager and the scheduler are the same, but each machine is a core, each job a process that keeps the
    core busy, preemption kills the process, and time is wall time: choose short experiments. Exit code 1 if
    the two decide differently. An example of adapters for the scheduler's ports; Linux only.
    """
    if importlib.util.find_spec("psutil") is None:
        fail("`sil live` needs the package psutil; install sil-testbed[live]")
    from sil.experiment.live import run_live_and_simulated
    from sil.settings import experiment_file, files
    from sil.world.guard.faults import SchedulerFault

    try:
        with one_sentence_for_bad_input():
            path = files.find(experiment, "experiments", Path())
            read = experiment_file.changed(experiment_file.read_experiment(path), seed=seed)
            name = scheduler or read.schedulers[0]
            folder = out_folder or Path(f"sil-live-{read.name}")
            with progress("jobs") as bar:
                found, run = run_live_and_simulated(
                    read, path, folder, name, ProgressBar(bar, f"{read.name}, live")
                )
    except SchedulerFault as fault:
        print_fault(f"{name} broke the rule {fault}")
        raise typer.Exit(EXIT_FAULT) from None
    if as_json:
        print_json({"jobs": found.jobs.to_dicts(), "diverged_at": found.parted_at, "cpu_s": run.cpu_s})
    else:
        _show(found, name, run.cpu_s)
        out.print(f"Traces are in {folder / 'live'} and {folder / 'simulated'}.", soft_wrap=True)
    if found.parted_at is not None:
        raise typer.Exit(EXIT_FAULT)


def _show(found: Twins, name: str, cpu_s: dict[int, float]) -> None:
    table = Table(title=f"Turnaround times under {name}, live and simulated", title_justify="left")
    for column in ("job", "class", "queue", "machine"):
        table.add_column(column)
    for column in ("starts", "CPU (s)", "live (s)", "simulated (s)", "difference %"):
        table.add_column(column, justify="right")
    for row in found.jobs.iter_rows(named=True):
        table.add_row(
            str(row["job_id"]),
            row["job_class"],
            row["queue"],
            row["resource"],
            str(row["attempts"]),
            f"{cpu_s[row['job_id']]:.2f}",
            f"{row['turnaround_s']:.3f}",
            f"{row['simulated_s']:.3f}",
            f"{100 * row['difference']:+.1f}",
        )
    print_whole(table)
    at = found.parted_at
    if at is None:
        preempted = sum(fact == "run_preempted" for fact, _, _ in found.live)
        starts = len(found.live) - preempted
        counts = f"{starts} starts and {preempted} preemptions"
        said = f"The decisions are equal: {counts}, in the same order on each machine."
    else:
        live, simulated = (_told(side[at : at + 1]) for side in (found.live, found.simulated))
        said = f"The decisions, by machine, diverge after {at}: live {live}, simulated {simulated}."
    out.print(said, highlight=False, soft_wrap=True)
    live_s, simulated_s = found.mean_turnaround_s
    out.print(
        f"Mean turnaround time: {live_s:.3f} s live, {simulated_s:.3f} s simulated "
        f"({100 * (live_s / simulated_s - 1):+.1f} %).",
        highlight=False,
        soft_wrap=True,
    )


def _told(decisions: list[tuple[str, int, str]]) -> str:
    if not decisions:
        return "none"
    fact, job, resource = decisions[0]
    return f"{fact.removeprefix('run_')} job {job} on {resource}"
