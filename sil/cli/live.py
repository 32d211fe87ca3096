"""`sil live`: runs an experiment with real processes and compares it with its simulation."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from click.exceptions import Exit

from scheduler import UserError
from scheduler.messages import counted
from sil.cli import console, options
from sil.cli.console import print_listings
from sil.cli.parameters import Argument
from sil.cli.progress import TerminalProgress, progress
from sil.report.listing import Column, Listing, number, text

if TYPE_CHECKING:
    from sil.experiment.live import LiveComparison

CLOSE = 0.1
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
    experiment: Annotated[str | None, Argument()] = None,
    cluster: bool = False,
    scheduler: str | None = None,
    seed: options.Seed = None,
    out_folder: Annotated[Path | None, options.folder("sil-live-NAME, with both traces")] = None,
    trust: options.Trust = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment on this computer with real processes, simulate it, and compare the two.

    * `experiment`: An experiment file, or the name of a built-in one. Default: real-jobs, or real-cluster.
    * `cluster`: On shared nodes, where the coscheduler CCS stops, continues and renices message-passing jobs.
    * `scheduler`: Override the first one in the file.

    The manager and the scheduler are the same, but each machine or node is a core, jobs are processes, which
    preemption kills, and time is wall time: choose short experiments. As root, the processes run before other
    programs. Exit code 1 if the two decide differently. An example of adapters for the scheduler's ports;
    Linux only.
    """
    from sil.experiment.live import run_live_and_simulated
    from sil.experiment.output_folder import default_folder
    from sil.settings import experiment_file, files
    from sil.settings.foreign_code import ask_in_terminal, foreign_code, permit
    from sil.world.guard.faults import SchedulerFault

    path = files.find(experiment or ("real-cluster" if cluster else "real-jobs"), "experiments", Path())
    read = experiment_file.changed(experiment_file.read_experiment(path), seed=seed)
    if cluster and read.shared_nodes is None:
        raise UserError(f"{path} has no table shared_nodes, which --cluster needs; leave out --cluster")
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
        raise Exit(console.EXIT_FAULT)


def _print_comparison(found: LiveComparison) -> None:
    at = found.diverged_at
    if at is None:
        n = Counter(fact.removeprefix("run_") for fact, _, _ in found.live)
        counts = ", ".join(f"{number} {what}" for what, number in n.items())
        console.print_line(f"The decisions are equal, and in the same order: {counts}.")
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
    n_close = found.jobs["difference"].abs().le(CLOSE).sum()
    console.print_line(f"Of {counted(len(found.jobs), 'job')}, {n_close} differ by {CLOSE:.0%} at most.")
