"""How single fields of Slurm's messages are packed: numbers in network order, counted texts, arrays, bitmaps.

A kind of fields is one function for both directions, so that what is written is checked as what is read:
with a `Writer` it appends a value, with a `Reader` it takes the next one (whatever is given); it returns
the value."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from sil.slurm.protocol.releases import ProtocolError, check_version

NO_VALUE_8, NO_VALUE_16, NO_VALUE_32, NO_VALUE_64 = 0xFE, 0xFFFE, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE
"""What stands for "not given" in a number."""
LARGEST_BITMAP = 1 << 24
"""The largest bitmap, in bits; a larger one is malformed."""


class Reader:
    """Takes values from `data`, of this version of the protocol. `at` is where the next one begins."""

    reads = True

    def __init__(self, data: bytes, version: int, at: int = 0) -> None:
        self.data, self.version, self.at = data, version, at
        self.n_nodes = 0
        """The latest `node_count`."""

    def numbers(self, packed: struct.Struct, values: Sequence[int]) -> tuple[int, ...]:
        try:
            found = packed.unpack_from(self.data, self.at)
        except struct.error:
            raise ProtocolError("the message ends in it") from None
        self.at += packed.size
        return found

    def octets(self, size: int, value: bytes) -> bytes:
        self.check_left(size)
        self.at += size
        return self.data[self.at - size : self.at]

    def check_left(self, n_bytes: int) -> None:
        """Raise ProtocolError if fewer bytes are left, before memory is taken for what they may be."""
        left = len(self.data) - self.at
        if n_bytes > left:
            raise ProtocolError(f"a field of {n_bytes:,} bytes begins where {left:,} are left")


class Writer:
    """Appends values to `parts`, for this version of the protocol."""

    reads = False

    def __init__(self, version: int) -> None:
        self.version = version
        self.parts: list[bytes] = []
        self.n_nodes = 0

    def numbers(self, packed: struct.Struct, values: Sequence[int]) -> Sequence[int]:
        try:
            self.parts.append(packed.pack(*values))
        except struct.error:
            what = values[0] if len(values) == 1 else f"one of {values}"
            bits = 8 * packed.size // max(1, len(values))
            raise ProtocolError(f"{what} does not fit into {bits} bits") from None
        return values

    def octets(self, size: int, value: bytes) -> bytes:
        self.parts.append(value)
        return value

    def check_left(self, n_bytes: int) -> None:
        """Do nothing: there is always room."""


Wire = Reader | Writer
Kind = Callable[[Wire, Any], Any]


def packed(kind: Kind, value: Any, version: int) -> bytes:
    """Pack a value. Raises ProtocolError for what cannot be packed."""
    writer = Writer(version)
    kind(writer, value)
    return b"".join(writer.parts)


def number(code: str) -> Kind:
    """An integer. Its format is that of `struct`."""
    one = struct.Struct(f">{code}")
    return lambda wire, value: wire.numbers(one, (value,))[0]


u8, u16, u32, u64 = map(number, "BHIQ")
time = number("q")
"""Seconds since 1970 in UTC."""


def node_count(wire: Wire, value: Any) -> int:
    """A number of nodes, for which `each` has values afterwards."""
    wire.n_nodes = u32(wire, value)
    return wire.n_nodes


def octets(wire: Wire, value: bytes | None) -> bytes:
    """Any bytes, after their number."""
    return wire.octets(u32(wire, len(value or b"")), value or b"")


def text(wire: Wire, value: str | None) -> str | None:
    """Bytes of UTF-8 that end with a zero byte, after their number. None has no bytes, not even that one."""
    given = b""
    if value is not None:
        try:
            given = value.encode("utf-8", "surrogateescape") + b"\0"
        except UnicodeEncodeError:
            raise ProtocolError(f"the text {value[:40]!r} has halves of characters") from None
        if "\0" in value:
            raise ProtocolError(f"the text {value[:40]!r} has a zero byte")
    found = octets(wire, given)
    if not found:
        return None
    if found.find(b"\0") != len(found) - 1:
        raise ProtocolError("a text does not end with its first zero byte")
    return found[:-1].decode("utf-8", "surrogateescape")


def numbers(code: str) -> Kind:
    """Integers of one format, after their number."""
    size = struct.calcsize(f">{code}")

    def kind(wire: Wire, values: Sequence[int] | None) -> tuple[int, ...]:
        n = u32(wire, len(values or ()))
        wire.check_left(n * size)
        return tuple(wire.numbers(struct.Struct(f">{n}{code}"), values or ()))

    return kind


def listed(each: Kind, count: Kind = u32) -> Kind:
    """Values packed alike, after their number. If the number is a word, None is a list that is not given."""

    def kind(wire: Wire, values: Sequence[Any] | None) -> tuple[Any, ...] | None:
        n = count(wire, NO_VALUE_32 if values is None else len(values))
        if n == NO_VALUE_32:
            return None
        wire.check_left(n)  # each takes a byte or more
        return tuple(each(wire, value) for value in (repeat(None, n) if wire.reads else values or ()))

    return kind


def flagged(content: Kind) -> Kind:
    """What a byte announces: 1 if it follows, 0 if it is not given (None)."""
    return lambda wire, value: content(wire, value) if u8(wire, value is not None) else None


def each(content: Kind, is_flagged: bool = True) -> Kind:
    """A value for each of the nodes counted before; if flagged, after a byte that says whether they are
    given."""

    def kind(wire: Wire, values: Sequence[Any] | None) -> tuple[Any, ...] | None:
        if is_flagged and not u8(wire, values is not None):
            return None
        n = wire.n_nodes
        wire.check_left(n)
        found = repeat(None, n) if wire.reads else values or ()
        if not wire.reads and len(values or ()) != n:
            raise ProtocolError(f"it is given for {len(values or ())} of {n} nodes")
        return tuple(content(wire, value) for value in found)

    return kind


def table(count: Kind, *codes: str) -> Kind:
    """Rows of numbers, packed column by column, after their number: "these CPUs on each of this number of
    nodes". Without rows, no column is packed."""
    columns = [numbers(code) for code in codes]

    def kind(wire: Wire, rows: Sequence[tuple[int, ...]] | None) -> tuple[tuple[int, ...], ...]:
        n = count(wire, len(rows or ()))
        given = zip(*rows, strict=True) if rows else repeat(())
        found = [column(wire, values) for column, values in zip(columns, given, strict=False) if n]
        for column in found:
            if len(column) != n:
                raise ProtocolError(f"a table of {n:,} rows has a column of {len(column):,}")
        return tuple(zip(*found, strict=True))

    return kind


class Bitmap(NamedTuple):
    """Bits, of which the first is the lowest of `mask`."""

    size: int
    mask: int

    def places(self, first: int = 0, after: int | None = None) -> list[int]:
        """The bits that are set from `first` on and before `after`, counted from `first`."""
        count = (self.size if after is None else after) - first
        part = (self.mask >> first) & ((1 << count) - 1)
        return [place for place in range(part.bit_length()) if part >> place & 1]

    def __str__(self) -> str:
        return f"0x{self.mask:0{(self.size + 3) // 4}X}"


def bits(wire: Wire, value: Bitmap | None) -> Bitmap | None:
    """A bitmap: its size, and its bits as text in hexadecimal digits. None is a size of its own."""
    size = u32(wire, NO_VALUE_32 if value is None else value.size)
    if size == NO_VALUE_32:
        return None
    digits = text(wire, None if value is None else str(value)) or ""
    if size > LARGEST_BITMAP or not re.fullmatch("0x[0-9A-F]+", digits):
        raise ProtocolError(f"a bitmap of {size:,} bits is not in hexadecimal digits: {digits[:40]!r}")
    found = Bitmap(size, int(digits, 16))
    if str(found) != digits or found.mask >> size:
        raise ProtocolError(f"a bitmap of {size:,} bits has others: {digits[:40]!r}")
    return found


def within(content: Kind) -> Kind:
    """A value inside a field of bytes, with the size of the field once more before it. None is a size of
    0."""

    def kind(wire: Wire, value: Any) -> Any:
        given = b"" if value is None else packed(content, value, wire.version)
        size = u32(wire, len(given))
        if not size:
            return None
        inside = Reader(octets(wire, given), wire.version)
        found, n = content(inside, None), len(inside.data)
        if inside.at != n or size != n:
            raise ProtocolError(f"a field of {size:,} bytes has {n:,}, of which {inside.at:,} were read")
        return found

    return kind


def versioned(content: Kind) -> Kind:
    """What follows a protocol version, in which it is packed."""

    def kind(wire: Wire, value: Any) -> Any:
        outside = wire.version
        wire.version = u16(wire, outside)
        check_version(wire.version)
        found = content(wire, value)
        wire.version = outside
        return found

    return kind


def after_mark(mark: int, content: Kind) -> Kind:
    """What follows a word that marks where it begins."""

    def kind(wire: Wire, value: Any) -> Any:
        if (found := u32(wire, mark)) != mark:
            raise ProtocolError(f"a record of generic resources begins with {found:#x} instead of {mark:#x}")
        return content(wire, value)

    return kind
