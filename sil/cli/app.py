"""The `sil` command."""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer
from typer import Option

from sil.cli.lazy_group import LazyGroup, Listed, group
from sil.cli.process import SchedulerNotes, remember_interrupts
from sil.world import SHOW_TRACEBACKS

LINES = {
    "run": "Run an experiment and compare its schedulers.",
    "report": "Rebuild the report in a results folder.",
    "experiments": "List the experiments that come with the package, or copy them.",
    "replay": "Replay a log of rigid jobs under backfilling schedulers, and compare them.",
    "sweep": "Replay slices of logs under each scheduler, load and kind of estimates, and compare "
    "the schedulers.",
    "plan": "Answer a purchasing question: the effect of each offer, the best buy within a budget, "
    "sizing, and retirement.",
    "reproduce": "Reproduce a paper's study and check each of its claims against the results.",
    "predict": "Predict when jobs on time-shared nodes start and complete, with an interval and its basis.",
    "live": "Run an experiment on this computer with real processes, simulate it, and compare the two.",
    "schedule": "Map one ETC matrix; print makespan, sum of completion times and decision time.",
    "schedulers": "List the schedulers by kind: built-in ones and plug-ins.",
    "overhead": "Measure decision times over a grid of random problems and fit a growth law.",
    "check": "Test a scheduler on many small problems and list the rules that it keeps and breaks.",
    "swarm": "Test resource managers and schedulers in thousands of small simulations with random faults.",
    "new-scheduler": "Write an installable package with a working scheduler and its test, as a "
    "starting point.",
    "serve-scheduler": "Serve a scheduler to a simulator that speaks Batsim's protocol, for one simulation.",
    "why": "Show the timeline of a job: its arrival, why it waited, its runs and its end.",
    "compare-traces": "Find the first decision at which two runs diverge, and show the state before it.",
    "workload": "Inspect, cut, convert and generate workloads: logs of rigid jobs (SWF), Batsim's "
    "workloads (JSON), and Slurm's accounting.",
    "slurm": "Slurm's controller under test: rehearsals of changes, other releases, and what they refuse.",
    "db": "The database of a site: machines, users, job classes, and execution history.",
}
"""The first sentence of the help of each command."""
PLACES = {
    "report": "run:report",
    "experiments": "run:experiments_app",
    "schedule": "schedulers:schedule",
    "check": "schedulers:check",
    "new-scheduler": "schedulers:new_scheduler",
    "serve-scheduler": "schedulers:serve_scheduler",
    "why": "traces:why",
    "compare-traces": "traces:compare_traces",
    "workload": "workload:app",
    "slurm": "slurm:app",
    "db": "db:app",
}
"""Module and function of commands that are not in a module of their name."""


class Commands(LazyGroup):
    """All commands, in the order of the help."""

    listed = {  # noqa: RUF012 (a constant)
        name: Listed(f"sil.cli.{PLACES.get(name, f'{name}:{name}')}", line) for name, line in LINES.items()
    }


app = group(
    """A software-in-the-loop testbed: the real scheduler on simulated machines.

    Start with `sil run light-to-heavy`, a built-in experiment that compares three schedulers on a site of
    142 machines, and open the report that it writes. `sil schedule MATRIX` maps one ETC matrix.
    Name a scheduler by its registered name (see `sil schedulers`) or as `module:Class`, relative to the
    current folder.

    `sil check NAME` tests a scheduler against the rules; `sil new-scheduler NAME` generates one.

    `sil replay LOG` replays a log of the Parallel Workloads Archive under backfilling schedulers; `sil sweep
    LOG` does so with many slices of it.

    `sil plan PLAN` compares purchases of machines by effect and price.

    `sil db` manages a site's database: machines, job classes, execution history.

    Exit codes: 0 success, 1 a scheduler under test broke a rule, 2 bad input, 130 interrupted.
    """,
    Commands,
)


def main() -> None:
    """Entry point. Schedulers may be modules of the current folder; nothing else is looked for in it."""
    # Before NumPy is loaded, here and in worker processes: its threads for linear algebra, of which commands
    # have little, take as much time to start as the rest of NumPy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Looking for plugins reads the metadata of all packages that are installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Millions of objects that a command makes are not cyclic and live for long: looking through them as often
    # as by default costs a tenth of the time of an import of accounting.
    gc.set_threshold(100_000, 20, 50)
    _print_all_letters()
    remember_interrupts()
    SchedulerNotes.show()
    try:
        app()
    except OSError as error:
        from sil.cli.console import end_without_output

        end_without_output(error)


def _print_all_letters() -> None:
    """Also where the locale has ASCII only, as Python itself does by default (PEP 540)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            is_ascii = stream.encoding.lower() in ("ascii", "us-ascii", "ansi_x3.4-1968", "646")
            stream.reconfigure(encoding="utf-8" if is_ascii else None, errors="backslashreplace")


def _print_version(wanted: bool) -> None:
    if wanted:
        from sil.settings.files import package_version

        print(package_version())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
    tracebacks: Annotated[
        bool, Option("--traceback", help="Print the traceback of a scheduler's exception, and of errors.")
    ] = False,
) -> None:
    """Options before the command; the help text is the app's."""
    if tracebacks:
        os.environ[SHOW_TRACEBACKS] = "1"
