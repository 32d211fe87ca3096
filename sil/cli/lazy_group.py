"""Commands that are imported only when they are invoked: the help names them without loading them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

MORE_THAN_ANY_LINE = 1_000
EXIT_NO_COMMAND = 2


class Group(TyperGroup):
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


def group(help_text: str, cls: type[TyperGroup] = Group) -> typer.Typer:
    """Help and errors are plain text: what would draw boxes takes longer to load than all of the help."""
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
    """That of the function or, where all of a module is a group, of the module."""
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
