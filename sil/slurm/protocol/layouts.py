"""Records as sequences of fields. The layout of a record is its class, a named tuple: its fields in their
order, packed as their types say (`fields`); a type that is a named tuple is packed as its own fields."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any, get_type_hints

from sil.slurm.protocol.fields import Number, Packed, ProtocolError
from sil.slurm.protocol.releases import check_version


@dataclass(frozen=True)
class Since:
    """On a field: messages have it from this protocol version on; before, it reads as `otherwise`."""

    version: int
    otherwise: Any = None


@dataclass(frozen=True)
class Before:
    """On a field: messages have it before this protocol version; then, it reads as `otherwise`."""

    version: int
    otherwise: Any = None


@dataclass(frozen=True)
class Became:
    """On a field: packed as `before`, and from this protocol version on as `since`."""

    version: int
    before: Any
    since: Any


@dataclass(frozen=True)
class Moved:
    """On a field: from this protocol version on, its place is in front of the field `to`."""

    version: int
    to: str


class Each:
    """On a field: a bitmap or another value for each of the nodes that another field counts; if `flagged`,
    after a byte that says whether they are given."""

    def __init__(self, content: Packed, counted_by: str, flagged: bool = True) -> None:
        self.content, self.counted_by, self.flagged = content, counted_by, flagged

    def write_counted(self, value: tuple[Any, ...] | None, version: int, count: int) -> bytes:
        if value is None and self.flagged:
            return b"\0"
        if value is None or len(value) != count:
            raise ProtocolError(f"it is given for {len(value or ())} of {count} nodes")
        packed = b"".join([self.content.write(one, version) for one in value])
        return b"\1" + packed if self.flagged else packed

    def read_counted(self, data: bytes, at: int, version: int, count: int) -> tuple[Any, int]:
        if self.flagged:
            at += 1
            if not struct.unpack_from("B", data, at - 1)[0]:
                return None, at
        if count > len(data) - at:  # each takes a byte or more
            raise ProtocolError(f"there are no data for {count:,} nodes")
        found = []
        for _ in range(count):
            value, at = self.content.read(data, at, version)
            found.append(value)
        return tuple(found), at


class Versioned:
    """What follows a protocol version, in which it is packed."""

    def __init__(self, content: Packed) -> None:
        self.content = content

    def write(self, value: Any, version: int) -> bytes:
        return struct.pack(">H", version) + self.content.write(value, version)

    def read(self, data: bytes, at: int, version: int) -> tuple[Any, int]:
        (version,) = struct.unpack_from(">H", data, at)
        check_version(version)
        return self.content.read(data, at + 2, version)


class Nested:
    """A record inside another."""

    def __init__(self, record: type) -> None:
        self.record = record

    def write(self, value: Any, version: int) -> bytes:
        return layout(self.record, version).write(value)

    def read(self, data: bytes, at: int, version: int) -> tuple[Any, int]:
        return layout(self.record, version).read(data, at)


Reader = Callable[[bytes, int, list[Any]], int]
"""Reads fields that begin at an offset, appends them to those before, and says where they end."""
Writer = Callable[[Any], bytes]


class Layout:
    """How records of a class are packed in one protocol version."""

    def __init__(self, record: type, version: int) -> None:
        self._record: Any = record
        self._version = version
        self._packed_as = packed_as(record, version)
        names = list(self._packed_as)
        self._places = [names.index(name) for name in get_type_hints(record)]
        """Of the fields of a record among those that are packed."""
        self._readers: list[Reader] = []
        self._writers: list[Writer] = []
        for are_numbers, group in groupby(
            self._packed_as.items(), lambda field: isinstance(field[1], Number)
        ):
            if are_numbers:
                self._add_numbers(dict(group))
            else:
                for name, kind in group:
                    self._add(name, kind)

    def _add_numbers(self, kinds: dict[str, Any]) -> None:
        """Numbers that follow each other are packed together."""
        packed = struct.Struct(">" + "".join(kind.code for kind in kinds.values()))

        def read(data: bytes, at: int, values: list[Any]) -> int:
            values += packed.unpack_from(data, at)
            return at + packed.size

        self._readers.append(read)
        self._writers.append(lambda record: packed.pack(*[getattr(record, name) for name in kinds]))

    def _add(self, name: str, kind: Any) -> None:
        version, value_of = self._version, attrgetter(name)
        if isinstance(kind, Since | Before):
            self._readers.append(_missing(kind.otherwise))
            return
        if isinstance(kind, Each):
            count_of = attrgetter(kind.counted_by)
            place = list(self._packed_as).index(kind.counted_by)
            self._readers.append(_counted_reader(kind, version, place))
            self._writers.append(
                lambda record: kind.write_counted(value_of(record), version, count_of(record))
            )
            return
        self._readers.append(_reader(kind, version))
        self._writers.append(lambda record: kind.write(value_of(record), version))

    def write(self, record: Any) -> bytes:
        """Raises ProtocolError for a value that cannot be packed."""
        try:
            return b"".join([write(record) for write in self._writers])
        except (ProtocolError, struct.error):
            raise ProtocolError(self._fault(record)) from None

    def _fault(self, record: Any) -> str:
        """Which field of a record cannot be packed, and why."""
        for name, kind in self._packed_as.items():
            value = getattr(record, name)
            try:
                if isinstance(kind, Each):
                    kind.write_counted(value, self._version, getattr(record, kind.counted_by))
                elif not isinstance(kind, Since | Before):
                    kind.write(value, self._version)
            except ProtocolError as error:
                return f"{self._record.__name__}.{name}: {error}"
        return f"{self._record.__name__} cannot be packed"

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        """The record that begins at `at`, and where it ends. Raises ProtocolError."""
        values: list[Any] = []
        try:
            for read in self._readers:
                at = read(data, at, values)
        except struct.error:
            raise ProtocolError(f"{self._place(values)}: the message ends in it") from None
        except ProtocolError as error:
            raise ProtocolError(f"{self._place(values)}: {error}") from None
        return self._record._make([values[place] for place in self._places]), at

    def _place(self, values: list[Any]) -> str:
        """The field that could not be read after these values, or the first of several numbers."""
        return f"{self._record.__name__}.{list(self._packed_as)[len(values)]}"


def _reader(kind: Packed, version: int) -> Reader:
    read_one = kind.read

    def read(data: bytes, at: int, values: list[Any]) -> int:
        value, at = read_one(data, at, version)
        values.append(value)
        return at

    return read


def _counted_reader(kind: Each, version: int, place: int) -> Reader:
    """The field at `place` counts."""

    def read(data: bytes, at: int, values: list[Any]) -> int:
        value, at = kind.read_counted(data, at, version, values[place])
        values.append(value)
        return at

    return read


def _missing(value: Any) -> Reader:
    def read(data: bytes, at: int, values: list[Any]) -> int:
        values.append(value)
        return at

    return read


def packed_as(record: type, version: int) -> dict[str, Any]:
    """How each field is packed, in their order; a Since or Before if this version does not have it."""
    hints = get_type_hints(record, include_extras=True)
    order = list(hints)
    for name, hint in hints.items():
        for mark in getattr(hint, "__metadata__", ()):
            if isinstance(mark, Moved) and version >= mark.version:
                order.remove(name)
                order.insert(order.index(mark.to), name)
    return {name: _kind(hints[name], version) for name in order}


def _kind(hint: Any, version: int) -> Any:
    marks = getattr(hint, "__metadata__", ())
    for mark in marks:
        if (isinstance(mark, Since) and version < mark.version) or (
            isinstance(mark, Before) and version >= mark.version
        ):
            return mark
    for mark in marks:
        if isinstance(mark, Became):
            return mark.since if version >= mark.version else mark.before
        if isinstance(mark, Each) or hasattr(mark, "write"):
            return mark
    return Nested(getattr(hint, "__origin__", hint))


@cache
def layout(record: type, version: int) -> Layout:
    return Layout(record, version)
