"""The `sil` command."""

from __future__ import annotations

import os
import sys
import threading
from typing import Annotated

import typer

from sil.cli import database, workload
from sil.cli.console import SchedulerNotes, out
from sil.cli.interrupts import remember_interrupts
from sil.cli.live import live
from sil.cli.overhead import overhead
from sil.cli.own_scheduler import check, new_scheduler, serve_scheduler
from sil.cli.plan import plan
from sil.cli.predict import predict
from sil.cli.replay import replay
from sil.cli.reproduce import reproduce
from sil.cli.run import experiments, report, run
from sil.cli.schedule import schedule, schedulers
from sil.cli.traces import compare_traces, why

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
for command in (
    run,
    report,
    experiments,
    replay,
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
app.add_typer(database.app, name="db")


def main() -> None:
    """Entry point: plug-ins are found from the current folder, as with `python -m`."""
    sys.path.insert(0, os.getcwd())
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
