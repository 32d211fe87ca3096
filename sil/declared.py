"""Settings are declared once, as fields of a dataclass with a sentence each. Options of commands and keyword
arguments of Python derive from the fields."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter
from math import isfinite
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from scheduler import UserError

Returned = TypeVar("Returned")
Choice = TypeVar("Choice", bound=StrEnum)
WIDTH = 110


@dataclass(frozen=True)
class Setting:
    """Which values a field may have, and how it appears among the options of a command."""

    option: str = ""
    """The name on the command line, if it is not that of the field without its unit."""
    least: float | None = None
    most: float | None = None
    metavar: str | None = None
    parser: Callable[[str], Any] | None = None
    """Makes the value of a text of the command line; raises UserError."""
    known: tuple[str, ...] = ()
    """All texts that the value may be."""
    in_python: bool = True
    """Whether it is also a keyword argument of Python."""


AS_JSON = Setting(option="--json")


class Settings:
    """A dataclass whose docstring has a sentence for each field, in a list of "* `name`: sentence".

    Of a field that is true by default, `no_name` is the option that turns it off.
    """


class Field(NamedTuple):
    """A declared field; `kind` is its type, `text` its sentence, `without` that of its opposite."""

    name: str
    kind: Any
    default: Any = None
    setting: Setting = Setting()
    text: str = ""
    without: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        """All values, if they are few texts."""
        is_enumeration = isinstance(self.kind, type) and issubclass(self.kind, StrEnum)
        return tuple(self.kind) if is_enumeration else self.setting.known

    def checked(self, value: Any, name: str) -> Any:
        """The value of the field. Raises UserError, in which it has this name."""
        least, most = self.setting.least, self.setting.most
        if self.choices:
            if value not in self.choices:
                raise UserError(f"{name} is {value!r}; expected one of {', '.join(self.choices)}")
            return self.kind(value)
        if isinstance(value, float) and not isfinite(value):
            raise UserError(f"{name} is {value!r}; expected a finite number")
        if (least is None and most is None) or (value is None and self.default is None):
            return value
        is_whole = int in (self.kind, *get_args(self.kind))
        is_number = isinstance(value, Integral if is_whole else Real) and not isinstance(value, bool)
        if not is_number or not (least is None or value >= least) or not (most is None or value <= most):
            bounds = "" if least is None else f" from {least:g}"
            bounds += " on" if most is None else f" to {most:g}"
            raise UserError(f"{name} is {value!r}; expected a {'whole ' if is_whole else ''}number{bounds}")
        return int(value) if is_whole else float(value)  # also of NumPy


def choice(kind: type[Choice], value: str, name: str) -> Choice:
    """The choice of this name. Raises UserError if there is none."""
    return cast(Choice, Field(name, kind).checked(value, name))


def whole_number(value: object, name: str, least: int = 1) -> int:
    """The value itself. Raises UserError unless it is a whole number from `least` on."""
    return int(Field(name, int, least, Setting(least=least)).checked(value, name))


_LISTED = re.compile(r"^( *)\* `(\w+)`: (.*(?:\n\1  .+)*)\n?", re.MULTILINE)


def sentences(text: str | None) -> dict[str, str]:
    """The sentences of the list in a docstring, by name."""
    return {name: " ".join(sentence.split()) for _, name, sentence in _LISTED.findall(text or "")}


def sentences_of(model: type) -> dict[str, str]:
    """The sentences of a class and of those that it is derived from."""
    return {name: text for part in reversed(model.__mro__) for name, text in sentences(part.__doc__).items()}


def without_sentences(text: str | None) -> str:
    return re.sub(r"\n\s+$", "\n", _LISTED.sub("", text or ""))


def declared(model: type[Settings]) -> list[Field]:
    """The fields of settings."""
    hints, texts, found = get_type_hints(model, include_extras=True), sentences_of(model), []
    for field in fields(model):  # type: ignore[arg-type]
        name, hint = field.name, hints[field.name]
        kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        setting = next((note for note in notes if isinstance(note, Setting)), Setting())
        said = texts.get(name, ""), texts.get(f"no_{name}", "")
        found.append(Field(name, kind, field.default, setting, *said))
    return found


class Shown(NamedTuple):
    """How a field appears in the signature of a function, and as what in messages; `value` makes its value of
    the argument."""

    parameter: Parameter
    name: str
    value: Callable[[Any], Any] = lambda argument: argument


def spread(
    shown: Callable[[Field], Shown | None],
) -> Callable[[Callable[..., Returned]], Callable[..., Returned]]:
    """Decorates a function with parameters that are settings: it is called with their fields instead, of
    which its docstring has the sentences in place of `{parameter}`. A field that is not shown has its
    default."""

    def decorate(function: Callable[..., Returned]) -> Callable[..., Returned]:
        hints = _hints(function)
        parameters: list[Parameter] = []
        spread_out: dict[str, list[tuple[Field, Shown]]] = {}
        for parameter in inspect.signature(function).parameters.values():
            hint = hints.get(parameter.name, parameter.annotation)
            if isinstance(hint, type) and issubclass(hint, Settings):
                found = [(field, each) for field in declared(hint) if (each := shown(field)) is not None]
                spread_out[parameter.name] = found
                parameters += [each.parameter for _, each in found]
            else:
                parameters.append(parameter.replace(annotation=hint))

        @wraps(function)
        def call(*args: Any, **given: Any) -> Returned:
            for name, found in spread_out.items():
                values = {
                    field.name: field.checked(
                        each.value(given.pop(each.parameter.name, each.parameter.default)), each.name
                    )
                    for field, each in found
                }
                given[name] = hints[name](**values)
            return function(*args, **given)

        call.__signature__ = inspect.signature(function).replace(parameters=parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        call.__annotations__["return"] = hints.get("return")
        call.__doc__ = _documented(function.__doc__ or "", spread_out)
        return call

    return decorate


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    """The annotations, as texts where they name what is defined later, or for type checkers only."""
    found = {}
    for name, text in function.__annotations__.items():
        try:
            found[name] = eval(text, function.__globals__) if isinstance(text, str) else text
        except NameError:
            found[name] = text
    return found


def as_keyword(field: Field) -> Shown | None:
    """A keyword argument of Python: choices are texts."""
    if not field.setting.in_python:
        return None
    kind, default = (str, str(field.default)) if field.choices else (field.kind, field.default)
    return Shown(Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind), field.name)


def _documented(text: str, spread_out: dict[str, list[tuple[Field, Shown]]]) -> str:
    def listed(found: re.Match[str]) -> str:
        how: dict[str, Any] = {"initial_indent": found[1], "subsequent_indent": f"{found[1]}  "}
        fields_of = (f"* `{field.name}`: {field.text}" for field, _ in spread_out[found[2]])
        return "\n".join(textwrap.fill(one, WIDTH, break_on_hyphens=False, **how) for one in fields_of)

    return re.sub(r"^( *)\{(\w+)\}$", listed, text, flags=re.MULTILINE)
