"""The `sil` command."""

from __future__ import annotations

import gc
import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer import Option

from sil.cli.lazy_group import Group, Unloaded, group
from sil.cli.process import remember_interrupts
from sil.world import SHOW_TRACEBACKS

PLACES = (
    *("run:run", "run:report", "run:experiments", "replay:replay", "sweep:sweep", "plan:plan"),
    *("reproduce:reproduce", "predict:predict", "live:live", "schedulers:schedule", "schedulers:schedulers"),
    *("overhead:overhead", "schedulers:check", "swarm:swarm", "schedulers:new_scheduler"),
    *("schedulers:serve_scheduler", "traces:why", "traces:compare_traces", "workload:app"),
    *("slurm:app", "db:app"),
)
"""Module and function of each command, or its group, in the order of the help."""


class Commands(Group):
    """All commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for place in PLACES:
            self.add_command(Unloaded(place))


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
