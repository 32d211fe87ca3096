"""Reading TOML files. Errors are reported with line, value, and what was expected; the standard parser does
not give the lines of keys and values."""

from __future__ import annotations

import json
import re
import tomllib
import types
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from site_db.files.access import read_text
from site_db.files.input_errors import MAX_VALUE, InvalidFile

Location = tuple[int | str, ...]

_BLANK = re.compile(r"(?:\s|#[^\n]*)*")
_KEYS = re.compile(r"""(?:"(?:\\.|[^"\\\n])*"|'[^'\n]*'|[A-Za-z0-9_.\- \t])+""")
_EQUALS, _OPENING, _CLOSING = re.compile("="), re.compile(r"\[\[?"), re.compile(r"\]\]?")
_SCALAR = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|[^\s,\]}#][^,\]}#\n]*",
    re.DOTALL,
)


def line_of(text: str, location: Location) -> int | None:
    """The line (from 1) of the deepest part of `location` that exists in a TOML `text`.

    An element of an array is found by its index, or by its value if it is a string.
    """
    try:
        lines = _Reader(text).lines
    except (ValueError, RecursionError):
        return None
    return next((lines[location[:n]] for n in range(len(location), 0, -1) if location[:n] in lines), None)


class _Reader:
    """Reads valid TOML and records the line of every table header, key and array element.

    Raises ValueError for some invalid texts, not all.
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[Location, int] = {}
        self._text = text
        self._at = 0
        self._line = 1
        self._sizes: dict[Location, int] = {}
        table: Location = ()
        while char := self._next():
            if char == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Location:
        """Read [a.b] or [[a.b]]. Returns the location of that table, with indices of arrays of tables."""
        brackets = self._take(_OPENING)
        self._next()
        *parents, last = _decoded(self._take(_KEYS))
        self._take(_CLOSING)
        table: Location = ()
        for key in parents:
            table = (*table, key)
            if table in self._sizes:
                table = (*table, self._sizes[table] - 1)
        table = (*table, last)
        if brackets == "[[":
            self._sizes[table] = self._sizes.get(table, 0) + 1
            table = (*table, self._sizes[table] - 1)
        self._note(table, self._line)
        return table

    def _pair(self, table: Location) -> None:
        path = (*table, *_decoded(self._take(_KEYS)))
        self._note(path, self._line)
        self._take(_EQUALS)
        self._value(path)

    def _value(self, path: Location) -> None:
        opening = self._next()
        if opening not in ("[", "{"):
            self._take(_SCALAR)
            return
        self._at += 1
        index = 0
        while (char := self._next()) not in ("]", "}", ""):
            if opening == "{":
                self._pair(path)
            else:
                line, start = self._line, self._at
                self._note((*path, index), line)
                self._value((*path, index))
                if char in ("'", '"'):
                    self._note((*path, tomllib.loads(f"x = {self._text[start : self._at]}")["x"]), line)
                index += 1
            if self._next() == ",":
                self._at += 1
        self._at += 1

    def _note(self, path: Location, line: int) -> None:
        """A table without a header, like `a` of a key `a.b`, has the line of its first key."""
        for n in range(1, len(path)):
            self.lines.setdefault(path[:n], line)
        self.lines[path] = line

    def _next(self) -> str:
        self._take(_BLANK)
        return self._text[self._at : self._at + 1]

    def _take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError("this is not TOML")
        self._at = match.end()
        self._line += match[0].count("\n")
        return match[0]


def _decoded(keys: str) -> list[str]:
    table = tomllib.loads(f"{keys} = 0")
    decoded = []
    while isinstance(table, dict):
        ((key, table),) = table.items()
        decoded.append(key)
    return decoded


Model = TypeVar("Model", bound=BaseModel)
EACH = 128.0
"""The most memory, in bytes, that a byte of TOML takes as objects."""
MAX_PARTS = 100
"""The most parts of a dotted key. The memory that the parser takes for it grows with their square."""
_MORE_PARTS = re.compile(rf"""(?:\.[ \t]*(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*){{{MAX_PARTS}}}""")


class Table(BaseModel):
    """A TOML table in which an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class MistakeAt(ValueError):
    """A mistake at a place in the table that is validated; the sentence names the key."""

    def __init__(self, place: Location, sentence: str) -> None:
        super().__init__(sentence)
        self.place = place


Positive = Annotated[float, Field(gt=0, lt=MAX_VALUE, strict=True)]
NotNegative = Annotated[float, Field(ge=0, lt=MAX_VALUE, strict=True)]
Period = Annotated[float, Field(ge=1e-3, lt=MAX_VALUE, strict=True)]
"""Seconds between repetitions; with shorter periods, simulated time would hardly pass."""
Count = Annotated[int, Field(ge=1, lt=MAX_VALUE, strict=True)]


def parse(text: str, path: Path) -> dict[str, Any]:
    """The tables of a TOML text. Raises InvalidFile if it is not valid TOML."""
    if many := _MORE_PARTS.search(text):
        line = text.count("\n", 0, many.start()) + 1
        raise InvalidFile(f"{path}, line {line}: a key has more than {MAX_PARTS} parts")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFile(_not_toml(str(error), text, path)) from None
    except RecursionError:
        raise InvalidFile(f"{path}: the arrays or tables in it are nested too deeply") from None
    except ValueError:
        # Python limits the digits of an integer.
        raise InvalidFile(f"{path}: there is a number with too many digits") from None


def _not_toml(message: str, text: str, path: Path) -> str:
    if at_line := re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message, re.DOTALL):
        reason, line = at_line[1], int(at_line[2])
    else:
        reason = message.replace(" (at end of document)", " at the end of the file")
        line = len(text.rstrip().split("\n"))
    # The parser writes a table's name as ('a', 'b').
    reason = re.sub(r"\('(.*)',?\)", lambda match: "[" + match[1].replace("', '", ".") + "]", reason)
    return f"{path}, line {line}: this is not valid TOML: {reason}"


def read(path: Path, model: type[Model]) -> Model:
    """A TOML file as a `model`. Raises InvalidFile with all mistakes."""
    data = parse(read_text(path, EACH), path)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise invalid(path, mistakes(error, data, model)) from None


def mistakes(error: ValidationError, data: Any, model: type[BaseModel]) -> list[tuple[Location, str]]:
    """Each place in `data` that is not valid for `model`, and a sentence about it; unknown keys first.

    A key that is missing because it is misspelled is reported once, as unknown.
    """
    at: dict[Location, list[ErrorDetails]] = {}
    for e in sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden"):
        at.setdefault(_place(e, data), []).append(e)
    meant = {
        (*place[:-1], key)
        for place, (e, *_) in at.items()
        if e["type"] == "extra_forbidden"
        for key in _similar_keys(e, place, model)
    }
    return [
        (place, _sentence(alternatives, place, model))
        for place, alternatives in at.items()
        if alternatives[0]["type"] != "missing" or place not in meant
    ]


def invalid(path: Path, found: Iterable[tuple[Location, str]]) -> InvalidFile:
    """The error for mistakes at locations of a TOML file, in order of lines."""
    return InvalidFile(*located(path, found))


def located(path: Path, found: Iterable[tuple[Location, str]]) -> list[str]:
    """Sentences about locations of a TOML file with file and line, in order of lines."""
    text = read_text(path)
    lines = sorted(((line_of(text, place), sentence) for place, sentence in found), key=lambda at: at[0] or 0)
    return [f"{path}, line {line}: {sentence}" if line else f"{path}: {sentence}" for line, sentence in lines]


def _place(error: ErrorDetails, data: Any) -> Location:
    """The location of an error in the file, without additions of pydantic like the tags of unions."""
    place: Location = ()
    for part in error["loc"]:
        is_index = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if is_index or (isinstance(data, dict) and part in data):
            data = data[part]
            place = (*place, part)
    if error["type"] == "missing" and isinstance(error["loc"][-1], str):
        return (*place, error["loc"][-1])
    if error["type"].startswith("union_tag"):
        return (*place, error["ctx"]["discriminator"].strip("'"))
    return (*place, *getattr(error.get("ctx", {}).get("error"), "place", ()))


def _sentence(errors: list[ErrorDetails], place: Location, model: type[BaseModel]) -> str:
    """What is wrong at `place`; several errors there are those of the alternatives of a union."""
    error, name = errors[0], _dotted(place)
    if error["type"] == "extra_forbidden":
        similar = _similar_keys(error, place, model)
        known = sorted(_known_keys(model, error["loc"][:-1]))
        hint = f"did you mean '{similar[0]}'?" if similar else f"known here are {', '.join(known)}"
        return f"unknown key '{place[-1]}'; {hint}"
    if error["type"] == "missing" and isinstance(error["loc"][-1], int):
        return f"{name}: expected {error['loc'][-1] + 1} elements, and there are fewer"
    if error["type"] in ("missing", "union_tag_not_found"):
        return f"the key '{name}' is missing"
    if error["type"] == "value_error":
        message, cause = error["msg"].removeprefix("Value error, "), error["ctx"]["error"]
        return message if isinstance(cause, MistakeAt) or not name else f"{name}: {message}"
    value = error["input"][place[-1]] if error["type"] == "union_tag_invalid" else error["input"]
    expected = dict.fromkeys(_expectation(error, name) for error in errors)
    return f"{name} = {_as_toml(value)}: expected {', or '.join(expected)}"


def _similar_keys(error: ErrorDetails, place: Location, model: type[BaseModel]) -> list[str]:
    """The known key that is most similar to an unknown one, if any."""
    return get_close_matches(str(place[-1]), sorted(_known_keys(model, error["loc"][:-1])), n=1)


_EXPECTED = {
    "bool": "true or false",
    "dict": "a table",
    "float": "a number",
    "frozen_set": "an array",
    "int": "a whole number",
    "list": "an array",
    "model": "a table",
    "string_type": "text in quotes",
    "too_short": "{min_length} or more elements",
    "too_long": "{max_length} elements at most",
    "tuple": "an array",
    "union_tag_invalid": "one of {expected_tags}",
}
"""What was expected, in terms of TOML, by the beginning of the type of a pydantic error."""


def _expectation(error: ErrorDetails, name: str) -> str:
    kind = error["type"]
    if kind == "tuple_type" and isinstance(error["input"], dict):
        return f"an array of tables, each under the header [[{name}]]"
    for beginning, expected in _EXPECTED.items():
        if kind.startswith(beginning):
            return expected.format(**error.get("ctx", {}))
    expected = error["msg"].removeprefix("Input should be ")
    return f"a number {expected}" if kind.startswith(("greater", "less")) else expected


def _as_toml(value: Any) -> str:
    try:
        needs_quotes = isinstance(value, (str, bool, list, dict))
        text = json.dumps(value, default=str, ensure_ascii=False) if needs_quotes else str(value)
    except ValueError:
        text = "a number with too many digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _dotted(location: Location) -> str:
    name = ""
    for part in location:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            key = part if re.fullmatch(r"[\w.-]+", part) else _as_toml(part)
            name += f".{key}" if name else key
    return name


def _known_keys(model: type[BaseModel], location: Location) -> set[str]:
    """Keys of the table at `location` of a `model`."""
    models: list[type[BaseModel]] = [model]
    for part in location:
        fields = [kind for m in models for name, kind in _fields(m).items() if name == part]
        inner = [found for kind in fields for found in _models_in(kind)]
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
