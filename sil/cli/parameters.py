"""Parameters of commands: functions become commands of Click, their annotated parameters its options and
arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from scheduler.messages import UserError


@dataclass(frozen=True, kw_only=True)
class Argument:
    """How a parameter appears on the command line: by its position."""

    help: str | None = None
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    parser: Callable[[str], Any] | None = None
    """Makes the value of a text; raises UserError."""
    known: Callable[[], Iterable[str]] | None = None
    """Values that the shell completes."""


@dataclass(frozen=True, kw_only=True)
class CommandOption(Argument):
    """The same, by a name; without one, by that of the parameter."""

    name: str | None = None
    envvar: str | None = None


def as_command(
    function: Callable[..., Any], name: str, help_of: Mapping[str, str], **how: Any
) -> click.Command:
    """The command of this name that calls the function; `help_of` has the help of its parameters by name."""
    found = [_shown(each, help_of.get(each.name)) for each in signature(function).parameters.values()]
    return click.Command(name, callback=function, params=found, help=function.__doc__, **how)


def _shown(parameter: Parameter, text: str | None) -> click.Parameter:
    hint, shown = parameter.annotation, None
    if get_origin(hint) is Annotated:
        hint, shown = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
    is_list, default = get_origin(hint) is list, parameter.default
    kind, is_required = get_args(hint)[0] if is_list else hint, default is Parameter.empty
    if shown is None:
        by_position = is_required and parameter.kind is not Parameter.KEYWORD_ONLY
        shown = Argument() if by_position else CommandOption()
    how: dict[str, Any] = {"help": shown.help or text, "metavar": shown.metavar, "required": is_required}
    if kind is bool:
        how |= {"is_flag": True, "default": default is True}
    else:
        how |= {"type": _type(kind, shown), "callback": _listed}
        if not is_required and default is not None:
            # Click would show the names of an enumeration's members.
            how["default"] = default.value if isinstance(default, Enum) else default
    if not isinstance(shown, CommandOption):
        known = None if shown.known is None else _completing(shown.known)
        return click.Argument([parameter.name], nargs=-1 if is_list else 1, shell_complete=known, **how)
    name = shown.name or "--" + parameter.name.replace("_", "-")
    how |= {"show_default": True, "envvar": shown.envvar, "show_envvar": True, "multiple": is_list}
    return click.Option([parameter.name, name], **how)


def _type(kind: Any, shown: Argument) -> click.ParamType[Any]:
    if shown.parser is not None:
        return _Parsed(shown.parser)
    if get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        return _Choice(get_args(kind) or kind)
    if kind in (int, float):
        least, most = (None if bound is None else kind(bound) for bound in (shown.min, shown.max))
        ranged = (click.IntRange if kind is int else click.FloatRange)(least, most)
        ranged.name = "integer" if kind is int else "number"  # messages: 'x' is not a valid integer
        return ranged
    return click.Path(path_type=Path) if kind is Path else click.STRING


class _Choice(click.Choice[Any]):
    """One of the values of an enumeration, where Click takes the names of its members."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return str(choice.value if isinstance(choice, Enum) else choice)


class _Parsed(click.ParamType[Any]):
    """What a function makes of a text."""

    def __init__(self, parser: Callable[[str], Any]) -> None:
        self.name, self._parser = "text", parser

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._parser(value)
        except UserError as error:
            self.fail(str(error), param, ctx)


def _listed(_context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Several values are a list, and none are no list."""
    if parameter.nargs == -1 or parameter.multiple:
        return list(value) or None
    return value


def _completing(known: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    return lambda _context, _parameter, begun: [
        CompletionItem(each) for each in known() if each.startswith(begun)
    ]
