"""Records as sequences of fields. The layout of a record is its class, a named tuple: its fields in their
order, packed as their types say (`sil.slurm.protocol.packing`); a type that is a named tuple is packed as
its own fields."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple, get_type_hints

from sil.slurm.protocol.packing import Number, Packed, ProtocolError


class Since(NamedTuple):
    """On a field: messages have it from this protocol version on; before, it reads as `otherwise`."""

    version: int
    otherwise: Any = None


class Before(NamedTuple):
    """On a field: messages have it before this protocol version; then, it reads as `otherwise`."""

    version: int
    otherwise: Any = None


class Each:
    """On a field: a bitmap or another value for each of the nodes that another field counts, after a byte
    that says whether they are given."""

    def __init__(self, content: Packed, counted_by: str) -> None:
        self.content, self.counted_by = content, counted_by

    def write(self, value: tuple[Any, ...] | None, version: int) -> bytes:
        if value is None:
            return b"\0"
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
        self._readers: list[Reader] = []
        self._writers: list[Writer] = []
        kinds = [
            (index, name, _kind(hint, version))
            for index, (name, hint) in enumerate(get_type_hints(record, include_extras=True).items())
        ]
        for are_numbers, group in groupby(kinds, lambda field: isinstance(field[2], Number)):
            fields = list(group)
            if are_numbers:
                self._add_numbers([(index, name, kind) for index, name, kind in fields])
            else:
                for index, name, kind in fields:
                    self._add(index, name, kind, version)

    def _add_numbers(self, fields: list[tuple[int, str, Any]]) -> None:
        """Numbers that follow each other are packed together."""
        packed = struct.Struct(">" + "".join(kind.code for _, _, kind in fields))
        first, end = fields[0][0], fields[-1][0] + 1

        def read(data: bytes, at: int, values: list[Any]) -> int:
            values += packed.unpack_from(data, at)
            return at + packed.size

        def write(record: Any) -> bytes:
            try:
                return packed.pack(*record[first:end])
            except struct.error:
                for index, name, kind in fields:
                    self._named(name, kind.write, record[index], 0)
                raise

        self._readers.append(read)
        self._writers.append(write)

    def _add(self, index: int, name: str, kind: Any, version: int) -> None:
        if isinstance(kind, Since | Before):
            self._readers.append(_missing(kind.otherwise))
            return

        def write(record: Any) -> bytes:
            packed: bytes = self._named(name, kind.write, record[index], version)
            return packed

        self._writers.append(write)
        if isinstance(kind, Each):
            counted, place = kind, self._record._fields.index(kind.counted_by)

            def read_counted(data: bytes, at: int, values: list[Any]) -> int:
                value, at = counted.read_counted(data, at, version, values[place])
                values.append(value)
                return at

            self._readers.append(read_counted)
        else:
            read_one = kind.read

            def read(data: bytes, at: int, values: list[Any]) -> int:
                value, at = read_one(data, at, version)
                values.append(value)
                return at

            self._readers.append(read)

    def _named(self, name: str, write: Callable[[Any, int], bytes], value: Any, version: int) -> bytes:
        try:
            return write(value, version)
        except ProtocolError as error:
            raise ProtocolError(f"{self._record.__name__}.{name}: {error}") from None

    def write(self, record: Any) -> bytes:
        """Raises ProtocolError for a value that cannot be packed."""
        return b"".join([write(record) for write in self._writers])

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


def _missing(value: Any) -> Reader:
    def read(data: bytes, at: int, values: list[Any]) -> int:
        values.append(value)
        return at

    return read


def _kind(hint: Any, version: int) -> Any:
    """How a field with this type is packed; a Since or Before if this version does not have it."""
    marks = getattr(hint, "__metadata__", ())
    for mark in marks:
        if (isinstance(mark, Since) and version < mark.version) or (
            isinstance(mark, Before) and version >= mark.version
        ):
            return mark
    for mark in marks:
        if hasattr(mark, "write"):
            return mark
    return Nested(getattr(hint, "__origin__", hint))


@cache
def layout(record: type, version: int) -> Layout:
    return Layout(record, version)
