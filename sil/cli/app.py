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
from typing import Any, TypeVar

import click

from sil.cli.process import remember_interrupts
from sil.usable import VERSION
from sil.world import SHOW_TRACEBACKS

MORE_THAN_ANY_LINE = 1_000
EXIT_NO_COMMAND = 2
Function = TypeVar("Function", bound=Callable[..., Any])


class CommandGroup(click.Group):
    """A group of functions as commands, which prints its help if none is named. The help has the whole line
    of each command, where the superclass cuts it."""

    def register(self, name: str = "", **how: Any) -> Callable[[Function], Function]:
        """Decorates a function: its command is of this name, or the function's."""
        from sil.cli.options import command  # which loads what `sil --help` does without

        def decorate(function: Function) -> Function:
            self.add_command(command(function, name or name_of(function.__name__), **how))
            return function

        return decorate

    def by_itself(self, function: Function) -> Function:
        """Decorates the function that is called if no command is named."""
        from sil.cli.options import command

        own = command(function, name_of(function.__name__))

        def call(**given: Any) -> None:
            context = click.get_current_context()
            if context.invoked_subcommand is None:
                context.invoke(own, **given)

        self.invoke_without_command, self.no_args_is_help = True, False
        self.callback, self.params = call, own.params
        return function

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            print(ctx.get_help())
            ctx.exit(EXIT_NO_COMMAND)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = [
            (name, command.get_short_help_str(MORE_THAN_ANY_LINE)) for name, command in self.commands.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(lines)


def group(help_text: str, **how: Any) -> CommandGroup:
    settings = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}
    return CommandGroup(help=help_text, context_settings=settings, **how)


@cache
def loaded(place: str) -> click.Command:
    """The command at `module:name`, once for all that a process runs."""
    found = resolve_name(f"sil.cli.{place}")
    if isinstance(found, click.Command):
        return found
    from sil.cli.options import command

    return command(found, name_of(place))


def name_of(place: str) -> str:
    """The name of the function or, where all of a module is a group, of the module."""
    module, _, name = place.rpartition(":")
    return module if name == "app" else name.replace("_", "-")


class Unloaded(click.Command):
    """Stands for a command until its arguments are parsed."""

    def __init__(self, place: str) -> None:
        super().__init__(name_of(place))
        self._place = place

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence of its help, in the source."""
        module, _, name = self._place.partition(":")
        source = (Path(__file__).parent / f"{module}.py").read_text(encoding="utf-8")
        begin = rf'^(?:def {name}\(.*?^    |{name} = group\(\s*)"+(.+?)(?:\n\n|")'
        found = re.search(begin, source, re.DOTALL | re.MULTILINE)
        return " ".join(found[1].split()) if found else ""

    def make_context(self, *args: Any, **how: Any) -> click.Context:
        return loaded(self._place).make_context(*args, **how)


PLACES = (
    *("run:run", "run:report", "run:experiments", "replay:replay", "replay:sweep", "plan:plan"),
    *("reproduce:reproduce", "predict:predict", "live:live", "schedulers:schedule", "schedulers:schedulers"),
    *("overhead:overhead", "schedulers:check", "swarm:swarm", "schedulers:new_scheduler"),
    *("schedulers:serve_scheduler", "traces:why", "traces:compare_traces", "workload:app"),
    *("slurm:validate", "slurm:app", "db:app"),
)
"""Module and function of each command, or its group, in the order of the help."""


def _flag(
    name: str, text: str, callback: Callable[[click.Context, click.Parameter, bool], None]
) -> click.Option:
    """A flag that only has an effect at once."""
    return click.Option([name], help=text, is_flag=True, is_eager=True, expose_value=False, callback=callback)


def _print_version(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not context.resilient_parsing:
        print(VERSION)
        context.exit()


def _print_tracebacks(_context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        os.environ[SHOW_TRACEBACKS] = "1"


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
    params=[
        _flag("--version", "Print the version and exit.", _print_version),
        _flag(
            "--traceback", "Print the traceback of a scheduler's exception, and of errors.", _print_tracebacks
        ),
    ],
)
for _place in PLACES:
    app.add_command(Unloaded(_place))


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
