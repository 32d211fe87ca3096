"""The `sil` command."""

from __future__ import annotations

import gc
import os
import sys
import threading
from typing import Annotated

import typer
from typer import Option

from sil.cli import workload
from sil.cli.console import SchedulerNotes
from sil.cli.db import commands as db
from sil.cli.live import live
from sil.cli.overhead import overhead
from sil.cli.plan import plan
from sil.cli.predict import predict
from sil.cli.progress import remember_interrupts
from sil.cli.replay import replay
from sil.cli.reproduce import reproduce
from sil.cli.run import experiments, report, run
from sil.cli.schedulers import check, new_scheduler, schedule, schedulers, serve_scheduler
from sil.cli.sweep import sweep
from sil.cli.traces import compare_traces, why
from sil.world import SHOW_TRACEBACKS

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="""A software-in-the-loop testbed: the real scheduler on simulated machines.

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
)
for command in (
    run,
    report,
    experiments,
    replay,
    sweep,
    plan,
    reproduce,
    predict,
    live,
    schedule,
    schedulers,
    overhead,
    check,
    new_scheduler,
    serve_scheduler,
    why,
    compare_traces,
):
    app.command()(command)
app.add_typer(workload.app, name="workload")
app.add_typer(db.app, name="db")


def main() -> None:
    """Entry point. Puts the current folder on the module path, as `python -m` does."""
    sys.path.insert(0, os.getcwd())
    # Millions of objects that a command makes are not cyclic and live for long: looking through them as often
    # as by default costs a tenth of the time of an import of accounting.
    gc.set_threshold(100_000, 20, 50)
    remember_interrupts()
    SchedulerNotes.show()
    try:
        app()
    finally:
        if threading.active_count() > 1:
            from sil.workers.processes import end_without_threads

            end_without_threads()


def _print_version(wanted: bool) -> None:
    if wanted:
        from sil.settings.code_version import package_version

        print(package_version())
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
    tracebacks: Annotated[
        bool,
        Option("--traceback", help="Print the traceback of a scheduler's exception, and of errors."),
    ] = False,
) -> None:
    """Options before the command; the help text is the app's."""
    if tracebacks:
        os.environ[SHOW_TRACEBACKS] = "1"
