"""Names with parameters, `name(parameter=value, ...)`; choices by name; suggestions for wrong names."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Any, ClassVar, NoReturn, Union, get_args, get_origin

from scheduler.messages import UserError, meant
from scheduler.rules import Kind

Value = int | float | str | bool
KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


class Misnamed(UserError):
    """A name cannot be parsed, or its parameters do not fit. The message is one sentence for the user."""


def split(name: str) -> tuple[str, dict[str, Value]]:
    """The name itself and its parameters: "loras(selection=easy, most_jobs=2)". Raises Misnamed."""
    base, opened, rest = name.strip().partition("(")
    if not opened:
        return base, {}
    keywords: list[ast.keyword] | None = None
    with suppress(SyntaxError, ValueError, MemoryError, RecursionError):
        match ast.parse(f"_({rest}", mode="eval").body:
            case ast.Call(func=ast.Name(), args=[], keywords=found):
                names = {keyword.arg for keyword in found}
                keywords = found if None not in names and len(names) == len(found) else None
    if keywords is None:
        raise Misnamed(f"'{name}' cannot be parsed; parameters are given as {base}(name=value, ...)")
    return base.strip(), {str(k.arg): _value(name, str(k.arg), k.value) for k in keywords}


def _value(name: str, parameter: str, node: ast.expr) -> Value:
    if isinstance(node, ast.Name):
        words: dict[str, Value] = {"true": True, "false": False}
        return words.get(node.id, node.id)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, (int, float, str, bool)):
        raise Misnamed(
            f"'{name}': the value of '{parameter}' is neither a number, nor a word, nor true or false"
        )
    return value


def check(name: str, factory: Callable[..., Any], parameters: Mapping[str, Value]) -> None:
    """Raise Misnamed for a parameter that `factory` lacks, or a value that its annotation excludes."""
    known = parameters_of(factory)
    if known is None:
        return
    for key, value in parameters.items():
        if key not in known:
            hint = nearest(key, known) or f"; it has {', '.join(known) or 'no parameters'}"
            raise Misnamed(f"'{name}': there is no parameter '{key}'{hint}")
        annotation = known[key].annotation
        parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
        kinds = [part for part in parts if part is not NoneType]
        can_be_checked = kinds and all(kind in KINDS for kind in kinds)
        fits = type(value) in kinds or (float in kinds and type(value) is int)
        if can_be_checked and not fits:
            expected = " or ".join(KINDS[kind] for kind in kinds)
            raise Misnamed(f"'{name}': '{key}' is {value!r}; expected {expected}")


def parameters_of(factory: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """The parameters of `factory`; None if it has no signature, or accepts any: only a call can tell."""
    try:
        known = inspect.signature(factory, eval_str=True).parameters
    except (TypeError, ValueError, NameError):
        return None
    return None if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values()) else known


class Choice(StrEnum):
    """An enumeration of names. Raises ValueError for an unknown name, listing the known ones."""

    noun: ClassVar[str]
    """What is chosen, for messages."""

    def __init_subclass__(cls, noun: str) -> None:
        cls.noun = noun

    @property
    def code(self) -> int:
        """Its position in the enumeration, which compiled code uses."""
        return list(type(self)).index(self)

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        choices = ", ".join(cls)
        raise ValueError(f"'{value}' is no {cls.noun}; there are {choices}")


def advice(name: str, known: Collection[str], built_in: Mapping[Kind, Collection[str]]) -> str:
    """A clause that suggests what to write instead of an unknown name."""
    several = [part.strip() for part in name.split(",")]
    if len(several) > 1 and {*several} <= {*known}:
        return f"; name {' and '.join(several)} separately"
    module = name.removesuffix(".py")
    here: list[str] = []
    with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # the file is not run
        here = [
            each.name
            for each in ast.parse(Path(f"{module}.py").read_bytes()).body
            if isinstance(each, ast.ClassDef)
            and any(getattr(member, "name", "") in ("schedule", "run_round") for member in each.body)
        ]
    if here:
        return f"; name the class in {module}.py: {' or '.join(f'{module}:{each}' for each in here)}"
    by_kind = (f"{kind.value}: {', '.join(names)}" for kind, names in built_in.items())
    plugins = [each for each in known if not any(each in names for names in built_in.values())]
    hint = nearest(name, known) or f"; known are {'; '.join([*by_kind, *plugins])}."
    return f"{hint} Name a class of your own as 'module:Class'."


def nearest(name: str, names: Iterable[str]) -> str:
    """A clause that names the most similar one, if one is."""
    return f"; {question}" if (question := meant(name, names)) else ""


def hidden_by(module: ModuleType) -> str:
    """A clause if the current folder has another module of that name."""
    found, here = module.__spec__, Path(f"{module.__name__.partition('.')[0]}.py")
    if (
        found is None
        or not here.is_file()
        or (found.origin and here.resolve() == Path(found.origin).resolve())
    ):
        return ""
    return f", since {found.origin} hides {here} of the current folder; give this file another name"
