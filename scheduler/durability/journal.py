"""The journal of a resource manager: its entries, and their text in JSON.

An entry that is read equals the one that was written, types included.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import fields
from math import isfinite
from types import NoneType
from typing import Any, NamedTuple, Protocol

import numpy as np

from scheduler.mapping.etc import EtcMatrix
from scheduler.messages import UserError
from scheduler.model import (
    DispatchOrder,
    ExecutionRecord,
    InterconnectReading,
    Job,
    MachineReading,
    NodeReading,
    Share,
)
from scheduler.node_request import Gpus, Request
from scheduler.node_set import NodeSet
from scheduler.ports import RunEnded, RunLost
from scheduler.time_shared.social_contract import Requirement


class JournalEntry(NamedTuple):
    """One call of a resource manager: the method and its arguments, what it read through its ports, in order,
    and what it ordered: the names of methods of ports, and their arguments."""

    method: str
    arguments: tuple[Any, ...]
    reads: tuple[Any, ...]
    orders: tuple[tuple[str, tuple[Any, ...]], ...]


class Journal(Protocol):
    """What a resource manager remembers when its process ends. It grows with each call."""

    def append(self, entry: JournalEntry) -> None:
        """Add an entry. It is durable when this returns. Raises UserError if it cannot be stored; then the
        manager is ahead of its journal, which takes no further entry until it is opened anew."""

    def entries(self) -> Iterable[JournalEntry]:
        """All entries, oldest first."""


VERSION = 1
"""The version of the text. Raise it if the same text would mean something else."""

WITH_FIELDS: tuple[type, ...] = (
    DispatchOrder,
    EtcMatrix,
    ExecutionRecord,
    Gpus,
    InterconnectReading,
    Job,
    MachineReading,
    NodeReading,
    Request,
    Requirement,
    RunEnded,
    RunLost,
    Share,
)
"""Named tuples and data classes that occur in entries. No others are made from a text."""


class BadEntry(UserError):
    """An entry that cannot be written as text, or a text that is no entry. The message is a sentence."""


def text_of(entry: JournalEntry) -> str:
    """An entry as one line of ASCII, without its end. Raises BadEntry for a value of another class than
    those of jobs, orders, notices and readings."""
    found = {"version": VERSION, **{name: _plain(value) for name, value in entry._asdict().items()}}
    return json.dumps(found, separators=(",", ":"), allow_nan=False)


def entry_of(text: str | bytes) -> JournalEntry:
    """The entry that was written as `text`. Raises BadEntry."""
    try:
        found = json.loads(text, parse_constant=_no_json)
        version = found.pop("version")
        if version != VERSION:
            raise BadEntry(
                f"the journal's entry is of version {version!r}, and this program reads version {VERSION}; "
                "use the program that wrote it"
            )
        entry = JournalEntry(**{name: _value(part) for name, part in found.items()})
        if type(entry.method) is not str or any(type(part) is not tuple for part in entry[1:]):
            raise TypeError("its parts have the wrong types")
        return entry
    except BadEntry:
        raise
    except _OF_OTHER_TEXTS as error:
        raise BadEntry(f"this is no entry of a journal ({' '.join(str(error).split())})") from None


_OF_OTHER_TEXTS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Exceptions that a text which is no entry raises, also in classes that check their fields."""


class _Form(NamedTuple):
    """How the values of a class are written: {name: plain(value)}."""

    name: str
    plain: Callable[[Any], Any]
    value: Callable[[Any], Any]


def _plain(value: Any) -> Any:
    """A value as JSON: a tuple is an array, and what JSON lacks is an object with one name."""
    kind = type(value)
    if kind in _OF_JSON or (kind is float and isfinite(value)):
        return value
    if kind is tuple:
        return [_plain(part) for part in value]
    form = _FORM_OF.get(kind)
    if form is None:
        if not isinstance(value, np.generic):
            raise BadEntry(
                f"a journal cannot hold a value of the class {kind.__module__}.{kind.__qualname__}"
            )
        form = _SCALAR
    return {form.name: form.plain(value)}


def _value(plain: Any) -> Any:
    if type(plain) is list:
        return tuple(map(_value, plain))
    if type(plain) is not dict:
        return plain
    ((name, parts),) = plain.items()
    form = _FORM_NAMED.get(name)
    if form is None:
        raise BadEntry(f"the journal has a value of the class '{name}', which this program does not know")
    return form.value(parts)


def _with_fields(made: type) -> _Form:
    names = made._fields if hasattr(made, "_fields") else tuple(field.name for field in fields(made))
    return _Form(
        made.__name__,
        lambda value: {name: _plain(getattr(value, name)) for name in names},
        lambda parts: made(**{name: _value(part) for name, part in parts.items()}),
    )


def _plain_array(array: Any) -> list[Any]:
    if array.dtype.kind not in "biuf":
        raise BadEntry(f"a journal cannot hold an array of the type {array.dtype}")
    return [array.dtype.str, list(array.shape), b64encode(array.tobytes()).decode("ascii")]


def _array(parts: Any) -> Any:
    kind, shape, data = parts
    return np.frombuffer(b64decode(data, validate=True), dtype=np.dtype(kind)).reshape(shape).copy()


_OF_JSON = (NoneType, bool, int, str)
_ARRAY = _Form("array", _plain_array, _array)
_SCALAR = _Form("scalar", _plain_array, lambda parts: _array(parts)[()])
_FORM_OF: dict[type, _Form] = {
    float: _Form("float", repr, float),
    list: _Form("list", lambda value: [_plain(part) for part in value], lambda parts: list(_value(parts))),
    dict: _Form("dict", lambda value: _plain(tuple(value.items())), lambda parts: dict(_value(parts))),
    # In one order, so that the text is the same in each process.
    frozenset: _Form(
        "set", lambda found: _plain(tuple(sorted(found, key=repr))), lambda parts: frozenset(_value(parts))
    ),
    NodeSet: _Form("NodeSet", str, NodeSet.parse),
    np.ndarray: _ARRAY,
    **{made: _with_fields(made) for made in WITH_FIELDS},
}
_FORM_NAMED = {form.name: form for form in (*_FORM_OF.values(), _SCALAR)}


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
