"""Records as sequences of fields. The layout of a record is its class, a named tuple: its fields in their
order, packed as their types say (`fields`); a type that is a named tuple is packed as its own fields."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, get_type_hints

from sil.slurm.protocol.packing.fields import Number, Packed, ProtocolError


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


class Each:
    """On a field: a bitmap or another value for each of the nodes that another field counts, after a byte
    that says whether they are given."""

    def __init__(self, content: Packed, counted_by: str) -> None:
        self.content, self.counted_by = content, counted_by

    def write_counted(self, value: tuple[Any, ...] | None, version: int, count: int) -> bytes:
        if value is None:
            return b"\0"
        if len(value) != count:
            raise ProtocolError(f"it is given for {len(value)} of {count} nodes")
        return b"".join([b"\1", *(self.content.write(one, version) for one in value)])

    def read_counted(self, data: bytes, at: int, version: int, count: int) -> tuple[Any, int]:
        (flag,) = struct.unpack_from("B", data, at)
        at += 1
        if not flag:
            return None, at
        if count > len(data) - at:  # each takes a byte or more
            raise ProtocolError(f"there are no data for {count:,} nodes")
        found = []
        for _ in range(count):
            value, at = self.content.read(data, at, version)
            found.append(value)
        return tuple(found), at


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
        self._packed_as = list(packed_as(record, version).items())
        self._readers: list[Reader] = []
        self._writers: list[Writer] = []
        first = 0
        for are_numbers, group in groupby(self._packed_as, lambda field: isinstance(field[1], Number)):
            kinds = [kind for _, kind in group]
            if are_numbers:
                self._add_numbers(first, kinds)
            else:
                for index, kind in enumerate(kinds, first):
                    self._add(index, kind)
            first += len(kinds)

    def _add_numbers(self, first: int, kinds: list[Any]) -> None:
        """Numbers that follow each other are packed together."""
        packed = struct.Struct(">" + "".join(kind.code for kind in kinds))
        end = first + len(kinds)

        def read(data: bytes, at: int, values: list[Any]) -> int:
            values += packed.unpack_from(data, at)
            return at + packed.size

        self._readers.append(read)
        self._writers.append(lambda record: packed.pack(*record[first:end]))

    def _add(self, index: int, kind: Any) -> None:
        version = self._version
        if isinstance(kind, Since | Before):
            self._readers.append(_missing(kind.otherwise))
            return
        if isinstance(kind, Each):
            place = self._record._fields.index(kind.counted_by)
            self._readers.append(_counted_reader(kind, version, place))
            self._writers.append(lambda record: kind.write_counted(record[index], version, record[place]))
            return
        self._readers.append(_reader(kind, version))
        self._writers.append(lambda record: kind.write(record[index], version))

    def write(self, record: Any) -> bytes:
        """Raises ProtocolError for a value that cannot be packed."""
        try:
            return b"".join([write(record) for write in self._writers])
        except (ProtocolError, struct.error):
            raise ProtocolError(self._fault(record)) from None

    def _fault(self, record: Any) -> str:
        """Which field of a record cannot be packed, and why."""
        for (name, kind), value in zip(self._packed_as, record, strict=True):
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
        return self._record._make(values), at

    def _place(self, values: list[Any]) -> str:
        """The field that could not be read after these values, or the first of several numbers."""
        return f"{self._record.__name__}.{self._record._fields[len(values)]}"


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
    """How each field is packed; a Since or Before if this version does not have it."""
    hints = get_type_hints(record, include_extras=True)
    return {name: _kind(hint, version) for name, hint in hints.items()}


def _kind(hint: Any, version: int) -> Any:
    marks = getattr(hint, "__metadata__", ())
    for mark in marks:
        if (isinstance(mark, Since) and version < mark.version) or (
            isinstance(mark, Before) and version >= mark.version
        ):
            return mark
    for mark in marks:
        if isinstance(mark, Each) or hasattr(mark, "write"):
            return mark
    return Nested(getattr(hint, "__origin__", hint))


@cache
def layout(record: type, version: int) -> Layout:
    return Layout(record, version)
