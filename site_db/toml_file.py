"""TOML files for people: what is wrong in one is said with its line, the value and what was expected."""

from __future__ import annotations

import re
import tomllib
import types
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=BaseModel)
Location = tuple[int | str, ...]


class InvalidFile(ValueError):
    """A file that cannot be used. The message is one sentence: file, line, value, what was expected."""


class Table(BaseModel):
    """A TOML table in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def read_text(path: Path) -> str:
    """The text of a file of the user's. Raises InvalidFile where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidFile(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InvalidFile(f"{path}: the file cannot be read: {reason}") from None


def parse(text: str, path: Path) -> dict[str, Any]:
    """The tables of a TOML text. Raises InvalidFile where it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFile(f"{path}: this is not valid TOML: {error}") from None


def validate(data: dict[str, Any], model: type[Model], text: str, path: Path) -> Model:
    """`data` as a `model`. Raises InvalidFile for the first thing that is wrong; `text` gives the line."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = min(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
        raise invalid(text, path, first["loc"], _sentence(first, model)) from None


def invalid(text: str, path: Path, location: Location, sentence: str) -> InvalidFile:
    """The error that says `sentence` of what stands at `location` of a TOML file."""
    line = line_of(text, location)
    return InvalidFile(f"{path}, line {line}: {sentence}" if line else f"{path}: {sentence}")


def _sentence(error: ErrorDetails, model: type[BaseModel]) -> str:
    location = error["loc"]
    key = _dotted(location[-1:]) if location else ""
    if error["type"] == "extra_forbidden":
        known = sorted(_known_keys(model, location[:-1]))
        close = get_close_matches(key, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known here are {', '.join(known)}"
        return f"unknown key '{key}'; {hint}"
    if error["type"] == "missing":
        return f"the key '{_dotted(location)}' is missing"
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "value_error":
        return f"{_dotted(location)}: {message}" if location else message
    return f"{_dotted(location)} = {error['input']!r}: {message[:1].lower()}{message[1:]}"


def _dotted(location: Location) -> str:
    name = ""
    for part in location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def _known_keys(model: type[BaseModel], location: Location) -> set[str]:
    """Keys of the table at `location` of a `model`."""
    models: list[type[BaseModel]] = [model]
    for part in location:
        inner = [
            found
            for m in models
            if isinstance(part, str) and part in _fields(m)
            for found in _models_in(_fields(m)[part])
        ]
        tagged = [m for m in models if any(part in get_args(kind) for kind in _fields(m).values())]
        models = inner or tagged or models
    return {name for m in models for name in _fields(m)}


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {(f.alias or name): f.annotation for name, f in model.model_fields.items()}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (list, tuple, dict, Union, types.UnionType, Annotated):
        for inner in get_args(annotation):
            yield from _models_in(inner)


def line_of(text: str, location: Location) -> int | None:
    """The line (from 1) of the deepest part of `location` that stands in a TOML `text`."""
    best, best_depth = None, 0
    for number, path in _paths(text):
        depth = len(path)
        if depth > best_depth and _is_subsequence(path, location):
            best, best_depth = number, depth
    return best


def _paths(text: str) -> Iterator[tuple[int, Location]]:
    """(line, path) of every table header and key that starts a line."""
    table: Location = ()
    times_seen: dict[Location, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]", line):
            table = _keys(header[2])
            for depth in range(1, len(table) + 1):
                if table[:depth] in times_seen and depth < len(table):
                    table = (*table[:depth], times_seen[table[:depth]], *table[depth:])
            if header[1] == "[[":
                times_seen[table] = times_seen.get(table, -1) + 1
                table = (*table, times_seen[table])
            yield number, table
        elif assignment := re.match(r"\s*([A-Za-z0-9_.\"'\- ]+?)\s*=", line):
            yield number, (*table, *_keys(assignment[1]))


def _keys(dotted: str) -> Location:
    return tuple(a or b or c for a, b, c in re.findall(r"\"([^\"]*)\"|'([^']*)'|([^.\s]+)", dotted))


def _is_subsequence(path: Location, location: Location) -> bool:
    rest = iter(location)
    return all(any(part == other for other in rest) for part in path)
