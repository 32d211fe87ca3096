"""The `sil` command, and groups of commands, which are imported only when they are invoked: the help names
them without loading them."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from sil.cli.process import remember_interrupts
from sil.world import SHOW_TRACEBACKS

MORE_THAN_ANY_LINE = 1_000
EXIT_NO_COMMAND = 2


class HelpGroup(TyperGroup):
    """A group that prints its help if no command is named. The help has the whole line of each command, where
    the superclass cuts it."""

    def parse_args(self, context: Any, args: list[str]) -> list[str]:
        if not args and not context.resilient_parsing:
            print(context.get_help())
            raise typer.Exit(EXIT_NO_COMMAND)
        return super().parse_args(context, args)

    def format_commands(self, _context: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(MORE_THAN_ANY_LINE))
                    for name, command in self.commands.items()
                ]
            )


class CommandGroup(typer.Typer):
    """A group whose commands are decorated (`sil.cli.options.command`)."""

    def command(  # type: ignore[override]
        self, *names: Any, **options: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        from sil.cli.options import command  # which loads what `sil --help` does without

        register = super().command(*names, **options)
        return lambda function: register(command(function))


def group(help_text: str, cls: type[TyperGroup] = HelpGroup) -> typer.Typer:
    """A group whose help and errors are plain text: what draws boxes takes longer to load than all of the
    help."""
    return CommandGroup(
        cls=cls,
        help=help_text,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"max_content_width": 100, "help_option_names": ["-h", "--help"]},
    )


@cache
def loaded(place: str) -> Any:
    """The command at `module:name`, once for all that a process runs."""
    found: typer.Typer | Callable[..., Any] = resolve_name(f"sil.cli.{place}")
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = CommandGroup(add_completion=False, rich_markup_mode=None)
    alone.command(name_of(place))(found)
    return typer.main.get_command(alone)


def name_of(place: str) -> str:
    """The name of the function or, where all of a module is a group, of the module."""
    module, _, name = place.partition(":")
    return module if name == "app" else name.replace("_", "-")


class Unloaded(TyperCommand):
    """Stands for a command until its arguments are parsed."""

    def __init__(self, place: str) -> None:
        super().__init__(name_of(place), rich_markup_mode=None)
        self._place = place

    def get_short_help_str(self, _limit: int = 0) -> str:
        """The first sentence of its help, in the source."""
        module, _, name = self._place.partition(":")
        source = (Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8")
        begin = rf'^(?:def {name}\(.*?^    |{name} = group\(\s*)"+(.+?)(?:\n\n|")'
        found = re.search(begin, source, re.DOTALL | re.MULTILINE)
        return " ".join(found[1].split()) if found else ""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        return loaded(self._place).make_context(info_name, args, *rest, **extra)


PLACES = (
    *("run:run", "run:report", "run:experiments", "replay:replay", "replay:sweep", "plan:plan"),
    *("reproduce:reproduce", "predict:predict", "live:live", "schedulers:schedule", "schedulers:schedulers"),
    *("overhead:overhead", "schedulers:check", "swarm:swarm", "schedulers:new_scheduler"),
    *("schedulers:serve_scheduler", "traces:why", "traces:compare_traces", "workload:app"),
    *("slurm:validate", "slurm:app", "db:app"),
)
"""Module and function of each command, or its group, in the order of the help."""


class Commands(HelpGroup):
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
    # as by default costs a tenth of the time of an import of accounting. Loading a command makes 150,000.
    gc.set_threshold(250_000, 20, 50)
    _print_all_letters()
    remember_interrupts()
    try:
        app()
    except OSError as error:
        from sil.cli.console import end_without_output

        end_without_output(error)


def _print_all_letters() -> None:
    """Print UTF-8 also where the locale has ASCII only, as Python itself does by default (PEP 540)."""
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
